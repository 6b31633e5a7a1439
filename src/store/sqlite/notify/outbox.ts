// The queue of messages to webhooks, for those who write what happened in the same transaction.

import type { Database, Statement } from 'bun:sqlite'
import type { ApiKey } from '../../../accounts/account.ts'
import { formatUsd } from '../../../credits/money.ts'
import type { AccountEvent } from '../../../notify/webhook.ts'
import { formatMinor } from '../../../payments/news.ts'
import type { TopUp } from '../../../payments/top-up.ts'

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
