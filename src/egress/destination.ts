// From the text of a URL to the one address that may be dialled. The URL is parsed once, the name resolved once,
// every answer checked, and nothing downstream reads the text again: no two parsers can disagree about it.

import { lookup } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { GatewayError, lacksDescriptors, noDescriptors } from '../errors/errors.ts'

const maxUrlCharacters = 8192

/** All addresses of a name, as text. */
export type Resolve = (host: string) => Promise<readonly string[]>

interface DestinationRules {
  /** `host` or `host:port` entries that may be private. The host is compared as the URL names it. */
  readonly allowHosts: readonly string[]
  readonly resolve: Resolve
  /** The field of the client's request that holds the URL, for errors. */
  readonly param: string | undefined
}

/** A checked destination: `url` for the request line and the Host header, `addresses` for the connection. */
export interface Destination {
  readonly url: URL
  readonly addresses: readonly string[]
}

export const systemResolve: Resolve = async (host) => {
  const answers = await lookup(host, { all: true, verbatim: true })
  return answers.map((answer) => answer.address)
}

/**
 * Parses, resolves and checks a URL. Throws `url_not_allowed` when it may not be reached and `invalid_request` when
 * its name does not resolve.
 */
export async function destinationOf(text: string, rules: DestinationRules): Promise<Destination> {
  const { url, host, allowed } = checkedByName(text, rules)
  if (isAddress(host)) return { url, addresses: [host] }
  const addresses = await resolveHost(host, rules)
  // One private answer among public ones is an attack or a mistake; either way the name is not to be trusted.
  if (!allowed && !addresses.every(isPublicAddress)) {
    throw notAllowed(rules.param, 'the host does not have a public address')
  }
  return { url, addresses: ipv4First(addresses) }
}

/**
 * What the text alone shows, without asking a resolver: for addresses that a provider is sent and may fetch itself.
 * Gives the parsed URL; send its `href` on, never the text. Throws `url_not_allowed` for another scheme, user
 * information, a private address or name, and a file of Cloud Storage whose bucket no entry `gs://bucket` allows:
 * Google reads those with the rights of the operator.
 */
export function checkUrl(text: string, rules: Omit<DestinationRules, 'resolve'>): URL {
  const url = URL.parse(text)
  if (url?.protocol !== 'gs:') return checkedByName(text, rules).url
  if (url.username === '' && rules.allowHosts.includes(`gs://${url.host}`)) return url
  throw notAllowed(rules.param, 'the operator does not allow this bucket')
}

/** Whether `egress.allow_hosts` names the host of this URL. */
export function isAllowedHost(text: string, allowHosts: readonly string[]): boolean {
  const url = URL.parse(text)
  return url !== null && isAllowed(url, allowHosts)
}

function checkedByName(text: string, rules: Omit<DestinationRules, 'resolve'>) {
  const url = parsedUrl(text, rules.param)
  const host = withoutBrackets(url.hostname)
  const allowed = isAllowed(url, rules.allowHosts)
  if (!allowed && isAddress(host) && !isPublicAddress(host)) {
    throw notAllowed(rules.param, 'the address is not public')
  }
  // This name means the machine itself whatever a resolver says of it, also where none knows it.
  if (!allowed && /(?:^|\.)localhost\.?$/.test(host)) throw notAllowed(rules.param, 'it names this machine')
  return { url, host, allowed }
}

export function notAllowed(param: string | undefined, reason: string): GatewayError {
  return new GatewayError('url_not_allowed', {
    message: `This URL may not be reached from the gateway: ${reason}.`,
    ...(param === undefined ? {} : { param }),
  })
}

export function notFetched(param: string | undefined, reason: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The URL could not be fetched: ${reason}.`,
    ...(param === undefined ? {} : { param }),
    cause,
  })
}

/** As `notFetched`, for what could not be reached; `overloaded` where this process has no descriptor left to try it. */
export function notReached(param: string | undefined, reason: string, cause: unknown): GatewayError {
  return lacksDescriptors(cause) ? noDescriptors(cause) : notFetched(param, reason, cause)
}

function parsedUrl(text: string, param: string | undefined): URL {
  if (text.length > maxUrlCharacters || !URL.canParse(text)) throw notAllowed(param, 'it is not a valid URL')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw notAllowed(param, 'only http and https are spoken')
  }
  // `http://good@127.0.0.1` shows one host to people and another to machines.
  if (url.username !== '' || url.password !== '') throw notAllowed(param, 'it holds user information')
  if (url.hostname === '') throw notAllowed(param, 'it has no host')
  return url
}

function isAllowed(url: URL, allowHosts: readonly string[]): boolean {
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  return allowHosts.some((entry) => {
    const match = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry.toLowerCase())
    if (match === null || match[1] === '') return false
    return match[1] === url.hostname && (match[2] === undefined || match[2] === port)
  })
}

async function resolveHost(host: string, rules: DestinationRules): Promise<readonly string[]> {
  let addresses: readonly string[]
  try {
    addresses = await rules.resolve(host)
  } catch (error) {
    throw notReached(rules.param, 'its host name does not resolve', error)
  }
  if (addresses.length === 0) throw notFetched(rules.param, 'its host name does not resolve')
  return addresses
}

/** Many networks have IPv6 addresses and no way to reach them. */
function ipv4First(addresses: readonly string[]): string[] {
  return addresses.toSorted((a, b) => Number(a.includes(':')) - Number(b.includes(':')))
}

// Which addresses are public. An allow-list: what is not plainly a host on the open internet is refused.

/**
 * Plain unicast addresses that are not what they seem. Azure's platform endpoint answers every virtual machine
 * there, on an address of the public range.
 */
const impostors: readonly string[] = ['168.63.129.16']

/**
 * Whether an IP address, as text, is public. IPv4 in IPv6 clothes is judged as IPv4; NAT64, 6to4, Teredo,
 * site-local and every other special range is refused, as is text that is no address.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address) || impostors.includes(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast' || impostors.includes(parsed.toString())) return false
  // Of IPv6 only 2000::/3 is in use; the library counts the rest as unicast too, the old ::127.0.0.1 among it.
  return parsed.kind() === 'ipv4' || (parsed.toByteArray()[0]! & 0xe0) === 0x20
}

/** Whether this is an address and not a name. Takes a URL's hostname: IPv6 may stand in brackets. */
function isAddress(host: string): boolean {
  return ipaddr.isValid(withoutBrackets(host))
}

function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}

// Whether a server runs inside a private network, where names may mean what they mean nowhere else.

/** How long what a resolver said of a host is believed, milliseconds. */
const believedMs = 60_000

/** Returns a function that checks whether a URL's host is private. A name that does not resolve counts as private. */
export function privateHosts(resolve: Resolve = systemResolve): (url: string) => Promise<boolean> {
  const known = new LRUCache<string, Promise<boolean>>({ max: 500, ttl: believedMs })
  return (text) => {
    const host = withoutBrackets(URL.parse(text)?.hostname ?? '')
    if (isAddress(host)) return Promise.resolve(!isPublicAddress(host))
    // Built-in providers have no host.
    if (host === '') return Promise.resolve(true)
    const before = known.get(host)
    if (before) return before
    const answer = resolve(host).then(
      (addresses) => addresses.length === 0 || !addresses.every(isPublicAddress),
      () => {
        // The resolver's trouble, or our own, may be over with the next call.
        known.delete(host)
        return true
      },
    )
    known.set(host, answer)
    return answer
  }
}
