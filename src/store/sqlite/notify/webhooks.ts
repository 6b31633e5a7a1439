// Webhooks, and what waits for them, on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { ApiKey } from '../../../accounts/account.ts'
import { formatUsd } from '../../../credits/money.ts'
import type {
  AccountEvent,
  Delivery,
  DeliveryAttempt,
  EventType,
  WebhookRow,
  WebhookStore,
} from '../../../notify/webhook.ts'
import { formatMinor, type TopUp } from '../../../payments/top-up.ts'
import type { Row } from '../../schema.ts'
import { inTransaction, numberOrNull, orUnavailable, recordReader, whenNeeded } from '../database/sqlite.ts'

export class SqliteWebhooks implements WebhookStore {
  readonly #database: Database
  readonly #outbox: Outbox
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#outbox = new Outbox(database)
    this.#sql = whenNeeded(() => statements(database))
  }

  addWebhook({ id, account, url, events, sealed, createdAt }: WebhookRow): boolean {
    const { changes } = orUnavailable(() =>
      this.#sql().add.run(id, account, url, JSON.stringify(events), sealed, createdAt),
    )
    return Number(changes) === 1
  }

  findWebhook(id: string): WebhookRow | undefined {
    const row = orUnavailable(() => this.#sql().find.get(id))
    return row ? webhookOf(row) : undefined
  }

  listWebhooks(account: string): readonly WebhookRow[] {
    return orUnavailable(() => this.#sql().list.all(account)).map(webhookOf)
  }

  removeWebhook(account: string, id: string): boolean {
    return inTransaction(this.#database, () => {
      const { changes } = this.#sql().remove.run(id, account)
      if (Number(changes) === 0) return false
      this.#sql().removeDeliveries.run(id)
      return true
    })
  }

  emit(event: AccountEvent): void {
    orUnavailable(() => this.#outbox.add(event))
  }

  lastSource(account: string, subject: string): string | undefined {
    // A semicolon is what follows a colon.
    return orUnavailable(() => this.#sql().lastSource.get(account, `${subject}:`, `${subject};`))?.source
  }

  accountsWanting(types: readonly EventType[], after: string, limit: number): readonly string[] {
    return orUnavailable(() => this.#sql().wanting.all(after, JSON.stringify(types), limit)).map(
      ({ account }) => account,
    )
  }

  claimDue(now: number, leaseUntil: number, busy: readonly string[], limit: number): readonly Delivery[] {
    const some = orUnavailable(() => this.#sql().anyDue.get(now))
    if (!some) return []
    return inTransaction(this.#database, () => {
      const due = this.#sql().due.all({ now, busy: JSON.stringify(busy), limit })
      for (const { id } of due) this.#sql().lease.run(leaseUntil, id)
      return due.map(deliveryOf)
    })
  }

  conclude(id: string, { state, nextAt, attempts }: Pick<Delivery, 'state' | 'nextAt' | 'attempts'>): void {
    orUnavailable(() => this.#sql().conclude.run(state, nextAt, JSON.stringify(attempts), id))
  }

  listDeliveries(webhook: string, limit: number): readonly Delivery[] {
    return orUnavailable(() => this.#sql().deliveries.all(webhook, limit)).map(deliveryOf)
  }

  forgetDeliveries(before: number, limit: number): number {
    return Number(orUnavailable(() => this.#sql().forget.run(before, limit)).changes)
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  return {
    add: write(
      `INSERT INTO webhook (id, account, url, events, sealed, created_at) VALUES (?,?,?,?,?,?)
       ON CONFLICT (id) DO NOTHING`,
    ),
    find: database.prepare<Row<'webhook'>, [string]>('SELECT * FROM webhook WHERE id = ?'),
    list: database.prepare<Row<'webhook'>, [string]>(
      'SELECT * FROM webhook WHERE account = ? ORDER BY created_at, id',
    ),
    remove: write('DELETE FROM webhook WHERE id = ? AND account = ?'),
    removeDeliveries: write('DELETE FROM webhook_delivery WHERE webhook = ?'),
    lastSource: database.prepare<{ source: string }, [string, string, string]>(
      `SELECT source FROM webhook_delivery JOIN webhook ON webhook.id = webhook
       WHERE account = ? AND source >= ? AND source < ? ORDER BY at DESC LIMIT 1`,
    ),
    wanting: database.prepare<{ account: string }, [string, string, number]>(
      `SELECT DISTINCT account FROM webhook WHERE account > ? AND EXISTS (SELECT 1 FROM json_each(events)
         WHERE value IN (SELECT value FROM json_each(?))) ORDER BY account LIMIT ?`,
    ),
    anyDue: database.prepare<{ id: string }, [number]>(
      `SELECT id FROM webhook_delivery WHERE state = 'waiting' AND next_at <= ? LIMIT 1`,
    ),
    // Accounts take turns, and what is being sent for one counts: its hanging addresses do not delay the others.
    due: database.prepare<Row<'webhookDelivery'>, [{ now: number; busy: string; limit: number }]>(
      `WITH busy AS (SELECT id, account FROM webhook WHERE id IN (SELECT value FROM json_each($busy))),
       heads AS (SELECT * FROM (SELECT webhook_delivery.*, webhook.account, row_number() OVER
             (PARTITION BY webhook ORDER BY next_at, webhook_delivery.id) AS place
           FROM webhook_delivery JOIN webhook ON webhook.id = webhook
           WHERE state = 'waiting' AND next_at <= $now AND webhook NOT IN (SELECT id FROM busy))
         WHERE place = 1)
       SELECT id, webhook, type, at, body, state, next_at, attempts FROM heads
       ORDER BY row_number() OVER (PARTITION BY account ORDER BY next_at, id)
         + (SELECT count(*) FROM busy WHERE busy.account = heads.account), next_at LIMIT $limit`,
    ),
    lease: write('UPDATE webhook_delivery SET next_at = ? WHERE id = ?'),
    conclude: write('UPDATE webhook_delivery SET state = ?, next_at = ?, attempts = ? WHERE id = ?'),
    deliveries: database.prepare<Row<'webhookDelivery'>, [string, number]>(
      'SELECT * FROM webhook_delivery WHERE webhook = ? ORDER BY at DESC, id DESC LIMIT ?',
    ),
    forget: write(
      `DELETE FROM webhook_delivery WHERE id IN
         (SELECT id FROM webhook_delivery WHERE state <> 'waiting' AND at < ? LIMIT ?)`,
    ),
  }
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

export class Outbox {
  readonly #add: Statement

  constructor(database: Database) {
    this.#add = database.prepare(
      `INSERT INTO webhook_delivery (id, webhook, type, source, at, body, state, next_at, attempts)
       SELECT 'msg_' || lower(hex(randomblob(12))), webhook.id, $type, $source, $at, $body, 'waiting', $at, '[]'
       FROM webhook WHERE account = $account AND EXISTS (SELECT 1 FROM json_each(events) WHERE value = $type)
       ON CONFLICT (webhook, source) DO NOTHING`,
    ) as Statement
  }

  /** To be called within a transaction: the message is there when what it tells of is. */
  add({ account, type, source, at, data }: AccountEvent): void {
    const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data })
    this.#add.run({ account, type, source, at, body })
  }
}

export function keyCreated(key: ApiKey, replaces: string | null): AccountEvent {
  const { id, account, name, mode, lastFour, createdAt } = key
  return {
    account,
    type: 'key.created',
    source: `key.created:${id}`,
    at: createdAt,
    data: { key: id, name, mode, last4: lastFour, replaces },
  }
}

export function topUpCredited(topUp: TopUp, at: number | null): AccountEvent {
  const { id, account, amount, currency, credit, lot, receipt } = topUp
  return {
    account,
    type: 'top_up.credited',
    source: `top_up.credited:${id}`,
    at: at ?? topUp.createdAt,
    data: {
      top_up: id,
      amount: formatMinor(amount),
      currency,
      credit_usd: formatUsd(credit),
      lot,
      receipt: receipt === null ? null : `WR-${receipt.year}-${receipt.number}`,
    },
  }
}
