// Usage by tag: the sums of the receipts that have it, exactly, whatever ended the calls and whoever was killed.

import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { groupTag, tagsText, type Tags } from '../../../src/conversation/tags.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { usd } from '../../../src/credits/money.ts'
import type { UsageQuery, UsageReport } from '../../../src/observe/call-log.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { until } from '../../chat/lab.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { logRowOf } from './support.ts'

const dirs: TempDir[] = []
const stores: Store[] = []
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

function freshDir(): string {
  const dir = tempDir('weir-tags-')
  dirs.push(dir)
  return dir.join('data')
}

async function open(dataDir: string, clock: () => number = () => noon, serveAs?: string): Promise<Store> {
  const store = await openStore(dataDir, { clock, ...(serveAs === undefined ? {} : { serveAs }) })
  stores.push(store)
  return store
}

const range = { from: noon - 40 * day, until: noon + day }
const report = (store: Store, query: Omit<UsageQuery, 'from' | 'until'>, most = 100): Promise<UsageReport> =>
  store.usage.report({ ...range, ...query }, most)

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

async function csvOf(store: Store, query: Omit<UsageQuery, 'from' | 'until'>): Promise<string[]> {
  let text = ''
  for await (const piece of store.usage.csv({ ...range, ...query })) text += piece
  return text.trimEnd().split('\r\n').slice(1)
}

const tagsOf = fc.dictionary(
  fc.constantFrom('team', 'feature', 'user'),
  fc.constantFrom('a', 'b', 'ü,=%', 'c'),
  {
    maxKeys: 3,
  },
)
const callOf = fc.record({
  tags: tagsOf,
  account: fc.constantFrom('anna', 'berta'),
  key: fc.constantFrom('key1', 'key2', null),
  group: fc.constantFrom(null, null, 'grp_a', 'grp_b'),
  model: fc.constantFrom('sim/echo', 'sim/other'),
  cost: fc.bigInt({ min: 0n, max: usd('0.7') }),
  /** How it ends; a call that is left is ended by whoever comes after the process. */
  end: fc.constantFrom('settled', 'settled', 'released', 'left', 'left after a checkpoint'),
  /** Together with the next ones, in one commit. */
  together: fc.boolean(),
  days: fc.integer({ min: 0, max: 3 }),
})

describe('usage by tag', () => {
  test('is the sum of the receipts with the tag, of any calls', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(callOf, { minLength: 1, maxLength: 25 }), async (calls) => {
        const dataDir = freshDir()
        let now = noon - 2 * day
        const first = await open(dataDir, () => now, 'first')
        const { ledger } = first
        for (const account of ['anna', 'berta'])
          await ledger.grant(grantOf(`g:${account}`, usd(100), { account }))
        const running: Promise<unknown>[] = []
        for (const [n, { tags, account, key, group, model, cost, end, together, days }] of calls.entries()) {
          now = Math.max(now, noon - 2 * day + days * day)
          const call = `call${String(n).padStart(3, '0')}`
          const ends = async () => {
            const text = Object.keys(tags).length === 0 ? undefined : tagsText(tags)
            const inGroup = group === null ? null : { group, person: account, budgets: [] }
            const hold = holdOf(call, {
              inGroup,
              account,
              key,
              model,
              tags: text,
              owner: 'first',
              leaseUntil: now + 9 * day,
            })
            await ledger.hold(hold)
            const command = { call, owner: 'first' }
            if (end === 'settled')
              await ledger.settle(settleOf(call, cost, { owner: 'first', most: usd('0.5') }))
            if (end === 'released')
              await ledger.release({ ...command, reason: 'provider_error', attempts: [] })
            if (end === 'left after a checkpoint')
              await ledger.checkpoint({
                ...command,
                usage: { ...noUsage, input: 3 },
                cost,
                leaseUntil: now + 9 * day,
              })
          }
          running.push(ends())
          if (!together) await Promise.all(running.splice(0))
        }
        await Promise.all(running)
        await stores.pop()!.close()
        // The first process is dead: what it left is ended with its tags.
        const second = await open(dataDir, () => now, 'second')
        await second.ledger.recover(now)

        const receipts = await Promise.all(
          calls.map(
            async ({ account }, n) =>
              (await second.ledger.call(account, `call${String(n).padStart(3, '0')}`))!,
          ),
        )
        expect(receipts.map(({ tags }) => tags)).toEqual(calls.map(({ tags }) => ({ ...tags })))
        for (const account of [undefined, 'anna'])
          for (const name of ['team', 'feature', 'user', 'nothing', groupTag]) {
            const expected: Record<string, { calls: number; charged: bigint }> = {}
            for (const receipt of receipts) {
              if (account !== undefined && receipt.account !== account) continue
              const sum = (expected[
                (name === groupTag ? receipt.inGroup?.group : receipt.tags[name]) ?? ''
              ] ??= { calls: 0, charged: 0n })
              sum.calls++
              sum.charged += receipt.charged
            }
            const query = { by: 'tag' as const, tagName: name, ...(account === undefined ? {} : { account }) }
            expect(sumsOf(await report(second, query))).toEqual(expected)
            expect(sumsOf(await report(second, { ...query, per: 'month' }))).toEqual(expected)
            const whole = await report(second, { by: 'day', ...(account === undefined ? {} : { account }) })
            expect((await report(second, query)).totals).toEqual(whole.totals)
            // The file has the same rows.
            const { rows } = await report(second, query)
            expect((await csvOf(second, query)).length).toBe(rows.length)
          }
        await stores.pop()!.close()
      }),
      { numRuns: 25 },
    )
  }, 60_000)

  const spend = async (store: Store, call: string, cost: bigint, more: object) => {
    await store.ledger.hold(holdOf(call, more))
    await store.ledger.settle(settleOf(call, cost))
  }

  async function threeTeams(clock: () => number = () => noon) {
    const store = await open(freshDir(), clock)
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
    const store = await open(freshDir())
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
