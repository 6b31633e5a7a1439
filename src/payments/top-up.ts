// A top-up: its states, what processors report of it and in which amounts, and the store that keeps it.
//
// The states are pure: they take a report and return what follows from it.

import { monthsAfter, twelveMonthsAfter } from '../credits/calendar.ts'
import { creditOfPart, type Minor, type Pico, type Rate } from '../credits/money.ts'
import type { Awaitable } from '../async/async.ts'

export const topUpStates = [
  'open',
  'paid',
  'credited',
  'failed',
  'expired',
  'refunded_part',
  'refunded',
  'disputed',
] as const
export type TopUpState = (typeof topUpStates)[number]

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

/** A plan as it was sold (plans.ts): what the configuration says later does not change it. */
export interface SoldPlan {
  readonly id: string
  readonly title: string
  /** How long its period is. */
  readonly months: number
  /** Patterns of the models that it opens; null for all. */
  readonly models: readonly string[] | null
  /** Once it is paid, milliseconds since 1970. */
  readonly period: { readonly startsAt: number; readonly endsAt: number } | null
}

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
  /** The plan that it pays for, which `credit` is of; null where the credit is purchased. */
  readonly plan: SoldPlan | null
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

/**
 * When the credit of a top-up expires: twelve months after the payment, that of a plan with its period; while unpaid, as
 * if paid at once.
 */
export function creditEnds({
  paidAt,
  createdAt,
  plan,
}: Pick<TopUp, 'paidAt' | 'createdAt' | 'plan'>): number {
  const paid = paidAt ?? createdAt
  if (plan === null) return twelveMonthsAfter(paid)
  return plan.period?.endsAt ?? monthsAfter(paid, plan.months)
}

/** The credit that a refunded part takes, `before` of the payment being refunded already. Of a plan see plans.ts: none. */
export function creditTakenBy(topUp: TopUp, before: Minor, part: Minor): Pico {
  return topUp.plan === null ? creditOfPart(topUp, before, part) : 0n
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

// What processors report about payments, in a common form.

/**
 * The processors that take money, with what the documentation says of the messages they send. Each has a class in
 * processors/ and its settings in the configuration; test/payments/processors.test.ts says what else it needs.
 */
export const externalProcessors = {
  razorpay: {
    name: 'Razorpay',
    signedIn: [
      ['X-Razorpay-Signature', 'HMAC-SHA256 of the raw body by the secret of the webhook, in hex.'],
      ['x-razorpay-event-id', 'The id of the event.'],
    ],
    events: ['payment_link.*', 'payment.captured', 'refund.processed', 'refund.failed', 'payment.dispute.*'],
  },
  stripe: {
    name: 'Stripe',
    signedIn: [['Stripe-Signature', 'The time and the HMAC-SHA256 of time and body, as Stripe signs.']],
    events: ['checkout.session.*', 'charge.refunded', 'refund.failed', 'charge.dispute.*'],
  },
} as const satisfies Readonly<Record<string, ProcessorMessages>>

interface ProcessorMessages {
  readonly name: string
  /** The headers in which a message is signed. */
  readonly signedIn: readonly (readonly [header: string, description: string])[]
  /** What it is to send, by its own names. */
  readonly events: readonly string[]
}

export type ExternalProcessorId = keyof typeof externalProcessors
export const externalProcessorIds = Object.keys(externalProcessors) as readonly ExternalProcessorId[]

/** With the built-in simulator, which takes no money and sends no messages. */
export type ProcessorId = ExternalProcessorId | 'sim'
export const processorIds: readonly ProcessorId[] = [...externalProcessorIds, 'sim']

/** What a processor reports about the payment of a top-up. */
export type PaymentFact =
  | { readonly kind: 'open' }
  /** Nothing more is expected, although money may still arrive. */
  | { readonly kind: 'failed' }
  | { readonly kind: 'expired' }
  | PaidFact

export interface PaidFact {
  readonly kind: 'paid'
  readonly paymentId: string
  readonly amount: Minor
  /** ISO 4217, upper case. */
  readonly currency: string
  /** Milliseconds since 1970; null if the processor does not report it. */
  readonly paidAt: number | null
  /** `upi`, `card`: the kind only, without details of the instrument. */
  readonly method: string | null
}

/** What a signed message tells. */
export type PaymentNews =
  | PaymentFact
  | RefundNews
  | FailedRefundNews
  | DisputeNews
  /** Something was paid, but the message does not prove it: the processor is asked. */
  | { readonly kind: 'unproven' }
  /** Nothing that the gateway acts on. */
  | { readonly kind: 'other' }

interface RefundReport {
  readonly refundId: string
  readonly paymentId: string
  readonly amount: Minor
  readonly currency: string
  /** How the processor reports refunds: one by its id, or the sum of all refunds of the payment so far. */
  readonly of: 'one' | 'total'
  /** When the processor reported it, milliseconds since 1970; missing in messages of older versions. */
  readonly at?: number
}

export interface RefundNews extends RefundReport {
  readonly kind: 'refund'
}

/**
 * A refund that did not reach the payer: the money is here, whatever was reported of it before. The amount is its own;
 * a sum no longer holds it since `at`.
 */
export interface FailedRefundNews extends RefundReport {
  readonly kind: 'refund-failed'
}

export interface DisputeNews {
  readonly kind: 'dispute'
  readonly disputeId: string
  readonly paymentId: string
  readonly amount: Minor
  readonly currency: string
  readonly phase: DisputePhase
}

export type DisputePhase = 'open' | 'won' | 'lost'

/** A message whose signature has been verified. */
export interface PaymentEvent {
  /** The processor's id of the message, the same on redelivery. */
  readonly id: string
  readonly type: string
  /** Which payment it is about: our id, or the processor's id of the page. */
  readonly topUp: string | null
  readonly reference: string | null
  readonly news: PaymentNews
}

// The interface of the store for payments: top-ups, their messages, and refunds.

/** What became of a message. `waiting`: for a payment that is not credited yet. `received`: not finished. */
export type EventOutcome = 'received' | 'waiting' | 'unmatched' | 'applied' | 'ignored' | 'refused'

export interface EventRecord {
  readonly processor: ProcessorId
  readonly id: string
  readonly type: string
  readonly at: number
  /** SHA-256 of the raw body, hex: bodies are not kept. */
  readonly hash: string
  readonly outcome: EventOutcome
  readonly topUp: string | null
  readonly reference: string | null
  readonly paymentId: string | null
  readonly news: PaymentNews
}

/** A refund or dispute of a payment, or the failure of a refund. */
export interface Reversal {
  readonly processor: ProcessorId
  /** The processor's id of the refund or dispute. */
  readonly id: string
  readonly topUp: string
  readonly amount: Minor
  /** What it takes or, a failure, returns: at the rate of the top-up, given what was refunded before. */
  readonly credit: Pico
  /** `refund`, `failed` for the failure of one, or the phase of a dispute. */
  readonly kind: 'refund' | 'failed' | DisputePhase
  /** The credit withheld for an open dispute. */
  readonly held: Pico
  /** Whether the ledger has all of it. */
  readonly booked: boolean
  /** When it arrived; of a failure, when the processor reported it. */
  readonly at: number
}

/** Follows the id of a refund in that of its failure. */
export const failureEnding = ':failed'

/** A refund requested by an operator, under the operator's id. */
export interface AskedRefund {
  readonly topUp: string
  readonly id: string
  readonly amount: Minor
  readonly askedAt: number
  /** When the processor confirmed it; null until then. */
  readonly madeAt: number | null
}

/** The amount of a top-up that is neither refunded nor being refunded. */
export interface RefundLeft {
  readonly left: Minor
}

/**
 * What the processor may have given back that the top-up does not show yet: refunds that it is asked for now, and those
 * that it has made and not yet reported. Refunds made at the processor itself may hide some of the latter.
 */
export function sumUnreported(
  asked: readonly AskedRefund[],
  reversals: readonly Reversal[],
  unknownSince: number,
): Minor {
  let [unknown, made] = [0n, 0n]
  for (const { amount, askedAt, madeAt } of asked) {
    if (madeAt !== null) made += amount
    else if (askedAt > unknownSince) unknown += amount
  }
  let reported = 0n
  const ids = new Set(reversals.map(({ id }) => id))
  for (const { kind, amount, id } of reversals) {
    if (kind === 'refund') reported += amount
    // The failure of one that was never reported itself: which of those that were made is not known.
    if (kind === 'failed' && !ids.has(id.slice(0, -failureEnding.length))) return unknown
  }
  return unknown + (made > reported ? made - reported : 0n)
}

export interface OpenedUnder {
  readonly key: string
  /** SHA-256 of the request, hex. */
  readonly hash: string
}

/** How many unpaid top-ups an account may have that were opened after `since`. */
export interface UnpaidLimit {
  readonly most: number
  readonly since: number
}

/** The account has `most` of them; the first of those was opened at `firstAt`. */
export interface TooManyUnpaid {
  readonly firstAt: number
}

/** Only top-ups that all of these hold of. */
export interface TopUpFilter {
  readonly state?: TopUpState | undefined
  readonly processor?: ProcessorId | undefined
  /** Whether an operator has to look at it. */
  readonly problem?: true | undefined
  /** When it was opened, milliseconds since 1970, half open. */
  readonly from?: number | undefined
  readonly until?: number | undefined
}

/** Writes are durable when their promise resolves; all reject with `store_unavailable` without a database. */
export interface PaymentStore {
  /**
   * Adds a top-up, or returns the one with the same Idempotency-Key; `conflict` if that request differs, TooManyUnpaid
   * if the account has reached `limit`. All in one transaction.
   */
  addTopUp(
    topUp: TopUp,
    under: OpenedUnder | null,
    limit: UnpaidLimit,
  ): Awaitable<TopUp | 'conflict' | TooManyUnpaid>
  findTopUp(id: string): Awaitable<TopUp | undefined>
  /** By the processor's id of the page or of the payment. */
  findByReference(processor: ProcessorId, reference: string): Awaitable<TopUp | undefined>
  findByPayment(processor: ProcessorId, paymentId: string): Awaitable<TopUp | undefined>
  /** Of one account or all, newest first, before the id `before`. */
  listTopUps(
    account: string | null,
    limit: number,
    before: string | null,
    filter?: TopUpFilter,
  ): Awaitable<readonly TopUp[]>
  /** Changes a top-up in one transaction; null changes nothing. One that becomes `credited` gets its receipt number. */
  changeTopUp(id: string, change: (topUp: TopUp) => TopUp | null): Awaitable<TopUp>
  /** Whether the caller may ask the processor now: at most once per `everyMs`, over all processes. */
  claimQuestion(id: string, now: number, everyMs: number): Awaitable<boolean>
  /** Notes when the sweep asks next. */
  scheduleQuestion(id: string, at: number | null): Awaitable<void>
  /** Top-ups that the sweep must ask about or credit at `now`. */
  dueTopUps(now: number, limit: number): Awaitable<readonly TopUp[]>

  /** Adds a message, or returns what is stored of it. */
  recordEvent(event: EventRecord): Awaitable<EventRecord>
  concludeEvent(event: EventRecord, outcome: EventOutcome, topUp: string | null): Awaitable<void>
  /** Messages that wait for this payment. */
  waitingFor(processor: ProcessorId, paymentId: string): Awaitable<readonly EventRecord[]>
  /** Messages received before `before` that are not finished, and those whose payment has been credited since. */
  unfinishedEvents(before: number, limit: number): Awaitable<readonly EventRecord[]>
  /** All events without an id; newest first. */
  listEvents(topUp: string | null, limit: number): Awaitable<readonly EventRecord[]>

  /** Changes a reversal and its top-up in one transaction; null changes nothing. `current`: undefined if new. */
  changeReversal(
    key: Pick<Reversal, 'processor' | 'id' | 'topUp'>,
    change: (
      topUp: TopUp,
      current: Reversal | undefined,
      others: readonly Reversal[],
    ) => { readonly topUp: TopUp; readonly reversal: Reversal } | null,
  ): Awaitable<Reversal | undefined>
  /**
   * Records a refund before the processor is asked for it, or returns what is stored under its id; or what is left of the
   * top-up, where that is less. Refunds under other ids count before they are reported: those that nobody knows the
   * outcome of only if they were asked for after `unknownSince`.
   */
  askRefund(refund: AskedRefund, unknownSince: number): Awaitable<AskedRefund | RefundLeft>
  refundMade(refund: AskedRefund, at: number): Awaitable<void>
  /** Forgets one that its processor refused. */
  refundRefused(refund: AskedRefund): Awaitable<void>
  reversalsOf(topUp: string): Awaitable<readonly Reversal[]>
  unbookedReversals(limit: number): Awaitable<readonly Reversal[]>
}
