import { describe, expect, test } from 'bun:test'
import {
  type Acknowledged,
  type CatalogSource,
  genaiPrices,
  mergeProvider,
  type SourceModel,
  withBilledAs,
} from '../../src/catalog/generate/sources/merge.ts'
import { coveredProviders, type CoveredProvider } from '../../src/catalog/generate/sources/providers.ts'
import { row } from './support.ts'

const provider: CoveredProvider = {
  ...coveredProviders.find(({ id }) => id === 'groq')!,
  id: 'p',
  genai: 'g',
  pi: 'q',
  sellsGenaiOnly: true,
}

function model(name: string, price: SourceModel['price'], more: Partial<SourceModel> = {}): SourceModel {
  return {
    names: [name],
    name: undefined,
    contextLength: undefined,
    maxOutputTokens: undefined,
    input: undefined,
    output: undefined,
    reasoning: undefined,
    temperature: undefined,
    price,
    withdrawn: false,
    refusal: undefined,
    ...more,
  }
}

function source(name: string, date: string, models: SourceModel[]): CatalogSource {
  return { name, version: '1', date, license: 'MIT', models: () => Promise.resolve(models) }
}

function merge(
  genai: SourceModel[],
  pi: SourceModel[],
  { acknowledged = [], as = provider }: { acknowledged?: Acknowledged[]; as?: CoveredProvider } = {},
) {
  const sources = { genai: source('genai', '2026-01-01', genai), pi: source('pi', '2026-02-02', pi) }
  return mergeProvider(as, sources, acknowledged, {})
}

describe('a price that a source announces', () => {
  const announced = [{ from: '2027-01-01', price: { input: '2', output: '4' } }]

  test('is kept with its day, without rates of the price before it and with the fees of the provider', async () => {
    const { rows } = await merge(
      [model('x', { input: '1', output: '2' }, { laterPrices: announced })],
      [model('x', { input: '1', output: '2', cache_read: '0.1' })],
      { as: { ...provider, searchFees: [{ models: /./, usd: '0.01' }] } },
    )
    expect(rows[0]!.later_prices).toEqual([
      { from: '2027-01-01', price: { input: '2', output: '4', per_call: { web_search: '0.01' } } },
    ])
  })

  test('is nothing where the other source was found to be right', async () => {
    const differs = { input: ['1', '3'] } as const
    const decision = { model: 'p/x', differs, take: 'pi', on: '2026-01-01', why: 'The younger source.' }
    const { rows } = await merge(
      [model('x', { input: '1', output: '2' }, { laterPrices: announced })],
      [model('x', { input: '3', output: '2' })],
      { acknowledged: [decision as unknown as Acknowledged] },
    )
    expect(rows[0]!.price).toMatchObject({ input: '3' })
    expect(rows[0]!.later_prices).toBeUndefined()
  })
})

describe('a model that is billed as another', () => {
  const from = '2026-10-08'
  const rows = [
    row('p/old', { price: { input: '9', output: '9' } }),
    row('p/new', {
      price: { input: '1', output: '1' },
      later_prices: [
        { from: '2026-09-01', price: { input: '2', output: '2' } },
        { from: '2027-01-01', price: { input: '4', output: '4' } },
      ],
    }),
  ]
  const decided = {
    model: 'p/old',
    billed_as: 'p/new',
    from,
    why: 'It is routed.',
    source: 'https://x.test/',
  }

  test('has the price of that from the day on, and what is announced for it', () => {
    expect(withBilledAs(rows, [decided])[0]).toMatchObject({
      price: { input: '9' },
      later_prices: [
        { from, price: { input: '2' } },
        { from: '2027-01-01', price: { input: '4' } },
      ],
    })
  })

  test('must be sold, and is removed once the sources have its price', () => {
    expect(() => withBilledAs(rows, [{ ...decided, billed_as: 'p/gone' }])).toThrow('p/gone is not sold')
    const known = [row('p/old', { price: { input: '2', output: '2' } }), rows[1]!]
    expect(() => withBilledAs(known, [decided])).toThrow('remove it')
  })
})

describe('two sources', () => {
  test('that agree complete each other, field by field', async () => {
    const { rows } = await merge(
      [model('x', { input: '1', output: '2', cache_write_1h: '3', per_call: { web_search: '0.01' } })],
      [model('x', { input: '1.0', output: '2', cache_read: '0.1' }, { contextLength: 1000 })],
    )
    expect(rows).toMatchObject([
      {
        id: 'p/x',
        context_length: 1000,
        price: {
          input: '1',
          output: '2',
          cache_read: '0.1',
          cache_write_1h: '3',
          per_call: { web_search: '0.01' },
        },
        source: 'genai-prices, pi',
        date: '2026-02-02',
      },
    ])
  })

  const genai = [
    model('x', { input: '1', output: '2', cache_write_1h: '2', per_call: { web_search: '0.01' } }),
  ]
  const pi = [model('x', { input: '1', output: '3' })]
  const decision: Acknowledged = {
    model: 'p/x',
    differs: { output: ['2', '3'] },
    take: 'pi',
    on: '2026-03-03',
    why: 'because the younger one is right',
  }

  test('that disagree stop the build until somebody decides', async () => {
    const merged = await merge(genai, pi)
    expect(merged.rows).toEqual([])
    expect(merged.open).toEqual([{ model: 'p/x', differs: { output: ['2', '3'] } }])
  })

  test('are taken as decided: all rates from one, for half of an old price is no price', async () => {
    const merged = await merge(genai, pi, { acknowledged: [decision] })
    expect(merged.open).toEqual([])
    expect(merged.used).toEqual(['p/x'])
    expect(merged.rows[0]).toMatchObject({ source: 'pi', date: '2026-02-02' })
    expect(merged.rows[0]?.price).toEqual({ input: '1', output: '3', per_call: { web_search: '0.01' } })
  })

  test('that have changed since the decision stop the build again', async () => {
    const dearer = [model('x', { input: '1', output: '4' })]
    expect((await merge(genai, dearer, { acknowledged: [decision] })).open).toHaveLength(1)
  })

  test('disagree when only one of them has a tier, or puts it elsewhere', async () => {
    const tiers = [{ above_prompt_tokens: 200_000, input: '2', output: '4' }]
    const flat = { input: '1', output: '2' }
    const { open } = await merge([model('x', { ...flat, tiers })], [model('x', flat)])
    expect(open[0]?.differs).toEqual({ tiers: ['>200000: 2/4', 'none'] })
  })
})

describe('an id', () => {
  const flat = { input: '1', output: '2' }

  test('is matched exactly, never by prefix', async () => {
    const { rows, open } = await merge([model('x', { input: '9', output: '9' })], [model('x-mini', flat)])
    expect(open).toEqual([])
    expect(rows.map(({ id, price }) => [id, price?.input])).toEqual([
      ['p/x', '9'],
      ['p/x-mini', '1'],
    ])
  })

  test('of a dated snapshot is sold, another spelling is not', async () => {
    const names = ['x.1', 'x.1-2026-01-02', 'x-1-2026-01-02', 'x-1', 'x.1-latest', 'ex-one']
    const { rows } = await merge([model('x.1', flat, { names })], [])
    expect(rows.map(({ id }) => id)).toEqual(['p/x.1', 'p/x.1-2026-01-02', 'p/x.1-latest'])
    expect(rows[1]?.created).toBe(Date.parse('2026-01-02T00:00:00Z') / 1000)
  })

  test('that the provider has withdrawn, or that no chat API serves, is not sold', async () => {
    const { rows } = await merge(
      [model('gone', flat, { withdrawn: true })],
      [model('x-realtime-1', flat), model('x:batch', flat), model('y', flat)],
    )
    expect(rows.map(({ id }) => id)).toEqual(['p/y'])
  })

  test('known only to the source with the long memory is not sold for a host of open models', async () => {
    const { rows } = await merge([model('old', flat)], [], { as: { ...provider, sellsGenaiOnly: false } })
    expect(rows).toEqual([])
  })
})

describe('a price', () => {
  test.each([
    [{}, 'no source states a price'],
    [{ input: '1' }, 'half a price'],
    [{ input: '0.0627451', output: '1' }, 'input 0.0627451 is not a whole number of picodollars per token'],
  ])('of %p is refused: %s', async (price, reason) => {
    const { rows, unpriced } = await merge([], [model('x', price)])
    expect(rows).toEqual([])
    expect(unpriced).toEqual([{ id: 'p/x', reason }])
  })

  test('of nothing is believed only where the provider puts it into the id', async () => {
    const { rows, unpriced } = await merge([], [model('x', {}), model('x:free', {})])
    expect(rows).toMatchObject([{ id: 'p/x:free', price: { input: '0', output: '0' } }])
    expect(unpriced.map(({ id }) => id)).toEqual(['p/x'])
  })

  test('with an hour in it is refused, unless the provider bills what it reports', async () => {
    const hourly = [
      model('x', { input: '1', output: '2' }, { refusal: 'its price depends on the hour of the day' }),
    ]
    expect((await merge(hourly, [])).unpriced).toHaveLength(1)
    expect((await merge(hourly, [], { as: { ...provider, reportsCost: true } })).rows).toHaveLength(1)
  })

  test('gets the one-hour cache write of twice its input, tiers included, where the provider has that rule', async () => {
    const tiers = [{ above_prompt_tokens: 10, input: '5', output: '9' }]
    const { rows } = await merge([], [model('x', { input: '1', output: '2', tiers })], {
      as: { ...provider, doubleHourWrite: /./ },
    })
    expect(rows[0]?.price).toMatchObject({ cache_write_1h: '2', tiers: [{ cache_write_1h: '10' }] })
  })
})

describe('genai-prices', () => {
  const priceOn = async (on: string, id: string) => {
    const models = await (await genaiPrices(on)).models('openai')
    return models.find(({ names }) => names[0] === id)?.price
  }

  test('gives the price in force on the day', async () => {
    expect(await priceOn('2025-06-09', 'o3')).toMatchObject({ input: '10', output: '40' })
    expect(await priceOn('2025-06-10', 'o3')).toMatchObject({ input: '2', output: '8' })
  })

  test('counts searches by the thousand and tokens by the million', async () => {
    expect(await priceOn('2026-10-01', 'gpt-5')).toMatchObject({
      input: '1.25',
      per_call: { web_search: '0.01' },
    })
  })

  test('refuses what is billed by pages, minutes or the hour of the day', async () => {
    const source = await genaiPrices('2026-10-01')
    const refusals = new Map(
      (await source.models('mistral')).map(({ names, refusal }) => [names[0], refusal]),
    )
    expect(refusals.get('mistral-ocr-2512')).toContain('billed by')
    const deepseek = await source.models('deepseek')
    expect(deepseek.find(({ names }) => names[0] === 'deepseek-v4-pro')?.refusal).toContain('hour of the day')
  })

  test('knows nothing of a provider under a name that is not its own', async () => {
    expect(await (await genaiPrices('2026-10-01')).models('gemini')).toEqual([])
  })
})

describe('the fee of a search', () => {
  const searching = { ...provider, searchFees: [{ models: /^x$/, usd: '0.014' }] }
  const feesOf = async (genai: SourceModel[], pi: SourceModel[]) => {
    const { rows } = await merge(genai, pi, { as: searching })
    return rows.map(({ id, price }) => [id, price?.per_call])
  }
  const price = { input: '1', output: '2' }

  test('is that of the provider where no source states one', async () => {
    expect(await feesOf([model('x', price)], [model('x', price), model('y', price)])).toEqual([
      ['p/x', { web_search: '0.014' }],
      ['p/y', undefined],
    ])
    expect(await feesOf([], [model('x', price)])).toEqual([['p/x', { web_search: '0.014' }]])
  })

  test.each(['genai-prices', 'pi'] as const)(
    'stays where the rates are taken from %s alone',
    async (take) => {
      const differs: Acknowledged['differs'] = { input: ['1', '3'] }
      const decision = { model: 'p/x', differs, take, on: '2026-01-01', why: 'The younger source.' }
      const { rows } = await merge([model('x', price)], [model('x', { ...price, input: '3' })], {
        as: searching,
        acknowledged: [decision],
      })
      expect(rows[0]!.price).toMatchObject({
        input: take === 'pi' ? '3' : '1',
        per_call: { web_search: '0.014' },
      })
    },
  )

  test('is what a source states', async () => {
    const stated = model('x', { ...price, per_call: { web_search: '0.01', file_search: '0.0025' } })
    expect(await feesOf([stated], [])).toEqual([['p/x', { web_search: '0.01', file_search: '0.0025' }]])
  })
})
