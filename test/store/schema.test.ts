// Databases of every earlier schema are opened, brought up to date and proven; a kill in between leaves them as they were.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { migrations } from '../../drizzle/sqlite/migrations.ts'
import { openStore } from '../../src/store/open.ts'
import { migrate, one, schemaVersion } from '../../src/store/sqlite/database/sqlite.ts'
import { noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

const fixtures = join(import.meta.dir, '../fixtures/schema')
const dirs: TempDir[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove()
})

/** A data directory with the database that the program of then has left. */
function dataDirOf(schema: number): string {
  const dir = tempDir('weir-schema-')
  dirs.push(dir)
  mkdirSync(dir.join('data'))
  writeFileSync(dir.join('data', 'weir.db'), gunzipSync(readFileSync(join(fixtures, `${schema}.db.gz`))))
  return dir.join('data')
}

function versionOf(dataDir: string): number {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  try {
    return Number(one(database, 'PRAGMA user_version'))
  } finally {
    database.close()
  }
}

async function proven(dataDir: string): Promise<void> {
  const store = await openStore(dataDir, { clock: () => noon + 60_000, serveAs: 'later' })
  try {
    expect((await store.ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    const { id } = (await store.accounts.findAccount('anna@example.org'))!
    expect(await store.accounts.listKeys(id)).toHaveLength(1)
    expect(await store.ledger.recover(noon + 60_000)).toBe(1)
    expect(await store.ledger.call(id, 'settled')).toMatchObject({
      state: 'settled',
      charged: 250_000_000_000n,
    })
    expect((await store.reports.history(id)).map(({ kind }) => kind)).toContain('refund')
    expect((await store.ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
  } finally {
    await store.close()
  }
}

const schemas = Array.from({ length: schemaVersion }, (_, at) => at + 1)

describe('a database of schema', () => {
  test.each(schemas)('%p has a fixture (bun test/fixtures/schema/make.ts writes that of today)', (schema) => {
    expect(existsSync(join(fixtures, `${schema}.db.gz`))).toBe(true)
  })

  test.each(schemas)('%p is opened, brought to this schema and proven', async (schema) => {
    const dataDir = dataDirOf(schema)
    expect(versionOf(dataDir)).toBe(schema)
    await proven(dataDir)
    expect(versionOf(dataDir)).toBe(schemaVersion)
  })
})

test('a new database is what all migrations make of an empty one (bun run db:generate writes it)', () => {
  const contentOf = (database: Database) => {
    const objects = database
      .query<{ type: string; name: string; sql: string }, []>(
        'SELECT type, name, sql FROM sqlite_schema ORDER BY name',
      )
      .all()
    const rows = objects
      .filter(({ type }) => type === 'table')
      .map(({ name }) => [name, database.query(`SELECT * FROM "${name}"`).all()])
    return { objects, rows }
  }
  using stepwise = new Database(':memory:', { safeIntegers: true })
  for (const { sql } of migrations) stepwise.run(sql)
  stepwise.run(
    'CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT',
  )
  const record = stepwise.prepare('INSERT INTO migration VALUES (?, ?)')
  for (const { name } of migrations) record.run(name, noon)
  using fresh = new Database(':memory:', { safeIntegers: true })
  expect(migrate(fresh, noon)).toBe(true)
  expect(contentOf(fresh)).toEqual(contentOf(stepwise))
})

test('months that were counted before their days and models have what each of these cost', async () => {
  const dataDir = dataDirOf(41)
  const database = new Database(join(dataDir, 'weir.db'))
  const november = Date.UTC(2026, 10, 1)
  const figures = 'calls, errors, input_tokens, output_tokens, cost, charged'
  for (const [date, model, cost] of [
    [1, 'sim/a', 5],
    [30, 'sim/a', 7],
    [30, 'sim/b', 11],
  ] as const)
    database.run(
      `INSERT INTO usage_day (account, day, key, model, ${figures}) VALUES ('a', ?, 'k', ?, 1, 0, 0, 0, ?, 0)`,
      [november + (date - 1) * 86_400_000, model, cost],
    )
  database.run(
    `INSERT INTO usage_month (month, account, key, days, ${figures}) VALUES (?, 'a', 'k', ?, 3, 0, 0, 0, 23, 0)`,
    [november, 1 + 2 ** 29],
  )
  database.close()
  await (await openStore(dataDir, { clock: () => noon })).close()
  const upgraded = new Database(join(dataDir, 'weir.db'), { readonly: true })
  expect(
    upgraded
      .query(
        "SELECT model, days, calls, cost, cost_1, cost_2, cost_30, cost_31 FROM usage_month WHERE account = 'a' ORDER BY model",
      )
      .all(),
  ).toEqual([
    {
      model: 'sim/a',
      days: 1 + 2 ** 29,
      calls: 2,
      cost: 12,
      cost_1: 5,
      cost_2: null,
      cost_30: 7,
      cost_31: null,
    },
    {
      model: 'sim/b',
      days: 2 ** 29,
      calls: 1,
      cost: 11,
      cost_1: null,
      cost_2: null,
      cost_30: 11,
      cost_31: null,
    },
  ])
  upgraded.close()
})

test('ids of grants that stood for one grant in each account are the first one’s in the whole ledger', async () => {
  const dataDir = dataDirOf(7)
  const database = new Database(join(dataDir, 'weir.db'))
  const lots = database
    .query<{ id: string; account: string }, []>('SELECT id, account FROM lot ORDER BY id')
    .all()
  const [first, second, third] = lots
  const named = (id: string, account: string, name: string, at: number) =>
    database.run('UPDATE lot SET account = ?, source = ?, granted_at = ? WHERE id = ?', [
      account,
      `operator:${account}:${name}`,
      at,
      id,
    ])
  named(first!.id, 'acct_b', 'invoice-7', 2)
  named(second!.id, 'acct_a', 'invoice-7', 1)
  named(third!.id, 'acct_b', 'a:b', 3)
  database.close()
  await (await openStore(dataDir, { clock: () => noon })).close()
  const after = new Database(join(dataDir, 'weir.db'))
  const sources = after
    .query<{ id: string; source: string }, []>('SELECT id, source FROM lot ORDER BY id')
    .all()
  after.close()
  expect(sources).toEqual([
    { id: first!.id, source: 'operator:acct_b:invoice-7' },
    { id: second!.id, source: 'operator:invoice-7' },
    { id: third!.id, source: 'operator:a:b' },
  ])
})

test('texts of responses that were deleted with their account are deleted, no others', async () => {
  const dataDir = dataDirOf(19)
  const before = new Database(join(dataDir, 'weir.db'))
  const put = before.prepare('INSERT INTO response_part (response, part, of, text) VALUES (?, ?, ?, ?)')
  for (const part of [0, 1]) {
    put.run('resp_of_a_deleted_account', part, 'answer', 'what nobody may read any more')
    put.run('resp_settled', part, 'answer', '{}')
  }
  before.close()
  await (await openStore(dataDir, { clock: () => noon })).close()
  const after = new Database(join(dataDir, 'weir.db'))
  const left = after.query('SELECT response, part FROM response_part ORDER BY response, part').all()
  after.close()
  expect(left).toEqual([0, 1].map((part) => ({ response: 'resp_settled', part })))
})

describe('G16: kill -9 during a migration', () => {
  test.each([1, 2, 3, 4, 5])(
    'before statement %p: the file is as it was, and the next start migrates it',
    async (n) => {
      const dataDir = dataDirOf(1)
      const child = Bun.spawn(
        [process.execPath, join(import.meta.dir, 'migration-child.ts'), dataDir, String(n)],
        {
          stdout: 'pipe',
        },
      )
      const first = await child.stdout.getReader().read()
      expect(new TextDecoder().decode(first.value)).toBe('stalled\n')
      child.kill('SIGKILL')
      await child.exited
      expect(versionOf(dataDir)).toBe(1)
      await proven(dataDir)
      expect(versionOf(dataDir)).toBe(schemaVersion)
    },
  )
})
