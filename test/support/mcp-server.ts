// An MCP server for tests, by hand: it can do all that a well-made one would never do.

export interface McpRequest {
  readonly method: string
  readonly params: Record<string, unknown>
  readonly id: number | string | undefined
  readonly headers: Headers
}

/** What to answer: a result, an error of JSON-RPC, or a whole response. */
type Answer = Record<string, unknown> | Response | undefined
type Handler = (request: McpRequest) => Answer | Promise<Answer>

export interface TestMcpServer extends Disposable {
  readonly url: string
  /** `host:port`, for `egress.allow_hosts`. */
  readonly host: string
  /** All that was asked, in order. */
  readonly requests: McpRequest[]
  /** HTTP requests, of whatever kind. */
  readonly connections: () => number
  /** How often a method was asked. */
  count(method: string): number
}

export interface TestTool {
  readonly name: string
  readonly description?: string
  readonly inputSchema?: unknown
  readonly annotations?: unknown
}

export interface McpServerOptions {
  readonly tools?: readonly TestTool[] | (() => readonly TestTool[])
  readonly call?: (
    name: string,
    args: Record<string, unknown>,
    request: McpRequest,
  ) => Answer | Promise<Answer>
  /** Takes any method before the rest; undefined leaves it to the rest. */
  readonly handle?: Handler
  /** Takes the HTTP request before anything is read of it. */
  readonly http?: (request: Request) => Response | undefined | Promise<Response | undefined>
}

export const anySchema = { type: 'object', properties: {} }

export function text(value: string): Record<string, unknown> {
  return { content: [{ type: 'text', text: value }] }
}

/** Speaks the protocol of 2025 by JSON, without a session. */
export function mcpServer(options: McpServerOptions = {}): TestMcpServer {
  const requests: McpRequest[] = []
  let connections = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      connections++
      const raw = await options.http?.(request)
      if (raw) return raw
      if (request.method !== 'POST') return new Response(null, { status: 405 })
      const message = (await request.json()) as Record<string, unknown>
      const asked: McpRequest = {
        method: String(message.method),
        params: (message.params ?? {}) as Record<string, unknown>,
        id: message.id as number | string | undefined,
        headers: request.headers,
      }
      requests.push(asked)
      if (asked.id === undefined) return new Response(null, { status: 202 })
      const answer = (await options.handle?.(asked)) ?? (await answerTo(asked, options))
      if (answer instanceof Response) return answer
      return Response.json({
        jsonrpc: '2.0',
        id: asked.id,
        ...('error' in answer ? answer : { result: answer }),
      })
    },
  })
  const host = `127.0.0.1:${server.port}`
  return {
    url: `http://${host}/mcp`,
    host,
    requests,
    connections: () => connections,
    count: (method) => requests.filter((request) => request.method === method).length,
    [Symbol.dispose]: () => void server.stop(true),
  }
}

async function answerTo(
  request: McpRequest,
  options: McpServerOptions,
): Promise<Record<string, unknown> | Response> {
  switch (request.method) {
    case 'initialize':
      return {
        protocolVersion: request.params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'test', version: '1' },
      }
    case 'tools/list': {
      const tools = typeof options.tools === 'function' ? options.tools() : (options.tools ?? [])
      return { tools: tools.map((tool) => ({ inputSchema: anySchema, ...tool })) }
    }
    case 'tools/call': {
      const { name, arguments: args } = request.params
      return (
        (await options.call?.(String(name), (args ?? {}) as Record<string, unknown>, request)) ??
        text(`called ${String(name)}`)
      )
    }
    default:
      return { error: { code: -32601, message: `no ${request.method}` } }
  }
}
