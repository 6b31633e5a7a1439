// A JSON body from the wire: bounded in size and depth before it is parsed.

import type { JsonObject } from '../conversation/request.ts'
import { GatewayError } from '../errors.ts'

export interface BodyLimits {
  readonly maxBodyBytes: number
  readonly maxHeaderBytes: number
  readonly maxDepth: number
}

export interface ReadBody {
  readonly json: JsonObject
  readonly bytes: number
}

/**
 * Reads and parses the body. Throws `payload_too_large`, `unsupported_media_type` (compressed, or not JSON) and
 * `invalid_request` (invalid UTF-8, too deep, not JSON, not an object).
 */
export async function readJson(request: Request, limits: BodyLimits): Promise<ReadBody> {
  refuseByHeaders(request.headers, limits)
  const bytes = await request.bytes()
  if (bytes.length > limits.maxBodyBytes) throw tooLarge(limits)
  const json = parseJson(decodeUtf8(bytes), limits.maxDepth)
  return { json, bytes: bytes.length }
}

/** What the headers alone can refuse; cheap enough to come before authentication. */
export function refuseByHeaders(headers: Headers, limits: BodyLimits): void {
  if (Number(headers.get('content-length') ?? 0) > limits.maxBodyBytes) throw tooLarge(limits)
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw new GatewayError('unsupported_media_type', {
      message: `The body is compressed (${encoding.slice(0, 40)}).`,
    })
  }
  const type = headers.get('content-type')
  if (type !== null && !/^(application\/([\w.+-]+\+)?json|text\/plain)\s*(;|$)/i.test(type)) {
    throw new GatewayError('unsupported_media_type')
  }
}

function tooLarge(limits: BodyLimits): GatewayError {
  return new GatewayError('payload_too_large', { metadata: { limit_bytes: limits.maxBodyBytes } })
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new GatewayError('invalid_request', { message: 'The body is not valid UTF-8.', cause })
  }
}

/** Parses text that must be one JSON object no deeper than `maxDepth`. Throws `invalid_request`. */
export function parseJson(text: string, maxDepth: number): JsonObject {
  // A body of a million nested arrays would hold JSON.parse, and with it every other call, for half a second.
  if (isDeeperThan(text, maxDepth)) {
    throw new GatewayError('invalid_request', {
      message: `The body is nested deeper than ${maxDepth} levels.`,
    })
  }
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid_request', {
      message: text.trim() === '' ? 'The body is empty.' : 'The body is not valid JSON.',
      cause,
    })
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
  return parsed as JsonObject
}

const quote = 0x22
const backslash = 0x5c
const openers = new Set([0x5b, 0x7b])
const closers = new Set([0x5d, 0x7d])

/** Whether brackets outside of strings ever nest deeper than `limit`. Reads the text once, without recursion. */
export function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfString(text, at)
      if (at < 0) return false
    } else if (openers.has(code)) {
      if (++depth > limit) return true
    } else if (closers.has(code)) depth--
  }
  return false
}

/** The position of the quote that closes the string opened at `from`; -1 where it is never closed. */
function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
  }
  return -1
}
