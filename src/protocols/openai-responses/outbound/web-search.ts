// The `web_search` tool that OpenAI and xAI run themselves.

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type { ChatRequest, JsonObject } from '../../../conversation/request.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable } from '../../own-search.ts'
import type { ResponsesQuirks } from './quirks.ts'

/** xAI's limit for a list of domains. */
const xaiDomains = 5

export function ownSearch(
  search: WebSearchDeclaration,
  { reasoning }: ChatRequest,
  { quirks }: { readonly quirks: ResponsesQuirks },
): OwnSearch | undefined {
  switch (quirks.webSearch) {
    case 'none':
      return undefined
    case 'openai':
      // https://developers.openai.com/api/docs/guides/tools-web-search: "not supported with minimal reasoning".
      if (reasoning?.effort === 'minimal') return unable('is not there for models that reason minimally')
      return ableTo(search, 'search', ['allowed_domains', 'user_location', 'max_uses'])
    case 'xai':
      // https://docs.x.ai/docs/guides/tools/search-tools
      if (Math.max(search.allowedDomains.length, search.blockedDomains.length) > xaiDomains)
        return unable(`takes at most ${xaiDomains} domains`)
      return ableTo(search, 'search', ['allowed_domains', 'blocked_domains'])
  }
}

export function searchTools({ webSearch }: ChatRequest, quirks: ResponsesQuirks): readonly JsonObject[] {
  if (webSearch === undefined || quirks.webSearch === 'none') return []
  const [allowed, blocked] = [webSearch.allowedDomains, webSearch.blockedDomains].map((list) =>
    list.map(bareDomain),
  )
  const filters: JsonObject = {
    ...(allowed!.length > 0 ? { allowed_domains: allowed! } : {}),
    ...(blocked!.length > 0 ? { excluded_domains: blocked! } : {}),
  }
  const filtered: JsonObject = Object.keys(filters).length > 0 ? { filters } : {}
  if (quirks.webSearch === 'xai') return [{ type: 'web_search', ...filtered }]
  const { contextSize, optional } = webSearch
  // Codex declares the tool like this with every request: cached pages only.
  const stored: JsonObject = optional === true ? { external_web_access: false } : {}
  return [
    {
      type: 'web_search',
      search_context_size: contextSize,
      ...approximateLocation(webSearch),
      ...filtered,
      ...stored,
    },
  ]
}

/** OpenAI's limit is for all calls of its own tools together; search is the only one that we offer. */
export function searchBound({ webSearch }: ChatRequest, quirks: ResponsesQuirks): JsonObject {
  return quirks.webSearch === 'openai' && webSearch?.maxUses !== undefined
    ? { max_tool_calls: webSearch.maxUses }
    : {}
}
