// Checks headers before anything reads them: a malformed Host breaks URL parsing and misleads path-based guards.

import { GatewayError } from '../../errors.ts'

const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(:\d{1,5})?$/i

/**
 * Throws `invalid_request` for a target that is not an address of this gateway, so that handlers can parse
 * `request.url`. CONNECT asks for a tunnel, which only a proxy provides.
 */
export function checkTarget({ method, url }: Pick<Request, 'method' | 'url'>): void {
  if (method === 'CONNECT' || !URL.canParse(url)) {
    throw new GatewayError('invalid_request', { message: 'The target of the request is malformed.' })
  }
}

/** A name, a colon, a space and a line end. */
const bytesPerHeader = 4

/**
 * Throws `invalid_request` unless there is exactly one Host header, a plain host with or without port, and at most one
 * Content-Length (the runtime accepts equal ones, but a proxy in front may have read another), and `headers_too_large`
 * if all headers together exceed `maxBytes`.
 */
export function checkHeaders(headers: Headers, maxBytes: number): void {
  const host = headers.get('host')
  // The pattern rejects paths and users. A name such as 1.2.3.999 looks plain, but no parser accepts it as a host.
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
