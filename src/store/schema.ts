// Every table, in the column kinds of columns.ts. drizzle-kit makes the migrations from it; the statements of the hot
// path are prepared by hand (drizzle's own cost three times as much, and its import alone 15 ms of every start).
// The generator adds what drizzle cannot say: STRICT, WITHOUT ROWID, and the triggers that make the journal insert-only.

import { sql } from 'drizzle-orm'
import * as columns from './columns.ts'
import { accountTables } from './schema-accounts.ts'
import { paymentTables } from './schema-payments.ts'
import { webhookTables } from './schema-webhooks.ts'

const pools = sql.raw(`'purchased','welcome','daily','subscription'`)

/** Takes the column kinds of one database and returns its tables. */
export function defineTables(c: typeof columns) {
  return {
    ...ledgerTables(c),
    ...accountTables(c),
    ...paymentTables(c),
    ...webhookTables(c),
    ...recordTables(c),
  }
}

function ledgerTables(c: typeof columns) {
  const journal = c.table(
    'journal',
    {
      /** Transactions count up without gaps; (tx, leg) is the order of the hash chain. */
      tx: c.whole('tx').notNull(),
      leg: c.whole('leg').notNull(),
      kind: c.string('kind').notNull(),
      /** `wallet:<account>:<pool>`, `provider:<name>`, `grant`, `cash:<processor>`, `expired`, `refund`, `absorbed`. */
      account: c.string('account').notNull(),
      lot: c.string('lot'),
      amount: c.money('amount').notNull(),
      at: c.time('at').notNull(),
      prevHash: c.bytes('prev_hash').notNull(),
      hash: c.bytes('hash').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.tx, t.leg] }), c.check('journal_amount', sql`amount <> 0`)],
  )

  const wallet = c.table(
    'wallet',
    {
      account: c.string('account').notNull(),
      pool: c.string('pool').notNull(),
      posted: c.money('posted').notNull(),
      held: c.money('held').notNull(),
      debt: c.money('debt').notNull(),
      version: c.whole('version').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.pool] }),
      c.check('wallet_pool', sql`pool in (${pools})`),
      c.check('wallet_held', sql`held between 0 and posted`),
      c.check('wallet_posted', sql`posted between 0 and 4000000000000000000`),
      c.check('wallet_debt', sql`debt >= 0`),
    ],
  )

  const lot = c.table(
    'lot',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      pool: c.string('pool').notNull(),
      granted: c.money('granted').notNull(),
      remaining: c.money('remaining').notNull(),
      pinned: c.money('pinned').notNull(),
      expired: c.money('expired').notNull(),
      refunded: c.money('refunded').notNull(),
      grantedAt: c.time('granted_at').notNull(),
      expiresAt: c.time('expires_at'),
      source: c.string('source').notNull(),
      /** 1 while something remains. The indexes go by it, so that charging a lot does not touch them. */
      live: c.flag('live').notNull(),
    },
    (t) => [
      c.uniqueIndex('lot_source').on(t.source),
      c
        .index('lot_live')
        .on(t.account)
        .where(sql`live = 1`),
      c
        .index('lot_expiry')
        .on(t.expiresAt)
        .where(sql`live = 1`),
      c.index('lot_account').on(t.account, t.pool, t.expiresAt),
      // Loans are a lot for each call: what adds up all other lots must not read them.
      c
        .index('lot_owned')
        .on(t.account)
        .where(sql`id not glob 'line_*'`),
      c.check('lot_pool', sql`pool in (${pools})`),
      c.check('lot_granted', sql`granted between 1 and 1000000000000000000`),
      c.check('lot_parts', sql`expired >= 0 and refunded >= 0 and remaining + expired + refunded <= granted`),
      c.check('lot_pinned', sql`pinned between 0 and remaining`),
      c.check('lot_live_means', sql`live = (remaining > 0)`),
    ],
  )

  /** Calls in flight. Small, so that a hold and its end touch few pages; what has ended is in `call`. */
  const openCall = c.table(
    'open_call',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      hold: c.money('hold').notNull(),
      /** `[["<lot>", <amount>], …]` in the order of consumption. */
      pins: c.json('pins').notNull(),
      /** Pools, comma-separated, in the order of spending. */
      funding: c.string('funding').notNull(),
      model: c.string('model').notNull(),
      priceVersion: c.string('price_version').notNull(),
      keyLimit: c.money('key_limit'),
      keyWindow: c.time('key_window'),
      owner: c.string('owner').notNull(),
      leaseUntil: c.time('lease_until').notNull(),
      openedAt: c.time('opened_at').notNull(),
      /** The last checkpoint: what recovery charges. */
      progress: c.json('progress'),
    },
    () => [c.check('open_call_hold', sql`hold >= 0`)],
  )

  /** Calls that have ended: each row is written once, with everything its receipt tells. */
  const call = c.table(
    'call',
    {
      seq: c.whole('seq').primaryKey(),
      id: c.string('id').notNull(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      state: c.string('state').notNull(),
      hold: c.money('hold').notNull(),
      funding: c.string('funding').notNull(),
      model: c.string('model').notNull(),
      priceVersion: c.string('price_version').notNull(),
      owner: c.string('owner').notNull(),
      openedAt: c.time('opened_at').notNull(),
      endedAt: c.time('ended_at').notNull(),
      ending: c.string('ending').notNull(),
      cost: c.money('cost').notNull(),
      charged: c.money('charged').notNull(),
      absorbed: c.money('absorbed').notNull(),
      estimated: c.flag('estimated').notNull(),
      upstreamId: c.string('upstream_id'),
      /** Usage, cost lines and who served: the receipt. */
      receipt: c.json('receipt'),
      settleTx: c.whole('settle_tx'),
    },
    (t) => [
      c.uniqueIndex('call_id').on(t.id),
      c
        .uniqueIndex('call_settle_tx')
        .on(t.settleTx)
        .where(sql`settle_tx is not null`),
      // Providers' ids come in no order. In blocks of 512 calls, seven pages, the ids of a group share pages that are at
      // hand; over all calls each would change a page of its own, which cost more than all the rest of a settle.
      c
        .index('call_upstream')
        .on(sql`seq >> 9`, t.upstreamId)
        .where(sql`upstream_id is not null`),
      c.check('call_state', sql`state in ('settled', 'voided')`),
      c.check('call_cost', sql`cost = charged + absorbed and charged >= 0 and absorbed >= 0`),
      c.check('call_void', sql`state <> 'voided' or (cost = 0 and settle_tx is null)`),
      c.check('call_hold', sql`hold >= 0`),
    ],
  )

  /** Attempts that were not the answer: failed, hedged, or unreconciled since their process died. */
  const attempt = c.table(
    'attempt',
    {
      call: c.string('call').notNull(),
      n: c.whole('n').notNull(),
      provider: c.string('provider').notNull(),
      upstreamId: c.string('upstream_id'),
      state: c.string('state').notNull(),
      code: c.string('code'),
      estCost: c.money('est_cost').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.call, t.n] }),
      c.check('attempt_state', sql`state in ('failed', 'unreconciled')`),
    ],
  )

  /** What a key has spent on one UTC day. */
  const keySpend = c.table(
    'key_spend',
    { key: c.string('key').notNull(), day: c.time('day').notNull(), spent: c.money('spent').notNull() },
    (t) => [c.primaryKey({ columns: [t.key, t.day] }), c.check('key_spend_spent', sql`spent >= 0`)],
  )

  /** Refunds and corrections by their idempotency key, with the answer that was given. */
  const correction = c.table(
    'correction',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      kind: c.string('kind').notNull(),
      /** Of a refund what was left of its lot, of an adjustment what it took: negative where it added. */
      taken: c.money('taken').notNull(),
      debt: c.money('debt').notNull(),
      at: c.time('at').notNull(),
      /** The lot of a refund. Null for an adjustment, and for what was refunded before lots were noted. */
      lot: c.string('lot'),
    },
    (t) => [c.index('correction_lot').on(t.lot)],
  )

  /** How much an account may owe; those that may owe nothing have no row, or a zero. */
  const creditLine = c.table(
    'credit_line',
    {
      account: c.string('account').primaryKey(),
      most: c.money('most').notNull(),
      at: c.time('at').notNull(),
      /** What calls have spent of loans, over the whole life of the account. */
      spent: c
        .money('spent')
        .notNull()
        .default(sql`0`),
    },
    () => [c.check('credit_line_most', sql`most between 0 and 4000000000000000000`)],
  )

  const priceVersion = c.table('price_version', {
    version: c.string('version').primaryKey(),
    model: c.string('model').notNull(),
    price: c.json('price').notNull(),
    recordedAt: c.time('recorded_at').notNull(),
  })

  /** The processes that have served this data directory: recovery ends the calls of those that are gone. */
  const server = c.table('server', {
    owner: c.string('owner').primaryKey(),
    startedAt: c.time('started_at').notNull(),
  })

  return {
    journal,
    wallet,
    lot,
    openCall,
    call,
    attempt,
    keySpend,
    correction,
    creditLine,
    priceVersion,
    server,
  }
}

function recordTables(c: typeof columns) {
  const requestLog = c.table(
    'request_log',
    {
      seq: c.whole('seq').primaryKey(),
      requestId: c.string('request_id').notNull(),
      at: c.time('at').notNull(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      model: c.string('model').notNull(),
      provider: c.string('provider'),
      stream: c.flag('stream').notNull(),
      status: c.whole('status').notNull(),
      code: c.string('code'),
      ending: c.string('ending'),
      promptTokens: c.whole('prompt_tokens').notNull(),
      completionTokens: c.whole('completion_tokens').notNull(),
      cost: c.money('cost').notNull(),
      attempts: c.whole('attempts').notNull(),
      firstByteMs: c.whole('first_byte_ms'),
      totalMs: c.whole('total_ms').notNull(),
      /** What the error said beside its code. */
      detail: c.json('detail'),
      /** The words of request and answer, where the operator keeps them. */
      contents: c.json('contents'),
    },
    (t) => [
      c.index('request_log_account').on(t.account, t.at),
      c.index('request_log_at').on(t.at),
      c.index('request_log_request').on(t.requestId),
      // Failures are few: without this a look for one code would read the whole log.
      c
        .index('request_log_code')
        .on(t.account, t.code, t.at)
        .where(sql`code is not null`),
    ],
  )

  const signature = c.table(
    'signature',
    {
      toolCall: c.string('tool_call').primaryKey(),
      signature: c.string('signature').notNull(),
      expiresAt: c.time('expires_at').notNull(),
    },
    (t) => [c.index('signature_expiry').on(t.expiresAt)],
  )

  const idempotency = c.table(
    'idempotency',
    {
      account: c.string('account').notNull(),
      key: c.string('key').notNull(),
      bodyHash: c.bytes('body_hash').notNull(),
      call: c.string('call').notNull(),
      /** The process that runs the call. */
      owner: c.string('owner').notNull().default(''),
      /** Of the answer; null while the call runs. The body is null where it was too large to keep. */
      status: c.whole('status'),
      headers: c.json('headers'),
      answer: c.bytes('answer'),
      expiresAt: c.time('expires_at').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.key] }),
      c.uniqueIndex('idempotency_call').on(t.call),
      c.index('idempotency_expiry').on(t.expiresAt),
    ],
  )

  /** Answers that clients may come back for. What is asked of every row stands before the contents. */
  const response = c.table(
    'response',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      call: c.string('call').notNull(),
      previous: c.string('previous'),
      expiresAt: c.time('expires_at').notNull(),
      /** Until when a later response may continue it. */
      keptUntil: c.time('kept_until').notNull(),
      /** Of the contents. */
      size: c.whole('size').notNull(),
      /** Empty where the contents lie in parts. */
      input: c.json('input').notNull(),
      answer: c.json('answer').notNull(),
      /** How many parts the two texts lie in, one behind the other; null where they lie here. */
      parts: c.whole('parts'),
    },
    // An account's bytes are added up without a look at what they are of.
    (t) => [c.index('response_expiry').on(t.keptUntil), c.index('response_account').on(t.account, t.size)],
  )

  /** The texts of large responses, written in several commits: one of ten megabytes would hold up all other calls. */
  const responsePart = c.table(
    'response_part',
    {
      response: c.string('response').notNull(),
      /** Parts of the input, and behind them those of the answer. */
      part: c.whole('part').notNull(),
      of: c.string('of').notNull(),
      text: c.string('text').notNull(),
    },
    (t) => [c.uniqueIndex('response_part_of').on(t.response, t.part)],
  )

  /** What the chat lists: a title, and the response that a conversation stands at. */
  const conversation = c.table(
    'conversation',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      title: c.string('title').notNull(),
      model: c.string('model'),
      lastResponse: c.string('last_response'),
      createdAt: c.time('created_at').notNull(),
      updatedAt: c.time('updated_at').notNull(),
    },
    (t) => [c.index('conversation_account').on(t.account, t.updatedAt)],
  )

  /** What each UTC day came to, written with the calls themselves: a chart from the log would stall every stream. */
  const usageDay = c.table(
    'usage_day',
    {
      account: c.string('account').notNull(),
      /** The UTC midnight at which it began. */
      day: c.time('day').notNull(),
      /** Empty for the app. */
      key: c.string('key').notNull(),
      /** Empty for refusals of models that there are not. */
      model: c.string('model').notNull(),
      calls: c.whole('calls').notNull(),
      /** Of the calls: refused, without an answer, or broken off by the provider. */
      errors: c.whole('errors').notNull(),
      inputTokens: c.whole('input_tokens').notNull(),
      outputTokens: c.whole('output_tokens').notNull(),
      cost: c.money('cost').notNull(),
      /** What of the cost the account has paid. */
      charged: c.money('charged').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.day, t.key, t.model] }),
      c.index('usage_day_day').on(t.day),
    ],
  )

  return { requestLog, signature, idempotency, response, responsePart, conversation, usageDay }
}

const tables = defineTables(columns)

export const { account, act, apiKey, attempt, call, conversation, correction, idempotency } = tables
export const { creditLine } = tables
export const { identity, journal, keySpend, lot, openCall, passkey, priceVersion } = tables
export const {
  managementKey,
  mcpServer,
  requestLog,
  response,
  responsePart,
  server,
  session,
  signature,
  ticket,
} = tables
export const { paymentEvent, paymentRefund, paymentReversal, subscription, topUp, voucher } = tables
export const { webhook, webhookDelivery } = tables
export const { usageDay, wallet, welcome } = tables
