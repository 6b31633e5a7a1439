// One connection to one MCP server, for one call: opened and closed by it, and never shared.

import type { Client, JsonSchemaValidator, Transport } from '@modelcontextprotocol/client'
import { z } from 'zod'
import { settledWithin } from '../../awaitable.ts'
import { untilAborted } from '../../egress/until-aborted.ts'
import { version } from '../../version.ts'
import { type Challenge, Exchange, type McpEgress } from './exchange.ts'
import { faultOf, McpFault } from './fault.ts'
import { type CallResult, callResult } from './result.ts'

/** A server and the headers sent with every request. */
export interface McpServer {
  readonly url: string
  readonly headers: Headers
  /** Called with each answer by which the server asks for another authorisation; the answer waits for it. */
  readonly refused?: (challenge: Challenge) => void | Promise<void>
}

/** A tool as its server lists it, unchecked. */
export type RawTool = Readonly<Record<string, unknown>>

export interface CallOptions {
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
