// Searches that providers run themselves: what each is asked, what it cannot be asked, and what recordings of it cost.

import { describe, expect, test } from 'bun:test'
import { bundledCatalog } from '../../src/catalog/bundled/bundled.ts'
import { buildPrice, type PriceSpec } from '../../src/catalog/row.ts'
import { chargeOf } from '../../src/chat/billing/charge.ts'
import { roughOutput } from '../../src/chat/counting/token-counter.ts'
import { EventProgress } from '../../src/conversation/delivered.ts'
import { collect } from '../../src/conversation/event.ts'
import type { WebSearchDeclaration } from '../../src/conversation/gateway-tools.ts'
import type { ChatRequest } from '../../src/conversation/request.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { formatUsd, usd } from '../../src/credits/money.ts'
import { costOf } from '../../src/credits/price.ts'
import type { Outbound, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { providerById } from '../../src/providers/registry.ts'
import { withDialect } from '../../src/providers/provider.ts'
import { chat, lookup, webSearch } from '../support/conversation.ts'
import { cases, framesOf } from '../support/recordings.ts'
import { answersOf, recordedHosts, spokenBy } from './recorded-hosts.ts'

const berlin = { city: 'Berlin', country: 'DE', timezone: 'Europe/Berlin' }

/** What the bundled catalog says a model costs. */
function priceOf(id: string) {
  return buildPrice(bundledCatalog().models.find((row) => row.id === id)!.price as PriceSpec)
}

/** A provider's row as it speaks to a model. */
function spoken(id: string, model: string): { outbound: Outbound; target: Target } {
  const row = withDialect(providerById(id)!, model)
  const outbound = outbounds[row.protocol]
  const target: Target = {
    model,
    provider: id,
    quirks: { ...(outbound.defaultQuirks as object), ...row.quirks },
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  return { outbound, target }
}

/** What of a request with this search is about the search. */
function lowered(
  id: string,
  model: string,
  search: Partial<WebSearchDeclaration>,
  more: Partial<ChatRequest> = {},
) {
  const { outbound, target } = spoken(id, model)
  const { body } = outbound.lower(chat({ ...more, webSearch: { ...webSearch, ...search } }), target)
  const fields = [
    'tools',
    'max_tool_calls',
    'web_search_options',
    'search_domain_filter',
    'search_recency_filter',
  ]
  return Object.fromEntries(fields.filter((field) => field in body).map((field) => [field, body[field]]))
}

function able(
  id: string,
  model: string,
  search: Partial<WebSearchDeclaration>,
  more: Partial<ChatRequest> = {},
) {
  const { outbound, target } = spoken(id, model)
  return outbound.ownSearch?.({ ...webSearch, ...search }, chat(more), target)
}

describe('what a provider is asked', () => {
  test('OpenAI: its tool, bounded by max_tool_calls', () => {
    expect(lowered('openai', 'gpt-5.2', {})).toEqual({
      tools: [{ type: 'web_search', search_context_size: 'medium' }],
    })
    const search = {
      contextSize: 'low',
      location: berlin,
      allowedDomains: ['https://example.org/'],
      maxUses: 3,
    } as const
    expect(lowered('openai', 'gpt-5.2', search)).toEqual({
      tools: [
        {
          type: 'web_search',
          search_context_size: 'low',
          user_location: { type: 'approximate', ...berlin },
          filters: { allowed_domains: ['example.org'] },
        },
      ],
      max_tool_calls: 3,
    })
  })

  test('OpenAI: stored pages alone, where the client declares the search with every request', () => {
    expect(lowered('openai', 'gpt-5.2', { optional: true }).tools).toMatchObject([
      { external_web_access: false },
    ])
  })

  test('OpenAI: beside functions', () => {
    const { tools } = lowered('openai', 'gpt-5.2', {}, { tools: [lookup] })
    expect(tools).toMatchObject([{ type: 'function', name: 'lookup' }, { type: 'web_search' }])
  })

  test('xAI: its filters have other names', () => {
    expect(lowered('xai', 'grok-4.3', { blockedDomains: ['example.org'] })).toEqual({
      tools: [{ type: 'web_search', filters: { excluded_domains: ['example.org'] } }],
    })
  })

  test('Anthropic: the dated tool, bounded by max_uses', () => {
    const search = { location: berlin, blockedDomains: ['example.org/ads'], maxUses: 3 }
    expect(lowered('anthropic', 'claude-sonnet-4-5', search)).toEqual({
      tools: [
        {
          type: 'web_search_20250305',
          name: 'web_search',
          max_uses: 3,
          blocked_domains: ['example.org/ads'],
          user_location: { type: 'approximate', ...berlin },
        },
      ],
    })
  })

  test.each(['gemini', 'vertex'])('Google (%s): grounding', (id) => {
    expect(lowered(id, 'gemini-2.5-flash', {})).toEqual({ tools: [{ googleSearch: {} }] })
    expect(lowered(id, 'gemini-2.5-flash', {}, { toolChoice: { kind: 'none' } })).toEqual({})
  })

  test('Perplexity: fields of its own', () => {
    const search = {
      contextSize: 'high',
      location: berlin,
      blockedDomains: ['ads.example.org'],
      rest: { recency: 'week' },
    } as const
    expect(lowered('perplexity', 'sonar', search)).toEqual({
      web_search_options: { search_context_size: 'high', user_location: { city: 'Berlin', country: 'DE' } },
      search_domain_filter: ['-ads.example.org'],
      search_recency_filter: 'week',
    })
  })

  test("OpenAI's search models in chat completions", () => {
    expect(lowered('openai', 'gpt-4o-search-preview', { location: berlin })).toEqual({
      web_search_options: {
        search_context_size: 'medium',
        user_location: { type: 'approximate', approximate: berlin },
      },
    })
  })
})

describe('what a provider cannot be asked is said, not lost', () => {
  test.each([
    // provider    model                 the search                                   the answer
    ['openai', 'gpt-5.2', {}, 'able'],
    ['openai', 'gpt-5.2', { allowedDomains: ['a.example'], location: berlin, maxUses: 2 }, 'able'],
    ['openai', 'gpt-5.2', { blockedDomains: ['a.example'] }, 'cannot be kept from blocked domains'],
    ['openai', 'gpt-5.2', { allowedDomains: ['a.example/docs'] }, 'takes domains, not paths'],
    ['openai', 'gpt-5.2', { rest: { recency: 'day' } }, 'cannot be kept to recent pages'],
    ['openai', 'gpt-4o', {}, undefined],
    ['openai', 'gpt-4o-search-preview', {}, 'able'],
    ['openai', 'gpt-4o-search-preview', { maxUses: 1 }, 'cannot be bounded'],
    ['azure', 'gpt-5.2', {}, undefined],
    ['xai', 'grok-4.3', { allowedDomains: ['a.example'] }, 'able'],
    [
      'xai',
      'grok-4.3',
      { allowedDomains: ['a.example'], blockedDomains: ['b.example'] },
      'takes allowed or blocked domains, not both',
    ],
    [
      'xai',
      'grok-4.3',
      { allowedDomains: ['1.example', '2.example', '3.example', '4.example', '5.example', '6.example'] },
      'takes at most 5 domains',
    ],
    ['xai', 'grok-4.3', { location: berlin }, 'cannot be told where the user is'],
    ['xai', 'grok-3', {}, undefined],
    [
      'anthropic',
      'claude-sonnet-4-5',
      { blockedDomains: ['a.example/x'], maxUses: 9, location: berlin },
      'able',
    ],
    [
      'anthropic',
      'claude-sonnet-4-5',
      { allowedDomains: ['a.example'], blockedDomains: ['b.example'] },
      'takes allowed or blocked domains, not both',
    ],
    ['bedrockclaude', 'claude-sonnet-4-5', {}, undefined],
    ['vertexclaude', 'claude-sonnet-4-5', {}, undefined],
    ['gemini', 'gemini-2.5-flash', {}, 'able'],
    ['gemini', 'gemini-2.5-flash', { maxUses: 1 }, 'cannot be bounded'],
    [
      'perplexity',
      'sonar',
      {
        allowedDomains: ['a.example'],
        blockedDomains: [],
        location: berlin,
        rest: { recency: 'day' },
      },
      'able',
    ],
    [
      'perplexity',
      'sonar',
      { allowedDomains: Array.from({ length: 21 }, (_, at) => `${at}.example`) },
      'cannot be kept to allowed domains',
    ],
    ['groq', 'llama-3.3-70b-versatile', {}, undefined],
    ['mistral', 'mistral-large-latest', {}, undefined],
  ] as const)('%s %s %j: %s', (id, model, search, answer) => {
    const own = able(id, model, search as Partial<WebSearchDeclaration>)
    expect(own?.kind === 'unable' ? own.why : own?.kind).toBe(answer)
  })

  test('beside functions, formats and minimal reasoning', () => {
    const json = { responseFormat: { kind: 'json-object' } } as const
    expect(able('gemini', 'gemini-2.5-flash', {})).toMatchObject({ kind: 'able', alone: true })
    expect(able('gemini', 'gemini-2.5-flash', {}, json)?.kind).toBe('unable')
    expect(able('gemini', 'gemini-3.5-flash', {}, json)?.kind).toBe('able')
    expect(able('anthropic', 'claude-sonnet-4-5', {}, { tools: [lookup] })?.kind).toBe('able')
    expect(
      able('anthropic', 'claude-sonnet-4-5', {}, { tools: [{ ...lookup, name: 'web_search' }] })?.kind,
    ).toBe('unable')
    expect(able('openai', 'gpt-5', {}, { reasoning: { effort: 'minimal' } })?.kind).toBe('unable')
  })
})

describe('recordings of searches keep their citations and their fees', () => {
  test.each([
    // recording, the model in the catalog, searches, the fee of all, citations
    ['openai-responses/json-server-tool--gpt-5.2--rubd4aa26', 'openai/gpt-5.2', 1, '0.01', 1],
    ['openai-responses/stream-server-tool-reasoning-sig--gpt-5--pai72e702', 'openai/gpt-5', 1, '0.01', 0],
    ['openai-responses/json-server-tool--gpt-4o--ddt2105fb', 'openai/gpt-5', 1, '0.01', 1],
    ['openai-responses/stream-server-tool--gpt-4.1--fancfa1d9', 'openai/gpt-5', 1, '0.01', 1],
    ['xai-responses/json-server-tool-reasoning-sig--grok-4.3--rub87b1d7', 'xai/grok-4.3', 2, '0.01', 1],
    [
      'xai-responses/json-server-tool--grok-4-fast-reasoning--vaie85555',
      'xai/grok-4-fast-reasoning',
      1,
      '0.005',
      5,
    ],
    [
      'xai-responses/stream-server-tool--grok-4-fast-reasoning--vai34ae2d',
      'xai/grok-4-fast-reasoning',
      1,
      '0.005',
      5,
    ],
    [
      'anthropic/json-server-tool-reasoning-sig--claude-sonnet-5--elm5cd61d',
      'anthropic/claude-sonnet-5',
      1,
      '0.01',
      1,
    ],
    [
      'anthropic/stream-server-tool-sig--claude-haiku-4-5-20251001--rub2d26d7',
      'anthropic/claude-haiku-4-5-20251001',
      1,
      '0.01',
      2,
    ],
    [
      'anthropic/json-pause-turn-reasoning-sig--claude-sonnet-4-5--pai3d2bfe',
      'anthropic/claude-sonnet-4-5',
      10,
      '0.1',
      0,
    ],
    [
      'anthropic/stream-pause-turn-reasoning-sig--claude-sonnet-4-5--pai4f51a9',
      'anthropic/claude-sonnet-4-5',
      10,
      '0.1',
      0,
    ],
    ['gemini/stream-citations--gemini-2.5-flash--btj0a015d', 'gemini/gemini-2.5-flash', 1, '0.035', 1],
    ['gemini/json-citations--gemini-2.5-flash--btjb48110', 'gemini/gemini-2.5-flash', 1, '0.035', 0],
    [
      'vertex-gemini/json-citations-sig-roundtrip--gemini-3-flash-preview--pai239e14',
      'vertex/gemini-3-flash-preview',
      1,
      '0.014',
      16,
    ],
  ] as const)('%s', (recording, model, searches, fee, citations) => {
    const [folder, id] = recording.split('/') as [string, string]
    const host = recordedHosts.find((each) => each.folder === folder)!
    const recorded = cases(folder).find((each) => each.id === id)!
    const [events] = answersOf(host, recorded)
    const { usage, choices } = collect(events!)
    expect(usage!.toolCalls).toEqual({ web_search: searches })
    const price = priceOf(model)
    const line = costOf(usage!, price).lines.find(({ item }) => item === 'call:web_search')!
    expect([line.quantity, formatUsd(line.amount)]).toEqual([searches, fee])
    const { text, annotations } = choices[0]!
    expect(annotations).toHaveLength(citations)
    for (const { url, start, end } of annotations) {
      expect(url).toMatch(/^https?:\/\//)
      expect(end).toBeLessThanOrEqual(text!.length)
      expect(end).toBeGreaterThanOrEqual(start)
    }
  })

  test.each([
    ['sonar', 'low', '0.005'],
    ['sonar', 'high', '0.012'],
    ['sonar-pro', 'medium', '0.01'],
    ['sonar-pro', undefined, '0.014'],
  ])('a request of perplexity/%s with a %s context has its fee', (model, searchContext, fee) => {
    const price = priceOf(`perplexity/${model}`)
    const { lines } = costOf({ ...noUsage, ...(searchContext === undefined ? {} : { searchContext }) }, price)
    expect(lines).toEqual([{ item: 'request', quantity: 1, rate: usd(fee), amount: usd(fee) }])
  })

  test.each([
    ['openai-responses/stream-server-tool--gpt-4.1--fancfa1d9', 'openai/gpt-5', '0.01'],
    ['openai-responses/stream-server-tool-reasoning-sig--gpt-5--pai72e702', 'openai/gpt-5', '0.01'],
    [
      'anthropic/stream-server-tool-sig--claude-haiku-4-5-20251001--rub2d26d7',
      'anthropic/claude-haiku-4-5-20251001',
      '0.01',
    ],
  ] as const)('a search is owed where the stream breaks off behind it: %s', (recording, model, fee) => {
    const [folder, id] = recording.split('/') as [string, string]
    const host = recordedHosts.find((each) => each.folder === folder)!
    const recorded = cases(folder).find((each) => each.id === id)!
    const { outbound, target } = spokenBy(host, recorded)
    const frames = framesOf([recorded.stream()])
    const parser = outbound.parser(target)
    const progress = new EventProgress()
    for (const frame of frames) {
      for (const _ of progress.take(parser.push(frame), () => undefined) ?? []);
      if (progress.usage?.toolCalls['web_search'] === 1) break
    }
    expect([progress.finished, progress.usage?.toolCalls]).toEqual([false, { web_search: 1 }])
    const { usage, delivered } = progress
    const own = { prompt: 10, output: roughOutput({ usage, delivered }) }
    const { cost } = chargeOf({ usage, complete: false }, own, priceOf(model), 'rates')
    expect(cost.lines.find(({ item }) => item === 'call:web_search')!.amount).toBe(usd(fee))
  })

  test("what xAI says that it billed is the tokens and the searches at the catalog's rates", () => {
    const host = recordedHosts.find(({ folder }) => folder === 'xai-responses')!
    const recorded = cases('xai-responses').find(({ id }) => id.includes('grok-4.3--rub87b1d7'))!
    const { usage } = collect(answersOf(host, recorded)[0]!)
    const price = priceOf('xai/grok-4.3')
    expect(formatUsd(costOf(usage!, price).total)).toBe(usage!.reportedCost!)
  })
})
