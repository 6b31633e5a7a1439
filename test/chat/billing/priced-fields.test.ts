// Every field that makes a provider charge more than the catalog says, and every other name of a bound, from clients of
// each protocol on every route: it does not reach the provider, and the client is told so or refused.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import {
  asks,
  type Client,
  customRoutes,
  everyRoute,
  lowered,
  type Route,
  routeTo,
  valuesOf,
} from '../routes.ts'

const clients: readonly Client[] = ['chat', 'responses', 'messages', 'completions', 'gemini']
const routes = [...everyRoute, ...customRoutes]
const nameOf = ({ provider, upstream }: Route) => `${provider.id} (${provider.protocol}) ${upstream}`

/** Fields with a price of their own, by whom they are from. */
const priced: readonly (readonly [field: string, value: JsonObject[string]])[] = [
  // OpenAI, Azure, Groq, Fireworks, Cerebras, DeepInfra, OpenRouter, Vercel
  ...['flex', 'priority', 'scale', 'performance', 'batch'].map((tier) => ['service_tier', tier] as const),
  ['background', true],
  ['web_search_options', { search_context_size: 'high' }],
  ['data_sources', [{ type: 'azure_search', parameters: { endpoint: 'https://search.example' } }]],
  ['moderation', { model: 'omni' }],
  ['safety_model', 'guard'],
  ['best_of', 8],
  ['use_beam_search', true],
  ['num_generations', 4],
  ['candidate_count', 4],
  // Amazon
  ['serviceTier', { type: 'priority' }],
  ['performanceConfig', { latency: 'optimized' }],
  ['guardrailConfig', { guardrailIdentifier: 'theirs', guardrailVersion: '1' }],
  // Anthropic
  ['speed', 'fast'],
  ['inference_geo', 'us'],
  ['container', { skills: [{ type: 'anthropic', skill_id: 'xlsx' }] }],
  ['mcp_servers', [{ type: 'url', url: 'https://mcp.example', name: 'm' }]],
  ['fallbacks', [{ model: 'claude-opus-5' }]],
  ['a_field_of_tomorrow', 'dear'],
  // xAI, Alibaba, Perplexity, Groq, Z.ai
  ['search_parameters', { mode: 'on' }],
  ['enable_search', true],
  ['search_options', { forced_search: true }],
  ['enable_code_interpreter', true],
  ['search_type', 'pro'],
  ['search_settings', { include_domains: ['a.example'] }],
  ['compound_custom', { tools: { enabled_tools: ['web_search'] } }],
  ['web_search', { enable: true }],
  // OpenRouter, Vercel
  ['plugins', [{ id: 'web' }]],
  ['preset', 'dear'],
  ['route', 'fallback'],
  ['providerOptions', { gateway: { models: ['dear/model'] } }],
  // Google, and what official clients merge into a body
  ['googleSearch', {}],
  ['google_search_retrieval', {}],
  ['cachedContent', 'cachedContents/theirs'],
  ['extra_body', { google: { tools: [{ googleSearch: {} }] } }],
]

/** Other words for the bound of the answer, which would lift the one that the call was held for. */
const huge = 987_654
const bounds: readonly (readonly [field: string, value: JsonObject[string]])[] = [
  ...[
    'max_new_tokens',
    'max_length',
    'max_gen_len',
    'maxTokens',
    'maxOutputTokens',
    'max_tokens_to_sample',
    'n_predict',
    'num_predict',
    'max_total_tokens',
  ].map((field) => [field, huge] as const),
  ['additionalModelRequestFields', { max_tokens: huge, maxTokens: huge, max_gen_len: huge }],
  ['additionalModelRequestFields', { inferenceConfig: { maxTokens: huge, topK: 3 } }],
  ['inferenceConfig', { maxTokens: huge }],
  ['generationConfig', { maxOutputTokens: huge, candidateCount: 8 }],
  ['generation_config', { max_output_tokens: huge }],
  ['options', { num_predict: huge }],
  ['extra_body', { max_tokens: huge }],
  ['parameters', { max_new_tokens: huge }],
  ['nvext', { max_thinking_tokens: huge }],
]

/** What became of a request: what is sent, or that it is refused by name. */
async function fateOf(client: Client, more: JsonObject, route: Route, outputBound?: number) {
  try {
    return await lowered(asks(client, more), route, outputBound)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_parameter')
      return error.details.param ?? ''
    throw error
  }
}

/** Google's API has the names of fields in either case, and the gateway answers in camel case. */
const camelCase = (field: string) => field.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
const told = (warned: string, field: string) =>
  [field, camelCase(field)].some((name) => warned === name || warned.startsWith(`${name}.`))

describe.each(clients)('from a client of %s', (client) => {
  test.each(priced.map(([field, value]) => [field, JSON.stringify(value), value] as const))(
    '%s: %s reaches no provider, and is named',
    async (field, _, value) => {
      const reached: string[] = []
      for (const route of routes) {
        const fate = await fateOf(client, { [field]: value }, route)
        if (typeof fate === 'string') {
          if (!told(fate, field)) reached.push(`${nameOf(route)}: refused for ${fate}`)
          continue
        }
        if (valuesOf(field, fate.body).length > 0) reached.push(nameOf(route))
        if (!isServed(field) && !fate.warnings.some(({ param }) => told(param, field)))
          reached.push(`${nameOf(route)}: in silence`)
      }
      expect(reached).toEqual([])
    },
  )

  /** The gateway searches, calls servers, and makes what may wait, itself. */
  const isServed = (name: string) =>
    (client === 'chat' && name === 'web_search_options') ||
    (client === 'messages' && name === 'mcp_servers') ||
    (client === 'responses' && name === 'background')

  const bounded = (tokens: number): JsonObject => {
    if (client === 'gemini') return { generationConfig: { maxOutputTokens: tokens } }
    return { [client === 'responses' ? 'max_output_tokens' : 'max_tokens']: tokens }
  }
  // Google's own word for the bound is one, and the call is held for it.
  const others = bounds.filter(([name]) => client !== 'gemini' || camelCase(name) !== 'generationConfig')
  test.each(others.map(([name, value]) => [name, JSON.stringify(value), value] as const))(
    '%s: %s lifts no bound',
    async (name, _, value) => {
      const lifted: string[] = []
      for (const route of routes) {
        for (const outputBound of [undefined, 64, 32]) {
          const fate = await fateOf(client, { ...bounded(64), [name]: value }, route, outputBound)
          if (typeof fate === 'string') continue
          const text = JSON.stringify(fate.body)
          if (text.includes(String(huge)) || !text.includes(String(outputBound ?? 64)))
            lifted.push(nameOf(route))
          const warned = fate.warnings.some(({ param }) => told(param, name))
          if (!warned) lifted.push(`${nameOf(route)}: in silence`)
        }
      }
      expect(lifted).toEqual([])
    },
  )
})

describe('the bound', () => {
  test('of two names is sent once, and is the one that was held for', async () => {
    const both = { max_tokens: 90_000, max_completion_tokens: 64 }
    for (const route of routes) {
      const { request } = asks('chat', both)
      expect(request.envelope.maxOutputTokens).toBe(64)
      const { body } = await lowered(asks('chat', both), route)
      expect(JSON.stringify(body)).not.toContain('90000')
    }
  })
})

describe('what the operator sets', () => {
  const operator = { guardrailIdentifier: 'ours', guardrailVersion: '2' }

  test.each(clients)('a guardrail holds against a client of %s', async (client) => {
    const route = routeTo('bedrock', 'm', false, { quirks: { guardrailConfig: operator } })
    const { body } = await lowered(
      asks(client, { guardrailConfig: { guardrailIdentifier: 'theirs', guardrailVersion: '1' } }),
      route,
    )
    expect(body['guardrailConfig']).toEqual(operator)
  })

  test.each(['openai-chat', 'openai-responses'] as const)(
    'fields of every request hold in %s',
    async (protocol) => {
      const extras = { chat_template_kwargs: { enable_thinking: false }, temperature: 0, user: 'gateway' }
      const route = routeTo('lab', 'm', true, {
        protocol,
        base_url: 'http://127.0.0.1:1/v1',
        quirks: { bodyExtras: { ...extras, model: 'x', max_tokens: 9, max_output_tokens: 9 } },
      })
      const client = protocol === 'openai-chat' ? 'chat' : 'responses'
      const { body } = await lowered(
        asks(client, { chat_template_kwargs: { enable_thinking: true }, temperature: 1, user: 'me' }),
        route,
        64,
      )
      expect(body).toMatchObject({ ...extras, model: 'm' })
      expect(body[protocol === 'openai-chat' ? 'max_tokens' : 'max_output_tokens']).toBe(64)
    },
  )

  test('options of an Ollama server hold', async () => {
    const route = routeTo('ollama', 'm', false, { quirks: { options: { num_ctx: 4096 }, truncate: false } })
    const { body } = await lowered(asks('chat', { options: { num_ctx: 90_000 }, truncate: true }), route)
    expect(body).toMatchObject({ options: { num_ctx: 4096 }, truncate: false })
  })

  test('a field that the operator lets pass is passed', async () => {
    const route = routeTo('lab', 'm', false, { quirks: { passes: ['own_field'] } })
    const { body, warnings } = await lowered(asks('chat', { own_field: 1, other: 2 }), route)
    expect(body).toMatchObject({ own_field: 1 })
    expect(warnings.map(({ param }) => param)).toEqual(['other'])
  })
})

describe('answers of other kinds than text', () => {
  const speech = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }

  test('are asked only of models that are sold with them', async () => {
    for (const route of routes) {
      const { body, warnings } = await lowered(asks('chat', speech), route)
      const sent = JSON.stringify(body).toLowerCase()
      expect([nameOf(route), sent.includes('"audio"'), sent.includes('alloy')]).toEqual([
        nameOf(route),
        false,
        false,
      ])
      expect(warnings.map(({ param }) => param)).toContain('modalities')
    }
  })

  test('go to those that are', async () => {
    const route: Route = { ...routeTo('openai', 'gpt-audio', false), sold: ['text', 'audio'] }
    const { body, warnings } = await lowered(asks('chat', speech), route)
    expect(body).toMatchObject(speech)
    expect(warnings).toEqual([])
  })
})
