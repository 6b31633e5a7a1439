// Maps rows of accounts, keys and sessions to domain objects.

import type { Account, Role } from '../../../accounts/account.ts'
import type { ApiKey, KeyMode, LimitWindow } from '../../../accounts/api-key.ts'
import type { Session } from '../../../accounts/session.ts'

export interface AccountRow {
  readonly id: string
  readonly email: string
  readonly created_at: bigint
  readonly suspended: bigint
  readonly role: string
  readonly email_verified_at: bigint | null
}

export interface KeyRow {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly mode: string
  readonly hash: string
  readonly last_four: string
  readonly created_at: bigint
  readonly expires_at: bigint | null
  readonly revoked_at: bigint | null
  readonly spend_limit: bigint | null
  readonly limit_window: string
  readonly allowed_models: string | null
  readonly requests_per_minute: bigint | null
  readonly tokens_per_minute: bigint | null
  readonly networks: string | null
  readonly sees: string
  readonly lineage: string | null
  readonly replaced_by: string | null
}

export interface SessionRow {
  readonly id: string
  readonly account: string
  readonly hash: string
  readonly last_four: string
  readonly created_at: bigint
  readonly expires_at: bigint
  readonly revoked_at: bigint | null
  readonly user_agent: string | null
  readonly seen_at: bigint | null
  readonly idle_ms: bigint | null
  readonly elevated_until: bigint | null
}

export function accountOf(row: AccountRow): Account {
  return {
    id: row.id,
    email: row.email,
    createdAt: Number(row.created_at),
    suspended: row.suspended === 1n,
    role: row.role as Role,
    verifiedAt: numberOrNull(row.email_verified_at),
  }
}

export function keyOf(row: KeyRow): ApiKey {
  return {
    id: row.id,
    account: row.account,
    name: row.name,
    mode: row.mode as KeyMode,
    hash: row.hash,
    lastFour: row.last_four,
    createdAt: Number(row.created_at),
    expiresAt: numberOrNull(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    spendLimit: row.spend_limit,
    limitWindow: row.limit_window as LimitWindow,
    allowedModels: listOrNull(row.allowed_models),
    requestsPerMinute: numberOrNull(row.requests_per_minute),
    tokensPerMinute: numberOrNull(row.tokens_per_minute),
    networks: listOrNull(row.networks),
    sees: row.sees === 'all' ? 'all' : 'own',
    lineage: row.lineage,
    replacedBy: row.replaced_by,
  }
}

export function sessionOf(row: SessionRow): Session {
  return {
    id: row.id,
    account: row.account,
    hash: row.hash,
    lastFour: row.last_four,
    createdAt: Number(row.created_at),
    expiresAt: Number(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    userAgent: row.user_agent,
    seenAt: numberOrNull(row.seen_at),
    idleMs: numberOrNull(row.idle_ms),
    elevatedUntil: numberOrNull(row.elevated_until),
  }
}

function listOrNull(json: string | null): string[] | null {
  return json === null ? null : (JSON.parse(json) as string[])
}

export function numberOrNull(value: bigint | null): number | null {
  return value === null ? null : Number(value)
}
