// PostgreSQL gets the tables that SQLite has, once, whoever begins first.

import { Database } from 'bun:sqlite'
import { beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { usd } from '../../../src/credits/money.ts'
import { makeReady, migrate, type Program } from '../../../src/store/postgres/server.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
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
      'chain migrations',
      'chain owner',
      'chain program',
      'chain sells',
      'chain tx',
      'imported_catalog at',
      'imported_catalog file',
      'imported_catalog revision',
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

  test('are applied once, whoever begins', async () => {
    const applied = await ask('SELECT name FROM migration')
    await Promise.all([migrate(url, 1), migrate(url, 2)])
    expect(await ask('SELECT name FROM migration')).toEqual(applied)
  })

  test('that do more than add say which program can go on after them', async () => {
    const removes =
      /\b(TRUNCATE|RENAME|DROP (TABLE|COLUMN|CONSTRAINT)|SET NOT NULL|SET DATA TYPE)\b|ADD COLUMN (?!.*(DEFAULT|GENERATED)).*NOT NULL/
    // No gateway of the first ones is about.
    const later = migrations.filter(({ name, sql }) => name > '0009' && removes.test(sql))
    const named = await ask('SELECT name FROM migration WHERE oldest_program > 0 ORDER BY name')
    expect(later.map(({ name }) => name).filter((name) => !named.includes(name))).toEqual([])
    expect(named).toContain('0020_usage_month_of_models')
  })

  /** This program with one more migration, after which programs that know fewer than `oldest` cannot go on. */
  const later = (name: string, sql: string, oldest = 0): Program => ({
    migrations: [...migrations, { name, sql }],
    needs: { [name]: oldest },
  })

  test('wait for whoever uses a table only for a moment, and try again', async () => {
    const other = new SQL({ url, max: 1 })
    await other.unsafe('BEGIN; LOCK TABLE welcome IN ACCESS SHARE MODE').simple()
    const tried = Promise.withResolvers<void>()
    const done = migrate(url, 3, {
      program: later('8000_welcome', 'ALTER TABLE welcome ADD COLUMN added bigint'),
      notice: () => tried.resolve(),
      times: { waitMs: 50, retryMs: 10 },
    })
    await tried.promise
    // Nobody waits behind it between two tries.
    expect(await ask('SELECT count(*) FROM welcome')).toEqual(['0'])
    await other.unsafe('COMMIT').simple()
    await done
    expect(await ask("SELECT name FROM migration WHERE name LIKE '8%'")).toEqual(['8000_welcome'])
    await other.close()
  })

  test('that an older program could not live with are not applied while one serves', async () => {
    const store = await openOnPostgres(url, { clock: () => noon, owner: 'gateway_old' })
    const change = { program: later('8001_less', 'ALTER TABLE welcome DROP COLUMN added', migrations.length) }
    try {
      await ask("UPDATE chain SET migrations = 3, program = '0.1' WHERE owner = 'gateway_old'")
      await expect(migrate(url, 4, change)).rejects.toThrow('gateway_old, whose version (0.1)')
    } finally {
      await store.close()
    }
    await migrate(url, 4, change)
    expect(await ask("SELECT oldest_program FROM migration WHERE name LIKE '8001%'")).toEqual([
      String(migrations.length),
    ])
  })

  test('of a newer program leave this one serving where they only add, and refuse it where they do not', async () => {
    const ready = (notice?: () => void) =>
      makeReady({ url }, { clock: () => Date.now(), serves: true, notice })
    const store = await openOnPostgres(url, { clock: () => noon, owner: 'running' })
    const spend = async (call: string) => {
      await store.ledger.hold(holdOf(call, { owner: 'running' }))
      return store.ledger.settle(settleOf(call, usd(1), { owner: 'running' }))
    }
    const everything = async () => [
      await store.accounts.createAccount(`${crypto.randomUUID()}@example.org`),
      await store.accounts.listAccounts(),
      await store.managementKeys.list(),
      await store.settings.latest(),
      await store.upkeep.findNote('audit'),
      await store.ledger.call('anna', 'c1'),
      (await store.ledger.audit()).ok,
    ]
    try {
      await store.ledger.grant(grantOf('g', usd(10)))
      await spend('c1')
      await everything()
      // A column more in each table, which every statement that names none has to live with.
      const names = await ask(
        `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migration'`,
      )
      const added = names.map((name) => `ALTER TABLE "${name}" ADD COLUMN added bigint DEFAULT 7;`).join('\n')
      await migrate(url, 5, { program: later('9000_more', added) })
      expect(await spend('c2')).toMatchObject({ kind: 'settled' })
      await everything()
      await everything()
    } finally {
      await store.close()
    }
    const noticed: unknown[] = []
    await ready((...said: unknown[]) => void noticed.push(said[1]))
    expect(noticed).toContainEqual({ newer: '9000_more' })
    await migrate(url, 6, { program: later('9001_less', 'ALTER TABLE account DROP COLUMN added', 9_001) })
    await expect(ready()).rejects.toThrow('9001_less')
    await expect(migrate(url, 7)).rejects.toThrow('run that version or a newer one')
  })

  test('make a journal that can only grow', async () => {
    for (const change of ['DELETE FROM journal', 'UPDATE journal SET amount = 1', 'TRUNCATE journal'])
      await expect(ask(change)).rejects.toThrow('journal is insert only')
  })
})
