// The web search that Anthropic runs itself:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool

import type { WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type { ChatRequest, Json, JsonObject } from '../../conversation/request.ts'
import { isObject, nonEmpty } from '../json.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable } from '../own-search.ts'

const name = 'web_search'
/** Later versions run code as well. */
const toolType = 'web_search_20250305'

export function ownSearch(
  search: WebSearchDeclaration,
  { tools }: ChatRequest,
  { quirks }: { readonly quirks: { readonly webSearch?: boolean } },
): OwnSearch | undefined {
  if (quirks.webSearch !== true) return undefined
  if (tools.some((tool) => tool.name === name)) return unable(`cannot stand beside a function named ${name}`)
  const wishes = ['allowed_domains', 'blocked_domains', 'paths', 'user_location', 'max_uses'] as const
  const own = ableTo(search, 'search', wishes)
  // https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons: `pause_turn`
  return own.kind === 'able' ? { ...own, pauses: true } : own
}

/** The tool, if the request wants a search. */
export function searchTools({ webSearch }: ChatRequest): readonly JsonObject[] {
  if (webSearch === undefined) return []
  const { allowedDomains, blockedDomains, maxUses } = webSearch
  return [
    {
      type: toolType,
      name,
      ...(maxUses === undefined ? {} : { max_uses: maxUses }),
      ...(allowedDomains.length > 0 ? { allowed_domains: allowedDomains.map(bareDomain) } : {}),
      ...(blockedDomains.length > 0 ? { blocked_domains: blockedDomains.map(bareDomain) } : {}),
      ...approximateLocation(webSearch),
    },
  ]
}

/** Fields of the tool without a price of their own. */
const toolFields = ['name', 'allowed_domains', 'blocked_domains', 'user_location', 'cache_control']

/**
 * A client's own body with its search, of any version, replaced by the version whose price is known, limited to
 * `searches`; undefined if the body has a search that may not run at Anthropic, or lacks one that should.
 */
export function withBoundedSearch(body: JsonObject, searches: number | undefined): JsonObject | undefined {
  const tools = Array.isArray(body.tools) ? body.tools : []
  const isSearch = (tool: Json): tool is JsonObject =>
    isObject(tool) && nonEmpty(tool.type)?.startsWith('web_search_') === true
  if (tools.some(isSearch) !== (searches !== undefined)) return undefined
  if (searches === undefined) return body
  const boundUses = (tool: JsonObject): JsonObject => ({
    ...Object.fromEntries(toolFields.flatMap((field) => (tool[field] == null ? [] : [[field, tool[field]]]))),
    type: toolType,
    max_uses: typeof tool.max_uses === 'number' ? Math.min(tool.max_uses, searches) : searches,
  })
  return { ...body, tools: tools.map((tool) => (isSearch(tool) ? boundUses(tool) : tool)) }
}
