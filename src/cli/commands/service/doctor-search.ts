// The web search in `weir doctor`: a test query shows whether the backend answers, and at which price.

import { formatUsd } from '../../../credits/money.ts'
import { webSearchOf } from '../../../serve/gateway/web-search.ts'
import { SearchFault } from '../../../tools/search/backends/backend.ts'
import { PageReader, UnreadablePage } from '../../../tools/search/page/page-reader.ts'
import type { Context } from '../../context.ts'
import { folderSays, isUsersChoice } from '../../gateway-address.ts'
import type { Finding } from './finding.ts'

const check = 'web search'

/** Whether pages can be opened: the reader runs in a worker thread, whose code must be in the executable. */
export async function pageFindings({ config }: Context): Promise<readonly Finding[]> {
  const reader = new PageReader(config.search.page_read_ms)
  const named = { check: 'open_page' }
  if (!config.search.open_pages)
    return [{ ...named, state: 'info', detail: 'switched off (search.open_pages)' }]
  const began = performance.now()
  try {
    await reader.extract('<p>words</p>', 'https://example.org/', new AbortController().signal)
    return [
      { ...named, state: 'ok', detail: `reads pages, ready in ${Math.round(performance.now() - began)} ms` },
    ]
  } catch (error) {
    if (!(error instanceof UnreadablePage)) throw error
    return [{ ...named, state: 'bad', detail: error.message }]
  } finally {
    reader.stop()
  }
}

/** Calls the configured backend once, which costs as much as a search. */
export async function searchFindings(context: Context): Promise<readonly Finding[]> {
  const { config, io } = context
  const { base_url: address } = config.search
  if (address !== undefined && !isUsersChoice(context, ['search', 'base_url'], address))
    return [{ check, state: 'info', detail: `not asked: ${address} ${folderSays}` }]
  const { backend } = webSearchOf(config, io.clock)
  if (!backend) {
    const detail =
      'no backend (search.backend): only models whose provider searches itself can search; test keys use the offline index'
    return [{ check, state: 'info', detail }]
  }
  const began = performance.now()
  try {
    const query = { text: 'speed of light', allowedDomains: [], blockedDomains: [] }
    const hints = { recency: undefined, location: undefined, contextSize: 'low' } as const
    const { results, cost } = await backend.search(
      { ...query, ...hints, count: 1 },
      new AbortController().signal,
    )
    const ms = Math.round(performance.now() - began)
    const price = `${formatUsd(cost ?? backend.price)} USD a search`
    if (results.length > 0)
      return [{ check, state: 'ok', detail: `${backend.id} answered in ${ms} ms, ${price}` }]
    return [{ check, state: 'warn', detail: `${backend.id} answers, and found nothing for "${query.text}"` }]
  } catch (error) {
    if (!(error instanceof SearchFault)) throw error
    return [{ check, state: 'bad', detail: `${error.message} ${error.detail}` }]
  }
}
