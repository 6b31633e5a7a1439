// A source of one MCP server, as the loop opens it.

import type { ApprovedCall, DeclaredTools } from '../../../src/conversation/gateway-tools.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { type McpSettings, mcpSources } from '../../../src/tools/mcp/server-tools.ts'
import type { GatewayTool, OpenedTools, ToolSource } from '../../../src/tools/tool.ts'

export interface OpenOptions extends Partial<McpSettings> {
  readonly label?: string
  readonly account?: string
  readonly allowHosts?: readonly string[]
  readonly answerBytes?: number
  readonly history?: readonly JsonObject[]
  readonly approved?: readonly ApprovedCall[]
  readonly openMs?: number
  readonly signal?: AbortSignal
}

/** The source of a declaration: `server_url` and whatever else is to be in it. */
export function sourceOf(declaration: JsonObject, options: OpenOptions = {}): ToolSource {
  const { label = 'srv', account = 'account', allowHosts = ['127.0.0.1'], openMs = 5_000 } = options
  const sources = mcpSources({
    mostTools: 128,
    callBytes: 64_000_000,
    registered: () => Promise.reject(new Error('none is registered')),
    ...options,
    egress: { allowHosts, answerBytes: options.answerBytes ?? 1_000_000, ...options.egress },
  })
  const declared: DeclaredTools = {
    declarations: [],
    maxCalls: undefined,
    approved: options.approved ?? [],
    history: options.history ?? [],
  }
  return sources(
    {
      kind: 'mcp',
      param: 'tools.0',
      serverLabel: label,
      declaration: { type: 'mcp', server_label: label, require_approval: 'never', ...declaration },
    },
    declared,
    {
      account,
      mode: 'live',
      requestId: 'req_0123456789abcdef0123456789abcdef',
      signal: options.signal ?? new AbortController().signal,
      deadlineAt: performance.now() + openMs,
    },
  )
}

export interface Opened extends OpenedTools, AsyncDisposable {
  tool(name: string): GatewayTool
}

export async function opened(declaration: JsonObject, options: OpenOptions = {}): Promise<Opened> {
  const source = sourceOf(declaration, options)
  const { tools, items } = await source.open()
  return {
    tools,
    items,
    tool: (name) => {
      const found = tools.find(({ origin }) => origin.kind === 'mcp' && origin.tool === name)
      if (!found) throw new Error(`no tool ${name} is offered`)
      return found
    },
    [Symbol.asyncDispose]: () => source.close(),
  }
}

/** Runs a tool with `ms` to do it in. */
export function run(tool: GatewayTool, args: unknown = {}, ms = 5_000) {
  const signal = AbortSignal.timeout(ms)
  return tool.run(JSON.stringify(args), { signal, deadlineAt: performance.now() + ms })
}
