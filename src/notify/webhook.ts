// Webhooks: addresses that receive events of an account. Each has a secret that signs its messages, following Standard
// Webhooks.

import { randomBytes } from 'node:crypto'
import type { ApiKey, Sealer } from '../accounts/account.ts'
import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'
import { type EventType, eventTypes } from './events.ts'

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
export interface AccountEvent {
  readonly account: string
  readonly type: EventType
  /** The subject of the event; each source is sent once to each webhook. */
  readonly source: string
  readonly at: number
  readonly data: Readonly<Record<string, unknown>>
}

/** A key was frozen at `at`, milliseconds since 1970: reported by whoever has found it, or used from too many networks. */
export function keyFrozen(key: ApiKey, reason: 'leak' | 'networks', at: number): AccountEvent {
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
  emit(event: AccountEvent): Awaitable<void>
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
