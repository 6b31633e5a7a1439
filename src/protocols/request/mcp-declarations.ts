// MCP servers as a request declares them, and as it may be shown to others.

import type { McpDeclaration, ToolDeclaration } from '../../conversation/gateway-tools.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'
import { invalidParam } from './invalid-param.ts'

/** The most servers of one request: each is a connection. */
const mostServers = 16
const labelForm = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** `mcp` of OpenAI's protocols; what else it holds is checked where the server is opened. */
export function mcpDeclaration(declaration: JsonObject, param: string): McpDeclaration {
  const { server_label: serverLabel } = declaration
  if (typeof serverLabel !== 'string' || !labelForm.test(serverLabel)) {
    throw invalidParam(`${param}.server_label`, 'must be up to 64 letters, digits, underscores and hyphens.')
  }
  return { kind: 'mcp', param, serverLabel, declaration }
}

/** Throws `invalid_request` for two servers of one label, and for too many. */
export function refuseRepeatedServers(declarations: readonly ToolDeclaration[]): void {
  const labels = new Set<string>()
  for (const declaration of declarations) {
    if (declaration.kind !== 'mcp') continue
    const { serverLabel, param, names: fields } = declaration
    if (labels.has(serverLabel)) {
      const field = fields?.['server_label'] ?? 'server_label'
      throw invalidParam(`${param}.${field}`, 'another server of this request has it.')
    }
    labels.add(serverLabel)
    if (labels.size > mostServers)
      throw invalidParam(param, `a request names at most ${mostServers} MCP servers.`)
  }
}

// ---- Anthropic's -----------------------------------------------------------------------------------------------

/**
 * `mcp_servers` of the Messages API, with what each `mcp_toolset` among the tools says of them. The protocol has no
 * approvals: every call is run.
 */
export function messagesServers(servers: unknown, tools: readonly JsonObject[]): readonly McpDeclaration[] {
  if (servers != null && !Array.isArray(servers)) throw invalidParam('mcp_servers', 'must be a list.')
  const named = (servers ?? []) as readonly Json[]
  const toolsets = tools.filter(({ type }) => type === 'mcp_toolset')
  const serverNames = new Set(named.map((server) => (isObject(server) ? server.name : undefined)))
  for (const [at, { type, mcp_server_name: name }] of tools.entries()) {
    if (type === 'mcp_toolset' && (name === undefined || !serverNames.has(name)))
      throw invalidParam(`tools.${at}.mcp_server_name`, 'mcp_servers names no such server.')
  }
  // Of several for one server the first holds.
  const toolsetOf = new Map(toolsets.toReversed().map((toolset) => [toolset.mcp_server_name, toolset]))
  return named.map((server: Json, at) => {
    const param = `mcp_servers.${at}`
    if (!isObject(server)) throw invalidParam(param, 'must be an object.')
    const { type, name, url, authorization_token: token, tool_configuration: configuration } = server
    if (type != null && type !== 'url')
      throw invalidParam(
        `${param}.type`,
        'must be url: servers are reached by their address, no program is started.',
      )
    if (typeof name !== 'string' || !labelForm.test(name)) {
      throw invalidParam(`${param}.name`, 'must be up to 64 letters, digits, underscores and hyphens.')
    }
    const toolset = toolsetOf.get(name)
    const declaration: JsonObject = {
      type: 'mcp',
      server_label: name,
      require_approval: 'never',
      ...(url == null ? {} : { server_url: url }),
      ...(token == null ? {} : { authorization: token }),
      ...(toolset ? toolsOfSet(toolset, `${param}.tools`) : toolsOfConfiguration(configuration)),
    }
    return { kind: 'mcp', param, serverLabel: name, declaration, names }
  })
}

const names = { server_url: 'url', authorization: 'authorization_token', server_label: 'name' }

/** The older beta. */
function toolsOfConfiguration(configuration: Json | undefined): JsonObject {
  if (!isObject(configuration)) return {}
  if (configuration.enabled === false) return { allowed_tools: [] }
  return configuration.allowed_tools == null ? {} : { allowed_tools: configuration.allowed_tools }
}

function toolsOfSet({ default_config: usual, configs }: JsonObject, param: string): JsonObject {
  if (configs != null && !isObject(configs)) throw invalidParam(param, 'configs must be an object.')
  const entries = Object.entries(configs ?? {})
  const namesOf = (enabled: boolean) =>
    entries.filter(([, config]) => isObject(config) && config.enabled === enabled).map(([name]) => name)
  const allByDefault = !isObject(usual) || usual.enabled !== false
  return allByDefault ? { disallowed_tools: namesOf(false) } : { allowed_tools: namesOf(true) }
}

// ---- shown to others -------------------------------------------------------------------------------------------

const hidden = '<redacted>'

/**
 * A declared tool without its secrets: tokens, header values, and the path of the address, which often contains a key.
 * For answers and storage.
 */
export function shownTool(tool: JsonObject): JsonObject {
  const { server_url: url, authorization: _, headers, ...shown } = tool
  if (tool.type !== 'mcp') return tool
  const origin = typeof url === 'string' ? URL.parse(url)?.origin : undefined
  return {
    ...shown,
    ...(url === undefined ? {} : { server_url: origin === undefined ? hidden : `${origin}/${hidden}` }),
    ...(isObject(headers)
      ? { headers: Object.fromEntries(Object.keys(headers).map((name) => [name, hidden])) }
      : {}),
  }
}

/** A client's body as it may be logged. */
export function shownBody(body: JsonObject): JsonObject {
  const { tools, mcp_servers: servers } = body
  const shown: JsonObject = {}
  if (Array.isArray(tools) && tools.some((tool) => isObject(tool) && tool.type === 'mcp'))
    shown['tools'] = tools.map((tool) => (isObject(tool) ? shownTool(tool) : tool))
  if (Array.isArray(servers))
    shown['mcp_servers'] = servers.map((server) => (isObject(server) ? { name: server.name ?? null } : null))
  return Object.keys(shown).length === 0 ? body : { ...body, ...shown }
}
