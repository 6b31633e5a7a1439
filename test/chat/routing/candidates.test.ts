// Which offers may serve a call, and in which order.

import { describe, expect, test } from 'bun:test'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { GatewayError, renderError, retryHeaders } from '../../../src/errors/errors.ts'
import type { Routing } from '../../../src/protocols/protocol.ts'
import { anywhere } from '../../../src/protocols/request/gateway-tools.ts'
import { anyRoute, modelOf, priceOf, providerOf } from '../support.ts'

const offers = [
  { provider: 'a', upstream: 'm', price: priceOf(3_000_000n, 9_000_000n) },
  { provider: 'b', upstream: 'm', price: priceOf(1_000_000n, 2_000_000n) },
  { provider: 'c', upstream: 'm', price: priceOf(2_000_000n, 4_000_000n) },
]
const model = modelOf('a/m', { offers })
const policies = { b: { dataPolicy: 'no_training' }, c: { dataPolicy: 'zero_retention' } } as const
const providers = new Map(
  ['a', 'b', 'c'].map((id) => [id, providerOf(id, policies[id as keyof typeof policies] ?? {})]),
)
const served = (routing: Partial<Routing>, turn = '') =>
  candidatesFor([model], providers, { ...anyRoute, ...routing }, turn, 1).map(({ provider }) => provider.id)

function caught(act: () => unknown): GatewayError {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('offers', () => {
  test.each<[string, Partial<Routing>, string[]]>([
    ['as the catalog ranks them', {}, ['a', 'b', 'c']],
    ['order comes first, the rest follows', { order: ['c'] }, ['c', 'a', 'b']],
    ['only', { only: ['b', 'c'] }, ['b', 'c']],
    ['ignore', { ignore: ['a'] }, ['b', 'c']],
    [
      'a price limit for input',
      { maxPrice: { input: '2', output: undefined, request: undefined } },
      ['b', 'c'],
    ],
    [
      'a price limit for output',
      { maxPrice: { input: undefined, output: '3.9', request: undefined } },
      ['b'],
    ],
    [
      'a price limit finer than any rate',
      { maxPrice: { input: '1.0000000001', output: undefined, request: undefined } },
      ['b'],
    ],
    [
      'a price limit for a request',
      { maxPrice: { input: undefined, output: undefined, request: '0' } },
      ['a', 'b', 'c'],
    ],
    ['what keeps nothing', { dataPolicy: 'zero_retention' }, ['c']],
    ['what learns nothing', { dataPolicy: 'no_training' }, ['b', 'c']],
    ['no fallbacks', { allowFallbacks: false, order: ['b'] }, ['b']],
  ])('%s', (_, routing, expected) => expect(served(routing)).toEqual(expected))

  test.each([
    [200_000, ['long', 'flat']],
    [200_001, ['flat']],
  ] as const)('a prompt of %p tokens is compared with the rates it would pay', (promptTokens, expected) => {
    const tier = { abovePromptTokens: 200_000, rates: priceOf(6_000_000n, 12_000_000n).rates }
    const tiered = modelOf('a/m', {
      offers: [
        { provider: 'long', upstream: 'm', price: { ...priceOf(3_000_000n, 9_000_000n), tiers: [tier] } },
        { provider: 'flat', upstream: 'm', price: priceOf(4_000_000n, 9_000_000n) },
      ],
    })
    const both = new Map(['long', 'flat'].map((id) => [id, providerOf(id)]))
    const routing = {
      ...anyRoute,
      maxPrice: { input: '4', output: undefined, request: undefined },
      promptTokens,
    }
    expect(candidatesFor([tiered], both, routing, '', 1).map(({ provider }) => provider.id)).toEqual([
      ...expected,
    ])
  })

  test('a rank sorts the offers of a model; the providers that are named come first all the same', () => {
    const rank = ({ price }: { readonly price: { readonly rates: { readonly input: bigint } } }) =>
      Number(price.rates.input)
    const ranked = (routing: Partial<Routing>) =>
      candidatesFor([model], providers, { ...anyRoute, ...routing, rank }, '', 1).map(
        ({ provider }) => provider.id,
      )
    expect(ranked({})).toEqual(['b', 'c', 'a'])
    expect(ranked({ order: ['a'] })).toEqual(['a', 'b', 'c'])
  })

  test('without fallbacks no other provider stands in for those that were named', () => {
    expect(served({ allowFallbacks: false, order: ['z', 'c'] })).toEqual(['c'])
    expect(() => served({ allowFallbacks: false, order: ['z'] })).toThrow(GatewayError)
  })

  test.each<[string, Partial<Routing>, readonly string[], string | undefined, string]>([
    // what the request says, who is set up here, the field at fault, who is named
    ['only a stranger', { only: ['z'] }, ['a', 'b', 'c'], 'provider.only', 'a, b, c'],
    ['only one without a key', { only: ['a'] }, ['b'], 'provider.only', 'b'],
    ['ignores all', { ignore: ['a', 'b', 'c'] }, ['a', 'b', 'c'], 'provider.ignore', 'a, b, c'],
    [
      'pays too little',
      { maxPrice: { input: '0.1', output: undefined, request: undefined } },
      ['a', 'b'],
      'provider.max_price',
      'a, b',
    ],
    [
      'no fallback from a stranger',
      { order: ['z'], allowFallbacks: false },
      ['a', 'b'],
      'provider.order',
      'a, b',
    ],
    ['keeps nothing', { dataPolicy: 'zero_retention' }, ['a', 'b'], 'provider.zdr', 'a, b'],
    ['learns nothing', { dataPolicy: 'no_training' }, ['a', 'b'], 'provider.data_collection', 'a, b'],
    ['two rules together', { only: ['a'], ignore: ['a'] }, ['a', 'b'], 'provider', 'a, b'],
    ['only a stranger, and nobody has a key', { only: ['z'] }, [], 'provider.only', 'a, b, c'],
    ['nobody has a key', {}, [], undefined, 'a, b, c'],
  ])('none left, %s: %p of %p is at fault', (_, routing, ready, param, named) => {
    const here = new Map(ready.map((id) => [id, providerOf(id)]))
    const error = caught(() => candidatesFor([model], here, { ...anyRoute, ...routing }, '', 1))
    expect([error.code, error.details.param]).toEqual(
      param === undefined ? ['no_provider_available', undefined] : ['invalid_request', param],
    )
    expect(error.message).toContain(named)
    // Neither the caller nor the operator gains anything by asking again.
    expect(retryHeaders(error)).toEqual({ 'x-should-retry': 'false' })
    expect(renderError(error, 'req_1').error.metadata['retryable']).toBe(false)
  })

  test('without fallbacks the other keys of the offer remain', () => {
    const keyed = new Map([['a', providerOf('a', { keys: ['1', '2'] })]])
    const routing = { ...anyRoute, allowFallbacks: false }
    expect(candidatesFor([model], keyed, routing, 't', 1)).toHaveLength(2)
  })

  test('keys are spread evenly over turns, and one turn always gives the same order', () => {
    const keyed = new Map([['a', providerOf('a', { keys: ['1', '2', '3', '4'] })]])
    const first = (turn: string) => candidatesFor([model], keyed, anyRoute, turn, 1)[0]!.key!
    const counts = new Map<string, number>()
    for (let at = 0; at < 4_000; at++) counts.set(first(`t${at}`), (counts.get(first(`t${at}`)) ?? 0) + 1)
    expect(counts.size).toBe(4)
    for (const count of counts.values()) expect(count).toBeWithin(800, 1_200)
    expect(first('session')).toBe(first('session'))
  })
})

describe('the candidates of a model for calls that say nothing of their routing', () => {
  const names = (...given: Parameters<typeof candidatesFor>) =>
    candidatesFor(...given).map(({ provider, key }) => `${provider.id} ${key}`)

  test('are found once, and again when the providers are others', () => {
    const first = candidatesFor([model], providers, anywhere, 't', 1)
    expect(candidatesFor([model], providers, anywhere, 'another', 1)).toBe(first)
    const fewer = new Map([['b', providerOf('b')]])
    expect(names([model], fewer, anywhere, 't', 1)).toHaveLength(1)
    expect(candidatesFor([model], providers, anywhere, 't', 1)).toEqual(first)
  })

  test('are not those of calls with rules, with several models or with several answers', () => {
    const rules = { ...anywhere, ignore: ['a'] }
    expect(names([model], providers, anywhere, 't', 1)).toHaveLength(3)
    expect(names([model], providers, rules, 't', 1)).toHaveLength(2)
    expect(names([model, modelOf('c/m')], providers, anywhere, 't', 1)).toHaveLength(4)
    const dialects = [
      { models: /m/, protocol: 'openai-responses', quirks: {}, clientBody: 'translated' },
    ] as const
    const spoken = new Map([['a', providerOf('a', { dialects })]])
    const protocols = (n: number) =>
      candidatesFor([model], spoken, anywhere, 't', n).map(({ provider }) => provider.protocol)
    expect([protocols(1), protocols(2), protocols(1)]).toEqual([
      ['openai-responses'],
      ['openai-chat'],
      ['openai-responses'],
    ])
  })

  test('take turns where a provider has several keys', () => {
    const keyed = new Map([['a', providerOf('a', { keys: ['1', '2', '3', '4'] })]])
    const firsts = Array.from({ length: 100 }, (_, at) => names([model], keyed, anywhere, `t${at}`, 1)[0])
    expect(new Set(firsts).size).toBe(4)
  })
})
