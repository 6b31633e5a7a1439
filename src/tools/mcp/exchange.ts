// Everything the MCP library sends and receives: only to checked addresses, and with limits on the size, depth and
// duration of answers, because the library parses each in one go.

import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { settledWithin } from '../../awaitable.ts'
import {
  boundedBytes,
  boundedStream,
  BudgetSpentError,
  type ByteBudget,
  TooLargeError,
} from '../../bounded-body.ts'
import { dial, type Fetcher } from '../../egress/egress.ts'
import type { Resolve } from '../../egress/destination.ts'
import { GatewayError } from '../../errors.ts'
import { shapeFault } from '../../json/shape.ts'
import { McpFault } from './fault.ts'
import { withExactText } from './result.ts'

/** Limit of requests per connection: a server could make the library repeat them endlessly. */
const mostRequests = 500

/** How the gateway reaches users' servers. */
export interface McpEgress {
  /** `host` or `host:port` entries that may be private: the setting `egress.allow_hosts`. */
  readonly allowHosts: readonly string[]
  /** The most bytes of one answer, after decompression. */
  readonly answerBytes: number
  /** What all servers of one call may send together; without one, each answer has its own limit alone. */
  readonly budget?: ByteBudget
  readonly fetcher?: Fetcher
  readonly resolve?: Resolve
}

/** How a server refuses a request: status 401 or 403, and its `WWW-Authenticate`, which may be empty. */
export interface Challenge {
  readonly status: number
  readonly header: string
}

/** Whether the tokens are the reason: refused, or with too little scope (RFC 6750, 3.1). */
export function asksForAuthorization({ status, header }: Challenge): boolean {
  return status === 401 || /\berror="?insufficient_scope\b/i.test(header)
}

/** The most characters of a `WWW-Authenticate` that are read. */
const mostOfChallenge = 2_048

/** A fetch of the library's, for the requests of one connection. */
export class Exchange {
  readonly #egress: McpEgress
  readonly #challenged: ((challenge: Challenge) => void | Promise<void>) | undefined
  readonly #ended = new AbortController()
  readonly #last = new Set<Promise<unknown>>()
  #requests = 0
  #received = 0
  /** Why the very first request may not be sent: the caller's own address is at fault, not the server. */
  refusal: GatewayError | undefined

  constructor(egress: McpEgress, refused?: (challenge: Challenge) => void | Promise<void>) {
    this.#egress = egress
    this.#challenged = refused
  }

  /** Aborts when the server violates the protocol or our limits. Its reason is an McpFault. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** The most bytes of one answer. */
  get mostBytes(): number {
    return this.#egress.answerBytes
  }

  /** The bytes of all answers so far, after decompression. */
  get received(): number {
    return this.#received
  }

  /** Ends all requests and answers, once those that end a session are sent or `patienceMs` have passed. */
  async end(patienceMs: number): Promise<void> {
    await settledWithin(patienceMs, Promise.allSettled(this.#last))
    this.#ended.abort(new McpFault('the connection is closed'))
  }

  /** Ends all requests and answers at once. */
  abandon(why: McpFault): void {
    this.#ended.abort(why)
  }

  /** A fetch for the library. `streams` allows it a stream without a request to answer. */
  fetchFor({ streams }: { readonly streams: boolean }) {
    return (url: string | URL, init?: RequestInit): Promise<Response> => {
      const headers = new Headers(init?.headers)
      // Messages a server sends on its own are of no use within one call. Lost answers are still fetched.
      if (!streams && init?.method === 'GET' && !headers.has('last-event-id')) {
        return Promise.resolve(new Response(null, { status: 405 }))
      }
      const { body: given } = init ?? {}
      const body = typeof given === 'string' || given instanceof URLSearchParams ? String(given) : undefined
      const sent = this.#send(String(url), {
        method: init?.method ?? 'GET',
        headers,
        body,
        signal: init?.signal,
      })
      if (init?.method === 'DELETE' || body?.includes('"notifications/cancelled"') === true)
        this.#remember(sent)
      return sent
    }
  }

  readonly #meter = {
    take: (bytes: number): void => {
      this.#received += bytes
      this.#egress.budget?.take(bytes)
    },
  }

  #remember(sent: Promise<unknown>): void {
    this.#last.add(sent)
    void sent.then(
      () => this.#last.delete(sent),
      () => this.#last.delete(sent),
    )
  }

  async #send(
    url: string,
    request: {
      readonly method: string
      readonly headers: Headers
      readonly body: string | undefined
      readonly signal: AbortSignal | null | undefined
    },
  ): Promise<Response> {
    if (++this.#requests > mostRequests) throw this.#fault(`needs more than ${mostRequests} requests`)
    const signal = request.signal ? AbortSignal.any([request.signal, this.signal]) : this.signal
    const { method, headers, body } = request
    const asked = dial(
      url,
      { method, headers, ...(body === undefined ? {} : { body }) },
      { ...this.#egress, signal },
    )
    return this.#checked(await asked.catch((error: unknown) => this.#refused(error)), signal)
  }

  #refused(error: unknown): never {
    if (this.#requests === 1 && error instanceof GatewayError && error.code === 'url_not_allowed') {
      this.refusal = error
    }
    throw error
  }

  async #checked(response: Response, signal: AbortSignal): Promise<Response> {
    const { status, statusText } = response
    const headers = new Headers(response.headers)
    // They describe the compressed bytes, which are not passed on.
    headers.delete('content-encoding')
    headers.delete('content-length')
    if (status === 401 || status === 403) {
      const header = headers.get('www-authenticate') ?? ''
      await this.#challenged?.({ status, header: header.slice(0, mostOfChallenge) })
    }
    if (response.body === null || [204, 205, 304].includes(status)) {
      await response.body?.cancel().catch(() => undefined)
      return new Response(null, { status, statusText, headers })
    }
    const body = isEventStream(response) ? this.#events(response) : await this.#whole(response, signal)
    return new Response(body, { status, statusText, headers })
  }

  async #whole(response: Response, signal: AbortSignal): Promise<string> {
    try {
      const text = new TextDecoder().decode(
        await boundedBytes(response, this.#egress.answerBytes, signal, this.#meter),
      )
      const fault = shapeFault(text)
      if (fault !== undefined) throw this.#fault(`sent an answer that ${fault}`)
      return withExactText(text)
    } catch (error) {
      throw this.#asFault(error)
    }
  }

  /** The same events, rewritten and checked before the library parses them. */
  #events(response: Response): ReadableStream<Uint8Array> {
    const body = boundedStream(response, this.#egress.answerBytes, this.#meter)
    if (!body) return new ReadableStream()
    const text = new TextDecoder()
    const bytes = new TextEncoder()
    const written: string[] = []
    const parser = createParser({
      onEvent: (event) => {
        const fault = shapeFault(event.data)
        if (fault !== undefined) throw new McpFault(`the server sent an answer that ${fault}`)
        written.push(asText({ ...event, data: withExactText(event.data) }))
      },
      onRetry: (ms) => written.push(`retry: ${ms}\n\n`),
    })
    const reader = body.getReader()
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          while (written.length === 0) {
            const { done, value } = await reader.read()
            if (done) return controller.close()
            parser.feed(text.decode(value, { stream: true }))
          }
          controller.enqueue(bytes.encode(written.splice(0).join('')))
        } catch (error) {
          void reader.cancel().catch(() => undefined)
          controller.error(this.#asFault(error))
        }
      },
      cancel: (reason) => reader.cancel(reason),
    })
  }

  /** Makes the library stop retrying or waiting for this server. */
  #fault(what: string): McpFault {
    return this.#end(new McpFault(`the server ${what}`))
  }

  #asFault(error: unknown): unknown {
    if (error instanceof McpFault) return this.#end(error)
    if (error instanceof BudgetSpentError)
      return this.#end(new McpFault('the MCP servers of this call have sent more than one call may read'))
    const tooLarge = error instanceof TooLargeError
    return tooLarge ? this.#fault(`sent an answer of more than ${this.#egress.answerBytes} bytes`) : error
  }

  #end(fault: McpFault): McpFault {
    this.abandon(fault)
    return fault
  }
}

function isEventStream(response: Response): boolean {
  return /^\s*text\/event-stream\b/i.test(response.headers.get('content-type') ?? '')
}

function asText({ id, event, data }: EventSourceMessage): string {
  const lines = data.split('\n').map((line) => `data: ${line}\n`)
  return `${id === undefined ? '' : `id: ${id}\n`}${event === undefined ? '' : `event: ${event}\n`}${lines.join('')}\n`
}
