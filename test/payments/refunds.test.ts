// What an operator gives back under one id is given back once: sent again, at once, after a silence, after a death.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/errors/errors.ts'
import type { RefundNews } from '../../src/payments/top-up.ts'
import { Payments } from '../../src/payments/payments.ts'
import type { PaymentProcessor } from '../../src/payments/processor.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { day, holdOf, minute, noon, settleOf } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { inRupees, openTopUp, plansOver, rounding } from './top-up.ts'

const hour = 60 * minute
let home: TempDir
let store: Store
let now: number
/** What the processor has given back, by the ids it was asked with; it forgets them after a day, as Stripe does. */
let given: Map<string, { readonly refundId: string; readonly amount: bigint; readonly at: number }>
let payments: Payments
/** What it does after it has given back. */
let answer: (news: RefundNews) => Promise<RefundNews | undefined>

const processor: PaymentProcessor = {
  id: 'razorpay',
  test: false,
  verify: undefined,
  open: async ({ id }) => ({ reference: `plink_${id}`, url: 'https://pay.example' }),
  look: async () => ({ kind: 'open' }),
  refund: async ({ paymentId }, amount, id) => {
    const known = given.get(id)
    const made =
      known && now - known.at < 24 * hour ? known : { refundId: `rfnd_${given.size}`, amount, at: now }
    given.set(made === known ? id : `${id}${known ? '-again' : ''}`, made)
    const { refundId } = made
    return answer({ kind: 'refund', refundId, paymentId: paymentId!, amount, currency: 'INR', of: 'one' })
  },
}

beforeEach(async () => {
  home = tempDir('weir-refunds-')
  now = noon
  given = new Map()
  answer = async (news) => news
  store = await openStore(home.path, { clock: () => now, serveAs: 'test' })
  payments = new Payments({
    store: store.payments,
    ledger: store.ledger,
    plans: plansOver(store, () => now),
    processors: [processor],
    currencies: inRupees(),
    unpaidPerHour: 20,
    isUsable: () => true,
    now: () => now,
    alarm: () => undefined,
  })
  await store.payments.addTopUp(openTopUp, null, { most: 1, since: 0 })
  const paid = { source: 'payment:razorpay:pay_1', account: 'anna', pool: 'purchased', from: 'cash:razorpay' }
  const amount = openTopUp.credit
  const { lot } = await store.ledger.grant({ ...paid, pool: 'purchased', amount, rounding, expiresAt: null })
  const credited = { paymentId: 'pay_1', paidAt: noon, creditedAt: noon, lot, state: 'credited' } as const
  await store.payments.changeTopUp('topup_1', (topUp) => ({ ...topUp, ...credited }))
})
afterEach(async () => {
  await store.close()
  home.remove()
})

const refund = (amount = 50_000n, id = 'topup_1-ticket') => payments.refund('topup_1', amount, id)
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'done',
    (error: unknown) => (error instanceof GatewayError ? error.code : String(error)),
  )
const left = async () =>
  (await store.ledger.balance('anna')).lots.reduce((sum, lot) => sum + lot.remaining, 0n)
const unanswered = new GatewayError('payment_processor_error')

test('a full refund that is sent again is answered as the first time', async () => {
  expect(await refund()).toMatchObject({ repeated: false, topUp: { state: 'refunded', refunded: 50_000n } })
  // Longer than the processor remembers the id.
  now += 30 * hour
  expect(await refund()).toMatchObject({ repeated: true, topUp: { state: 'refunded', refunded: 50_000n } })
  expect([given.size, await left()]).toEqual([1, 0n])
})

describe('a refund of a payment whose credit has expired', () => {
  const spend = async (cost: bigint) => {
    await store.ledger.hold(holdOf('call', { want: cost, least: cost }))
    await store.ledger.settle(settleOf('call', cost))
  }
  const expire = async () => {
    now += 400 * day
    expect(await store.ledger.expire(now)).toBe(1)
  }
  const owed = async () => (await store.ledger.balance('anna')).debt
  const faults = async () => (await store.ledger.audit()).checks.filter(({ ok }) => !ok)

  test('leaves nothing owed of what was never used', async () => {
    await expire()
    expect(await refund()).toMatchObject({ topUp: { state: 'refunded' } })
    expect([await owed(), await left(), await faults()]).toEqual([0n, 0n, []])
  })

  test('leaves owed what was used, in whatever parts it is made', async () => {
    const used = openTopUp.credit / 4n
    await spend(used)
    await expire()
    await refund(20_000n, 'first')
    expect([await owed(), await faults()]).toEqual([0n, []])
    await refund(30_000n, 'second')
    expect([await owed(), await left(), await faults()]).toEqual([used, 0n, []])
  })

  test('is the same before the sweep has seen that it is over', async () => {
    const used = openTopUp.credit / 4n
    await spend(used)
    now += 400 * day
    await refund()
    await store.ledger.expire(now)
    expect([await owed(), await left(), await faults()]).toEqual([used, 0n, []])
  })
})

test('ten at once are one', async () => {
  const results = await Promise.all(Array.from({ length: 10 }, () => refund(20_000n)))
  expect(results.filter(({ repeated }) => !repeated)).toHaveLength(1)
  expect(new Set(results.map(({ topUp }) => topUp.refunded))).toEqual(new Set([20_000n]))
  expect(given.size).toBe(1)
})

test('two under different ids come to no more than was paid, though neither is reported yet', async () => {
  answer = async () => undefined
  const asked = ['a', 'b'].map((id) => codeOf(refund(30_000n, id)))
  expect((await Promise.all(asked)).toSorted()).toEqual(['done', 'invalid_request'])
  expect(await codeOf(refund(20_001n, 'c'))).toBe('invalid_request')
  expect(await codeOf(refund(20_000n, 'd'))).toBe('done')
  expect([...given.values()].reduce((sum, { amount }) => sum + amount, 0n)).toBe(50_000n)
})

test('one that is on its way is not asked for again', async () => {
  answer = async () => undefined
  expect(await refund()).toMatchObject({ repeated: false, topUp: { state: 'credited' } })
  now += 30 * hour
  expect(await refund()).toMatchObject({ repeated: true, topUp: { state: 'credited' } })
  expect(given.size).toBe(1)
})

test('one that the processor gave and did not answer is asked for again, as long as it knows the id', async () => {
  answer = () => Promise.reject(unanswered)
  expect(await codeOf(refund())).toBe('payment_processor_error')
  answer = async (news) => news
  now += 19 * hour
  expect(await refund()).toMatchObject({ topUp: { state: 'refunded' } })
  expect(given.size).toBe(1)
})

test('after that an operator has to look, and nothing is given back twice', async () => {
  answer = () => Promise.reject(unanswered)
  expect(await codeOf(refund())).toBe('payment_processor_error')
  now += 25 * hour
  answer = async (news) => news
  await expect(refund()).rejects.toThrow('has not said whether it made this refund')
  expect(given.size).toBe(1)
})

test('killed between the answer and its note, it is taken up by the same id', async () => {
  answer = () => Promise.reject(new Error('killed'))
  expect(await codeOf(refund(20_000n))).toContain('killed')
  answer = async (news) => news
  expect(await refund(20_000n)).toMatchObject({ topUp: { refunded: 20_000n } })
  expect(await refund(20_000n)).toMatchObject({ topUp: { refunded: 20_000n }, repeated: true })
  expect(given.size).toBe(1)
})

test('an id is of one amount', async () => {
  await refund(20_000n)
  expect(await codeOf(refund(30_000n))).toBe('idempotency_conflict')
  expect(await codeOf(refund(30_000n, 'topup_1-another'))).toBe('done')
})

test('one that the processor refused is forgotten: the id is free', async () => {
  answer = () => Promise.reject(new GatewayError('payment_processor_error', { lasting: true }))
  expect(await codeOf(refund(20_000n))).toBe('payment_processor_error')
  given.clear()
  answer = async (news) => news
  expect(await refund(10_000n)).toMatchObject({ topUp: { refunded: 10_000n } })
})

test('a refusal after a silence proves nothing: the amount stays that of the id', async () => {
  answer = () => Promise.reject(unanswered)
  await codeOf(refund(20_000n))
  answer = () => Promise.reject(new GatewayError('payment_processor_error', { lasting: true }))
  now += 1
  await codeOf(refund(20_000n))
  expect(await codeOf(refund(10_000n))).toBe('idempotency_conflict')
})
