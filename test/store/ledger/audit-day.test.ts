// One day of the ledger is proven by itself: what it covers, what it finds, and what it leaves to the whole audit.

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import type { Row } from '../../../src/store/schema.ts'
import { hashOf } from '../../../src/store/ledger-rows.ts'
import { day, grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { type TempDir, tempDir } from '../../support/tmp.ts'
import { forge, forgeries } from './forgeries.ts'

let dir: TempDir
let store: Store
let now: number

const today = noon - day / 2

beforeEach(async () => {
  dir = tempDir('weir-audit-day-')
  now = noon
  store = await openStore(dir.path, { clock: () => now, clockBackMs: 2 * day })
})
afterEach(async () => {
  await store.close()
  dir.remove()
})

async function charge(call: string, at: number): Promise<void> {
  now = at
  await store.ledger.hold(holdOf(call))
  await store.ledger.settle(settleOf(call, usd(1)))
}

async function voidCall(call: string, at: number): Promise<void> {
  now = at
  await store.ledger.hold(holdOf(call))
  await store.ledger.release({ call, owner: 'here', reason: 'unreachable', attempts: [] })
}

/** Transactions 1 to 3 yesterday, 4 to 6 today, 7 and 8 tomorrow. */
async function threeDays(): Promise<void> {
  now = noon - day
  await store.ledger.grant(grantOf('g', usd(100)))
  for (const call of ['x', 'y']) await charge(call, noon - day + minute)
  await charge('a', today)
  await voidCall('v', noon)
  await charge('b', noon)
  await charge('c', today + day - 1)
  for (const call of ['p', 'q']) await charge(call, today + day)
}

function outsider(act: (database: Database) => void): void {
  const database = new Database(join(dir.path, 'weir.db'), { safeIntegers: true })
  try {
    act(database)
  } finally {
    database.close()
  }
}

const broken = async (at: number) => (await store.ledger.auditDay(at)).checks.filter((check) => !check.ok)
const brokenInAll = async () => (await store.ledger.audit()).checks.filter((check) => !check.ok)

describe('the audit of a day', () => {
  test('covers what was booked from midnight to midnight, and says so', async () => {
    await threeDays()
    const whole = await store.ledger.audit()
    const [before, report, after] = await Promise.all(
      [today - day, today, today + day].map((at) => store.ledger.auditDay(at)),
    )
    expect(report).toMatchObject({ ok: true, journalEntries: 6, calls: 4 })
    expect(report!.journal).toMatchObject([{ firstTransaction: 4, lastTransaction: 6 }])
    expect(report!.checks.filter(({ ok }) => !ok)).toEqual([])
    // The days follow one another, from the beginning to the head.
    expect(before!.journal).toMatchObject([{ firstTransaction: 1, lastTransaction: 3 }])
    expect(before!.journal[0]?.givenHash).toBe('0'.repeat(64))
    expect(report!.journal[0]?.givenHash).toBe(before!.journal[0]!.headHash)
    expect(after!.journal[0]?.givenHash).toBe(report!.journal[0]!.headHash)
    expect(after!.journal[0]?.headHash).toBe(whole.headHash)
  })

  test('checks every promise of the whole audit or says that it has not', async () => {
    await threeDays()
    const { checks, notChecked } = await store.ledger.auditDay(today)
    const told = [...checks.map(({ name }) => name), ...notChecked]
    expect((await store.ledger.audit()).checks.filter(({ name }) => !told.includes(name))).toEqual([])
    expect(notChecked).toContain('the hash chain before and after the day')
  })

  test('a day on which nothing was booked is sound and empty', async () => {
    await threeDays()
    expect(await store.ledger.auditDay(today - 2 * day)).toMatchObject({
      ok: true,
      journalEntries: 0,
      calls: 0,
      journal: [],
    })
  })

  test('a day on which calls ended that cost nothing has no entries, and is checked all the same', async () => {
    now = noon
    await store.ledger.grant(grantOf('g', usd(10)))
    await voidCall('v', noon + day)
    expect(await store.ledger.auditDay(today + day)).toMatchObject({ ok: true, calls: 1, journal: [] })
    outsider((database) => forge(database, "UPDATE call SET settle_tx = 1 WHERE id = 'v'"))
    expect(await broken(today + day)).toMatchObject([{ detail: 'call v' }])
  })

  test('reads while another process holds the lock to write', async () => {
    await threeDays()
    using database = new Database(dir.join('weir.db'))
    database.run('BEGIN IMMEDIATE')
    expect((await store.ledger.auditDay(today)).ok).toBe(true)
  })

  test.each([20, 60 * 26])(
    'is sound, and misses no call, when the clock went back by %d minutes',
    async (back) => {
      const half = 60
      now = today + day - half * 30 * minute
      await store.ledger.grant(grantOf('g', usd(200)))
      for (let n = 0; n < 2 * half; n++) {
        await charge(`c${n}`, today + day + (n - half) * 30 * minute - (n >= half ? back * minute : 0))
      }
      const ended = await Promise.all(
        Array.from({ length: 5 }, (_, at) => store.ledger.auditDay(today + (at - 1) * day)),
      )
      expect(ended.flatMap(({ checks }) => checks.filter(({ ok }) => !ok))).toEqual([])
      expect(ended.reduce((sum, { calls }) => sum + calls, 0)).toBe(2 * half)
    },
  )
})

describe('a forged day', () => {
  test.each(forgeries.map((forgery) => [forgery.what, forgery] as const))(
    'its audit finds %s and names it',
    async (_what, { sql, found, foundOnDay }) => {
      await threeDays()
      const target = { tx: 5, call: 'b' }
      outsider((database) => forge(database, sql(target)))
      const { name, detail } = (foundOnDay ?? found)(target)
      expect(await broken(today)).toContainEqual({ name, ok: false, detail })
    },
  )

  test.each(forgeries.filter(({ ofDay }) => ofDay).map((forgery) => [forgery.what, forgery] as const))(
    'the audit of the day after does not find %s; the whole audit does',
    async (_what, { sql, found }) => {
      await threeDays()
      const target = { tx: 2, call: 'x' }
      outsider((database) => forge(database, sql(target)))
      expect(await broken(today)).toEqual([])
      expect(await broken(today - day)).not.toEqual([])
      const { name, detail } = found(target)
      expect(await brokenInAll()).toContainEqual({ name, ok: false, detail })
    },
  )

  test.each([
    ['the day’s first entry', 'UPDATE journal SET amount = 2 * amount WHERE tx = 4', 'transaction 4 leg 0'],
    ['its last', 'UPDATE journal SET amount = 2 * amount WHERE tx = 6', 'transaction 6 leg 0'],
    ['the first deleted', 'DELETE FROM journal WHERE tx = 4', 'transaction 5 leg 0'],
    ['the last deleted', 'DELETE FROM journal WHERE tx = 6', 'transaction 7 leg 0'],
    ['the time of one in between', 'UPDATE journal SET at = 1 WHERE tx = 5', 'transaction 5 leg 0'],
  ])('%s is found by the chain', async (_what, sql, detail) => {
    await threeDays()
    outsider((database) => forge(database, sql))
    expect((await broken(today))[0]).toEqual({ name: 'the hash chain verifies', ok: false, detail })
  })

  test('an entry that was moved into another day is found by the audit of that day', async () => {
    await threeDays()
    outsider((database) => forge(database, `UPDATE journal SET at = ${today - 1} WHERE tx = 4`))
    expect(await broken(today - day)).toContainEqual({
      name: 'the hash chain verifies',
      ok: false,
      detail: 'transaction 4 leg 0',
    })
  })

  test('a day that was written anew, with hashes that verify, is found at the entry that follows it', async () => {
    await threeDays()
    outsider((database) => {
      forge(database, 'UPDATE journal SET amount = 2 * amount WHERE tx = 6')
      const rows = database.query<Row<'journal'>, []>('SELECT * FROM journal WHERE tx = 6 ORDER BY leg').all()
      let head = rows[0]!.prev_hash
      for (const row of rows) {
        const hash = hashOf(head, row)
        database.run('UPDATE journal SET prev_hash = ?, hash = ? WHERE tx = 6 AND leg = ?', [
          head,
          hash,
          row.leg,
        ])
        head = hash
      }
    })
    expect(await broken(today)).toContainEqual({
      name: 'the hash chain verifies',
      ok: false,
      detail: 'transaction 7 leg 0',
    })
  })

  test.each([
    ['a call without its transaction', "UPDATE call SET settle_tx = 999 WHERE id = 'b'", 'call b'],
    ['a transaction without its call', "DELETE FROM call WHERE id = 'b'", 'transaction 5'],
    [
      'a call that was moved to another day',
      "UPDATE call SET ended_at = 1, settle_tx = NULL WHERE id = 'b'",
      'transaction 5',
    ],
    ['a charge on a void call', "UPDATE call SET settle_tx = 3 WHERE id = 'v'", 'call v'],
  ])('%s is found', async (_what, sql, detail) => {
    await threeDays()
    outsider((database) => {
      database.run('DROP INDEX call_settle_tx')
      database.run('CREATE INDEX call_settle_tx ON call (settle_tx) WHERE settle_tx IS NOT NULL')
      forge(database, sql)
    })
    expect(await broken(today)).toContainEqual(expect.objectContaining({ detail }))
  })

  test('an allowance that is not the day’s is found', async () => {
    now = noon
    const { lot } = await store.ledger.grant({
      ...grantOf('daily:anna:2026-11-21', usd('0.2')),
      pool: 'daily',
      expiresAt: today + day,
    })
    expect(await broken(today)).toEqual([])
    outsider((database) => forge(database, "UPDATE lot SET source = 'daily:anna:2026-11-20'"))
    expect(await broken(today)).toMatchObject([{ detail: `lot ${lot}` }])
  })
})
