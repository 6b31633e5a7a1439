// Webhooks, and what waits for them.

import { randomBytes } from 'node:crypto'
import type { ApiKey } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import { formatMinor, formatUsd } from '../../credits/money.ts'
import type {
  AccountEvent,
  Delivery,
  DeliveryAttempt,
  WebhookRow,
  WebhookStore,
} from '../../notify/webhook.ts'
import type { EventType } from '../../notify/events.ts'
import type { TopUp } from '../../payments/top-up.ts'
import type { Row } from '../schema.ts'
import { numberOrNull, recordReader, sql, type Tables, type Work } from './work.ts'

/** Webhooks that are looked at in one statement, for those who want an event. */
const lookedAtOnce = 500

export class SqlWebhooks implements WebhookStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  addWebhook({ id, account, url, events, sealed, createdAt }: WebhookRow): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* webhooks.add.run(id, account, url, JSON.stringify(events), sealed, createdAt)) === 1
    })
  }

  findWebhook(id: string): Awaitable<WebhookRow | undefined> {
    return this.#tables.do(function* () {
      const row = yield* webhooks.find.first(id)
      return row && webhookOf(row)
    })
  }

  listWebhooks(account: string): Awaitable<readonly WebhookRow[]> {
    return this.#tables.do(function* () {
      return (yield* webhooks.list.all(account)).map(webhookOf)
    })
  }

  removeWebhook(account: string, id: string): Awaitable<boolean> {
    return this.#tables.together(function* () {
      if ((yield* webhooks.remove.run(id, account)) === 0) return false
      yield* deliveries.removeOf.run(id)
      return true
    })
  }

  emit(event: AccountEvent): Awaitable<void> {
    return this.#tables.together(() => addToOutbox(event))
  }

  lastSource(account: string, subject: string): Awaitable<string | undefined> {
    return this.#tables.do(function* () {
      // A semicolon is what follows a colon.
      return (yield* deliveries.lastSource.first(account, `${subject}:`, `${subject};`))?.source
    })
  }

  accountsWanting(types: readonly EventType[], after: string, limit: number): Awaitable<readonly string[]> {
    return this.#tables.do(function* () {
      const accounts = new Set<string>()
      for (let [account, id] = [after, afterAnyId]; accounts.size < limit;) {
        const rows = yield* webhooks.page.all(account, id, lookedAtOnce)
        for (const row of rows) {
          if (accounts.size < limit && wants(row, types)) accounts.add(row.account)
        }
        const last = rows.at(-1)
        if (last === undefined || rows.length < lookedAtOnce) break
        account = last.account
        id = last.id
      }
      return [...accounts]
    })
  }

  async claimDue(
    now: number,
    leaseUntil: number,
    busy: readonly string[],
    limit: number,
  ): Promise<readonly Delivery[]> {
    const tables = this.#tables
    const some = await tables.do(() => deliveries.anyDue.first(now))
    if (!some) return []
    return tables.together(function* () {
      const due = yield* deliveries.due.all(now, JSON.stringify(busy), limit)
      for (const { id } of due) yield* deliveries.lease.run(leaseUntil, id)
      return due.map(deliveryOf)
    })
  }

  conclude(
    id: string,
    { state, nextAt, attempts }: Pick<Delivery, 'state' | 'nextAt' | 'attempts'>,
  ): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* deliveries.conclude.run(state, nextAt, JSON.stringify(attempts), id)
    })
  }

  listDeliveries(webhook: string, limit: number): Awaitable<readonly Delivery[]> {
    return this.#tables.do(function* () {
      return (yield* deliveries.list.all(webhook, limit)).map(deliveryOf)
    })
  }

  forgetDeliveries(before: number, limit: number): Awaitable<number> {
    return this.#tables.do(() => deliveries.forget.run(before, limit))
  }
}

/** Greater than the id of any webhook: a page after it begins with the next account. */
const afterAnyId = '\u{10ffff}'

function wants({ events }: { readonly events: string }, types: readonly EventType[]): boolean {
  const wanted = JSON.parse(events) as EventType[]
  return types.some((type) => wanted.includes(type))
}

const webhooks = {
  add: sql(
    `INSERT INTO webhook (id, account, url, events, sealed, created_at) VALUES (?,?,?,?,?,?)
     ON CONFLICT (id) DO NOTHING`,
  ),
  find: sql<Row<'webhook'>>('SELECT * FROM webhook WHERE id = ?'),
  list: sql<Row<'webhook'>>('SELECT * FROM webhook WHERE account = ? ORDER BY created_at, id'),
  page: sql<Row<'webhook', 'id' | 'account' | 'events'>>(
    'SELECT id, account, events FROM webhook WHERE (account, id) > (?, ?) ORDER BY account, id LIMIT ?',
  ),
  remove: sql('DELETE FROM webhook WHERE id = ? AND account = ?'),
}

const deliveries = {
  removeOf: sql('DELETE FROM webhook_delivery WHERE webhook = ?'),
  lastSource: sql<{ source: string }>(
    `SELECT source FROM webhook_delivery JOIN webhook ON webhook.id = webhook_delivery.webhook
     WHERE account = ? AND source >= ? AND source < ? ORDER BY at DESC LIMIT 1`,
  ),
  anyDue: sql<{ id: string }>(
    `SELECT id FROM webhook_delivery WHERE state = 'waiting' AND next_at <= ? LIMIT 1`,
  ),
  // Accounts take turns, and what is being sent for one counts: its hanging addresses do not delay the others.
  due: sql<Row<'webhookDelivery'>>(
    `WITH busy AS (SELECT id, account FROM webhook WHERE id IN LIST(?2)),
     heads AS (SELECT * FROM (SELECT webhook_delivery.*, webhook.account, row_number() OVER
           (PARTITION BY webhook_delivery.webhook ORDER BY next_at, webhook_delivery.id) AS place
         FROM webhook_delivery JOIN webhook ON webhook.id = webhook_delivery.webhook
         WHERE state = 'waiting' AND next_at <= ?1 AND webhook_delivery.webhook NOT IN (SELECT id FROM busy)) AS waiting
       WHERE place = 1)
     SELECT id, webhook, type, at, body, state, next_at, attempts FROM heads
     ORDER BY row_number() OVER (PARTITION BY account ORDER BY next_at, id)
       + (SELECT count(*) FROM busy WHERE busy.account = heads.account), next_at LIMIT ?3`,
  ),
  lease: sql('UPDATE webhook_delivery SET next_at = ? WHERE id = ?'),
  conclude: sql('UPDATE webhook_delivery SET state = ?, next_at = ?, attempts = ? WHERE id = ?'),
  list: sql<Row<'webhookDelivery'>>(
    'SELECT * FROM webhook_delivery WHERE webhook = ? ORDER BY at DESC, id DESC LIMIT ?',
  ),
  forget: sql(
    `DELETE FROM webhook_delivery WHERE id IN
       (SELECT id FROM webhook_delivery WHERE state <> 'waiting' AND at < ? LIMIT ?)`,
  ),
  add: sql(
    `INSERT INTO webhook_delivery (id, webhook, type, source, at, body, state, next_at, attempts)
     VALUES (?,?,?,?,?,?,'waiting',?,'[]') ON CONFLICT (webhook, source) DO NOTHING`,
  ),
}

const webhookOf = recordReader<Row<'webhook'>>()({
  events: (json) => JSON.parse(json) as EventType[],
  created_at: Number,
})

function deliveryOf(row: Row<'webhookDelivery'>): Delivery {
  return {
    id: row.id,
    webhook: row.webhook,
    type: row.type,
    at: Number(row.at),
    body: row.body,
    state: row.state as Delivery['state'],
    nextAt: numberOrNull(row.next_at),
    attempts: JSON.parse(row.attempts) as DeliveryAttempt[],
  }
}

// The queue of messages to webhooks, for those who write what happened in the same transaction.

/** To be done within a transaction: the message is there when what it tells of is. */
export function* addToOutbox({ account, type, source, at, data }: AccountEvent): Work<void> {
  const wanted = (yield* webhooks.list.all(account)).filter((row) => wants(row, [type]))
  if (wanted.length === 0) return
  const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data })
  for (const { id } of wanted)
    yield* deliveries.add.run(`msg_${randomBytes(12).toString('hex')}`, id, type, source, at, body, at)
}

export function keyCreated(key: ApiKey, replaces: string | null): AccountEvent<'key.created'> {
  const { id, account, name, mode, lastFour, createdAt } = key
  return {
    account,
    type: 'key.created',
    source: `key.created:${id}`,
    at: createdAt,
    data: { key: id, name, mode, last4: lastFour, replaces },
  }
}

export function topUpCredited(topUp: TopUp, at: number | null): AccountEvent<'top_up.credited'> {
  const { id, account, amount, currency, credit, lot, receipt } = topUp
  return {
    account,
    type: 'top_up.credited',
    source: `top_up.credited:${id}`,
    at: at ?? topUp.createdAt,
    data: {
      top_up: id,
      amount: formatMinor(amount, currency),
      currency,
      credit_usd: formatUsd(credit),
      plan: topUp.plan?.id ?? null,
      lot,
      receipt: receipt === null ? null : `WR-${receipt.year}-${receipt.number}`,
    },
  }
}
