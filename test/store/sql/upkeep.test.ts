// Notes of upkeep, sums for alarms, and the search of operators, the same on both databases.

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { startOfDay } from '../../../src/credits/calendar.ts'
import { usd } from '../../../src/credits/money.ts'
import { day, grantOf, holdOf, noon, servedBySim, settleOf } from '../../credits/support.ts'
import { openStore } from '../../../src/store/open.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { tempDir } from '../../support/tmp.ts'

describeOnBoth('upkeep', (open) => {
  test('a note replaces the one before it', async () => {
    const { upkeep } = await open(() => noon)
    expect(await upkeep.findNote('audit')).toBeUndefined()
    await upkeep.keepNote({ name: 'audit', at: noon, value: { ok: false } })
    await upkeep.keepNote({ name: 'audit', at: noon + 1, value: { ok: true, of: ['a'] } })
    expect(await upkeep.findNote('audit')).toEqual({
      name: 'audit',
      at: noon + 1,
      value: { ok: true, of: ['a'] },
    })
  })

  test('what was spent is told of the installation, of an account, and of days', async () => {
    let now = noon - day
    const { ledger, spending } = await open(() => now)
    await ledger.grant(grantOf('g', usd(10)))
    const spend = async (call: string, cost: bigint) => {
      await ledger.hold(holdOf(call, { leaseUntil: now + day }))
      await ledger.settle(settleOf(call, cost))
    }
    await spend('c1', usd('0.25'))
    now = noon
    await spend('c2', usd('0.5'))
    const today = startOfDay(noon)
    expect(await spending.ofInstallation(today - day, today + day)).toBe(0.75)
    expect(await spending.ofInstallation(today, today + day)).toBe(0.5)
    expect(await spending.ofAccount('anna', today - day, today)).toBe(0.25)
    expect(await spending.ofAccount('berta', today - day, today)).toBe(0)
    expect(await spending.ofDays([today - 7 * day, today - day, today])).toEqual(
      new Map([
        [today - day, 0.25],
        [today, 0.5],
      ]),
    )
  })

  test('operators find accounts, keys, calls, payments and vouchers by a piece of text', async () => {
    const { execute, finder, ledger } = await open(() => noon)
    await execute(
      `INSERT INTO account (id, email, created_at, suspended) VALUES ('acct_1','ada@example.org',5,0), ('acct_2','adele@example.org',6,1)`,
    )
    await execute(
      `INSERT INTO management_key (id, account, name, hash, last_four, created_at, expires_at)
       VALUES ('mk1','acct_1','deploy','h','wxyz',7,8)`,
    )
    await execute(`INSERT INTO request_log (request_id, at, account, model, stream, status, code, prompt_tokens, completion_tokens,
      cost, attempts, total_ms) VALUES ('req_1', 9, 'acct_1', 'sim/echo', 0, 200, NULL, 1, 1, 1, 1, 1),
      ('req_2', 9, '', 'sim/echo', 0, 402, 'insufficient_credits', 1, 1, 1, 1, 1)`)
    await execute(`INSERT INTO voucher (id, hash, amount, note, created_at, account, redeemed_at)
      VALUES ('vch_1', 'aa', 2500000000000, '', 11, 'acct_1', 12)`)
    const ada = { id: 'acct_1', email: 'ada@example.org' }
    const found = async (text: string) =>
      (await finder.find(text, 5)).map(({ kind, id, state }) => `${kind} ${id} ${state}`)
    expect(await found('AD')).toEqual(['account acct_1 active', 'account acct_2 suspended'])
    expect(await finder.find('acct_1', 5)).toEqual([
      { kind: 'account', id: 'acct_1', title: 'ada@example.org', account: ada, at: 5, state: 'active' },
    ])
    expect(await finder.find('…wxyz', 5)).toEqual([
      { kind: 'management_key', id: 'mk1', title: 'deploy …wxyz', account: ada, at: 7, state: 'expired' },
    ])
    expect(await found('resp_1')).toEqual(['request req_1 served'])
    expect(await finder.find('req_2', 5)).toMatchObject([{ account: null, state: 'insufficient_credits' }])
    expect(await finder.find('vch_1', 5)).toMatchObject([
      { title: '2.5 USD', state: 'redeemed', account: ada },
    ])
    expect(await found('nothing at all')).toEqual([])
    // A call that the log holds no more is found in the ledger, also by the id that its provider gave it.
    await ledger.grant(grantOf('g', usd(1)))
    await ledger.hold(holdOf('req_3'))
    await ledger.settle(settleOf('req_3', 1n, { served: { ...servedBySim, upstreamId: 'chatcmpl-7' } }))
    expect(await found('req_3')).toEqual(['request req_3 finished'])
    expect(await found('chatcmpl-7')).toEqual(['request req_3 finished'])
  })
})

test('a command that keeps a note beside a server waits until that has written', async () => {
  using folder = tempDir()
  const store = await openStore(folder.path, { clock: () => noon })
  const writes = `
    import { Database } from 'bun:sqlite'
    const database = new Database(process.argv[1])
    database.run('BEGIN IMMEDIATE')
    console.log('writing')
    Bun.sleepSync(300)
    database.run('COMMIT')`
  const server = Bun.spawn([process.execPath, '-e', writes, join(folder.path, 'weir.db')], { stdout: 'pipe' })
  await server.stdout.getReader().read()
  await store.upkeep.keepNote({ name: 'audit', at: noon, value: { ok: true } })
  expect(await store.upkeep.findNote('audit')).toMatchObject({ at: noon })
  expect(await server.exited).toBe(0)
  await store.close()
})
