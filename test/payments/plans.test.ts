// Plans on both databases: a period for each payment, once, in its place, and nothing of it where the money went back.

import { expect, test } from 'bun:test'
import { monthsAfter } from '../../src/credits/calendar.ts'
import { usd } from '../../src/credits/money.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import type { PaidFact, PaymentEvent, PaymentNews, TopUp } from '../../src/payments/top-up.ts'
import { Payments } from '../../src/payments/payments.ts'
import { type PlanOnSale, planStart, remindOfEnds } from '../../src/payments/subscriptions.ts'
import type { PaymentProcessor } from '../../src/payments/processor.ts'
import type { Store } from '../../src/store/store.ts'
import { day, holdOf, minute, noon, settleOf } from '../credits/support.ts'
import { seeded } from '../simulation/random.ts'
import { describeOnBoth } from '../support/both-databases.ts'
import { tempDir } from '../support/tmp.ts'
import { openStore } from '../../src/store/open.ts'
import { inRupees, plansOver } from './top-up.ts'

const basic: PlanOnSale = {
  id: 'basic',
  title: 'Basic',
  about: null,
  credit: usd(5),
  months: 1,
  models: ['sim/premium'],
  prices: new Map([
    ['INR', 49_900n],
    ['EUR', 599n],
  ]),
}
const pro: PlanOnSale = { ...basic, id: 'pro', title: 'Pro', credit: usd(20), models: null }
const sold = [basic, pro]
const nowhere = () => ({ origin: 'http://localhost', page: 'http://localhost/' })

const processor: PaymentProcessor = {
  id: 'razorpay',
  test: false,
  verify: undefined,
  open: async ({ id }) => ({ reference: `plink_${id}`, url: 'https://pay.example' }),
  look: async () => ({ kind: 'open' }),
  refund: async ({ paymentId, currency }, amount, id) => ({
    kind: 'refund',
    refundId: id,
    paymentId: paymentId!,
    amount,
    currency,
    of: 'one',
  }),
}

const rich = { account: 'anna', pool: 'purchased', expiresAt: null, from: 'grant' } as const

type Kept = Pick<Store, 'payments' | 'subscriptions' | 'ledger'>

/** On SQLite, until the end of the scope. */
async function openedStore(clock: { now: number }) {
  const home = tempDir('weir-plans-')
  const store = await openStore(home.path, { clock: () => clock.now })
  const close = async () => {
    await store.close()
    home.remove()
  }
  return { ...store, [Symbol.asyncDispose]: close }
}

/** A shop over a store, with what was told to operators. */
function shopOver(store: Kept, clock: { now: number }, by = processor) {
  const alarms: unknown[] = []
  const plans = plansOver(store, () => clock.now, sold)
  const payments = new Payments({
    store: store.payments,
    ledger: store.ledger,
    plans,
    processors: [by],
    currencies: inRupees(),
    unpaidPerHour: 1_000,
    isUsable: () => true,
    now: () => clock.now,
    alarm: (_, { problem }) => void alarms.push(problem),
  })
  return { payments, plans, alarms }
}
type Shop = ReturnType<typeof shopOver>

function buy({ payments }: Shop, plan: PlanOnSale, account = 'anna', currency = 'INR'): Promise<TopUp> {
  return payments.openPlan({ account, plan, currency, processor: undefined, idempotencyKey: null }, nowhere)
}

const paidFor = (topUp: TopUp, more: Partial<PaidFact> = {}): PaidFact => ({
  kind: 'paid',
  paymentId: `pay_${topUp.id}`,
  amount: topUp.amount,
  currency: topUp.currency,
  paidAt: null,
  method: 'upi',
  ...more,
})

function tell({ payments }: Shop, id: string, topUp: TopUp, news: PaymentNews) {
  const event: PaymentEvent = { id, type: 'a test', topUp: topUp.id, reference: null, news }
  return payments.take('razorpay', event, Buffer.from(id))
}

async function buyAndPay(shop: Shop, plan: PlanOnSale, account = 'anna'): Promise<TopUp> {
  const topUp = await buy(shop, plan, account)
  await tell(shop, `evt_${topUp.id}`, topUp, paidFor(topUp))
  return topUp
}

const refunded = (topUp: TopUp, amount: bigint, id: string): PaymentNews => ({
  kind: 'refund',
  refundId: id,
  paymentId: `pay_${topUp.id}`,
  amount,
  currency: topUp.currency,
  of: 'one',
})

/** What there is of each lot, the first to end first. */
async function lotsOf({ ledger }: Kept, account = 'anna') {
  const { lots, debt } = await ledger.balance(account)
  expect(debt).toBe(0n)
  return lots
    .map(({ pool, remaining, expiresAt }) => ({ pool, remaining, expiresAt }))
    .toSorted((a, b) => Number(a.expiresAt) - Number(b.expiresAt))
}

async function broken({ ledger }: Kept) {
  const report = await ledger.audit()
  return report.checks.filter(({ ok }) => !ok)
}

test('a period begins after those of as much credit or more, and beside smaller ones at once', () => {
  const ends = (amount: bigint, endsAt: number, state: 'active' | 'refunded' = 'active') => ({
    amount,
    endsAt,
    state,
  })
  expect(planStart([], 5n, 100)).toBe(100)
  expect(planStart([ends(5n, 200), ends(5n, 300)], 5n, 100)).toBe(300)
  expect(planStart([ends(5n, 200)], 20n, 100)).toBe(100)
  expect(planStart([ends(20n, 200)], 5n, 100)).toBe(200)
  expect(planStart([ends(20n, 200, 'refunded')], 5n, 100)).toBe(100)
})

describeOnBoth('plans', (open, database) => {
  test('a payment that is told of by many at once, to two gateways, is one period with one credit', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shops = [shopOver(store, clock), shopOver(await store.beside(), clock)]
    const topUp = await buy(shops[0]!, basic)
    expect(topUp).toMatchObject({ amount: 49_900n, currency: 'INR', credit: usd(5), plan: { id: 'basic' } })
    await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        tell(shops[n % 2]!, `evt_${n % 3}`, topUp, paidFor(topUp)).catch((error: unknown) => {
          // What meets another on its way is sent again by the processor.
          if (!(error instanceof GatewayError)) throw error
        }),
      ),
    )
    await tell(shops[1]!, 'evt_again', topUp, paidFor(topUp))
    const until = monthsAfter(noon, 1)
    expect(await lotsOf(store)).toEqual([{ pool: 'subscription', remaining: usd(5), expiresAt: until }])
    expect(await store.payments.findTopUp(topUp.id)).toMatchObject({
      state: 'credited',
      lot: null,
      receipt: { number: 1 },
      plan: { id: 'basic', period: { startsAt: noon, endsAt: until } },
    })
    expect(await shops[0]!.plans.periodsOf('anna')).toHaveLength(1)
    expect(await broken(store)).toEqual([])
  })

  test('periods that are paid at once follow each other, and each is granted once, when it begins', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shops = [shopOver(store, clock), shopOver(await store.beside(), clock)]
    await Promise.all(Array.from({ length: 4 }, (_, n) => buyAndPay(shops[n % 2]!, basic)))
    const ends = [1, 2, 3, 4].map((months) => monthsAfter(noon, months))
    const placed = await shops[0]!.plans.periodsOf('anna')
    expect(placed.map(({ startsAt, endsAt }) => [startsAt, endsAt])).toEqual(
      ends.map((end, n) => [n === 0 ? noon : ends[n - 1]!, end]),
    )
    expect(await lotsOf(store)).toHaveLength(1)
    // A page goes on behind the last of the page before, the last to begin first.
    const asked = { now: clock.now, limit: 3 }
    const page = await store.subscriptions.pagePlans({ ...asked, account: 'anna', plan: 'basic' })
    const rest = await store.subscriptions.pagePlans({ ...asked, after: page.at(-1)! })
    expect([page, rest].map((rows) => rows.map(({ period }) => period))).toEqual([
      [3, 2, 1].map((n) => placed[n]!.period),
      [placed[0]!.period],
    ])
    expect(await store.subscriptions.pagePlans({ ...asked, plan: 'pro' })).toEqual([])
    clock.now = ends[0]! - minute / 2
    // Who sweeps at the same moment grants nothing more, and no moment is without credit.
    await Promise.all(shops.map(({ plans }) => plans.sweep(clock.now)))
    expect((await lotsOf(store)).map(({ expiresAt }) => expiresAt)).toEqual(ends.slice(0, 2))
    clock.now = ends[1]!
    await shops[1]!.plans.sweep(clock.now)
    await shops[1]!.plans.sweep(clock.now)
    expect(await lotsOf(store)).toMatchObject([{ remaining: usd(5), expiresAt: ends[2]! }])
    expect(await broken(store)).toEqual([])
  })

  test('a larger plan begins at once, a smaller one after it', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    await buyAndPay(shop, basic)
    clock.now += day
    await buyAndPay(shop, pro)
    await buyAndPay(shop, basic)
    const periods = await shop.plans.periodsOf('anna')
    const proEnds = monthsAfter(noon + day, 1)
    expect(periods.map(({ product, startsAt }) => [product, startsAt])).toEqual([
      ['basic', noon],
      ['pro', noon + day],
      ['basic', proEnds],
    ])
    expect((await lotsOf(store)).map(({ remaining }) => remaining)).toEqual([usd(5), usd(20)])
    // What basic names is open; its credit opens nothing else, that of pro everything.
    const opened = await shop.plans.modelsOf('anna')
    expect([opened.models, opened.lots.size]).toEqual([['sim/premium'], 1])
    clock.now = monthsAfter(noon, 1)
    expect((await shop.plans.modelsOf('anna')).models).toEqual([])
  })

  test('a payment that goes back takes what is left and no more; a part of it takes nothing', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    const topUp = await buyAndPay(shop, basic)
    const call = holdOf('call', {
      account: 'anna',
      key: null,
      funding: ['subscription'],
      want: usd(2),
      least: usd(2),
    })
    await store.ledger.hold(call)
    await store.ledger.settle(settleOf('call', usd(2)))
    await tell(shop, 'part', topUp, refunded(topUp, 20_000n, 'r1'))
    expect(await lotsOf(store)).toMatchObject([{ remaining: usd(3) }])
    await Promise.all([
      tell(shop, 'rest', topUp, refunded(topUp, 29_900n, 'r2')),
      tell(shop, 'rest again', topUp, refunded(topUp, 29_900n, 'r2')),
    ])
    expect((await lotsOf(store)).filter(({ remaining }) => remaining > 0n)).toEqual([])
    expect(await shop.plans.periodsOf('anna')).toEqual([])
    // More than was paid does not go back, and a refund that fails brings nothing back by itself.
    await tell(shop, 'more', topUp, refunded(topUp, 1n, 'r3'))
    expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'refunded', refunded: 49_900n })
    await tell(shop, 'failed', topUp, {
      ...refunded(topUp, 29_900n, 'r2'),
      kind: 'refund-failed',
    } as PaymentNews)
    expect(shop.alarms).toEqual(['refund_exceeds', 'plan_refund_failed'])
    expect((await lotsOf(store)).filter(({ remaining }) => remaining > 0n)).toEqual([])
    expect(await broken(store)).toEqual([])
  })

  test('a period that goes back before it begins is never granted', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    await buyAndPay(shop, basic)
    const second = await buyAndPay(shop, basic)
    await expect(shop.payments.refund(second.id, 49_901n, 'too much')).rejects.toMatchObject({
      code: 'invalid_request',
    })
    await shop.payments.refund(second.id, 49_900n, 'all')
    clock.now = monthsAfter(noon, 1)
    await shop.plans.sweep(clock.now)
    expect((await lotsOf(store)).filter(({ remaining }) => remaining > 0n)).toEqual([])
    // The place is free for another.
    await buyAndPay(shop, basic)
    expect(await lotsOf(store)).toMatchObject([{ remaining: usd(5) }])
    expect(await broken(store)).toEqual([])
  })

  test('what was to follow a period that is taken back begins at once, with its credit, once', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shops = [shopOver(store, clock), shopOver(await store.beside(), clock)]
    const running = await buyAndPay(shops[0]!, pro)
    const next = await buyAndPay(shops[0]!, basic)
    const last = await buyAndPay(shops[0]!, basic)
    clock.now += 5 * day
    // Heard of by two gateways at once, and again; each also sweeps.
    await Promise.all(
      shops.flatMap((shop, n) => [
        tell(shop, `back ${n}`, running, refunded(running, running.amount, 'r1')).catch(onRace),
        shop.plans.sweep(clock.now).catch(onRace),
      ]),
    )
    await tell(shops[1]!, 'back again', running, refunded(running, running.amount, 'r1'))
    await shops[1]!.plans.sweep(clock.now)
    const ends = [1, 2].map((months) => monthsAfter(clock.now, months))
    const periods = await shops[0]!.plans.periodsOf('anna')
    expect(periods.map(({ subscription, startsAt, endsAt }) => ({ subscription, startsAt, endsAt }))).toEqual(
      [
        { subscription: next.id, startsAt: clock.now, endsAt: ends[0]! },
        { subscription: last.id, startsAt: ends[0]!, endsAt: ends[1]! },
      ],
    )
    const there = (await lotsOf(store)).filter(({ remaining }) => remaining > 0n)
    expect(there).toEqual([{ pool: 'subscription', remaining: usd(5), expiresAt: ends[0]! }])
    // Its payment says so, and each is granted once more when its time comes.
    expect((await store.payments.findTopUp(next.id))!.plan!.period).toEqual({
      startsAt: clock.now,
      endsAt: ends[0]!,
    })
    clock.now = ends[0]!
    await Promise.all(shops.map(({ plans }) => plans.sweep(clock.now)))
    expect((await lotsOf(store)).filter(({ expiresAt }) => Number(expiresAt) > clock.now)).toEqual([
      { pool: 'subscription', remaining: usd(5), expiresAt: ends[1]! },
    ])
    expect(await broken(store)).toEqual([])
  })

  test('one that follows something else as well waits for that, and what is granted stays', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    const small = await buyAndPay(shop, basic)
    clock.now += day
    const large = await buyAndPay(shop, pro)
    await buyAndPay(shop, basic)
    // The larger one goes back: the next small one follows the first.
    await tell(shop, 'large back', large, refunded(large, large.amount, 'r1'))
    const ends = monthsAfter(noon, 1)
    const starts = async () => (await shop.plans.periodsOf('anna')).map(({ startsAt }) => startsAt)
    expect(await starts()).toEqual([noon, ends])
    // In the last minutes another gateway may be granting it: it stays where it is.
    clock.now = ends - 9 * minute
    await tell(shop, 'small back', small, refunded(small, small.amount, 'r2'))
    expect(await starts()).toEqual([ends])
    expect(await broken(store)).toEqual([])
  })

  test('a payment that goes back while its period is granted leaves nothing', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const other = shopOver(await store.beside(), clock)
    await buyAndPay(other, basic)
    const second = await buyAndPay(other, basic)
    clock.now = monthsAfter(noon, 1)
    // Another gateway hears of the refund before this one has noted what it has granted.
    const ledger = new Proxy(store.ledger, {
      get(of, name) {
        const verb = Reflect.get(of, name) as unknown
        if (typeof verb !== 'function') return verb
        if (name !== 'grant') return verb.bind(of) as unknown
        return async (command: Parameters<typeof of.grant>[0]) => {
          await tell(other, 'back', second, refunded(second, second.amount, 'r1'))
          return of.grant(command)
        }
      },
    })
    await shopOver({ ...store, ledger }, clock).plans.sweep(clock.now)
    expect((await lotsOf(store)).filter(({ remaining }) => remaining > 0n)).toEqual([])
    expect(await other.plans.periodsOf('anna')).toEqual([])
    expect(await broken(store)).toEqual([])
  })

  test('another amount, another currency and test mode grant nothing', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    const [less, other] = [await buy(shop, pro), await buy(shop, pro, 'anna', 'EUR')]
    expect(await tell(shop, 'less', less, paidFor(less, { amount: 49_899n }))).toBe('refused')
    expect(await tell(shop, 'other', other, paidFor(other, { currency: 'INR' }))).toBe('refused')
    for (const [{ id }, problem] of [
      [less, 'amount_differs'],
      [other, 'currency_differs'],
    ] as const)
      expect(await store.payments.findTopUp(id)).toMatchObject({ state: 'open', problem })
    const testing = shopOver(store, clock, { ...processor, test: true })
    const topUp = await buyAndPay(testing, pro)
    expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited', receipt: null })
    expect(await lotsOf(store)).toEqual([])
    expect(await shop.plans.periodsOf('anna')).toEqual([])
    await expect(buy(shop, pro, 'anna', 'USD')).rejects.toMatchObject({ code: 'invalid_request' })
    expect(await broken(store)).toEqual([])
  })

  test('a period by hand is granted once for its id', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const { plans } = shopOver(store, clock)
    await Promise.all([1, 2, 3].map(() => plans.grant('anna', 'basic', 'gift', 'cli:otto')))
    expect(await lotsOf(store)).toMatchObject([{ remaining: usd(5) }])
    for (const [account, plan] of [
      ['ben', 'basic'],
      ['anna', 'pro'],
    ] as const)
      await expect(plans.grant(account, plan, 'gift', 'cli:otto')).rejects.toMatchObject({
        code: 'idempotency_conflict',
      })
    await expect(plans.grant('anna', 'none', 'gift', 'cli:otto')).rejects.toMatchObject({ code: 'not_found' })
    // What the operator did is noted with it, once.
    const acts = await store.acts.page(10, undefined, { what: 'plan.grant' })
    expect(acts.map(({ operator, subject }) => `${operator} ${subject}`)).toEqual(['cli:otto anna'])
    expect(await broken(store)).toEqual([])
    await store.execute(
      `INSERT INTO subscription (period, source, subscription, account, product, starts_at, ends_at, state, amount,
         created_at, updated_at) SELECT 'subscription:weir.plan:by-hand-x:2026', source, 'by-hand-x', account, product,
         starts_at, ends_at, state, amount, created_at, updated_at FROM subscription`,
    )
    expect(await broken(store)).toMatchObject([{ detail: 'period subscription:weir.plan:by-hand-x:2026' }])
    await store.execute("DELETE FROM subscription WHERE subscription = 'by-hand-x'")
    expect(await broken(store)).toEqual([])
  })

  test('its holder is reminded once before the last period ends, and not where they have cancelled', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shop = shopOver(store, clock)
    for (const account of ['anna', 'ben', 'cleo']) await buyAndPay(shop, basic, account)
    await buyAndPay(shop, basic, 'ben')
    await shop.plans.cancel('cleo')
    const sent: string[] = []
    const parts = {
      store: store.subscriptions,
      aheadMs: 3 * day,
      addressOf: (account: string) => `${account}@example.org`,
      send: async ({ to, text }: { to: string; text: string }) => {
        expect(text).toContain('It does not renew itself')
        sent.push(to)
      },
      titleOf: (id: string) => id,
      page: () => 'http://localhost/console/credits/plans',
      onFailure: (error: unknown) => expect(error).toBeUndefined(),
    }
    const until = monthsAfter(noon, 1)
    await remindOfEnds(parts, until - 4 * day)
    expect(sent).toEqual([])
    await Promise.all([remindOfEnds(parts, until - 2 * day), remindOfEnds(parts, until - 2 * day)])
    await remindOfEnds(parts, until - day)
    expect(sent).toEqual(['anna@example.org'])
    clock.now = monthsAfter(noon, 2) - day
    await remindOfEnds(parts, clock.now)
    expect(sent).toEqual(['anna@example.org', 'ben@example.org'])
  })

  test('a period that the ledger refuses holds up no other', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    let alarms = 0
    const plans = plansOver(
      store,
      () => clock.now,
      sold,
      () => void alarms++,
    )
    await plans.grant('anna', 'basic', 'first', 'cli:otto')
    await plans.grant('anna', 'basic', 'second', 'cli:otto')
    await plans.grant('ben', 'basic', 'third', 'cli:otto')
    await plans.grant('ben', 'basic', 'fourth', 'cli:otto')
    clock.now = monthsAfter(noon, 1)
    await store.ledger.expire(clock.now)
    const most = [1_000_000, 1_000_000, 1_000_000, 999_997]
    for (const [n, dollars] of most.entries())
      await store.ledger.grant({ ...rich, source: `operator:rich-${n}`, amount: usd(dollars) })
    await plans.sweep(clock.now)
    await plans.sweep(clock.now)
    expect([alarms, (await lotsOf(store, 'ben')).length]).toEqual([1, 1])
  })

  test('whatever the order of messages, refunds and sweeps, what was granted is what was paid', async () => {
    const clock = { now: noon }
    const store = await open(() => clock.now)
    const shops = [shopOver(store, clock), shopOver(await store.beside(), clock)]
    const ways = database === 'SQLite' ? 4 : 2
    for (let seed = 0; seed < ways; seed++) {
      const random = seeded(seed)
      const account = `acct-${seed}`
      const topUps: TopUp[] = []
      const back = new Map<string, bigint>()
      const paid = new Set<string>()
      for (let step = 0; step < 14; step++) {
        const shop = random.pick(shops)
        const one = topUps.length === 0 ? undefined : random.pick(topUps)
        const act = random.below(6)
        if (one === undefined || act === 0) topUps.push(await buy(shop, random.pick(sold), account))
        else if (act < 3) {
          const fact = paidFor(one, random.oneIn(5) ? { amount: one.amount - 1n } : {})
          if (fact.amount === one.amount) paid.add(one.id)
          await Promise.all(
            shops.map((each, n) => tell(each, `${one.id} ${step} ${n}`, one, fact).catch(onRace)),
          )
          await tell(shop, `${one.id} ${step}`, one, fact)
        } else if (act === 3 && paid.has(one.id)) {
          const part = random.oneIn(2) ? one.amount : BigInt(1 + random.below(Number(one.amount)))
          const left = one.amount - (back.get(one.id) ?? 0n)
          back.set(one.id, (back.get(one.id) ?? 0n) + (part < left ? part : left))
          await tell(shop, `${one.id} back ${step}`, one, refunded(one, part, `r ${one.id} ${step}`))
        } else clock.now += random.pick([minute, day, 20 * day])
        if (random.oneIn(2)) await Promise.all(shops.map(({ plans }) => plans.sweep(clock.now).catch(onRace)))
      }
      await shops[0]!.plans.sweep(clock.now)
      const rows = await store.subscriptions.listPeriods(account, 100)
      expect([seed, rows.map(({ subscription }) => subscription).toSorted()]).toEqual([
        seed,
        [...paid].toSorted(),
      ])
      const standing = rows.filter(({ state }) => state !== 'refunded')
      for (const row of rows) {
        const gone = back.get(row.subscription) === 49_900n
        expect([seed, row.state]).toEqual([seed, gone ? 'refunded' : 'active'])
        if (row.startsAt <= clock.now && row.endsAt > clock.now && !gone) expect(row.lot).not.toBeNull()
        // None waits for nothing.
        if (row.startsAt > clock.now + 10 * minute && !gone)
          expect([
            seed,
            standing.some(({ amount, endsAt }) => amount >= row.amount && endsAt === row.startsAt),
          ]).toEqual([seed, true])
        // Of one size none overlap, where none was given back before another was placed.
        if (back.size === 0)
          for (const other of standing)
            if (other !== row && other.amount === row.amount)
              expect(other.startsAt >= row.endsAt || row.startsAt >= other.endsAt).toBe(true)
      }
      const running = standing.filter(({ startsAt, endsAt }) => startsAt <= clock.now && endsAt > clock.now)
      const live = (await lotsOf(store, account)).filter(({ expiresAt }) => Number(expiresAt) > clock.now)
      const due = running.reduce((sum, { amount }) => sum + amount, 0n)
      expect([seed, live.reduce((sum, { remaining }) => sum + remaining, 0n)]).toEqual([seed, due])
    }
    expect(await broken(store)).toEqual([])
  }, 60_000)
})

/** What a process may do before it is killed, and whether its last step was carried out. */
function dyingAfter<T extends object>(target: T, life: { left: number; readonly done: boolean }): T {
  return new Proxy(target, {
    get(of, name) {
      const verb = Reflect.get(of, name) as unknown
      if (typeof verb !== 'function') return verb
      if (name === 'now') return verb.bind(of) as unknown
      return async (...args: unknown[]) => {
        if (life.left-- > 0) return verb.apply(of, args)
        if (life.left === -1 && life.done) await verb.apply(of, args)
        throw new Killed()
      }
    },
  })
}

class Killed extends Error {}

test('a gateway that is killed at any step of a payment, or of its refund, leaves one period or none', async () => {
  const clock = { now: noon }
  await using store = await openedStore(clock)
  for (let steps = 0; steps < 12; steps++)
    for (const done of [false, true]) {
      const account = `acct-${steps}-${done}`
      const shop = shopOver(store, clock)
      const topUp = await buy(shop, basic, account)
      const killed = async (work: (mortal: Shop) => Promise<unknown>) => {
        const life = { left: steps, done }
        const { payments, subscriptions, ledger } = store
        const mortal = {
          payments: dyingAfter(payments, life),
          subscriptions: dyingAfter(subscriptions, life),
          ledger: dyingAfter(ledger, life),
        }
        await work(shopOver(mortal, clock)).catch((error: unknown) => {
          if (!(error instanceof Killed)) throw error
        })
      }
      await killed((mortal) => tell(mortal, `${account} paid`, topUp, paidFor(topUp)))
      // The next one goes on from there, by its sweep or by the message that comes again.
      await shop.payments.sweep(clock.now)
      await shop.plans.sweep(clock.now)
      await tell(shop, `${account} paid`, topUp, paidFor(topUp))
      expect([account, await lotsOf(store, account)]).toMatchObject([account, [{ remaining: usd(5) }]])
      expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited' })
      const back = refunded(topUp, topUp.amount, `${account} r`)
      await killed((mortal) => tell(mortal, `${account} back`, topUp, back))
      await shop.payments.sweep(clock.now)
      await tell(shop, `${account} back`, topUp, back)
      expect((await lotsOf(store, account)).filter(({ remaining }) => remaining > 0n)).toEqual([])
    }
  expect(await broken(store)).toEqual([])
})

/** Two gateways at once: one may be told to try again. */
function onRace(error: unknown): void {
  if (!(error instanceof GatewayError) || (error.code !== 'overloaded' && error.code !== 'store_unavailable'))
    throw error
}
