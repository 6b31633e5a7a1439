// The interface of payment processors: opening a payment page, reporting its state, and verifying messages.

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { Minor } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'
import type { PaymentEvent, PaymentFact, ProcessorId, RefundNews, TopUp } from './top-up.ts'

/** An HTTP request to a processor, at the operator's address. Rejects without a connection. */
export type ProcessorFetch = (
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
  /**
   * Where browsers come back by /hooks/<id>/callback: verifies the signed query, and returns the top-up's id. Throws
   * `bad_signature`.
   */
  readonly returnTo?: (query: URLSearchParams) => string
}

/** What is paid for, as the page of a processor names it. */
export function nameOf({ plan }: Pick<TopUp, 'plan'>): string {
  return plan === null ? 'Credit for model usage' : plan.title
}

/** Where the payer's browser goes afterwards. */
export interface ReturnTo {
  /** The gateway's own address, without a trailing slash. */
  readonly origin: string
  /** The page that waits for the top-up. */
  readonly page: string
}

// A request to a payment processor, with a timeout and a size limit, for JSON.

/** A processor's time to answer, milliseconds. */
const patienceMs = 10_000
const mostBytes = 1024 * 1024
/** These say nothing about what became of the request: it took too long, its first sending is in progress, too many. */
const undecided: ReadonlySet<number> = new Set([408, 409, 429])

export interface Question {
  readonly processor: ProcessorId
  readonly call: ProcessorFetch
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A processor's refusal, with its status. */
export class ProcessorRefusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.name = 'ProcessorRefusal'
    this.status = status
  }
}

/**
 * The answer, checked by `schema`. Rejects with ProcessorRefusal for a 4xx that decides, and with
 * `payment_processor_error` for a timeout, a 5xx, or a body that is not JSON of this shape.
 */
export async function ask<T>(question: Question, schema: z.ZodType<T>): Promise<T> {
  const { processor, call, url, method, headers, body } = question
  const signal = AbortSignal.timeout(patienceMs)
  try {
    const response = await call(url, { method, headers, signal, ...(body === undefined ? {} : { body }) })
    const text = await boundedText(response)
    if (response.status >= 400 && response.status < 500 && !undecided.has(response.status))
      throw new ProcessorRefusal(response.status, descriptionIn(text))
    if (!response.ok) throw new Error(`HTTP ${response.status}`)
    return schema.parse(JSON.parse(text))
  } catch (error) {
    if (error instanceof ProcessorRefusal) throw error
    throw unansweredError(processor, error)
  }
}

/** A message, or what is in one, in its documented shape. Throws `invalid_request` for any other. */
export function requireShape<T>(schema: z.ZodType<T>, value: unknown): T {
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  throw undocumentedError(error)
}

export function undocumentedError(cause: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: 'The message is not of the documented shape.',
    cause,
  })
}

export function unansweredError(processor: ProcessorId, cause: unknown): GatewayError {
  const reason = cause instanceof z.ZodError ? 'its answer is not of the documented shape' : messageOf(cause)
  return new GatewayError('payment_processor_error', {
    message: `${processor} gave no usable answer: ${reason}`.slice(0, 300),
    cause,
  })
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > mostBytes) throw new Error('its answer is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const refusal = z.object({ error: z.object({ description: z.string() }) })

/** The refusal's message, for the operator. */
function descriptionIn(text: string): string {
  try {
    return refusal.parse(JSON.parse(text)).error.description.slice(0, 300)
  } catch {
    return 'no reason given'
  }
}

// Messages signed according to Standard Webhooks 1.0: HMAC-SHA256 of id, time and body. standardwebhooks.com.

/** The largest accepted clock difference of a message, milliseconds. */
const toleranceMs = 300_000
const prefix = 'whsec_'

/** The bytes of a secret: base64 after `whsec_`; any other text is used as it is. */
function keyOf(secret: string): Uint8Array {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}

/** Throws `bad_signature` unless the body was recently signed with one of the secrets. */
export function requireSigned(
  raw: Uint8Array,
  headers: Headers,
  secrets: readonly string[],
  now: number,
): void {
  const [id, seconds, given] = ['id', 'timestamp', 'signature'].map(
    (name) => headers.get(`webhook-${name}`) ?? '',
  ) as [string, string, string]
  const at = /^\d{1,12}$/.test(seconds) ? Number(seconds) * 1000 : Number.NaN
  if (id === '' || !(Math.abs(now - at) <= toleranceMs)) throw badSignature()
  const signed = Buffer.concat([Buffer.from(`${id}.${seconds}.`), raw])
  const expected = secrets.map(keyOf).filter((key) => key.length > 0)
  const signatures = given
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'))
  const isGood = expected.some((key) => signatures.some((signature) => isSame(hmac(key, signed), signature)))
  if (!isGood) throw badSignature()
}

/** The headers of an outgoing message: its id, the time of sending (milliseconds since 1970), and the signature. */
export function signatureHeaders(
  secret: string,
  id: string,
  at: number,
  body: string | Uint8Array,
): Readonly<Record<string, string>> {
  const seconds = String(Math.floor(at / 1000))
  const signed = Buffer.concat([Buffer.from(`${id}.${seconds}.`), Buffer.from(body)])
  const signature = hmac(keyOf(secret), signed).toString('base64')
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': `v1,${signature}` }
}

/** The JSON in a body. Throws `invalid_request`. */
export function signedJson(raw: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw))
  } catch (cause) {
    throw new GatewayError('invalid_request', { message: 'The body is not valid JSON.', cause })
  }
}

// Signatures of messages: HMAC-SHA256, compared in constant time.

/** HMAC-SHA256, as bytes. */
function hmac(secret: string | Uint8Array, signed: string | Uint8Array): Buffer {
  return createHmac('sha256', secret).update(signed).digest()
}

/** Whether `given` is the signature in hex. False for an empty secret. */
export function isHexSignature(secret: string, signed: string | Uint8Array, given: string): boolean {
  return (
    secret !== '' && /^[0-9a-f]{64}$/i.test(given) && isSame(hmac(secret, signed), Buffer.from(given, 'hex'))
  )
}

/** Compares in constant time; false for different lengths. */
function isSame(expected: Uint8Array, given: Uint8Array): boolean {
  return expected.length === given.length && timingSafeEqual(expected, given)
}

export function badSignature(): GatewayError {
  return new GatewayError('bad_signature')
}

// The built-in simulated processor: the whole flow without a provider, an account or the internet. It takes no money:
// its top-ups are always in test mode and never reach the ledger.

export class SimulatedProcessor implements PaymentProcessor {
  readonly id = 'sim'
  readonly test = true
  /** Nobody sends messages for it. */
  readonly verify = undefined

  /** Nothing is kept of a page but its top-up: any gateway may show it. */
  async open(_: TopUp, { origin }: ReturnTo): Promise<{ reference: string; url: string }> {
    // It cannot be guessed: whoever has the address opened the top-up.
    const reference = `page_${randomBytes(16).toString('hex')}`
    return { reference, url: `${origin}/hooks/sim/${reference}` }
  }

  /** What the visitor chooses is told at once: see `simulatedFact`. */
  async look(): Promise<PaymentFact> {
    return { kind: 'open' }
  }

  async refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined> {
    const { currency } = topUp
    return { kind: 'refund', refundId: id, paymentId: topUp.paymentId ?? '', amount, currency, of: 'one' }
  }
}

/** What the visitor of a top-up's page has chosen, as a processor would report it. Chosen twice, it is the same payment. */
export function simulatedFact(
  { reference, amount, currency }: Pick<TopUp, 'reference' | 'amount' | 'currency'>,
  choice: 'paid' | 'failed',
  now: number,
): PaymentFact {
  if (choice === 'failed') return { kind: 'failed' }
  const paymentId = `simpay_${(reference ?? '').slice('page_'.length)}`
  return { kind: 'paid', paymentId, amount, currency, paidAt: now, method: 'sim' }
}
