// Refunds and disputes of payments, and refunds that failed: each booked once, at the rate of its top-up.
// The result is the same in whatever order they arrive.

import type { Awaitable } from '../async/async.ts'
import { freeIn } from '../credits/wallet.ts'
import { pass } from '../credits/ledger/failpoint.ts'
import type { LedgerCommands, LedgerReader, LedgerUpkeep } from '../credits/ledger/ledger.ts'
import { formatMinor, type Minor, type Pico, smaller } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'
import {
  type AskedRefund,
  creditEnds,
  creditTakenBy,
  failureEnding,
  type DisputeNews,
  type EventOutcome,
  type FailedRefundNews,
  type PaymentStore,
  type ProcessorId,
  type RefundNews,
  type Reversal,
  stateAfter,
  type TopUp,
} from './top-up.ts'
import type { Plans } from './subscriptions.ts'
import type { PaymentProcessor } from './processor.ts'

/** Where payments are kept, and booked. */
export interface PaymentBooks {
  readonly store: PaymentStore
  readonly ledger: Pick<LedgerCommands, 'now'> &
    Pick<LedgerUpkeep, 'refund' | 'adjust'> &
    Pick<LedgerReader, 'balance'>
  readonly plans: Pick<Plans, 'begin' | 'takeBack'>
  readonly now: () => number
  /** Reports something that an operator must look at. */
  readonly alarm: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

/** Concurrent calls may take free credit meanwhile; then less is withheld. */
const mostHoldTries = 5
/** A payment has a handful of messages. */
const mostEvents = 1_000
/** Returned credit can be used for this long at least, milliseconds. */
const leastLifeMs = 24 * 3_600_000

export class Reversals {
  readonly #books: PaymentBooks

  constructor(books: PaymentBooks) {
    this.#books = books
  }

  /** Books a refund or dispute of a credited top-up. Rejects with `store_unavailable` or `overloaded`. */
  async take(topUp: TopUp, news: RefundNews | FailedRefundNews | DisputeNews): Promise<EventOutcome> {
    if (news.currency !== topUp.currency) {
      this.#alarm(topUp, 'currency_differs')
      return 'refused'
    }
    const reversal = await this.#note(topUp, news)
    if (reversal && !reversal.booked) {
      pass('refund-noted', reversal.id)
      await this.#book(reversal)
    }
    if (news.kind === 'refund-failed' && news.of === 'total') await this.#takeLaterSums(topUp, news)
    return 'applied'
  }

  #note(topUp: TopUp, news: RefundNews | FailedRefundNews | DisputeNews): Awaitable<Reversal | undefined> {
    switch (news.kind) {
      case 'refund':
        return this.#refund(topUp, news)
      case 'refund-failed':
        return this.#noteFailure(topUp, news)
      case 'dispute':
        return this.#dispute(topUp, news)
    }
  }

  /** Books what a killed process left. Returns the number. */
  async sweep(limit: number): Promise<number> {
    const unbooked = await this.#books.store.unbookedReversals(limit)
    for (const reversal of unbooked) await this.#book(reversal)
    return unbooked.length
  }

  async #refund(topUp: TopUp, news: RefundNews): Promise<Reversal | undefined> {
    let exceeds = false
    const { store, now } = this.#books
    // A failed refund is no longer in the sum. A failure that is noted after this takes up later sums itself.
    const failed = news.of === 'total' ? failedBefore(news.at ?? 0, await store.reversalsOf(topUp.id)) : 0n
    const id = failed === 0n ? news.refundId : `${news.refundId}+${failed}`
    const key = { processor: topUp.processor, id, topUp: topUp.id }
    const reversal = await store.changeReversal(key, (row, current, others) => {
      if (current || others.some((other) => other.id === failureOf(id))) return null
      const part = news.amount + failed - (news.of === 'total' ? sumOf(others, 'refund') : 0n)
      // A sum that is known already, or older than the last.
      if (part <= 0n) return null
      const noted = { kind: 'refund', amount: part } as const
      const moved = movedBy(noted, row, others)
      exceeds = moved.amount < reportedSum([...others, noted]) - reportedSum(others)
      return {
        topUp: withTaken(row, moved.amount, others),
        reversal: { ...key, ...noted, credit: moved.credit, held: 0n, booked: row.test, at: now() },
      }
    })
    if (exceeds) this.#alarm(topUp, 'refund_exceeds')
    return reversal
  }

  /** Notes a refund that failed, before or after it was noted itself. */
  #noteFailure(topUp: TopUp, news: FailedRefundNews): Awaitable<Reversal | undefined> {
    const key = { processor: topUp.processor, id: failureOf(news.refundId), topUp: topUp.id }
    const at = news.at ?? this.#books.now()
    return this.#books.store.changeReversal(key, (row, current, others) => {
      if (current) return null
      const refund = others.find(({ kind, id }) => kind === 'refund' && id === news.refundId)
      const amount = news.of === 'total' ? news.amount : (refund?.amount ?? 0n)
      const noted = { kind: 'failed', amount } as const
      const moved = movedBy(noted, row, others)
      return {
        topUp: withTaken(row, moved.amount, others),
        reversal: { ...key, ...noted, credit: moved.credit, held: 0n, booked: row.test, at },
      }
    })
  }

  /** What arrived of the payment before the failure, but was reported after it, was read as a sum with the failed one. */
  async #takeLaterSums(topUp: TopUp, { at = 0 }: FailedRefundNews): Promise<void> {
    for (const { news } of await this.#books.store.listEvents(topUp.id, mostEvents))
      if (news.kind === 'refund' && news.of === 'total' && (news.at ?? 0) > at) await this.take(topUp, news)
  }

  async #dispute(topUp: TopUp, news: DisputeNews): Promise<Reversal | undefined> {
    const key = { processor: topUp.processor, id: news.disputeId, topUp: topUp.id }
    const free = news.phase === 'open' && !topUp.test ? await this.#freeOf(topUp) : 0n
    let contradicts = false
    const reversal = await this.#books.store.changeReversal(key, (row, current, all) => {
      const others = all.filter(({ id }) => id !== key.id)
      // A dispute ends once; `open` may arrive after its end.
      if (current && (current.kind !== 'open' || news.phase === 'open')) {
        contradicts = news.phase !== 'open' && current.kind !== news.phase
        return null
      }
      const taken = takenOf(row, news.amount)
      const made = { ...key, ...taken, kind: news.phase, booked: row.test, at: this.#books.now() }
      if (news.phase === 'open') {
        const reversal = { ...made, held: smaller(free, taken.credit) }
        return { topUp: { ...row, state: stateAfter(row, 'open') }, reversal }
      }
      const held = current?.held ?? 0n
      if (news.phase === 'lost') {
        const noted = { kind: 'lost', amount: news.amount } as const
        const moved = movedBy(noted, row, others)
        const reversal = { ...made, ...noted, credit: moved.credit, held }
        return { topUp: withTaken(row, moved.amount, others), reversal }
      }
      const back = { ...made, amount: 0n, credit: 0n, held }
      return { topUp: withTaken(row, 0n, others), reversal: back }
    })
    if (contradicts) this.#alarm(topUp, 'dispute_ended_before')
    return reversal
  }

  async #book(reversal: Reversal): Promise<void> {
    const topUp = await this.#books.store.findTopUp(reversal.topUp)
    if (topUp && topUp.plan !== null) return this.#bookOfPlan(topUp, reversal)
    if (topUp?.lot === undefined || topUp.lot === null) return
    const id = `${reversal.processor}:${reversal.id}`
    if (reversal.kind === 'refund') await this.#takeBack(topUp, `refund:${id}`, reversal.credit)
    else if (reversal.kind === 'failed') await this.#returnRefund(topUp, reversal, `refund:${id}`)
    else if (reversal.kind === 'open') await this.#setAside(topUp, reversal, `dispute:${id}`)
    else {
      const held = await this.#wasSetAside(topUp, reversal, `dispute:${id}`)
      // In this order it cannot be spent in between: returned credit repays the debt first.
      if (reversal.kind === 'lost') await this.#takeBack(topUp, `dispute:${id}:lost`, reversal.credit)
      if (held > 0n) await this.#giveBack(topUp, `dispute:${id}:back`, held)
    }
    pass('refund-booked', reversal.id)
    await this.#change(reversal, (row) => ({ ...row, booked: row.kind === reversal.kind }))
  }

  /**
   * A plan whose payment went back in full, by refunds or a lost dispute, ends, and what is left of its credit goes; a part
   * leaves it as it is. It stays ended even if the refund fails: then an operator gives back again, or grants a period.
   */
  async #bookOfPlan(topUp: TopUp, reversal: Reversal): Promise<void> {
    if (reversal.kind === 'failed') this.#alarm(topUp, 'plan_refund_failed')
    else if (topUp.refunded >= topUp.amount) await this.#books.plans.takeBack(topUp)
    pass('refund-booked', reversal.id)
    await this.#change(reversal, (row) => ({ ...row, booked: row.kind === reversal.kind }))
  }

  async #takeBack(topUp: TopUp, id: string, amount: Pico): Promise<void> {
    if (amount === 0n) return
    try {
      await this.#books.ledger.refund({ id, account: topUp.account, lot: topUp.lot!, amount })
    } catch (error) {
      if (!isRefusal(error)) throw error
      // An operator has refunded the lot by hand too.
      this.#alarm(topUp, 'refund_exceeds', error)
    }
  }

  async #returnRefund(topUp: TopUp, { credit }: Reversal, id: string): Promise<void> {
    // What was taken must be in the ledger before it returns: otherwise it could be spent twice in between.
    for (const other of await this.#books.store.reversalsOf(topUp.id))
      if (other.kind === 'refund' && !other.booked) await this.#book(other)
    if (credit > 0n) await this.#giveBack(topUp, id, credit, topUp.lot!)
  }

  /** Withholds the free rest of the lot, as much as is there when the ledger runs the command. */
  async #setAside(topUp: TopUp, reversal: Reversal, id: string): Promise<void> {
    let { held } = reversal
    for (let tries = 0; held > 0n; tries++) {
      if (await this.#tryToAdjust(topUp, `${id}:hold`, -held)) return
      const free = tries < mostHoldTries ? smaller(await this.#freeOf(topUp), reversal.credit) : 0n
      held = free
      await this.#change(reversal, (row) => (row.kind === 'open' ? { ...row, held: free } : row))
    }
  }

  /** What was withheld when the dispute began; nothing if that was never booked and cannot be any more. */
  async #wasSetAside(topUp: TopUp, { held }: Reversal, id: string): Promise<Pico> {
    if (held === 0n) return 0n
    return (await this.#tryToAdjust(topUp, `${id}:hold`, -held)) ? held : 0n
  }

  async #tryToAdjust(topUp: TopUp, id: string, amount: Pico): Promise<boolean> {
    try {
      await this.#adjust(topUp, id, amount)
      return true
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'invalid_request') return false
      throw error
    }
  }

  async #adjust({ account, lot }: TopUp, id: string, amount: Pico): Promise<void> {
    await this.#books.ledger.adjust({ id, account, pool: 'purchased', amount, lot: lot! })
  }

  /** Returns credit that was withheld, with the life of the top-up: returning it must not make it live longer. */
  async #giveBack(topUp: TopUp, id: string, amount: Pico, refundOf?: string): Promise<void> {
    const { account } = topUp
    // Even where that life has ended meanwhile it must repay what the account owes for the same payment.
    const expiresAt = Math.max(creditEnds(topUp), this.#books.ledger.now() + leastLifeMs)
    const refund = refundOf === undefined ? {} : { refundOf }
    await this.#books.ledger.adjust({ id, account, pool: 'purchased', amount, expiresAt, ...refund })
  }

  async #change(key: Reversal, change: (row: Reversal) => Reversal): Promise<void> {
    await this.#books.store.changeReversal(key, (topUp, row) =>
      row ? { topUp, reversal: change(row) } : null,
    )
  }

  /** The free part of the top-up's lot that is not needed for the account's debt. */
  async #freeOf({ account, lot: id }: TopUp): Promise<Pico> {
    const balance = await this.#books.ledger.balance(account)
    const lot = balance.lots.find((other) => other.id === id)
    if (!lot) return 0n
    return smaller(lot.remaining - lot.pinned, freeIn(balance, ['purchased'], this.#books.ledger.now()))
  }

  #alarm(topUp: TopUp, problem: string, error?: unknown): void {
    this.#books.alarm('a payment needs an operator', {
      problem,
      top_up: topUp.id,
      ...(error === undefined ? {} : { error }),
    })
  }
}

interface Taken {
  readonly amount: Minor
  readonly credit: Pico
}

/** At most what is left of a payment, and its credit at the payment's rate. */
function takenOf(topUp: TopUp, wanted: Minor): Taken {
  const left = topUp.amount - topUp.refunded
  const amount = wanted < left ? wanted : left
  return { amount, credit: creditTakenBy(topUp, topUp.refunded, amount) }
}

function withTaken(topUp: TopUp, amount: Minor, others: readonly Reversal[]): TopUp {
  const refunded = topUp.refunded + amount
  const dispute = others.some(({ kind }) => kind === 'open') ? 'open' : 'none'
  return { ...topUp, refunded, state: stateAfter({ amount: topUp.amount, refunded }, dispute) }
}

function failureOf(refundId: string): string {
  return refundId + failureEnding
}

type Noted = Pick<Reversal, 'kind' | 'amount'>

/**
 * What changes when one more is noted: the amount taken of the payment, below zero for a failure, and its credit. Amounts
 * are noted as reported, even beyond the payment: what exceeds it now may not any more when a refund fails.
 */
function movedBy(noted: Noted, topUp: TopUp, others: readonly Noted[]): Taken {
  const amount =
    smaller(reportedSum([...others, noted]), topUp.amount) - smaller(reportedSum(others), topUp.amount)
  const lower = amount < 0n ? topUp.refunded + amount : topUp.refunded
  return { amount, credit: creditTakenBy(topUp, lower, amount < 0n ? -amount : amount) }
}

/** What lost disputes, and refunds that did not fail, have taken by what was reported. */
function reportedSum(reversals: readonly Noted[]): Minor {
  const refunds = sumOf(reversals, 'refund') - sumOf(reversals, 'failed')
  // A failure may arrive before its refund.
  return sumOf(reversals, 'lost') + (refunds > 0n ? refunds : 0n)
}

function failedBefore(at: number, reversals: readonly Reversal[]): Minor {
  return sumOf(
    reversals.filter((reversal) => reversal.at < at),
    'failed',
  )
}

function sumOf(reversals: readonly Noted[], of: Reversal['kind']): Minor {
  return reversals.reduce((sum, { kind, amount }) => (kind === of ? sum + amount : sum), 0n)
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof GatewayError &&
    (error.code === 'invalid_request' || error.code === 'idempotency_conflict' || error.code === 'not_found')
  )
}

// Operators' refunds, each under an id of its own: made once, however often it is requested.

export interface PaymentRefund {
  readonly topUp: TopUp
  /** Whether the same id was refunded before. */
  readonly repeated: boolean
}

/** Stripe forgets ids after 24 hours: a later repetition would refund a second time. */
const askAgainForMs = 20 * 3_600_000

export class Refunds {
  readonly #books: Pick<PaymentBooks, 'store' | 'now'>
  readonly #reversals: Reversals
  readonly #processorOf: (id: ProcessorId) => PaymentProcessor
  /** Refunds in progress in this process. */
  readonly #asking = new Map<string, Promise<TopUp>>()

  /** `processorOf` throws `payment_processor_error` for one that is not configured. */
  constructor(
    books: Pick<PaymentBooks, 'store' | 'now'>,
    reversals: Reversals,
    processorOf: (id: ProcessorId) => PaymentProcessor,
  ) {
    this.#books = books
    this.#reversals = reversals
    this.#processorOf = processorOf
  }

  /**
   * Gives a part of a payment back by its processor, and takes its credit. With an `id` that was used before nothing
   * more is given back, and the top-up is returned as it is; one whose outcome is unknown is asked for again. Rejects
   * with `not_found`, `invalid_request` for what was not credited or is more than is left, `idempotency_conflict` for an
   * id of another amount, and `payment_processor_error`.
   */
  async make(topUpId: string, amount: Minor, id: string): Promise<PaymentRefund> {
    const { store, now } = this.#books
    const topUp = await this.#requireCredited(topUpId)
    if (amount <= 0n) throw invalid('amount', 'amount must be above 0.')
    const wanted = { topUp: topUpId, id, amount, askedAt: now(), madeAt: null }
    const asked = await store.askRefund(wanted, wanted.askedAt - askAgainForMs)
    if ('left' in asked) {
      const left = formatMinor(asked.left, topUp.currency)
      throw invalid('amount', `At most ${left} ${topUp.currency} can be refunded.`)
    }
    if (asked.amount !== amount)
      throw new GatewayError('idempotency_conflict', {
        message: `The id was used for a refund of ${formatMinor(asked.amount, topUp.currency)} ${topUp.currency}.`,
        param: 'id',
      })
    if (asked.madeAt !== null) return { topUp, repeated: true }
    const key = JSON.stringify([topUpId, id])
    const running = this.#asking.get(key)
    if (running !== undefined) return { topUp: await running, repeated: true }
    const first = asked.askedAt === wanted.askedAt
    const asking = this.#ask(topUp, asked, first).finally(() => this.#asking.delete(key))
    this.#asking.set(key, asking)
    return { topUp: await asking, repeated: false }
  }

  async #requireCredited(id: string): Promise<TopUp> {
    const topUp = await this.#books.store.findTopUp(id)
    if (!topUp) throw new GatewayError('not_found', { message: 'There is no such top-up.' })
    if (topUp.paymentId === null || topUp.creditedAt === null)
      throw invalid('id', 'Only a top-up that was credited can be refunded.')
    return topUp
  }

  async #ask(topUp: TopUp, asked: AskedRefund, first: boolean): Promise<TopUp> {
    const { store, now } = this.#books
    if (now() - asked.askedAt > askAgainForMs)
      throw new GatewayError('payment_processor_error', {
        message: `${topUp.processor} has not said whether it made this refund. Look there, and give a new id if it did not.`,
        lasting: true,
      })
    try {
      const news = await this.#processorOf(topUp.processor).refund(topUp, asked.amount, asked.id)
      // A pending refund is reported by a message when it arrives.
      if (news !== undefined) await this.#reversals.take(topUp, news)
    } catch (error) {
      // A later refusal does not say what an earlier, unanswered request has done.
      const refused = error instanceof GatewayError && error.details.lasting === true
      if (first && refused) await store.refundRefused(asked)
      throw error
    }
    await store.refundMade(asked, now())
    return (await store.findTopUp(topUp.id)) ?? topUp
  }
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param })
}
