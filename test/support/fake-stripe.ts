// Stripe as far as its Checkout goes, on a port of this machine, with real signatures and books of its own.

import { createHmac, randomBytes } from 'node:crypto'
import type { Delivery } from './fake-razorpay.ts'

export interface FakeSession {
  readonly id: string
  readonly topUp: string
  readonly amount: number
  status: 'open' | 'complete' | 'expired'
  paymentIntent: string | null
  paid: boolean
  refunded: number
}

const id = (kind: string) => `${kind}_${randomBytes(8).toString('hex')}`

export class FakeStripe {
  readonly secretKey = 'sk_live_abc'
  webhookSecret = 'whsec_of_stripe'
  readonly sessions = new Map<string, FakeSession>()
  readonly asked: {
    readonly path: string
    readonly form: URLSearchParams
    readonly idempotencyKey: string | null
  }[] = []
  readonly #server: ReturnType<typeof Bun.serve>
  readonly #answers = new Map<string, { readonly parameters: string; readonly made: object }>()

  constructor() {
    this.#server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => this.#answer(request) })
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`
  }

  get settings(): string {
    return `{ secret_key: ${this.secretKey}, webhook_secret: ${this.webhookSecret}, base_url: "${this.baseUrl}" }`
  }

  async stop(): Promise<void> {
    await this.#server.stop(true)
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname: path } = new URL(request.url)
    if (request.headers.get('authorization') !== `Bearer ${this.secretKey}`)
      return refusal(401, 'Invalid API Key provided')
    const form = new URLSearchParams(await request.text())
    const idempotencyKey = request.headers.get('idempotency-key')
    this.asked.push({ path, form, idempotencyKey })
    if (request.method === 'GET' && path.includes('/payment_intents/')) {
      const session = [...this.sessions.values()].find(({ paymentIntent }) =>
        path.endsWith(`/${paymentIntent}`),
      )
      return session
        ? Response.json({ id: session.paymentIntent, latest_charge: chargeOf(session) })
        : refusal(404, 'No such payment')
    }
    if (request.method === 'GET') {
      const session = this.sessions.get(path.slice(path.lastIndexOf('/') + 1))
      return session ? Response.json(shown(session)) : refusal(404, 'No such checkout session')
    }
    const before = this.#answers.get(idempotencyKey ?? '')
    const parameters = String(form)
    if (before && before.parameters !== parameters)
      return refusal(400, 'Keys for idempotent requests can only be used with the same parameters')
    if (before) return Response.json(before.made)
    const made = path.endsWith('/refunds') ? this.#giveBack(form) : this.#open(form)
    this.#answers.set(idempotencyKey ?? '', { parameters, made })
    return Response.json(made)
  }

  #open(form: URLSearchParams): object {
    const session: FakeSession = {
      id: id('cs_live'),
      topUp: form.get('client_reference_id') ?? '',
      amount: Number(form.get('line_items[0][price_data][unit_amount]')),
      status: 'open',
      paymentIntent: null,
      paid: false,
      refunded: 0,
    }
    this.sessions.set(session.id, session)
    return shown(session)
  }

  #giveBack(form: URLSearchParams): object {
    const session = [...this.sessions.values()].find(
      ({ paymentIntent }) => paymentIntent === form.get('payment_intent'),
    )
    if (session) session.refunded += Number(form.get('amount'))
    return { id: id('re'), object: 'refund', status: 'succeeded' }
  }

  pay(sessionId: string): FakeSession {
    const session = this.sessions.get(sessionId)
    if (!session) throw new Error(`there is no session ${sessionId}`)
    Object.assign(session, {
      status: 'complete',
      paid: true,
      paymentIntent: session.paymentIntent ?? id('pi'),
    })
    return session
  }

  signed(type: string, object: object, { secret = this.webhookSecret, at = Date.now() } = {}): Delivery {
    const created = Math.floor(at / 1000)
    const body = JSON.stringify({ id: id('evt'), object: 'event', type, created, data: { object } })
    const signature = createHmac('sha256', secret).update(`${created}.${body}`).digest('hex')
    return {
      body,
      headers: { 'content-type': 'application/json', 'stripe-signature': `t=${created},v1=${signature}` },
    }
  }

  completed(session: FakeSession, type = 'checkout.session.completed'): Delivery {
    return this.signed(type, shown(session))
  }

  refunded(session: FakeSession, total: number): Delivery {
    return this.signed('charge.refunded', { ...chargeOf(session), amount_refunded: total })
  }

  /** What became of one refund. */
  refundOf(session: FakeSession, refundId: string, amount: number, status: string, type: string): Delivery {
    return this.signed(type, {
      id: refundId,
      object: 'refund',
      amount,
      currency: 'inr',
      status,
      payment_intent: session.paymentIntent,
    })
  }

  disputed(session: FakeSession, status: 'needs_response' | 'won' | 'lost', disputeId: string): Delivery {
    const type = status === 'needs_response' ? 'charge.dispute.created' : 'charge.dispute.closed'
    return this.signed(type, {
      id: disputeId,
      object: 'dispute',
      amount: session.amount,
      currency: 'inr',
      status,
      payment_intent: session.paymentIntent,
    })
  }
}

function chargeOf(session: FakeSession) {
  return {
    id: `ch_${session.paymentIntent}`,
    object: 'charge',
    amount: session.amount,
    amount_refunded: session.refunded,
    currency: 'inr',
    payment_intent: session.paymentIntent,
    metadata: {},
  }
}

function shown(session: FakeSession) {
  return {
    id: session.id,
    object: 'checkout.session',
    url: `https://checkout.stripe.example/${session.id}`,
    client_reference_id: session.topUp,
    metadata: { top_up: session.topUp },
    status: session.status,
    payment_status: session.paid ? 'paid' : 'unpaid',
    amount_total: session.amount,
    currency: 'inr',
    payment_intent: session.paymentIntent,
  }
}

function refusal(status: number, message: string): Response {
  return Response.json({ error: { type: 'invalid_request_error', message } }, { status })
}
