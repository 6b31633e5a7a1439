// API keys: `sk-weir-<live|test>-<id>-<secret><checksum>`. The secret is shown once; only its hash is stored.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'

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
}

export type LimitWindow = 'day' | 'week' | 'month' | 'total'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const idLength = 12
/** 33 characters of 62 are 196 bits. */
const secretLength = 33
const checksumLength = 6

const keyPattern = new RegExp(
  `^sk-weir-(live|test)-([0-9A-Za-z]{${idLength}})-([0-9A-Za-z]{${secretLength}})([0-9A-Za-z]{${checksumLength}})$`,
)

export interface MintedKey extends Pick<ApiKey, 'id' | 'mode' | 'hash' | 'lastFour'> {
  /** The key itself: to be shown once and forgotten. */
  readonly text: string
}

/** A new key from the system's random source. */
export function mintKey(mode: KeyMode): MintedKey {
  const id = randomText(idLength)
  const body = `sk-weir-${mode}-${id}-${randomText(secretLength)}`
  const text = body + checksumOf(body)
  return { id, mode, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

export type ReadKey =
  | { readonly kind: 'key'; readonly id: string; readonly mode: KeyMode }
  /** Not of our form at all, or of our form with a checksum that is wrong: a typing error. */
  | { readonly kind: 'malformed'; readonly reason: 'form' | 'checksum' }

/** What a presented key says about itself. The checksum tells a mistyped key without asking the database. */
export function readKey(text: string): ReadKey {
  const match = keyPattern.exec(text)
  if (!match) return { kind: 'malformed', reason: 'form' }
  if (checksumOf(text.slice(0, -checksumLength)) !== match[4])
    return { kind: 'malformed', reason: 'checksum' }
  return { kind: 'key', id: match[2]!, mode: match[1] === 'test' ? 'test' : 'live' }
}

/** Whether the presented text is this key, in a time that does not depend on where they differ. */
export function matches(key: Pick<ApiKey, 'hash'>, text: string): boolean {
  const stored = Buffer.from(key.hash, 'hex')
  const presented = createHash('sha256').update(text).digest()
  return stored.length === presented.length && timingSafeEqual(stored, presented)
}

export function hashOfKey(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** CRC-32 in base 62, six digits: what secret scanners check before they raise an alarm. */
function checksumOf(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let at = 0; at < checksumLength; at++) {
    digits = alphabet[rest % 62]! + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Random characters without bias: bytes beyond the last multiple of 62 are thrown away. */
function randomText(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length))
      if (byte < 248 && text.length < length) text += alphabet[byte % 62]!
  }
  return text
}
