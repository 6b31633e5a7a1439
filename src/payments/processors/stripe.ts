// Stripe by its hosted Checkout page, with its own library, which is loaded with the first top-up or message.
// docs.stripe.com/api/checkout/sessions, /webhooks/signature.

import type Stripe from 'stripe'
import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import type { Minor } from '../../credits/money.ts'
import type { PaymentEvent, PaymentFact, PaymentNews, RefundNews, TopUp } from '../top-up.ts'
import {
  badSignature,
  nameOf,
  type PaymentProcessor,
  type ProcessorFetch,
  requireShape,
  type ReturnTo,
  unansweredError,
} from '../processor.ts'

interface StripeSettings {
  readonly secretKey: string
  /** Valid secrets, the current one first; without any, messages cannot be verified. */
  readonly webhookSecrets: readonly string[]
  /** With or without the `/v1` that the library appends. */
  readonly baseUrl: string
}

/** Older messages are refused, seconds; replaying a younger one has no effect. */
const toleranceSeconds = 300
const patienceMs = 10_000
/** Stripe's minimum of 30 minutes, plus a margin for clock differences. */
const leastPageLifeMs = 31 * 60_000
/** A page opened within this time ends at a moment counted from the top-up, milliseconds. */
const openedAtOnceMs = 60_000

export class StripeCheckout implements PaymentProcessor {
  readonly id = 'stripe'
  readonly test: boolean
  readonly verify: PaymentProcessor['verify']
  readonly #settings: StripeSettings
  readonly #call: ProcessorFetch
  readonly #now: () => number
  #made: Promise<Stripe> | undefined

  constructor(settings: StripeSettings, call: ProcessorFetch, now: () => number) {
    this.#settings = settings
    this.#call = call
    this.#now = now
    // Anything not marked as live is a test key.
    this.test = !/^[sr]k_live_/.test(settings.secretKey)
    this.verify =
      settings.webhookSecrets.length === 0 ? undefined : (raw, headers) => this.#verify(raw, headers)
  }

  open(topUp: TopUp, { page }: ReturnTo): Promise<{ reference: string; url: string }> {
    const { ends, idempotencyKey } = this.#pageOf(topUp)
    return this.#asking(async (stripe) => {
      const made = await stripe.checkout.sessions.create(
        {
          mode: 'payment',
          client_reference_id: topUp.id,
          metadata: { top_up: topUp.id },
          payment_intent_data: { metadata: { top_up: topUp.id } },
          line_items: [
            {
              quantity: 1,
              price_data: {
                currency: topUp.currency.toLowerCase(),
                unit_amount: Number(topUp.amount),
                product_data: { name: nameOf(topUp) },
              },
            },
          ],
          expires_at: Math.ceil(ends / 1000),
          success_url: page,
          cancel_url: page,
        },
        { idempotencyKey },
      )
      const { id, url } = sessionSchema
        .unwrap()
        .extend({ url: z.url({ protocol: /^https?$/ }) })
        .parse(made)
      return { reference: id, url }
    })
  }

  /**
   * When the page ends, and the key of the request: Stripe refuses a key that comes again with other parameters. A
   * request that is repeated at once has the same of both, and gets the same page; a later one opens a page of its own.
   */
  #pageOf({ id, createdAt }: TopUp): { readonly ends: number; readonly idempotencyKey: string } {
    const now = this.#now()
    if (now - createdAt <= openedAtOnceMs)
      return { ends: createdAt + openedAtOnceMs + leastPageLifeMs, idempotencyKey: id }
    return { ends: now + leastPageLifeMs, idempotencyKey: `${id}-${now}` }
  }

  look(topUp: TopUp): Promise<PaymentFact> {
    const { reference } = topUp
    // A page that was never opened cannot be paid.
    if (reference === null) return Promise.resolve({ kind: 'open' })
    return this.#asking(async (stripe) =>
      factOf(sessionSchema.parse(await stripe.checkout.sessions.retrieve(reference)), null),
    )
  }

  refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined> {
    return this.#asking(async (stripe) => {
      const paymentId = topUp.paymentId ?? ''
      const wanted = { payment_intent: paymentId, amount: Number(amount), metadata: { top_up: topUp.id } }
      const made = await stripe.refunds.create(wanted, { idempotencyKey: id })
      if (made.status !== 'succeeded') return undefined
      // Its messages report the sum of all refunds: mixing that with single refunds would count one twice.
      const paid = await stripe.paymentIntents.retrieve(paymentId, { expand: ['latest_charge'] })
      return refundedOf(paid.latest_charge, paymentId, this.#now())
    })
  }

  async #asking<T>(question: (stripe: Stripe) => Promise<T>): Promise<T> {
    try {
      return await question(await this.#library())
    } catch (error) {
      if (error instanceof GatewayError) throw error
      const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : Number.NaN
      if (!(status >= 400 && status < 500) || status === 429 || status === 409)
        throw unansweredError(this.id, error)
      throw new GatewayError('payment_processor_error', {
        message: `stripe refused the request with ${status}: ${(error as Error).message}`.slice(0, 300),
        lasting: true,
        cause: error,
      })
    }
  }

  #library(): Promise<Stripe> {
    this.#made ??= this.#load()
    return this.#made
  }

  async #load(): Promise<Stripe> {
    const { default: Library } = await import('stripe')
    const { protocol, hostname, port } = new URL(this.#settings.baseUrl)
    // Replaces the library's fetch with the gateway's, which only calls the operator's address.
    const call = (url: RequestInfo | URL, init?: RequestInit) => {
      const headers = Object.fromEntries(new Headers(init?.headers).entries())
      const body = typeof init?.body === 'string' && init.body !== '' ? { body: init.body } : {}
      const method = init?.method === 'GET' ? 'GET' : 'POST'
      return this.#call(String(url), { method, headers, signal: AbortSignal.timeout(patienceMs), ...body })
    }
    return new Library(this.#settings.secretKey, {
      protocol: protocol === 'http:' ? 'http' : 'https',
      host: hostname,
      port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
      httpClient: Library.createFetchHttpClient(call as typeof fetch),
      maxNetworkRetries: 0,
      timeout: patienceMs,
      telemetry: false,
    })
  }

  async #verify(raw: Uint8Array, headers: Headers): Promise<PaymentEvent> {
    const given = headers.get('stripe-signature') ?? ''
    const { webhooks } = await this.#library()
    for (const secret of this.#settings.webhookSecrets) {
      try {
        const verified = await webhooks.constructEventAsync(
          Buffer.from(raw),
          given,
          secret,
          toleranceSeconds,
          undefined,
          this.#now(),
        )
        return newsOf(verified)
      } catch (error) {
        if (error instanceof GatewayError) throw error
        // Also for a valid signature over something that is not JSON: none of it may be used.
        if (!(error instanceof Error)) throw error
      }
    }
    throw badSignature()
  }
}

// What Stripe says of a page and of its payment. Of what it holds only ids, amounts and states are read.
// docs.stripe.com/api/events/types.

const whole = z.int().nonnegative()
/** The id, or the whole object where it was expanded. */
const id = z.union([z.string(), z.object({ id: z.string() }).transform((object) => object.id)])

const sessionSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    client_reference_id: z.string().nullish(),
    metadata: z.record(z.string(), z.string()).nullish(),
    status: z.string().nullish(),
    payment_status: z.string().nullish(),
    amount_total: whole.nullish(),
    currency: z.string().nullish(),
    payment_intent: id.nullish(),
  }),
)
type Session = z.output<typeof sessionSchema>

const chargeSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount_refunded: whole,
    currency: z.string(),
    payment_intent: id.nullish(),
    metadata: z.record(z.string(), z.string()).nullish(),
  }),
)

const refundSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string(),
    status: z.string().nullish(),
    payment_intent: id.nullish(),
  }),
)

const disputeSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string(),
    status: z.string(),
    payment_intent: id.nullish(),
  }),
)

const eventSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    type: z.string().max(100),
    created: whole.optional(),
    data: z.object({ object: z.record(z.string(), z.unknown()) }),
  }),
)

/** A page is paid when its payment is: a page that is complete may still wait for its money. */
function factOf(session: Session, paidAt: number | null): PaymentFact {
  const { payment_status: paid, amount_total: amount, currency } = session
  // A page has at most one payment: if that is not named, the page's id is used.
  const paymentId = session.payment_intent ?? session.id
  if (paid === 'paid' && amount != null && currency != null)
    return {
      kind: 'paid',
      paymentId,
      amount: BigInt(amount),
      currency: currency.toUpperCase(),
      paidAt,
      method: null,
    }
  return session.status === 'expired' ? { kind: 'expired' } : { kind: 'open' }
}

/** The news in a message whose signature is good. Throws `invalid_request` for one that is not as documented. */
function newsOf(verified: unknown): PaymentEvent {
  const { id: eventId, type, created, data } = requireShape(eventSchema, verified)
  const news = objectNews(type, data.object, created === undefined ? null : created * 1000)
  return { id: eventId, type, topUp: null, reference: null, ...news }
}

/** What has been given back of a payment in all, as its charge told it at `at`. Throws `invalid_request`. */
function refundedOf(charge: unknown, paymentId: string, at: number | null): RefundNews {
  const { amount_refunded: total, currency } = requireShape(chargeSchema, charge)
  return {
    kind: 'refund',
    refundId: `${paymentId}:${total}`,
    paymentId,
    amount: BigInt(total),
    currency: currency.toUpperCase(),
    of: 'total',
    ...(at !== null && { at }),
  }
}

type MessageNews = Pick<PaymentEvent, 'news'> & Partial<Pick<PaymentEvent, 'topUp' | 'reference'>>

function objectNews(type: string, object: unknown, at: number | null): MessageNews {
  switch (type) {
    case 'checkout.session.completed':
    case 'checkout.session.async_payment_succeeded':
    case 'checkout.session.async_payment_failed':
    case 'checkout.session.expired':
      return aboutPage(type, requireShape(sessionSchema, object), at)
    case 'charge.refunded': {
      const charge = requireShape(chargeSchema, object)
      const paymentId = charge.payment_intent
      if (paymentId == null) return { news: { kind: 'other' } }
      const news = refundedOf(charge, paymentId, at)
      return { topUp: charge.metadata?.['top_up'] ?? null, news }
    }
    case 'refund.failed':
    case 'refund.updated':
    case 'charge.refund.updated':
      return { news: aboutRefund(requireShape(refundSchema, object), at) }
    case 'charge.dispute.created':
    case 'charge.dispute.closed':
      return { news: aboutDispute(type, requireShape(disputeSchema, object)) }
    default:
      return { news: { kind: 'other' } }
  }
}

function aboutPage(type: string, session: Session, at: number | null): MessageNews {
  const whose = {
    topUp: session.client_reference_id ?? session.metadata?.['top_up'] ?? null,
    reference: session.id,
  }
  if (type === 'checkout.session.async_payment_failed') return { ...whose, news: { kind: 'failed' } }
  const fact = factOf(session, at)
  if (type === 'checkout.session.expired' && fact.kind === 'open')
    return { ...whose, news: { kind: 'expired' } }
  return { ...whose, news: fact }
}

/** A refund that fails or is cancelled leaves the money here. That it was made is told by its charge. */
function aboutRefund(refund: z.output<typeof refundSchema>, at: number | null): PaymentNews {
  const { id: refundId, payment_intent: paymentId, amount, currency, status } = refund
  if (paymentId == null || (status !== 'failed' && status !== 'canceled')) return { kind: 'other' }
  const sum = { amount: BigInt(amount), currency: currency.toUpperCase() }
  return { kind: 'refund-failed', refundId, paymentId, ...sum, of: 'total', ...(at !== null && { at }) }
}

/** A dispute that closes is won or lost; a warning that was only an inquiry is closed without money. */
function aboutDispute(type: string, dispute: z.output<typeof disputeSchema>): PaymentNews {
  const { id: disputeId, payment_intent: paymentId, amount, currency, status } = dispute
  if (paymentId == null || (type === 'charge.dispute.created' && status.startsWith('warning_')))
    return { kind: 'other' }
  const phase = type === 'charge.dispute.created' ? 'open' : status === 'lost' ? 'lost' : 'won'
  return {
    kind: 'dispute',
    disputeId,
    paymentId,
    amount: BigInt(amount),
    currency: currency.toUpperCase(),
    phase,
  }
}
