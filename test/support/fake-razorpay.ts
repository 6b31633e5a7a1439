// Razorpay as its documentation describes it, on a port of this machine: links, payments, refunds and disputes, messages
// with real signatures, and books of its own. It lies on request.

import { createHmac, randomBytes } from 'node:crypto'

export interface FakePayment {
  readonly id: string
  readonly link: FakeLink
  readonly amount: number
  readonly currency: string
  readonly createdAt: number
  refunded: number
}

export interface FakeLink {
  readonly id: string
  readonly reference: string
  readonly amount: number
  readonly currency: string
  status: 'created' | 'paid' | 'expired' | 'cancelled'
  payment: FakePayment | undefined
}

export interface Delivery {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** What it does instead of answering. */
export type Lie = 'html' | 'hang' | 'refuse' | 'amount' | 'currency' | 'empty'

const id = (kind: string) => `${kind}_${randomBytes(7).toString('hex')}`

export class FakeRazorpay {
  readonly keyId: string
  readonly keySecret = 'the-secret-of-the-key'
  webhookSecret = 'the-secret-of-the-webhook'
  readonly links = new Map<string, FakeLink>()
  /** Every request, as `POST /v1/payment_links`. */
  readonly asked: string[] = []
  readonly bodies: Record<string, unknown>[] = []
  lie: Lie | undefined
  readonly #server: ReturnType<typeof Bun.serve>
  readonly #waiting = new Set<(response: Response) => void>()
  readonly #refunds = new Map<string, object>()

  constructor({ mode = 'live' }: { readonly mode?: 'live' | 'test' } = {}) {
    this.keyId = `rzp_${mode}_abc`
    this.#server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => this.answer(request) })
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`
  }

  /** The section `razorpay` of the settings, as YAML. */
  get settings(): string {
    return `{ key_id: ${this.keyId}, key_secret: ${this.keySecret}, webhook_secret: ${this.webhookSecret}, base_url: "${this.baseUrl}" }`
  }

  async stop(): Promise<void> {
    for (const resolve of this.#waiting) resolve(new Response(null, { status: 504 }))
    await this.#server.stop(true)
  }

  /** As its server answers. */
  async answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    this.asked.push(`${request.method} ${pathname}`)
    const basic = Buffer.from(`${this.keyId}:${this.keySecret}`).toString('base64')
    if (request.headers.get('authorization') !== `Basic ${basic}`)
      return refusal(401, 'Authentication failed')
    if (this.lie === 'html') return new Response('<html>maintenance</html>', { status: 200 })
    if (this.lie === 'empty') return new Response('')
    if (this.lie === 'refuse') return refusal(400, 'The amount is too small')
    if (this.lie === 'hang') return new Promise((resolve) => this.#waiting.add(resolve))
    if (request.method === 'POST') {
      const body = (await request.json()) as Record<string, unknown>
      this.bodies.push(body)
      const paymentId = /\/payments\/(\w+)\/refund$/.exec(pathname)?.[1]
      return paymentId === undefined ? this.#create(body) : this.#giveBack(request, paymentId, body)
    }
    const linkId = /\/payment_links\/(plink_\w+)$/.exec(pathname)?.[1]
    if (linkId !== undefined) {
      const link = this.links.get(linkId)
      return link ? Response.json(this.#shown(link)) : refusal(400, 'The id provided does not exist')
    }
    const wanted = searchParams.get('reference_id')
    const found = [...this.links.values()].filter(({ reference }) => reference === wanted)
    return Response.json({ payment_links: found.map((link) => this.#shown(link)) })
  }

  #create(body: Record<string, unknown>): Response {
    const reference = String(body['reference_id'])
    if ([...this.links.values()].some((link) => link.reference === reference))
      return refusal(400, 'payment link with given reference_id already exists')
    const link: FakeLink = {
      id: id('plink'),
      reference,
      amount: Number(body['amount']),
      currency: String(body['currency']),
      status: 'created',
      payment: undefined,
    }
    this.links.set(link.id, link)
    return Response.json(this.#shown(link))
  }

  #giveBack(request: Request, paymentId: string, body: Record<string, unknown>): Response {
    const key = request.headers.get('x-refund-idempotency') ?? ''
    if (!/^[A-Za-z0-9_-]{10,}$/.test(key)) return refusal(400, 'The idempotency key is not valid')
    const payment = [...this.links.values()].find((link) => link.payment?.id === paymentId)?.payment
    if (!payment) return refusal(400, 'The payment does not exist')
    const before = this.#refunds.get(key)
    if (before) return Response.json(before)
    payment.refunded += Number(body['amount'])
    const made = {
      id: id('rfnd'),
      payment_id: paymentId,
      amount: body['amount'],
      currency: payment.currency,
      status: 'processed',
    }
    this.#refunds.set(key, made)
    return Response.json(made)
  }

  #shown(link: FakeLink) {
    const { payment } = link
    return {
      id: link.id,
      short_url: `${this.baseUrl}/pay/${link.id}`,
      reference_id: link.reference,
      amount: link.amount,
      amount_paid: payment?.amount ?? 0,
      currency: this.lie === 'currency' ? 'USD' : link.currency,
      status: link.status,
      payments:
        payment === undefined
          ? null
          : [
              {
                payment_id: payment.id,
                amount: this.lie === 'amount' ? payment.amount * 100 : payment.amount,
                status: 'captured',
                created_at: payment.createdAt,
                method: 'upi',
              },
            ],
    }
  }

  /** Somebody pays a link, whether it still takes money or not: a late capture does not ask. */
  pay(
    linkId: string,
    now = Date.now(),
    paid: Partial<Pick<FakePayment, 'amount' | 'currency'>> = {},
  ): FakePayment {
    const link = this.links.get(linkId)
    if (!link) throw new Error(`there is no link ${linkId}`)
    const { amount = link.amount, currency = link.currency } = paid
    const payment = { id: id('pay'), link, amount, currency, createdAt: Math.floor(now / 1000), refunded: 0 }
    link.status = 'paid'
    link.payment = payment
    return payment
  }

  /** Signs a message as its webhook does. */
  signed(event: string, payload: object, secret = this.webhookSecret): Delivery {
    const body = JSON.stringify({
      entity: 'event',
      account_id: 'acc_1',
      event,
      contains: Object.keys(payload),
      payload,
      created_at: 1_795_000_000,
    })
    return {
      body,
      headers: {
        'content-type': 'application/json',
        'x-razorpay-signature': createHmac('sha256', secret).update(body).digest('hex'),
        'x-razorpay-event-id': id('evt'),
      },
    }
  }

  paid(payment: FakePayment, event = 'payment_link.paid'): Delivery {
    const { link } = payment
    const entities = {
      payment: { entity: paymentEntity(payment) },
      order: { entity: { id: id('order'), receipt: link.reference, status: 'paid', notes: [] } },
      payment_link: { entity: { id: link.id, reference_id: link.reference, status: link.status, notes: [] } },
    }
    if (event === 'payment.captured') return this.signed(event, { payment: entities.payment })
    if (event === 'order.paid')
      return this.signed(event, { payment: entities.payment, order: entities.order })
    return this.signed(event, entities)
  }

  refunded(
    payment: FakePayment,
    amount: number,
    refundId = id('rfnd'),
    event = 'refund.processed',
  ): Delivery {
    const refund = {
      id: refundId,
      payment_id: payment.id,
      amount,
      currency: payment.currency,
      status: 'processed',
    }
    return this.signed(event, { refund: { entity: refund }, payment: { entity: paymentEntity(payment) } })
  }

  disputed(
    payment: FakePayment,
    phase: 'created' | 'won' | 'lost',
    disputeId: string,
    amount = payment.amount,
  ): Delivery {
    const dispute = {
      id: disputeId,
      payment_id: payment.id,
      amount,
      currency: payment.currency,
      status: phase,
    }
    return this.signed(`payment.dispute.${phase}`, {
      payment: { entity: paymentEntity(payment) },
      dispute: { entity: dispute },
    })
  }

  /** The query that a payer's browser comes back with. */
  returned(payment: FakePayment, secret = this.keySecret): string {
    const { link } = payment
    const signed = [link.id, link.reference, link.status, payment.id].join('|')
    return new URLSearchParams({
      razorpay_payment_id: payment.id,
      razorpay_payment_link_id: link.id,
      razorpay_payment_link_reference_id: link.reference,
      razorpay_payment_link_status: link.status,
      razorpay_signature: createHmac('sha256', secret).update(signed).digest('hex'),
    }).toString()
  }
}

function paymentEntity({ id: paymentId, amount, currency, createdAt, link, refunded }: FakePayment) {
  return {
    id: paymentId,
    entity: 'payment',
    amount,
    currency,
    status: 'captured',
    captured: true,
    method: 'upi',
    amount_refunded: refunded,
    notes: { top_up: link.reference },
    created_at: createdAt,
  }
}

function refusal(status: number, description: string): Response {
  return Response.json({ error: { code: 'BAD_REQUEST_ERROR', description } }, { status })
}
