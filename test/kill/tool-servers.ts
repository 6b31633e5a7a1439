// What the gateway runs for a model while its process dies: a search server in the shape of SearXNG and an MCP server,
// which note for whom they have done something.

import { mcpServer, text } from '../support/mcp-server.ts'

/** What a round of a call asks the gateway for. */
export type ToolUse = 'search' | 'gauge'

/** Picodollars per search; the MCP server takes nothing. */
export const searchFee = 50_000_000n

/** The names that the tools are offered under. */
export const toolNames: Readonly<Record<ToolUse, string>> = {
  search: 'web_search',
  gauge: 'gauges__gauge',
}

export interface ToolServers {
  /** What a client declares for these tools. */
  readonly declare: (uses: readonly ToolUse[]) => readonly object[]
  /** Text of `weir.yaml` that lets the gateway use them. */
  readonly config: string
  /** How often a call's searches have been executed. */
  readonly searchesOf: (nonce: string) => number
  /** How often the MCP server was called. */
  readonly gauged: () => number
  stop(): void
}

/** What a model looks for: it names the call. */
export function queryOf(nonce: string, words: string): string {
  return `call-${nonce} ${words}`
}

function nonceIn(query: unknown): string {
  return /^call-(\d+)/.exec(String(query))?.[1] ?? ''
}

/** Milliseconds: at any moment some tools run. */
function pauseOf(nonce: string): number {
  return Number(nonce) % 60
}

export function startToolServers(): ToolServers {
  const executed = new Map<string, number>()
  const search = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const nonce = nonceIn(new URL(request.url).searchParams.get('q'))
      await Bun.sleep(pauseOf(nonce))
      executed.set(nonce, (executed.get(nonce) ?? 0) + 1)
      return Response.json({
        results: [{ url: 'https://river.example/', title: 'River', content: 'It runs.' }],
      })
    },
  })
  const gauges = mcpServer({
    tools: [{ name: 'gauge', inputSchema: { type: 'object', properties: { query: { type: 'string' } } } }],
    call: async (_, { query }) => {
      await Bun.sleep(pauseOf(nonceIn(query)))
      return text('Two metres.')
    },
  })
  const declarations: Readonly<Record<ToolUse, object>> = {
    search: { type: 'web_search' },
    gauge: { type: 'mcp', server_label: 'gauges', server_url: gauges.url, require_approval: 'never' },
  }
  return {
    declare: (uses) => [...new Set(uses)].map((use) => declarations[use]),
    config: `
search:
  backend: searxng
  base_url: http://127.0.0.1:${search.port}
  price_per_call: "0.00005"
  open_pages: false
egress: { allow_hosts: ['${gauges.host}'] }
`,
    searchesOf: (nonce) => executed.get(nonce) ?? 0,
    gauged: () => gauges.count('tools/call'),
    stop: () => {
      void search.stop(true)
      gauges[Symbol.dispose]()
    },
  }
}
