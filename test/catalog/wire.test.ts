import { describe, expect, test } from 'bun:test'
import { z } from 'zod'
import { bundledCatalog, bundledRows } from '../../src/catalog/bundled/bundled.ts'
import { buildCatalog } from '../../src/catalog/catalog.ts'
import { etagMatches, etagOf, modelListSchema, modelListText, modelObject } from '../../src/catalog/wire.ts'
import { catalogOf, row } from './support.ts'

describe('the model object', () => {
  const object = modelObject(
    catalogOf([
      row('a/x', {
        name: 'X',
        context_length: 1000,
        max_output_tokens: 100,
        created: 1_700_000_000,
        input: ['text', 'image'],
        parameters: ['tools'],
        retires_on: '2027-01-01',
        price: {
          input: '0.15',
          cache_read: '0.0028',
          output: '0.60',
          reasoning: '1',
          per_call: { web_search: '0.01' },
          tiers: [{ above_prompt_tokens: 200_000, input: '0.30', output: '1.20' }],
        },
      }),
    ]).resolve('a/x'),
  )

  test('is to the letter of the contract, prices exact and per token', () => {
    expect(object).toEqual({
      id: 'a/x',
      object: 'model',
      created: 1_700_000_000,
      owned_by: 'a',
      name: 'X',
      description: 'X by a: text, image in, text out within 1,000 tokens.',
      context_length: 1000,
      context_window: 1000,
      max_model_len: 1000,
      max_output_tokens: 100,
      architecture: { input_modalities: ['text', 'image'], output_modalities: ['text'] },
      pricing: {
        prompt: '0.00000015',
        completion: '0.0000006',
        input_cache_read: '0.0000000028',
        input_cache_write: '0.00000015',
        input_cache_write_1h: '0.00000015',
        internal_reasoning: '0.000001',
        web_search: '0.01',
        tiers: [
          {
            above_prompt_tokens: 200_000,
            prompt: '0.0000003',
            completion: '0.0000012',
            input_cache_read: '0.0000003',
            input_cache_write: '0.0000003',
            input_cache_write_1h: '0.0000003',
          },
        ],
      },
      supported_parameters: ['tools'],
      access: 'open',
      flash_class: true,
      pools: ['daily', 'subscription', 'welcome', 'purchased'],
      price_source: 'test',
      price_date: '2026-01-01',
      deprecation: { retires_on: '2027-01-01', successor: null },
    })
  })

  test('says null where a limit is unknown, never a guess', () => {
    const unknown = modelObject(catalogOf([row('a/x')]).resolve('a/x'))
    expect(unknown).toMatchObject({
      context_length: null,
      max_model_len: null,
      max_output_tokens: null,
    })
    expect(unknown.pricing.web_search).toBeNull()
  })

  test('dates a model by its release, else by its price', () => {
    const created = 1_700_000_000
    const dated = [row('a/x', { date: '2026-01-01' }), row('a/y', { created })]
    expect(modelObject(catalogOf(dated).resolve('a/x')).created).toBe(Date.UTC(2026, 0, 1) / 1000)
    expect(modelObject(catalogOf(dated).resolve('a/y')).created).toBe(created)
  })

  test('the pools of a model outside flash class leave the daily allowance out', () => {
    const dear = modelObject(catalogOf([row('a/x', { price: { input: '1', output: '30' } })]).resolve('a/x'))
    expect(dear).toMatchObject({
      access: 'premium',
      flash_class: false,
      pools: ['subscription', 'welcome', 'purchased'],
    })
  })
})

describe('the list', () => {
  const file = bundledCatalog()
  const providersKnown = new Set(file.models.map(({ id }) => id.slice(0, id.indexOf('/'))))
  const models = buildCatalog({
    rows: bundledRows(file),
    providersKnown,
    today: () => '2026-11-21',
    date: file.date,
  }).list()
  const figures = { openai: { successRate: 0.5, p50Ms: 400 } }
  const textOf = (known: typeof figures | Record<string, never>) =>
    modelListText(models, (provider) => Reflect.get(known, provider) as typeof figures.openai | undefined)
  const list = modelListSchema.parse(JSON.parse(textOf(figures)))

  test('of the whole catalog has the documented shape', () => {
    // Parsing drops what the schema does not know.
    expect(list).toEqual(JSON.parse(textOf(figures)))
    expect(list.data.length).toBeGreaterThan(800)
  })

  test('has the figures of the last hour beside the price, and none where there are none', () => {
    const providersOf = (id: string) => list.data.find((model) => model.id === id)?.providers
    expect(providersOf('openai/gpt-5')).toEqual([{ id: 'openai', success_rate: 0.5, p50_latency_ms: 400 }])
    expect(providersOf('anthropic/claude-opus-4-5')).toEqual([
      { id: 'anthropic', success_rate: null, p50_latency_ms: null },
    ])
    expect(textOf({})).toContain('"success_rate":null')
    expect(textOf({})).not.toContain('"success_rate":0')
  })

  test('can be documented', () => {
    expect(z.toJSONSchema(modelListSchema)).toMatchObject({ type: 'object' })
  })

  test('has a tag that changes with its content and only with it', () => {
    const body = JSON.stringify(list)
    expect(etagOf(body)).toBe(etagOf(JSON.stringify(list)))
    expect(etagOf(body)).not.toBe(etagOf(`${body} `))
    expect(etagOf(body)).toMatch(/^"[\w-]{22}"$/)
  })
})

test.each([
  ['"abc"', true],
  ['W/"abc"', true],
  ['"x", "abc"', true],
  ['*', true],
  ['"x"', false],
  ['abc', false],
  ['', false],
  [undefined, false],
  [null, false],
])('If-None-Match %p for the tag "abc" matches: %p', (header, expected) => {
  expect(etagMatches(header, '"abc"')).toBe(expected)
})
