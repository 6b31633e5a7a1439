// A payment processor as the gateway sees it: opens a page to pay on, says what became of it, and signs its messages.

import type { Minor } from './exchange.ts'
import type { PaymentEvent, PaymentFact, ProcessorId, RefundNews } from './news.ts'
import type { TopUp } from './top-up.ts'

/** Asks a processor over HTTP; the address is the operator's. Rejects when there is no connection. */
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
  /** With credentials of the processor's test mode nothing reaches the ledger. */
  readonly test: boolean
  /**
   * Opens the page on which a top-up is paid; idempotent by its id. Rejects with `payment_processor_error`, as every
   * question to the processor does.
   */
  open(topUp: TopUp, returnTo: ReturnTo): Promise<{ readonly reference: string; readonly url: string }>
  /** What the processor itself says now. */
  look(topUp: TopUp): Promise<PaymentFact>
  /**
   * Gives `amount` of the payment back; idempotent by `id`. Resolves with the news of the refund, undefined while it is
   * on its way: its message follows.
   */
  refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined>
  /**
   * Reads a message of its webhook; undefined where no secret is set, and so nothing can be verified. Rejects with
   * `bad_signature` before anything of the body is parsed.
   */
  readonly verify: ((raw: Uint8Array, headers: Headers) => Promise<PaymentEvent>) | undefined
  /**
   * Reads the address that a payer's browser comes back by, where the processor signs it: the id of the top-up. Throws
   * `bad_signature`.
   */
  readonly returned?: (query: URLSearchParams) => string
}

/** Where the payer's browser goes afterwards. */
export interface ReturnTo {
  /** The gateway's own address, without a slash at its end. */
  readonly origin: string
  /** The page that waits for the top-up. */
  readonly page: string
}
