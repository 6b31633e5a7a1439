// The gateway as browsers see it: which origin its pages have, how its cookie is called, and where a visitor comes from.

import { isWithin } from '../../accounts/identity/network.ts'
import { GatewayError } from '../../errors.ts'

export interface Site {
  /** The address of the gateway in a browser, without a slash at its end: `server.public_url`, else `localhost`. */
  readonly url: () => string
  /** The origins whose pages may act for whoever is signed in. */
  readonly origins: () => ReadonlySet<string>
  /** Whether browsers reach it by https: decided by configuration, never by a header. */
  readonly secure: boolean
  /** The address a request came from: the peer's, or what a trusted proxy says. */
  readonly addressOf: (request: Request) => string
}

/** `__Host-` makes the browser refuse a cookie of this name that another host or path has set. */
export function cookieName({ secure }: Pick<Site, 'secure'>): string {
  return secure ? '__Host-weir' : 'weir_session'
}

/** The session token in the request's cookie; undefined where there is none. */
export function sessionCookie({ headers }: Pick<Request, 'headers'>, site: Pick<Site, 'secure'>) {
  return cookieOf(headers, cookieName(site))
}

/** The first cookie of a name. */
export function cookieOf(headers: Headers, name: string): string | undefined {
  for (const pair of (headers.get('cookie') ?? '').split(';')) {
    const at = pair.indexOf('=')
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** `set-cookie` for a session token; an empty one with no time left takes the cookie away. */
export function setSessionCookie(site: Pick<Site, 'secure'>, text: string, maxAgeMs: number): string {
  return setCookie(site, cookieName(site), text, maxAgeMs)
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
 * Throws `origin_not_allowed` for a request that changes something and was not made by a page of ours. A browser sends
 * its cookie along with the requests of any page; only it says whose page that was. Without a cookie there is nobody to
 * act for, and programs that send no origin may sign in.
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
 * The address a request came from. `peer` is who is connected; what it says in X-Forwarded-For counts only when it is
 * one of the trusted proxies, and then the last address that is none of them: everything before it anybody can write.
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
