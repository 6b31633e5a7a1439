import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { buildCatalog } from '../../src/catalog/catalog.ts'
import { bundledCatalog, bundledRows } from '../../src/catalog/bundled/bundled.ts'
import { diffCatalogs } from '../../src/catalog/diff/diff.ts'
import { CatalogFileInvalid, type Imported } from '../../src/catalog/formats/format.ts'
import { exportLiteLlm, importLiteLlm } from '../../src/catalog/formats/litellm.ts'
import { exportModelsDev, importModelsDev } from '../../src/catalog/formats/models-dev.ts'
import { exportOwn, importOwn } from '../../src/catalog/formats/own.ts'
import type { Model } from '../../src/catalog/model.ts'
import { buildPrice, specOf } from '../../src/catalog/prices/price-spec.ts'
import { coveredProviders } from '../../src/catalog/generate/sources/providers.ts'
import type { CatalogRow } from '../../src/catalog/row.ts'
import { formatUsdPerMillion } from '../../src/credits/money.ts'
import { catalogOf, row } from './support.ts'

const file = bundledCatalog()
const providersKnown = new Set(['sim', ...coveredProviders.map((provider) => provider.id)])
const modelsFrom = (rows: readonly CatalogRow[]) =>
  buildCatalog({ rows, providersKnown, today: () => '2024-01-01', date: file.date }).list()
const bundled = modelsFrom(bundledRows(file))

const versions = (models: readonly Model[]) =>
  new Map(models.map(({ id, offers }) => [id, offers[0]?.price.version]))

/** The formats of others have no word for what a service tier costs. */
const withoutServiceTiers = (models: readonly Model[]) =>
  models.map((model) => {
    const [offer] = model.offers
    const { service_tiers: _, ...spec } = specOf(offer!.price)
    return { ...model, offers: [{ ...offer!, price: buildPrice(spec) }] }
  })

/** Everything that left and came back has the price it had; the format has said what did not leave. */
function expectSamePrices(imported: Imported, left: readonly { id: string }[]) {
  const gone = new Set(left.map(({ id }) => id))
  const kept = bundled.filter(({ id }) => !gone.has(id))
  expect(imported.refused).toEqual([])
  expect(kept.length).toBeGreaterThan(400)
  expect(versions(withoutServiceTiers(modelsFrom(imported.rows)))).toEqual(
    versions(withoutServiceTiers(kept)),
  )
}

describe('our own format', () => {
  test('carries the whole catalog there and back', () => {
    const { text, left } = exportOwn(bundled, file.date)
    const imported = importOwn(text)
    expect(left).toEqual([])
    expectSamePrices(imported, left)
    expect(diffCatalogs(bundled, modelsFrom(imported.rows))).toEqual({ added: [], removed: [], changed: [] })
  })

  test('carries offers, premium and retirement', () => {
    const models = catalogOf([
      row('a/x', {
        premium: true,
        retires_on: '2027-01-01',
        successor: 'a/y',
        offers: [
          { provider: 'b', upstream: 'big-x', price: { input: '3', output: '4' } },
          { provider: 'a', upstream: 'x' },
        ],
      }),
    ]).list()
    expect(catalogOf(importOwn(exportOwn(models, '2026-01-01').text).rows).list()).toEqual(models)
  })

  test.each([
    ['not json', 'not JSON'],
    ['{}', 'format'],
    ['{"format":"weir-catalog","version":2,"date":"2026-01-01","models":[]}', 'version'],
    [
      '{"format":"weir-catalog","version":1,"date":"2026-01-01","models":[{"id":"a/x","source":"s","date":"2026-01-01","price":{"input":"0.0000001","output":"1"}}]}',
      'models.0.price.input',
    ],
  ])('refuses %s and names the place', (text, place) => {
    expect(() => importOwn(text)).toThrow(CatalogFileInvalid)
    expect(() => importOwn(text)).toThrow(place)
  })
})

describe('the models.dev format', () => {
  test('carries the prices of the catalog there and back', () => {
    const { text, left } = exportModelsDev(bundled)
    expectSamePrices(importModelsDev(text, file.date), left)
  })

  const read = (cost: unknown) =>
    importModelsDev(
      JSON.stringify({ google: { id: 'google', models: { m: { id: 'm', cost } } } }),
      '2026-01-01',
    )

  test('is read under our name of the provider', () => {
    expect(read({ input: 1, output: 2 }).rows).toMatchObject([
      { id: 'gemini/m', price: { input: '1', output: '2' } },
    ])
  })

  test('prefers the list of tiers to the older field for the same step', () => {
    const cost = {
      input: 5,
      output: 30,
      cache_read: 0.5,
      tiers: [{ input: 10, output: 45, tier: { type: 'context', size: 272000 } }],
      context_over_200k: { input: 10, output: 45 },
    }
    expect(read(cost).rows[0]?.price?.tiers).toEqual([
      { above_prompt_tokens: 272_000, input: '10', output: '45', cache_read: '0.5' },
    ])
    const { tiers: _, ...older } = cost
    expect(read(older).rows[0]?.price?.tiers?.[0]?.above_prompt_tokens).toBe(200_000)
  })

  test.each([
    [undefined, 'no price'],
    [{ input: 1 }, 'no output price'],
    [{ input: 0.0627451, output: 1 }, 'input 0.0627451 is not a whole number of picodollars per token'],
    [{ input: 1, output: 1, tiers: [{ tier: { type: 'hour', size: 1 } }] }, 'its price depends on hour'],
  ])('refuses the cost %p: %s', (cost, reason) => {
    expect(read(cost)).toEqual({ rows: [], refused: [{ id: 'gemini/m', reason }] })
  })
})

describe('the LiteLLM format', () => {
  test('carries the prices of the catalog there and back', () => {
    const { text, left } = exportLiteLlm(bundled)
    expectSamePrices(importLiteLlm(text, file.date), left)
  })

  test('is read by the digits of its floats, with tiers, search and retirement', () => {
    const entry = {
      litellm_provider: 'anthropic',
      mode: 'chat',
      max_input_tokens: 200000,
      input_cost_per_token: 3e-6,
      output_cost_per_token: 1.5e-5,
      cache_read_input_token_cost: 3e-7,
      cache_creation_input_token_cost: 3.75e-6,
      cache_creation_input_token_cost_above_1hr: 6e-6,
      input_cost_per_token_above_200k_tokens: 6e-6,
      search_context_cost_per_query: { search_context_size_low: 0.01, search_context_size_high: 0.01 },
      deprecation_date: '2027-01-01',
    }
    const { rows } = importLiteLlm(JSON.stringify({ sample_spec: {}, 'claude-x': entry }), '2026-01-01')
    const model = catalogOf(rows).resolve('anthropic/claude-x')
    expect(model.deprecation?.retiresOn).toBe('2027-01-01')
    expect(model.offers[0]?.price).toMatchObject({
      rates: { input: 3_000_000n, cacheRead: 300_000n, cacheWrite5m: 3_750_000n, cacheWrite1h: 6_000_000n },
      tiers: [{ abovePromptTokens: 200_000, rates: { input: 6_000_000n, output: 15_000_000n } }],
      perCall: { web_search: 10_000_000_000n },
    })
  })

  test('refuses what it cannot charge, and passes over what the gateway does not serve', () => {
    const text = JSON.stringify({
      'openai/half': { litellm_provider: 'openai', input_cost_per_token: 1e-6 },
      'openai/odd': {
        litellm_provider: 'openai',
        input_cost_per_token: 1 / 3e6,
        output_cost_per_token: 1e-6,
      },
      'openai/dall-e-3': { litellm_provider: 'openai', mode: 'image_generation' },
      broken: 7,
    })
    const imported = importLiteLlm(text, '2026-01-01')
    expect(imported.rows).toEqual([])
    expect(imported.refused.map(({ id }) => id)).toEqual(['openai/half', 'openai/odd', 'broken'])
  })
})

test('any flat price survives every format', () => {
  const rate = fc.bigInt({ min: 0n, max: 10n ** 9n }).map(formatUsdPerMillion)
  fc.assert(
    fc.property(rate, rate, rate, rate, (input, output, cache_read, cache_write) => {
      const models = catalogOf([
        row('a/x', { price: { input, output, cache_read, cache_write } }),
        row('openai/y', { price: { input: output, output: input, cache_read, cache_write } }),
      ]).list()
      const back = (imported: Imported) => versions(catalogOf(imported.rows).list())
      expect(back(importOwn(exportOwn(models, '2026-01-01').text))).toEqual(versions(models))
      expect(back(importModelsDev(exportModelsDev(models).text, '2026-01-01'))).toEqual(versions(models))
      expect(back(importLiteLlm(exportLiteLlm(models).text, '2026-01-01'))).toEqual(versions(models))
    }),
  )
})

describe('the difference of two catalogs', () => {
  test('names what came, what went and what changed, in USD per million', () => {
    const before = catalogOf([row('a/gone'), row('a/same'), row('a/x', { context_length: 10 })]).list()
    const after = catalogOf([
      row('a/new'),
      row('a/same', { source: 'elsewhere', date: '2026-05-05' }),
      row('a/x', { price: { input: '1', cache_read: '0.1', output: '2' }, input: ['text', 'image'] }),
    ]).list()
    expect(diffCatalogs(before, after)).toEqual({
      added: ['a/new'],
      removed: ['a/gone'],
      changed: [
        {
          id: 'a/x',
          changes: [
            { field: 'contextLength', from: '10', to: undefined },
            { field: 'inputModalities', from: 'text', to: 'text, image' },
            { field: 'offers.0.price.rates.cacheRead', from: '1', to: '0.1' },
          ],
        },
      ],
    })
  })

  test('is empty between a catalog and itself', () => {
    expect(diffCatalogs(bundled, bundled)).toEqual({ added: [], removed: [], changed: [] })
  })
})
