// A ledger with something of everything, to be broken.

import { usd } from '../../../src/credits/money.ts'
import type { Period } from '../../../src/payments/subscriptions.ts'
import type { Reversal } from '../../../src/payments/top-up.ts'
import type { Store } from '../../../src/store/store.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { openTopUp, rounding } from '../../payments/top-up.ts'

const period: Period = {
  period: 'subscription:play:sub_1:2026-11-21T00:00:00.000Z',
  source: 'play',
  subscription: 'sub_1',
  account: 'anna',
  product: 'premium_month',
  startsAt: noon,
  endsAt: noon + day,
  state: 'refund_reversed',
  amount: usd(3),
  lot: null,
  takenBack: usd(3),
  models: null,
  cancelledAt: null,
  createdAt: noon,
  updatedAt: noon,
}

/**
 * Calls that ended, one in flight, a payment with refunds and a dispute, free credit, corrections, a subscription. The
 * store is opened with a clock of `clock.now`.
 */
export async function fillSoundLedger(
  { ledger, payments, subscriptions }: Pick<Store, 'ledger' | 'payments' | 'subscriptions'>,
  clock: { now: number },
): Promise<void> {
  const midnight = noon - (noon % day) + day
  await payments.addTopUp(openTopUp, null, { most: 1, since: 0 })
  const { lot } = await ledger.grant({
    source: 'payment:razorpay:pay_1',
    account: 'anna',
    pool: 'purchased',
    amount: openTopUp.credit,
    rounding,
    expiresAt: noon + 300 * day,
    from: 'cash:razorpay',
  })
  const credited = { paymentId: 'pay_1', paidAt: noon, creditedAt: noon, lot, state: 'credited' } as const
  await payments.changeTopUp('topup_1', (topUp) => ({ ...topUp, ...credited }))
  await ledger.refund({ id: 'refund:razorpay:r1', account: 'anna', lot, amount: usd(1) })
  const key = { processor: 'razorpay', id: 'r1', topUp: 'topup_1' } as const
  await payments.changeReversal(key, (topUp) => ({
    topUp: { ...topUp, refunded: 100n, state: 'refunded_part' },
    reversal: { ...key, amount: 100n, credit: usd(1), kind: 'refund', held: 0n, booked: true, at: noon },
  }))
  const daily = { source: 'daily:anna:2026-11-21', pool: 'daily', expiresAt: midnight } as const
  await ledger.grant({ ...grantOf('', usd('0.2')), ...daily })
  await ledger.grant({ ...grantOf('', usd('0.5')), source: 'welcome:anna', pool: 'welcome' })
  await ledger.grant({ ...grantOf('berta', usd(5)), account: 'berta' })
  await ledger.grant(grantOf('later', usd(5)))
  const correction = { account: 'anna', pool: 'purchased' } as const
  clock.now += 1_000
  const operator = 'cli:otto'
  const gift = { source: 'operator:gift', account: 'clara', operator: { id: operator, note: null } }
  await ledger.grant({ ...grantOf('', usd(1)), ...gift })
  await ledger.adjust({ ...correction, id: 'adjust:anna:up', amount: usd(2), operator })
  await ledger.adjust({ ...correction, id: 'adjust:anna:down', amount: -usd(1), operator })
  const reversed = async (id: string, kind: Reversal['kind'], credit: bigint) => {
    const of = { processor: 'razorpay', id, topUp: 'topup_1' } as const
    const noted = { ...of, amount: 0n, credit, kind, held: credit, booked: true, at: noon }
    await payments.changeReversal(of, (topUp) => ({ topUp, reversal: noted }))
  }
  await reversed('r2:failed', 'failed', usd('0.3'))
  await ledger.adjust({ ...correction, id: 'refund:razorpay:r2:failed', amount: usd('0.3'), refundOf: lot })
  await reversed('d1', 'won', usd('0.4'))
  await ledger.adjust({ ...correction, id: 'dispute:razorpay:d1:hold', amount: -usd('0.4'), lot })
  await ledger.adjust({ ...correction, id: 'dispute:razorpay:d1:back', amount: usd('0.4') })
  await subscriptions.changePeriod(period.period, () => period)
  const sold = {
    source: period.period,
    account: 'anna',
    pool: 'subscription',
    expiresAt: noon + day,
  } as const
  await ledger.grant({ ...sold, amount: usd(3), from: 'subscription' })
  const moved = { account: 'anna', pool: 'subscription' } as const
  await ledger.adjust({ ...moved, id: `${period.period}:taken`, amount: -usd(3) })
  await ledger.adjust({ ...moved, id: `${period.period}:returned`, amount: usd(3), expiresAt: noon + day })
  for (const call of ['ended', 'other']) {
    clock.now += 1_000
    await ledger.hold(holdOf(call))
    clock.now += 1_000
    await ledger.settle(settleOf(call, usd('0.1')))
  }
  clock.now += 1_000
  const always = { limit: usd(9), windowStart: 0, windowEnd: null }
  const budgets = [
    { scope: 'grp_lab/anna', ...always },
    { scope: 'grp_lab', ...always },
  ]
  const inGroup = { group: 'grp_lab', person: 'anna', budgets }
  await ledger.hold(holdOf('grouped', { account: 'berta', inGroup }))
  await ledger.settle(settleOf('grouped', usd('0.1')))
  clock.now += 1_000
  await ledger.hold(holdOf('open'))
}
