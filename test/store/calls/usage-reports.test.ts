// Reports of an installation with many keys: the groups that cost most and the rest, made beside the calls.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { dayMs, startOfDay } from '../../../src/credits/calendar.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import type { UsageGroup, UsageOfDay, UsageQuery } from '../../../src/observe/call-log.ts'
import { backUp } from '../../../src/store/backup.ts'
import { LongReports } from '../../../src/store/long-reports.ts'
import { moveToPostgres } from '../../../src/store/move.ts'
import { longWork, openOnPostgres, tablesForReports } from '../../../src/store/postgres/open.ts'
import { SqlUsage, usageReport } from '../../../src/store/sql/usage-reports.ts'
import { databasePath, one, openReader, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import type { Step, StepResult, Work } from '../../../src/store/sql/work.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { noon } from '../../credits/support.ts'
import { fill, type Filled } from '../../scale/fill.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'
import { tempDir } from '../../support/tmp.ts'

const scale = { calls: 12_000, keys: 1_500, accounts: 30, keysOfCustomer: 600, days: 6 }
const dir = tempDir('weir-reports-')
let filled: Filled
let store: Store

beforeAll(async () => {
  filled = await fill(dir.join('data'), scale, noon)
  store = await openStore(dir.join('data'), { clock: () => noon, serveAs: 'server' })
}, 60_000)
afterAll(async () => {
  await store.close()
  dir.remove()
})

const span = { from: startOfDay(noon) - 5 * dayMs, until: startOfDay(noon) + dayMs }
const queryOf = (by: UsageGroup, more: Partial<UsageQuery> = {}): UsageQuery => ({ ...span, by, ...more })

function* answerTo(step: Step): Work<StepResult> {
  return yield step
}

async function csvOf(query: UsageQuery): Promise<string[]> {
  let text = ''
  for await (const piece of store.usage.csv(query)) text += piece
  return text.trimEnd().split('\r\n').slice(1)
}

test('the database that they are tried on is one that an audit proves', async () => {
  const { checks } = await store.ledger.audit()
  expect(checks.filter(({ ok }) => !ok)).toEqual([])
})

describe('a report of usage', () => {
  test.each<[UsageGroup, string | undefined]>([
    ['key', undefined],
    ['account', undefined],
    ['key', 'sim/model-3'],
    ['account', 'sim/model-3'],
  ])('by %s of a part of a month (of the model %s) looks at no day but those shown', (by, model) => {
    using reader = openReader(databasePath(dir.join('data')))
    const tables = new SqliteTables(reader)
    const part = { from: span.from + dayMs, until: span.until - 2 * dayMs, by, model }
    const days = tables.do(() => usageReport(part, 100_000))
    const work = usageReport(part, 5)
    let statements = 0
    let next = work.next()
    for (; !next.done; statements++) {
      const step = next.value
      next = work.next(tables.do(() => answerTo(step)))
    }
    expect(statements).toBeLessThan(30)
    const sums = new Map<string, bigint>()
    for (const { group, cost } of days.rows) sums.set(group, (sums.get(group) ?? 0n) + cost)
    const best = [...sums.values()].toSorted((a, b) => (a < b ? 1 : -1)).slice(0, 5)
    const shown = new Map<string, bigint>()
    for (const { group, cost } of next.value.rows) shown.set(group, (shown.get(group) ?? 0n) + cost)
    expect([...shown.values()].toSorted((a, b) => (a < b ? 1 : -1))).toEqual(best)
  })

  test.each<[UsageGroup, boolean, number]>([
    ['key', false, 10],
    ['key', true, 10],
    ['account', false, 4],
    ['model', false, 3],
    ['channel', false, 1],
    ['day', false, 1],
    ['model', true, 3],
  ])('by %s (of one account: %p) has the %p that cost most, and the rest', async (by, own, most) => {
    const query = queryOf(by, own ? { account: filled.customer } : {})
    const all = await store.usage.report(query, 100_000)
    expect(all.rest).toBeNull()
    const costs = new Map<string, bigint>()
    for (const { group, cost } of all.rows) costs.set(group, (costs.get(group) ?? 0n) + cost)
    const dearest = [...costs]
      .toSorted(([, a], [, b]) => (a < b ? 1 : -1))
      .slice(0, most)
      .map(([, cost]) => cost)
    const top = await store.usage.report(query, most)
    const shown = new Map<string, bigint>()
    for (const { group, cost } of top.rows) shown.set(group, (shown.get(group) ?? 0n) + cost)
    expect([...shown.values()].toSorted((a, b) => (a < b ? 1 : -1))).toEqual(dearest)
    expect(top.totals).toEqual(all.totals)
    expect(top.rest?.groups ?? 0).toBe(costs.size - shown.size)
    // Every day is whole.
    for (let day = span.from; day < span.until; day += dayMs) {
      const ofDay = (rows: readonly UsageOfDay[]) => ({
        cost: rows.filter((row) => row.day === day).reduce((sum, { cost }) => sum + cost, 0n),
        calls: rows.filter((row) => row.day === day).reduce((sum, { calls }) => sum + calls, 0),
      })
      const [shownOf, restOf] = [ofDay(top.rows), ofDay(top.rest?.days ?? [])]
      expect({ cost: shownOf.cost + restOf.cost, calls: shownOf.calls + restOf.calls }).toEqual(
        ofDay(all.rows),
      )
    }
  })

  test('agrees with what the ledger has booked, and names keys and accounts', async () => {
    const { totals } = await store.usage.report(queryOf('key'), 1)
    const spent = await Promise.all(
      (await store.accounts.listAccounts()).map(async ({ id }) => (await store.ledger.totals(id)).used),
    )
    expect(totals.charged).toBe(spent.reduce((sum, one) => sum + one, 0n))
    const { rows } = await store.usage.report(queryOf('key', { key: filled.customerKey }), 5)
    expect(rows.every(({ group, label }) => group === filled.customerKey && label === 'program 0')).toBe(true)
    const [first] = (await store.usage.report(queryOf('account'), 1)).rows
    expect(first).toMatchObject({ group: filled.customer, label: 'scale0@example.org' })
  })

  test('of a model, a key or both is the same for all accounts as for the one', async () => {
    const filter = { key: filled.customerKey, model: 'sim/model-0' }
    const all = await store.usage.report(queryOf('day', filter), 5)
    expect(all).toEqual(await store.usage.report(queryOf('day', { ...filter, account: filled.customer }), 5))
    const foreign = await store.usage.report(queryOf('day', { ...filter, account: filled.rareAccount }), 5)
    expect(foreign.rows).toEqual([])
    const byKey = await store.usage.report(queryOf('key', { model: 'sim/model-1' }), 3)
    const byDay = await store.usage.report(queryOf('day', { model: 'sim/model-1' }), 3)
    expect(byKey.totals).toEqual(byDay.totals)
  })

  test('that several ask for is made once, and ends when the last of them has left', async () => {
    const query = queryOf('key', { until: span.until + 30 * dayMs })
    const [first, second] = [new AbortController(), new AbortController()]
    const asked = [store.usage.report(query, 7, first.signal), store.usage.report(query, 7, second.signal)]
    first.abort()
    expect(await asked[0]!.catch(String)).toContain('disconnected')
    expect((await asked[1]!).rows.length).toBeGreaterThan(0)
    const left = store.usage.report(query, 7, second.signal)
    second.abort()
    expect(await left.catch(String)).toContain('disconnected')
    // The thread has gone on to other work.
    expect((await store.usage.report(query, 7)).rest).not.toBeNull()
  })

  test('of which there are too many is refused, and asked again it is made', async () => {
    const days = Array.from({ length: 5 }, (_, n) => queryOf('key', { until: span.until + n * dayMs }))
    const answers = await Promise.allSettled(days.map((query) => store.usage.report(query, 3)))
    expect(answers.map(({ status }) => status)).toEqual([...Array(4).fill('fulfilled'), 'rejected'])
    const refused = answers[4] as PromiseRejectedResult
    expect(refused.reason).toBeInstanceOf(GatewayError)
    expect(refused.reason).toMatchObject({ code: 'rate_limit_exceeded' })
    // Those of another account are not refused.
    expect((await store.usage.report(days[4]!, 3)).rows.length).toBeGreaterThan(0)
  })
})

describe('the CSV of usage', () => {
  test.each<[UsageGroup, boolean]>([
    ['key', false],
    ['key', true],
    ['account', false],
    ['model', false],
    ['day', true],
  ])('by %s (of one account: %p) has every group of every day', async (by, own) => {
    const query = queryOf(by, own ? { account: filled.customer } : {})
    const { rows } = await store.usage.report(query, 100_000)
    const wanted = rows.map(
      ({ day, group, calls }) => `${new Date(day).toISOString().slice(0, 10)} ${group} ${calls}`,
    )
    const lines = (await csvOf(query)).map((line) => {
      const [day, group, , calls] = line.split(',')
      return `${day} ${group} ${calls}`
    })
    expect(lines.toSorted()).toEqual(wanted.toSorted())
  })

  test('is made as it is read: whoever stops reading ends it', async () => {
    for (let n = 0; n < 20; n++) {
      for await (const piece of store.usage.csv(queryOf('key'))) {
        expect(piece).toContain('input_tokens')
        break
      }
    }
    expect((await csvOf(queryOf('key'))).length).toBeGreaterThan(5_000)
  })
})

describe('a page of a long request log', () => {
  test.each([
    ['a model that nothing called', { model: 'sim/none' }],
    ['a key', { key: 'scale000000701' }],
    ['a key of another account', { account: 'acct_000000000000000000', key: 'scale000000701' }],
    ['the refusals of an account', { account: 'acct_000000000000000000', code: 'rate_limit_exceeded' }],
    ['a code that there is not', { code: 'upstream_timeout' }],
    ['a model and a code', { model: 'sim/model-3', code: 'rate_limit_exceeded' }],
    ['a model of a key, with a code', { key: 'scale000000701', model: 'sim/none', code: 'overloaded' }],
  ])('with %s is found at once, however rare it is', async (_, query) => {
    const database = openReader(store.path)
    const where = Object.entries(query).map(([column, value]) => `${column} = '${value}'`)
    const found = Number(one(database, `SELECT count(*) FROM request_log WHERE ${where.join(' AND ')}`))
    database.close()
    const { rows, next } = await store.requests.page({ ...query, limit: 200 })
    expect({ found: rows.length, next }).toEqual({ found, next: null })
  })

  test('ends with its client', async () => {
    const left = new AbortController()
    const asked = { account: filled.customer, model: 'sim/none', limit: 50 }
    const page = store.requests.page(asked, left.signal)
    left.abort()
    expect(await Promise.resolve(page).then(() => 'found', String)).toContain('disconnected')
  })
})

test('keys are paged and searched, the newest first', async () => {
  const { accounts } = store
  const asked = { account: filled.customer, state: 'current', now: noon, endedAfter: noon - dayMs } as const
  const ids: string[] = []
  for (let after: string | undefined; ;) {
    const { keys, next, hidden } = await accounts.pageKeys({ ...asked, limit: 200, after })
    expect(hidden).toBe(0)
    ids.push(...keys.map(({ id }) => id))
    if (next === null) break
    after = next
  }
  expect(ids).toEqual((await accounts.listKeys(filled.customer)).map(({ id }) => id).toReversed())
  const { keys, next } = await accounts.pageKeys({ ...asked, limit: 5, q: 'program 59' })
  expect({ names: keys.map(({ name }) => name), next: next !== null }).toEqual({
    names: ['program 59', 'program 590', 'program 591', 'program 592', 'program 593'],
    next: true,
  })
  expect(await accounts.countActiveKeys(filled.customer, noon, 500)).toBe(500)
  await accounts.revokeKey(ids[0]!, noon - 2 * dayMs)
  await accounts.revokeKey(ids[1]!, noon - 1)
  const current = await accounts.pageKeys({ ...asked, limit: 2 })
  expect(current.keys.map(({ id }) => id)).toEqual([ids[1]!, ids[2]!])
  expect(current.hidden).toBe(1)
  const all = await accounts.pageKeys({ ...asked, state: 'all', limit: 2 })
  expect(all.keys.map(({ id }) => id)).toEqual([ids[0]!, ids[1]!])
  await expect(
    accounts.pageKeys({ ...asked, account: filled.rareAccount, limit: 2, after: ids[5]! }),
  ).rejects.toThrow('cursor')
})

describeOnPostgres('an installation that has moved to PostgreSQL', () => {
  let url: string
  let moved: Awaited<ReturnType<typeof openOnPostgres>>
  beforeAll(async () => {
    url = await freshDatabase('usage_reports')
    const from = dir.join('moved')
    mkdirSync(from)
    backUp(dir.join('data'), join(from, 'weir.db'))
    await moveToPostgres(from, { url }, { clock: () => noon })
    moved = await openOnPostgres(url, { clock: () => noon, owner: 'server' })
  }, 60_000)
  afterAll(() => moved.close())

  /** While a table that long reports read, and nothing else does, is kept from them. */
  async function withoutMonths(act: () => Promise<void>): Promise<void> {
    const admin = new SQL({ url, max: 1 })
    await admin.unsafe('BEGIN; LOCK TABLE usage_month IN ACCESS EXCLUSIVE MODE').simple()
    try {
      await act()
    } finally {
      await admin.close()
    }
  }

  test.each<[UsageGroup, Partial<UsageQuery>]>([
    ['key', {}],
    ['key', { from: span.from + dayMs, until: span.until - dayMs }],
    ['key', { per: 'month' }],
    ['key', { model: 'sim/model-1' }],
    ['account', {}],
    ['account', { model: 'sim/model-0', per: 'month' }],
    ['model', { mode: 'test' }],
    ['channel', {}],
    ['provider', {}],
    ['day', {}],
    ['tag', { tagName: 'feature' }],
  ])('reports by %s of %j what it did before', async (by, more) => {
    const { usage } = moved
    // Of an installation nobody asks for one mode, of an account nobody for providers.
    const whose = [...(more.mode ? [] : [undefined]), ...(by === 'provider' ? [] : [filled.customer])]
    for (const account of whose) {
      const query = queryOf(by, { ...more, ...(account === undefined ? {} : { account }) })
      expect(await usage.report(query, 5)).toEqual(await store.usage.report(query, 5))
      let text = ''
      for await (const piece of usage.csv(query)) text += piece
      expect(text.trimEnd().split('\r\n').slice(1)).toEqual(await csvOf(query))
    }
  })

  test('reads accounts and sign-ins at once, while reports have every connection of theirs', async () => {
    const queryFor = (n: number, account?: string) =>
      queryOf('key', { until: span.until + n * dayMs, ...(account ? { account } : {}) })
    const queries = [0, 1, 2].flatMap((n) => [queryFor(n), queryFor(n, filled.customer)])
    let made = 0
    const reports: Promise<unknown>[] = []
    await withoutMonths(async () => {
      for (const query of queries) reports.push(moved.usage.report(query, 5).finally(() => made++))
      const left = new AbortController()
      const waiting = moved.usage.report(queryFor(3), 5, left.signal)
      // After the first of these, all reports have asked for their connections.
      for (let n = 0; n < 20; n++) await moved.identities.passwordOf(filled.customer)
      const [password, account, balance] = await Promise.all([
        moved.identities.passwordOf(filled.customer),
        moved.accounts.findAccount(filled.customer),
        moved.ledger.balance(filled.customer),
      ])
      left.abort()
      expect(await waiting.catch(String)).toContain('disconnected')
      expect({ password, id: account?.id, made }).toEqual({ password: null, id: filled.customer, made: 0 })
      expect(balance).toEqual(await store.ledger.balance(filled.customer))
    })
    expect(await Promise.all(reports)).toEqual(
      await Promise.all(queries.map((query) => store.usage.report(query, 5))),
    )
  })

  test('gives up a report that the database takes too long for, and makes it later', async () => {
    const tables = tablesForReports(url, { serves: true, deadlineMs: 2_000 })
    const usage = new SqlUsage(tables, new LongReports(longWork(tables)))
    const query = queryOf('key')
    await withoutMonths(async () => {
      const refused = { code: 'overloaded', message: expect.stringContaining('longer than 2 s') }
      await expect(usage.report(query, 5)).rejects.toMatchObject(refused)
    })
    expect(await usage.report(query, 5)).toEqual(await store.usage.report(query, 5))
    await tables.close()
  })
})
