// MCP servers as sources of tools: one server of one call each.

import type { DeclaredTools } from '../../conversation/gateway-tools.ts'
import { checkUrl } from '../../egress/destination.ts'
import { GatewayError } from '../../errors.ts'
import type { ToolCaller, ToolSource, ToolSources } from '../tool.ts'
import type { McpServer } from './connection.ts'
import { checkedDeclaration, type CheckedDeclaration } from './declaration.ts'
import type { McpEgress } from './exchange.ts'
import { ServerTools } from './server-tools.ts'

export interface McpSettings {
  readonly egress: McpEgress
  /** The most tools of one server that are offered. */
  readonly mostTools: number
  /**
   * The server that an account has registered under a name, with what it is sent. Rejects with GatewayError where there
   * is none, or where it cannot be used now.
   */
  readonly registered: (account: string, name: string) => Promise<McpServer>
}

/** Serves `mcp` declarations. Each has a connection of its own, for its own call: accounts never share one. */
export function mcpSources(settings: McpSettings): ToolSources['mcp'] {
  return (declaration, declared, caller) => {
    const checked = checkedDeclaration(declaration)
    return new McpSource(settings, checked, declaration.param, declared, caller)
  }
}

class McpSource implements ToolSource {
  readonly #closed = new AbortController()
  readonly #settings: McpSettings
  readonly #declaration: CheckedDeclaration
  readonly #param: string
  readonly #declared: DeclaredTools
  readonly #caller: ToolCaller
  #tools: ServerTools | undefined

  constructor(
    settings: McpSettings,
    declaration: CheckedDeclaration,
    param: string,
    declared: DeclaredTools,
    caller: ToolCaller,
  ) {
    this.#settings = settings
    this.#declaration = declaration
    this.#param = param
    this.#declared = declared
    this.#caller = caller
  }

  async open() {
    const { signal: gone, deadlineAt, account } = this.#caller
    const signals = [
      this.#closed.signal,
      gone,
      AbortSignal.timeout(Math.max(0, deadlineAt - performance.now())),
    ]
    const server = await this.#server(account)
    this.#tools = new ServerTools(this.#settings, this.#declaration, server)
    const { label } = this.#declaration
    const { history, approved } = this.#declared
    const listed = history.findLast((item) => item.type === 'mcp_list_tools' && item.server_label === label)
    // What was approved is compared with what the server offers now, and not with what it said before.
    const anew = approved.some(({ serverLabel }) => serverLabel === label)
    try {
      return await this.#tools.open(listed, anew, AbortSignal.any(signals))
    } catch (error) {
      throw asParam(error, `${this.#param}.server_url`)
    }
  }

  async close(): Promise<void> {
    this.#closed.abort(new DOMException('the call has ended', 'AbortError'))
    await this.#tools?.close()
  }

  async #server(account: string): Promise<McpServer> {
    const { target } = this.#declaration
    if (target.kind === 'registered') {
      return this.#settings.registered(account, target.name)
    }
    const { allowHosts } = this.#settings.egress
    const url = checkUrl(target.server.url, { allowHosts, param: `${this.#param}.server_url` })
    return { ...target.server, url: url.href }
  }
}

/** The door does not know which field of the request held the address. */
function asParam(error: unknown, param: string): unknown {
  if (!(error instanceof GatewayError) || error.code !== 'url_not_allowed') return error
  return new GatewayError(error.code, { ...error.details, param, cause: error })
}
