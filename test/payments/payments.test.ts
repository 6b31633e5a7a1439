// Moments between two writes, where another process or a death may come.

import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { PaidFact, PaymentEvent, PaymentStore, RefundNews, TopUp } from '../../src/payments/top-up.ts'
import { Payments } from '../../src/payments/payments.ts'
import type { PaymentProcessor } from '../../src/payments/processor.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { day, minute, noon } from '../credits/support.ts'
import { parseRate, usd } from '../../src/credits/money.ts'
import type { CurrencyTerms } from '../../src/payments/top-up-draft.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { inRupees, plansOver } from './top-up.ts'

let home: TempDir
let store: Store
let now: number
let alarms: Readonly<Record<string, unknown>>[]
/** What the processor says when it is asked. */
let fact: PaidFact | { readonly kind: 'open' }
let asked: number

const processor: PaymentProcessor = {
  id: 'razorpay',
  test: false,
  verify: undefined,
  open: async ({ id }) => ({ reference: `plink_${id}`, url: 'https://pay.example' }),
  look: async () => {
    asked++
    return fact
  },
  refund: async () => undefined,
}

beforeEach(async () => {
  home = tempDir('weir-payments-')
  now = noon
  alarms = []
  fact = { kind: 'open' }
  asked = 0
  store = await openStore(home.path, { clock: () => now, serveAs: 'test' })
})
afterEach(async () => {
  await store.close()
  home.remove()
})

function paymentsWith(payments: PaymentStore = store.payments, rate = '89.015'): Payments {
  return new Payments(partsWith(payments, rate))
}

function partsWith(payments: PaymentStore = store.payments, rate = '89.015') {
  return {
    store: payments,
    ledger: store.ledger,
    plans: plansOver(store, () => now),
    processors: [processor],
    currencies: inRupees(rate),
    unpaidPerHour: 20,
    isUsable: (account: string) => account === 'anna',
    now: () => now,
    alarm: (_: string, facts: Readonly<Record<string, unknown>>) => void alarms.push(facts),
  }
}

function open(payments: Payments, amount = 50_000n): Promise<TopUp> {
  const wanted = { account: 'anna', amount, currency: 'INR', processor: undefined, idempotencyKey: null }
  return payments.open(wanted, () => ({ origin: 'http://localhost', page: 'http://localhost/' }))
}

const paid = (paymentId: string, amount = 50_000n, paidAt: number | null = null): PaidFact => ({
  kind: 'paid',
  paymentId,
  amount,
  currency: 'INR',
  paidAt,
  method: 'upi',
})
const refund = (paymentId: string, amount: bigint): RefundNews => ({
  kind: 'refund',
  refundId: `rfnd_${paymentId}`,
  paymentId,
  amount,
  currency: 'INR',
  of: 'one',
})
const eventOf = (id: string, topUp: string | null, news: PaymentEvent['news']): PaymentEvent => ({
  id,
  type: news.kind,
  topUp,
  reference: null,
  news,
})
const take = (payments: Payments, event: PaymentEvent) =>
  payments.take('razorpay', event, Buffer.from(`${event.id}${event.type}`))

/** The store, with something that happens in one of its methods. */
function storeWith(methods: Partial<PaymentStore>): PaymentStore {
  return new Proxy(store.payments, {
    get: (target, name) => {
      const method: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name)
      return typeof method === 'function' ? method.bind(target) : method
    },
  })
}

test('a refund whose payment is credited between the look and the note is not forgotten', async () => {
  const plain = paymentsWith()
  const topUp = await open(plain)
  const racing = storeWith({
    concludeEvent: async (...given) => {
      if (given[1] === 'waiting') await take(plain, eventOf('evt_paid', topUp.id, paid('pay_1')))
      await store.payments.concludeEvent(...given)
    },
  })
  await take(paymentsWith(racing), eventOf('evt_refund', topUp.id, refund('pay_1', 50_000n)))
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'refunded' })
  expect(await store.ledger.balance('anna')).toMatchObject({ lots: [], debt: 0n })
})

test('a refund that waited while its process died is taken by the sweep', async () => {
  const dying = storeWith({
    waitingFor: () => {
      throw new Error('killed')
    },
  })
  const topUp = await open(paymentsWith())
  await take(paymentsWith(), eventOf('evt_refund', topUp.id, refund('pay_1', 20_000n)))
  await expect(take(paymentsWith(dying), eventOf('evt_paid', topUp.id, paid('pay_1')))).rejects.toThrow(
    'killed',
  )
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited' })
  await paymentsWith().sweep(now)
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'refunded_part' })
})

test('money stays at the rate it was ordered at, though the rate has changed while the page was open', async () => {
  const topUp = await open(paymentsWith())
  const dearer = paymentsWith(store.payments, '95')
  await take(dearer, eventOf('evt_paid', topUp.id, paid('pay_1')))
  const { lots } = await store.ledger.balance('anna')
  expect(lots.map(({ granted }) => granted)).toEqual([5_617_030_837_499n])
  expect((await open(dearer)).credit).toBe(5_263_157_894_736n)
})

test('two payments of one top-up are one credit and an alarm', async () => {
  const payments = paymentsWith()
  const topUp = await open(payments)
  await take(payments, eventOf('evt_1', topUp.id, paid('pay_1')))
  expect(await take(payments, eventOf('evt_2', topUp.id, paid('pay_2')))).toBe('refused')
  expect(alarms).toMatchObject([{ problem: 'paid_twice', top_up: topUp.id }])
  expect((await store.ledger.balance('anna')).lots).toHaveLength(1)
})

test('an account cannot open top-ups without end: what it leaves unpaid for an hour counts', async () => {
  const payments = paymentsWith()
  const opened: TopUp[] = []
  for (let at = 0; at < 20; at++) {
    opened.push(await open(payments))
    now += minute
  }
  const refused = open(payments)
  await expect(refused).rejects.toMatchObject({
    code: 'rate_limit_exceeded',
    details: { retryAfterMs: 40 * minute },
  })
  // Somebody else may go on, and so may the account when it has paid one, or when the first is an hour old.
  const anybody = { amount: 50_000n, currency: 'INR', processor: undefined, idempotencyKey: null }
  const nowhere = () => ({ origin: 'http://localhost', page: 'http://localhost/' })
  expect(await payments.open({ ...anybody, account: 'ben' }, nowhere)).toMatchObject({ state: 'open' })
  await take(payments, eventOf('evt_1', opened[7]!.id, paid('pay_1')))
  expect(await open(payments)).toMatchObject({ state: 'open' })
  await expect(open(payments)).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
  now = noon + 60 * minute
  expect(await open(payments)).toMatchObject({ state: 'open' })
})

test('requests at the same moment do not pass the limit together, and a repeated one is not refused', async () => {
  const payments = paymentsWith()
  const under = (idempotencyKey: string) =>
    payments.open(
      { account: 'anna', amount: 50_000n, currency: 'INR', processor: undefined, idempotencyKey },
      () => ({ origin: 'http://localhost', page: 'http://localhost/' }),
    )
  const all = await Promise.allSettled(Array.from({ length: 30 }, (_, at) => under(`key-${at}`)))
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(20)
  expect(await under('key-0')).toMatchObject({ state: 'open' })
})

test('a top-up in another currency is credited at its own rate, and only for what was asked in it', async () => {
  const euros: CurrencyTerms = {
    currency: 'EUR',
    rate: parseRate('0.8')!,
    asOf: '2026-11-20',
    source: 'a test',
    least: 500n,
    most: 50_000n,
    processors: ['razorpay'],
  }
  const payments = new Payments({ ...partsWith(), currencies: [...inRupees(), euros] })
  const openIn = (currency: string, amount: bigint) =>
    payments.open({ account: 'anna', amount, currency, processor: undefined, idempotencyKey: null }, () => ({
      origin: 'http://localhost',
      page: 'http://localhost/',
    }))
  const topUp = await openIn('EUR', 2_000n)
  expect(topUp).toMatchObject({ currency: 'EUR', credit: usd('25') })
  for (const currency of ['INR', 'USD'])
    expect(
      await take(payments, eventOf(`evt_${currency}`, topUp.id, { ...paid('pay_0', 2_000n), currency })),
    ).toBe('refused')
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({
    state: 'open',
    lot: null,
    problem: 'currency_differs',
  })
  await take(payments, eventOf('evt_1', topUp.id, { ...paid('pay_1', 2_000n), currency: 'EUR' }))
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited', credit: usd('25') })
  await take(payments, eventOf('evt_2', topUp.id, { ...refund('pay_1', 500n), currency: 'EUR' }))
  expect((await store.ledger.balance('anna')).lots).toMatchObject([{ remaining: usd('18.75') }])
  // A sum in rupees is no part of it.
  expect(await take(payments, eventOf('evt_3', topUp.id, refund('pay_1', 500n)))).toBe('refused')
  for (const [currency, amount] of [
    ['EUR', 499n],
    ['EUR', 50_001n],
    ['USD', 2_000n],
  ] as const)
    await expect(openIn(currency, amount)).rejects.toMatchObject({ code: 'invalid_request' })
})

test('money for an account that was deleted meanwhile is booked, and an alarm', async () => {
  const payments = paymentsWith()
  const wanted = {
    account: 'gone',
    amount: 50_000n,
    currency: 'INR',
    processor: undefined,
    idempotencyKey: null,
  }
  const topUp = await payments.open(wanted, () => ({ origin: 'http://localhost', page: 'http://localhost/' }))
  const message = eventOf('evt_1', topUp.id, paid('pay_1'))
  for (let again = 0; again < 2; again++) expect(await take(payments, message)).toBe('applied')
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited' })
  expect(alarms).toEqual([{ problem: 'account_not_usable', top_up: topUp.id }])
})

test('a second payment that is given back or disputed takes nothing of the first', async () => {
  const payments = paymentsWith()
  const topUp = await open(payments)
  await take(payments, eventOf('evt_1', topUp.id, paid('pay_1')))
  await take(payments, eventOf('evt_2', topUp.id, paid('pay_2')))
  expect(await take(payments, eventOf('evt_3', topUp.id, refund('pay_2', 50_000n)))).toBe('ignored')
  const { amount, currency } = refund('pay_2', 50_000n)
  const disputed = { kind: 'dispute', disputeId: 'disp_1', paymentId: 'pay_2', amount, currency } as const
  await take(payments, eventOf('evt_4', topUp.id, { ...disputed, phase: 'lost' }))
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited', refunded: 0n })
  const { lots, debt } = await store.ledger.balance('anna')
  expect({ left: lots[0]?.remaining, debt }).toEqual({ left: topUp.credit, debt: 0n })
})

test('a page that was credited under its own id is given back by the id of its payment', async () => {
  const payments = paymentsWith()
  const topUp = await open(payments)
  await take(payments, eventOf('evt_1', topUp.id, paid(topUp.reference!)))
  expect(await take(payments, eventOf('evt_2', topUp.id, refund('pay_1', 50_000n)))).toBe('applied')
  expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'refunded' })
})

test('one payment of two top-ups is one credit and an alarm', async () => {
  const payments = paymentsWith()
  const [first, second] = [await open(payments), await open(payments)]
  await take(payments, eventOf('evt_1', first.id, paid('pay_1')))
  await take(payments, eventOf('evt_2', second.id, paid('pay_1')))
  expect(alarms).toMatchObject([{ problem: 'payment_used', top_up: second.id }])
  expect((await store.ledger.balance('anna')).lots).toHaveLength(1)
})

test('a grant of another kind under the id of the payment is an alarm, never a silence', async () => {
  const payments = paymentsWith()
  const topUp = await open(payments)
  const source = 'payment:razorpay:pay_1'
  const grant = {
    source,
    account: 'anna',
    pool: 'purchased',
    amount: 1n,
    expiresAt: null,
    from: 'grant',
  } as const
  await store.ledger.grant(grant)
  expect(await take(payments, eventOf('evt_1', topUp.id, paid('pay_1')))).toBe('refused')
  expect(alarms).toMatchObject([{ problem: 'not_creditable' }])
  // The sweep does not raise it again and again.
  await payments.sweep(now)
  expect(alarms).toHaveLength(1)
})

test('a clock of the processor that differs makes no credit that lives longer', async () => {
  const payments = paymentsWith()
  for (const [id, paidAt] of [
    ['pay_future', now + 400 * day],
    ['pay_past', now - 400 * day],
  ] as const) {
    const topUp = await open(payments)
    await take(payments, eventOf(`evt_${id}`, topUp.id, paid(id, 50_000n, paidAt)))
    expect(await store.payments.findTopUp(topUp.id)).toMatchObject({ state: 'credited', paidAt: now })
  }
})

test('a clock that is put back keeps the page from asking no longer than it would', async () => {
  const payments = paymentsWith()
  const { id } = await open(payments)
  await payments.look('anna', id)
  await payments.look('anna', id)
  expect(asked).toBe(1)
  now -= 30 * minute
  await payments.look('anna', id)
  expect(asked).toBe(2)
})

test('a top-up that nobody hears of is asked about, and ends', async () => {
  const payments = paymentsWith()
  const { id } = await open(payments)
  const askedAfter = async (ms: number) => {
    now = noon + ms
    const before = asked
    await payments.sweep(now)
    return asked - before
  }
  expect(await askedAfter(minute)).toBe(0)
  expect(await askedAfter(2 * minute)).toBe(1)
  expect(await askedAfter(3 * minute)).toBe(0)
  expect(await askedAfter(10 * minute)).toBe(1)
  expect(await askedAfter(61 * minute)).toBe(1)
  expect(await store.payments.findTopUp(id)).toMatchObject({ state: 'expired' })
  // Captured late, and no message came of it.
  fact = paid('pay_late')
  expect(await askedAfter(3 * day + minute)).toBe(1)
  expect(await store.payments.findTopUp(id)).toMatchObject({ state: 'credited' })
  expect(await askedAfter(5 * day)).toBe(0)
})

test('receipts are numbered without gaps, and only what was credited has one', async () => {
  const payments = paymentsWith()
  const numbers: (number | undefined)[] = []
  for (let at = 0; at < 3; at++) {
    const abandoned = await open(payments)
    const topUp = await open(payments)
    await take(payments, eventOf(`evt_${at}`, topUp.id, paid(`pay_${at}`)))
    numbers.push((await store.payments.findTopUp(topUp.id))?.receipt?.number)
    expect((await store.payments.findTopUp(abandoned.id))?.receipt).toBeNull()
  }
  expect(numbers).toEqual([1, 2, 3])
})
