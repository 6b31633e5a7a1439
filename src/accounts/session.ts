// Sessions of the app: `ws-weir-<id>-<secret><checksum>`, shown once, stored as a hash, valid until they end.

import { hashOfKey } from './api-key.ts'
import { mintSecret, readSecret, secretForm } from './secret-text.ts'

export interface Session {
  /** 12 characters, part of the token: used for lookup, while the comparison uses the hash. */
  readonly id: string
  readonly account: string
  /** SHA-256 of the whole token, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly revokedAt: number | null
  /** The browser's user agent; null for a session created on the command line. */
  readonly userAgent: string | null
  /** When it was last used, to the hour; null if never. */
  readonly seenAt: number | null
  /** How long it may be idle, milliseconds; null if it ends at `expiresAt` in any case. */
  readonly idleMs: number | null
  /** Until when its latest proof of identity is valid. */
  readonly elevatedUntil: number | null
}

const form = secretForm('ws-weir', [])

export interface MintedSession extends Pick<Session, 'id' | 'hash' | 'lastFour'> {
  /** The text of the token: shown once, never stored. */
  readonly text: string
}

/** Generates a token from the system's random source. */
export function mintSession(): MintedSession {
  const { id, text } = mintSecret(form)
  return { id, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

/** The id in a presented token; undefined if it is not a session token, or mistyped. */
export function sessionIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}
