// Operators' refunds, each under an id of its own: made once, however often it is requested.

import { GatewayError } from '../errors.ts'
import { formatMinor, type Minor } from './exchange.ts'
import type { ProcessorId } from './news.ts'
import type { AskedRefund, PaymentStore } from './payment-store.ts'
import type { PaymentProcessor } from './processor.ts'
import type { Reversals } from './reversals.ts'
import type { TopUp } from './top-up.ts'

interface RefundParts {
  readonly store: PaymentStore
  readonly reversals: Reversals
  readonly now: () => number
  /** Throws `payment_processor_error` for one that is not configured. */
  readonly processor: (id: ProcessorId) => PaymentProcessor
}

export interface RefundResult {
  readonly topUp: TopUp
  /** Whether the same id was refunded before. */
  readonly repeated: boolean
}

/** Stripe forgets ids after 24 hours: a later repetition would refund a second time. */
const askAgainForMs = 20 * 3_600_000

export class Refunds {
  readonly #parts: RefundParts
  /** Refunds in progress in this process. */
  readonly #asking = new Map<string, Promise<TopUp>>()

  constructor(parts: RefundParts) {
    this.#parts = parts
  }

  /**
   * Gives a part of a payment back by its processor, and takes its credit. With an `id` that was used before nothing
   * more is given back, and the top-up is returned as it is; one whose outcome is unknown is asked for again. Rejects
   * with `not_found`, `invalid_request` for what was not credited or is more than is left, `idempotency_conflict` for an
   * id of another amount, and `payment_processor_error`.
   */
  async make(topUpId: string, amount: Minor, id: string): Promise<RefundResult> {
    const { store, now } = this.#parts
    const topUp = await this.#credited(topUpId)
    if (amount <= 0n) throw invalid('amount', 'amount must be above 0.')
    const wanted = { topUp: topUpId, id, amount, askedAt: now(), madeAt: null }
    const asked = await store.askRefund(wanted)
    if (asked === 'exceeds') {
      const left = formatMinor(topUp.amount - topUp.refunded)
      throw invalid('amount', `At most ${left} INR can be refunded.`)
    }
    if (asked.amount !== amount)
      throw new GatewayError('idempotency_conflict', {
        message: `The id was used for a refund of ${formatMinor(asked.amount)} INR.`,
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

  async #credited(id: string): Promise<TopUp> {
    const topUp = await this.#parts.store.findTopUp(id)
    if (!topUp) throw new GatewayError('not_found', { message: 'There is no such top-up.' })
    if (topUp.paymentId === null || topUp.creditedAt === null)
      throw invalid('id', 'Only a top-up that was credited can be refunded.')
    return topUp
  }

  async #ask(topUp: TopUp, asked: AskedRefund, first: boolean): Promise<TopUp> {
    const { store, reversals, now, processor } = this.#parts
    if (now() - asked.askedAt > askAgainForMs)
      throw new GatewayError('payment_processor_error', {
        message: `${topUp.processor} has not said whether it made this refund. Look there, and give a new id if it did not.`,
        lasting: true,
      })
    try {
      const news = await processor(topUp.processor).refund(topUp, asked.amount, asked.id)
      // A pending refund is reported by a message when it arrives.
      if (news !== undefined) await reversals.take(topUp, news)
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
