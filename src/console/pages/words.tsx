import type { Pool } from '../../credits/pool.ts'
import type { TopUpView } from '../../http/payments/answers.ts'
import { day, money, t } from '../strings/text.ts'
import { Badge } from '../ui/kit.tsx'

export const poolNames: Readonly<Record<Pool, string>> = {
  purchased: 'Purchased',
  welcome: 'Welcome',
  subscription: 'Subscription',
  daily: 'Daily',
}

/** What each pool pays for, in a sentence. */
export const poolRules: Readonly<Record<Pool, string>> = {
  purchased: 'API calls and chats, every model. Each top-up lasts 12 months.',
  subscription: 'Chats, every model, until the period ends.',
  welcome: 'Chats with any model that the account may use.',
  daily: 'Chats with flash-class models. New each day at 00:00 UTC.',
}

/** The order in which a chat spends them. An API call spends purchased credit alone. */
export const appOrder: readonly Pool[] = ['daily', 'subscription', 'welcome', 'purchased']

export const poolBars: Readonly<Record<Pool, string>> = {
  purchased: 'bar-1',
  subscription: 'bar-2',
  welcome: 'bar-3',
  daily: 'bar-4',
}

/** The name of a pool that a receipt has. */
export function poolName(pool: string): string {
  return t(poolNames[pool as Pool] ?? pool)
}

// The words and marks of payments.

type Processor = TopUpView['processor']

/** Companies have one name in every language. */
const companies: Readonly<Record<Exclude<Processor, 'sim'>, string>> = {
  razorpay: 'Razorpay',
  stripe: 'Stripe',
}
export const processors = [...Object.keys(companies), 'sim'] as readonly Processor[]

export function processorName(id: Processor): string {
  return id === 'sim' ? t('Simulated payment') : companies[id]
}

const states: Readonly<
  Record<TopUpView['state'], readonly [name: string, tone: 'good' | 'warn' | 'bad' | 'accent' | 'plain']>
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

export function TopUpBadges({ topUp }: { topUp: Pick<TopUpView, 'state' | 'test' | 'problem'> }) {
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

/** What a payment was opened for. */
export function amountOf({ amount, currency }: Pick<TopUpView, 'amount' | 'currency'>): string {
  return money(amount, currency)
}

/** The plan that a top-up pays for, with its period once it is paid. */
export function planText({ title, from, to }: NonNullable<TopUpView['plan']>): string {
  if (from === null || to === null) return title
  return t('{plan}, {from} to {to}', { plan: title, from: day(from), to: day(to) })
}

/** `₹89.015`, what a US dollar costs. */
export function rateOf({ rate, currency }: Pick<TopUpView, 'rate' | 'currency'>): string {
  return money(rate, currency)
}
