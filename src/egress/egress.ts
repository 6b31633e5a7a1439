// The one door for addresses that a user can choose: images and files by URL, MCP servers, web pages. What leaves
// through here goes to a checked address, in one hop, with bounds on time and size.

import {
  boundedBytes,
  BudgetSpentError,
  type ByteBudget,
  direct,
  TooLargeError,
} from '../transport/bounded-body.ts'
import {
  type Destination,
  destinationOf,
  notAllowed,
  notFetched,
  notReached,
  type Resolve,
  systemResolve,
} from './destination.ts'

/** How many redirects a fetch follows; each is checked like the first address. */
const maxRedirects = 3

/** What is handed to fetch: a URL whose host is the checked address, and the name it stands for. */
export interface DialInit {
  readonly method: string
  readonly headers: Headers
  readonly body: string | undefined
  readonly signal: AbortSignal
  readonly redirect: 'manual'
  readonly keepalive: false
  readonly decompress: false
  readonly tls: { readonly serverName: string } | undefined
}

export type Fetcher = (url: string, init: DialInit) => Promise<Response>

export interface EgressOptions {
  /** `host` or `host:port` entries that may be private: the setting `egress.allow_hosts`. */
  readonly allowHosts: readonly string[]
  readonly signal?: AbortSignal
  /** The field of the client's request that holds the URL, for errors. */
  readonly param?: string
  readonly fetcher?: Fetcher
  readonly resolve?: Resolve
}

export interface FetchOptions extends EgressOptions {
  /** The most bytes to read, after decompression. */
  readonly maxBytes: number
  /** What this file and others may measure together. */
  readonly budget?: Pick<ByteBudget, 'take'>
  /** The most time for all of it: name resolution, redirects and body. */
  readonly timeoutMs: number
  readonly accept?: string
  /** Whether an address may be used: asked of the first one and of each that it redirects to. */
  readonly allows?: (url: string) => boolean
}

export interface Fetched {
  /** Where it was found, behind the redirects. */
  readonly url: string
  readonly status: number
  /** The media type in lower case, without parameters; empty where the server names none. */
  readonly mediaType: string
  /** The `charset` of the media type, where the server names one. */
  readonly charset: string | undefined
  readonly bytes: Uint8Array
}

interface DialRequest {
  readonly method: string
  readonly headers: Headers
  readonly body?: string
}

/**
 * Gets a public URL. Throws `url_not_allowed` when it, or where it redirects to, may not be reached;
 * `invalid_request` when nothing usable came back (no connection, too large, too slow); `overloaded` when this process
 * has no file descriptor left; BudgetSpentError; and the signal's own reason when the caller gave up. The status is the caller's to judge.
 */
export async function fetchPublic(url: string, options: FetchOptions): Promise<Fetched> {
  const { param } = options
  const deadline = AbortSignal.timeout(options.timeoutMs)
  const signal = options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline])
  try {
    const { response, url: found } = await followRedirects(url, { ...options, signal })
    const bytes = await boundedBytes(response, options.maxBytes, signal, options.budget)
    const contentType = response.headers.get('content-type') ?? ''
    const mediaType = contentType.split(';')[0]!.trim().toLowerCase()
    const charset = /;\s*charset=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]
    return { url: found, status: response.status, mediaType, charset, bytes }
  } catch (error) {
    if (options.signal?.aborted === true) throw options.signal.reason
    if (deadline.aborted) throw notFetched(param, `it took longer than ${options.timeoutMs} ms`, error)
    if (error instanceof BudgetSpentError) throw error
    if (error instanceof TooLargeError) {
      throw notFetched(param, `it is larger than ${options.maxBytes} bytes`, error)
    }
    throw error instanceof Error && error.name === 'GatewayError'
      ? error
      : notFetched(param, 'no usable answer', error)
  }
}

async function followRedirects(
  first: string,
  options: FetchOptions & { readonly signal: AbortSignal },
): Promise<{ response: Response; url: string }> {
  let url = first
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    if (options.allows?.(url) === false)
      throw notAllowed(options.param, 'the request does not allow its domain')
    const headers = new Headers({ accept: options.accept ?? '*/*' })
    const response = await dial(url, { method: 'GET', headers }, options)
    const location = response.headers.get('location')
    if (response.status < 300 || response.status >= 400 || location === null) return { response, url }
    // The rest of this answer is of no interest, and unread it would hold its connection.
    await response.body?.cancel().catch(() => undefined)
    if (!URL.canParse(location, url))
      throw notAllowed(options.param, 'it redirects to something that is no URL')
    url = new URL(location, url).href
  }
  throw notFetched(options.param, `it redirects more than ${maxRedirects} times`)
}

/**
 * Sends one request to a checked address and gives the answer as it comes, unread and still compressed. Redirects
 * are not followed: they would carry headers to hosts that nobody has checked. The caller bounds time (by `signal`)
 * and size. Throws `url_not_allowed`, `invalid_request` when no connection comes about, and `overloaded` when this
 * process has no file descriptor left for one.
 */
export async function dial(url: string, request: DialRequest, options: EgressOptions): Promise<Response> {
  const signal = options.signal ?? new AbortController().signal
  const { allowHosts, resolve = systemResolve, param } = options
  const destination = await untilAborted(() => destinationOf(url, { allowHosts, resolve, param }), signal)
  const fetcher = options.fetcher ?? bunFetch
  let failure: unknown
  for (const address of destination.addresses) {
    try {
      return await fetcher(pinTo(destination.url, address), initFor(destination, request, signal))
    } catch (error) {
      signal.throwIfAborted()
      failure = error
      // Only a connection that never was may be tried again: anything else may have been acted upon.
      if (!neverConnected(error)) break
    }
  }
  throw notReached(options.param, 'the host does not answer', failure)
}

const bunFetch: Fetcher = (url, init) =>
  fetch(url, {
    method: init.method,
    headers: init.headers,
    signal: init.signal,
    redirect: init.redirect,
    keepalive: init.keepalive,
    decompress: init.decompress,
    // A proxy would reach whatever it can reach, and not the address that was checked.
    ...direct,
    ...(init.body === undefined ? {} : { body: init.body }),
    ...(init.tls === undefined ? {} : { tls: init.tls }),
  })

/** The URL with the checked address in place of the name: what is dialled is what was checked. */
function pinTo(url: URL, address: string): string {
  const target = new URL(url)
  target.hostname = address.includes(':') ? `[${address}]` : address
  target.hash = ''
  return target.href
}

function initFor(destination: Destination, request: DialRequest, signal: AbortSignal): DialInit {
  const { url } = destination
  const headers = new Headers(request.headers)
  headers.set('host', url.host)
  // Compressed answers are read by us, and bounded; most servers then send none.
  headers.set('accept-encoding', 'identity')
  return {
    method: request.method,
    headers,
    body: request.body,
    signal,
    redirect: 'manual',
    // A pooled connection would skip the check that was made for this one.
    keepalive: false,
    decompress: false,
    tls: url.protocol === 'https:' ? { serverName: serverNameOf(url) } : undefined,
  }
}

/** The name that the certificate must be for. */
function serverNameOf(url: URL): string {
  return url.hostname.replace(/\.$/, '').replace(/^\[|\]$/g, '')
}

const connectionCodes: readonly string[] = [
  'ConnectionRefused',
  'FailedToOpenSocket',
  'ECONNREFUSED',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EADDRNOTAVAIL',
]

function neverConnected(error: unknown): boolean {
  return error instanceof Error && 'code' in error && connectionCodes.includes(String(error.code))
}

/**
 * The result of work that cannot be aborted itself, or a rejection with the signal's reason as soon as that aborts; work
 * whose signal has aborted already is not begun. What the work does later is ignored: an unhandled rejection would end
 * the process.
 */
export function untilAborted<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise<T>((resolve, reject) => {
    const give = () => reject(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', give))
  })
}
