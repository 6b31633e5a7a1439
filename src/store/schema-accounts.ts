// The tables of accounts, their sign-in, and their keys.

import { sql } from 'drizzle-orm'
import type { KeyMode, KeyPause, LimitWindow, Role } from '../accounts/account.ts'
import type { BudgetWindow, GroupRole } from '../accounts/group.ts'
import type { ProvisionedKind } from '../accounts/provisioning.ts'
import type { TicketKind } from '../accounts/identity/identity-store.ts'
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
