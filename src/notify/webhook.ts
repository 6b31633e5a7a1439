// Webhooks: addresses that receive events of an account. Each has a secret that signs its messages, following Standard
// Webhooks.

import { randomBytes } from 'node:crypto'
import type { ApiKey, Sealer } from '../accounts/account.ts'
import type { Awaitable } from '../async/async.ts'
import { pass } from '../credits/ledger/failpoint.ts'
import { GatewayError } from '../errors/errors.ts'
import { signatureHeaders } from '../payments/processor.ts'
import { type EventData, type EventType, eventTypes } from './events.ts'

export interface WebhookRow {
  readonly id: string
  readonly account: string
  readonly url: string
  readonly events: readonly EventType[]
  /** Its secret, encrypted with the operator's master key. */
  readonly sealed: Uint8Array
  readonly createdAt: number
}

export interface DeliveryAttempt {
  readonly at: number
  /** The status of the answer; null if there was none. */
  readonly status: number | null
  readonly error: string | null
  readonly ms: number
}

export interface Delivery {
  /** The same for every attempt, so that receivers can recognise a repeated message. */
  readonly id: string
  readonly webhook: string
  readonly type: string
  readonly at: number
  /** The JSON that is sent, identical on each attempt. */
  readonly body: string
  readonly state: 'waiting' | 'delivered' | 'given_up'
  /** When the next attempt is due; null if there is none. */
  readonly nextAt: number | null
  readonly attempts: readonly DeliveryAttempt[]
}

/** Something that happened to an account. */
export interface AccountEvent<Type extends EventType = EventType> {
  readonly account: string
  readonly type: Type
  /** The subject of the event; each source is sent once to each webhook. */
  readonly source: string
  readonly at: number
  readonly data: EventData<Type>
}

/** A key was frozen at `at`, milliseconds since 1970: reported by whoever has found it, or used from too many networks. */
export function keyFrozen(key: ApiKey, reason: 'leak' | 'networks', at: number): AccountEvent<'key.frozen'> {
  const { id, account, name, mode, lastFour } = key
  const data = { key: id, name, mode, last4: lastFour, reason }
  return { account, type: 'key.frozen', source: `key.frozen:${id}:${at}`, at, data }
}

export interface WebhookStore {
  /** False if there is one with its id. */
  addWebhook(row: WebhookRow): Awaitable<boolean>
  findWebhook(id: string): Awaitable<WebhookRow | undefined>
  listWebhooks(account: string): Awaitable<readonly WebhookRow[]>
  /** Removes it with its pending deliveries. False if the account has none with this id. */
  removeWebhook(account: string, id: string): Awaitable<boolean>
  /** Queues an event for each webhook of its account that subscribes to it. */
  emit<Type extends EventType>(event: AccountEvent<Type>): Awaitable<void>
  /** The source of the newest event queued for the account, of those that begin with `subject` and a colon. */
  lastSource(account: string, subject: string): Awaitable<string | undefined>
  /** Accounts after `after`, in order of id, with a webhook for one of these types. */
  accountsWanting(types: readonly EventType[], after: string, limit: number): Awaitable<readonly string[]>
  /**
   * Takes what is due at `now`, one message for each webhook that is not in `busy`; accounts with fewer of those come
   * first. Others leave it alone until `leaseUntil`; then it is due again unless it was concluded.
   */
  claimDue(
    now: number,
    leaseUntil: number,
    busy: readonly string[],
    limit: number,
  ): Awaitable<readonly Delivery[]>
  conclude(id: string, outcome: Pick<Delivery, 'state' | 'nextAt' | 'attempts'>): Awaitable<void>
  /** The newest first. */
  listDeliveries(webhook: string, limit: number): Awaitable<readonly Delivery[]>
  /** Deletes concluded messages from before `before`. Returns their number. */
  forgetDeliveries(before: number, limit: number): Awaitable<number>
}

const mostWebhooks = 20
const mostUrlCharacters = 2_048

/** The webhooks of accounts, with their secrets. */
export class Webhooks {
  readonly #store: WebhookStore
  readonly #sealer: Sealer | undefined
  readonly #now: () => number

  /** Without a sealer none can be added. */
  constructor(store: WebhookStore, sealer: Sealer | undefined, now: () => number) {
    this.#store = store
    this.#sealer = sealer
    this.#now = now
  }

  /**
   * Adds a webhook and generates its secret, which is returned only here. A `request` adds one: it may be the id that
   * the client gave to it. Throws `idempotency_conflict` while there is the webhook of the same request,
   * `invalid_request` for an invalid address or too many webhooks, `unsupported_parameter` without a master key.
   */
  async add(
    account: string,
    { url, events }: Pick<WebhookRow, 'url' | 'events'>,
    request: string = randomBytes(16).toString('hex'),
  ): Promise<{ readonly webhook: WebhookRow; readonly secret: string }> {
    requireAddress(url)
    if (events.length === 0) throw invalid('events', 'takes at least one event')
    const id = webhookIdOf(account, request)
    const present = await this.#store.listWebhooks(account)
    const before = present.find((webhook) => webhook.id === id)
    if (before) throw addedBefore(before)
    if (present.length >= mostWebhooks)
      throw invalid('url', `is one too many: an account has at most ${mostWebhooks} webhooks`)
    if (!this.#sealer) {
      throw new GatewayError('unsupported_parameter', {
        message:
          'The secrets of webhooks are kept encrypted, and this gateway has no key for that: its operator sets secrets.master_key.',
      })
    }
    const secret = `whsec_${randomBytes(24).toString('base64')}`
    const webhook: WebhookRow = {
      id,
      account,
      url,
      events: eventTypes.filter((type) => events.includes(type)),
      sealed: this.#sealer.seal(secret, contextOf(account, id)),
      createdAt: this.#now(),
    }
    // The same request has arrived twice at once.
    if (!(await this.#store.addWebhook(webhook))) throw addedBefore(webhook)
    return { webhook, secret }
  }

  async list(account: string): Promise<readonly WebhookRow[]> {
    return this.#store.listWebhooks(account)
  }

  /** A webhook of the account. Throws `not_found`. */
  async find(account: string, id: string): Promise<WebhookRow> {
    const row = await this.#store.findWebhook(id)
    if (row?.account === account) return row
    throw new GatewayError('not_found', { message: 'The account has no such webhook.' })
  }

  async remove(account: string, id: string): Promise<boolean> {
    return this.#store.removeWebhook(account, id)
  }

  async deliveries(account: string, id: string, limit: number): Promise<readonly Delivery[]> {
    await this.find(account, id)
    return this.#store.listDeliveries(id, limit)
  }

  /** Its secret; undefined if the master key that encrypted it has been removed. */
  secretOf({ account, id, sealed }: WebhookRow): string | undefined {
    return this.#sealer?.open(sealed, contextOf(account, id))
  }
}

/** Whether the address may be reached is checked on each request. */
function requireAddress(url: string): void {
  const parsed = URL.parse(url)
  const speaks = parsed?.protocol === 'http:' || parsed?.protocol === 'https:'
  if (!speaks || parsed.username !== '' || parsed.password !== '' || url.length > mostUrlCharacters)
    throw invalid('url', 'takes an address such as https://example.com/hooks/weir')
}

const idLength = 18

/** The id of the webhook that a request of an account adds: the primary key of its table lets it be added once. */
function webhookIdOf(account: string, request: string): string {
  return `wh_${Bun.SHA256.hash(JSON.stringify([account, request]), 'hex').slice(0, idLength)}`
}

function addedBefore({ id, url }: WebhookRow): GatewayError {
  return new GatewayError('idempotency_conflict', {
    message: `This request has added the webhook for ${url} before. Its secret was shown in that answer alone: if that was lost, remove the webhook and add another.`,
    param: 'id',
    metadata: { webhook: id },
  })
}

function contextOf(account: string, id: string): string {
  return `webhook ${account} ${id}`
}

function invalid(param: string, what: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param} ${what}.`, param })
}

// Sends messages to webhooks: signed, with a timeout, retried with growing pauses and finally given up. A message
// stays in the database until its answer is recorded, so a restart loses none; it may then arrive twice with the same
// id.

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
