// Who asks, by the bearer key, session token or cookie of a request, from which page and from which address.

import {
  type Caller,
  type CallerLookups,
  keyFault,
  matches,
  readKey,
  type Session,
  sessionFault,
  sessionIdOf,
  standingOf,
} from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isWithin } from '../../accounts/identity/sign-in-limits.ts'

export interface Authentication {
  readonly accounts: CallerLookups
  readonly now: () => number
}

/**
 * The caller with the key in `Authorization: Bearer`. Rejects with `missing_api_key`, `invalid_api_key`,
 * `api_key_revoked`, `api_key_expired`, and `invalid_request` for two different credentials. A mistyped key is refused
 * by its checksum without a database lookup; no answer repeats the key.
 */
export async function authenticate(headers: Headers, parts: Authentication): Promise<Caller> {
  return callerOf(bearerOf(headers), parts)
}

/** Like `authenticate`, for clients that send the key in a header of their own, as a bearer, or both. */
export async function authenticateEither(
  headers: Headers,
  parts: Authentication,
  header: 'x-api-key' | 'x-goog-api-key' = 'x-api-key',
): Promise<Caller> {
  return callerOf(keyOf(headers, header), parts)
}

async function callerOf(text: string, { accounts, now }: Authentication): Promise<Caller> {
  const read = readKey(text)
  if (read.kind === 'malformed') throw new GatewayError('invalid_api_key', { credential: {} })
  const key = await accounts.findKey(read.id)
  if (!key || !matches(key, text))
    throw new GatewayError('invalid_api_key', { credential: { keyId: read.id } })
  const fault = keyFault(key, now())
  if (fault) throw fault
  const account = await accounts.findAccount(key.account)
  if (!account) throw new GatewayError('invalid_api_key')
  const standing = key.group === null ? null : await standingOf(accounts, key)
  return { account, key, standing, session: null, channel: 'api', mode: key.mode }
}

/** Who is signed in, and by which session. */
export interface SignedIn {
  readonly caller: Caller
  readonly session: Session
}

/**
 * The signed-in account of a session token, as a caller from the app: `cookie` if given, otherwise the token in
 * `Authorization: Bearer`. Throws the same codes as `authenticate`; API keys and session tokens are not
 * interchangeable.
 */
export async function authenticateSession(
  headers: Headers,
  { accounts, now }: Authentication,
  cookie?: string,
): Promise<SignedIn> {
  const text = cookie ?? bearerOf(headers)
  const id = sessionIdOf(text)
  const session = id === undefined ? undefined : await accounts.findSession(id)
  if (!session || !matches(session, text)) {
    throw new GatewayError('invalid_api_key', {
      message: 'This is no session token that is valid here.',
      credential: {},
    })
  }
  const fault = sessionFault(session, now())
  if (fault) throw fault
  const account = await accounts.findAccount(session.account)
  if (!account) throw new GatewayError('invalid_api_key')
  return {
    caller: { account, key: null, standing: null, session: id!, channel: 'app', mode: 'live' },
    session,
  }
}

export function bearerOf(headers: Headers): string {
  const authorization = headers.get('authorization')
  const other = headers.get('x-api-key')
  if (authorization === null) {
    const hint = other === null ? undefined : 'This endpoint takes the key as Authorization: Bearer <key>.'
    throw new GatewayError('missing_api_key', hint === undefined ? {} : { message: hint })
  }
  const key = bearerIn(authorization)
  if (other !== null && other !== key) throw differing()
  return key
}

function keyOf(headers: Headers, header: string): string {
  const key = headers.get(header) ?? ''
  // An empty header is not a credential: some clients send one beside the header that they use.
  const authorization = (headers.get('authorization') ?? '').replace(/^bearer *$/i, '')
  if (authorization === '') {
    if (key !== '') return key
    throw new GatewayError('missing_api_key', {
      message: `The request carries no API key: send it as ${header}, or as Authorization: Bearer <key>.`,
    })
  }
  if (key !== '' && authorization.replace(/^bearer +/i, '').trimEnd() !== key) throw differing()
  return bearerIn(authorization)
}

/** As nearly all clients write it. */
const plainBearer = /^bearer \S+$/i

function bearerIn(authorization: string): string {
  if (plainBearer.test(authorization)) return authorization.slice('Bearer '.length)
  const match = /^bearer +(\S+) *$/i.exec(authorization)
  if (match?.[1]) return match[1]
  throw new GatewayError(/^bearer *$/i.test(authorization) ? 'missing_api_key' : 'invalid_api_key')
}

function differing(): GatewayError {
  return new GatewayError('invalid_request', { message: 'The request carries two different credentials.' })
}

// The gateway as browsers see it: the origin of its pages, its cookie, and the address of a visitor.

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

const addresses = new WeakMap<Request, string>()

/** Says where a request comes from that the gateway has made itself, of what arrived on a connection. */
export function isFromAddress(request: Request, address: string): void {
  addresses.set(request, address)
}

/** Undefined for a request that has come by itself. */
export function saidAddress(request: Request): string | undefined {
  return addresses.get(request)
}

/** The path of the gateway on its host, which a proxy takes off: `/weir`, and nothing where it has the whole host. */
export function sitePath(url: string): string {
  return new URL(url).pathname.replace(/\/+$/, '')
}

/** What a site's cookies depend on. */
export type CookieSite = Pick<Site, 'secure' | 'url'>

/**
 * The name of one of the site's cookies. With `__Host-` the browser refuses one of this name from another host or path;
 * a gateway below a path of a host has a cookie for that path, which `__Host-` does not allow.
 * Browsers send a cookie to all ports of its host: the port in its name keeps two gateways there apart.
 */
export function cookieName({ secure, url }: CookieSite, names: { secure: string; plain: string }): string {
  const { port } = new URL(url())
  const bound = sitePath(url()) === '' ? names.secure : names.secure.replace('__Host-', '__Secure-')
  const name = secure ? bound : names.plain
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

export function setCookie({ secure, url }: CookieSite, name: string, text: string, maxAgeMs: number): string {
  const parts = [`${name}=${text}`, `Path=${sitePath(url()) || '/'}`, 'HttpOnly', 'SameSite=Lax']
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
