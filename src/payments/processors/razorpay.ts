// Razorpay Payment Links: three requests, and two signatures that must not be confused.
// razorpay.com/docs/api/payments/payment-links, /docs/api/refunds, /docs/webhooks/validate-test.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import type {
  DisputePhase,
  PaidFact,
  PaymentEvent,
  PaymentFact,
  PaymentNews,
  RefundNews,
  TopUp,
} from '../top-up.ts'
import type { Minor } from '../../credits/money.ts'
import {
  ask,
  badSignature,
  isHexSignature,
  nameOf,
  type PaymentProcessor,
  type ProcessorFetch,
  ProcessorRefusal,
  type Question,
  requireShape,
  type ReturnTo,
  undocumentedError,
} from '../processor.ts'

interface RazorpaySettings {
  readonly keyId: string
  readonly keySecret: string
  /** Valid secrets, the current one first; without any, messages cannot be verified. */
  readonly webhookSecrets: readonly string[]
  readonly baseUrl: string
}

/** Razorpay's minimum life of a link, plus a margin for clock differences. */
const leastLinkLifeMs = 16 * 60_000

export class Razorpay implements PaymentProcessor {
  readonly id = 'razorpay'
  readonly test: boolean
  readonly verify: PaymentProcessor['verify']
  readonly #settings: RazorpaySettings
  readonly #call: ProcessorFetch
  readonly #now: () => number

  constructor(settings: RazorpaySettings, call: ProcessorFetch, now: () => number) {
    this.#settings = settings
    this.#call = call
    this.#now = now
    this.test = settings.keyId.startsWith('rzp_test_')
    this.verify =
      settings.webhookSecrets.length === 0 ? undefined : (raw, headers) => this.#verify(raw, headers)
  }

  async open(topUp: TopUp, returnTo: ReturnTo): Promise<{ reference: string; url: string }> {
    try {
      const link = await this.#ask('POST', '/payment_links', pageSchema, {
        amount: Number(topUp.amount),
        currency: topUp.currency,
        accept_partial: false,
        reference_id: topUp.id,
        description: nameOf(topUp),
        expire_by: Math.ceil(Math.max(topUp.expiresAt, this.#now() + leastLinkLifeMs) / 1000),
        notify: { sms: false, email: false },
        reminder_enable: false,
        callback_url: `${returnTo.origin}/hooks/${this.id}/callback`,
        callback_method: 'get',
        notes: { top_up: topUp.id },
      })
      return { reference: link.id, url: link.short_url }
    } catch (error) {
      if (!(error instanceof ProcessorRefusal)) throw error
      // A reference belongs to one link: this one was created by a request whose answer was lost.
      const made = error.status === 400 ? await this.#findLink(topUp).catch(() => undefined) : undefined
      if (made?.short_url !== undefined) return { reference: made.id, url: made.short_url }
      throw refusalError(error)
    }
  }

  async look(topUp: TopUp): Promise<PaymentFact> {
    try {
      const link =
        topUp.reference === null
          ? await this.#findLink(topUp)
          : await this.#ask('GET', `/payment_links/${encodeURIComponent(topUp.reference)}`, linkSchema)
      return link === undefined ? { kind: 'open' } : factOf(link, topUp)
    } catch (error) {
      throw error instanceof ProcessorRefusal ? refusalError(error) : error
    }
  }

  async #findLink(topUp: TopUp): Promise<Link | undefined> {
    const path = `/payment_links/?reference_id=${encodeURIComponent(topUp.id)}`
    const { payment_links: links } = await this.#ask('GET', path, linksSchema)
    return links.find((link) => link.reference_id === topUp.id)
  }

  async refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined> {
    const path = `/payments/${encodeURIComponent(topUp.paymentId ?? '')}/refund`
    try {
      const body = { amount: Number(amount), speed: 'normal', notes: { top_up: topUp.id } }
      const made = await this.#ask('POST', path, refundSchema, body, { 'x-refund-idempotency': keyOf(id) })
      if (made.status !== 'processed') return undefined
      return {
        kind: 'refund',
        refundId: made.id,
        paymentId: made.payment_id,
        amount: BigInt(made.amount),
        currency: upper(made.currency),
        of: 'one',
      }
    } catch (error) {
      throw error instanceof ProcessorRefusal ? refusalError(error) : error
    }
  }

  #ask<T>(
    method: 'GET' | 'POST',
    path: string,
    schema: z.ZodType<T>,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const { keyId, keySecret, baseUrl } = this.#settings
    const basic = Buffer.from(`${keyId}:${keySecret}`).toString('base64')
    const question: Question = {
      processor: this.id,
      call: this.#call,
      url: baseUrl + path,
      method,
      headers: {
        authorization: `Basic ${basic}`,
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }
    return ask(question, schema)
  }

  /** For webhooks: the hex HMAC of the raw body with the webhook's secret. */
  async #verify(raw: Uint8Array, headers: Headers): Promise<PaymentEvent> {
    const given = headers.get('x-razorpay-signature') ?? ''
    const { webhookSecrets } = this.#settings
    if (!webhookSecrets.some((secret) => isHexSignature(secret, raw, given))) throw badSignature()
    return newsOf(parseMessage(raw), headers.get('x-razorpay-event-id'), raw)
  }

  /** For the callback: the HMAC of four of its parameters with the API key's secret. */
  returnTo(query: URLSearchParams): string {
    const [link, topUp, status, payment, signature] = returnedParameters.map((name) => query.get(name) ?? '')
    const signed = [link, topUp, status, payment].join('|')
    if (!isHexSignature(this.#settings.keySecret, signed, signature ?? '')) throw badSignature()
    return topUp ?? ''
  }
}

const returnedParameters = [
  'razorpay_payment_link_id',
  'razorpay_payment_link_reference_id',
  'razorpay_payment_link_status',
  'razorpay_payment_id',
  'razorpay_signature',
]

const whole = z.int().nonnegative()

const linkPayment = z.lazy(() =>
  z.object({
    payment_id: z.string().min(1),
    amount: whole.optional(),
    status: z.string().default('captured'),
    created_at: whole.nullish(),
    method: z.string().nullish(),
  }),
)

const pageUrl = z.url({ protocol: /^https?$/ })

const linkSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    short_url: pageUrl.optional(),
    reference_id: z.string().nullish(),
    status: z.string(),
    currency: z.string().default('INR'),
    amount_paid: whole.nullish(),
    payments: z.union([z.array(linkPayment), z.null(), linkPayment.transform((one) => [one])]).optional(),
  }),
)
type Link = z.output<typeof linkSchema>
/** One that was just made says where it is. */
const pageSchema = z.lazy(() =>
  linkSchema.unwrap().extend({ short_url: pageUrl, status: z.string().default('created') }),
)

const linksSchema = z.lazy(() => z.object({ payment_links: z.array(linkSchema) }))

const refundSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    payment_id: z.string(),
    amount: whole,
    currency: z.string(),
    status: z.string(),
  }),
)

/** Razorpay takes letters, digits, hyphens and underscores as an idempotency key; an operator's id may have dots. */
function keyOf(id: string): string {
  return /^[\w-]+$/.test(id) ? id : Bun.SHA256.hash(id, 'hex')
}

/** A link is paid if it says so and shows the captured payment; until then nothing is credited. */
function factOf(link: Link, topUp: TopUp): PaymentFact {
  const captured = (link.payments ?? []).filter(({ status }) => status === 'captured')
  const payment = captured.find(({ payment_id: id }) => id === topUp.paymentId) ?? captured[0]
  const amount = payment?.amount ?? link.amount_paid
  if (payment && amount != null && link.status === 'paid') {
    return {
      kind: 'paid',
      paymentId: payment.payment_id,
      amount: BigInt(amount),
      currency: upper(link.currency),
      paidAt: payment.created_at == null ? null : payment.created_at * 1000,
      method: payment.method ?? null,
    }
  }
  if (link.status === 'expired') return { kind: 'expired' }
  return link.status === 'cancelled' ? { kind: 'failed' } : { kind: 'open' }
}

function refusalError(error: ProcessorRefusal): GatewayError {
  return new GatewayError('payment_processor_error', {
    message: `razorpay refused the request with ${error.status}: ${error.message}`,
    lasting: true,
    cause: error,
  })
}

// The messages of Razorpay's webhooks. Of what they hold only ids, amounts and the word for the method are read.
// razorpay.com/docs/webhooks/payloads/{payments,payment-links,orders,refunds,disputes}.

/** An empty set of notes is an empty list. */
const notes = z.union([z.record(z.string(), z.unknown()), z.array(z.unknown())]).nullish()

const payment = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string().default('INR'),
    status: z.string().optional(),
    method: z.string().nullish(),
    notes,
    created_at: whole.nullish(),
  }),
)
const link = z.lazy(() => z.object({ id: z.string().min(1), reference_id: z.string().nullish(), notes }))
const order = z.lazy(() => z.object({ receipt: z.string().nullish(), notes }))
const part = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    payment_id: z.string(),
    amount: whole,
    currency: z.string().default('INR'),
  }),
)

const message = z.lazy(() =>
  z.object({
    event: z.string().max(100),
    payload: z.record(z.string(), z.object({ entity: z.unknown() })).default({}),
  }),
)
type Message = z.output<typeof message>

/** The message in a body with a valid signature. Throws `invalid_request` if it is not one. */
export function parseMessage(raw: Uint8Array): Message {
  try {
    return message.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw)))
  } catch (cause) {
    throw undocumentedError(cause)
  }
}

/** What of a message is about something, undefined where it does not have it. Throws `invalid_request`. */
function entityOf<T>({ payload }: Message, name: string, schema: z.ZodType<T>): T | undefined {
  return requireShape(schema.optional(), payload[name]?.entity)
}

/** `eventId` is the header of the delivery; without it a hash of the body is used. */
export function newsOf(read: Message, eventId: string | null, raw: Uint8Array): PaymentEvent {
  const id = eventId ?? Bun.SHA256.hash(raw, 'hex')
  const type = read.event
  const news = newsIn(read)
  // Of what the gateway does not act on nothing more is read: it may have any shape.
  if (news.kind === 'other') return { id, type, topUp: null, reference: null, news }
  const [page, paid, of] = [
    entityOf(read, 'payment_link', link),
    entityOf(read, 'payment', payment),
    entityOf(read, 'order', order),
  ]
  const named = [page?.notes, paid?.notes, of?.notes].map(topUpIn).find(Boolean)
  return {
    id,
    type,
    topUp: page?.reference_id ?? named ?? of?.receipt ?? null,
    reference: page?.id ?? null,
    news,
  }
}

function topUpIn(given: z.output<typeof notes>): string | undefined {
  const id = given && !Array.isArray(given) ? given['top_up'] : undefined
  return typeof id === 'string' ? id : undefined
}

const phases: Readonly<Record<string, DisputePhase>> = {
  'payment.dispute.created': 'open',
  'payment.dispute.won': 'won',
  // A suspicion of fraud that was answered: money is only deducted for lost disputes.
  'payment.dispute.closed': 'won',
  'payment.dispute.lost': 'lost',
}

function newsIn(read: Message): PaymentNews {
  switch (read.event) {
    case 'payment_link.paid':
    case 'payment.captured':
    case 'order.paid': {
      const paid = entityOf(read, 'payment', payment)
      if (!paid) return { kind: 'unproven' }
      // Money that is only authorised may go back.
      return (paid.status ?? 'captured') === 'captured' ? paidFact(paid) : { kind: 'other' }
    }
    case 'payment_link.expired':
      return { kind: 'expired' }
    case 'payment_link.cancelled':
      return { kind: 'failed' }
    case 'refund.processed':
    case 'refund.failed': {
      const { id: refundId, ...rest } = requireShape(part, read.payload['refund']?.entity)
      const kind = read.event === 'refund.failed' ? 'refund-failed' : 'refund'
      return { kind, refundId, ...partOf(rest), of: 'one' }
    }
    default: {
      // `payment.failed` is one attempt: the page stays open for the next.
      const phase = phases[read.event]
      if (phase === undefined) return { kind: 'other' }
      const { id: disputeId, ...rest } = requireShape(part, read.payload['dispute']?.entity)
      return { kind: 'dispute', disputeId, ...partOf(rest), phase }
    }
  }
}

function partOf({ payment_id: paymentId, amount, currency }: Omit<z.output<typeof part>, 'id'>) {
  return { paymentId, amount: BigInt(amount), currency: upper(currency) }
}

function paidFact({ id, amount, currency, created_at: at, method }: z.output<typeof payment>): PaidFact {
  return {
    kind: 'paid',
    paymentId: id,
    amount: BigInt(amount),
    currency: upper(currency),
    paidAt: at == null ? null : at * 1000,
    method: method ?? null,
  }
}

/** Currencies are written in capitals here. */
function upper(currency: string): string {
  return currency.toUpperCase()
}
