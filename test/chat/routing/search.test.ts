// Who searches for a call that declares a search: the provider, where it can and its price is known, or Weir.

import { describe, expect, test } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import { needOf } from '../../../src/chat/billing/need.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import { withOwnSearch } from '../../../src/chat/routing/search.ts'
import type { DeclaredTools, WebSearchDeclaration } from '../../../src/conversation/gateway-tools.ts'
import type { ChatRequest } from '../../../src/conversation/request.ts'
import { usd } from '../../../src/credits/money.ts'
import type { Price } from '../../../src/credits/price.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import type { Envelope } from '../../../src/protocols/protocol.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import { chat, lookup, webSearch } from '../../support/conversation.ts'
import { routeTo } from '../routes.ts'
import { envelope, modelOf, price } from '../support.ts'

const perSearch: Partial<Price> = { perCall: { web_search: usd('0.01') } }

function candidate(id: string, upstream: string, costs: Partial<Price> = perSearch): Candidate {
  const { provider } = routeTo(id, upstream, false)
  const offer = { provider: id, upstream, price: { ...price, ...costs } }
  return { model: modelOf(`${id}/${upstream}`, { offers: [offer] }), offer, provider, key: 'key' }
}

const claude = candidate('anthropic', 'claude-sonnet-4-5')
const gpt = candidate('openai', 'gpt-5.2')
/** A declaration of the search, and of nothing else. */
const alone: Asked = { declared: { declarations: [webSearch] } }
const flash = candidate('gemini', 'gemini-2.5-flash')
const llama = candidate('groq', 'llama-3.3-70b-versatile')

interface Asked {
  readonly search?: Partial<WebSearchDeclaration> | undefined
  readonly declared?: Partial<DeclaredTools>
  readonly request?: Partial<ChatRequest>
  readonly envelope?: Partial<Envelope>
  readonly mode?: 'live' | 'test'
}

function asked(candidates: readonly Candidate[], more: Asked = {}) {
  const mcp = { kind: 'mcp', param: 'tools[1]', serverLabel: 'files', declaration: {} } as const
  const declared: DeclaredTools = {
    declarations: [{ ...webSearch, ...more.search }, mcp],
    maxCalls: undefined,
    approved: [],
    history: [],
    ...more.declared,
  }
  const request = {
    envelope: { ...envelope, ...more.envelope },
    gatewayTools: declared,
    toChatRequest: () => chat(more.request),
  }
  const call = { caller: { mode: more.mode ?? 'live', standing: null }, request } as unknown as IncomingCall
  const { call: answer, candidates: served } = withOwnSearch(outbounds, call, candidates)
  return {
    same: answer === call,
    served: served.map(({ provider }) => provider.id),
    search: answer.request.toChatRequest().webSearch,
    searches: answer.request.envelope.searches,
    left: answer.request.gatewayTools?.declarations.map(({ kind }) => kind),
    envelope: answer.request.envelope,
  }
}

describe('the provider searches', () => {
  test('where it can: the search leaves the tools of the gateway, the others stay', () => {
    expect(asked([claude])).toMatchObject({
      served: ['anthropic'],
      search: { kind: 'web-search', maxUses: 5 },
      searches: 5,
      left: ['mcp'],
    })
    const only = asked([claude], alone)
    expect([only.left, only.searches]).toEqual([undefined, 5])
  })

  test('and only providers that can are asked', () => {
    expect(asked([claude, llama, gpt]).served).toEqual(['anthropic', 'openai'])
    expect(asked([llama, gpt], { search: { engine: 'native' } }).served).toEqual(['openai'])
  })

  test('beside functions of the client', () => {
    expect(asked([claude], { request: { tools: [lookup] } }).search).toBeDefined()
  })
})

describe('Weir searches', () => {
  test.each<[string, readonly Candidate[], Asked]>([
    ['for test keys', [claude], { mode: 'test' }],
    ['when a backend is named', [claude], { search: { engine: 'sim' } }],
    ['where the provider has no search', [llama], {}],
    ['where the model that was asked for has none, though a fallback does', [llama, claude], {}],
    ['where the provider cannot honour a wish', [gpt], { search: { blockedDomains: ['a.example'] } }],
    ['where nobody knows what a search costs', [candidate('anthropic', 'claude-sonnet-4-5', {})], {}],
    ['where functions cannot stand beside the search', [flash], { ...alone, request: { tools: [lookup] } }],
    ['where those of an MCP server cannot either', [flash], {}],
    ['when no search is declared', [claude], { declared: { declarations: [] } }],
  ])('%s', (_, candidates, more) => {
    expect(asked(candidates, more)).toMatchObject({ same: true, search: undefined, searches: undefined })
  })
})

describe('a request that wants its provider to search', () => {
  test.each<[readonly Candidate[], Partial<WebSearchDeclaration>, string]>([
    [[llama], {}, 'it has none of its own'],
    [[gpt], { rest: { recency: 'day' } }, 'its own search cannot be kept to recent pages'],
    [[candidate('anthropic', 'claude-sonnet-4-5', {})], {}, 'its own search has no price here'],
  ])('and cannot be served is refused, with the reason', (candidates, more, reason) => {
    try {
      asked(candidates, { search: { engine: 'native', ...more } })
      throw new Error('nothing was refused')
    } catch (error) {
      expect(error).toBeInstanceOf(GatewayError)
      expect(error).toMatchObject({ code: 'unsupported_parameter', details: { param: 'tools[0]' } })
      expect((error as Error).message).toContain(reason)
    }
  })
})

describe('how many searches are held for', () => {
  test.each<[string, Asked, number]>([
    ['five, when nothing is said', {}, 5],
    ['max_uses', { search: { maxUses: 2 } }, 2],
    ['max_tool_calls, where it is less', { search: { maxUses: 9 }, declared: { maxCalls: 3 } }, 3],
    ['thirty at most', { search: { maxUses: 1_000 } }, 30],
    ['what half of max_cost pays for', { envelope: { maxCost: '0.06' } }, 3],
    ['one at least', { envelope: { maxCost: '0.001' } }, 1],
  ])('%s', (_, more, searches) => {
    const { search: bounded, ...answer } = asked([claude], more)
    expect([bounded!.maxUses, answer.searches]).toEqual([searches, searches])
  })

  test('one, where the request has a fee whatever it searches', () => {
    const sonar = candidate('perplexity', 'sonar', { perRequest: usd('0.012') })
    expect([asked([sonar]).searches, asked([flash], alone).searches]).toEqual([1, 1])
  })

  test('none, where the request allows no calls: nobody is asked to search, and any provider can answer', () => {
    const none = asked([claude, llama], { declared: { maxCalls: 0 } })
    expect(none).toMatchObject({ served: ['anthropic', 'groq'], search: undefined, left: ['mcp'] })
    expect(none.searches).toBeUndefined()
  })

  test('the hold covers them all, on top of prompt and output', () => {
    const { envelope: searching } = asked([claude], { search: { maxUses: 4 } })
    const [without, with4] = [envelope, searching].map((each) => needOf(each, [claude], 100, 4_096))
    expect(with4!.want - without!.want).toBe(usd('0.04'))
    expect(with4!.least - without!.least).toBe(usd('0.04'))
  })

  test('a max_cost that pays for none of it is refused, and says so', () => {
    const { envelope: searching } = asked([claude], { envelope: { maxCost: '0.005' } })
    expect(() => needOf(searching, [claude], 100, 4_096)).toThrow('the prompt, one search and one token')
  })
})
