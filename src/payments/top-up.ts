// The states of a top-up. Pure: takes a processor's report and returns the resulting state.

import { twelveMonthsAfter } from '../credits/calendar.ts'
import type { Pico } from '../credits/money.ts'
import type { Minor, PaidFact, PaymentFact, ProcessorId, Rate } from './news.ts'

export type TopUpState =
  'open' | 'paid' | 'credited' | 'failed' | 'expired' | 'refunded_part' | 'refunded' | 'disputed'

/** Why an operator must look at it; the message that caused it credited nothing. */
export type TopUpProblem =
  | 'amount_differs'
  | 'currency_differs'
  /** Paid again, by another payment. */
  | 'paid_twice'
  /** Its payment has paid another top-up. */
  | 'payment_used'
  /** The ledger refused the credit: it is out of bounds, or the payment was granted something else. */
  | 'not_creditable'
  /** More was refunded than was paid. */
  | 'refund_exceeds'

export interface TopUp {
  readonly id: string
  readonly account: string
  readonly processor: ProcessorId
  /** A simulation that never reaches the ledger. */
  readonly test: boolean
  /** The processor's id of the payment page; null until it is open. */
  readonly reference: string | null
  readonly url: string | null
  readonly amount: Minor
  readonly currency: string
  /** The exchange rate when it was opened, its day and source; it stays fixed. */
  readonly rate: Rate
  readonly rateAsOf: string
  readonly rateSource: string
  readonly credit: Pico
  readonly state: TopUpState
  readonly paymentId: string | null
  readonly method: string | null
  readonly lot: string | null
  /** The refunded part of the amount, by refunds and lost disputes. */
  readonly refunded: Minor
  readonly problem: TopUpProblem | null
  /** The receipt number, counted per year; null until credited, and in test mode. */
  readonly receipt: { readonly year: number; readonly number: number } | null
  readonly createdAt: number
  /** Until when it can be paid at its rate. */
  readonly expiresAt: number
  readonly paidAt: number | null
  readonly creditedAt: number | null
  /** When the processor was last asked. */
  readonly checkedAt: number | null
}

/** The effect of a processor's report on a top-up. */
type Judgement =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'changed'; readonly topUp: TopUp }
  | { readonly kind: 'problem'; readonly problem: TopUpProblem }

/**
 * Judges a processor's report at `now`. Amount and currency are ours: another sum credits nothing. States only
 * advance, but money that arrives after a failure or expiry still counts.
 */
export function judge(topUp: TopUp, fact: PaymentFact, now: number): Judgement {
  if (fact.kind === 'paid') return judgePaid(topUp, fact, now)
  if (fact.kind === 'open' || topUp.state !== 'open') return { kind: 'nothing' }
  return { kind: 'changed', topUp: { ...topUp, state: fact.kind } }
}

function judgePaid(topUp: TopUp, fact: PaidFact, now: number): Judgement {
  if (fact.currency !== topUp.currency) return { kind: 'problem', problem: 'currency_differs' }
  if (fact.amount !== topUp.amount) return { kind: 'problem', problem: 'amount_differs' }
  if (topUp.paymentId === fact.paymentId) return { kind: 'nothing' }
  if (topUp.paymentId !== null) return { kind: 'problem', problem: 'paid_twice' }
  const { paymentId, method } = fact
  // A clock difference must not make credit live longer or expire at once.
  const paidAt = Math.min(Math.max(fact.paidAt ?? now, topUp.createdAt), Math.max(now, topUp.createdAt))
  return { kind: 'changed', topUp: { ...topUp, state: 'paid', paymentId, method, paidAt } }
}

/** The state of a credited top-up; `disputed`: whether a dispute is open. */
export function stateAfter(
  { amount, refunded }: Pick<TopUp, 'amount' | 'refunded'>,
  dispute: 'open' | 'none',
): TopUpState {
  if (dispute === 'open') return 'disputed'
  if (refunded >= amount) return 'refunded'
  return refunded > 0n ? 'refunded_part' : 'credited'
}

/** When the credit of a top-up expires: twelve months after the payment; while unpaid, as if paid at once. */
export function creditEnds({ paidAt, createdAt }: Pick<TopUp, 'paidAt' | 'createdAt'>): number {
  return twelveMonthsAfter(paidAt ?? createdAt)
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The ages at which an unreported top-up is asked about; a late capture takes up to three days. */
const askedAtAge = [2 * minuteMs, 10 * minuteMs, hourMs, dayMs, 2 * dayMs, 3 * dayMs, 4 * dayMs]

/** When the sweep asks next after asking at `now`; null after the last time. */
export function nextQuestion(createdAt: number, now: number): number | null {
  const age = askedAtAge.find((after) => createdAt + after > now)
  return age === undefined ? null : createdAt + age
}

/** Whether the processor may still report something new. */
export function mayBePaid({ state, createdAt }: TopUp, now: number): boolean {
  if (state === 'open') return true
  return (state === 'failed' || state === 'expired') && now - createdAt <= 4 * dayMs
}
