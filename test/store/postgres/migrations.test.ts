// PostgreSQL gets the tables that SQLite has, once, whoever begins first.

import { Database } from 'bun:sqlite'
import { beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { migrate as migrateSqlite } from '../../../src/store/sqlite/database/sqlite.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'

describeOnPostgres('the migrations of PostgreSQL', () => {
  let url: string
  const ask = async (text: string) => {
    const sql = new SQL({ url, max: 1 })
    try {
      return (await sql.unsafe(text)).map((row: object) => Object.values(row).join(' ')) as string[]
    } finally {
      await sql.close()
    }
  }
  beforeAll(async () => {
    url = await freshDatabase('migrations')
  })

  test('make the tables and columns of SQLite, and those that keep processes apart', async () => {
    const sqlite = new Database(':memory:', { safeIntegers: true })
    migrateSqlite(sqlite, 0)
    const there = sqlite
      .query<{ name: string }, []>(
        `SELECT one.name || ' ' || col.name AS name FROM sqlite_schema AS one, pragma_table_info(one.name) AS col
         WHERE one.type = 'table' AND one.name NOT LIKE 'sqlite_%' AND one.name <> 'migration'`,
      )
      .all()
      .map(({ name }) => name)
    const here = await ask(
      `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'migration'`,
    )
    expect(here).toEqual(expect.arrayContaining(there))
    expect(here.filter((name) => !there.includes(name)).toSorted()).toEqual([
      'account rowid',
      'account_group rowid',
      'api_key rowid',
      'attempt_count at',
      'attempt_count count',
      'attempt_count kind',
      'attempt_count name',
      'budget_spend held',
      'budget_spend version',
      'call settle_chain',
      'chain at',
      'chain batch',
      'chain epoch',
      'chain head',
      'chain heartbeat_until',
      'chain id',
      'chain owner',
      'chain tx',
      'journal chain',
      'journal version',
      'leader duty',
      'leader owner',
      'leader until',
      'rate at',
      'rate level',
      'rate name',
      'rate per_minute',
      'usage_provider chain',
      'usage_tag_total chain',
      'usage_total chain',
      'wallet_head account',
      'wallet_head at',
      'wallet_head version',
    ])
  })

  test('compare every text by its bytes, whatever the language of the database', async () => {
    expect(
      await ask(
        `SELECT table_name, column_name FROM information_schema.columns
         WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'`,
      ),
    ).toEqual([])
    expect(await ask(`SELECT 'a' < 'B'`)).toEqual(['true'])
  })

  test('are applied once, and a database of a newer program is refused', async () => {
    const applied = await ask('SELECT name FROM migration')
    await Promise.all([migrate(url, 1), migrate(url, 2)])
    expect(await ask('SELECT name FROM migration')).toEqual(applied)
    await ask(`INSERT INTO migration VALUES ('9999_later', 3)`)
    await expect(migrate(url, 4)).rejects.toThrow('9999_later')
  })

  test('make a journal that can only grow', async () => {
    for (const change of ['DELETE FROM journal', 'UPDATE journal SET amount = 1', 'TRUNCATE journal'])
      await expect(ask(change)).rejects.toThrow('journal is insert only')
  })
})
