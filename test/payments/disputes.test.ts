// What a dispute or a refund has taken of a payment's credit, and what returns when the money stays after all.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { twelveMonthsAfter } from '../../src/credits/calendar.ts'
import { creditOfPart, usd } from '../../src/credits/money.ts'
import type { DisputePhase, PaymentNews } from '../../src/payments/top-up.ts'
import { Payments } from '../../src/payments/payments.ts'
import type { PaymentProcessor } from '../../src/payments/processor.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { day, noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { inRupees, openTopUp, plansOver, rounding } from './top-up.ts'

const { credit } = openTopUp
const ends = twelveMonthsAfter(noon)
let home: TempDir
let store: Store
let now: number
let payments: Payments
let messages: number

const parts = () => ({
  store: store.payments,
  ledger: store.ledger,
  plans: plansOver(store, () => now),
  processors: [
    {
      id: 'razorpay',
      test: false,
      verify: undefined,
      open: async ({ id }) => ({ reference: `plink_${id}`, url: 'https://pay.example' }),
      look: async () => ({ kind: 'open' }),
      refund: async () => undefined,
    } satisfies PaymentProcessor,
  ],
  currencies: inRupees(),
  unpaidPerHour: 20,
  isUsable: () => true,
  now: () => now,
  alarm: () => undefined,
})

async function begin(): Promise<void> {
  home = tempDir('weir-disputes-')
  store = await openStore(home.path, { clock: () => now, serveAs: 'test' })
  payments = new Payments(parts())
  await store.payments.addTopUp(openTopUp, null, { most: 1, since: 0 })
  const { lot } = await store.ledger.grant({
    source: 'payment:razorpay:pay_1',
    account: 'anna',
    pool: 'purchased',
    amount: credit,
    rounding,
    expiresAt: ends,
    from: 'cash:razorpay',
  })
  const credited = { paymentId: 'pay_1', paidAt: noon, creditedAt: noon, lot, state: 'credited' } as const
  await store.payments.changeTopUp('topup_1', (topUp) => ({ ...topUp, ...credited }))
}

async function end(): Promise<void> {
  const { checks } = await store.ledger.audit()
  expect(checks.filter(({ ok }) => !ok)).toEqual([])
  await store.close()
  home.remove()
}

async function newLedger(): Promise<void> {
  await end()
  await begin()
}

beforeEach(async () => {
  now = noon
  messages = 0
  await begin()
})
afterEach(end)

async function tell(news: PaymentNews): Promise<unknown> {
  const event = { id: `evt_${++messages}`, type: news.kind, topUp: null, reference: null, news }
  return payments.take('razorpay', event, Buffer.from(event.id))
}

/** Every order of what is given. */
function orders<T>(all: readonly T[]): T[][] {
  if (all.length < 2) return [[...all]]
  return all.flatMap((one, at) => orders(all.toSpliced(at, 1)).map((rest) => [one, ...rest]))
}

const inr = { paymentId: 'pay_1', currency: 'INR' } as const
const hour = 3_600_000
/** Of a processor that reports each refund by its id, and of one that reports the sum of those that did not fail. */
const refunded = (refundId: string, amount: bigint): PaymentNews => ({
  ...inr,
  kind: 'refund',
  refundId,
  amount,
  of: 'one',
})
const failed = (refundId: string, amount: bigint): PaymentNews => ({
  ...inr,
  kind: 'refund-failed',
  refundId,
  amount,
  of: 'one',
})
const sum = (amount: bigint, at: number): PaymentNews => ({
  ...inr,
  kind: 'refund',
  refundId: `pay_1:${amount}`,
  amount,
  of: 'total',
  at: noon + at * hour,
})
const failedOfSum = (refundId: string, amount: bigint, at: number): PaymentNews => ({
  ...inr,
  kind: 'refund-failed',
  refundId,
  amount,
  of: 'total',
  at: noon + at * hour,
})

const of = { paymentId: 'pay_1', amount: 50_000n, currency: 'INR' } as const
const dispute = (phase: DisputePhase) => tell({ ...of, kind: 'dispute', disputeId: 'disp_1', phase })

async function standing() {
  const { lots, debt } = await store.ledger.balance('anna')
  return { lots: lots.map(({ remaining, expiresAt }) => [remaining, expiresAt]), debt }
}

describe('a dispute', () => {
  test('that is won returns the credit with the life that it had', async () => {
    now = noon + 30 * day
    await dispute('open')
    expect(await standing()).toEqual({ lots: [], debt: 0n })
    now = noon + 120 * day
    await dispute('won')
    expect(await standing()).toEqual({ lots: [[credit, ends]], debt: 0n })
  })

  test('withholds the credit of its own payment, not of the one that is consumed first', async () => {
    const soon = { source: 'earlier', account: 'anna', pool: 'purchased', from: 'grant' } as const
    await store.ledger.grant({ ...soon, amount: usd(3), expiresAt: noon + 40 * day })
    await dispute('open')
    expect(await standing()).toEqual({ lots: [[usd(3), noon + 40 * day]], debt: 0n })
  })

  test.each(['won', 'lost'] as const)('%s after the credit has ended leaves no debt', async (phase) => {
    await dispute('open')
    now = ends + day
    await dispute(phase)
    const back = phase === 'won' ? [[credit, now + day]] : []
    expect(await standing()).toEqual({ lots: back, debt: 0n })
  })
})

describe('a refund that fails returns its credit once, in every order of the messages', () => {
  test.each([
    ['one of one', [refunded('r1', 50_000n), failed('r1', 50_000n)], 0n],
    ['one of two', [refunded('r1', 20_000n), refunded('r2', 30_000n), failed('r1', 20_000n)], 30_000n],
    ['made again', [refunded('r1', 50_000n), failed('r1', 50_000n), refunded('r2', 50_000n)], 50_000n],
    ['one that was never reported as made', [failed('r1', 50_000n), refunded('r2', 20_000n)], 20_000n],
    ['a sum', [sum(50_000n, 1), failedOfSum('r1', 50_000n, 2)], 0n],
    ['a part of a sum', [sum(20_000n, 1), sum(50_000n, 2), failedOfSum('r2', 30_000n, 3)], 20_000n],
    ['a sum, made again', [sum(50_000n, 1), failedOfSum('r1', 50_000n, 2), sum(50_000n, 3)], 50_000n],
    [
      'a sum, made in part after it failed, which fails too',
      [sum(50_000n, 1), failedOfSum('r1', 50_000n, 2), sum(20_000n, 3), failedOfSum('r2', 20_000n, 4)],
      0n,
    ],
  ] as const)('%s', async (_, news, taken) => {
    const { length } = orders(news)
    expect(length).toBeGreaterThan(1)
    for (const [at, order] of orders(news).entries()) {
      if (at > 0) await newLedger()
      // Each twice, and all of it again.
      for (const each of [...order, ...order]) await tell(each)
      await payments.sweep(now)
      const topUp = (await store.payments.findTopUp('topup_1'))!
      const state = taken === 0n ? 'credited' : taken === 50_000n ? 'refunded' : 'refunded_part'
      expect(topUp).toMatchObject({ refunded: taken, state })
      const { lots, debt } = await store.ledger.balance('anna')
      const left = lots.reduce((all, lot) => all + lot.remaining, 0n) - debt
      expect({ order: at, left }).toEqual({ order: at, left: credit - creditOfPart(topUp, 0n, taken) })
      expect(lots.filter(({ expiresAt }) => expiresAt !== ends)).toEqual([])
    }
  })

  test('spent credit is owed, and no longer when the refund has failed', async () => {
    await store.ledger.adjust({ id: 'spent', account: 'anna', pool: 'purchased', amount: -credit })
    await tell(refunded('r1', 50_000n))
    expect(await standing()).toEqual({ lots: [], debt: credit })
    await tell(failed('r1', 50_000n))
    expect(await standing()).toEqual({ lots: [], debt: 0n })
  })

  test('killed before the refund was booked, nothing is returned that was not taken', async () => {
    const { ledger } = store
    const dying = new Payments({
      ...parts(),
      ledger: {
        now: () => ledger.now(),
        grant: (command) => ledger.grant(command),
        balance: (account) => ledger.balance(account),
        adjust: (command) => ledger.adjust(command),
        refund: () => Promise.reject(new Error('killed')),
      },
    })
    const event = { id: 'evt_r1', type: 'refund', topUp: null, reference: null }
    const taken = dying.take('razorpay', { ...event, news: refunded('r1', 50_000n) }, Buffer.from('r1'))
    await expect(taken).rejects.toThrow('killed')
    await tell(failed('r1', 50_000n))
    expect(await standing()).toEqual({ lots: [[credit, ends]], debt: 0n })
    await payments.sweep(now + hour)
    expect(await standing()).toEqual({ lots: [[credit, ends]], debt: 0n })
  })
})

test('messages are deleted when their time is over, and one that is replayed afterwards changes nothing', async () => {
  const paid = { ...inr, amount: 50_000n, kind: 'paid', paidAt: noon, method: 'upi' } as const
  const lost = { ...inr, amount: 50_000n, kind: 'dispute', disputeId: 'disp_1' } as const
  const messages: PaymentNews[] = [
    paid,
    refunded('r1', 10_000n),
    failed('r1', 10_000n),
    refunded('r2', 20_000n),
    { ...lost, phase: 'open' },
    { ...lost, phase: 'won' },
  ]
  for (const news of messages) await tell(news)
  // It waits for a payment that is not known.
  await tell({ kind: 'refund', refundId: 'r3', paymentId: 'pay_2', amount: 1n, currency: 'INR', of: 'one' })
  const before = await standing()
  await store.retention.sweep(noon + 400 * day)
  expect(await store.payments.listEvents(null, 100)).toHaveLength(messages.length + 1)
  await store.retention.sweep(noon + 401 * day)
  expect(await store.payments.listEvents(null, 100)).toEqual([])
  for (const news of messages) await tell(news)
  expect(await standing()).toEqual(before)
  expect(await store.payments.findTopUp('topup_1')).toMatchObject({ refunded: 20_000n })
})

test('a message that is not finished is kept', async () => {
  const news = { kind: 'other' } as const
  const event = { id: 'evt_1', type: 'x', topUp: null, reference: null, paymentId: null, news }
  const received = { ...event, processor: 'razorpay', at: noon, hash: 'h', outcome: 'received' } as const
  await store.payments.recordEvent(received)
  await store.retention.sweep(noon + 5000 * day)
  expect(await store.payments.listEvents(null, 100)).toHaveLength(1)
})
