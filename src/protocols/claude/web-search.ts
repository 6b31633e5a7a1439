// The web search that Anthropic runs itself:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool

import type { WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type { ChatRequest, JsonObject } from '../../conversation/request.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable } from '../own-search.ts'

const name = 'web_search'

export function ownSearch(
  search: WebSearchDeclaration,
  { tools }: ChatRequest,
  { quirks }: { readonly quirks: { readonly webSearch?: boolean } },
): OwnSearch | undefined {
  if (quirks.webSearch !== true) return undefined
  if (tools.some((tool) => tool.name === name)) return unable(`cannot stand beside a function named ${name}`)
  return ableTo(search, 'search', [
    'allowed_domains',
    'blocked_domains',
    'paths',
    'user_location',
    'max_uses',
  ])
}

/** The tool; none where the request wants no search. */
export function searchTools({ webSearch }: ChatRequest): readonly JsonObject[] {
  if (webSearch === undefined) return []
  const { allowedDomains, blockedDomains, maxUses } = webSearch
  return [
    {
      type: 'web_search_20250305',
      name,
      ...(maxUses === undefined ? {} : { max_uses: maxUses }),
      ...(allowedDomains.length > 0 ? { allowed_domains: allowedDomains.map(bareDomain) } : {}),
      ...(blockedDomains.length > 0 ? { blocked_domains: blockedDomains.map(bareDomain) } : {}),
      ...approximateLocation(webSearch),
    },
  ]
}
