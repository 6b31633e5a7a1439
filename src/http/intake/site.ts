// The gateway as browsers see it: the origin of its pages, its cookie, and the address of a visitor.

import { isWithin } from '../../accounts/identity/network.ts'
import { GatewayError } from '../../errors/errors.ts'

export interface Site {
  /** The gateway's address in a browser, without a trailing slash: `server.public_url`, otherwise `localhost`. */
  readonly url: () => string
  /** Origins whose pages may act for the signed-in account. */
  readonly origins: () => ReadonlySet<string>
  /** Whether browsers use https: set by configuration, never by a header. */
  readonly secure: boolean
  /** The client's address: the peer's, or the one a trusted proxy reports. */
  readonly addressOf: (request: Request) => string
}

/** What a site's cookies depend on. */
export type CookieSite = Pick<Site, 'secure' | 'url'>

/**
 * The name of one of the site's cookies. With `__Host-` the browser refuses one of this name from another host or path.
 * Browsers send a cookie to all ports of its host: the port in its name keeps two gateways there apart.
 */
export function cookieName({ secure, url }: CookieSite, names: { secure: string; plain: string }): string {
  const { port } = new URL(url())
  const name = secure ? names.secure : names.plain
  return port === '' ? name : `${name}_${port}`
}

const sessionNames = { secure: '__Host-weir', plain: 'weir_session' }

/** The session token in the request's cookie; undefined without one. */
export function sessionCookie({ headers }: Pick<Request, 'headers'>, site: CookieSite): string | undefined {
  if (!headers.has('cookie')) return undefined
  const token = cookieOf(headers, cookieName(site, sessionNames))
  // Earlier versions wrote it without the port. It may be another gateway's, whose token is not known here.
  return token ?? cookieOf(headers, site.secure ? sessionNames.secure : sessionNames.plain)
}

export function cookieOf(headers: Headers, name: string): string | undefined {
  for (const pair of (headers.get('cookie') ?? '').split(';')) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** `set-cookie` for a session token; an empty token with no time left deletes the cookie. */
export function setSessionCookie(site: CookieSite, text: string, maxAgeMs: number): string {
  return setCookie(site, cookieName(site, sessionNames), text, maxAgeMs)
}

export function setCookie(
  { secure }: Pick<Site, 'secure'>,
  name: string,
  text: string,
  maxAgeMs: number,
): string {
  const parts = [`${name}=${text}`, 'Path=/', 'HttpOnly', 'SameSite=Lax']
  parts.push(`Max-Age=${Math.max(0, Math.floor(maxAgeMs / 1000))}`)
  return (secure ? [...parts, 'Secure'] : parts).join('; ')
}

/** Methods that change nothing. */
const harmless = new Set(['GET', 'HEAD'])

/**
 * Throws `origin_not_allowed` for a request with side effects from a page that is not ours. A browser sends its cookie
 * with requests of any page, and names the page's origin. Without a cookie there is no session to abuse, and programs
 * that send no origin may sign in.
 */
export function requireOwnOrigin(request: Request, site: Site): void {
  if (harmless.has(request.method)) return
  const { headers } = request
  const from = headers.get('sec-fetch-site')
  const origin = headers.get('origin')
  const own = origin === null ? sessionCookie(request, site) === undefined : site.origins().has(origin)
  if (own && (from === null || from === 'same-origin')) return
  throw new GatewayError('origin_not_allowed')
}

const mostHops = 20

/**
 * The client's address. `peer` is the connected address; its X-Forwarded-For counts only if it is a trusted proxy, and
 * then the last address in it that is not: anybody can write the ones before.
 */
export function clientAddress(peer: string, forwarded: string | null, trusted: readonly string[]): string {
  if (forwarded === null || trusted.length === 0 || !isWithin(peer, trusted)) return peer
  let client = peer
  for (const hop of forwarded.split(',').slice(-mostHops).toReversed()) {
    const address = withoutPort(hop.trim())
    if (address === '') break
    client = address
    if (!isWithin(address, trusted)) break
  }
  return client
}

/** `203.0.113.7:1234` and `[2001:db8::1]:1234`, as some proxies write them. */
function withoutPort(text: string): string {
  const bracketed = /^\[([0-9a-f:.]+)\](?::\d+)?$/i.exec(text)?.[1]
  return bracketed ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(text)?.[1] ?? text
}

// Lets pages of other origins call /v1 from a browser. That is safe for any origin, because a bearer key must be sent
// explicitly. Sessions of the app and the console stay with their own origin.

type Fetch = (request: Request) => Response | Promise<Response>

/** Paths where a key is the only credential. */
const openPath = /^\/(v1|v1beta)\//

/** Headers that pages may read; without this list they see only a few standard ones. */
const exposed = [
  'x-request-id',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-weir-provider',
  'x-weir-model',
  'x-weir-warnings',
  'idempotency-replayed',
  'etag',
  ...['limit', 'remaining', 'reset'].flatMap((figure) =>
    ['requests', 'tokens'].map((unit) => `x-ratelimit-${figure}-${unit}`),
  ),
].join(', ')

const methods = 'GET, POST, DELETE'
/** How long a browser may cache a preflight, seconds; Chromium's maximum. */
const maxAge = '7200'
/** Header names as a browser lists them: nothing else may be echoed to it. */
const headerNames = /^[\w!#$%&'*+.^`|~, -]{1,4096}$/

/**
 * Wraps a handler for browsers: answers preflights and lets pages of these origins read answers under /v1. `*` allows
 * all origins, an empty list none. Never with credentials.
 */
export function crossOrigin(origins: readonly string[], handle: Fetch): Fetch {
  const all = origins.includes('*')
  const named = new Set(origins)

  function readers(request: Request): Record<string, string> | undefined {
    const origin = request.headers.get('origin')
    if (origin === null || !openPath.test(URL.parse(request.url)?.pathname ?? '')) return undefined
    if (all) return { 'access-control-allow-origin': '*' }
    return named.has(origin) ? { 'access-control-allow-origin': origin, vary: 'origin' } : undefined
  }

  return async (request) => {
    const allowed = readers(request)
    if (allowed === undefined) return handle(request)
    if (request.method === 'OPTIONS' && request.headers.has('access-control-request-method'))
      return new Response(null, { status: 204, headers: { ...allowed, ...askedHeaders(request.headers) } })
    return readable(await handle(request), allowed)
  }
}

/** The headers that the page may send: client libraries add their own, and none has any effect here. */
function askedHeaders(headers: Headers): Record<string, string> {
  const wanted = headers.get('access-control-request-headers') ?? ''
  return {
    'access-control-allow-methods': methods,
    ...(headerNames.test(wanted) ? { 'access-control-allow-headers': wanted } : {}),
    'access-control-max-age': maxAge,
  }
}

function readable(response: Response, allowed: Record<string, string>): Response {
  for (const [name, value] of Object.entries(allowed)) {
    if (name === 'vary') response.headers.append(name, value)
    else response.headers.set(name, value)
  }
  response.headers.set('access-control-expose-headers', exposed)
  return response
}
