// The tables of accounts, their sign-in, and their keys.

import { sql } from 'drizzle-orm'
import type { KeyMode, KeyPause, LimitWindow, Role } from '../accounts/account.ts'
import type { BudgetWindow, GroupRole } from '../accounts/group.ts'
import type { ProvisionedKind, TicketKind } from '../accounts/identity/identity-store.ts'
import type { SubscriptionState } from '../payments/subscriptions.ts'
import type { EventOutcome, ProcessorId, Reversal, TopUpProblem, TopUpState } from '../payments/top-up.ts'
import type * as columns from './columns.ts'

/** Takes the column kinds of one database and returns the tables of accounts. */
export function accountTables(c: typeof columns) {
  const account = c.table(
    'account',
    {
      id: c.string('id').primaryKey(),
      email: c.string('email').notNull(),
      createdAt: c.time('created_at').notNull(),
      suspended: c.flag('suspended').notNull(),
      /** `user` or `operator`. */
      role: c.string('role').$type<Role>().notNull().default('user'),
      /** The hash of the password with its parameters; null without a password. */
      password: c.string('password'),
      passwordChangedAt: c.time('password_changed_at'),
      /** When the address was proven or vouched for by an operator; null until then. */
      emailVerifiedAt: c.time('email_verified_at'),
      deletedAt: c.time('deleted_at'),
      /** Purchased credit that it has each month; null for none. */
      monthlyCredit: c.money('monthly_credit'),
      ...c.shared.rowid(),
    },
    (t) => [c.uniqueIndex('account_email').on(t.email), ...c.shared.rowidIndex('account_rowid', t)],
  )

  const ofAccount = () =>
    c
      .string('account')
      .notNull()
      .references(() => account.id)
  /** A secret that is shown once: its hash, and what lists show of it. */
  const secret = () => ({
    hash: c.string('hash').notNull(),
    lastFour: c.string('last_four').notNull(),
    createdAt: c.time('created_at').notNull(),
  })

  const apiKey = c.table(
    'api_key',
    {
      id: c.string('id').primaryKey(),
      account: ofAccount(),
      name: c.string('name').notNull(),
      mode: c.string('mode').$type<KeyMode>().notNull(),
      ...secret(),
      expiresAt: c.time('expires_at'),
      revokedAt: c.time('revoked_at'),
      /** Since when it is refused, until it is resumed; null while it is not paused. */
      pausedAt: c.time('paused_at'),
      pausedBy: c.string('paused_by').$type<KeyPause['by']>(),
      spendLimit: c.money('spend_limit'),
      limitWindow: c.string('limit_window').$type<LimitWindow>().notNull(),
      allowedModels: c.json('allowed_models'),
      /** The first key of a chain of rotations, which share its spending limit; null for a key that replaced none. */
      lineage: c.string('lineage'),
      requestsPerMinute: c.whole('requests_per_minute'),
      tokensPerMinute: c.whole('tokens_per_minute'),
      /** Address ranges (CIDR) that the key may be used from, as a JSON list; null for any. */
      networks: c.json('networks'),
      /** Seconds that an answer is given again for where a request says nothing; null for none. */
      cacheTtl: c.whole('cache_ttl'),
      /** The group that it was made in, whose budgets it spends; null for a key of the account alone. */
      group: c.string('group_id'),
      /** Whose calls it may read: `own` for those of its line, `all` for those of the account. */
      sees: c.string('sees').notNull().default('own'),
      /** When the last call with it ended. */
      usedAt: c.time('used_at'),
      ...c.shared.rowid(),
    },
    (t) => [
      c.index('api_key_account').on(t.account, t.createdAt, t.id),
      c.partialIndex('api_key_lineage', sql`lineage is not null`, t.lineage),
      c.index('api_key_last_four').on(t.lastFour),
      c.check('api_key_mode', sql`mode in ('live', 'test')`),
    ],
  )

  /** Teams, projects, customers: they have members and budgets, and may stand in one another. */
  const accountGroup = c.table(
    'account_group',
    {
      id: c.string('id').primaryKey(),
      name: c.string('name').notNull(),
      parent: c.string('parent'),
      budget: c.money('budget'),
      window: c.string('window').$type<BudgetWindow>().notNull(),
      /** IANA name of the time zone that its windows begin in. */
      timezone: c.string('timezone').notNull(),
      /** What each member may spend in a window; null without a limit. */
      memberBudget: c.money('member_budget'),
      allowedModels: c.json('allowed_models'),
      tags: c.json('tags'),
      /** Shares of the budget that are told of, a JSON list. */
      warnAt: c.json('warn_at').notNull(),
      createdAt: c.time('created_at').notNull(),
      deletedAt: c.time('deleted_at'),
      ...c.shared.rowid(),
    },
    (t) => [
      c.partialIndex('account_group_parent', sql`parent is not null`, t.parent),
      ...c.shared.rowidIndex('account_group_rowid', t),
      c.check('account_group_window', sql`${c.columnOf('window')} in ('day', 'week', 'month', 'none')`),
      c.check('account_group_budget', sql`budget >= 0 and member_budget >= 0`),
    ],
  )

  const groupMember = c.table(
    'group_member',
    {
      group: c.string('group_id').notNull(),
      account: ofAccount(),
      role: c.string('role').$type<GroupRole>().notNull(),
      /** In place of the group's `member_budget`; null for that. */
      budget: c.money('budget'),
      joinedAt: c.time('joined_at').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.group, t.account] }),
      c.index('group_member_account').on(t.account),
      c.check('group_member_role', sql`role in ('admin', 'member')`),
      c.check('group_member_budget', sql`budget >= 0`),
    ],
  )

  /** Keys of the admin API. They cannot make calls, and API keys cannot administer. */
  const managementKey = c.table(
    'management_key',
    {
      id: c.string('id').primaryKey(),
      /** The operator that it acts for. */
      account: ofAccount(),
      name: c.string('name').notNull(),
      ...secret(),
      expiresAt: c.time('expires_at'),
      revokedAt: c.time('revoked_at'),
      /** Address ranges (CIDR) that it may be used from, as a JSON list; null for any. */
      networks: c.json('networks'),
      /** What it is for: `scim` for provisioning alone; null for the admin API. */
      scope: c.string('scope'),
    },
    (t) => [
      c.index('management_key_account').on(t.account),
      c.index('management_key_last_four').on(t.lastFour),
    ],
  )

  /** What a directory (SCIM) says of an account or a group, beside what Weir knows of it itself. */
  const provisioned = c.table(
    'provisioned',
    {
      /** Of the account or the group. */
      id: c.string('id').primaryKey(),
      kind: c.string('kind').$type<ProvisionedKind>().notNull(),
      /** Its name in the directory, in small letters, where that is not its address; null otherwise. */
      userName: c.string('user_name'),
      externalId: c.string('external_id'),
      /** Everything else, as it was sent. */
      attributes: c.json('attributes').notNull(),
      changedAt: c.time('changed_at').notNull(),
    },
    (t) => [
      c.partialIndex('provisioned_user_name', sql`user_name is not null`, t.userName),
      c.partialIndex('provisioned_external_id', sql`external_id is not null`, t.externalId),
      c.check('provisioned_kind', sql`kind in ('user', 'group')`),
    ],
  )

  /** MCP servers that an account names in its calls. */
  const mcpServer = c.table(
    'mcp_server',
    {
      account: ofAccount(),
      name: c.string('name').notNull(),
      url: c.string('url').notNull(),
      /** Headers and tokens, encrypted with the operator's master key; null if there are none. */
      sealed: c.bytes('sealed'),
      createdAt: c.time('created_at').notNull(),
      changedAt: c.time('changed_at').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.account, t.name] })],
  )

  const session = c.table(
    'session',
    {
      id: c.string('id').primaryKey(),
      account: ofAccount(),
      ...secret(),
      expiresAt: c.time('expires_at').notNull(),
      revokedAt: c.time('revoked_at'),
      userAgent: c.string('user_agent'),
      /** Last use, to the hour. */
      seenAt: c.time('seen_at'),
      /** How long it may be idle, milliseconds; null if it ends at `expires_at` in any case. */
      idleMs: c.whole('idle_ms'),
      /** Until when a recent proof of identity is valid. */
      elevatedUntil: c.time('elevated_until'),
    },
    (t) => [
      c.index('session_account').on(t.account),
      // For the sweep, which deletes what ended long ago.
      c.index('session_end').on(sql`(CASE WHEN revoked_at IS NULL THEN expires_at ELSE revoked_at END)`),
    ],
  )

  return {
    account,
    apiKey,
    accountGroup,
    groupMember,
    managementKey,
    provisioned,
    mcpServer,
    session,
    ...signInTables(c),
  }
}

function signInTables(c: typeof columns) {
  /** Single-use secrets: links, invitations, resets, verifications, WebAuthn challenges, OIDC states. */
  const ticket = c.table(
    'ticket',
    {
      id: c.string('id').primaryKey(),
      hash: c.string('hash').notNull(),
      kind: c.string('kind').$type<TicketKind>().notNull(),
      account: c.string('account'),
      data: c.json('data').notNull(),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at').notNull(),
      usedAt: c.time('used_at'),
    },
    (t) => [
      c.index('ticket_expiry').on(t.expiresAt),
      c.partialIndex('ticket_account', sql`account is not null`, t.account),
    ],
  )

  /** An account's identity at an OIDC issuer. */
  const identity = c.table(
    'identity',
    {
      issuer: c.string('issuer').notNull(),
      subject: c.string('subject').notNull(),
      account: c.string('account').notNull(),
      createdAt: c.time('created_at').notNull(),
    },
    (t) => [c.primaryKey({ columns: [t.issuer, t.subject] }), c.index('identity_account').on(t.account)],
  )

  const passkey = c.table(
    'passkey',
    {
      /** The credential id, base64url. */
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      publicKey: c.bytes('public_key').notNull(),
      counter: c.whole('counter').notNull(),
      transports: c.json('transports').notNull(),
      name: c.string('name').notNull(),
      backedUp: c.flag('backed_up').notNull(),
      createdAt: c.time('created_at').notNull(),
      lastUsedAt: c.time('last_used_at'),
    },
    (t) => [c.index('passkey_account').on(t.account)],
  )

  /** Welcome claims: one row per address, whatever accounts it has had, so that credit is given once. */
  const welcome = c.table(
    'welcome',
    {
      /** SHA-256 of the normalised address, hex. */
      address: c.string('address').primaryKey(),
      account: c.string('account').notNull(),
      /** The UTC midnight at which the day of the grant began. */
      day: c.time('day').notNull(),
      amount: c.money('amount').notNull(),
    },
    (t) => [c.index('welcome_day').on(t.day), c.check('welcome_amount', sql`amount >= 0`)],
  )

  /** The latest day on which each person had the daily allowance, whatever accounts it has. */
  const allowance = c.table(
    'allowance',
    {
      /** SHA-256 of the normalised address, hex. */
      address: c.string('address').primaryKey(),
      account: c.string('account').notNull(),
      /** The UTC midnight at which the day of the grant began. */
      day: c.time('day').notNull(),
      amount: c.money('amount').notNull(),
      /** What everybody had that day up to this grant: its largest is the sum of the day. */
      given: c.money('given').notNull(),
    },
    (t) => [
      c.index('allowance_day').on(t.day, t.given),
      c.check('allowance_amount', sql`amount > 0 and given >= amount`),
    ],
  )

  /** What operators did. Rows are only ever added. */
  const act = c.table(
    'act',
    {
      seq: c.sequence('seq').primaryKey(),
      at: c.time('at').notNull(),
      /** The id of the operator's account, or `cli:<system user>` for the command line. */
      operator: c.string('operator').notNull(),
      what: c.string('what').notNull(),
      subject: c.string('subject').notNull(),
      before: c.json('before'),
      after: c.json('after'),
    },
    (t) => [c.index('act_subject').on(t.subject, t.seq), c.index('act_operator').on(t.operator, t.seq)],
  )

  /** What operators have changed of the configuration by the API or in the console, revision by revision. */
  const consoleSettings = c.table('console_settings', {
    revision: c.whole('revision').primaryKey(),
    at: c.time('at').notNull(),
    operator: c.string('operator').notNull(),
    /** The revision that taking it back leads to; 0 for none. */
    before: c.whole('before').notNull(),
    settings: c.json('settings').notNull(),
    /** Keys of providers, encrypted with the operator's master key; null if there are none. */
    sealed: c.bytes('sealed'),
  })

  return { ticket, identity, passkey, welcome, allowance, act, consoleSettings }
}

// The tables of payments: top-ups, messages of processors, vouchers, and subscriptions sold elsewhere.

/** Takes the column kinds of one database and returns the tables of payments. */
export function paymentTables(c: typeof columns) {
  const topUp = c.table(
    'top_up',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      /** 1 for a payment in a processor's test mode, which never reaches the ledger. */
      test: c.flag('test').notNull(),
      /** The processor's id of the payment page, and its address. */
      reference: c.string('reference'),
      url: c.string('url'),
      /** In the currency's smallest unit. */
      amount: c.whole('amount').notNull(),
      currency: c.string('currency').notNull(),
      /** Units of the currency per US dollar, in millionths; the day of the rate and its source. */
      rate: c.whole('rate').notNull(),
      rateAsOf: c.string('rate_as_of').notNull(),
      rateSource: c.string('rate_source').notNull(),
      credit: c.money('credit').notNull(),
      /** The plan that is paid for, as JSON; null for purchased credit. */
      plan: c.json('plan'),
      state: c.string('state').$type<TopUpState>().notNull(),
      paymentId: c.string('payment_id'),
      method: c.string('method'),
      lot: c.string('lot'),
      /** The refunded part of the amount. */
      refunded: c.whole('refunded').notNull(),
      problem: c.string('problem').$type<TopUpProblem>(),
      receiptYear: c.whole('receipt_year'),
      receiptNumber: c.whole('receipt_number'),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at').notNull(),
      paidAt: c.time('paid_at'),
      creditedAt: c.time('credited_at'),
      /** When the processor was last asked, and when the sweep asks next; null if it does not ask again. */
      checkedAt: c.time('checked_at'),
      askAt: c.time('ask_at'),
      /** The Idempotency-Key of the request, and the SHA-256 of its content. */
      idempotencyKey: c.string('idempotency_key'),
      idempotencyHash: c.string('idempotency_hash'),
    },
    (t) => [
      c.partialUniqueIndex('top_up_reference', sql`reference is not null`, t.processor, t.reference),
      c.partialUniqueIndex('top_up_payment', sql`payment_id is not null`, t.processor, t.paymentId),
      c.partialUniqueIndex('top_up_lot', sql`lot is not null`, t.lot),
      c.partialUniqueIndex('top_up_receipt', sql`receipt_number is not null`, t.receiptYear, t.receiptNumber),
      c.partialUniqueIndex(
        'top_up_idempotency',
        sql`idempotency_key is not null`,
        t.account,
        t.idempotencyKey,
      ),
      c.index('top_up_account').on(t.account, t.createdAt),
      // Operators page through all of them, by each of these.
      c.index('top_up_created').on(t.createdAt, t.id),
      c.index('top_up_state_of').on(t.state, t.createdAt, t.id),
      c.index('top_up_processor').on(t.processor, t.createdAt, t.id),
      c.partialIndex('top_up_problem', sql`problem is not null`, t.createdAt, t.id),
      c.partialIndex('top_up_ask', sql`ask_at is not null`, t.askAt),
      c.partialIndex('top_up_uncredited', sql`paid_at is not null and credited_at is null`, t.paidAt),
      c.check(
        'top_up_state',
        sql`state in ('open','paid','credited','failed','expired','refunded_part','refunded','disputed')`,
      ),
      c.check('top_up_amount', sql`amount > 0 and rate > 0 and refunded between 0 and amount`),
      c.check('top_up_paid', sql`(payment_id is null) = (paid_at is null)`),
      c.check(
        'top_up_credited',
        sql`credited_at is null or (paid_at is not null
          and ((plan is null and test = ${c.flagOf(sql`lot is null`)}) or (plan is not null and lot is null)))`,
      ),
    ],
  )

  /** Every message of a processor with a valid signature. */
  const paymentEvent = c.table(
    'payment_event',
    {
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      id: c.string('id').notNull(),
      type: c.string('type').notNull(),
      at: c.time('at').notNull(),
      /** SHA-256 of the body, hex: bodies are not kept. */
      hash: c.string('hash').notNull(),
      outcome: c.string('outcome').$type<EventOutcome>().notNull(),
      topUp: c.string('top_up'),
      reference: c.string('reference'),
      paymentId: c.string('payment_id'),
      /** The ids and amounts in it. */
      news: c.json('news').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.processor, t.id] }),
      c.index('payment_event_at').on(t.at),
      c.partialIndex('payment_event_top_up', sql`top_up is not null`, t.topUp),
      c.partialIndex('payment_event_waiting', sql`outcome = 'waiting'`, t.processor, t.paymentId),
      c.partialIndex('payment_event_unfinished', sql`outcome = 'received'`, t.at),
    ],
  )

  /** Refunds and disputes of payments, and refunds that failed. */
  const paymentReversal = c.table(
    'payment_reversal',
    {
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      id: c.string('id').notNull(),
      topUp: c.string('top_up').notNull(),
      kind: c.string('kind').$type<Reversal['kind']>().notNull(),
      amount: c.whole('amount').notNull(),
      credit: c.money('credit').notNull(),
      /** The amount withheld for an open dispute. */
      held: c.money('held').notNull(),
      /** 1 if the ledger has all of it. */
      booked: c.flag('booked').notNull(),
      at: c.time('at').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.processor, t.id] }),
      c.index('payment_reversal_top_up').on(t.topUp),
      c.partialIndex('payment_reversal_unbooked', sql`booked = 0`, t.at),
      c.check('payment_reversal_kind', sql`kind in ('refund', 'failed', 'open', 'won', 'lost')`),
      c.check('payment_reversal_amount', sql`amount >= 0 and credit >= 0 and held >= 0`),
    ],
  )

  /** What operators have given back, by their own ids: the same id never gives back twice. */
  const paymentRefund = c.table(
    'payment_refund',
    {
      topUp: c.string('top_up').notNull(),
      id: c.string('id').notNull(),
      amount: c.whole('amount').notNull(),
      /** When the processor was first asked, and when it said that it has made it. */
      askedAt: c.time('asked_at').notNull(),
      madeAt: c.time('made_at'),
    },
    (t) => [c.primaryKey({ columns: [t.topUp, t.id] }), c.check('payment_refund_amount', sql`amount > 0`)],
  )

  const voucher = c.table(
    'voucher',
    {
      id: c.string('id').primaryKey(),
      /** SHA-256 of the code, hex: the code is shown once. */
      hash: c.string('hash').notNull(),
      amount: c.money('amount').notNull(),
      note: c.string('note').notNull(),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at'),
      revokedAt: c.time('revoked_at'),
      /** The account that has it, from the moment it is redeemed. */
      account: c.string('account'),
      redeemedAt: c.time('redeemed_at'),
      /** The lot it became; null until the ledger has it. */
      lot: c.string('lot'),
    },
    (t) => [
      c.uniqueIndex('voucher_hash').on(t.hash),
      c.index('voucher_created').on(t.createdAt),
      c.partialIndex('voucher_ungranted', sql`redeemed_at is not null and lot is null`, t.redeemedAt),
      c.check('voucher_amount', sql`amount > 0`),
      c.check('voucher_redeemed', sql`(account is null) = (redeemed_at is null)`),
    ],
  )

  /** Periods of subscriptions, those sold elsewhere and those of plans; each is a lot of its own. */
  const subscription = c.table(
    'subscription',
    {
      /** `subscription:<source>:<id>:<from>`: the source of its lot as well. */
      period: c.string('period').primaryKey(),
      source: c.string('source').notNull(),
      subscription: c.string('subscription').notNull(),
      account: c.string('account').notNull(),
      product: c.string('product').notNull(),
      startsAt: c.time('starts_at').notNull(),
      endsAt: c.time('ends_at').notNull(),
      state: c.string('state').$type<SubscriptionState>().notNull(),
      amount: c.money('amount').notNull(),
      lot: c.string('lot'),
      /** What was left of its lot when it was taken back; null unless it was refunded. */
      takenBack: c.money('taken_back'),
      /** Of a plan that names its models: their patterns, as JSON. */
      models: c.json('models'),
      /** When its holder said that it shall not go on, and when they were reminded of its end. */
      cancelledAt: c.time('cancelled_at'),
      remindedAt: c.time('reminded_at'),
      createdAt: c.time('created_at').notNull(),
      updatedAt: c.time('updated_at').notNull(),
    },
    (t) => [
      c.index('subscription_account').on(t.account, t.startsAt),
      c.index('subscription_of').on(t.source, t.subscription, t.startsAt),
      c.partialIndex('subscription_ungranted', sql`lot is null and source = 'weir.plan'`, t.startsAt),
      c.partialIndex('subscription_unreminded', sql`reminded_at is null and source = 'weir.plan'`, t.endsAt),
      c.check(
        'subscription_state',
        sql`state in ('active', 'grace', 'ended', 'refunded', 'refund_reversed')`,
      ),
    ],
  )

  return { topUp, paymentEvent, paymentReversal, paymentRefund, voucher, subscription }
}
