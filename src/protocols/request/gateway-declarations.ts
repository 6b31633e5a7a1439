// What a request declares of tools that the gateway runs, by whatever name the client's protocol has for them.

import type {
  DeclaredTools,
  GatewayChoice,
  SearchLocation,
  ToolDeclaration,
  ToolSelector,
  WebSearchDeclaration,
} from '../../conversation/gateway-tools.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'
import { Approvals, type PlacedItem } from './approvals.ts'
import { invalidParam } from './invalid-param.ts'
import { mcpDeclaration, refuseRepeatedServers } from './mcp-declarations.ts'

/** `web_search`, its previews and dated names. */
const searchType = /^(openrouter:)?web_search(_\w+)?$/

/** Whether a tool of this type, or a choice of it, is one of the gateway's. */
export function isGatewayTool(type: unknown): boolean {
  return typeof type === 'string' && (searchType.test(type) || type === 'mcp')
}

/** Which tools of the gateway a choice, or an entry of a list of allowed ones, names; undefined for none. */
export function selectorOf(choice: { readonly [field: string]: unknown }): ToolSelector | undefined {
  const { type, server_label: serverLabel, name } = choice
  if (type !== 'mcp') return isGatewayTool(type) ? { kind: 'web-search' } : undefined
  if (typeof serverLabel !== 'string') return undefined
  return { kind: 'mcp', serverLabel, ...(typeof name === 'string' ? { tool: name } : {}) }
}

const readFields = new Set([
  'type',
  'name',
  'engine',
  'search_context_size',
  'user_location',
  'filters',
  'allowed_domains',
  'blocked_domains',
  'max_uses',
  'external_web_access',
])

/**
 * A tool that the gateway runs; undefined for any other. `param` is where it stands in the client's body. Throws
 * GatewayError `invalid_request` for a field of the wrong kind.
 */
export function declarationOf(tool: JsonObject, param: string): ToolDeclaration | undefined {
  if (tool['type'] === 'mcp') return mcpDeclaration(tool, param)
  return isGatewayTool(tool['type']) ? searchDeclaration(tool, param) : undefined
}

/** A web search, from its options alone. */
export function searchDeclaration(options: JsonObject, param: string): WebSearchDeclaration {
  const filters = objectOf(options['filters'], `${param}.filters`)
  const domains = (field: string) =>
    [
      ...domainsOf(filters[field], `${param}.filters.${field}`),
      ...domainsOf(options[field], `${param}.${field}`),
    ] as const
  const rest = Object.entries(options).filter(([field]) => !readFields.has(field))
  return {
    kind: 'web-search',
    param,
    engine: textOf(options['engine'], `${param}.engine`) ?? 'auto',
    contextSize: contextSizeOf(options['search_context_size'], `${param}.search_context_size`),
    location: locationOf(options['user_location'], `${param}.user_location`),
    allowedDomains: domains('allowed_domains'),
    blockedDomains: domains('blocked_domains'),
    ...(options['filters'] == null ? {} : { domainsParam: `${param}.filters` }),
    maxUses: countOf(options['max_uses'], `${param}.max_uses`),
    rest: Object.fromEntries(rest),
    // Only OpenAI's stored pages are asked for: Codex does so with every request, unless its user says otherwise.
    ...(options['external_web_access'] === false ? { optional: true } : {}),
  }
}

const noItems: readonly PlacedItem[] = []

/**
 * All declared tools, with what the `history` contains of them; undefined if there are none. Throws `invalid_request`
 * for servers with the same name, and for approvals that were never requested or whose server is not declared.
 */
export function declaredTools(
  declarations: readonly ToolDeclaration[],
  {
    maxCalls,
    choice,
    history = noItems,
  }: {
    readonly maxCalls: number | undefined
    readonly choice: GatewayChoice | undefined
    readonly history?: readonly PlacedItem[]
  },
): DeclaredTools | undefined {
  if (declarations.length === 0 && history.length === 0) return undefined
  refuseRepeatedServers(declarations)
  const { approved } = new Approvals(history)
  for (const { serverLabel } of approved) {
    const isDeclared = declarations.some((each) => each.kind === 'mcp' && each.serverLabel === serverLabel)
    if (!isDeclared)
      throw invalidParam(
        'tools',
        `a call of the server ${JSON.stringify(serverLabel)} is approved, which they do not name.`,
      )
  }
  if (declarations.length === 0) return undefined
  refuseUndeclared(choice, declarations)
  return {
    declarations,
    maxCalls,
    approved,
    history: history.map(({ item }) => item).filter(({ type }) => type === 'mcp_list_tools'),
    ...(choice === undefined ? {} : { choice }),
  }
}

/** A choice that no declaration can meet would leave every tool open to the model. */
function refuseUndeclared(choice: GatewayChoice | undefined, declarations: readonly ToolDeclaration[]): void {
  for (const selector of choice?.tools ?? []) {
    const isDeclared = declarations.some((each) =>
      each.kind === 'mcp'
        ? selector.kind === 'mcp' && selector.serverLabel === each.serverLabel
        : selector.kind === each.kind,
    )
    if (!isDeclared) {
      const named = selector.kind === 'mcp' ? `server ${JSON.stringify(selector.serverLabel)}` : 'web search'
      throw invalidParam('tool_choice', `no ${named} is declared among the tools.`)
    }
  }
}

const suffix = ':online'

/** Whether the model of a request has the suffix that asks for a web search. */
export function isOnline(model: string): boolean {
  return model.endsWith(suffix) && model.length > suffix.length
}

/** The model of a request without that suffix. */
export function withoutOnline(model: string): string {
  return isOnline(model) ? model.slice(0, -suffix.length) : model
}

function objectOf(value: unknown, param: string): JsonObject {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw invalidParam(param, 'must be an object.')
  return value
}

function textOf(value: unknown, param: string): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string' || value === '') throw invalidParam(param, 'must be a text.')
  return value
}

function countOf(value: unknown, param: string): number | undefined {
  if (value === undefined || value === null) return undefined
  if (!Number.isInteger(value) || (value as number) < 1)
    throw invalidParam(param, 'must be a whole number from 1.')
  return value as number
}

function contextSizeOf(value: unknown, param: string): WebSearchDeclaration['contextSize'] {
  if (value === undefined || value === null) return 'medium'
  if (value === 'low' || value === 'medium' || value === 'high') return value
  throw invalidParam(param, 'must be low, medium or high.')
}

const mostDomains = 100

function domainsOf(value: unknown, param: string): readonly string[] {
  if (value === undefined || value === null) return []
  const isList = Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '')
  if (!isList || value.length > mostDomains)
    throw invalidParam(param, `must be a list of at most ${mostDomains} domains.`)
  return value as string[]
}

/** OpenAI's chat completions write the place in an object of its own. */
function locationOf(value: unknown, param: string): SearchLocation | undefined {
  const given = objectOf(value, param)
  const place = isObject(given['approximate']) ? given['approximate'] : given
  const location: { -readonly [Field in keyof SearchLocation]: SearchLocation[Field] } = {}
  for (const field of ['city', 'region', 'country', 'timezone'] as const) {
    const text = textOf(place[field], `${param}.${field}`)
    if (text !== undefined) location[field] = text
  }
  return Object.keys(location).length === 0 ? undefined : location
}
