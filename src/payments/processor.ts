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
  /** Refunds `amount`; idempotent by `id`. Resolves with the refund; undefined if a message will follow. */
  refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined>
  /** Verifies and reads a webhook message, `bad_signature` before parsing; undefined without a secret. */
  readonly verify: ((raw: Uint8Array, headers: Headers) => Promise<PaymentEvent>) | undefined
  /** Verifies a returning browser's query, if signed, and returns the top-up's id. Throws `bad_signature`. */
  readonly returnTo?: (query: URLSearchParams) => string
}

/** Where the payer's browser goes afterwards. */
export interface ReturnTo {
  /** The gateway's own address, without a trailing slash. */
  readonly origin: string
  /** The page that waits for the top-up. */
  readonly page: string
}
