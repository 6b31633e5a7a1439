// How hard a model is told to reason, by the catalog: never a word that its provider would refuse, and never in silence
// another than was asked for.

import { describe, expect, test } from 'bun:test'
import { effortsOf, effortWords, type Model, parseEfforts } from '../../../src/catalog/row.ts'
import effortsFile from '../../../src/catalog/efforts.json'
import decided from '../../../src/catalog/generate/efforts-decided.json'
import { catalogInUse } from '../../../src/serve/gateway/catalog.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { withDialect } from '../../../src/providers/provider.ts'
import { loaded } from '../../config/inputs.ts'
import { asks, type Client, lowered, type Route, routeTo } from '../routes.ts'

const { config } = loaded({})
// Retired models are asked for as well: what holds for them holds for those that operators still serve.
const catalog = catalogInUse({ ...config, data_dir: '/nowhere' }, () => Date.UTC(2026, 0, 1))

function routeOf(model: Model): Route {
  const [{ provider, upstream, efforts }] = model.offers as [Model['offers'][number]]
  return { ...routeTo(provider, upstream, model.reasoning), efforts }
}

async function sentFor(id: string, more: JsonObject, client: Client = 'chat') {
  const { body, warnings } = await lowered(asks(client, more), routeOf(catalog.resolve(id)))
  const named = warnings.filter(({ param }) => param.startsWith('reasoning') || param === 'thinking')
  return { effort: effortIn(body), body, warned: named.length > 0 }
}

function effortIn(body: JsonObject): unknown {
  return body['reasoning_effort'] ?? (body['reasoning'] as JsonObject | undefined)?.['effort']
}

describe('an effort', () => {
  test.each([
    // model                              asked      sent        warned
    ['openai/gpt-4o', 'none', undefined, false],
    ['openai/gpt-4o', 'low', undefined, true],
    ['openai/gpt-4o', 'high', undefined, true],
    ['groq/llama-3.3-70b-versatile', 'high', undefined, true],
    ['mistral/mistral-large-2512', 'low', undefined, true],
    ['xai/grok-3', 'high', undefined, true],
    ['xai/grok-4-0709', 'high', undefined, true],
    ['openai/gpt-5', 'none', 'minimal', true],
    ['openai/gpt-5', 'minimal', 'minimal', false],
    ['openai/gpt-5', 'xhigh', 'high', true],
    ['openai/gpt-5-2025-08-07', 'none', 'minimal', true],
    ['openai/gpt-5-pro', 'none', 'high', true],
    ['openai/gpt-5-pro', 'low', 'high', true],
    ['openai/o3', 'none', 'low', true],
    ['openai/o3', 'minimal', 'low', true],
    ['openai/gpt-5.1', 'none', 'none', false],
    ['openai/gpt-5.1', 'minimal', 'low', true],
    ['azure/gpt-5', 'none', 'minimal', true],
    ['groq/openai/gpt-oss-20b', 'none', 'low', true],
    ['groq/qwen/qwen3.6-27b', 'high', 'default', false],
    ['mistral/magistral-medium-latest', 'low', 'high', true],
    ['xai/grok-3-mini', 'medium', 'low', true],
  ] as const)('%s, asked for %s, is sent %p (warned: %p)', async (id, asked, sent, warned) => {
    const result = await sentFor(id, { reasoning_effort: asked })
    expect([result.effort, result.warned]).toEqual([sent, warned])
    const responses = await sentFor(id, { reasoning: { effort: asked } }, 'responses')
    expect([responses.effort, responses.warned]).toEqual([sent, warned])
  })

  test("of Claude Code's thinking does not reach a model that does not reason", async () => {
    const thinking = { thinking: { type: 'enabled', budget_tokens: 30_000 }, max_tokens: 32_000 }
    const { body, warned } = await sentFor('openai/gpt-4o', thinking, 'messages')
    expect([effortIn(body), body['thinking'], warned]).toEqual([undefined, undefined, true])
  })

  test('is a word that the model takes, for every model of the catalog', async () => {
    const wrong: string[] = []
    let asked = 0
    for (const model of catalog.list()) {
      const [{ provider, upstream, efforts }] = model.offers as [Model['offers'][number]]
      const route = routeOf(model)
      if (!efforts || !withDialect(route.provider, upstream).protocol.startsWith('openai-')) continue
      const taken = Object.values(efforts)
      for (const effort of effortWords) {
        asked += 1
        const sent = await lowered(asks('chat', { reasoning_effort: effort }), route)
        const word = effortIn(sent.body)
        const known = word === undefined || taken.includes(String(word))
        const silent = effort !== 'none' && word !== efforts[effort] && sent.warnings.length === 0
        if (!known || silent) wrong.push(`${provider}/${upstream} ${effort}: ${String(word)}`)
      }
    }
    expect(wrong).toEqual([])
    expect(asked).toBeGreaterThan(1_000)
  })

  test('is left to the client where no source knows the model', async () => {
    const route = routeTo('lab', 'm', false)
    expect(effortIn((await lowered(asks('chat', { reasoning_effort: 'low' }), route)).body)).toBe('low')
  })
})

describe('the table of efforts', () => {
  test('has words that clients know, for models of the catalog', () => {
    const table = Object.entries(effortsFile.models)
    expect(table.length).toBeGreaterThan(300)
    for (const [id, written] of table) {
      expect([...effortWords]).toEqual(expect.arrayContaining(Object.keys(parseEfforts(written))))
      expect(catalog.find(id)?.id ?? id).toBe(id)
    }
  })

  test('says where each word comes from', () => {
    expect(effortsFile.sources.map(({ name }) => name)).toEqual([
      '@earendil-works/pi-ai',
      'efforts-decided.json',
    ])
    for (const { models } of decided) {
      const used = Object.keys(effortsFile.models).some((id) => new RegExp(models).test(id))
      expect([models, used]).toEqual([models, true])
    }
  })

  test('tells a model that cannot be told from one that nobody knows', () => {
    expect(effortsOf('openai', 'gpt-4o')).toEqual({})
    expect(effortsOf('lab', 'gpt-4o')).toBeUndefined()
  })

  test('is overruled by the configuration', () => {
    const models = [{ id: 'openai/gpt-4o', efforts: ['low' as const] }]
    const own = catalogInUse({ ...config, models, data_dir: '/nowhere' }, () => Date.UTC(2026, 10, 1))
    expect(own.resolve('openai/gpt-4o').offers[0]!.efforts).toEqual({ low: 'low' })
  })

  test('lists no effort among the parameters of a model that takes none', () => {
    const { supportedParameters, reasoning } = catalog.resolve('xai/grok-4-fast-non-reasoning')
    expect([supportedParameters.includes('reasoning_effort'), reasoning]).toEqual([false, false])
    expect(catalog.resolve('openai/gpt-5-2025-08-07').reasoning).toBe(true)
  })
})
