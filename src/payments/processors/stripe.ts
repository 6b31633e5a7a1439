// Stripe by its hosted Checkout page, with its own library, which is loaded with the first top-up or message.
// docs.stripe.com/api/checkout/sessions, /webhooks/signature.

import type Stripe from 'stripe'
import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import { unansweredError } from './ask.ts'
import type { Minor } from '../exchange.ts'
import type { PaymentEvent, PaymentFact, RefundNews } from '../news.ts'
import type { Call, PaymentProcessor, ReturnTo } from '../processor.ts'
import { badSignature } from '../signature.ts'
import { factOf, newsOf, refundedOf, sessionSchema } from './stripe-message.ts'
import type { TopUp } from '../top-up.ts'

export interface StripeSettings {
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
  readonly #call: Call
  readonly #now: () => number
  #made: Promise<Stripe> | undefined

  constructor(settings: StripeSettings, call: Call, now: () => number) {
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
                product_data: { name: 'Credit for model usage' },
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
