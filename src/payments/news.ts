// What processors report about payments, in a common form.

import type { Pico } from '../credits/money.ts'

/**
 * The processors that take money, with what the documentation says of the messages they send: the headers in which
 * they are signed. Each has a class in processors/ and its settings in the configuration.
 */
export const externalProcessors = {
  razorpay: {
    name: 'Razorpay',
    signedIn: [
      ['X-Razorpay-Signature', 'HMAC-SHA256 of the raw body by the secret of the webhook, in hex.'],
      ['x-razorpay-event-id', 'The id of the event.'],
    ],
  },
  stripe: {
    name: 'Stripe',
    signedIn: [['Stripe-Signature', 'The time and the HMAC-SHA256 of time and body, as Stripe signs.']],
  },
} as const satisfies Readonly<Record<string, ProcessorMessages>>

interface ProcessorMessages {
  readonly name: string
  readonly signedIn: readonly (readonly [header: string, description: string])[]
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

// Converts rupees to credit, exactly, in whole paise and picodollars. The only place that rounds.

/** An amount in the smallest unit of its currency, such as paise. */
export type Minor = bigint

/** Rupees per US dollar in millionths: "89.015" is 89,015,000. */
export type Rate = bigint

const minorPerUnit = 100n
const ratePerUnit = 1_000_000n
const picoPerUsdTimesRate = 1_000_000_000_000n * ratePerUnit

/** Reads rupees per US dollar, "89.015"; undefined unless positive with at most six decimals. */
export function parseRate(text: string): Rate | undefined {
  const match = /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(text)
  if (!match) return undefined
  const rate = BigInt(match[1]!) * ratePerUnit + BigInt((match[2] ?? '').padEnd(6, '0'))
  return rate > 0n ? rate : undefined
}

export function formatRate(rate: Rate): string {
  return decimal(rate, 6)
}

/** Reads an amount such as "500" or "500.50"; undefined if it is not one or has more than two decimals. */
export function parseMinor(text: string): Minor | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(text)
  return match ? BigInt(match[1]!) * minorPerUnit + BigInt((match[2] ?? '').padEnd(2, '0')) : undefined
}

/** "500" or "500.50": without decimals if they are zero. */
export function formatMinor(amount: Minor): string {
  const whole = amount / minorPerUnit
  const rest = amount % minorPerUnit
  return rest === 0n ? String(whole) : `${whole}.${String(rest).padStart(2, '0')}`
}

/** The value of an amount: `credit` is rounded down, `rounding` is what was cut off, 0 or 1 picodollars. */
interface Exchanged {
  readonly credit: Pico
  readonly rounding: Pico
}

/** floor(paise × 10¹⁸ / (rate in millionths × 100)) picodollars. */
export function exchangeAt(amount: Minor, rate: Rate): Exchanged {
  const dividend = amount * picoPerUsdTimesRate
  const divisor = rate * minorPerUnit
  return { credit: dividend / divisor, rounding: dividend % divisor === 0n ? 0n : 1n }
}

/**
 * The credit of a refunded part, when `before` of the payment was refunded already. All parts together are exactly the
 * credit of the whole, whatever their sizes.
 */
export function creditOfPart(before: Minor, part: Minor, rate: Rate): Pico {
  return exchangeAt(before + part, rate).credit - exchangeAt(before, rate).credit
}

function decimal(value: bigint, places: number): string {
  const unit = 10n ** BigInt(places)
  const fraction = String(value % unit)
    .padStart(places, '0')
    .replace(/0+$/, '')
  return fraction === '' ? String(value / unit) : `${value / unit}.${fraction}`
}
