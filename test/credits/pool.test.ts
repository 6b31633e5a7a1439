// A pool is added to the list in credits/pool.ts. The compiler names the console's words for it (pages/words.tsx), the
// Hindi check its texts; what else it needs is named here.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { appOrder } from '../../src/console/pages/words.tsx'
import { fundingOf, type Pool, pools } from '../../src/credits/pool.ts'
import { migrate } from '../../src/store/sqlite/database/sqlite.ts'

const sorted = (list: readonly Pool[]) => list.toSorted()

test('a chat with a flash-class model may spend every pool', () => {
  expect(sorted(fundingOf('app', true))).toEqual(sorted(pools))
})

test('the console shows the pools in the order in which a chat spends them', () => {
  expect(appOrder).toEqual(fundingOf('app', true))
})

test.each(['lot', 'wallet'])(
  'the database takes every pool in %p (bun db:generate makes the migration)',
  (table) => {
    using database = new Database(':memory:', { safeIntegers: true })
    migrate(database, 0)
    const statement = database.query('SELECT sql FROM sqlite_schema WHERE name = ?').get(table) as {
      readonly sql: string
    }
    const [, list = ''] = /CHECK\(\s*pool in \(([^)]*)\)/.exec(statement.sql)!
    expect(list.split(',')).toEqual(pools.map((pool) => `'${pool}'`))
  },
)

test.each(pools)('the guide explains %p', (pool) => {
  const page = readFileSync(join(import.meta.dir, '../../src/guide/people.md'), 'utf8')
  expect(page.includes(`\`${pool}\``)).toBe(true)
})
