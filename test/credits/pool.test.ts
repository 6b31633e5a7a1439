// A pool is a row of credits/pool.ts. The compiler names the console's words for it (pages/words.tsx), the Hindi check
// its texts; what else it needs is named here.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { appOrder } from '../../src/console/pages/words.tsx'
import { fundingOf, type Pool, pools } from '../../src/credits/pool.ts'
import { migrations } from '../../drizzle/postgres/migrations.ts'
import { migrate } from '../../src/store/sqlite/database/sqlite.ts'

const listOf = (check: string | undefined) => check?.split(',')
const onPostgres = migrations.map(({ sql }) => sql).join('\n')
const sorted = (list: readonly Pool[]) => list.toSorted()

test('a chat with a flash-class model may spend every pool', () => {
  expect(sorted(fundingOf('app', true))).toEqual(sorted(pools))
})

test('the console shows the pools in the order in which a chat spends them', () => {
  expect(appOrder).toEqual(fundingOf('app', true))
})

test.each(['lot', 'wallet'])(
  'both databases take every pool in %p (bun db:generate makes the migration)',
  (table) => {
    using database = new Database(':memory:', { safeIntegers: true })
    migrate(database, 0)
    const statement = database.query('SELECT sql FROM sqlite_schema WHERE name = ?').get(table) as {
      readonly sql: string
    }
    const onSqlite = /CHECK\(\s*pool in \(([^)]*)\)/.exec(statement.sql)?.[1]
    const changes = onPostgres.matchAll(new RegExp(`"${table}_pool" CHECK \\(pool in \\(([^)]*)\\)`, 'g'))
    const names = pools.map((pool) => `'${pool}'`)
    expect(listOf(onSqlite)).toEqual(names)
    expect(listOf([...changes].at(-1)?.[1])).toEqual(names)
  },
)

test.each(pools)('the guide explains %p', (pool) => {
  const page = readFileSync(join(import.meta.dir, '../../src/guide/people.md'), 'utf8')
  expect(page.includes(`\`${pool}\``)).toBe(true)
})
