// API keys: `sk-weir-<live|test>-<id>-<secret><checksum>`. The secret is shown once; only its hash is stored.

import { timingSafeEqual } from 'node:crypto'
import { mintSecret, readSecret, secretForm } from './secret-text.ts'

export type KeyMode = 'live' | 'test'

/** `own`: those of its own line. `all`: all of the account, for a test key all of test keys. */
export type KeySight = 'own' | 'all'

export interface ApiKey {
  /** 12 characters, part of the key: used for lookup, while the comparison uses the hash. */
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
  /** The most the key may spend per window, picodollars; null without a limit of its own. */
  readonly spendLimit: bigint | null
  readonly limitWindow: LimitWindow
  /** Model ids or `provider/*` patterns; null allows every model. */
  readonly allowedModels: readonly string[] | null
  /** The key's own limits; null for the gateway's. */
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  /** Address ranges (CIDR) it may be used from; null for any. */
  readonly networks: readonly string[] | null
  /** Whose calls and responses it may read. */
  readonly sees: KeySight
  /** The id of the first key of its rotations, whose limits they share; null for a key that replaced none. */
  readonly lineage: string | null
  /** The id of the key that replaced it. */
  readonly replacedBy: string | null
}

/** The name that its limits are counted by, which is the same for a key and its successors. */
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
  /** The text of the key: shown once, never stored. */
  readonly text: string
}

/** Generates a key from the system's random source, but for its id if that is given. */
export function mintKey(mode: KeyMode, given?: string): MintedKey {
  const { id, text } = mintSecret(form, mode, given)
  return { id, mode, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

export type ReadKey =
  | { readonly kind: 'key'; readonly id: string; readonly mode: KeyMode }
  /** Not a key of ours, or one with a wrong checksum: a typing error. */
  | { readonly kind: 'malformed'; readonly reason: 'form' | 'checksum' }

/** Parses a presented key. The checksum detects a mistyped one without a database lookup. */
export function readKey(text: string): ReadKey {
  const read = readSecret(form, text)
  if (typeof read === 'string') return { kind: 'malformed', reason: read }
  return { kind: 'key', id: read.id, mode: read.kind === 'test' ? 'test' : 'live' }
}

const hashBytes = 32
// Every call compares two hashes, and nothing waits in between.
const stored = Buffer.alloc(hashBytes)
const presented = Buffer.alloc(hashBytes)

/** Whether the text is this key, in constant time. */
export function matches({ hash }: Pick<ApiKey, 'hash'>, text: string): boolean {
  if (hash.length !== 2 * hashBytes || stored.write(hash, 'hex') !== hashBytes) return false
  Bun.SHA256.hash(text, presented)
  return timingSafeEqual(stored, presented)
}

export function hashOfKey(text: string): string {
  return Bun.SHA256.hash(text, 'hex')
}
