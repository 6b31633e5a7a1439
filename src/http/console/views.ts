// The answers of /console/api, for both the gateway and the console, which takes its types from here. Amounts are
// decimal strings of US dollars, times are ISO 8601. Imports types alone.

import type { Pool } from '../../credits/pool.ts'
import type { EventType } from '../../notify/webhook.ts'
import type { ProcessorId } from '../../payments/news.ts'

export type { EventType, Pool, ProcessorId }

export interface SessionView {
  readonly account: {
    readonly id: string
    readonly email: string
    readonly created_at: string
    readonly email_verified: boolean
    readonly has_password: boolean
    readonly passkeys: number
    /** What lets somebody into the account or acts for it: how many of each work now. */
    readonly access: AccessView
  } | null
  readonly role: 'user' | 'operator' | null
  /** Until when a recent proof of identity is valid. */
  readonly elevated_until: string | null
  /** `password`, `passkey`, `oidc:<label>`. */
  readonly methods: readonly string[]
  readonly sign_up: 'closed' | 'invite' | 'open'
  /** Whether this gateway sends mail; otherwise an operator hands out links. */
  readonly mail: boolean
}

export interface AccessView {
  readonly password: number
  readonly passkeys: number
  readonly identities: number
  readonly sessions: number
  readonly links: number
  readonly keys: number
  readonly management_keys: number
  readonly webhooks: number
  readonly mcp_servers: number
  readonly conversations: number
}

export interface OpenSessionView {
  readonly id: string
  /** Whether it is the session of this request. */
  readonly current: boolean
  readonly created_at: string
  readonly seen_at: string | null
  readonly expires_at: string
  readonly user_agent: string | null
}

export interface PasskeyView {
  readonly id: string
  readonly name: string
  readonly created_at: string
  readonly last_used_at: string | null
  /** Whether it is synchronised beyond one device. */
  readonly backed_up: boolean
}

export interface IdentityView {
  readonly issuer: string
  readonly subject: string
  /** The name of the single sign-on; null for an issuer that is not in the configuration any more. */
  readonly label: string | null
  readonly linked_at: string
}

export interface KeyView {
  readonly id: string
  readonly name: string
  readonly mode: 'live' | 'test'
  readonly state: 'active' | 'expired' | 'revoked'
  readonly last4: string
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  readonly limit_usd: string | null
  readonly limit_window: 'day' | 'week' | 'month' | 'total'
  /** In the current window. */
  readonly spent_usd: string
  /** The lower of its remaining limit and the account's free purchased credit; null in test mode. */
  readonly spendable_usd: string | null
  readonly models: readonly string[] | null
  readonly requests_per_minute: number | null
  readonly tokens_per_minute: number | null
  readonly networks: readonly string[] | null
  /** Whose calls and responses it may read. */
  readonly sees: 'own' | 'all'
  /** The id of the key that replaced it. */
  readonly replaced_by: string | null
}

/** A key that was just created. Its text is shown only here. */
export interface NewKeyView extends KeyView {
  readonly key: string
  /** After a rotation: the id of the replaced key, and until when it works. */
  readonly replaces?: string
  readonly replaced_works_until?: string
}

/** The secret is in the fragment. */
export interface LinkView {
  readonly url: string
  readonly expires_at: string
}

export interface ListView<Item> {
  readonly data: readonly Item[]
}

/** An amount of granted credit. */
export interface LotView {
  readonly id: string
  readonly pool: Pool
  /** What was granted. */
  readonly amount: string
  readonly remaining: string
  readonly held: string
  readonly granted_at: string
  readonly expires_at: string | null
}

export type NoticeView =
  | { readonly kind: 'balance_low'; readonly available: string; readonly threshold: string }
  | {
      readonly kind: 'lot_expiring'
      readonly lot: string
      readonly remaining: string
      readonly expires_at: string
    }

/** The credit of an account. */
export interface CreditsView {
  readonly currency: 'USD'
  readonly held: string
  readonly debt: string
  /** How much the account may owe; null for nothing. */
  readonly credit_line: string | null
  /** What one call could hold now. */
  readonly spendable: { readonly api: string; readonly app: string }
  readonly pools: readonly {
    readonly type: Pool
    readonly remaining: string
    readonly held: string
    readonly api_spendable: boolean
    readonly resets_at: string | null
  }[]
  readonly lots: readonly LotView[]
  readonly notices: readonly NoticeView[]
  readonly total_purchased: string
  readonly total_used: string
}

/** An entry of the ledger. */
export interface HistoryEntryView {
  readonly at: string
  readonly kind: string
  readonly pool: Pool | null
  /** Signed. */
  readonly amount: string
  readonly lot: string | null
  readonly call: string | null
  readonly model: string | null
  readonly note: string | null
}

/** An MCP server that the account has registered. */
export interface McpServerView {
  readonly name: string
  readonly url: string
  /** Names only, never the values. */
  readonly headers: readonly string[]
  readonly authorized: boolean
  readonly needs_authorization: boolean
  readonly created_at: string
  readonly changed_at: string
}
