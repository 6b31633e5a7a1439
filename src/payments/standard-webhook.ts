// Messages signed according to Standard Webhooks 1.0: HMAC-SHA256 of id, time and body. standardwebhooks.com.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../errors/errors.ts'

/** The largest accepted clock difference of a message, milliseconds. */
const toleranceMs = 300_000
const prefix = 'whsec_'

/** The bytes of a secret: base64 after `whsec_`; any other text is used as it is. */
function keyOf(secret: string): Uint8Array {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}

/** Throws `bad_signature` unless the body was recently signed with one of the secrets. */
export function requireSigned(
  raw: Uint8Array,
  headers: Headers,
  secrets: readonly string[],
  now: number,
): void {
  const [id, seconds, given] = ['id', 'timestamp', 'signature'].map(
    (name) => headers.get(`webhook-${name}`) ?? '',
  ) as [string, string, string]
  const at = /^\d{1,12}$/.test(seconds) ? Number(seconds) * 1000 : Number.NaN
  if (id === '' || !(Math.abs(now - at) <= toleranceMs)) throw badSignature()
  const signed = Buffer.concat([Buffer.from(`${id}.${seconds}.`), raw])
  const expected = secrets.map(keyOf).filter((key) => key.length > 0)
  const signatures = given
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => Buffer.from(part.slice(3), 'base64'))
  const isGood = expected.some((key) => signatures.some((signature) => isSame(hmac(key, signed), signature)))
  if (!isGood) throw badSignature()
}

/** The headers of an outgoing message: its id, the time of sending (milliseconds since 1970), and the signature. */
export function signatureHeaders(
  secret: string,
  id: string,
  at: number,
  body: string,
): Readonly<Record<string, string>> {
  const seconds = String(Math.floor(at / 1000))
  const signature = hmac(keyOf(secret), `${id}.${seconds}.${body}`).toString('base64')
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': `v1,${signature}` }
}

/** The JSON in a body. Throws `invalid_request`. */
export function signedJson(raw: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw))
  } catch (cause) {
    throw new GatewayError('invalid_request', { message: 'The body is not valid JSON.', cause })
  }
}

// Signatures of messages: HMAC-SHA256, compared in constant time.

/** HMAC-SHA256, as bytes. */
function hmac(secret: string | Uint8Array, signed: string | Uint8Array): Buffer {
  return createHmac('sha256', secret).update(signed).digest()
}

/** Whether `given` is the signature in hex. False for an empty secret. */
export function isHexSignature(secret: string, signed: string | Uint8Array, given: string): boolean {
  return (
    secret !== '' && /^[0-9a-f]{64}$/i.test(given) && isSame(hmac(secret, signed), Buffer.from(given, 'hex'))
  )
}

/** Compares in constant time; false for different lengths. */
function isSame(expected: Uint8Array, given: Uint8Array): boolean {
  return expected.length === given.length && timingSafeEqual(expected, given)
}

export function badSignature(): GatewayError {
  return new GatewayError('bad_signature')
}
