// send(): the only request to a provider. Plain HTTP in, plain Response out; what it means is the protocol's business.

import type { Fault } from '../conversation/event.ts'
import type { Auth, ConfiguredProvider } from './provider.ts'
import { simulate } from './simulator.ts'

export interface UpstreamRequest {
  readonly provider: ConfiguredProvider
  readonly key: string | undefined
  /** Appended to the provider's base URL. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string
  /** Ends this attempt: the caller aborts it for its own reasons, send() when no connection comes about. */
  readonly abort: AbortController
  readonly connectMs: number
}

/** The connection could not be made or broke before an answer: a fault that lets the call go elsewhere. */
export class UnreachableError extends Error {
  readonly fault: Fault

  constructor(fault: Fault, cause: unknown) {
    super(fault.message, { cause })
    this.name = 'UnreachableError'
    this.fault = fault
  }
}

/** How long a provider that answered counts as reachable, milliseconds. */
const reachableForMs = 60_000
const lastAnswer = new Map<string, number>()

/**
 * Sends one request. Resolves with the provider's answer whatever its status; rejects with UnreachableError
 * (`cut` when refused, reset or unresolvable, `timeout` when no connection came about in `connectMs`) and with the
 * signal's reason when that aborts. Redirects are not followed: they would carry the key to another host.
 */
export async function send(request: UpstreamRequest): Promise<Response> {
  const url = request.provider.baseUrl + request.path
  const init = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      // A compressed stream would be held back by the decompressor and cannot be forwarded as it is.
      'accept-encoding': 'identity',
      ...request.provider.headers,
      ...credential(request.provider.auth, request.key),
      ...request.headers,
    },
    body: request.body,
  }
  const { signal } = request.abort
  if (request.provider.transport === 'builtin') {
    return simulate(new Request(`http://sim.invalid${request.path}`, { ...init, signal }))
  }
  const options = { ...init, signal, redirect: 'manual', timeout: false } as const
  const connect = watchConnect(request)
  try {
    const response = await fetch(url, options).catch((error: unknown) => {
      // A kept-alive connection that the provider had closed: not a byte came back, so nothing was answered.
      if (codeOf(error) === 'ECONNRESET' && !signal.aborted) return fetch(url, options)
      throw error
    })
    lastAnswer.set(request.provider.baseUrl, Date.now())
    return response
  } catch (error) {
    if (signal.aborted && !connect.timedOut()) throw signal.reason
    throw unreachable(error, connect.timedOut())
  } finally {
    connect.stop()
  }
}

/** The headers that carry a provider's key. */
export function credential(auth: Auth, key: string | undefined): Record<string, string> {
  if (key === undefined || auth.kind === 'none') return {}
  return auth.kind === 'bearer' ? { authorization: `Bearer ${key}` } : { [auth.header]: key }
}

/**
 * fetch() cannot tell connecting from waiting. A provider that has not answered lately is therefore dialled beside
 * the request: when even the bare connection does not come about in time, the request is given up.
 */
function watchConnect(request: UpstreamRequest): { stop: () => void; timedOut: () => boolean } {
  const { baseUrl } = request.provider
  if (Date.now() - (lastAnswer.get(baseUrl) ?? 0) < reachableForMs) {
    return { stop: () => undefined, timedOut: () => false }
  }
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    request.abort.abort()
  }, request.connectMs)
  const stop = () => clearTimeout(timer)
  const socket = {
    open: (opened: { end: () => void }) => {
      stop()
      opened.end()
    },
    data: () => undefined,
    error: () => undefined,
    connectError: () => undefined,
  }
  const { hostname, port, protocol } = new URL(baseUrl)
  Bun.connect({
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || (protocol === 'https:' ? 443 : 80),
    socket,
  }).catch(() => undefined)
  return { stop, timedOut: () => timedOut }
}

function unreachable(error: unknown, timedOut: boolean): UnreachableError {
  const code = codeOf(error)
  const fault: Fault = {
    kind: timedOut ? 'timeout' : 'cut',
    message: timedOut ? 'no connection in time' : 'the connection could not be made or broke',
    param: undefined,
    providerCode: code,
    status: undefined,
    retryAfterMs: undefined,
  }
  return new UnreachableError(fault, error)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
