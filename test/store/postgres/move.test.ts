// An installation on SQLite, with something of everything, moves to PostgreSQL: the same rows, the same journal, and the calls
// that were open go on there. Or nothing moves.

import { afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import { moveToPostgres } from '../../../src/store/move.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { schemaVersion } from '../../../src/store/sqlite/database/sqlite.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const fixture = join(import.meta.dir, '../../fixtures/schema', `${schemaVersion}.db.gz`)
const now = noon + 1_000
const clock = () => now

describeOnPostgres('an installation on SQLite', () => {
  let url: string
  let admin: SQL
  let dir: TempDir
  let data: string
  beforeAll(async () => {
    url = await freshDatabase('moving')
    admin = new SQL({ url, max: 1, bigint: true })
  })
  beforeEach(async () => {
    await emptyTables(admin)
    dir = tempDir('weir-move-')
    data = dir.join('data')
    mkdirSync(data)
    writeFileSync(join(data, 'weir.db'), Bun.gunzipSync(readFileSync(fixture)))
  })
  afterEach(() => dir.remove())

  const move = () => moveToPostgres(data, { url }, { clock, catalog: '{"of":"ours"}' })
  const count = async (table: string) => {
    const [row] = (await admin.unsafe(`SELECT count(*) AS count FROM "${table}"`)) as { count: bigint }[]
    return Number(row!.count)
  }

  test('moves whole: every row, the chain to its end, and what is open', async () => {
    const before = await openStore(data, { clock })
    await before.ledger.grant(grantOf('of beth', usd(5), { account: 'beth' }))
    const team = { scope: 'team', limit: usd(9), windowStart: 0, windowEnd: null }
    const inGroup = { group: 'team', person: 'beth', budgets: [team] }
    await before.ledger.hold(holdOf('of beth', { account: 'beth', inGroup, leaseUntil: now + 60_000 }))
    await before.close()

    const report = await move()
    const sqlite = new Database(join(data, 'weir.db'), { readonly: true })
    const tables = sqlite
      .query<{ name: string }, []>(
        `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'migration'`,
      )
      .all()
      .map(({ name }) => name)
    for (const name of tables.filter((each) => !['server', 'budget_spend', 'upkeep'].includes(each))) {
      const there = sqlite.query<{ count: number }, []>(`SELECT count(*) AS count FROM "${name}"`).get()
      expect([name, await count(name)]).toEqual([name, there!.count])
    }
    const last = sqlite
      .query<{ hash: Uint8Array }, []>('SELECT hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1')
      .get()
    sqlite.close()
    expect(report).toMatchObject({ tables: tables.length, headHash: last!.hash.toHex() })
    expect(report.to).toStartWith('postgres://weir@127.0.0.1')

    const after = await openOnPostgres(url, { clock })
    try {
      expect((await after.ledger.balance('beth')).lots).toMatchObject([{ remaining: usd(5), pinned: usd(1) }])
      await after.ledger.settle(settleOf('of beth', usd('0.25')))
      expect((await after.ledger.balance('beth')).lots).toMatchObject([
        { remaining: usd('4.75'), pinned: 0n },
      ])
      expect(await after.ledger.budgetSpend([{ scope: 'team', windowStart: 0 }])).toEqual([
        { spent: usd('0.25'), held: 0n },
      ])
      expect((await after.ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
      expect(await after.catalogs?.latest()).toEqual({ revision: 1, file: '{"of":"ours"}' })
    } finally {
      await after.close()
    }
  })

  test('moves a large table without its keys and indices, which are as they were after it, and after a move that failed', async () => {
    const keysAndIndices = () =>
      admin.unsafe(`SELECT pg_get_constraintdef(oid) AS is, conname AS name FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT indexdef, indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 2, 1`)
    const before = await keysAndIndices()
    const sqlite = new Database(join(data, 'weir.db'))
    const given = 'a\t\\N\n"é"\r\\.'
    const countTo = 'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)'
    sqlite.run(
      `${countTo} INSERT INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window)
       SELECT 'key' || n, CASE n WHEN 12000 THEN 'nobody' ELSE (SELECT min(id) FROM account) END, ?, 'live', 'hash' || n, 'last', n, 'total' FROM n`,
      [given],
    )
    sqlite.run(`${countTo} INSERT INTO request_log
      (request_id, at, account, model, stream, status, prompt_tokens, completion_tokens, cost, attempts, total_ms)
      SELECT 'req' || n, n, 'beth', 'm', 0, 200, 1, 1, 0, 1, 1 FROM n`)
    await expect(move()).rejects.toThrow('api_key_account')
    expect([await count('api_key'), await count('request_log')]).toEqual([0, 0])
    expect(await keysAndIndices()).toEqual(before)

    sqlite.run("UPDATE api_key SET account = (SELECT min(id) FROM account) WHERE id = 'key12000'")
    sqlite.close()
    await move()
    expect(await keysAndIndices()).toEqual(before)
    const [there] = await admin.unsafe(
      "SELECT count(*) AS count, min(name) AS least, max(name) AS most FROM api_key WHERE hash LIKE 'hash%'",
    )
    expect(there).toEqual({ count: 12_000n, least: given, most: given })
    const [next] = await admin.unsafe(
      "SELECT last_value >= 12000 AS is_after FROM pg_sequences WHERE sequencename = 'request_log_seq_seq'",
    )
    expect(next).toEqual({ is_after: true })
  })

  test('leaves nothing where the server ends the connection in the middle of a table, and can begin again', async () => {
    const lock = new SQL({ url, max: 1 })
    const held = await lock.reserve()
    // Others are there before it, and it can still be seen to be empty.
    await held.unsafe('BEGIN; LOCK TABLE webhook IN SHARE MODE').simple()
    const moving = move()
    moving.catch(() => undefined)
    const ended = async () =>
      (
        await admin.unsafe(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock'`)
      ).length
    while ((await ended()) === 0);
    await expect(moving).rejects.toThrow()
    await held.unsafe('ROLLBACK')
    await held.release()
    await lock.close({ timeout: 0 })
    expect(await count('account')).toBe(0)
    expect((await move()).rows).toBeGreaterThan(0)
  })

  test('does not move into a database that holds something', async () => {
    await move()
    await expect(move()).rejects.toThrow('is not empty (account)')
  })

  test('does not move while it is served', async () => {
    const served = await openStore(data, { clock, serveAs: 'gateway' })
    await expect(move()).rejects.toThrow('a server has')
    await served.close()
  })

  test('moves a zero byte, which no text of PostgreSQL has, as the sign for what cannot be read', async () => {
    const sqlite = new Database(join(data, 'weir.db'))
    const { id } = sqlite.query<{ id: string }, []>('SELECT id FROM account LIMIT 1').get()!
    sqlite.run(
      "UPDATE account SET email = 'a' || char(0) || char(92) || 'n' || char(9) || 'b' WHERE id = ?",
      [id],
    )
    sqlite.close()
    await move()
    const [moved] = await admin.unsafe('SELECT email FROM account WHERE id = $1', [id])
    expect(moved).toEqual({ email: 'a\uFFFD\\n\tb' })
  })

  test('leaves nothing behind where its ledger does not hold, or the copy does not', async () => {
    const spoil = (text: string) => {
      const sqlite = new Database(join(data, 'weir.db'))
      sqlite.run(text)
      sqlite.close()
    }
    const wallet = (change: number) =>
      `UPDATE wallet SET posted = posted + ${change} WHERE pool = 'purchased'`
    spoil(wallet(1))
    await expect(move()).rejects.toThrow('does not hold')
    spoil(wallet(-1))
    spoil("UPDATE api_key SET account = 'nobody'")
    await expect(move()).rejects.toThrow()
    expect([await count('account'), await count('journal'), await count('chain')]).toEqual([0, 0, 0])
  })
})
