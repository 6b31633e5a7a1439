// What is kept for a time only is deleted when it is over, in bites that leave the loop to others; money is for ever.

import { heapStats } from 'bun:jsc'
import { afterEach, expect, test } from 'bun:test'
import { mintSession } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import { one, openDatabase, openReader, withoutWaiting } from '../../../src/store/sqlite/database/sqlite.ts'
import { defaultRetention, type Retention } from '../../../src/store/sql/retention.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { eventually } from '../../support/call-gateway.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { retentionOf } from './support.ts'
import { processorMs } from '../../support/processor-time.ts'

const day = 86_400_000
const dirs: TempDir[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove()
})

function freshDir(): string {
  const dir = tempDir('weir-retention-')
  dirs.push(dir)
  return dir.join('data')
}

/** So many calls, one every ten minutes up to now. */
function fill(dataDir: string, rows: number, now = noon): void {
  const database = openDatabase(dataDir, noon)
  database.run(
    `INSERT INTO request_log (request_id, at, account, key, model, provider, stream, status, code, ending,
       prompt_tokens, completion_tokens, cost, attempts, first_byte_ms, total_ms, detail)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows - 1})
     SELECT printf('req_%032d', ${rows} - i), ${now} - i * 600000, 'account' || (i % 50), 'key' || (i % 70), 'sim/echo', 'sim', 0, 200,
       CASE WHEN i % 9 = 0 THEN 'overloaded' END, 'finished', 1, 1, 1, 1, 1, 1, '{"message":"some words of it"}' FROM n`,
  )
  database.close()
}

/** Round after round, until one finds nothing. */
async function sweptBy(retention: Pick<Retention, 'sweep'>, now: number): Promise<number> {
  let all = 0
  for (let gone = -1; gone !== 0; all += gone) gone = await retention.sweep(now)
  return all
}

test('ten years of calls and signatures come down to what is to be kept, and the ledger to nothing less', async () => {
  const dataDir = freshDir()
  let now = noon
  const store = await openStore(dataDir, { clock: () => now, serveAs: 'a' })
  for (let year = 0; year < 10; year++) {
    await store.ledger.grant(grantOf(`g${year}`, usd(1)))
    await store.ledger.hold(holdOf(`c${year}`))
    await store.ledger.settle(settleOf(`c${year}`, usd(0.01)))
    store.signatures.remember(`call_${year}`, 'sig')
    now += 365 * day
  }
  await store.close()
  fill(dataDir, 20_000, now)
  const later = await openStore(dataDir, { clock: () => now, serveAs: 'b' })
  // 90 days of one call every ten minutes, this moment's included.
  expect(await sweptBy(later.retention, now)).toBe(20_000 - 90 * 144 - 1 + 10)
  expect(await sweptBy(later.retention, now + 91 * day)).toBe(90 * 144 + 1)
  expect((await later.requests.page({ limit: 1 })).rows).toEqual([])
  expect(await later.retention.facts()).toEqual({ requests: null })
  const { account } = grantOf('g', usd(1))
  for (let year = 0; year < 10; year++)
    expect(await later.ledger.call(account, `c${year}`)).toMatchObject({ state: 'settled' })
  expect((await later.ledger.audit()).ok).toBe(true)
  await later.close()
}, 60_000)

test('thousands of ended sessions go, too, in as many bites as they take', async () => {
  const dataDir = freshDir()
  const database = openDatabase(dataDir, noon)
  database.run(
    `INSERT INTO account (id, email, created_at, suspended, role) VALUES ('anna', 'anna@example.org', 0, 0, 'user')`,
  )
  database.run(
    `INSERT INTO session (id, account, hash, last_four, created_at, expires_at)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
     SELECT printf('%012d', i), 'anna', printf('%064d', i), '0000', 0, i FROM n`,
  )
  const sweeping = retentionOf(database, { ...defaultRetention, requestsMs: 1000 })
  expect(await sweptBy(sweeping, noon)).toBe(5000)
  database.close()
})

test('no bite holds the loop for long, and others have their turn in between', async () => {
  const dataDir = freshDir()
  fill(dataDir, 40_000)
  const database = openDatabase(dataDir, noon)
  const held: number[] = []
  const retention = retentionOf(database, { ...defaultRetention, requestsMs: 1000 })
  let turns = 0
  let before = processorMs()
  // Every turn of the others tells how much processor time has passed since the one before: the loop's, and not that of
  // other work on the machine.
  const others = setInterval(() => {
    const now = processorMs()
    held.push(now - before)
    before = now
    turns += 1
  }, 1)
  const deleted = await retention.sweep(noon + day)
  clearInterval(others)
  expect(deleted).toBeGreaterThan(1_000)
  // The collector takes its time now and then.
  const sorted = held.toSorted((a, b) => a - b)
  expect(sorted[Math.floor(sorted.length * 0.95)]).toBeLessThan(5)
  expect(turns).toBeGreaterThan(100)
  // And money is as durable as before.
  expect(one(database, 'PRAGMA synchronous')).toBe(2n)
  expect(one(database, 'PRAGMA wal_autocheckpoint')).toBe(4000n)
  expect(one(database, 'PRAGMA busy_timeout')).toBe(5000n)
  expect(Number(one(database, 'SELECT count(*) FROM request_log'))).toBe(40_000 - deleted)
  database.close()
}, 60_000)

// The log grows while a backup or a report reads, and whoever commits next has to write all of it back: a call waited
// a quarter of a second.
test('a sweep waits for readers of what was before, so that the log stays short', async () => {
  const dataDir = freshDir()
  fill(dataDir, 20_000)
  const database = openDatabase(dataDir, noon)
  const reader = openReader(database.filename)
  reader.run('BEGIN')
  const count = (of: typeof reader) => Number(one(of, 'SELECT count(*) FROM request_log'))
  expect(count(reader)).toBe(20_000)
  const retention = retentionOf(database, { ...defaultRetention, requestsMs: 1000 })
  const sweep = retention.sweep(noon + day)
  let left = 20_000
  await eventually(
    async () => {
      await Bun.sleep(50)
      return left - (left = count(database))
    },
    (deleted) => left < 20_000 && deleted === 0,
  )
  expect(left).toBeGreaterThan(15_000)
  reader.run('COMMIT')
  expect((await sweep) + (await sweptBy(retention, noon + day))).toBe(20_000)
  reader.close()
  database.close()
}, 60_000)

test('while another process writes a sweep leaves it at that, and the next goes on', async () => {
  const dataDir = freshDir()
  fill(dataDir, 100)
  const database = openDatabase(dataDir, noon)
  const retention = retentionOf(database, { ...defaultRetention, requestsMs: 1000 })
  const other = openDatabase(dataDir, noon)
  other.run('BEGIN IMMEDIATE')
  expect(await retention.sweep(noon + day)).toBe(0)
  other.run('ROLLBACK')
  expect(await sweptBy(retention, noon + day)).toBe(100)
  other.close()
  database.run('PRAGMA query_only = 1')
  await expect(retention.sweep(noon + day)).rejects.toMatchObject({ code: 'store_unavailable' })
  database.close()
})

test('a sweep that runs when the store closes ends after its bite', async () => {
  const dataDir = freshDir()
  fill(dataDir, 20_000)
  const store = await openStore(dataDir, {
    clock: () => noon,
    retention: { ...defaultRetention, requestsMs: 1000 },
  })
  const sweep = store.retention.sweep(noon + day)
  await Bun.sleep(30)
  await store.close()
  expect(await sweep.catch(() => 'refused')).toSatisfy(
    (gone: unknown) => gone === 'refused' || (typeof gone === 'number' && gone < 20_000),
  )
})

test('deleting in bites leaves no statements behind in memory', () => {
  const database = openDatabase(freshDir(), noon)
  const statements = () => {
    Bun.gc(true)
    return heapStats().objectTypeCounts.SQLStatement ?? 0
  }
  const before = statements()
  for (let bites = 0; bites < 200; bites++) withoutWaiting(database, () => undefined)
  expect(statements()).toBeLessThan(before + 100)
  database.close()
})

describeOnBoth('retention', (openOne) => {
  test('sessions go a month after they were ended or expired, an open one never', async () => {
    let now = noon
    const store = await openOne(() => now)
    const { id: account } = await store.accounts.createAccount('anna@example.org')
    const session = async (expiresAt: number): Promise<string> => {
      const { id, hash, lastFour } = mintSession()
      const times = {
        createdAt: noon,
        expiresAt,
        revokedAt: null,
        seenAt: null,
        idleMs: null,
        elevatedUntil: null,
      }
      await store.accounts.insertSession({ id, account, hash, lastFour, userAgent: null, ...times })
      return id
    }
    const open = await session(noon + 365 * day)
    const ended = await session(noon + 365 * day)
    const expired = await session(noon + 2 * day)
    await store.accounts.revokeSession(ended, noon + day)
    const left = async () => {
      const swept = await sweptBy(store.retention, now)
      return [swept, (await store.accounts.listSessions(account)).map(({ id }) => id).toSorted()]
    }
    now = noon + 31 * day - 1
    expect(await left()).toEqual([0, [open, ended, expired].toSorted()])
    now += 1
    expect(await left()).toEqual([1, [open, expired].toSorted()])
    now += day
    expect(await left()).toEqual([1, [open]])
    now = noon + 364 * day
    expect(await left()).toEqual([0, [open]])
  })

  test('what has a time of its own goes after it, and a message that is not finished stays', async () => {
    const { retention, execute } = await openOne(() => noon)
    const seconds = (from: number) => Array.from({ length: 100 }, (_, n) => from + n * 1_000)
    await execute(
      `INSERT INTO request_log (request_id, at, account, model, stream, status, prompt_tokens, completion_tokens, cost,
         attempts, total_ms)
       VALUES ${seconds(noon)
         .map((at) => `('req_${at}', ${at}, 'anna', 'sim/echo', 0, 200, 1, 1, 1, 1, 1)`)
         .join(', ')}`,
    )
    await execute(
      `INSERT INTO signature (tool_call, signature, expires_at)
       VALUES ${seconds(noon)
         .map((at) => `('call_${at}', 'sig', ${at})`)
         .join(', ')}`,
    )
    await execute(
      `INSERT INTO payment_event (processor, id, type, at, hash, outcome, news) VALUES
       ('sim', 'a', 'paid', ${noon}, 'h', 'credited', '{}'), ('sim', 'b', 'paid', ${noon}, 'h', 'received', '{}'),
       ('other', 'a', 'paid', ${noon + day}, 'h', 'credited', '{}')`,
    )
    expect(await retention.facts()).toEqual({ requests: { since: noon, about: 100 } })
    expect(await sweptBy(retention, noon + 40_000)).toBe(41)
    expect(await sweptBy(retention, noon + 90 * day + 40_000)).toBe(40 + 59)
    expect(await retention.facts()).toEqual({ requests: { since: noon + 40_000, about: 60 } })
    expect(await sweptBy(retention, noon + 400 * day + 1)).toBe(60 + 1)
    expect(await sweptBy(retention, noon + 900 * day)).toBe(1)
    expect(await retention.facts()).toEqual({ requests: null })
  })
})
