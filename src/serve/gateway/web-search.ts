// The configured web search.

import type { Config } from '../../config.ts'
import { parseUsd } from '../../credits/money.ts'
import { openSearch, type SearchSettings, type WebSearch } from '../../tools/search/open.ts'

/** `onFault` is called for every failed search, with details for the operator only. */
export function webSearchOf(
  { search, egress }: Pick<Config, 'search' | 'egress'>,
  now: () => number,
  onFault?: SearchSettings['onFault'],
): WebSearch {
  return openSearch({
    backend: search.backend,
    baseUrl: search.base_url,
    apiKey: search.api_key,
    pricePerSearch: search.price_per_call === undefined ? undefined : parseUsd(search.price_per_call),
    timeoutMs: search.timeout_ms,
    maxResults: search.max_results,
    pages: search.open_pages
      ? { bytes: search.page_bytes, fetchMs: search.timeout_ms, readMs: search.page_read_ms }
      : undefined,
    allowHosts: egress.allow_hosts,
    now,
    ...(onFault === undefined ? {} : { onFault }),
  })
}
