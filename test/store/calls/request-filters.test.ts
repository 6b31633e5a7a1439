// What operators ask of the log of everybody: any filters, found page by page, each in an index.

import type { Database, Statement } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Tags, tagsOf, tagsText } from '../../../src/conversation/request.ts'
import type { RequestLogRow, RequestQuery } from '../../../src/observe/call-log.ts'
import type { TopUpFilter } from '../../../src/payments/top-up.ts'
import { openStore } from '../../../src/store/open.ts'
import { moveToPostgres } from '../../../src/store/move.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { SqlRequestReader } from '../../../src/store/sql/request-reader.ts'
import { openDatabase, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { callsByUpstreamId } from '../../../src/store/sqlite/ledger/calls.ts'
import type { Tables } from '../../../src/store/sql/work.ts'
import { SqlFinder } from '../../../src/store/sql/directory.ts'
import { SqlPayments } from '../../../src/store/sql/top-ups.ts'
import { noon } from '../../credits/support.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { logRowOf, retentionOf } from './support.ts'

type Filters = Omit<RequestQuery, 'limit' | 'after'>

/** Of each of seven kinds of calls some, three of a moment. */
const rows: RequestLogRow[] = Array.from({ length: 210 }, (_, n) => {
  const failure = [
    {},
    {},
    {},
    { code: 'upstream_error', status: 502 },
    { code: 'insufficient_credits', status: 402, provider: null },
    { code: 'store_unavailable', status: 503, provider: null },
    { code: 'rate_limit_exceeded', status: 429, provider: null },
  ][n % 7]!
  const tags: Tags | null | undefined = [null, { team: 'a' }, { team: 'b', user: 'ada' } as Tags][n % 3]
  return logRowOf(`r${n}`, {
    at: noon + Math.floor(n / 3),
    account: n % 5 === 0 ? 'berta' : 'anna',
    key: n % 11 === 0 ? null : `k${n % 4}`,
    model: ['sim/echo', 'openai/gpt-5-mini', 'OpenAI/gpt_5%'][n % 13 === 0 ? 2 : n % 2]!,
    provider: n % 4 === 0 ? 'other' : 'sim',
    tags: tags ? tagsText(tags) : null,
    ...failure,
  })
})

let dir: TempDir
let database: Database
beforeAll(async () => {
  dir = tempDir('weir-filters-')
  const store = await openStore(dir.join('data'), { clock: () => noon })
  for (const row of rows) store.requestLog.append(row)
  await store.close()
  database = openDatabase(dir.join('data'), noon)
})
afterAll(() => {
  database.close()
  dir.remove()
})

function isWanted(row: RequestLogRow, query: Filters): boolean {
  const { id, account, key, model, code, channel, provider, outcome, tag, from, until } = query
  const refused = row.provider === null && row.status < 500
  const was = row.code === null ? 'served' : refused ? 'refused' : 'failed'
  const isModel = (wanted: string) =>
    wanted.startsWith('*')
      ? row.model.toLowerCase().includes(wanted.slice(1, -1).toLowerCase())
      : row.model === wanted
  return (
    (id === undefined || row.requestId === id) &&
    (account === undefined || row.account === account) &&
    (key === undefined || row.key === key) &&
    (model === undefined || isModel(model)) &&
    (code === undefined || row.code === code) &&
    (channel === undefined || (channel === 'app') === (row.key === null)) &&
    (provider === undefined || row.provider === provider) &&
    (outcome === undefined || was === outcome || (outcome === 'unserved' && was !== 'served')) &&
    (tag === undefined || tagsOf(row.tags)[tag.name] === tag.value) &&
    (from === undefined || row.at >= from) &&
    (until === undefined || row.at < until)
  )
}

async function allOf(
  tables: Tables,
  query: Filters,
  limit: number,
  [perStep, steps]: readonly [number, number],
): Promise<string[]> {
  const reader = new SqlRequestReader(tables, undefined, perStep, steps)
  const ids: string[] = []
  for (let after: RequestQuery['after']; ;) {
    const page = await reader.page({ ...query, limit, ...(after ? { after } : {}) })
    ids.push(...page.rows.map(({ requestId }) => requestId))
    if (page.next === null) return ids
    after = page.next
  }
}

const filters = fc.record(
  {
    account: fc.constantFrom('anna', 'berta', 'nobody'),
    key: fc.constantFrom('k0', 'k3', 'none'),
    model: fc.constantFrom('sim/echo', '*GPT*', '*mini*', '*_5%*', '*nothing*', 'openai/gpt-5-mini'),
    code: fc.constantFrom('upstream_error', 'insufficient_credits', 'never'),
    channel: fc.constantFrom('api' as const, 'app' as const),
    provider: fc.constantFrom('sim', 'other', 'none'),
    outcome: fc.constantFrom('served' as const, 'failed' as const, 'refused' as const, 'unserved' as const),
    tag: fc.constantFrom(
      { name: 'team', value: 'a' },
      { name: 'user', value: 'ada' },
      { name: 'team', value: 'x' },
    ),
    id: fc.constantFrom('r7', 'r120'),
    from: fc.constantFrom(noon + 5, noon + 40),
    until: fc.constantFrom(noon + 30, noon + 60),
  },
  { requiredKeys: [] },
)

/** Whatever is asked for, page by page: nothing twice and nothing left out. */
function expectWhole(tables: Tables, numRuns: number): Promise<void> {
  return fc.assert(
    fc.asyncProperty(filters, fc.integer({ min: 1, max: 9 }), async (query, limit) => {
      const wanted = rows.filter((row) => isWanted(row, query)).map(({ requestId }) => requestId)
      for (const bounds of [
        [3, 2],
        [2_000, 500],
      ] as const)
        expect(await allOf(tables, query, limit, bounds)).toEqual(wanted.toReversed())
    }),
    { numRuns },
  )
}

test('any filters give what they say, page by page, nothing twice and nothing left out', () =>
  expectWhole(new SqliteTables(database), 300))

describeOnPostgres('a log that has moved to PostgreSQL', () => {
  test('gives the same for any filters', async () => {
    const url = await freshDatabase('filters')
    await moveToPostgres(dir.join('data'), { url }, { clock: () => noon })
    const tables = new PostgresTables({ server: url, connections: 1 })
    await tables.open()
    await expectWhole(tables, 20)
    const reader = new SqlRequestReader(tables)
    // Each filter alone, too: they are looked for in different indexes.
    for (const query of [
      { provider: 'sim' },
      { from: noon + 5, until: noon + 40 },
      { outcome: 'failed' as const },
    ]) {
      const wanted = rows.filter((row) => isWanted(row, query)).map(({ requestId }) => requestId)
      expect(await allOf(tables, query, 50, [2_000, 500])).toEqual(wanted.toReversed())
    }
    expect(await reader.find('r7')).toMatchObject({ requestId: 'r7', at: noon + 2 })
    expect([await reader.lastSeq(), (await reader.pageAfter(200, 5)).map(({ seq }) => seq)]).toEqual([
      210,
      [201, 202, 203, 204, 205],
    ])
    await tables.close()
  })
})

/** A database that keeps the text of every statement. */
function watched(): { readonly database: Database; readonly asked: Set<string> } {
  const asked = new Set<string>()
  const proxy = new Proxy(database, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'prepare') return (value as (...given: unknown[]) => unknown).bind(target)
      return (sql: string): Statement => {
        asked.add(sql)
        return target.prepare(sql)
      }
    },
  })
  return { database: proxy, asked }
}

/** How a statement reads tables: `SEARCH` begins at a place of an index, `SCAN` reads all of it. */
function readsOf(sql: string): string[] {
  return planOf(sql).filter((detail) => /^(SEARCH|SCAN)/.test(detail))
}

function planOf(sql: string): string[] {
  return database
    .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map(({ detail }) => detail)
}

/** What is read as a whole, but for the rows that a statement has just found, and lists that it was given. */
const harmless = /^SCAN (\(subquery-\d+\)|found|counted|range\d+|json_each|block|CONSTANT ROW)/

describe('every answer begins at a place of an index', () => {
  test.each<Filters>([
    {},
    { account: 'anna' },
    { key: 'k1' },
    { model: 'sim/echo' },
    { model: '*mini*' },
    { provider: 'sim' },
    { outcome: 'served' },
    { outcome: 'failed' },
    { outcome: 'refused', account: 'anna' },
    { outcome: 'unserved' },
    { code: 'upstream_error' },
    { code: 'upstream_error', account: 'anna' },
    { tag: { name: 'team', value: 'a' } },
    { id: 'r1' },
    { provider: 'sim', model: 'sim/echo', outcome: 'served', account: 'anna' },
    { tag: { name: 'team', value: 'a' }, account: 'anna', outcome: 'failed' },
  ])('requests: %j', async (query) => {
    const { database: seen, asked } = watched()
    const reader = new SqlRequestReader(new SqliteTables(seen))
    await reader.page({ ...query, limit: 50 })
    expect(asked.size).toBeGreaterThan(0)
    const reads = [...asked].flatMap(readsOf)
    expect(reads.filter((read) => read.startsWith('SCAN') && !harmless.test(read))).toEqual([])
    expect(reads.some((read) => /USING (COVERING )?INDEX|PRIMARY KEY/.test(read))).toBe(true)
  })

  test.each<TopUpFilter>([
    {},
    { state: 'failed' },
    { processor: 'stripe' },
    { problem: true },
    { from: noon - 1, until: noon },
  ])('top-ups, in their order: %j', async (filter) => {
    const { database: seen, asked } = watched()
    await new SqlPayments(new SqliteTables(seen)).listTopUps(null, 50, null, filter)
    expect(asked.size).toBe(1)
    const plan = [...asked].flatMap(planOf)
    expect(plan).toEqual([expect.stringMatching(/^(SEARCH|SCAN) top_up USING INDEX /)])
  })

  test('a search', async () => {
    const { database: seen, asked } = watched()
    const tables = new SqliteTables(seen)
    const finder = new SqlFinder({ tables, clock: () => noon, byUpstreamId: callsByUpstreamId })
    await finder.find('nothing-of-this-kind', 10)
    expect(asked.size).toBeGreaterThan(10)
    const reads = [...asked].flatMap(readsOf)
    expect(reads.filter((read) => read.startsWith('SCAN') && !harmless.test(read))).toEqual([])
  })
})

test('tags of the log are deleted with their rows', async () => {
  using other = tempDir('weir-filters-')
  const store = await openStore(other.join('data'), { clock: () => noon })
  for (const row of rows.slice(0, 30)) store.requestLog.append(row)
  await store.close()
  const file = openDatabase(other.join('data'), noon)
  const count = () => file.query<{ n: bigint }, []>('SELECT count(*) AS n FROM request_tag').get()!.n
  expect(count()).toBe(30n)
  const retention = retentionOf(file, { requestsMs: 1, paymentEventsMs: 1 })
  await retention.sweep(noon + 6)
  expect(count()).toBe(15n)
  await retention.sweep(noon + 100)
  expect(count()).toBe(0n)
  file.close()
})
