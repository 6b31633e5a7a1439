// API keys: `sk-weir-<live|test>-<id>-<secret><checksum>`. The secret is shown once; only its hash is stored.

import { timingSafeEqual } from 'node:crypto'
import { mintSecret, readSecret, secretForm } from './secret-text.ts'

export type KeyMode = 'live' | 'test'

export interface ApiKey {
  /** 12 characters, part of the key itself: the lookup goes by it, the comparison by hash. */
  readonly id: string
  readonly account: string
  readonly name: string
  readonly mode: KeyMode
  /** SHA-256 of the whole key, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** The most the key may spend in one window, picodollars; null for no limit of its own. */
  readonly spendLimit: bigint | null
  readonly limitWindow: LimitWindow
  /** Model ids or `provider/*` patterns; null allows every model. */
  readonly allowedModels: readonly string[] | null
  /** The key's own limits; null leaves it to the gateway's. */
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  /** Address ranges (CIDR) it may be used from; null for any. */
  readonly networks: readonly string[] | null
  /** The id of the first key of its rotations, with which it shares limits; null for a key that replaced none. */
  readonly lineage: string | null
  /** The id of the key that has replaced it. */
  readonly replacedBy: string | null
}

/** The name its limits are counted by: a key and those that replaced it have one limit between them. */
export function lineOf({ id, lineage }: Pick<ApiKey, 'id' | 'lineage'>): string {
  return lineage ?? id
}

export type LimitWindow = 'day' | 'week' | 'month' | 'total'

export type KeyState = 'active' | 'expired' | 'revoked'

/** Whether a key works at `now`, milliseconds since 1970. */
export function keyState(key: Pick<ApiKey, 'revokedAt' | 'expiresAt'>, now: number): KeyState {
  if (key.revokedAt !== null && key.revokedAt <= now) return 'revoked'
  return key.expiresAt !== null && key.expiresAt <= now ? 'expired' : 'active'
}

const form = secretForm('sk-weir', ['live', 'test'])

export interface MintedKey extends Pick<ApiKey, 'id' | 'mode' | 'hash' | 'lastFour'> {
  /** The key itself: to be shown once and forgotten. */
  readonly text: string
}

/** A new key from the system's random source. */
export function mintKey(mode: KeyMode): MintedKey {
  const { id, text } = mintSecret(form, mode)
  return { id, mode, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

export type ReadKey =
  | { readonly kind: 'key'; readonly id: string; readonly mode: KeyMode }
  /** Not of our form at all, or of our form with a checksum that is wrong: a typing error. */
  | { readonly kind: 'malformed'; readonly reason: 'form' | 'checksum' }

/** What a presented key says about itself. The checksum tells a mistyped key without asking the database. */
export function readKey(text: string): ReadKey {
  const read = readSecret(form, text)
  if (typeof read === 'string') return { kind: 'malformed', reason: read }
  return { kind: 'key', id: read.id, mode: read.kind === 'test' ? 'test' : 'live' }
}

/** Whether the presented text is this key, in a time that does not depend on where they differ. */
export function matches(key: Pick<ApiKey, 'hash'>, text: string): boolean {
  const stored = Buffer.from(key.hash)
  const presented = Buffer.from(hashOfKey(text))
  return stored.length === presented.length && timingSafeEqual(stored, presented)
}

export function hashOfKey(text: string): string {
  return Bun.SHA256.hash(text, 'hex')
}
