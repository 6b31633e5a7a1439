// The words and marks of payments.

import type { ProcessorId, TopUp, TopUpState } from '../../api/payments.ts'
import { t } from '../../strings/text.ts'
import { Badge } from '../../ui/basics.tsx'

export const processorNames: Readonly<Record<ProcessorId, string>> = {
  razorpay: 'Razorpay',
  stripe: 'Stripe',
  sim: 'Simulated payment',
}

const states: Readonly<
  Record<TopUpState, readonly [name: string, tone: 'good' | 'warn' | 'bad' | 'accent' | 'plain']>
> = {
  open: ['waits for the payment', 'accent'],
  paid: ['paid', 'accent'],
  credited: ['credited', 'good'],
  failed: ['failed', 'bad'],
  expired: ['expired', 'plain'],
  refunded_part: ['refunded in part', 'warn'],
  refunded: ['refunded', 'warn'],
  disputed: ['disputed', 'bad'],
}

export function TopUpBadges({ topUp }: { topUp: Pick<TopUp, 'state' | 'test' | 'problem'> }) {
  const [name, tone] = states[topUp.state]
  return (
    <span className="inline-flex flex-wrap gap-1">
      <Badge tone={tone}>{t(name)}</Badge>
      {topUp.test && <Badge tone="warn">{t('test')}</Badge>}
      {topUp.problem !== null && <Badge tone="bad">{t('looked into')}</Badge>}
    </span>
  )
}

/** Why a payment needs an operator, in a sentence. */
export const problems: Readonly<Record<string, string>> = {
  amount_differs: 'Another amount was paid than the one that was asked for.',
  currency_differs: 'It was paid in another currency.',
  paid_twice: 'It was paid twice.',
  payment_used: 'Its payment has paid another top-up.',
  not_creditable: 'The ledger did not take the credit.',
  refund_exceeds: 'More was taken back than was paid.',
}

let rupees: Intl.NumberFormat | undefined

/** Rupees with Indian grouping, and paise where there are any. */
export function inr(amount: string): string {
  rupees ??= new Intl.NumberFormat('en-IN', {
    style: 'currency',
    currency: 'INR',
    trailingZeroDisplay: 'stripIfInteger',
  })
  return rupees.format(amount as Intl.StringNumericLiteral)
}
