// Refunds and disputes of payments: each booked once, at the rate of its top-up, in the order of arrival.

import { freeIn } from '../credits/balance.ts'
import { pass } from '../credits/ledger/failpoint.ts'
import type { LedgerCommands, LedgerReader, LedgerUpkeep } from '../credits/ledger/ledger.ts'
import { smaller, type Pico } from '../credits/money.ts'
import { GatewayError } from '../errors.ts'
import { creditOfPart, type Minor } from './exchange.ts'
import type { DisputeNews, RefundNews } from './news.ts'
import type { EventOutcome, PaymentStore, Reversal } from './payment-store.ts'
import { creditEnds, stateAfter, type TopUp } from './top-up.ts'

interface ReversalParts {
  readonly store: PaymentStore
  readonly ledger: Pick<LedgerCommands, 'now'> &
    Pick<LedgerUpkeep, 'refund' | 'adjust'> &
    Pick<LedgerReader, 'balance'>
  readonly now: () => number
  readonly alarm: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

/** Concurrent calls may take free credit meanwhile; then less is withheld. */
const mostHoldTries = 5
/** Returned credit can be used for this long at least, milliseconds. */
const leastLifeMs = 24 * 3_600_000

export class Reversals {
  readonly #parts: ReversalParts

  constructor(parts: ReversalParts) {
    this.#parts = parts
  }

  /** Books a refund or dispute of a credited top-up. Rejects with `store_unavailable` or `overloaded`. */
  async take(topUp: TopUp, news: RefundNews | DisputeNews): Promise<EventOutcome> {
    if (news.currency !== topUp.currency) {
      this.#alarm(topUp, 'currency_differs')
      return 'refused'
    }
    const reversal = await (news.kind === 'refund' ? this.#refund(topUp, news) : this.#dispute(topUp, news))
    if (reversal && !reversal.booked) {
      pass('refund-noted', reversal.id)
      await this.#book(reversal)
    }
    return 'applied'
  }

  /** Books what a killed process left. Returns the number. */
  async sweep(limit: number): Promise<number> {
    const unbooked = await this.#parts.store.unbookedReversals(limit)
    for (const reversal of unbooked) await this.#book(reversal)
    return unbooked.length
  }

  async #refund(topUp: TopUp, news: RefundNews): Promise<Reversal | undefined> {
    let exceeds = false
    const key = { processor: topUp.processor, id: news.refundId, topUp: topUp.id }
    const reversal = await this.#parts.store.changeReversal(key, (row, current, others) => {
      if (current) return null
      const before = news.of === 'total' ? sumOf(others.filter(({ kind }) => kind === 'refund')) : 0n
      const part = news.amount - before
      // A sum that is known already, or older than the last.
      if (part <= 0n) return null
      const taken = takenOf(row, part)
      exceeds = taken.amount < part
      return {
        topUp: withTaken(row, taken.amount, others),
        reversal: { ...key, ...taken, kind: 'refund', held: 0n, booked: row.test, at: this.#parts.now() },
      }
    })
    if (exceeds) this.#alarm(topUp, 'refund_exceeds')
    return reversal
  }

  async #dispute(topUp: TopUp, news: DisputeNews): Promise<Reversal | undefined> {
    const key = { processor: topUp.processor, id: news.disputeId, topUp: topUp.id }
    const free = news.phase === 'open' && !topUp.test ? await this.#freeOf(topUp) : 0n
    let contradicts = false
    const reversal = await this.#parts.store.changeReversal(key, (row, current, all) => {
      const others = all.filter(({ id }) => id !== key.id)
      // A dispute ends once; `open` may arrive after its end.
      if (current && (current.kind !== 'open' || news.phase === 'open')) {
        contradicts = news.phase !== 'open' && current.kind !== news.phase
        return null
      }
      const taken = takenOf(row, news.amount)
      const made = { ...key, ...taken, kind: news.phase, booked: row.test, at: this.#parts.now() }
      if (news.phase === 'open') {
        const reversal = { ...made, held: smaller(free, taken.credit) }
        return { topUp: { ...row, state: stateAfter(row, 'open') }, reversal }
      }
      const held = current?.held ?? 0n
      if (news.phase === 'lost')
        return { topUp: withTaken(row, taken.amount, others), reversal: { ...made, held } }
      const back = { ...made, amount: 0n, credit: 0n, held }
      return { topUp: withTaken(row, 0n, others), reversal: back }
    })
    if (contradicts) this.#alarm(topUp, 'dispute_ended_before')
    return reversal
  }

  async #book(reversal: Reversal): Promise<void> {
    const topUp = await this.#parts.store.findTopUp(reversal.topUp)
    if (topUp?.lot === undefined || topUp.lot === null) return
    const id = `${reversal.processor}:${reversal.id}`
    if (reversal.kind === 'refund') await this.#takeBack(topUp, `refund:${id}`, reversal.credit)
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

  async #takeBack(topUp: TopUp, id: string, amount: Pico): Promise<void> {
    if (amount === 0n) return
    try {
      await this.#parts.ledger.refund({ id, account: topUp.account, lot: topUp.lot!, amount })
    } catch (error) {
      if (!isRefusal(error)) throw error
      // An operator has refunded the lot by hand too.
      this.#alarm(topUp, 'refund_exceeds', error)
    }
  }

  /** Withholds the free rest of the lot, as much as is there when the ledger runs the command. */
  async #setAside(topUp: TopUp, reversal: Reversal, id: string): Promise<void> {
    let { held } = reversal
    for (let tries = 0; held > 0n; tries++) {
      if (await this.#adjusted(topUp, `${id}:hold`, -held)) return
      const free = tries < mostHoldTries ? smaller(await this.#freeOf(topUp), reversal.credit) : 0n
      held = free
      await this.#change(reversal, (row) => (row.kind === 'open' ? { ...row, held: free } : row))
    }
  }

  /** What was withheld when the dispute began; nothing if that was never booked and cannot be any more. */
  async #wasSetAside(topUp: TopUp, { held }: Reversal, id: string): Promise<Pico> {
    if (held === 0n) return 0n
    return (await this.#adjusted(topUp, `${id}:hold`, -held)) ? held : 0n
  }

  async #adjusted(topUp: TopUp, id: string, amount: Pico): Promise<boolean> {
    try {
      await this.#adjust(topUp, id, amount)
      return true
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'invalid_request') return false
      throw error
    }
  }

  async #adjust({ account, lot }: TopUp, id: string, amount: Pico): Promise<void> {
    await this.#parts.ledger.adjust({ id, account, pool: 'purchased', amount, lot: lot! })
  }

  /** Returns credit that was withheld, with the life of the top-up: returning it must not make it live longer. */
  async #giveBack(topUp: TopUp, id: string, amount: Pico): Promise<void> {
    const { account } = topUp
    // Even where that life has ended meanwhile it must repay what the account owes for the same payment.
    const expiresAt = Math.max(creditEnds(topUp), this.#parts.ledger.now() + leastLifeMs)
    await this.#parts.ledger.adjust({ id, account, pool: 'purchased', amount, expiresAt })
  }

  async #change(key: Reversal, change: (row: Reversal) => Reversal): Promise<void> {
    await this.#parts.store.changeReversal(key, (topUp, row) =>
      row ? { topUp, reversal: change(row) } : null,
    )
  }

  /** The free part of the top-up's lot that is not needed for the account's debt. */
  async #freeOf({ account, lot: id }: TopUp): Promise<Pico> {
    const balance = await this.#parts.ledger.balance(account)
    const lot = balance.lots.find((other) => other.id === id)
    if (!lot) return 0n
    return smaller(lot.remaining - lot.pinned, freeIn(balance, ['purchased'], this.#parts.ledger.now()))
  }

  #alarm(topUp: TopUp, problem: string, error?: unknown): void {
    this.#parts.alarm('a payment needs an operator', {
      problem,
      top_up: topUp.id,
      ...(error === undefined ? {} : { error }),
    })
  }
}

/** At most what is left of a payment, and its credit at the payment's rate. */
function takenOf(topUp: TopUp, wanted: Minor): { readonly amount: Minor; readonly credit: Pico } {
  const left = topUp.amount - topUp.refunded
  const amount = wanted < left ? wanted : left
  return { amount, credit: creditOfPart(topUp.refunded, amount, topUp.rate) }
}

function withTaken(topUp: TopUp, amount: Minor, others: readonly Reversal[]): TopUp {
  const refunded = topUp.refunded + amount
  const dispute = others.some(({ kind }) => kind === 'open') ? 'open' : 'none'
  return { ...topUp, refunded, state: stateAfter({ amount: topUp.amount, refunded }, dispute) }
}

function sumOf(reversals: readonly Reversal[]): Minor {
  return reversals.reduce((sum, { amount }) => sum + amount, 0n)
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof GatewayError &&
    (error.code === 'invalid_request' || error.code === 'idempotency_conflict' || error.code === 'not_found')
  )
}
