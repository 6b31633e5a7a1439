// Stored responses: there from the moment their call is charged, for their account alone, until their time is over.

import { afterEach, describe, expect, test } from 'bun:test'
import { wholeAccount } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import type { KeepCommand } from '../../../src/responses/response-store.ts'
import { openDatabase, QueuedTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { SqliteLedger } from '../../../src/store/sqlite/ledger/ledger-store.ts'
import { SqlResponses } from '../../../src/store/sql/response-store.ts'
import { SpillFile } from '../../../src/store/commits/spill.ts'
import type { Store } from '../../../src/store/open.ts'
import { day, grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { UsageDays } from '../../../src/store/sqlite/ledger/calls.ts'

const dirs: TempDir[] = []
let now = noon

function freshDir(): string {
  const dir = tempDir('weir-responses-')
  dirs.push(dir)
  return dir.path
}

afterEach(async () => {
  now = noon
  for (const dir of dirs.splice(0)) dir.remove()
})

/** The response of the call of the same name: what was asked and answered is in its texts. */
const keepOf = (call: string, wanted: Partial<KeepCommand> = {}): KeepCommand => ({
  id: `resp_${call}`,
  account: 'anna',
  call,
  conversation: undefined,
  previous: undefined,
  expiresAt: now + 30 * day,
  input: [JSON.stringify([{ type: 'message', text: `asked ${call}` }])],
  answer: [JSON.stringify({ output: [{ type: 'message', text: `answered ${call}` }] })],
  ...wanted,
})

type Serving = Pick<Store, 'ledger' | 'responses'>

async function answered(store: Serving, call: string, wanted: Partial<KeepCommand> = {}): Promise<void> {
  await store.ledger.hold(holdOf(call))
  const kept = store.responses.keep(keepOf(call, wanted))
  await store.ledger.settle(settleOf(call, usd('0.1')))
  await kept
}

const roomy = 10_000_000
const anna = wholeAccount('anna')
const bob = wholeAccount('bob')

async function told(store: Serving, id: string, maxBytes = roomy): Promise<unknown> {
  const conversation = await store.responses.conversation(anna, id, maxBytes)
  return conversation.kind === 'whole' ? conversation.responses.map((one) => one.id) : conversation
}

describeOnBoth('stored responses', (openOne, database) => {
  const open = async () => {
    const store = await openOne(() => now)
    await store.ledger.grant(grantOf('g', usd(10)))
    return store
  }

  describe('a response', () => {
    test('is there as soon as its call is charged, for every process', async () => {
      const store = await open()
      const { responses } = await store.beside()
      await store.ledger.hold(holdOf('a'))
      const long = 'x'.repeat(600_000)
      const kept = store.responses.keep(keepOf('a', { input: [`"${long}"`] }))
      await store.ledger.settle(settleOf('a', usd('0.1')))
      expect(await responses.find(anna, 'resp_a')).toMatchObject({
        id: 'resp_a',
        previous: undefined,
        answer: keepOf('a').answer,
      })
      expect((await responses.find(anna, 'resp_a'))!.input.join('')).toBe(`"${long}"`)
      await kept
    })

    test('whose conversation was deleted while it was answered is not kept, nor any part of it', async () => {
      const store = await open()
      const conversation = {
        account: 'anna',
        title: 'Gone',
        model: null,
        lastResponse: null,
        folder: null,
        pinned: false,
        settings: null,
        share: null,
        createdAt: now,
        updatedAt: now,
      }
      await store.conversations.add({ ...conversation, id: 'conv_here' }, 10)
      await answered(store, 'a', { conversation: 'conv_here' })
      await answered(store, 'b', { conversation: 'conv_gone' })
      await answered(store, 'c', { conversation: 'conv_gone', input: ['x'.repeat(600_000)] })
      expect(await store.responses.find(anna, 'resp_a')).toMatchObject({ id: 'resp_a' })
      expect(await store.conversations.find('anna', 'conv_here')).toMatchObject({ lastResponse: 'resp_a' })
      for (const id of ['resp_b', 'resp_c']) expect(await store.responses.find(anna, id)).toBeUndefined()
      const { size } = (await store.responses.find(anna, 'resp_a'))!
      expect((await store.responses.storedBytes('anna')).bytes()).toBe(size)
    })

    test('is no other account’s, and cannot be deleted by one', async () => {
      const store = await open()
      await answered(store, 'a')
      expect(await store.responses.find(bob, 'resp_a')).toBeUndefined()
      expect(await store.responses.sizeOf(bob, 'resp_a')).toBeUndefined()
      expect(await store.responses.conversation(bob, 'resp_a', roomy)).toEqual({
        kind: 'missing',
        id: 'resp_a',
      })
      expect(await store.responses.delete(bob, 'resp_a')).toBe(false)
      const found = await store.responses.find(anna, 'resp_a')
      expect(found?.id).toBe('resp_a')
      expect(await store.responses.sizeOf(anna, 'resp_a')).toBe(found!.size)
    })

    test('is had by nobody whose call was not charged for it', async () => {
      const store = await open()
      for (const call of ['open', 'voided']) {
        await store.ledger.hold(holdOf(call))
        await store.responses.keep(keepOf(call))
      }
      await store.ledger.release({ call: 'voided', owner: 'here', reason: 'upstream_error', attempts: [] })
      for (const call of ['open', 'voided'])
        expect(await store.responses.find(anna, `resp_${call}`)).toBeUndefined()
    })

    test('is gone when it is deleted, and what it held with it', async () => {
      const store = await open()
      await answered(store, 'a')
      expect(await store.responses.delete(anna, 'resp_a')).toBe(true)
      expect(await store.responses.find(anna, 'resp_a')).toBeUndefined()
      expect(await store.responses.delete(anna, 'resp_a')).toBe(false)
    })

    test('expires, and is then forgotten', async () => {
      const store = await open()
      await answered(store, 'a')
      now = noon + 30 * day - 1
      expect((await store.responses.find(anna, 'resp_a'))?.id).toBe('resp_a')
      now = noon + 30 * day
      expect(await store.responses.find(anna, 'resp_a')).toBeUndefined()
      expect(await told(store, 'resp_a')).toEqual({ kind: 'missing', id: 'resp_a' })
      expect(await store.responses.sweep(noon + 31 * day - 1)).toBe(0)
      expect(await store.responses.sweep(noon + 31 * day)).toBe(1)
    })

    test('of nine megabytes is read while others have their turns', async () => {
      const store = await open()
      await answered(store, 'a', { answer: [JSON.stringify({ text: 'x'.repeat(9_000_000) })] })
      await answered(store, 'b', { previous: 'resp_a', answer: [`{"text":"${'y'.repeat(500_000)}"}`] })
      const sizes = await Promise.all(
        [1, 2].map(async () => {
          const read = await store.responses.conversation(anna, 'resp_b', 2 * roomy)
          return read.kind === 'whole' ? read.responses.map(({ answer }) => answer.join('').length) : read
        }),
      )
      expect(sizes).toEqual([1, 2].map(() => [9_000_011, 500_011]))
      let turns = 0
      let isReading = true
      const others = () => {
        turns++
        if (isReading) setImmediate(others)
      }
      setImmediate(others)
      const [found] = await Promise.all([1, 2].map(() => store.responses.find(anna, 'resp_a')))
      isReading = false
      expect(found?.size).toBeGreaterThan(9_000_000)
      // Thirty-five parts, of which two are read at once; by two readers.
      expect(turns).toBeGreaterThan(10)
    })

    test('that is deleted while it is read is not there', async () => {
      const store = await open()
      const answer = [JSON.stringify({ text: 'x'.repeat(3_000_000) })]
      await answered(store, 'a', { answer })
      const reading = store.responses.find(anna, 'resp_a')
      const readingAll = store.responses.conversation(anna, 'resp_a', roomy)
      expect(await store.responses.delete(anna, 'resp_a')).toBe(true)
      const [found, conversation] = [await reading, await readingAll]
      // SQLite deletes it in one turn, between two of its parts. PostgreSQL may have read all of them before: then it is whole.
      if (database === 'PostgreSQL' && found) expect(found.answer.join('')).toBe(answer[0]!)
      else expect(found).toBeUndefined()
      if (database === 'PostgreSQL' && conversation.kind === 'whole')
        expect(conversation.responses.map((one) => one.answer.join(''))).toEqual(answer)
      else expect(conversation).toEqual({ kind: 'missing', id: 'resp_a' })
    })

    test('is forgotten with many others in one round', async () => {
      const store = await open()
      for (let n = 0; n < 45; n++) await answered(store, `many${n}`, { expiresAt: noon })
      expect(await store.responses.sweep(noon + day)).toBe(45)
    })
  })

  describe('a conversation', () => {
    const threeTurns = async () => {
      const store = await open()
      await answered(store, 'a')
      await answered(store, 'b', { previous: 'resp_a' })
      await answered(store, 'c', { previous: 'resp_b' })
      return store
    }

    test('is all its responses, oldest first, and may branch', async () => {
      const store = await threeTurns()
      await answered(store, 'other', { previous: 'resp_a' })
      expect(await told(store, 'resp_c')).toEqual(['resp_a', 'resp_b', 'resp_c'])
      expect(await told(store, 'resp_other')).toEqual(['resp_a', 'resp_other'])
    })

    test('ends where one of its responses was deleted, and says which', async () => {
      const store = await threeTurns()
      await store.responses.delete(anna, 'resp_a')
      expect(await told(store, 'resp_c')).toEqual({ kind: 'missing', id: 'resp_a' })
    })

    test('is deleted with all that is left of it', async () => {
      const store = await threeTurns()
      await answered(store, 'other')
      await store.responses.delete(anna, 'resp_a')
      await store.responses.deleteConversation('bob', 'resp_c')
      expect(await told(store, 'resp_c')).toEqual({ kind: 'missing', id: 'resp_a' })
      await store.responses.deleteConversation('anna', 'resp_c')
      for (const id of ['resp_c', 'resp_b']) expect(await store.responses.find(anna, id)).toBeUndefined()
      expect((await store.responses.find(anna, 'resp_other'))?.id).toBe('resp_other')
    })

    test('is deleted with what had expired by itself', async () => {
      const store = await open()
      await answered(store, 'a')
      now = noon + 29 * day
      await answered(store, 'b', { previous: 'resp_a' })
      now = noon + 40 * day
      await store.responses.deleteConversation('anna', 'resp_b')
      expect((await store.responses.storedBytes('anna')).bytes()).toBe(0)
    })

    test('lives as long as its last response', async () => {
      const store = await open()
      await answered(store, 'a')
      now = noon + 29 * day
      await answered(store, 'b', { previous: 'resp_a' })
      now = noon + 58 * day
      await answered(store, 'c', { previous: 'resp_b' })
      now = noon + 80 * day
      expect(await store.responses.sweep(now)).toBe(0)
      expect(await told(store, 'resp_c')).toEqual(['resp_a', 'resp_b', 'resp_c'])
      // By itself its beginning has expired.
      expect(await store.responses.find(anna, 'resp_a')).toBeUndefined()
      expect(await store.responses.sweep(noon + 90 * day)).toBe(3)
    })

    test('that is larger than it may be is not read', async () => {
      const store = await threeTurns()
      const size = (await store.responses.find(anna, 'resp_a'))!.size
      expect(await told(store, 'resp_c', 3 * size)).toEqual(['resp_a', 'resp_b', 'resp_c'])
      expect(await told(store, 'resp_c', 3 * size - 1)).toEqual({ kind: 'too-large', bytes: 3 * size })
    })
  })

  test('all that an account has is forgotten, and nothing of another', async () => {
    const store = await open()
    for (let nth = 0; nth < 45; nth += 1) await answered(store, `a${nth}`)
    expect(await store.responses.forgetAccount('bert')).toBe(0)
    expect((await store.responses.storedBytes('anna')).bytes()).toBeGreaterThan(0)
    expect(await store.responses.forgetAccount('anna')).toBe(45)
    expect((await store.responses.storedBytes('anna')).bytes()).toBe(0)
    expect(await store.responses.find(anna, 'resp_a0')).toBeUndefined()
  })

  test('what an account has stored is added up, and what it deletes or outlives is not', async () => {
    const store = await open()
    const sizeOf = (call: string) => {
      const { input, answer } = keepOf(call)
      return Buffer.byteLength([...input, ...answer].join(''))
    }
    expect((await store.responses.storedBytes('anna')).bytes()).toBe(0)
    await answered(store, 'a')
    await answered(store, 'b')
    expect((await store.responses.storedBytes('anna')).bytes()).toBe(sizeOf('a') + sizeOf('b'))
    expect((await store.responses.storedBytes('bert')).bytes()).toBe(0)
    const other = await store.beside()
    expect((await other.responses.storedBytes('anna')).bytes()).toBe(sizeOf('a') + sizeOf('b'))
    await store.responses.delete(anna, 'resp_a')
    expect((await store.responses.storedBytes('anna')).bytes()).toBe(sizeOf('b'))
    now += 40 * day
    await store.responses.sweep(now)
    expect((await store.responses.storedBytes('anna')).bytes()).toBe(0)
  })
})

/** The parts of a store, so that a test can take the disk away from them. */
function ledgerOn(dataDir: string) {
  const database = openDatabase(dataDir, noon)
  const ledger = new SqliteLedger({
    database,
    path: `${dataDir}/weir.db`,
    time: { clock: () => noon, backMs: 0, stepped: () => undefined },
    limits: defaultGroupLimits,
    usage: new UsageDays(database),
    bufferedRows: [],
    isDead: () => false,
    isRunning: () => false,
    committed: () => undefined,
  })
  const responses = new SqlResponses(new QueuedTables(database, ledger), () => noon)
  return { dataDir, database, ledger, responses }
}

test('while nothing can be written a response waits with the settle that charges it, and leaves the file to the money', async () => {
  const { dataDir, database, ledger, responses } = ledgerOn(freshDir())
  const spill = new SpillFile(dataDir, noon)
  ledger.group.spillTo(spill)
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('a'))
  database.run('PRAGMA query_only = 1')
  const answer = JSON.stringify({ output: [], text: 'x'.repeat(100_000) })
  const kept = responses.keep(keepOf('a', { answer: [answer] }))
  const settled = ledger.settle(settleOf('a', usd(1)))
  await expect(ledger.hold(holdOf('b'))).rejects.toMatchObject({ code: 'store_unavailable' })
  expect(new SpillFile(dataDir, noon).read()).toMatchObject([{ kind: 'settle', command: { call: 'a' } }])
  expect(await responses.find(anna, 'resp_a')).toBeUndefined()
  database.run('PRAGMA query_only = 0')
  expect(await settled).toMatchObject({ kind: 'settled', charged: usd(1) })
  await kept
  expect((await responses.find(anna, 'resp_a'))?.answer.join('')).toBe(answer)
  await ledger.close()
  spill.close()
  database.close()
}, 10_000)

test('a response that finds no room waits alone, and the charges of all go on', async () => {
  const { database, ledger, responses } = ledgerOn(freshDir())
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('a'))
  const { page_count: pages } = database.prepare<{ page_count: bigint }, []>('PRAGMA page_count').get()!
  database.run(`PRAGMA max_page_count = ${pages + 60n}`)

  const answer = JSON.stringify({ output: [], text: 'x'.repeat(1_000_000) })
  const kept = responses.keep(keepOf('a', { answer: [answer] }))
  expect(await ledger.settle(settleOf('a', usd(1)))).toMatchObject({ kind: 'settled' })
  for (const call of ['b', 'c', 'd']) {
    await ledger.hold(holdOf(call))
    expect(await ledger.settle(settleOf(call, usd(1)))).toMatchObject({ kind: 'settled' })
  }
  expect(await responses.find(anna, 'resp_a')).toBeUndefined()
  expect(await ledger.writable()).toBe(true)

  database.run(`PRAGMA max_page_count = ${pages + 10_000n}`)
  await kept
  expect((await responses.find(anna, 'resp_a'))?.answer.join('')).toBe(answer)
  await ledger.close()
  database.close()
}, 10_000)

test('a response is had by nobody whose call was charged by recovery', async () => {
  const { database, ledger, responses } = ledgerOn(freshDir())
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('a'))
  await responses.keep(keepOf('a'))
  const cost = usd('0.01')
  const { usage } = settleOf('a', cost)
  await ledger.checkpoint({ call: 'a', owner: 'here', usage, cost, leaseUntil: noon + minute })
  await ledger.recover(noon + 2 * minute)
  expect(await ledger.call('anna', 'a')).toMatchObject({ state: 'settled', ending: 'recovered' })
  expect(await responses.find(anna, 'resp_a')).toBeUndefined()
  await ledger.close()
  database.close()
})

test('the texts of long responses go with the account that had them', async () => {
  const { database, ledger, responses } = ledgerOn(freshDir())
  const count = database.prepare<{ count: bigint }, []>('SELECT count(*) AS count FROM response_part')
  const text = 'x'.repeat(2_000_000)
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.grant({ ...grantOf('h', usd(10)), account: 'bert' })
  for (let nth = 0; nth < 6; nth++) await responses.keep(keepOf(`a${nth}`, { answer: [text] }))
  await responses.keep(keepOf('b', { account: 'bert', answer: [text] }))
  const before = count.get()!.count
  expect(await responses.forgetAccount('anna')).toBe(6)
  expect(count.get()!.count).toBe(before / 7n)
  await ledger.close()
  database.close()
})

describe('a long response', () => {
  test('is the same however large it is, and lies in parts that are written one by one', async () => {
    const { database, ledger, responses } = ledgerOn(freshDir())
    await ledger.grant(grantOf('g', usd(10)))
    await ledger.hold(holdOf('a'))
    // Pairs of surrogates: wherever a part ends, one of them would be cut.
    const input = JSON.stringify([{ text: `x${'🌊'.repeat(700_000)}` }])
    const answer = JSON.stringify({ output: [{ text: '🌊'.repeat(700_000) }] })
    // They come in pieces of any length.
    const kept = responses.keep(
      keepOf('a', { input: [input.slice(0, 10), input.slice(10)], answer: answer.match(/.{1,4000}/gu)! }),
    )
    const settled = ledger.settle(settleOf('a', usd(1)))
    expect(await responses.find(anna, 'resp_a')).toBeUndefined()
    await settled
    const found = await responses.find(anna, 'resp_a')
    expect(Bun.hash(found!.input.join(''))).toBe(Bun.hash(input))
    expect(Bun.hash(found!.answer.join(''))).toBe(Bun.hash(answer))
    await kept
    const { most, count } = database
      .prepare<{ most: bigint; count: bigint }, []>(
        'SELECT max(length(text)) AS most, count(*) AS count FROM response_part',
      )
      .get()!
    expect(most).toBeLessThanOrEqual(262_144n)
    expect(count).toBeGreaterThan(5n)
    // A second version, as of a failure, leaves nothing of the first behind.
    await responses.keep(keepOf('a'))
    expect((await responses.find(anna, 'resp_a'))?.input).toEqual(keepOf('a').input)
    expect(database.prepare('SELECT 1 FROM response_part').all()).toEqual([])
    await ledger.close()
    database.close()
  })

  test('of which a part is missing is had by nobody', async () => {
    const { database, ledger, responses } = ledgerOn(freshDir())
    await ledger.grant(grantOf('g', usd(10)))
    await ledger.hold(holdOf('a'))
    const kept = responses.keep(keepOf('a', { answer: [JSON.stringify({ text: 'x'.repeat(600_000) })] }))
    await ledger.settle(settleOf('a', usd(1)))
    await kept
    expect((await responses.find(anna, 'resp_a'))?.id).toBe('resp_a')
    database.run('DELETE FROM response_part WHERE part = 1')
    expect(await responses.find(anna, 'resp_a')).toBeUndefined()
    expect(await responses.conversation(anna, 'resp_a', roomy)).toEqual({ kind: 'missing', id: 'resp_a' })
    expect(await responses.sweep(noon + 31 * day)).toBe(1)
    expect(database.prepare('SELECT 1 FROM response_part').all()).toEqual([])
    await ledger.close()
    database.close()
  })
})
