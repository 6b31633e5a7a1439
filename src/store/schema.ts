// All tables, in the column types of columns.ts. drizzle-kit generates the migrations from them. Statements on the hot
// path are prepared by hand: drizzle's own cost three times as much, and its import alone 15 ms of every start. The
// generator adds what drizzle cannot express: STRICT, WITHOUT ROWID, and the triggers that make the journal
// insert-only.

import { type InferSelectModel, sql } from 'drizzle-orm'
import { type Pool, pools } from '../credits/pool.ts'
import * as columns from './columns.ts'
import { accountTables, paymentTables } from './schema-accounts.ts'
import { costColumns } from './sql/usage-figures.ts'

const poolList = sql.raw(pools.map((pool) => `'${pool}'`).join(','))

/** Takes the column types of one database and returns its tables. */
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
      ...c.shared.journal(),
      /** Transactions are numbered without gaps; (tx, leg) is the order of the hash chain. */
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
    (t) => [
      c.primaryKey({ columns: [...c.shared.chain(t), t.tx, t.leg] }),
      ...c.shared.journalIndexes(t),
      c.check('journal_amount', sql`amount <> 0`),
    ],
  )

  const wallet = c.table(
    'wallet',
    {
      account: c.string('account').notNull(),
      pool: c.string('pool').$type<Pool>().notNull(),
      posted: c.money('posted').notNull(),
      held: c.money('held').notNull(),
      debt: c.money('debt').notNull(),
      version: c.whole('version').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.pool] }),
      c.check('wallet_pool', sql`pool in (${poolList})`),
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
      pool: c.string('pool').$type<Pool>().notNull(),
      granted: c.money('granted').notNull(),
      remaining: c.money('remaining').notNull(),
      pinned: c.money('pinned').notNull(),
      expired: c.money('expired').notNull(),
      refunded: c.money('refunded').notNull(),
      grantedAt: c.time('granted_at').notNull(),
      expiresAt: c.time('expires_at'),
      source: c.string('source').notNull(),
      /** 1 while something remains. Indexed, so that charging a lot does not change the index. */
      live: c.flag('live').notNull(),
    },
    (t) => [
      c.uniqueIndex('lot_source').on(t.source),
      c.partialIndex('lot_live', sql`live = 1`, t.account),
      c.partialIndex('lot_expiry', c.isEnding, t.expiresAt),
      c.index('lot_account').on(t.account, t.pool, t.expiresAt),
      // Every borrowing call has a loan lot: sums over other lots must not read those.
      c.partialIndex('lot_owned', c.beginsOtherwise('id', 'line_'), t.account),
      c.check('lot_pool', sql`pool in (${poolList})`),
      c.check('lot_granted', sql`granted between 1 and 1000000000000000000`),
      c.check('lot_parts', sql`expired >= 0 and refunded >= 0 and remaining + expired + refunded <= granted`),
      c.check('lot_pinned', sql`pinned between 0 and remaining`),
      c.check('lot_live_means', sql`live = ${c.flagOf(sql`remaining > 0`)}`),
    ],
  )

  /** Calls in flight. Small, so that a hold and its end touch few pages; ended calls are in `call`. */
  const openCall = c.table(
    'open_call',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      hold: c.money('hold').notNull(),
      /** `[["<lot>", <amount>], …]` in order of consumption. */
      pins: c.json('pins').notNull(),
      /** Pools in spending order, comma-separated. */
      funding: c.string('funding').notNull(),
      model: c.string('model').notNull(),
      priceVersion: c.string('price_version').notNull(),
      keyLimit: c.money('key_limit'),
      keyWindow: c.time('key_window'),
      /**
       * `{"group": …, "person": …, "budgets": [["<scope>", <start of window>, <end or null>, "<limit>" or null], …]}` of a call
       * with a group's key: the budgets that it holds, and will be charged to. null for any other.
       */
      inGroup: c.json('in_group'),
      owner: c.string('owner').notNull(),
      leaseUntil: c.time('lease_until').notNull(),
      openedAt: c.time('opened_at').notNull(),
      /** The last checkpoint, which recovery charges. */
      progress: c.json('progress'),
      /** What it is for, a JSON object of texts; null without any. */
      tags: c.json('tags'),
    },
    (t) => [c.check('open_call_hold', sql`hold >= 0`), ...c.shared.openCallIndexes(t)],
  )

  /** Ended calls: each row is written once, with everything for its receipt. */
  const call = c.table(
    'call',
    {
      seq: c.sequence('seq').primaryKey(),
      id: c.string('id').notNull(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      state: c.string('state').$type<'settled' | 'voided'>().notNull(),
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
      /** Usage, cost lines and who served it, for the receipt. */
      receipt: c.json('receipt'),
      /** As in `open_call`. */
      inGroup: c.json('in_group'),
      ...c.shared.call(),
      settleTx: c.whole('settle_tx'),
      tags: c.json('tags'),
    },
    (t) => [
      c.uniqueIndex('call_id').on(t.id),
      c.partialUniqueIndex('call_settle_tx', sql`settle_tx is not null`, ...c.shared.chain(t), t.settleTx),
      c.partialIndex('call_upstream', sql`upstream_id is not null`, ...c.blockOfCalls, t.upstreamId),
      c.check('call_state', sql`state in ('settled', 'voided')`),
      c.check('call_cost', sql`cost = charged + absorbed and charged >= 0 and absorbed >= 0`),
      c.check('call_void', sql`state <> 'voided' or (cost = 0 and settle_tx is null)`),
      c.check('call_hold', sql`hold >= 0`),
      ...c.shared.callIndexes(t),
    ],
  )

  /** Attempts without an answer: failed, hedged, or unreconciled because their process died. */
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

  /** What has been spent of a group's budget, or of a member's in it, in one window. */
  const budgetSpend = c.table(
    'budget_spend',
    {
      scope: c.string('scope').notNull(),
      /** When the window began. */
      window: c.time('window').notNull(),
      spent: c.money('spent').notNull(),
      ...c.shared.budgetSpend(),
    },
    (t) => [c.primaryKey({ columns: [t.scope, t.window] }), c.check('budget_spend_spent', sql`spent >= 0`)],
  )

  /** Refunds and corrections by idempotency key, with the result returned. */
  const correction = c.table(
    'correction',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      kind: c.string('kind').$type<'refund' | 'adjust'>().notNull(),
      /** Of a refund, the rest of its lot and what had expired of it; of an adjustment, the amount taken, negative if it added. */
      taken: c.money('taken').notNull(),
      debt: c.money('debt').notNull(),
      at: c.time('at').notNull(),
      /** The lot of a refund, or of one that failed. Null for other adjustments, and in rows older than this column. */
      lot: c.string('lot'),
    },
    (t) => [c.index('correction_lot').on(t.lot)],
  )

  /** How much an account may owe; no row, or zero, without a credit line. */
  const creditLine = c.table(
    'credit_line',
    {
      account: c.string('account').primaryKey(),
      most: c.money('most').notNull(),
      at: c.time('at').notNull(),
      /** What calls have spent of loans over the life of the account. */
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

  /** Processes that have served this data directory: recovery ends the calls of the dead ones. */
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
    budgetSpend,
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
      seq: c.sequence('seq').primaryKey(),
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
      /** Details of the error besides its code. */
      detail: c.json('detail'),
      /** Prompt and answer, if the operator keeps them. */
      contents: c.json('contents'),
      tags: c.json('tags'),
    },
    (t) => [
      // A page is decided in these indexes alone, whatever its filters: reading the rows took ten times as long.
      c.index('request_log_account').on(t.account, t.at, t.seq, t.key, t.model, t.code),
      c.index('request_log_at').on(t.at, t.seq, t.key, t.model, t.code),
      // Of a hundred thousand keys one is a needle in the log.
      c.partialIndex('request_log_key', sql`key is not null`, t.key, t.at, t.seq, t.account, t.model, t.code),
      c.index('request_log_request').on(t.requestId),
      // Failures are rare: without this index, filtering by one code would read the whole log.
      c.partialIndex(
        'request_log_code',
        sql`code is not null`,
        t.account,
        t.code,
        t.at,
        t.seq,
        t.key,
        t.model,
      ),
      // For operators, who ask for the calls of everybody: what is rare among two million is found at once.
      c.index('request_log_model').on(t.model, t.at),
      c.partialIndex('request_log_provider', sql`provider is not null`, t.provider, t.at),
      c.partialIndex('request_log_fault', sql`code is not null`, t.code, t.at),
      c.partialIndex(
        'request_log_outcome',
        sql`code is not null`,
        c.flagOf(sql`provider is null and status < 500`),
        t.at,
      ),
    ],
  )

  /** Which rows of the request log have a tag: written and deleted with them, by triggers. */
  const requestTag = c.table(
    'request_tag',
    {
      tag: c.string('tag').notNull(),
      value: c.string('value').notNull(),
      at: c.time('at').notNull(),
      seq: c.whole('seq').notNull(),
      account: c.string('account').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.tag, t.value, t.at, t.seq] })],
  )

  const signature = c.table(
    'signature',
    {
      /** A key of the account, the provider and the call. */
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
      /** Of the answer; null while the call runs. The body is null if it was too large to keep. */
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

  /** Stored answers. Columns needed for every row come before the contents. */
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
      size: c.whole('size').notNull(),
      /** Empty if the contents are in parts. */
      input: c.json('input').notNull(),
      answer: c.json('answer').notNull(),
      /** The number of parts of each of the two texts; null if they are in this row. */
      parts: c.whole('parts'),
    },
    // Lets the bytes of an account be summed without reading the rows.
    (t) => [c.index('response_expiry').on(t.keptUntil), c.index('response_account').on(t.account, t.size)],
  )

  /** The texts of large responses, written in several commits: one of ten megabytes would block all other calls. */
  const responsePart = c.table(
    'response_part',
    {
      response: c.string('response').notNull(),
      /** Parts of the input, followed by those of the answer. */
      part: c.whole('part').notNull(),
      of: c.string('of').$type<'input' | 'answer'>().notNull(),
      text: c.string('text').notNull(),
    },
    (t) => [c.uniqueIndex('response_part_of').on(t.response, t.part)],
  )

  /** Responses that were asked for in the background: what their clients are told until they are stored, and of their end. */
  const background = c.table(
    'background',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      /** Of the client, with the hash of its request; null without one. */
      idempotency: c.string('idempotency'),
      bodyHash: c.string('body_hash').notNull(),
      status: c.string('status').$type<'running' | 'ended' | 'cancelled'>().notNull(),
      expiresAt: c.time('expires_at').notNull(),
      /** The response as it stood when it was queued. */
      response: c.json('response').notNull(),
      /** The process that makes it, by its name in holds; null in rows that are older than this column. */
      owner: c.string('owner'),
    },
    (t) => [
      c.index('background_account').on(t.account),
      c.partialIndex('background_running', sql`status = 'running'`, t.owner),
      c.index('background_expiry').on(t.expiresAt),
      c.uniqueIndex('background_idempotency').on(t.account, t.idempotency),
    ],
  )

  /** The events of such a response, a line each, in pieces as they came. */
  const backgroundEvents = c.table(
    'background_events',
    {
      response: c.string('response').notNull(),
      /** The sequence number of the first. */
      from: c.whole('from').notNull(),
      lines: c.string('lines').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.response, t.from] })],
  )

  /** Conversations of the Responses protocol, and their items. */
  const itemConversation = c.table(
    'item_conversation',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      key: c.string('key'),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at').notNull(),
      /** Of all its items. */
      bytes: c.whole('bytes').notNull(),
      metadata: c.json('metadata').notNull(),
    },
    (t) => [
      // Lets the bytes of an account be summed without reading the rows.
      c.index('item_conversation_account').on(t.account, t.bytes),
      c.index('item_conversation_expiry').on(t.expiresAt),
    ],
  )
  const itemConversationItem = c.table(
    'item_conversation_item',
    {
      conversation: c.string('conversation').notNull(),
      seq: c.whole('seq').notNull(),
      id: c.string('id').notNull(),
      item: c.json('item').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.conversation, t.seq] })],
  )

  /** The chat's list: a title, and the response that the conversation has reached. */
  const conversation = c.table(
    'conversation',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      title: c.string('title').notNull(),
      model: c.string('model'),
      lastResponse: c.string('last_response'),
      folder: c.string('folder'),
      pinned: c
        .flag('pinned')
        .notNull()
        .default(sql`0`),
      /** Instructions and parameters of its questions. */
      settings: c.json('settings'),
      /** Of the link by which others see it, up to a response, since a time; all null without one. */
      shareToken: c.string('share_token'),
      shareResponse: c.string('share_response'),
      shareAt: c.time('share_at'),
      createdAt: c.time('created_at').notNull(),
      updatedAt: c.time('updated_at').notNull(),
    },
    (t) => [
      c.index('conversation_account').on(t.account, t.updatedAt),
      c.uniqueIndex('conversation_share').on(t.shareToken),
    ],
  )

  /** What a conversation begins with that came from another program. */
  const importedTurns = c.table(
    'imported_turns',
    {
      conversation: c.string('conversation').primaryKey(),
      account: c.string('account').notNull(),
      turns: c.json('turns').notNull(),
    },
    (t) => [c.index('imported_turns_account').on(t.account)],
  )

  /** Texts that an account keeps to ask with again. */
  const savedPrompt = c.table(
    'saved_prompt',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      name: c.string('name').notNull(),
      text: c.string('text').notNull(),
      changedAt: c.time('changed_at').notNull(),
    },
    (t) => [c.index('saved_prompt_account').on(t.account)],
  )

  /** What the gateway notes of its own upkeep, by name: see notify/alarms.ts. */
  const upkeep = c.table('upkeep', {
    name: c.string('name').primaryKey(),
    at: c.time('at').notNull(),
    value: c.json('value').notNull(),
  })

  const usageFigures = () => ({
    calls: c.whole('calls').notNull(),
    /** Calls that were refused, got no answer, or were broken off by the provider. */
    errors: c.whole('errors').notNull(),
    inputTokens: c.whole('input_tokens').notNull(),
    outputTokens: c.whole('output_tokens').notNull(),
    cost: c.money('cost').notNull(),
    /** The part of the cost that the account paid. */
    charged: c.money('charged').notNull(),
    /** Calls that were answered, and how long they took together, milliseconds. None in rows older than these columns. */
    timed: c
      .whole('timed')
      .notNull()
      .default(sql`0`),
    ms: c
      .whole('ms')
      .notNull()
      .default(sql`0`),
  })

  /** The cost of each day of a month, by which a part of it is ranked; null for a day without calls. */
  const costOfDays = () => Object.fromEntries(costColumns.map((name) => [name, c.money(name)]))

  /** Totals per UTC day, written with each call: computing a chart from the log would stall every stream. */
  const usageDay = c.table(
    'usage_day',
    {
      account: c.string('account').notNull(),
      /** The UTC midnight that begins it. */
      day: c.time('day').notNull(),
      /** Empty for the app. */
      key: c.string('key').notNull(),
      /** Empty for refusals of unknown models. */
      model: c.string('model').notNull(),
      ...usageFigures(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.day, t.key, t.model] }),
      c.index('usage_day_day').on(t.day),
    ],
  )

  /** The same for the whole installation: adding up the days of all its keys would take seconds. */
  const usageTotal = c.table(
    'usage_total',
    {
      /** The UTC midnight that begins it. */
      day: c.time('day').notNull(),
      channel: c.string('channel').notNull(),
      /** Empty for refusals of unknown models. */
      model: c.string('model').notNull(),
      ...c.shared.usageTotal(),
      ...usageFigures(),
    },
    (t) => [
      c.primaryKey({ columns: [t.day, t.channel, t.model, ...c.shared.chain(t)] }),
      c.check('usage_total_channel', sql`channel in ('api', 'app')`),
    ],
  )

  /** The months of each key and model, by which keys and accounts are ranked: its days are many times as many rows. */
  const usageMonth = c.table(
    'usage_month',
    {
      /** The UTC midnight that begins it. */
      month: c.time('month').notNull(),
      account: c.string('account').notNull(),
      /** Empty for the app. */
      key: c.string('key').notNull(),
      /** Empty for refusals of unknown models. */
      model: c.string('model').notNull(),
      /** The days with calls: bit 0 for the first of the month. */
      days: c.whole('days').notNull(),
      ...usageFigures(),
      ...costOfDays(),
    },
    (t) => [c.primaryKey({ columns: [t.month, t.account, t.key, t.model] })],
  )

  /** The days of the providers, for the whole installation: of calls that reached one. */
  const usageProvider = c.table(
    'usage_provider',
    {
      day: c.time('day').notNull(),
      provider: c.string('provider').notNull(),
      channel: c.string('channel').notNull(),
      model: c.string('model').notNull(),
      ...c.shared.usageTotal(),
      ...usageFigures(),
    },
    (t) => [c.primaryKey({ columns: [t.day, t.provider, t.channel, t.model, ...c.shared.chain(t)] })],
  )

  /** What calls with a tag have come to, by day: one row for each tag of a call, in the transaction that ends it. */
  const usageTag = c.table(
    'usage_tag',
    {
      account: c.string('account').notNull(),
      /** Its name. */
      tag: c.string('tag').notNull(),
      day: c.time('day').notNull(),
      value: c.string('value').notNull(),
      key: c.string('key').notNull(),
      model: c.string('model').notNull(),
      ...usageFigures(),
    },
    (t) => [
      c.primaryKey({ columns: [t.account, t.tag, t.day, t.value, t.key, t.model] }),
      // For the whole installation. It changes with the first call of a row alone.
      c.index('usage_tag_tag').on(t.tag, t.day, t.value),
    ],
  )

  /** The same for the whole installation, as `usage_total` is of the days. */
  const usageTagTotal = c.table(
    'usage_tag_total',
    {
      tag: c.string('tag').notNull(),
      day: c.time('day').notNull(),
      value: c.string('value').notNull(),
      channel: c.string('channel').notNull(),
      model: c.string('model').notNull(),
      ...c.shared.usageTotal(),
      ...usageFigures(),
    },
    (t) => [c.primaryKey({ columns: [t.tag, t.day, t.value, t.channel, t.model, ...c.shared.chain(t)] })],
  )

  return {
    requestLog,
    requestTag,
    signature,
    idempotency,
    response,
    responsePart,
    background,
    backgroundEvents,
    itemConversation,
    itemConversationItem,
    conversation,
    importedTurns,
    savedPrompt,
    usageDay,
    usageTotal,
    usageMonth,
    usageProvider,
    usageTag,
    usageTagTotal,
    upkeep,
  }
}

const tables = defineTables(columns)
type Tables = typeof tables
type Whole<Name extends keyof Tables> = InferSelectModel<Tables[Name], { dbColumnNames: true }>

/** A row of a table, or some of its columns, as a statement reads it: by the names in the database. */
export type Row<Name extends keyof Tables, Column extends keyof Whole<Name> = keyof Whole<Name>> = Readonly<
  Pick<Whole<Name>, Column>
>

export const { account, act, apiKey, attempt, call, conversation, correction, idempotency } = tables
export const { background, backgroundEvents, creditLine, itemConversation, itemConversationItem } = tables
export const { accountGroup, budgetSpend, groupMember } = tables
export const { identity, journal, keySpend, lot, openCall, passkey, priceVersion } = tables
export const {
  managementKey,
  provisioned,
  mcpServer,
  requestLog,
  response,
  responsePart,
  server,
  session,
  signature,
  importedTurns,
  savedPrompt,
  ticket,
} = tables
export const { paymentEvent, paymentRefund, paymentReversal, subscription, topUp, voucher } = tables
export const { webhook, webhookDelivery } = tables
export const {
  allowance,
  consoleSettings,
  requestTag,
  upkeep,
  usageDay,
  usageMonth,
  usageProvider,
  usageTag,
  usageTagTotal,
  usageTotal,
  wallet,
  welcome,
} = tables

// The tables of webhooks and their pending deliveries.

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
      c.partialIndex('webhook_delivery_due', sql`state = 'waiting'`, t.nextAt),
      c.index('webhook_delivery_over').on(t.at),
      c.check('webhook_delivery_state', sql`state in ('waiting', 'delivered', 'given_up')`),
      c.check('webhook_delivery_next', sql`(state = 'waiting') = (next_at is not null)`),
    ],
  )

  return { webhook, webhookDelivery }
}
