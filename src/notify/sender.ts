// Sends messages to webhooks: signed, with a timeout, retried with growing pauses and finally given up. A message
// stays in the database until its answer is recorded, so a restart loses none; it may then arrive twice with the same
// id.

import { randomBytes } from 'node:crypto'
import { pass } from '../credits/ledger/failpoint.ts'
import { GatewayError } from '../errors/errors.ts'
import { signatureHeaders } from '../payments/processor.ts'
import type { DeliveryAttempt, Delivery, WebhookRow, Webhooks, WebhookStore } from './webhook.ts'

/** Sends a request to an address chosen by an account, without following redirects. */
export type Post = (
  url: string,
  request: { readonly headers: Headers; readonly body: string; readonly signal: AbortSignal },
) => Promise<Pick<Response, 'status' | 'body'>>

interface SenderParts {
  readonly store: WebhookStore
  readonly webhooks: Webhooks
  readonly post: Post
  readonly timeoutMs: number
  readonly now: () => number
}

const [second, minute, hour] = [1_000, 60_000, 3_600_000] as const

/** The pauses after failed attempts, as recommended by Standard Webhooks; after the last it is given up. */
const pauses = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
]

const mostInFlight = 16
const keptMs = 90 * 24 * hour
const forgottenAtOnce = 500

/** How attempts to deliver a message ended: `failed` ones are tried again. */
export type DeliveryOutcome = 'delivered' | 'failed' | 'given_up'

export class WebhookSender {
  readonly #parts: SenderParts
  /** Attempts since the start. */
  readonly attempts: Record<DeliveryOutcome, number> = { delivered: 0, failed: 0, given_up: 0 }
  readonly #busy = new Set<string>()

  constructor(parts: SenderParts) {
    this.#parts = parts
  }

  /** Sends everything that is due; resolves when all attempts have ended. */
  async sendDue(): Promise<void> {
    const { store, timeoutMs, now } = this.#parts
    const room = mostInFlight - this.#busy.size
    if (room <= 0) return
    // Twice the time of an attempt: by then a dead sender's lease has ended.
    const leaseUntil = now() + 2 * timeoutMs
    const due = await store.claimDue(now(), leaseUntil, [...this.#busy], room)
    await Promise.all(due.map((delivery) => this.#deliver(delivery)))
    if (due.length > 0) await this.sendDue()
  }

  /** Forgets what is long over. */
  async sweep(): Promise<void> {
    const { store, now } = this.#parts
    await store.forgetDeliveries(now() - keptMs, forgottenAtOnce)
  }

  /** Sends a `webhook.test` message now, once, and returns the attempt. */
  async test(webhook: WebhookRow): Promise<DeliveryAttempt> {
    const at = this.#parts.now()
    const id = `msg_${randomBytes(12).toString('hex')}`
    const data = { webhook: webhook.id }
    const body = JSON.stringify({ type: 'webhook.test', timestamp: new Date(at).toISOString(), data })
    return this.#attempt(webhook, id, body)
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { store, now } = this.#parts
    this.#busy.add(delivery.webhook)
    try {
      const webhook = await store.findWebhook(delivery.webhook)
      // It has just been removed with its deliveries.
      if (!webhook) return
      pass('message-claimed', delivery.id)
      const attempt = await this.#attempt(webhook, delivery.id, delivery.body)
      pass('message-answered', delivery.id)
      const attempts = [...delivery.attempts, attempt]
      const pause = pauses[delivery.attempts.length]
      if (isTaken(attempt)) {
        await store.conclude(delivery.id, { state: 'delivered', nextAt: null, attempts })
        this.attempts.delivered++
        // 410 means that the receiver no longer exists.
      } else if (pause === undefined || attempt.status === 410) {
        await store.conclude(delivery.id, { state: 'given_up', nextAt: null, attempts })
        this.attempts.given_up++
      } else {
        await store.conclude(delivery.id, { state: 'waiting', nextAt: now() + pause, attempts })
        this.attempts.failed++
      }
    } finally {
      this.#busy.delete(delivery.webhook)
    }
  }

  async #attempt(webhook: WebhookRow, id: string, body: string): Promise<DeliveryAttempt> {
    const { webhooks, post, timeoutMs, now } = this.#parts
    const at = now()
    const failedAttempt = (error: string): DeliveryAttempt => ({ at, status: null, error, ms: now() - at })
    const secret = webhooks.secretOf(webhook)
    if (secret === undefined)
      return failedAttempt('its secret cannot be read: the master key has changed, add the webhook again')
    const headers = new Headers({
      'content-type': 'application/json',
      'user-agent': 'Weir',
      ...signatureHeaders(secret, id, at, body),
    })
    try {
      const { status, body: answer } = await post(webhook.url, {
        headers,
        body,
        signal: AbortSignal.timeout(timeoutMs),
      })
      // Only the status matters; the body is not read.
      await answer?.cancel().catch(() => undefined)
      const error = status >= 200 && status < 300 ? null : `the answer was ${status}`
      return { at, status, error, ms: now() - at }
    } catch (error) {
      if (error instanceof GatewayError) return failedAttempt(error.message)
      const late = error instanceof Error && error.name === 'TimeoutError'
      return failedAttempt(late ? `no answer within ${timeoutMs} ms` : 'no connection')
    }
  }
}

function isTaken({ error }: DeliveryAttempt): boolean {
  return error === null
}
