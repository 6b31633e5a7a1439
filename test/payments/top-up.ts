// A top-up of 500 rupees that nobody has paid yet.

import { exchange as exchangeOf, parseRate } from '../../src/credits/money.ts'
import { type PlanOnSale, Plans, Subscriptions } from '../../src/payments/subscriptions.ts'
import type { Store } from '../../src/store/store.ts'
import type { TopUp } from '../../src/payments/top-up.ts'
import type { CurrencyTerms } from '../../src/payments/top-up-draft.ts'
import { noon } from '../credits/support.ts'

const rate = parseRate('89.015')!
const exchange = exchangeOf({ amount: 50_000n, currency: 'INR', rate })

export const rounding = exchange.rounding

/** What can be paid in: rupees from 100 to 50,000. */
export function inRupees(rate = '89.015'): readonly [CurrencyTerms] {
  const dated = { rate: parseRate(rate)!, asOf: '2026-11-20', source: 'a test' }
  return [{ currency: 'INR', ...dated, least: 10_000n, most: 5_000_000n, processors: null }]
}

/** The plans that are sold over a store; none unless they are given. */
export function plansOver(
  store: Pick<Store, 'subscriptions' | 'ledger'>,
  now: () => number,
  sold: readonly PlanOnSale[] = [],
  alarm: () => void = () => undefined,
): Plans {
  const subscriptions = new Subscriptions({
    store: store.subscriptions,
    ledger: store.ledger,
    accountOf: (account) => account,
    products: new Map(),
    graceMs: 0,
    now,
  })
  const plans = new Map(sold.map((plan) => [plan.id, plan]))
  return new Plans({ plans, store: store.subscriptions, subscriptions, now, alarm })
}

export const openTopUp: TopUp = {
  id: 'topup_1',
  account: 'anna',
  processor: 'razorpay',
  test: false,
  reference: 'plink_1',
  url: 'https://pay.example',
  amount: 50_000n,
  currency: 'INR',
  rate,
  rateAsOf: '2026-11-20',
  rateSource: 'a test',
  credit: exchange.credit,
  plan: null,
  state: 'open',
  paymentId: null,
  method: null,
  lot: null,
  refunded: 0n,
  problem: null,
  receipt: null,
  createdAt: noon,
  expiresAt: noon + 1_800_000,
  paidAt: null,
  creditedAt: null,
  checkedAt: null,
}
