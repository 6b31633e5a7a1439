// A top-up and its life. Pure: what a processor says goes in, what becomes of the top-up comes out.

import { twelveMonthsAfter } from '../credits/calendar.ts'
import type { Pico } from '../credits/money.ts'
import type { Minor, Rate } from './exchange.ts'
import type { PaidFact, PaymentFact, ProcessorId } from './news.ts'

export type TopUpState =
  'open' | 'paid' | 'credited' | 'failed' | 'expired' | 'refunded_part' | 'refunded' | 'disputed'

/** Why an operator has to look at it; nothing was credited for the message that caused it. */
export type TopUpProblem =
  | 'amount_differs'
  | 'currency_differs'
  /** Paid a second time, by another payment. */
  | 'paid_twice'
  /** Its payment has paid another top-up. */
  | 'payment_used'
  /** The ledger refused the credit: beyond its bounds, or the payment has granted something else before. */
  | 'not_creditable'
  /** More was taken back than was paid. */
  | 'refund_exceeds'

export interface TopUp {
  readonly id: string
  readonly account: string
  readonly processor: ProcessorId
  /** It shows the flow and never reaches the ledger. */
  readonly test: boolean
  /** The processor's id of the page it is paid on; null until it is open there. */
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
  /** Of the amount, what was taken back: refunds and lost disputes. */
  readonly refunded: Minor
  readonly problem: TopUpProblem | null
  /** The number of its receipt, counted through each year; null until it is credited, and in test mode. */
  readonly receipt: { readonly year: number; readonly number: number } | null
  readonly createdAt: number
  /** Until when it can be paid at its rate. */
  readonly expiresAt: number
  readonly paidAt: number | null
  readonly creditedAt: number | null
  /** When the processor was last asked. */
  readonly checkedAt: number | null
}

/** What a fact does to a top-up. */
export type Judgement =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'changed'; readonly topUp: TopUp }
  | { readonly kind: 'problem'; readonly problem: TopUpProblem }

/**
 * Judges what the processor says of a top-up at `now`. Amount and currency are ours: another sum credits nothing. States
 * go forward only, but money that comes after a top-up failed or expired is still money.
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
  // A clock that differs from ours must not make credit that lives longer, or has expired already.
  const paidAt = Math.min(Math.max(fact.paidAt ?? now, topUp.createdAt), Math.max(now, topUp.createdAt))
  return { kind: 'changed', topUp: { ...topUp, state: 'paid', paymentId, method, paidAt } }
}

/** The state of a top-up that was credited; `disputed` says whether a dispute about it is open. */
export function stateAfter(
  { amount, refunded }: Pick<TopUp, 'amount' | 'refunded'>,
  dispute: 'open' | 'none',
): TopUpState {
  if (dispute === 'open') return 'disputed'
  if (refunded >= amount) return 'refunded'
  return refunded > 0n ? 'refunded_part' : 'credited'
}

/** When the credit of a top-up ends: twelve months after the payment; until it is paid, as if that had been at once. */
export function creditEnds({ paidAt, createdAt }: Pick<TopUp, 'paidAt' | 'createdAt'>): number {
  return twelveMonthsAfter(paidAt ?? createdAt)
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The ages at which an unreported top-up is asked about; a late capture takes up to three days. */
const askedAtAge = [2 * minuteMs, 10 * minuteMs, hourMs, dayMs, 2 * dayMs, 3 * dayMs, 4 * dayMs]

/** When the sweep asks next, after it has asked at `now`; null when it has asked for the last time. */
export function nextQuestion(createdAt: number, now: number): number | null {
  const age = askedAtAge.find((after) => createdAt + after > now)
  return age === undefined ? null : createdAt + age
}

/** Whether the processor may still have something new to say. */
export function mayBePaid({ state, createdAt }: TopUp, now: number): boolean {
  if (state === 'open') return true
  return (state === 'failed' || state === 'expired') && now - createdAt <= 4 * dayMs
}
