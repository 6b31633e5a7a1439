// What deleted accounts have left in the request log and among kept answers, on both databases.

import { expect, test } from 'bun:test'
import { day, noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const twoAccounts = `INSERT INTO account (id, email, created_at, suspended) VALUES
  ('anna', 'anna@example.org', 0, 0), ('bert', 'bert@example.org', 0, 0)`
const deleteAnna = `UPDATE account SET deleted_at = ${noon + 10} WHERE id = 'anna'`

/** So many rows of the log at few times, with what was asked and what a provider said of it. */
const logOf = (account: string, rows: number) =>
  `INSERT INTO request_log (request_id, at, account, model, stream, status, prompt_tokens, completion_tokens, cost,
     attempts, total_ms, detail, contents)
   VALUES ${Array.from({ length: rows }, (_, n) => {
     const detail = n % 2 === 0 ? `'{"message":"you said hello"}'` : 'NULL'
     return `('${account}-${n}', ${noon + (n % 7)}, '${account}', 'sim/echo', 0, 200, 1, 1, 5, 1, 1, ${detail}, '{"request":"hello"}')`
   }).join(', ')}`

/** How many rows each account has, and how many of them have contents. */
const leftInLog = `SELECT account, CAST(count(*) AS text) AS log_rows,
  CAST(count(coalesce(contents, detail)) AS text) AS with_contents FROM request_log GROUP BY account ORDER BY account`

describeOnBoth('deleted contents', (open) => {
  test('a long log is emptied of contents and keeps its rows; that of others is left alone', async () => {
    const { deletedContents, execute, read } = await open(() => noon)
    await execute(twoAccounts)
    await execute(logOf('anna', 300))
    await execute(logOf('bert', 1))
    await execute(deleteAnna)
    await deletedContents.erase('anna', noon + 10)
    expect(await read(leftInLog)).toEqual([
      { account: 'anna', log_rows: '300', with_contents: '0' },
      { account: 'bert', log_rows: '1', with_contents: '1' },
    ])
  })

  test('what a process that died had not erased is erased by the first sweep of the next', async () => {
    const { execute, read, beside } = await open(() => noon)
    await execute(twoAccounts)
    await execute(logOf('anna', 1))
    await execute(logOf('bert', 1))
    await execute(deleteAnna)
    const { deletedContents } = await beside()
    expect(await deletedContents.sweep(noon + 400 * day)).toBe(1)
    expect(await read(leftInLog)).toEqual([
      { account: 'anna', log_rows: '1', with_contents: '0' },
      { account: 'bert', log_rows: '1', with_contents: '1' },
    ])
    expect(await deletedContents.sweep(noon + 400 * day)).toBe(0)
  })

  test('answers that were kept go in whatever form, also those that come after the deletion', async () => {
    const { deletedContents, execute, responses, background, itemConversations, idempotency } = await open(
      () => noon,
    )
    await execute(twoAccounts)
    await execute(deleteAnna)
    expect(await deletedContents.sweep(noon + 20)).toBe(0)
    const claim = {
      account: 'anna',
      key: 'k',
      call: 'c',
      bodyHash: new Uint8Array(32),
      expiresAt: noon + day,
    }
    const body = new TextEncoder().encode('{"answer":42}')
    const leaving = [
      () => idempotency.claim(claim).then(() => idempotency.keep(claim, { status: 200, headers: {}, body })),
      () =>
        responses.keep({
          id: 'resp',
          account: 'anna',
          call: 'c',
          conversation: undefined,
          previous: undefined,
          expiresAt: noon + day,
          input: ['[]'],
          answer: ['{}'],
        }),
      () =>
        background.begin({
          id: 'resp',
          account: 'anna',
          key: null,
          idempotency: null,
          bodyHash: '',
          status: 'running' as const,
          expiresAt: noon + day,
          response: {},
        }),
      () =>
        itemConversations.create(
          { id: 'conv', account: 'anna', key: null, createdAt: noon, metadata: {} },
          [],
          noon + day,
        ),
    ]
    for (const leave of leaving) {
      await leave()
      expect(await deletedContents.sweep(noon + 30)).toBe(1)
      expect(await deletedContents.sweep(noon + 30)).toBe(0)
    }
  })
})
