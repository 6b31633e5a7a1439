// MCP servers as sources of tools: one server of one call each.

import type { DeclaredTools, McpDeclaration } from '../../conversation/gateway-tools.ts'
import { checkUrl } from '../../egress/destination.ts'
import { GatewayError } from '../../errors/errors.ts'
import { ByteBudget } from '../../transport/bounded-body.ts'
import type { ToolCaller, ToolSource, ToolSources } from '../tool.ts'
import {
  asksForAuthorization,
  type Challenge,
  McpConnection,
  type McpEgress,
  McpFault,
  type McpServer,
} from './connection.ts'
import { listingOf } from './listing.ts'
import { checkedDeclaration, type CheckedDeclaration, ServerTools } from './server-tools.ts'

export interface McpSettings {
  readonly egress: McpEgress
  /** The most tools of one server that are offered. */
  readonly mostTools: number
  /** What all servers of one call may send together, bytes. */
  readonly callBytes: number
  /**
   * The server that an account registered under a name, with its headers. Rejects with GatewayError if there is none,
   * or it cannot be used now.
   */
  readonly registered: (account: string, name: string) => Promise<McpServer>
}

/** Serves `mcp` declarations. Each has a connection of its own, for its own call: accounts never share one. */
export function mcpSources(settings: McpSettings): ToolSources['mcp'] {
  // Servers of one call are opened for the same caller.
  const budgets = new WeakMap<ToolCaller, ByteBudget>()
  return (declaration, declared, caller) => {
    const budget = budgets.get(caller) ?? new ByteBudget(settings.callBytes)
    budgets.set(caller, budget)
    const egress = { ...settings.egress, budget }
    const checked = checkNamed(declaration, () => checkedDeclaration(declaration))
    const param = fieldOf(declaration, 'server_url')
    return mcpSource({ ...settings, egress }, checked, param, declared, caller)
  }
}

/** One server of one call. `param` is the field that its address is in. */
function mcpSource(
  settings: McpSettings,
  declaration: CheckedDeclaration,
  param: string,
  { history, approved }: DeclaredTools,
  { signal: gone, deadlineAt, account, requestId }: ToolCaller,
): ToolSource {
  const closed = new AbortController()
  const { label, target } = declaration
  let tools: ServerTools | undefined

  const serverOf = async (): Promise<McpServer> => {
    if (target.kind === 'registered') {
      return settings.registered(account, target.name).catch((error: unknown) => {
        if (!(error instanceof GatewayError) || error.code !== 'not_found') throw error
        const message = `The account has registered no MCP server named ${JSON.stringify(target.name)}, and no address is given.`
        throw new GatewayError('not_found', { ...error.details, message, param, cause: error })
      })
    }
    const { allowHosts } = settings.egress
    const url = checkUrl(target.server.url, { allowHosts, param })
    return { ...target.server, url: url.href }
  }

  return {
    async open() {
      const late = AbortSignal.timeout(Math.max(0, deadlineAt - performance.now()))
      tools = new ServerTools(settings, declaration, { server: await serverOf(), requestId })
      const listed = history.findLast((item) => item.type === 'mcp_list_tools' && item.server_label === label)
      // What was approved is compared with what the server offers now, and not with what it said before.
      const anew = approved.some(({ serverLabel }) => serverLabel === label)
      try {
        return await tools.open(listed, anew, AbortSignal.any([closed.signal, gone, late]))
      } catch (error) {
        throw asParam(error, param)
      }
    },
    async close() {
      closed.abort(new DOMException('the call has ended', 'AbortError'))
      await tools?.close()
    },
  }
}

function fieldOf({ param, names }: McpDeclaration, field: string): string {
  return `${param}.${names?.[field] ?? field}`
}

/** Errors name fields as the client wrote them. */
function checkNamed<T>(declaration: McpDeclaration, check: () => T): T {
  try {
    return check()
  } catch (error) {
    const { param, names = {} } = declaration
    const renamed = Object.keys(names).find(
      (name) => error instanceof GatewayError && error.details.param === `${param}.${name}`,
    )
    if (renamed === undefined || !(error instanceof GatewayError)) throw error
    const field = fieldOf(declaration, renamed)
    const message = error.message.replaceAll(`${param}.${renamed}`, field)
    throw new GatewayError(error.code, { ...error.details, param: field, message })
  }
}

/** The door does not know which field of the request held the address. */
function asParam(error: unknown, param: string): unknown {
  if (!(error instanceof GatewayError) || error.code !== 'url_not_allowed') return error
  return new GatewayError(error.code, { ...error.details, param, cause: error })
}

// Tests whether a server answers, and lists its tools.

export interface McpProbe {
  /** Names of the tools that can be offered. */
  readonly tools: readonly string[]
  /** Why there are none, or fewer than the server has. */
  readonly error: string | undefined
  /** The server requires an authorisation, or one with more scope. */
  readonly needsAuthorization: boolean
}

/** Connects and lists. Rejects with GatewayError if the address may not be reached, and with the signal's reason. */
export async function probeServer(
  server: McpServer,
  settings: { readonly egress: McpEgress; readonly mostTools: number },
  signal: AbortSignal,
): Promise<McpProbe> {
  let connection: McpConnection | undefined
  let needsAuthorization = false
  const onChallenge = async (challenge: Challenge) => {
    needsAuthorization ||= asksForAuthorization(challenge)
    await server.refused?.(challenge)
  }
  try {
    connection = await McpConnection.open({ ...server, refused: onChallenge }, settings.egress, signal)
    const { tools, error } = listingOf(await connection.listTools(signal), () => true, settings.mostTools)
    return { tools: tools.map(({ name }) => name), error, needsAuthorization }
  } catch (error) {
    if (error instanceof McpFault) return { tools: [], error: `${error.message}.`, needsAuthorization }
    if (signal.aborted) {
      return { tools: [], error: 'the server did not answer in time.', needsAuthorization }
    }
    throw error
  } finally {
    await connection?.close()
  }
}
