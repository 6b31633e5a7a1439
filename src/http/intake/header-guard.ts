// Headers are checked before anything reads them: a malformed Host breaks URL parsing and misleads path-based guards.

import { GatewayError } from '../../errors.ts'

const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(:\d{1,5})?$/i

/**
 * Throws `invalid_request` for a target that is no address under this gateway: handlers parse `request.url`, and may
 * rely on it. CONNECT asks for a tunnel, which only a proxy makes.
 */
export function checkTarget({ method, url }: Pick<Request, 'method' | 'url'>): void {
  if (method === 'CONNECT' || !URL.canParse(url)) {
    throw new GatewayError('invalid_request', { message: 'The target of the request is malformed.' })
  }
}

/** A name, a colon, a space and a line end. */
const bytesPerHeader = 4

/**
 * Throws `invalid_request` unless there is exactly one Host header, a plain host with or without a port, and at most
 * one Content-Length (equal ones are let through by the runtime, but a proxy before us may have read another), and
 * `headers_too_large` when all headers together measure more than `maxBytes`.
 */
export function checkHeaders(headers: Headers, maxBytes: number): void {
  const host = headers.get('host')
  // The pattern keeps paths and users out; a name such as 1.2.3.999 looks plain and is no host to any parser.
  if (host === null || !plainHost.test(host) || !URL.canParse(`http://${host}/`)) {
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
