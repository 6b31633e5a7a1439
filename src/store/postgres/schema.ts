// All tables on PostgreSQL: those of ../schema.ts, and what keeps several writing processes apart. drizzle-kit reads
// this file for the migrations; nothing else does.

import { sql } from 'drizzle-orm'
import type * as sqlite from '../columns.ts'
import { defineTables } from '../schema.ts'
import * as columns from './columns.ts'

const forPostgres: unknown = columns
const tables = defineTables(forPostgres as typeof sqlite)

/** A process that writes to the ledger, with the end of its own hash chain. */
export const chain = columns.table('chain', {
  id: columns.sequence('id').primaryKey(),
  owner: columns.string('owner').notNull().unique(),
  /** Counts who has taken the chain: a statement that was sent before does nothing. */
  epoch: columns.whole('epoch').notNull(),
  /** How many groups it has committed. */
  batch: columns.whole('batch').notNull(),
  tx: columns.whole('tx').notNull(),
  head: columns.bytes('head').notNull(),
  /** The ledger's time of its last group. */
  at: columns.time('at').notNull(),
  /** Until when its process counts as alive, by the database's clock; only then may another one take the chain. */
  heartbeatUntil: columns
    .time('heartbeat_until')
    .notNull()
    .default(sql`0`),
  /** The version of its program, and how many migrations that knows: for whoever looks, and whoever changes the tables. */
  program: columns.string('program').notNull().default(''),
  migrations: columns
    .whole('migrations')
    .notNull()
    .default(sql`15`),
  /** What it sells and at which prices, in short: the same text at gateways that sell the same. */
  sells: columns.string('sells').notNull().default(''),
})

/** The catalog that operators have imported, for all gateways: the newest counts, and null is the bundled one. */
export const importedCatalog = columns.table('imported_catalog', {
  revision: columns.whole('revision').primaryKey(),
  at: columns.time('at').notNull(),
  file: columns.json('file'),
})

/** Which process does what is to be done by one alone, and until when, by the database's clock. */
export const leader = columns.table('leader', {
  duty: columns.string('duty').primaryKey(),
  owner: columns.string('owner').notNull(),
  until: columns.time('until').notNull(),
})

/** One row an account: whoever changes its wallet locks this, and counts its version. */
export const walletHead = columns.table('wallet_head', {
  account: columns.string('account').primaryKey(),
  version: columns.whole('version').notNull(),
  /** The ledger's time of its last change: no booking of the account is earlier. */
  at: columns.time('at').notNull(),
})

/** How often somebody has tried something lately: see SignInLimits. */
export const attemptCount = columns.table(
  'attempt_count',
  {
    kind: columns.string('kind').notNull(),
    name: columns.string('name').notNull(),
    count: columns.whole('count').notNull(),
    at: columns.time('at').notNull(),
  },
  (t) => [columns.primaryKey({ columns: [t.kind, t.name] }), columns.index('attempt_count_at').on(t.at)],
)

/** What is left of a rate limit, of all gateways: a bucket that fills by the clock of the database. */
export const rate = columns.table(
  'rate',
  {
    name: columns.string('name').primaryKey(),
    /** Millionths of a request or a token; negative when it was overdrawn. */
    level: columns.whole('level').notNull(),
    perMinute: columns.whole('per_minute').notNull(),
    at: columns.time('at').notNull(),
  },
  (t) => [columns.index('rate_at').on(t.at)],
)

export const { account, act, allowance, apiKey, attempt, call, conversation, correction } = tables
export const { accountGroup, budgetSpend, groupMember, consoleSettings, upkeep } = tables
export const { background, backgroundEvents, creditLine, itemConversation, itemConversationItem } = tables
export const { idempotency, identity, journal, keySpend, lot, managementKey, mcpServer, openCall } = tables
export const { provisioned } = tables
export const { passkey, paymentEvent, paymentRefund, paymentReversal, priceVersion, requestLog } = tables
export const { importedTurns, savedPrompt } = tables
export const { requestTag, response, responsePart, server, session, signature, subscription } = tables
export const { ticket, topUp, usageDay, usageMonth, usageProvider, usageTag, usageTagTotal, usageTotal } =
  tables
export const { voucher, wallet, webhook, webhookDelivery, welcome } = tables
