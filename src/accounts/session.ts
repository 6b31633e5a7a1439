// Sessions of the app: `ws-weir-<id>-<secret><checksum>`, shown once, stored as a hash, valid until they end.

import { hashOfKey } from './api-key.ts'
import { mintSecret, readSecret, secretForm } from './secret-text.ts'

export interface Session {
  /** 12 characters, part of the token itself: the lookup goes by it, the comparison by hash. */
  readonly id: string
  readonly account: string
  /** SHA-256 of the whole token, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly revokedAt: number | null
  /** What the browser said it is; null for a session made on the command line. */
  readonly userAgent: string | null
  /** When it was last used, to the hour; null when never. */
  readonly seenAt: number | null
  /** How long it lasts without being used, milliseconds; null for one that ends at `expiresAt` whatever happens. */
  readonly idleMs: number | null
  /** Until when the proof of identity that it was opened with, or got later, is fresh. */
  readonly elevatedUntil: number | null
}

const form = secretForm('ws-weir', [])

export interface MintedSession extends Pick<Session, 'id' | 'hash' | 'lastFour'> {
  /** The token itself: to be shown once and forgotten. */
  readonly text: string
}

/** A new token from the system's random source. */
export function mintSession(): MintedSession {
  const { id, text } = mintSecret(form)
  return { id, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

/** The id inside a presented token; undefined for what is no token of ours, or mistyped. */
export function sessionIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}
