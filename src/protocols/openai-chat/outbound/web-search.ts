// Models that search by themselves on every request: OpenAI's for chat completions, and Perplexity's.

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type { ChatRequest, JsonObject } from '../../../conversation/request.ts'
import { ableTo, bareDomain, type OwnSearch } from '../../own-search.ts'
import type { OpenAIChatQuirks } from './quirks.ts'

const perplexityDomains = 20

export function ownSearch(
  search: WebSearchDeclaration,
  _request: ChatRequest,
  { model, quirks }: { readonly model: string; readonly quirks: OpenAIChatQuirks },
): OwnSearch | undefined {
  switch (quirks.webSearch) {
    case 'none':
      return undefined
    case 'openai':
      // https://developers.openai.com/api/docs/guides/tools-web-search: gpt-4o-search-preview, gpt-5-search-api.
      return /-search-(preview|api)/.test(model) ? ableTo(search, 'request', ['user_location']) : undefined
    case 'perplexity': {
      // https://docs.perplexity.ai/api-reference/chat-completions-post
      const few = search.allowedDomains.length + search.blockedDomains.length <= perplexityDomains
      const domains = few ? (['allowed_domains', 'blocked_domains'] as const) : []
      return ableTo(search, 'request', [...domains, 'paths', 'user_location', 'recency'])
    }
  }
}

const noFields: JsonObject = {}

/** The search settings; empty for a model that does not search or takes none. */
export function searchFields({ webSearch }: ChatRequest, { webSearch: whose }: OpenAIChatQuirks): JsonObject {
  if (webSearch === undefined || whose === 'none') return noFields
  const { location, contextSize, allowedDomains, blockedDomains, rest } = webSearch
  if (whose === 'openai') {
    const place: JsonObject =
      location === undefined ? {} : { user_location: { type: 'approximate', approximate: { ...location } } }
    return { web_search_options: { search_context_size: contextSize, ...place } }
  }
  const { timezone: _, ...place } = location ?? {}
  const domains = [
    ...allowedDomains.map(bareDomain),
    ...blockedDomains.map((domain) => `-${bareDomain(domain)}`),
  ]
  return {
    web_search_options: {
      search_context_size: contextSize,
      ...(Object.keys(place).length > 0 ? { user_location: place } : {}),
    },
    ...(domains.length > 0 ? { search_domain_filter: domains } : {}),
    ...(typeof rest['recency'] === 'string' ? { search_recency_filter: rest['recency'] } : {}),
  }
}
