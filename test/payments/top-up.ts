// A top-up of 500 rupees that nobody has paid yet.

import { exchangeAt, parseRate, type TopUp } from '../../src/payments/top-up.ts'
import { noon } from '../credits/support.ts'

const rate = parseRate('89.015')!
const exchange = exchangeAt(50_000n, rate)

export const rounding = exchange.rounding

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
