// What is kept of payments: top-ups, every message about them, and what was taken back.

import type { Awaitable } from '../awaitable.ts'
import type { Pico } from '../credits/money.ts'
import type { Minor } from './exchange.ts'
import type { DisputePhase, PaymentNews, ProcessorId } from './news.ts'
import type { TopUp } from './top-up.ts'

/** What became of a message. `waiting`: for a payment that is not credited yet. `received`: it was not finished. */
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

/** A refund, or a dispute, of a payment. */
export interface Reversal {
  readonly processor: ProcessorId
  /** The processor's id of the refund or dispute. */
  readonly id: string
  readonly topUp: string
  readonly amount: Minor
  /** What the amount came to at the rate of the top-up, given what had been taken back before it. */
  readonly credit: Pico
  /** `refund`, or how far a dispute has come. */
  readonly kind: 'refund' | DisputePhase
  /** Of an open dispute: the credit that was set aside for it. */
  readonly held: Pico
  /** Whether the ledger has all of it. */
  readonly booked: boolean
  readonly at: number
}

/** A refund that an operator has asked for, under an id of the operator's. */
export interface AskedRefund {
  readonly topUp: string
  readonly id: string
  readonly amount: Minor
  readonly askedAt: number
  /** When the processor has said that it made it; null while nothing is known of it. */
  readonly madeAt: number | null
}

export interface OpenedUnder {
  readonly key: string
  /** SHA-256 of what was asked for, hex. */
  readonly hash: string
}

/** Every write is durable when its promise resolves; all reject with `store_unavailable` when the database is not there. */
export interface PaymentStore {
  /**
   * Adds a top-up. Where its account has used the same Idempotency-Key before, that top-up is given instead; `conflict`
   * when another body was sent with it.
   */
  addTopUp(topUp: TopUp, under: OpenedUnder | null): Awaitable<TopUp | 'conflict'>
  findTopUp(id: string): Awaitable<TopUp | undefined>
  /** By the processor's id of its page, or of its payment. */
  findByReference(processor: ProcessorId, reference: string): Awaitable<TopUp | undefined>
  findByPayment(processor: ProcessorId, paymentId: string): Awaitable<TopUp | undefined>
  /** The newest first, of one account or all; those before `before`, an id. */
  listTopUps(account: string | null, limit: number, before: string | null): Awaitable<readonly TopUp[]>
  /** Reads and writes in one transaction; null leaves it as it is. A top-up that becomes `credited` gets its number. */
  changeTopUp(id: string, change: (topUp: TopUp) => TopUp | null): Awaitable<TopUp>
  /** Whether the caller may ask the processor now: at most once in `everyMs`, over all processes. */
  claimQuestion(id: string, now: number, everyMs: number): Awaitable<boolean>
  /** Notes when the sweep asks next. */
  scheduleQuestion(id: string, at: number | null): Awaitable<void>
  /** Top-ups that the sweep has to ask about, or to credit, at `now`. */
  dueTopUps(now: number, limit: number): Awaitable<readonly TopUp[]>

  /** Adds a message, or gives what is known of it. */
  recordEvent(event: EventRecord): Awaitable<EventRecord>
  concludeEvent(event: EventRecord, outcome: EventOutcome, topUp: string | null): Awaitable<void>
  /** Messages that wait for this payment. */
  waitingFor(processor: ProcessorId, paymentId: string): Awaitable<readonly EventRecord[]>
  /** Messages that were received before `before` and not finished, and those whose payment has been credited since. */
  unfinishedEvents(before: number, limit: number): Awaitable<readonly EventRecord[]>
  /** All events without an id; newest first. */
  listEvents(topUp: string | null, limit: number): Awaitable<readonly EventRecord[]>

  /**
   * Reads and writes a reversal together with its top-up, in one transaction; null leaves both as they are. `current` is
   * undefined for one that is new.
   */
  changeReversal(
    key: Pick<Reversal, 'processor' | 'id' | 'topUp'>,
    change: (
      topUp: TopUp,
      current: Reversal | undefined,
      others: readonly Reversal[],
    ) => { readonly topUp: TopUp; readonly reversal: Reversal } | null,
  ): Awaitable<Reversal | undefined>
  /**
   * Notes a refund before the processor is asked for it, or gives what is known under its id. `exceeds` when the top-up
   * has less left.
   */
  askRefund(refund: AskedRefund): Awaitable<AskedRefund | 'exceeds'>
  refundMade(refund: AskedRefund, at: number): Awaitable<void>
  /** Forgets one that its processor refused. */
  refundRefused(refund: AskedRefund): Awaitable<void>
  reversalsOf(topUp: string): Awaitable<readonly Reversal[]>
  unbookedReversals(limit: number): Awaitable<readonly Reversal[]>
}
