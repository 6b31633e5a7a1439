// Headers are checked before anything reads them: a crooked Host breaks URL parsing and misleads path-based guards.

import { GatewayError } from '../errors.ts'

const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(:\d{1,5})?$/i

/** A name, a colon, a space and a line end. */
const bytesPerHeader = 4

/**
 * Throws `invalid_request` unless there is exactly one Host header, a plain host with or without a port, and at most
 * one Content-Length (equal ones are let through by the runtime, but a proxy before us may have read another), and
 * `headers_too_large` when all headers together measure more than `maxBytes`.
 */
export function checkHeaders(headers: Headers, maxBytes: number): void {
  const host = headers.get('host')
  if (host === null || !plainHost.test(host)) {
    throw new GatewayError('invalid_request', { message: 'The Host header is missing or malformed.' })
  }
  const length = headers.get('content-length')
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    throw new GatewayError('invalid_request', { message: 'The Content-Length header is malformed.' })
  }
  let size = 0
  const all: Readonly<Record<string, string>> = headers.toJSON()
  for (const name in all) size += name.length + all[name]!.length + bytesPerHeader
  if (size > maxBytes) throw new GatewayError('headers_too_large', { metadata: { limit_bytes: maxBytes } })
}
