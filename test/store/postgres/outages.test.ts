// What the database does not answer: whatever is cut and swallowed, an answer that was given is true, what was refused has
// not happened, and nothing happens twice.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import type { HoldCommand } from '../../../src/credits/ledger/ledger.ts'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { PostgresLedger, type PostgresLedgerParts } from '../../../src/store/postgres/ledger.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { Fenced, HistoryLost } from '../../../src/store/postgres/transactions.ts'
import { sql } from '../../../src/store/sql/work.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { CutProxy } from '../../support/cut-proxy.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

const deadlineMs = 1_000

describeOnPostgres('a connection to the ledger that is lost', () => {
  let url: string
  let admin: SQL
  let proxy: CutProxy
  let ledger: PostgresLedger
  let lost: unknown[]
  let noticed: PromiseWithResolvers<void>
  beforeAll(async () => {
    url = await freshDatabase('outages')
    admin = new SQL({ url, max: 1 })
  })
  beforeEach(async () => {
    await emptyTables(admin)
    proxy = new CutProxy(Number(new URL(url).port))
    lost = []
    noticed = Promise.withResolvers()
    ledger = await openLedger('process', proxy.port)
    await ledger.grant(grantOf('g', usd(1_000)))
    // A statement is prepared when it is sent for the first time: what the tests lose is to be the real one.
    await ledger.hold(holdOf('before'))
    await ledger.settle(settleOf('before', usd(1)))
  })
  afterEach(() => proxy.stop())
  afterAll(() => admin.close())

  function openLedger(
    owner: string,
    port: number,
    more: Partial<PostgresLedgerParts> = {},
  ): Promise<PostgresLedger> {
    const through = new URL(url)
    through.port = String(port)
    return PostgresLedger.open({
      server: through.href,
      owner,
      time: { clock: () => noon, backMs: 60_000, stepped: () => undefined },
      limits: defaultGroupLimits,
      deadlineMs,
      isDead: () => false,
      isRunning: () => true,
      lost: (error) => {
        lost.push(error)
        noticed.resolve()
      },
      ...more,
    })
  }

  /** Resolves when the proxy has kept something from either side. */
  async function withheld(): Promise<void> {
    while (proxy.withheld === 0) await new Promise((resolve) => setImmediate(resolve))
  }

  async function proven(): Promise<void> {
    proxy.carriage = 'pass'
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    await ledger.close()
  }

  const count = async (table: string) => {
    const [row] = await admin.unsafe(`SELECT count(*)::int AS count FROM ${table}`)
    return (row as { count: number }).count
  }

  test.each([
    ['after the database has written it', 'lose-answers'],
    ['before the database has seen it', 'lose-requests'],
  ] as const)('%s: the settle is booked once, and answered with what is booked', async (_, carriage) => {
    await ledger.hold(holdOf('c'))
    proxy.carriage = carriage
    const settled = ledger.settle(settleOf('c', usd('0.25')))
    await withheld()
    proxy.cut()
    proxy.carriage = 'pass'
    expect(await settled).toMatchObject({ kind: 'settled', charged: usd('0.25') })
    expect([await count('call'), await count('open_call')]).toEqual([2, 0])
    expect(await ledger.hold(holdOf('d'))).toMatchObject({ kind: 'held' })
    await proven()
  })

  test('an end that waits for an answer to be kept is an error after a while, and is booked when that is there', async () => {
    const kept = Promise.withResolvers<void>()
    const waiting = await openLedger('waiting', proxy.port, { before: () => kept.promise, patienceMs: 20 })
    await waiting.hold(holdOf('c', { owner: 'waiting' }))
    const settle = settleOf('c', usd('0.25'), { owner: 'waiting' })
    await expect(waiting.settle(settle)).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(await waiting.call('anna', 'c')).toMatchObject({ state: 'open' })
    kept.resolve()
    await kept.promise
    // Whatever comes now is behind it.
    await waiting.hold(holdOf('behind it', { owner: 'waiting' }))
    expect(await waiting.call('anna', 'c')).toMatchObject({ state: 'settled', charged: usd('0.25') })
    expect(await count('call')).toBe(2)
    await waiting.close()
    await proven()
  })

  test('without a word from anybody: after the deadline it is as if it were cut', async () => {
    proxy.carriage = 'lose-answers'
    const held = ledger.hold(holdOf('c'))
    await withheld()
    // The first try to connect anew finds no answer, either.
    const before = proxy.accepted
    while (proxy.accepted < before + 2) await new Promise((resolve) => setImmediate(resolve))
    proxy.carriage = 'pass'
    expect(await held).toMatchObject({ kind: 'held' })
    expect(await count('open_call')).toBe(1)
    await proven()
  })

  test('reads that lose their connection together share the next one', async () => {
    const read = () => Promise.all(Array.from({ length: 12 }, () => ledger.balance('anna')))
    proxy.carriage = 'lose-answers'
    const under = read()
    await withheld()
    proxy.carriage = 'pass'
    const before = proxy.accepted
    proxy.cut()
    expect(new Set((await under).map(({ lots }) => lots[0]!.remaining))).toEqual(new Set([usd(999)]))
    expect(proxy.accepted - before).toBe(1)
    await proven()
  })

  test('a server that has no room is as good as away for whoever asks: come again, and no fault', async () => {
    await admin.unsafe(`CREATE OR REPLACE FUNCTION full_disk() RETURNS bigint LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION USING errcode = '53100'; END $$`)
    const tables = new PostgresTables({ server: url, connections: 1 })
    await tables.open()
    const ask = sql('SELECT full_disk()')
    for (const way of [tables.do, tables.together, tables.reads]) {
      const asked = way.call(tables, () => ask.all())
      await expect(asked).rejects.toMatchObject({ code: 'store_unavailable' })
    }
    await tables.close()
    await ledger.close()
  })

  test('what was sent before, and arrives after all, does nothing', async () => {
    proxy.carriage = 'keep-requests'
    const held = ledger.hold(holdOf('c', { want: usd(3) }))
    await withheld()
    proxy.cut()
    proxy.carriage = 'pass'
    expect(await held).toMatchObject({ kind: 'held' })
    await ledger.settle(settleOf('c', usd(2)))
    const before = await ledger.balance('anna')
    expect(proxy.release()).toBeGreaterThan(0)
    // The old statement locks the row of the chain as this one does, and was there before.
    await admin.unsafe('SELECT pg_sleep(0.1)')
    expect(await ledger.balance('anna')).toEqual(before)
    expect([await count('call'), await count('open_call')]).toEqual([2, 0])
    await proven()
  })

  test('with a server that does not have what was acknowledged, ends the process', async () => {
    await ledger.hold(holdOf('c'))
    await admin.unsafe('UPDATE chain SET batch = batch - 1')
    proxy.cut()
    // Nobody is answered any more: whatever is said may not be true.
    ledger.settle(settleOf('c', usd(1))).catch(() => undefined)
    await noticed.promise
    expect(lost[0]).toBeInstanceOf(HistoryLost)
    await expect(ledger.hold(holdOf('d'))).rejects.toMatchObject({ code: 'store_unavailable' })
    expect([await count('call'), await count('open_call')]).toEqual([1, 1])
    await ledger.close().catch(() => undefined)
  })

  test('the same is noticed without a loss, and is told apart from a process that was fenced', async () => {
    const other = await openLedger('other', proxy.port)
    await admin.unsafe(`UPDATE chain SET batch = batch - 1 WHERE owner = 'process'`)
    await admin.unsafe(`UPDATE chain SET epoch = epoch + 1, owner = 'taken' WHERE owner = 'other'`)
    const refused = { code: 'store_unavailable' }
    await expect(ledger.hold(holdOf('c'))).rejects.toMatchObject(refused)
    await expect(other.hold(holdOf('d'))).rejects.toMatchObject(refused)
    expect([...new Set(lost.map((error) => (error as object).constructor))]).toEqual([HistoryLost, Fenced])
    expect(await count('open_call')).toBe(0)
    for (const each of [ledger, other]) await each.close().catch(() => undefined)
  })

  test('a database that is away: admissions are refused, ends of calls are kept and booked when it is back', async () => {
    await ledger.hold(holdOf('c'))
    proxy.carriage = 'lose-requests'
    proxy.cut()
    const settled = ledger.settle(settleOf('c', usd(1)))
    await withheld()
    await expect(ledger.hold(holdOf('d'))).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(ledger.balance('anna')).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(await ledger.writable()).toBe(false)
    proxy.carriage = 'pass'
    proxy.cut()
    expect(await settled).toMatchObject({ kind: 'settled', charged: usd(1) })
    expect(await ledger.hold(holdOf('d'))).toMatchObject({ kind: 'held' })
    await proven()
  })

  test('a server that stands still is not writable after a second, long before it counts as lost', async () => {
    const patient = await openLedger('patient', proxy.port, { deadlineMs: 3_600_000 })
    proxy.carriage = 'lose-requests'
    expect(await patient.writable()).toBe(false)
    expect(await patient.writable()).toBe(false)
    proxy.cut()
  })

  test('again and again, under load: every answer is true', async () => {
    const answers = new Map<string, 'held' | 'refused' | 'settled'>()
    const lane = async (n: number) => {
      for (let round = 0, settled = 0; settled < 40; round++) {
        const call = `c${n}.${round}`
        const of: Partial<HoldCommand> = {
          key: 'key',
          keyLimit: { limit: usd(500), windowStart: 0 },
          inGroup: {
            group: 'team',
            person: 'anna',
            budgets: [{ scope: 'team', limit: usd(500), windowStart: 0, windowEnd: null }],
          },
        }
        const held = await ledger.hold(holdOf(call, of)).catch((error: { code: string }) => error)
        if ('code' in held) expect(held.code).toBe('store_unavailable')
        answers.set(call, 'kind' in held && held.kind === 'held' ? 'held' : 'refused')
        if (answers.get(call) === 'refused') {
          // It is told to come again.
          await Bun.sleep(25)
          continue
        }
        expect(await ledger.settle(settleOf(call, usd('0.5')))).toMatchObject({
          kind: 'settled',
          charged: usd('0.5'),
        })
        answers.set(call, 'settled')
        settled++
      }
    }
    proxy.cutEvery = 19
    await Promise.all(Array.from({ length: 8 }, (_, n) => lane(n)))
    proxy.cutEvery = Number.POSITIVE_INFINITY
    expect(Math.min(proxy.cuts.requests, proxy.cuts.answers)).toBeGreaterThan(0)
    const rows: { id: string }[] = await admin.unsafe('SELECT id FROM call WHERE charged = $1', [usd('0.5')])
    const settled = [...answers].flatMap(([call, answer]) => (answer === 'settled' ? [call] : []))
    expect(rows.map(({ id }) => id).toSorted()).toEqual(settled.toSorted())
    expect([await count('call'), await count('open_call')]).toEqual([settled.length + 1, 0])
    expect(settled.length).toBeGreaterThan(0)
    await proven()
  })
})
