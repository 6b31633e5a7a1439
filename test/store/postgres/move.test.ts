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

  test('does not move into a database that holds something', async () => {
    await move()
    await expect(move()).rejects.toThrow('is not empty (account)')
  })

  test('does not move while it is served', async () => {
    const served = await openStore(data, { clock, serveAs: 'gateway' })
    await expect(move()).rejects.toThrow('a server has')
    await served.close()
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
    // PostgreSQL keeps no zero byte in a text.
    spoil("UPDATE account SET email = 'a' || char(0) || 'b'")
    await expect(move()).rejects.toThrow()
    expect([await count('account'), await count('journal'), await count('chain')]).toEqual([0, 0, 0])
  })
})
