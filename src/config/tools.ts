// The settings of the tools that the gateway runs for models: web search and MCP servers.

import { z } from 'zod'
import { baseUrl, milliseconds, note, secret, usdText, whole } from './fields.ts'

export const searchSettings = z
  .strictObject({
    backend: note(
      z.enum(['none', 'searxng', 'tavily', 'brave', 'exa', 'sim']).default('none'),
      'What answers web searches of models whose provider has none of its own; sim is an offline index of a few dozen ' +
        'bundled pages, for trying it out. Test keys always search that index',
    ),
    base_url: note(baseUrl.optional(), 'Its address, where it is not the public one'),
    api_key: note(secret.optional(), 'Its key: text, ${ENVIRONMENT_NAME} or file:/path', { secret: true }),
    price_per_call: note(
      usdText.optional(),
      'What one executed search costs the account, US dollars; unset, what the backend says it cost, or its list price ' +
        '(searxng 0, tavily 0.008, brave 0.005, exa as it reports)',
    ),
    timeout_ms: milliseconds('How long one search may take', 10_000, 1, 300_000),
    max_results: whole('The most results handed to the model', 5, 1, 50),
    open_pages: note(
      z.boolean().default(true),
      'Whether models that may search may also open pages, which the gateway fetches (open_page)',
    ),
    page_bytes: whole('The largest page that is opened', 2 * 1024 ** 2, 1024, 16 * 1024 ** 2),
    page_read_ms: milliseconds('How long turning a page into text may take', 2_000, 10, 60_000),
  })
  .prefault({})

export const mcpSettings = z
  .strictObject({
    answer_bytes: whole(
      'The largest answer of an MCP server, and the largest list of its tools, over all pages',
      10 * 1024 ** 2,
      1024,
      256 * 1024 ** 2,
    ),
    call_bytes: whole(
      'The most that all MCP servers of one call may send: lists of tools and results together',
      32 * 1024 ** 2,
      1024,
      1024 ** 3,
    ),
    tools: whole('Tools of one MCP server that a model is offered', 128, 1, 1_000),
  })
  .prefault({})
