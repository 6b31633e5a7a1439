// The interface of payment processors: opening a payment page, reporting its state, and verifying messages.

import type { Minor } from './exchange.ts'
import type { PaymentEvent, PaymentFact, ProcessorId, RefundNews } from './news.ts'
import type { TopUp } from './top-up.ts'

/** An HTTP request to a processor, at the operator's address. Rejects without a connection. */
export type Call = (
  url: string,
  init: {
    readonly method: 'GET' | 'POST'
    readonly headers: Readonly<Record<string, string>>
    readonly body?: string
    readonly signal: AbortSignal
  },
) => Promise<Response>

export interface PaymentProcessor {
  readonly id: ProcessorId
  /** With test credentials nothing reaches the ledger. */
  readonly test: boolean
  /**
   * Opens the payment page of a top-up; idempotent by its id. Rejects with `payment_processor_error`, like every
   * request to the processor.
   */
  open(topUp: TopUp, returnTo: ReturnTo): Promise<{ readonly reference: string; readonly url: string }>
  /** What the processor itself says now. */
  look(topUp: TopUp): Promise<PaymentFact>
  /**
   * Refunds `amount` of the payment; idempotent by `id`. Resolves with the refund, or undefined while it is pending: a
   * message follows.
   */
  refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined>
  /**
   * Verifies and reads a webhook message; undefined without a secret. Rejects with `bad_signature` before the body is
   * parsed.
   */
  readonly verify: ((raw: Uint8Array, headers: Headers) => Promise<PaymentEvent>) | undefined
  /**
   * Verifies the query of a payer's returning browser, if the processor signs it, and returns the top-up's id. Throws
   * `bad_signature`.
   */
  readonly returned?: (query: URLSearchParams) => string
}

/** Where the payer's browser goes afterwards. */
export interface ReturnTo {
  /** The gateway's own address, without a trailing slash. */
  readonly origin: string
  /** The page that waits for the top-up. */
  readonly page: string
}
