// The interface of the store for payments: top-ups, their messages, and refunds.

import type { Awaitable } from '../async/async.ts'
import type { Pico } from '../credits/money.ts'
import type { DisputePhase, Minor, PaymentNews, ProcessorId } from './news.ts'
import type { TopUp } from './top-up.ts'

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

/** A refund requested by an operator, under the operator's id. */
export interface AskedRefund {
  readonly topUp: string
  readonly id: string
  readonly amount: Minor
  readonly askedAt: number
  /** When the processor confirmed it; null until then. */
  readonly madeAt: number | null
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
  listTopUps(account: string | null, limit: number, before: string | null): Awaitable<readonly TopUp[]>
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
   * Records a refund before the processor is asked for it, or returns what is stored under its id. `exceeds` if less
   * is left of the top-up.
   */
  askRefund(refund: AskedRefund): Awaitable<AskedRefund | 'exceeds'>
  refundMade(refund: AskedRefund, at: number): Awaitable<void>
  /** Forgets one that its processor refused. */
  refundRefused(refund: AskedRefund): Awaitable<void>
  reversalsOf(topUp: string): Awaitable<readonly Reversal[]>
  unbookedReversals(limit: number): Awaitable<readonly Reversal[]>
}
