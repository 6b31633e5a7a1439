// Usage by day: what the ledger has booked, and what it refused, the same on both databases.

import { expect, test } from 'bun:test'
import { noUsage } from '../../../src/conversation/usage.ts'
import { usd } from '../../../src/credits/money.ts'
import type { RequestLogRow, UsageGroup, UsageSum } from '../../../src/observe/call-log.ts'
import type { Store } from '../../../src/store/open.ts'
import { until } from '../../chat/lab.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const today = { from: noon - day / 2, until: noon + day / 2 }

async function usageOf(
  store: Pick<Store, 'usage'>,
  by: UsageGroup,
  more: { account?: string; key?: string; model?: string } = {},
) {
  return (await store.usage.report({ ...today, by, ...more }, 100)).rows
}

function added(sums: readonly UsageSum[]) {
  return {
    calls: BigInt(sums.reduce((total, { calls }) => total + calls, 0)),
    cost: sums.reduce((total, { cost }) => total + cost, 0n),
    charged: sums.reduce((total, { charged }) => total + charged, 0n),
  }
}

const refused: RequestLogRow = {
  requestId: 'refused',
  at: noon,
  account: 'anna',
  key: 'key1',
  model: 'sim/echo',
  provider: null,
  stream: false,
  status: 402,
  code: 'insufficient_credits',
  ending: null,
  promptTokens: 0,
  completionTokens: 0,
  cost: 0n,
  attempts: 0,
  firstByteMs: null,
  totalMs: 1,
  detail: null,
  contents: null,
  tags: null,
}

describeOnBoth('usage', (open) => {
  test('adds up to what the ledger has booked, whatever ended the calls', async () => {
    let now = noon - 2 * day
    const store = await open(() => now)
    const { ledger } = store
    for (const account of ['anna', 'berta'])
      await ledger.grant(grantOf(`g:${account}`, usd(100), { account }))
    for (let n = 0; n < 120; n++) {
      if (n % 40 === 0) now += n === 0 ? 0 : day
      const call = `call${n}`
      const account = n % 3 === 0 ? 'berta' : 'anna'
      const key = n % 5 === 0 ? null : `key${n % 2}`
      const model = n % 4 === 0 ? 'sim/echo' : 'sim/flaky'
      await ledger.hold(holdOf(call, { account, key, model, leaseUntil: now + day }))
      const release = { call, owner: 'here', reason: 'provider_error', attempts: [] }
      // Costs that no float adds up exactly, some beyond what may be charged.
      const cost = usd('0.000000000001') * BigInt(n * n * 7_919 + 1) + (n % 17 === 0 ? usd(3) : 0n)
      const ending = n % 11 === 0 ? ('provider-cut' as const) : ('finished' as const)
      if (n % 7 === 0) await ledger.release(release)
      else await ledger.settle(settleOf(call, cost, { ending, most: usd('0.5') }))
    }
    const range = { from: noon - 10 * day, until: noon + day }
    // What the table of ended calls adds up to, whatever the sums say.
    const [booked] = (await store.read(
      'SELECT count(*) AS calls, CAST(sum(cost) AS text) AS cost, CAST(sum(charged) AS text) AS charged FROM call',
    )) as [Record<'calls' | 'cost' | 'charged', string>]
    const [calls, cost, charged] = [BigInt(booked.calls), BigInt(booked.cost), BigInt(booked.charged)]
    for (const by of ['day', 'model', 'key', 'channel', 'account'] as const) {
      const { rows: sums, totals } = await store.usage.report({ ...range, by }, 100)
      expect(totals).toMatchObject({ calls: Number(calls), cost, charged })
      expect(added(sums)).toEqual({ calls, cost, charged })
    }
    expect(cost).toBeGreaterThan(charged)
    const used = ['anna', 'berta'].map(async (account) => (await ledger.totals(account)).used)
    expect((await Promise.all(used)).reduce((sum, each) => sum + each, 0n)).toBe(charged)
    const { rows: days } = await store.usage.report({ ...range, by: 'day' }, 100)
    expect(days.map(({ calls }) => calls)).toEqual([40, 40, 40])
  })

  test('tells failures, tokens, keys, models and the app apart', async () => {
    const store = await open(() => noon)
    const { ledger, requestLog } = store
    await ledger.grant(grantOf('g', usd(10)))
    const served = { usage: { ...noUsage, input: 10, cacheRead: 90, output: 5, reasoning: 7 } }
    await ledger.hold(holdOf('c1'))
    await ledger.settle(settleOf('c1', usd('0.25'), served))
    await ledger.hold(holdOf('c2', { key: null, model: 'sim/other' }))
    await ledger.release({ call: 'c2', owner: 'here', reason: 'provider_error', attempts: [] })
    await ledger.hold(holdOf('c3', { key: null, model: 'sim/other' }))
    await ledger.release({ call: 'c3', owner: 'here', reason: 'client-gone', attempts: [] })
    requestLog.appendRefused(refused, 'sim/echo')
    requestLog.appendRefused({ ...refused, requestId: 'made up', model: 'no/such' }, '')
    await until(
      () => usageOf(store, 'model', { account: 'anna' }),
      (sums) => sums.some(({ group }) => group === ''),
    )
    const zero = {
      day: today.from,
      label: null,
      errors: 0,
      inputTokens: 0,
      outputTokens: 0,
      cost: 0n,
      charged: 0n,
      timed: 0,
      ms: 0,
    }
    const paid = { timed: 1, inputTokens: 100, outputTokens: 12, cost: usd('0.25'), charged: usd('0.25') }
    expect(await usageOf(store, 'model', { account: 'anna' })).toEqual([
      { ...zero, group: '', calls: 1, errors: 1 },
      { ...zero, ...paid, group: 'sim/echo', calls: 2, errors: 1 },
      { ...zero, group: 'sim/other', calls: 2, errors: 1 },
    ])
    expect(await usageOf(store, 'channel')).toEqual([
      { ...zero, ...paid, group: 'api', calls: 3, errors: 2 },
      { ...zero, group: 'app', calls: 2, errors: 1 },
    ])
    expect(await usageOf(store, 'key', { account: 'anna', key: 'key1', model: 'sim/echo' })).toEqual([
      { ...zero, ...paid, group: 'key1', calls: 2, errors: 1 },
    ])
    expect(await usageOf(store, 'day', { account: 'somebody else' })).toEqual([])
  })

  test('ranks keys and accounts by their months as by their days, of one model too, and says what others came to before', async () => {
    let now = noon
    const store = await open(() => now)
    const { ledger } = store
    const keys = Array.from({ length: 12 }, (_, n) => ({
      key: n === 0 ? null : `key${n}`,
      account: `a${n % 3}`,
    }))
    for (const account of ['a0', 'a1', 'a2'])
      await ledger.grant(grantOf(`g:${account}`, usd(900), { account, expiresAt: 'never' }))
    const booked: { key: string; account: string; model: string; at: number; cost: bigint }[] = []
    for (let n = 0; n < 150; n++) {
      now = noon + Math.floor(n / 2) * day
      const { key, account } = keys[(n * n + Math.floor(n / 40)) % keys.length]!
      const cost = usd('0.001') * BigInt(((n * 7) % 11) + 1)
      const model = n % 3 === 0 ? 'sim/other' : 'sim/echo'
      await ledger.hold(holdOf(`m${n}`, { account, key, model, leaseUntil: now + day }))
      await ledger.settle(settleOf(`m${n}`, cost))
      booked.push({ key: key ?? '', account, model, at: now, cost })
    }
    for (const [from, until, model] of [
      [0, 75],
      [3, 44],
      [3, 44, 'sim/other'],
      [20, 21],
      [40, 75],
      [40, 75, 'sim/echo'],
    ] as const)
      for (const by of ['key', 'account'] as const) {
        const range = { from: today.from + from * day, until: today.from + until * day, model }
        const expected = new Map<string, bigint>()
        for (const call of booked)
          if (call.at >= range.from && call.at < range.until && call.model === (model ?? call.model))
            expected.set(call[by], (expected.get(call[by]) ?? 0n) + call.cost)
        const report = await store.usage.report({ ...range, by }, 3)
        const found = new Map<string, bigint>()
        for (const { group, cost } of report.rows) found.set(group, (found.get(group) ?? 0n) + cost)
        const best = [...expected.values()].toSorted((a, b) => Number(b - a)).slice(0, 3)
        expect([...found.values()].toSorted((a, b) => Number(b - a))).toEqual(best)
        expect(found.size + (report.rest?.groups ?? 0)).toBe(expected.size)
        for (const [group, cost] of found) expect(cost).toBe(expected.get(group)!)
        const sums = new Map<string, bigint>()
        for await (const piece of store.usage.csv({ ...range, by, per: 'month' }))
          for (const line of piece.split('\r\n')) {
            const [month, group, , , , , , cost] = line.split(',')
            if (month === 'day' || group === undefined) continue
            sums.set(group, (sums.get(group) ?? 0n) + usd(cost!))
          }
        expect(sums).toEqual(expected)
        if (by === 'key') continue
        const only = [...expected.keys()].slice(0, 2)
        const named = await store.usage.report({ ...range, by, only }, 100)
        for (const group of only)
          expect(added(named.rows.filter((row) => row.group === group)).cost).toBe(expected.get(group)!)
      }
  })

  test('tells providers apart, and what reached none', async () => {
    const store = await open(() => noon)
    await store.ledger.grant(grantOf('g', usd(10)))
    await store.ledger.hold(holdOf('c1'))
    await store.ledger.settle(settleOf('c1', usd('0.25')))
    store.requestLog.appendRefused(refused, 'sim/echo')
    const sums = await until(
      () => usageOf(store, 'provider' as UsageGroup),
      (rows) => rows.length === 2,
    )
    expect(sums.map(({ group, calls, errors, cost }) => ({ group, calls, errors, cost }))).toEqual([
      { group: 'sim', calls: 1, errors: 0, cost: usd('0.25') },
      { group: '', calls: 1, errors: 1, cost: 0n },
    ])
  })
})
