// The only requests to providers. Plain HTTP in, plain Response out; what it means is the protocol's business.

import { connect } from 'node:net'
import { settledWithin } from '../async/async.ts'
import { routeTo, unpackAnswer } from '../transport/bounded-body.ts'
import type { Fault } from '../conversation/event.ts'
import { lacksDescriptors, noDescriptors } from '../errors/errors.ts'
import { fault } from '../protocols/faults.ts'
import { awsHeaders, GoogleTokens } from './credentials/credentials.ts'
import type { Auth, ConfiguredProvider } from './provider.ts'

interface SendRequest {
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
  /** Called when the provider can be reached: it is being asked from then on, and may bill what it is asked. */
  readonly onReached?: () => void
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

type HeaderFields = Record<string, string>

/** The headers of every request with one key of a provider: as fields, and in the runtime's own form. */
interface SharedHeaders {
  readonly fields: HeaderFields
  readonly headers: Headers
}

/** How long a provider that answered counts as reachable, milliseconds. */
const reachableForMs = 60_000

/** Sends requests to providers, and keeps what it learns about reaching them. */
export class Upstream {
  readonly #googleTokens = new GoogleTokens()
  /** When each base URL answered last, milliseconds of performance.now(). */
  readonly #lastAnswer = new Map<string, number>()
  readonly #shared = new WeakMap<ConfiguredProvider, Map<string | undefined, SharedHeaders>>()
  readonly #routes = new WeakMap<ConfiguredProvider, ReturnType<typeof routeTo>>()

  /**
   * Sends one request. Resolves with the provider's answer whatever its status; rejects with UnreachableError
   * (`cut` when refused, reset or unresolvable, `timeout` when no connection came about in `connectMs`), with
   * `overloaded` when this process has no file descriptor left for a connection, and with the signal's reason when that
   * aborts. Redirects are not followed: they would carry the key to another host.
   */
  async send(request: SendRequest): Promise<Response> {
    const url = request.provider.baseUrl + request.path
    const made = this.#headersOf(request, url)
    // Most are there at once: to await those would cost every call a turn.
    const headers = made instanceof Promise ? await made : made
    const { body } = request
    const { signal } = request.abort
    if (request.provider.transport === 'builtin') {
      request.onReached?.()
      const { simulate } = await import('./simulator/simulator.ts')
      return simulate(
        new Request(`http://sim.invalid${request.path}`, { method: 'POST', headers, body, signal }),
      )
    }
    const options = {
      method: 'POST',
      headers,
      body,
      signal,
      redirect: 'manual',
      timeout: false,
      ...this.#routeTo(request.provider),
      decompress: false,
    } as const
    const connect = this.#watchConnect(request)
    const sentAt = performance.now()
    try {
      let response: Response
      try {
        response = await fetch(url, options)
      } catch (error) {
        // A kept-alive connection that the provider had closed: not a byte came back, so nothing was answered. A
        // provider that resets without having answered since has no such connection, and is not asked twice. A closed
        // connection shows within a round trip: one that breaks later has had the provider work, and bill, for us.
        const wasKept = this.#lastAnswer.delete(request.provider.baseUrl)
        const isLate = performance.now() - sentAt > request.connectMs
        if (codeOf(error) !== 'ECONNRESET' || !wasKept || isLate || signal.aborted) throw error
        response = await fetch(url, options)
      }
      this.#lastAnswer.set(request.provider.baseUrl, performance.now())
      // None was asked for, so almost none is compressed.
      return response.headers.has('content-encoding') ? unpackAnswer(response) : response
    } catch (error) {
      if (signal.aborted && !connect.timedOut) {
        await connect.isDecided()
        throw signal.reason
      }
      if (lacksDescriptors(error)) throw noDescriptors(error)
      throw unreachable(error, connect.timedOut)
    } finally {
      connect.stop()
    }
  }

  #routeTo(provider: ConfiguredProvider): ReturnType<typeof routeTo> {
    let route = this.#routes.get(provider)
    if (!route) this.#routes.set(provider, (route = routeTo(provider.baseUrl)))
    return route
  }

  /** The headers of a request, with its key or what that is good for. Rejects with UnreachableError. */
  #headersOf(request: SendRequest, url: string): HeaderFields | Headers | Promise<HeaderFields> {
    const { provider, key, headers: own } = request
    const { auth } = provider
    if (key !== undefined && (auth.kind === 'aws' || auth.kind === 'google'))
      return this.#exchange(request, key, auth, url)
    const { fields, headers } = this.#sharedHeaders(provider, key)
    for (const _ in own) return { ...fields, ...own }
    return headers
  }

  async #exchange(
    { provider, body, headers: own, abort }: SendRequest,
    key: string,
    auth: Extract<Auth, { kind: 'aws' | 'google' }>,
    url: string,
  ): Promise<HeaderFields> {
    const credentials =
      auth.kind === 'aws'
        ? await awsHeaders(key, auth.service, url, body)
        : await this.#bearerOfGoogle(key, auth.scope, abort.signal)
    return withCredentials(provider, credentials, own)
  }

  #sharedHeaders(provider: ConfiguredProvider, key: string | undefined): SharedHeaders {
    let ofProvider = this.#shared.get(provider)
    if (!ofProvider) this.#shared.set(provider, (ofProvider = new Map()))
    let shared = ofProvider.get(key)
    if (!shared) {
      const fields = withCredentials(provider, keyHeader(provider, key), {})
      ofProvider.set(key, (shared = { fields, headers: headersOf(fields) }))
    }
    return shared
  }

  async #bearerOfGoogle(key: string, scope: string, signal: AbortSignal): Promise<HeaderFields> {
    try {
      return { authorization: `Bearer ${await this.#googleTokens.token(key, scope, signal)}` }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (lacksDescriptors(error)) throw noDescriptors(error)
      throw new UnreachableError(fault('credentials', messageOf(error)), error)
    }
  }

  /**
   * fetch() cannot tell connecting from waiting. The provider is therefore dialled beside the request, at once when it
   * has not answered lately and otherwise when its answer is late: when even the bare connection does not come about in
   * time, the request is given up.
   */
  #watchConnect({ provider: { baseUrl }, connectMs, abort, onReached }: SendRequest): ConnectWatch {
    const answered = this.#lastAnswer.get(baseUrl) ?? Number.NEGATIVE_INFINITY
    const isReachable = performance.now() - answered < reachableForMs
    if (isReachable) onReached?.()
    const dialled = isReachable ? 'when-late' : 'at-once'
    return new ConnectWatch(baseUrl, connectMs, abort, dialled, isReachable ? undefined : onReached)
  }
}

/** The header that carries a provider's key as it is. */
function keyHeader({ auth }: ConfiguredProvider, key: string | undefined): HeaderFields {
  if (key === undefined) return {}
  if (auth.kind === 'header') return { [auth.header]: key }
  return auth.kind === 'bearer' ? { authorization: `Bearer ${key}` } : {}
}

function withCredentials(
  provider: ConfiguredProvider,
  credentials: HeaderFields,
  own: Readonly<HeaderFields>,
): HeaderFields {
  return {
    'content-type': 'application/json',
    // A compressed stream would be held back by the decompressor and cannot be forwarded as it is.
    'accept-encoding': 'identity',
    ...provider.headers,
    ...credentials,
    ...own,
  }
}

/** Throws UnreachableError for a key that no header can carry, as one with typographic quotes: another offer may serve. */
function headersOf(fields: HeaderFields): Headers {
  try {
    return new Headers(fields)
  } catch (error) {
    const message = 'the key or a configured header has characters that no header can have'
    throw new UnreachableError(fault('credentials', message), error)
  }
}

/** A connection that comes about later than this, milliseconds, has not brought a request that was given up before. */
const decidedMs = 500

/** Watches over the connection of one request. */
class ConnectWatch {
  readonly #baseUrl: string
  readonly #connectMs: number
  readonly #abort: AbortController
  readonly #onReached: (() => void) | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #hangUp: (() => void) | undefined
  #dialled: Promise<void> | undefined
  timedOut = false

  constructor(
    baseUrl: string,
    connectMs: number,
    abort: AbortController,
    dialled: 'at-once' | 'when-late',
    onReached: (() => void) | undefined,
  ) {
    this.#onReached = onReached
    this.#baseUrl = baseUrl
    this.#connectMs = connectMs
    this.#abort = abort
    if (dialled === 'at-once') this.#watch()
    else this.#timer = setTimeout(ConnectWatch.#begin, connectMs, this)
  }

  static #begin(this: void, watch: ConnectWatch): void {
    watch.#watch()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#hangUp?.()
  }

  /** Resolves when it is known whether the provider was reached: the request may have arrived before that is seen here. */
  async isDecided(): Promise<void> {
    if (this.#onReached !== undefined) await settledWithin(decidedMs, this.#dialled)
  }

  #watch(): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#dialled = promise
    this.#hangUp = dial(this.#baseUrl, (connected) => {
      this.stop()
      // Where the bare connection fails at once and the request goes on, it goes by a proxy.
      if (connected || !this.#abort.signal.aborted) this.#onReached?.()
      resolve()
    })
    this.#timer = setTimeout(() => {
      this.timedOut = true
      this.#abort.abort()
    }, this.#connectMs)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'no token could be had'
}

/**
 * Opens a bare connection, reports that it has come about or failed, and closes it. Returns the function that abandons it: a
 * pending attempt would keep the process from ending.
 */
function dial(baseUrl: string, onEnd: (connected: boolean) => void): () => void {
  const { hostname, port, protocol } = new URL(baseUrl)
  const socket = connect({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || (protocol === 'https:' ? 443 : 80),
  })
  socket.on('connect', () => {
    onEnd(true)
    socket.destroy()
  })
  // A bare connection that fails proves nothing: the request may go through a proxy, or this process may have no descriptor
  // left. If the provider cannot be reached, the request itself fails.
  socket.on('error', () => onEnd(false))
  return () => void socket.destroy()
}

function unreachable(error: unknown, timedOut: boolean): UnreachableError {
  const providerCode = codeOf(error)
  const why = timedOut
    ? fault('timeout', 'no connection in time', { providerCode })
    : fault('cut', 'the connection could not be made or broke', { providerCode })
  return new UnreachableError(why, error)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
