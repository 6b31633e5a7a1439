// The answers of /console/api, for both the gateway and the console. Imports nothing: the console takes its types from
// here.

export interface SessionView {
  readonly account: {
    readonly id: string
    readonly email: string
    readonly created_at: string
    readonly email_verified: boolean
    readonly has_password: boolean
    readonly passkeys: number
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
