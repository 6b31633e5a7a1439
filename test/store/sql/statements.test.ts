// Statements and reports say the same of the same bookings, whichever database has them.

import { expect, test } from 'bun:test'
import { MonthlySums, type StatementEntry } from '../../../src/credits/ledger/monthly.ts'
import { usd } from '../../../src/credits/money.ts'
import { day, grantOf, holdOf, noon, servedBySim, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const clock = { now: noon }
type Open = Parameters<Parameters<typeof describeOnBoth>[1]>[0]

/** On the first day 10 USD, a loan and 3 calls; on the second a refund of all that is left, and more, and a failed call; bert's is the third. */
async function threeDays(open: Open) {
  clock.now = noon
  const store = await open(() => clock.now)
  const { ledger } = store
  const { lot } = await ledger.grant(grantOf('g', usd(10)))
  await ledger.grant(
    grantOf('daily:anna:2026-11-21', usd('0.2'), { pool: 'daily', expiresAt: noon + day / 2 }),
  )
  await ledger.grant(grantOf('h', usd(1), { account: 'bert' }))
  const served = { ...servedBySim, provider: 'acme', upstreamModel: 'model-1', upstreamId: 'up-1' }
  for (const call of ['a', 'b']) {
    await ledger.hold(holdOf(call))
    await ledger.settle(settleOf(call, usd('0.5'), { served }))
  }
  const app = { key: null, funding: ['daily', 'purchased'] as const }
  await ledger.hold(holdOf('c', app))
  // More than was held: the rest is absorbed, since it is estimated.
  await ledger.settle(settleOf('c', usd(3), { estimated: true, served: { ...served, unpriced: ['search'] } }))
  clock.now = noon + day
  await ledger.refund({ id: 'back', account: 'anna', lot, amount: usd(10) })
  clock.now += 1
  await ledger.hold(holdOf('d', { account: 'bert' }))
  const attempt = {
    ...servedBySim.attempts[0]!,
    provider: 'acme',
    upstreamId: 'up-2',
    outcome: 'failed' as const,
  }
  await ledger.release({ call: 'd', owner: 'here', reason: 'unreachable', attempts: [attempt] })
  clock.now = noon + 2 * day
  await ledger.grant(grantOf('i', usd(1), { account: 'bert' }))
  return { ...store, lot }
}

const kindsOf = (entries: readonly StatementEntry[]) => entries.map(({ kind, pool }) => `${kind} ${pool}`)

describeOnBoth('statements', (open) => {
  test('pages of any length put together are the whole history, backwards', async () => {
    const { statements, reports } = await threeDays(open)
    const history = await reports.history('anna')
    expect(kindsOf(history)).toEqual([
      'grant purchased',
      'grant daily',
      'settle purchased',
      'settle purchased',
      'settle daily',
      'settle purchased',
      'refund purchased',
      'refund purchased',
    ])
    const whole = history.toReversed().map(({ balance: _, ...entry }) => entry)
    for (const limit of [1, 2, 3, 7, 8, 9]) {
      const entries: StatementEntry[] = []
      for (let before: number | null | undefined; before !== null;) {
        const page = await statements.page('anna', limit, before)
        entries.push(...page.entries)
        before = page.next
      }
      expect(entries).toEqual(whole)
    }
    expect(history.at(-1)!.balance).toBe(usd('-1.8'))
    expect(history[2]).toMatchObject({ call: 'a', model: 'sim/echo', source: null, amount: usd('-0.5') })
    expect(history[0]).toMatchObject({ source: 'g', at: noon, balance: usd(10) })
    expect(await statements.page('nobody', 5)).toEqual({ entries: [], next: null })
  })

  test('a day has what is of it, between what stood before and after', async () => {
    const { statements } = await threeDays(open)
    const spanOf = async (account: string, from: number) => {
      const entries: StatementEntry[] = []
      const span = await statements.span(account, { from, to: from + day }, (entry) => entries.push(entry))
      return { ...span, kinds: kindsOf(entries) }
    }
    const midnight = noon + day / 2
    expect(await spanOf('anna', midnight)).toEqual({
      opening: { credit: usd('8.2'), owed: 0n },
      closing: { credit: 0n, owed: usd('1.8') },
      kinds: ['refund purchased', 'refund purchased'],
    })
    expect((await spanOf('anna', midnight - day)).kinds).toHaveLength(6)
    expect(await spanOf('bert', midnight)).toEqual({
      opening: { credit: usd(1), owed: 0n },
      closing: { credit: usd(1), owed: 0n },
      kinds: [],
    })
    for (const [account, from] of [
      ['anna', midnight],
      ['anna', midnight - day],
      ['anna', midnight - 2 * day],
      ['bert', midnight],
      ['nobody', midnight],
    ] as const) {
      const to = from + day
      const [lines, sums] = [new MonthlySums(), new MonthlySums()]
      const span = await statements.span(account, { from, to }, (entry) => lines.add(entry))
      const { sums: added, ...between } = await statements.sums({ account, from, to })
      for (const sum of added) sums.add(sum)
      expect(between).toEqual(span)
      expect(sums.days).toEqual(lines.days)
    }
    const { sums } = await statements.sums({ account: 'anna', from: midnight - day, to: midnight })
    expect(sums.map(({ kind, pool, entries, source }) => ({ kind, pool, entries, source }))).toEqual([
      { kind: 'grant', pool: 'purchased', entries: 1, source: 'g' },
      { kind: 'grant', pool: 'daily', entries: 1, source: 'daily:anna:2026-11-21' },
      { kind: 'settle', pool: 'purchased', entries: 3, source: null },
      { kind: 'settle', pool: 'daily', entries: 1, source: null },
    ])
    const before = await statements.firstSince('anna', midnight)
    expect(kindsOf((await statements.page('anna', 9, before)).entries)).toHaveLength(6)
    expect(kindsOf((await statements.page('anna', 9, undefined, midnight)).entries)).toHaveLength(2)
  })

  test('reports say what a provider was paid, and what nobody has paid', async () => {
    const { reports, ledger } = await threeDays(open)
    expect(await reports.debts()).toEqual([{ account: 'anna', debt: usd('1.8') }])
    expect(await reports.callsOf('acme')).toMatchObject([
      { call: 'a', upstreamId: 'up-1', outcome: 'served', charged: usd('0.5'), estimated: false, at: noon },
      { call: 'b' },
      { call: 'c', charged: usd(1), absorbed: usd(2), estimated: true },
      { call: 'd', upstreamId: 'up-2', outcome: 'failed', charged: 0n },
    ])
    const sums = { model: 'model-1', tier: null, failed: 0 }
    expect(await reports.sumsOf('acme', 0, noon + 9 * day)).toEqual([
      {
        ...sums,
        day: '2026-11-21',
        calls: 3,
        cost: usd(4),
        tokens: 45,
        estimated: 1,
        estimatedCost: usd(3),
        unpriced: 1,
      },
      {
        ...sums,
        day: '2026-11-22',
        model: 'echo',
        calls: 0,
        cost: 0n,
        tokens: 0,
        estimated: 0,
        estimatedCost: 0n,
        unpriced: 0,
        failed: 1,
      },
    ])
    expect(await reports.sumsOf('acme', 0, noon)).toEqual([])
    expect(await reports.unpaid(0)).toEqual([
      { provider: 'acme', absorbedCalls: 1, absorbed: usd(2), overLimitCalls: 0 },
    ])
    expect((await reports.poolTotals()).map(({ pool, credit, owed }) => [pool, credit, owed])).toEqual([
      ['daily', 0n, 0n],
      ['purchased', usd(2), usd('1.8')],
    ])
    const [first] = (await ledger.auditDay(noon - day / 2)).checks.filter(({ ok }) => !ok)
    expect(first).toBeUndefined()
  })
})
