// Answers of the API for operators, in the formats of ../api/wire.ts.

import type { Credits, SessionView } from '../api/wire.ts'

export interface AccountRow {
  readonly id: string
  readonly email: string
  readonly role: 'user' | 'operator'
  readonly created_at: string
  readonly suspended: boolean
  readonly email_verified: boolean
}

export type AccountWhole = AccountRow & {
  readonly credits: Credits
  readonly access: NonNullable<SessionView['account']>['access']
}

export interface Installation {
  readonly accounts: number
  readonly suspended: number
  readonly calls_in_flight: number
  readonly today: {
    readonly calls: number
    readonly errors: number
    readonly cost: string
    readonly charged: string
  }
  readonly catalog: { readonly date: string; readonly models: number; readonly callable: number }
  readonly providers: number
  readonly store: string
}

export interface ProviderRow {
  readonly id: string
  readonly name: string
  readonly protocol: string
  readonly state: string
  readonly success_rate: number | null
  readonly p50_latency_ms: number | null
  readonly answers: number
  readonly cool_down_until: string | null
  readonly last_error: {
    readonly at: string
    readonly model: string | null
    readonly code: string
    readonly status: number | null
    readonly reason: string | null
  } | null
}

export interface Act {
  readonly id: number
  readonly at: string
  readonly operator: string
  readonly what: string
  readonly subject: string
  readonly before: unknown
  readonly after: unknown
}

export interface Audit {
  readonly ok: boolean
  readonly journal_entries: number
  readonly head_hash: string | null
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string | null }[]
}

export interface CatalogState {
  /** Of the prices. */
  readonly date: string
  readonly models: number
  readonly callable: number
  readonly sources: readonly { readonly name: string; readonly version: string; readonly date: string }[]
  /** Null if the bundled catalog is in use. */
  readonly changes: CatalogChanges | null
  readonly overrides: readonly ({ readonly id: string } & Readonly<Record<string, unknown>>)[]
  readonly unpriced: readonly { readonly id: string; readonly reason: string }[]
}

export interface CatalogChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly {
    readonly id: string
    readonly fields: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>
  }[]
}

export interface Configuration {
  readonly file: string | null
  readonly settings: readonly {
    readonly path: string
    readonly value: unknown
    readonly origin: string
    readonly env: string
  }[]
}

/** A single-use sign-in link; it is not stored. */
export interface SignInLink {
  readonly url: string
  readonly expires_at: string
}

/** A key of the admin API, without its text. */
export interface ManagementKey {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly state: 'active' | 'revoked' | 'expired'
  readonly last4: string
  readonly created_at: string
  readonly expires_at: string | null
  readonly networks: readonly string[] | null
}
