// What is kept of answers beside the responses themselves: those made in the background, conversations of items; and that
// nothing is kept twice where the outcome of a write was not heard.

import { describe, expect, test } from 'bun:test'
import { wholeAccount } from '../../../src/accounts/account.ts'
import { type BackgroundRecord, endInterrupted } from '../../../src/responses/background.ts'
import { openStore } from '../../../src/store/open.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { SqlBackground, SqlResponses } from '../../../src/store/sql/response-store.ts'
import { SqlItemConversations } from '../../../src/store/sql/conversations.ts'
import type { Work } from '../../../src/store/sql/work.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { day, noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'
import { tempDir } from '../../support/tmp.ts'

const anna = wholeAccount('anna')

const backgroundOf = (id: string, wanted: Partial<BackgroundRecord> = {}): BackgroundRecord => ({
  id,
  account: 'anna',
  key: null,
  idempotency: null,
  bodyHash: 'ab',
  status: 'running',
  expiresAt: noon + day,
  response: { id },
  ...wanted,
})

const conversationOf = (id: string) => ({
  id,
  account: 'anna',
  key: null,
  createdAt: noon,
  metadata: { topic: 'weirs' },
})
const itemOf = (id: string) => ({ id, type: 'message', text: `Grüße, ${id}` })
const bytesOf = (...ids: readonly string[]) =>
  ids.reduce((sum, id) => sum + Buffer.byteLength(JSON.stringify(itemOf(id))), 0)

describeOnBoth('kept answers', (open) => {
  test('it is known under which Idempotency-Key a call was made', async () => {
    const { idempotency } = await open(() => noon)
    const claim = (call: string) => ({
      account: 'anna',
      key: `key-${call}`,
      bodyHash: new Uint8Array([1, 2]),
      call,
      expiresAt: noon + day,
    })
    for (const call of ['a', 'b', 'c']) await idempotency.claim(claim(call))
    const known = await idempotency.claimsOf(['c', 'a', 'none'])
    expect(
      known.map(({ key, call, bodyHash }) => `${call} ${key} ${[...bodyHash].join('')}`).toSorted(),
    ).toEqual(['a key-a 12', 'c key-c 12'])
  })

  test('of one Idempotency-Key one response is begun, whoever asks for it', async () => {
    const store = await open(() => noon)
    const both = [store, await store.beside()]
    for (let round = 0; round < 8; round++) {
      const begun = await Promise.all(
        [0, 1, 2, 3].map((n) =>
          both[n % 2]!.background.begin(backgroundOf(`r${round}-${n}`, { idempotency: `k${round}` })),
        ),
      )
      const first = begun.indexOf(undefined)
      const known = backgroundOf(`r${round}-${first}`, { idempotency: `k${round}` })
      expect(begun).toEqual([0, 1, 2, 3].map((n) => (n === first ? undefined : known)))
    }
  })

  test('whoever sees that a response has ended sees all its events, in order', async () => {
    const store = await open(() => noon)
    const { background } = await store.beside()
    await store.background.begin(backgroundOf('r'))
    const events = Array.from({ length: 40 }, (_, n) => JSON.stringify({ sequence_number: n }))
    for (let from = 0; from < 40; from += 2) store.background.append('r', from, events.slice(from, from + 2))
    await store.background.end('r', 'ended')
    expect(await background.find(anna, 'r')).toEqual(backgroundOf('r', { status: 'ended' }))
    expect(await background.events('r', -1)).toEqual(events)
    expect(await background.events('r', 12)).toEqual(events.slice(13))
    expect(await background.find(wholeAccount('bert'), 'r')).toBeUndefined()
    // Nothing is added to what is gone.
    await store.background.delete('r')
    store.background.append('r', 40, events.slice(0, 1))
    await store.background.end('r', 'ended')
    expect(await background.events('r', -1)).toEqual([])
    await store.background.begin(backgroundOf('other'))
    expect(await background.sweep(noon + day)).toBe(1)
  })

  test('items stand in the order in which they were added, and are measured', async () => {
    const { itemConversations } = await open(() => noon)
    await itemConversations.create(conversationOf('conv'), [itemOf('a')], noon + day)
    await itemConversations.add('conv', ['b', 'c'].map(itemOf), noon + 2 * day)
    await itemConversations.add('conv', [itemOf('a')], noon)
    expect((await itemConversations.items('conv')).map(({ item }) => item)).toEqual(
      ['a', 'b', 'c', 'a'].map(itemOf),
    )
    expect(await itemConversations.size('conv')).toBe(bytesOf('a', 'b', 'c', 'a'))
    expect(await itemConversations.removeItem('conv', 'a')).toBe(true)
    expect(await itemConversations.removeItem('conv', 'a')).toBe(false)
    expect(await itemConversations.accountBytes('anna')).toBe(bytesOf('b', 'c'))
    expect(await itemConversations.find(anna, 'conv')).toEqual(conversationOf('conv'))
    expect(await itemConversations.find({ ...anna, line: 'key1' }, 'conv')).toBeUndefined()
    expect(await itemConversations.sweep(noon + day)).toBe(0)
    await itemConversations.delete('conv')
    await itemConversations.add('conv', [itemOf('d')], noon + day)
    expect(await itemConversations.items('conv')).toEqual([])
    expect(await itemConversations.accountBytes('anna')).toBe(0)
  })
})

describe('a response that nobody makes any more', () => {
  test('is one whose process has died, on SQLite, and one that is older than the names of processes', async () => {
    const folder = tempDir('weir-interrupted-')
    const first = await openStore(folder.path, { clock: () => noon, serveAs: 'first' })
    await first.background.begin(backgroundOf('left'))
    await first.background.begin(backgroundOf('older'))
    expect(await first.background.listInterrupted()).toEqual([])
    await first.close()
    const file = openDatabase(folder.path, noon)
    file.run("UPDATE background SET owner = NULL WHERE id = 'older'")
    file.close()
    const second = await openStore(folder.path, { clock: () => noon, serveAs: 'second' })
    await second.background.begin(backgroundOf('mine'))
    const found = await second.background.listInterrupted()
    expect(found.map(({ id }) => id).toSorted()).toEqual(['left', 'older'])
    expect(await endInterrupted(second.background)).toBe(2)
    expect(await endInterrupted(second.background)).toBe(0)
    expect(await second.background.find(anna, 'left')).toMatchObject({ status: 'ended' })
    await second.close()
    folder.remove()
  })
})

describeOnPostgres('a response that another process makes', () => {
  test('is interrupted once that process has ended, not before', async () => {
    const url = await freshDatabase('interrupted')
    const open = (owner: string) => openOnPostgres(url, { clock: () => noon, owner })
    const [first, second] = [await open('first'), await open('second')]
    await first.background.begin(backgroundOf('left'))
    await second.background.begin(backgroundOf('mine'))
    expect(await endInterrupted(second.background)).toBe(0)
    await first.close()
    expect(await endInterrupted(second.background)).toBe(1)
    expect(await second.background.find(anna, 'left')).toMatchObject({ status: 'ended' })
    expect(await second.background.find(anna, 'mine')).toMatchObject({ status: 'running' })
    await second.close()
  })
})

/** Does again what was done, as after a commit whose answer was lost. */
class Deaf extends PostgresTables {
  override persist(of: string, ...works: readonly (() => Work<unknown>)[]): Promise<void> {
    return super.persist(of, ...works.flatMap((work) => [work, work]))
  }
}

describeOnPostgres('what is persisted once more', () => {
  test('is there once', async () => {
    const tables = new Deaf({ server: await freshDatabase('persisted_once_more') })
    await tables.open()
    const items = new SqlItemConversations(tables, () => noon)
    await items.create(conversationOf('conv'), [itemOf('a')], noon + day)
    await items.add('conv', ['b', 'b'].map(itemOf), noon + day)
    await items.add('conv', ['b', 'b'].map(itemOf), noon + day)
    expect((await items.items('conv')).map(({ item }) => item)).toEqual(['a', 'b', 'b', 'b', 'b'].map(itemOf))
    expect(await items.size('conv')).toBe(bytesOf('a', 'b', 'b', 'b', 'b'))

    const background = new SqlBackground(tables, { clock: () => noon, owner: 'here', isDead: () => false })
    await background.begin(backgroundOf('r'))
    background.append('r', 0, ['{}', '[]'])
    await background.end('r', 'cancelled')
    expect(await background.events('r', -1)).toEqual(['{}', '[]'])

    const responses = new SqlResponses(tables, () => noon)
    const kept = {
      id: 'resp',
      account: 'anna',
      call: 'c',
      conversation: undefined,
      previous: undefined,
      expiresAt: noon + day,
      input: ['x'.repeat(600_000)],
      answer: ['y'.repeat(400_000)],
    }
    await responses.keep(kept)
    expect((await responses.storedBytes('anna')).bytes()).toBe(1_000_000)
    const others = await new SqlResponses(tables, () => noon).storedBytes('anna')
    expect(others.bytes()).toBe(1_000_000)
    await tables.close()
  })
})
