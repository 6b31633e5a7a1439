// One connection to one MCP server, for one call: opened and closed by it, and never shared.

import type {
  CallToolResult,
  Client,
  ContentBlock,
  JsonSchemaValidator,
  Transport,
} from '@modelcontextprotocol/client'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { z } from 'zod'
import { settledWithin } from '../../async/async.ts'
import type { ToolImage } from '../../conversation/gateway-tools.ts'
import type { Json } from '../../conversation/request.ts'
import type { Resolve } from '../../egress/destination.ts'
import { dial, type Fetcher, untilAborted } from '../../egress/egress.ts'
import { GatewayError } from '../../errors/errors.ts'
import { hasLongInteger, parseExact } from '../../json/json.ts'
import { shapeFault } from '../../json/scan.ts'
import {
  boundedBytes,
  boundedStream,
  BudgetSpentError,
  type ByteBudget,
  TooLargeError,
} from '../../transport/bounded-body.ts'
import { version } from '../../version.ts'

/** A server and the headers sent with every request. */
export interface McpServer {
  readonly url: string
  readonly headers: Headers
  /** Called with each answer by which the server asks for another authorisation; the answer waits for it. */
  readonly refused?: (challenge: Challenge) => void | Promise<void>
}

/** A tool as its server lists it, unchecked. */
export type RawTool = Readonly<Record<string, unknown>>

interface CallOptions {
  readonly signal: AbortSignal
  readonly progress?: (progress: { done: number; total?: number; message?: string }) => void
}

/** How we introduce ourselves to servers. */
const identity = { name: 'weir', version }

/** Limit of listed tools; more are not read. */
const mostListed = 20_000
/** How long ending a session is waited for; the server ends it eventually anyway. */
const patienceMs = 1_000
/** The library has timeouts of its own, which may be shorter than ours: ours come as a signal. */
const noTimeoutMs = 2 ** 31 - 1
/** A server that names no sensible retry time is asked again after this, milliseconds. */
const retryMs = { least: 100, most: 10_000 }

const toolsPage = z.looseObject({
  tools: z.array(z.record(z.string(), z.unknown())),
  nextCursor: z.string().optional(),
})

/** Answers are not validated against the server's schema: a pattern in it could take too long. */
const trusting = {
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (value) => ({ valid: true, data: value as T, errorMessage: undefined }),
}

export class McpConnection {
  readonly #client: Client
  readonly #transport: Ending
  readonly #exchange: Exchange

  constructor(client: Client, transport: Ending, exchange: Exchange) {
    this.#client = client
    this.#transport = transport
    this.#exchange = exchange
  }

  /**
   * Connects and negotiates the protocol version, over Streamable HTTP, or HTTP with SSE for older servers. Rejects
   * with `url_not_allowed` if the server's own address may not be reached, with McpFault for any other fault of the
   * server, and with the signal's reason.
   */
  static async open(server: McpServer, egress: McpEgress, signal: AbortSignal): Promise<McpConnection> {
    try {
      return await connect(server, egress, signal, streamableHttp)
    } catch (error) {
      if (!(error instanceof McpFault) || !oldStatuses.has(error.status ?? 0)) throw error
      const old = await connect(server, egress, signal, serverSentEvents).catch(() => undefined)
      signal.throwIfAborted()
      // If neither works, the answer to the newer protocol says more.
      if (!old) throw error
      return old
    }
  }

  /** Whether the connection can still be used. */
  get usable(): boolean {
    return !this.#exchange.signal.aborted
  }

  /** All tools of the server, page by page; together they may measure what one answer may. Rejects with McpFault or the signal's reason. */
  async listTools(signal: AbortSignal): Promise<readonly RawTool[]> {
    const tools: RawTool[] = []
    const cursors = new Set<string>()
    const { received: before, mostBytes } = this.#exchange
    for (let cursor: string | undefined; ;) {
      const page = await this.#ask(
        (options) =>
          this.#client.request(
            { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
            toolsPage,
            options,
          ),
        signal,
      )
      tools.push(...page.tools)
      if (this.#exchange.received - before > mostBytes)
        throw new McpFault(`the server lists its tools in more than ${mostBytes} bytes`)
      if (tools.length > mostListed) throw new McpFault(`the server lists more than ${mostListed} tools`)
      cursor = page.nextCursor
      if (cursor === undefined) return tools
      if (cursors.has(cursor)) throw new McpFault('the list of tools of the server never ends')
      cursors.add(cursor)
    }
  }

  /** Runs a tool. Rejects with McpFault without a result, or the signal's reason, of which the server is notified. */
  callTool(
    tool: { readonly name: string; readonly inputSchema: RawTool },
    args: Record<string, unknown>,
    { signal, progress }: CallOptions,
  ): Promise<CallResult> {
    return this.#ask(async (options) => {
      const result = await this.#client.callTool(
        { name: tool.name, arguments: args },
        {
          ...options,
          toolDefinition: { name: tool.name, inputSchema: { ...tool.inputSchema, type: 'object' } },
          ...(progress && {
            onprogress: ({ progress: done, total, message }) =>
              progress({
                done,
                ...(total === undefined ? {} : { total }),
                ...(message === undefined ? {} : { message }),
              }),
          }),
        },
      )
      return callResult(result)
    }, signal)
  }

  end(why: McpFault): void {
    this.#exchange.abandon(why)
  }

  /** Ends the session at the server and closes the connection; never rejects. */
  async close(): Promise<void> {
    // A broken connection has no session to end.
    const ended = this.usable ? this.#transport.terminateSession?.().catch(() => undefined) : undefined
    await settledWithin(patienceMs, ended)
    await this.#exchange.end(patienceMs)
    await this.#client.close().catch(() => undefined)
  }

  async #ask<T>(
    ask: (options: { signal: AbortSignal; timeout: number }) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const either = AbortSignal.any([signal, this.#exchange.signal])
    try {
      return await ask({ signal: either, timeout: noTimeoutMs })
    } catch (error) {
      signal.throwIfAborted()
      throw this.#exchange.signal.aborted ? this.#exchange.signal.reason : faultOf(error)
    }
  }
}

/** Statuses by which a server without Streamable HTTP answers it, according to the specification. */
const oldStatuses = new Set([400, 404, 405])

type Ending = Transport & { terminateSession?: () => Promise<void> }
type Library = typeof import('@modelcontextprotocol/client')
type MakeTransport = (library: Library, server: McpServer, exchange: Exchange) => Ending

const streamableHttp: MakeTransport = (library, { url, headers }, exchange) =>
  new library.StreamableHTTPClientTransport(new URL(url), {
    fetch: exchange.fetchFor({ streams: false }),
    requestInit: { headers },
    reconnectionOptions: {
      initialReconnectionDelay: retryMs.least,
      maxReconnectionDelay: retryMs.most,
      reconnectionDelayGrowFactor: 2,
      maxRetries: 3,
    },
    reconnectionScheduler: (reconnect, delayMs) => {
      const timer = setTimeout(reconnect, Math.max(delayMs, retryMs.least))
      return () => clearTimeout(timer)
    },
  })

const serverSentEvents: MakeTransport = (library, { url, headers }, exchange) => {
  const fetch = exchange.fetchFor({ streams: true })
  return new library.SSEClientTransport(new URL(url), {
    fetch,
    requestInit: { headers },
    eventSourceInit: { fetch },
  })
}

async function connect(
  server: McpServer,
  egress: McpEgress,
  signal: AbortSignal,
  make: MakeTransport,
): Promise<McpConnection> {
  // It is large, and most calls do not need it.
  const library = await import('@modelcontextprotocol/client')
  const exchange = new Exchange(egress, server.refused)
  const client = new library.Client(identity, {
    versionNegotiation: { mode: 'auto' },
    jsonSchemaValidator: trusting,
  })
  const transport = make(library, server, exchange)
  const either = AbortSignal.any([signal, exchange.signal])
  try {
    // The library does not stop waiting at every step of a handshake.
    await untilAborted(() => client.connect(transport, { signal: either, timeout: noTimeoutMs }), either)
    return new McpConnection(client, transport, exchange)
  } catch (error) {
    const fault = exchange.refusal ?? (exchange.signal.aborted ? exchange.signal.reason : faultOf(error))
    await exchange.end(0)
    await client.close().catch(() => undefined)
    signal.throwIfAborted()
    throw fault
  }
}

// Everything the MCP library sends and receives: only to checked addresses, and with limits on the size, depth and
// duration of answers, because the library parses each in one go.

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
    return this.#check(await asked.catch((error: unknown) => this.#refuse(error)), signal)
  }

  #refuse(error: unknown): never {
    if (this.#requests === 1 && error instanceof GatewayError && error.code === 'url_not_allowed') {
      this.refusal = error
    }
    throw error
  }

  async #check(response: Response, signal: AbortSignal): Promise<Response> {
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

// Explains a failed server to the caller and the model.

/** At most this many characters of a server's message are repeated. */
const mostRepeated = 300

/** A server or its answer cannot be used. The message contains no secret of ours. */
export class McpFault extends Error {
  /** The HTTP status of the faulty answer. */
  readonly status: number | undefined

  constructor(message: string, { status, cause }: { status?: number | undefined; cause?: unknown } = {}) {
    super(message, { cause })
    this.name = 'McpFault'
    this.status = status
  }
}

/** The runtime's codes for a connection that broke. */
const connectionCode = /^(?:ECONN|EPIPE|ConnectionClosed)/

/** Anything that the library throws. */
export function faultOf(error: unknown): McpFault {
  if (error instanceof McpFault) return error
  const known = causes(error).find((cause) => cause instanceof McpFault || cause instanceof GatewayError)
  if (known instanceof McpFault) return known
  if (known instanceof GatewayError) return new McpFault(known.message, { cause: known })
  const lacking = causes(error).find((cause) => cause instanceof Error && 'requiredScope' in cause)
  if (lacking) {
    const { requiredScope } = lacking as { requiredScope?: string }
    const message = `the server has to be authorised again, for more than now: ${plain(requiredScope ?? '')}`
    return new McpFault(message, { status: 403, cause: error })
  }
  const status = statusOf(error)
  if (status !== undefined)
    return new McpFault(`the server answered HTTP ${status}`, { status, cause: error })
  if (causes(error).some((cause) => connectionCode.test(String((cause as { code?: unknown }).code))))
    return new McpFault('the server closed the connection', { cause: error })
  // A number is a JSON-RPC error code of the server; a text is one of the library's codes.
  if (codeOf(error) !== undefined) {
    return new McpFault(`the server reports: ${plain(error instanceof Error ? error.message : '')}`, {
      cause: error,
    })
  }
  const said = error instanceof Error ? plain(error.message) : ''
  return new McpFault(`the server did not answer in the protocol's words${said && `: ${said}`}`, {
    cause: error,
  })
}

/** An untrusted server's message on one line, shortened. */
export function plain(text: string): string {
  // Control characters would end up in logs and terminals.
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
  return line.length > mostRepeated ? `${line.slice(0, mostRepeated)}…` : line
}

function causes(error: unknown): unknown[] {
  const found: unknown[] = []
  for (let at = error; at instanceof Error && found.length < 8; at = at.cause) found.push(at)
  return found
}

function statusOf(error: unknown): number | undefined {
  for (const cause of causes(error)) {
    const held = cause as { status?: unknown; code?: unknown; data?: { status?: unknown } }
    for (const value of [held.data?.status, held.status, held.code]) {
      if (typeof value === 'number' && value >= 300 && value < 600) return value
    }
    if (cause instanceof Error && cause.name === 'UnauthorizedError') return 401
  }
  return undefined
}

function codeOf(error: unknown): number | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' ? code : undefined
}

// Converts the result of an MCP tool to text and images for a model.

/** Longer texts are cut, characters: the caller pays for everything the model reads, in every round. */
const mostCharacters = 100_000
/** More of them are left out. */
const mostImages = 10

export interface CallResult {
  /** Never empty. */
  readonly text: string
  readonly images: readonly ToolImage[]
  /** The tool reports its own failure; `text` gives the reason. */
  readonly isError: boolean
  /** The structured result, if the tool returned one. */
  readonly structured: Json | undefined
}

/** How images begin that models accept, as Latin-1. Other media are named in the text. */
const imageSignatures: readonly (readonly [mediaType: string, signature: RegExp])[] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
]

/** Where a result has its structured content as exact text: the library reads integers beyond 2^53 as doubles. */
const exactText = 'weir/structured-content'

/** A message of a server on its way to the library, so that `callResult` can tell long integers exactly. */
function withExactText(message: string): string {
  if (!message.includes('"structuredContent"') || !hasLongInteger(message)) return message
  const read = parseMessage(message)
  const { result } = read
  if (typeof result?.structuredContent !== 'object') return message
  const _meta = { ...result._meta, [exactText]: JSON.stringify(result.structuredContent) }
  return JSON.stringify({ ...read, result: { ...result, _meta } })
}

/** The library complains of what is no JSON. */
function parseMessage(message: string): { readonly result?: CallToolResult } {
  try {
    return { ...(parseExact(message) as object) }
  } catch {
    return {}
  }
}

function callResult({ content, structuredContent, isError, _meta }: CallToolResult): CallResult {
  const images: ToolImage[] = []
  const texts = (content ?? []).map((block) => textOf(block, images)).filter((text) => text !== '')
  // Tools that return structured results should repeat them as text; not all do.
  if (texts.length === 0 && structuredContent !== undefined)
    texts.push(String(_meta?.[exactText] ?? JSON.stringify(structuredContent)))
  if (texts.length === 0) texts.push(images.length > 0 ? '(see image)' : '(the tool gave no output)')
  const structured = structuredContent as Json | undefined
  // Half a character would make the provider refuse the whole request.
  return { text: cut(texts.join('\n')).toWellFormed(), images, isError: isError === true, structured }
}

function textOf(block: ContentBlock, images: ToolImage[]): string {
  switch (block.type) {
    case 'text':
      return block.text
    case 'image':
      return imageOf(block.mimeType, block.data, images)
    case 'audio':
      return leftOut('audio', block.mimeType, block.data)
    case 'resource_link':
      return `${plain(block.title ?? block.name)}: ${plain(block.uri)}`
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return `${plain(resource.uri)}:\n${resource.text}`
      const mediaType = resource.mimeType ?? 'application/octet-stream'
      return /^image\//i.test(mediaType)
        ? imageOf(mediaType, resource.blob, images)
        : leftOut('resource', mediaType, resource.blob)
    }
    default:
      return ''
  }
}

function imageOf(mediaType: string, data: string, images: ToolImage[]): string {
  const type = isBase64(data) ? imageTypeOf(data) : undefined
  if (type === undefined || images.length >= mostImages) return leftOut('image', mediaType, data)
  images.push({ mediaType: type, data })
  return ''
}

/** What an image is. Servers name wrong types, for which providers refuse the whole request; undefined for no image. */
function imageTypeOf(data: string): string | undefined {
  const start = Buffer.from(data.slice(0, 16), 'base64').toString('latin1')
  return imageSignatures.find(([, signature]) => signature.test(start))?.[0]
}

function isBase64(text: string): boolean {
  return text.length > 0 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text)
}

function leftOut(kind: string, mediaType: string, data: string): string {
  return `(${kind} of type ${plain(mediaType).slice(0, 80)}, ${Math.floor((data.length * 3) / 4)} bytes, left out)`
}

function cut(text: string): string {
  if (text.length <= mostCharacters) return text
  return `${text.slice(0, mostCharacters)}\n(cut after ${mostCharacters} of ${text.length} characters)`
}
