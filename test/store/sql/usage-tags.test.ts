// Usage by tag: divided, by month, and with what was refused, the same on both databases.

import { expect, test } from 'bun:test'
import { type Tags, tagsText } from '../../../src/conversation/request.ts'
import { usd } from '../../../src/credits/money.ts'
import type { UsageQuery, UsageReport } from '../../../src/observe/call-log.ts'
import type { Store } from '../../../src/store/open.ts'
import { until } from '../../chat/lab.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { logRowOf } from '../calls/support.ts'

const range = { from: noon - 40 * day, until: noon + day }
const report = (
  store: Pick<Store, 'usage'>,
  query: Omit<UsageQuery, 'from' | 'until'>,
  most = 100,
): Promise<UsageReport> => store.usage.report({ ...range, ...query }, most)

/** Calls and charges by group. */
function sumsOf({ rows }: UsageReport): Record<string, { calls: number; charged: bigint }> {
  const sums: Record<string, { calls: number; charged: bigint }> = {}
  for (const { group, calls, charged } of rows) {
    const sum = (sums[group] ??= { calls: 0, charged: 0n })
    sum.calls += calls
    sum.charged += charged
  }
  return sums
}

async function csvOf(
  store: Pick<Store, 'usage'>,
  query: Omit<UsageQuery, 'from' | 'until'>,
): Promise<string[]> {
  let text = ''
  for await (const piece of store.usage.csv({ ...range, ...query })) text += piece
  return text.trimEnd().split('\r\n').slice(1)
}

describeOnBoth('usage of tags', (open) => {
  const spend = async (store: Pick<Store, 'ledger'>, call: string, cost: bigint, more: object) => {
    await store.ledger.hold(holdOf(call, more))
    await store.ledger.settle(settleOf(call, cost))
  }

  async function threeTeams(clock: () => number = () => noon) {
    const store = await open(clock)
    await store.ledger.grant(grantOf('g', usd(100)))
    await spend(store, 'c1', 1n, { tags: tagsText({ team: 'a', user: 'u1' }) })
    await spend(store, 'c2', 20n, { tags: tagsText({ team: 'b', user: 'u1' }), key: 'key2' })
    await spend(store, 'c3', 300n, { tags: tagsText({ team: 'b' }), key: 'key2', model: 'sim/other' })
    await spend(store, 'c4', 4_000n, {})
    return store
  }

  test('is divided further by what else there is of the calls with it', async () => {
    const store = await threeTeams()
    const tag = { name: 'team', value: 'b' }
    const charged = async (query: Omit<UsageQuery, 'from' | 'until'>) =>
      Object.fromEntries(
        Object.entries(sumsOf(await report(store, query))).map(([group, sum]) => [
          group,
          Number(sum.charged),
        ]),
      )
    expect(await charged({ by: 'model', tag })).toEqual({ 'sim/echo': 20, 'sim/other': 300 })
    expect(await charged({ by: 'key', tag })).toEqual({ key2: 320 })
    expect(await charged({ by: 'account', tag })).toEqual({ anna: 320 })
    expect(await charged({ by: 'day', tag, account: 'anna' })).toEqual({ '': 320 })
    for (const account of [undefined, 'anna']) {
      const of = account === undefined ? { tag } : { tag, account }
      expect(await charged({ by: 'channel', ...of })).toEqual({ api: 320 })
      expect(await charged({ by: 'model', ...of })).toEqual({ 'sim/echo': 20, 'sim/other': 300 })
      expect(await charged({ by: 'tag', tagName: 'team', ...of })).toEqual({ b: 320 })
      expect((await csvOf(store, { by: 'channel', ...of })).length).toBe(1)
    }
    expect(await charged({ by: 'tag', tagName: 'team', key: 'key2' })).toEqual({ b: 320 })
    expect(await charged({ by: 'tag', tagName: 'team', model: 'sim/echo' })).toEqual({
      a: 1,
      b: 20,
      '': 4_000,
    })
    expect(await charged({ by: 'tag', tagName: 'user' })).toEqual({ u1: 21, '': 4_300 })
    const { rest, totals } = await report(store, { by: 'tag', tagName: 'team' }, 1)
    expect([rest, totals.charged]).toEqual([
      { groups: 1, days: [expect.objectContaining({ calls: 1, charged: 1n })] },
      4_321n,
    ])
  })

  test('of months has the days of each month as far as they are asked for', async () => {
    let now = Date.UTC(2026, 9, 31, 23)
    const store = await threeTeams(() => now)
    now = Date.UTC(2026, 10, 1, 1)
    await spend(store, 'd1', 5n, { tags: tagsText({ team: 'a' }) })
    const query = { by: 'tag' as const, tagName: 'team', per: 'month' as const }
    const { rows } = await store.usage.report(
      { ...query, from: Date.UTC(2026, 9, 20), until: Date.UTC(2026, 10, 15) },
      100,
    )
    expect(rows.map(({ day: at, group, charged }) => [new Date(at).toISOString(), group, charged])).toEqual([
      ['2026-10-01T00:00:00.000Z', '', 4_000n],
      ['2026-10-01T00:00:00.000Z', 'a', 1n],
      ['2026-10-01T00:00:00.000Z', 'b', 320n],
      ['2026-11-01T00:00:00.000Z', 'a', 5n],
    ])
    for (const by of ['day', 'model', 'key', 'channel', 'account'] as const) {
      const months = await report(store, { by, per: 'month' })
      const days = await report(store, { by, per: 'day' })
      expect([months.totals, sumsOf(months)]).toEqual([days.totals, sumsOf(days)])
      const written = (await csvOf(store, { by, per: 'month' })).map((line) => line.slice(0, 8))
      expect(written).toEqual(months.rows.map(({ day: at }) => `${new Date(at).toISOString().slice(0, 7)},`))
    }
  })

  test('has refusals, which have cost nothing', async () => {
    const store = await open(() => noon)
    const tags: Tags = { team: 'a' }
    store.requestLog.appendRefused(
      logRowOf('r', { code: 'insufficient_credits', tags: tagsText(tags) }),
      'sim/echo',
    )
    const found = await until(
      () => report(store, { by: 'tag', tagName: 'team' }),
      ({ rows }) => rows.length > 0,
    )
    expect(found.rows).toMatchObject([{ group: 'a', calls: 1, errors: 1, charged: 0n }])
    expect(await store.requests.find('r')).toMatchObject({ tags: tagsText(tags) })
  })
})
