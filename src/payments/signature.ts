// Signatures of messages: HMAC-SHA256, compared in constant time.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../errors.ts'

/** HMAC-SHA256, as bytes. */
export function hmac(secret: string | Uint8Array, signed: string | Uint8Array): Buffer {
  return createHmac('sha256', secret).update(signed).digest()
}

/** Whether `given` is the signature in hex. False for an empty secret. */
export function isHexSignature(secret: string, signed: string | Uint8Array, given: string): boolean {
  return (
    secret !== '' && /^[0-9a-f]{64}$/i.test(given) && isSame(hmac(secret, signed), Buffer.from(given, 'hex'))
  )
}

/** Compares in constant time; false for different lengths. */
export function isSame(expected: Uint8Array, given: Uint8Array): boolean {
  return expected.length === given.length && timingSafeEqual(expected, given)
}

export function badSignature(): GatewayError {
  return new GatewayError('bad_signature')
}
