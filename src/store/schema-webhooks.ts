// The tables of webhooks and their pending deliveries.

import { sql } from 'drizzle-orm'
import type * as columns from './columns.ts'

/** Takes the column kinds of one database and returns the tables of webhooks. */
export function webhookTables(c: typeof columns) {
  const webhook = c.table(
    'webhook',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      url: c.string('url').notNull(),
      /** The event types it subscribes to, as a JSON array. */
      events: c.json('events').notNull(),
      /** Its secret, encrypted with the operator's master key. */
      sealed: c.bytes('sealed').notNull(),
      createdAt: c.time('created_at').notNull(),
    },
    (t) => [c.index('webhook_account').on(t.account)],
  )

  const webhookDelivery = c.table(
    'webhook_delivery',
    {
      id: c.string('id').primaryKey(),
      webhook: c.string('webhook').notNull(),
      type: c.string('type').notNull(),
      /** The subject of the event; delivered once to each webhook. */
      source: c.string('source').notNull(),
      at: c.time('at').notNull(),
      body: c.string('body').notNull(),
      state: c.string('state').notNull(),
      /** When the next attempt is due. */
      nextAt: c.time('next_at'),
      attempts: c.json('attempts').notNull(),
    },
    (t) => [
      c.uniqueIndex('webhook_delivery_source').on(t.webhook, t.source),
      c.index('webhook_delivery_of').on(t.webhook, t.at),
      c
        .index('webhook_delivery_due')
        .on(t.nextAt)
        .where(sql`state = 'waiting'`),
      c.index('webhook_delivery_over').on(t.at),
      c.check('webhook_delivery_state', sql`state in ('waiting', 'delivered', 'given_up')`),
      c.check('webhook_delivery_next', sql`(state = 'waiting') = (next_at is not null)`),
    ],
  )

  return { webhook, webhookDelivery }
}
