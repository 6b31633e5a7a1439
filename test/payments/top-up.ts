// A top-up of 500 rupees that nobody has paid yet.

import { exchange as exchangeOf, parseRate } from '../../src/credits/currency.ts'
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
