// What processors report about payments, in a common form.

import type { Minor } from './exchange.ts'

export const processorIds = ['razorpay', 'stripe', 'sim'] as const
export type ProcessorId = (typeof processorIds)[number]

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
