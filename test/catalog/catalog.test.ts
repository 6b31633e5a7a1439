import { describe, expect, test } from 'bun:test'
import { asGatewayError } from '../../src/errors/errors.ts'
import { catalogOf, override, row } from './support.ts'

function refusal(act: () => unknown) {
  try {
    act()
  } catch (thrown) {
    const error = asGatewayError(thrown)
    return { code: error.code, message: error.message, metadata: error.details.metadata }
  }
  return undefined
}

test('what is prepared in steps is not built again by the first list', () => {
  let built = 0
  const ignored = () => {
    built++
    return new Set<string>()
  }
  const catalog = catalogOf([row('a/x'), row('a/y'), row('b/z')], {
    ignored,
    overrides: [override({ id: 'fast', route: { to: ['a/x', 'b/z'] } })],
  })
  const steps = catalog.prepare()[Symbol.iterator]()
  steps.next()
  const first = built
  expect(first).toBeGreaterThan(0)
  while (steps.next().done !== true) expect(built).toBeGreaterThanOrEqual(first)
  const whole = built
  expect(whole).toBeGreaterThan(first)
  expect(catalog.list().map(({ id }) => id)).toEqual(['a/x', 'a/y', 'b/z', 'fast'])
  expect(built).toBe(whole)
})

describe('resolving', () => {
  test('gives the model with the part after the first slash as its upstream name', () => {
    const model = catalogOf([row('a/x/y')]).resolve('a/x/y')
    expect(model.offers).toMatchObject([{ provider: 'a', upstream: 'x/y' }])
  })

  test('is exact: no other case, no prefix', () => {
    const catalog = catalogOf([row('a/gpt-4o')])
    expect(refusal(() => catalog.resolve('a/GPT-4o'))?.code).toBe('model_not_found')
    expect(refusal(() => catalog.resolve('a/gpt-4o-2024'))?.metadata?.nearest).toEqual(['a/gpt-4o'])
    expect(refusal(() => catalog.resolve('gpt-4o'))?.code).toBe('invalid_model_id')
  })

  test.each([
    // retires on    on the day before, on it, after it (the day is 2026-06-15)
    ['2026-06-16', undefined],
    ['2026-06-15', undefined],
    ['2026-06-14', 'model_retired'],
  ])('a model that retires on %s answers %p', (retires_on, code) => {
    const catalog = catalogOf([row('a/old', { retires_on, successor: 'a/new' }), row('a/new')])
    expect(refusal(() => catalog.resolve('a/old'))?.code).toBe(code as never)
    expect(catalog.list().some((model) => model.id === 'a/old')).toBe(code === undefined)
  })

  test('a retired model names its successor', () => {
    const catalog = catalogOf([row('a/old', { retires_on: '2026-01-01', successor: 'a/new' }), row('a/new')])
    const refused = refusal(() => catalog.resolve('a/old'))
    expect(refused?.message).toContain('Use a/new instead.')
    expect(refused?.metadata).toEqual({ retired_on: '2026-01-01', successor: 'a/new' })
  })

  test.each<[string, string, string | null]>([
    ['that has retired is followed to one that has not', 'a/second', 'a/third'],
    ['that is not sold is none', 'a/gone', null],
    ['that leads back is none', 'a/back', null],
    ['that is the model itself is none', 'a/old', null],
  ])('a successor %s', (_, successor, named) => {
    const retires_on = '2026-01-01'
    const catalog = catalogOf([
      row('a/old', { retires_on, successor }),
      row('a/second', { retires_on, successor: 'a/third' }),
      row('a/back', { retires_on, successor: 'a/old' }),
      row('a/third'),
    ])
    const refused = refusal(() => catalog.resolve('a/old'))
    expect(refused?.metadata).toMatchObject({ successor: named })
    expect(refused?.message.includes('instead')).toBe(named !== null)
  })

  test('a model that cannot be sold is not suggested', () => {
    const catalog = catalogOf([
      row('a/river-1'),
      row('a/river-2', { price: { input: '1.0000001', output: '2' } }),
    ])
    expect(refusal(() => catalog.resolve('a/river-3'))?.metadata?.nearest).toEqual(['a/river-1'])
  })

  test('a model retires while the process runs', () => {
    let day = '2026-06-15'
    const catalog = catalogOf([row('a/old', { retires_on: '2026-06-15' })], { today: () => day })
    expect(catalog.resolve('a/old').id).toBe('a/old')
    day = '2026-06-16'
    expect(refusal(() => catalog.resolve('a/old'))?.code).toBe('model_retired')
  })
})

describe('a price that is announced', () => {
  const rising = row('a/m', {
    later_prices: [
      { from: '2026-06-16', price: { input: '3', output: '4' } },
      { from: '2027-01-01', price: { input: '5', output: '6' } },
    ],
  })
  const inputOf = (catalog: ReturnType<typeof catalogOf>) =>
    catalog.resolve('a/m').offers[0]!.price.rates.input

  test('is charged from its day on, while the process runs', () => {
    let day = '2026-06-15'
    const catalog = catalogOf([rising], { today: () => day })
    const before = catalog.resolve('a/m')
    expect(catalog.resolve('a/m')).toBe(before)
    expect(inputOf(catalog)).toBe(1_000_000n)
    for (const [today, rate] of [
      ['2026-06-16', 3_000_000n],
      ['2026-12-31', 3_000_000n],
      ['2027-01-01', 5_000_000n],
    ] as const) {
      day = today
      expect(inputOf(catalog)).toBe(rate)
      expect(catalog.list()[0]!.offers[0]!.price.rates.input).toBe(rate)
    }
    // A call that began the day before keeps its price.
    expect(before.offers[0]!.price.rates.input).toBe(1_000_000n)
  })

  test('replaces no price of the configuration, which is charged on every day', () => {
    const today = () => '2027-06-01'
    const stated = override({ id: 'a/m', price: { input: '0.5', output: '1' } })
    expect(inputOf(catalogOf([rising], { overrides: [stated], today }))).toBe(500_000n)
    const named = override({ id: 'a/m', name: 'M' })
    expect(inputOf(catalogOf([rising], { overrides: [named], today }))).toBe(5_000_000n)
  })
})

describe('a model without a price', () => {
  const catalog = catalogOf(
    [row('a/unpriced', { price: undefined }), row('a/half', { price: { input: '1' } as never })],
    {
      unpriced: [
        { id: 'b/known', reason: 'no source states a price' },
        { id: 'elsewhere/known', reason: 'no source states a price' },
      ],
    },
  )

  test.each(['a/unpriced', 'a/half', 'b/known'])('%s is not sold, and the error says why', (id) => {
    expect(catalog.find(id)).toBeUndefined()
    const refused = refusal(() => catalog.resolve(id))
    expect(refused?.code).toBe('model_not_found')
    expect(refused?.message).toContain('is not sold')
    expect(catalog.list()).toEqual([])
  })

  test('is listed for the operator, where its provider is known', () => {
    expect(catalog.unpriced.map(({ id }) => id)).toEqual(['a/half', 'a/unpriced', 'b/known'])
  })

  test('is sold once the configuration prices it', () => {
    const priced = catalogOf([row('a/x', { price: undefined })], {
      overrides: [override({ id: 'a/x', price: { input: '1', output: '1' } })],
    })
    expect(priced.resolve('a/x').priceSource).toBe('configuration')
    expect(priced.unpriced).toEqual([])
  })
})

describe('an override', () => {
  const base = row('a/x', {
    name: 'X',
    context_length: 1000,
    retires_on: '2026-01-01',
    price: {
      input: '1',
      cache_read: '0.1',
      output: '2',
      tiers: [{ above_prompt_tokens: 10, input: '9', output: '9' }],
    },
  })
  const withOverride = (written: object) =>
    catalogOf([base], { overrides: [override({ id: 'a/x', ...written })] })

  test('replaces the fields it names and keeps the rest', () => {
    const model = withOverride({ context_length: 5 }).resolve('a/x')
    expect(model).toMatchObject({ name: 'X', contextLength: 5, priceSource: 'test', priceDate: '2026-01-01' })
    expect(model.offers[0]?.price.rates.input).toBe(1_000_000n)
  })

  test('replaces a price as a whole, tiers and cache rates included', () => {
    const { price } = withOverride({ price: { input: '3', output: '4' } }).resolve('a/x').offers[0]!
    expect(price.rates).toMatchObject({ input: 3_000_000n, cacheRead: 3_000_000n, output: 4_000_000n })
    expect(price.tiers).toEqual([])
  })

  test('brings a retired model back', () => {
    expect(refusal(() => catalogOf([base]).resolve('a/x'))?.code).toBe('model_retired')
    expect(withOverride({}).resolve('a/x').deprecation).toBeUndefined()
  })

  test('adds a model of a provider that the configuration defines', () => {
    const written = {
      id: 'lab/qwen3',
      upstream: 'Qwen/Qwen3-32B',
      price: {
        input: '0.10',
        cache_read: '0.01',
        cache_write: '0.125',
        cache_write_1h: '0.20',
        output: '0.40',
      },
      context_length: 131072,
      max_output_tokens: 8192,
      premium: false,
    }
    const model = catalogOf([], {
      overrides: [override(written)],
      providersKnown: new Set(['lab']),
    }).resolve('lab/qwen3')
    expect(model).toMatchObject({
      contextLength: 131072,
      maxOutputTokens: 8192,
      premium: false,
      flashClass: true,
    })
    expect(model.offers).toMatchObject([
      {
        provider: 'lab',
        upstream: 'Qwen/Qwen3-32B',
        price: { rates: { cacheRead: 10_000n, cacheWrite5m: 125_000n, cacheWrite1h: 200_000n } },
      },
    ])
  })

  test('with offers is served by them in their order, at their own prices', () => {
    const model = withOverride({
      price: { input: '1', output: '2' },
      offers: [
        { provider: 'b', upstream: 'X-large', price: { input: '0.5', output: '1' } },
        { provider: 'nowhere', upstream: 'x' },
        { provider: 'a', upstream: 'x' },
      ],
    }).resolve('a/x')
    const offers = model.offers.map(({ provider, upstream, price }) => [
      provider,
      upstream,
      price.rates.input,
    ])
    expect(offers).toEqual([
      ['b', 'X-large', 500_000n],
      ['a', 'x', 1_000_000n],
    ])
  })

  describe('of a model whose row has offers', () => {
    const offers = [
      { provider: 'b', upstream: 'X-large', price: { input: '0.5', output: '1' } },
      { provider: 'a', upstream: 'x-1', price: { input: '0.7', output: '1' } },
    ]
    const offersWith = (written: object) =>
      catalogOf([row('a/x', { offers })], { overrides: [override({ id: 'a/x', ...written })] })
        .resolve('a/x')
        .offers.map(({ provider, upstream, price: { rates } }) => [provider, upstream, rates.input])

    test.each([
      ['nothing of them', {}, 500_000n, 700_000n, 'x-1'],
      ['the price: of each', { price: { input: '3', output: '4' } }, 3_000_000n, 3_000_000n, 'x-1'],
      ['the word free: of each', { price: 'free' }, 0n, 0n, 'x-1'],
      ['the name upstream: that of its own provider', { upstream: 'x-2' }, 500_000n, 700_000n, 'x-2'],
    ] as const)('replaces %s', (_what, written, first, second, upstream) => {
      expect(offersWith(written)).toEqual([
        ['b', 'X-large', first],
        ['a', upstream, second],
      ])
    })

    test('replaces them as a whole by its own, at their own prices', () => {
      const own = { provider: 'b', upstream: 'y', price: { input: '9', output: '9' } }
      const other = { provider: 'a', upstream: 'z' }
      expect(offersWith({ price: { input: '3', output: '4' }, offers: [own, other] })).toEqual([
        ['b', 'y', 9_000_000n],
        ['a', 'z', 3_000_000n],
      ])
    })
  })

  test('is free only where it says so', () => {
    const free = withOverride({ price: 'free' }).resolve('a/x').offers[0]!.price
    expect(Object.values(free.rates).every((rate) => rate === 0n)).toBe(true)
    expect(catalogOf([], { overrides: [override({ id: 'a/new' })] }).unpriced).toEqual([
      { id: 'a/new', reason: 'it has no price' },
    ])
  })

  test('sets audio both ways in one word, and each way where it says so', () => {
    const price = { input: '1', output: '2', audio: '8', output_audio: '16' }
    const { rates } = withOverride({ price }).resolve('a/x').offers[0]!.price
    expect([rates.inputAudio, rates.outputAudio]).toEqual([8_000_000n, 16_000_000n])
  })

  test.each([
    [{ id: 'a/x', price: { input: '1' } }, 'half a price'],
    [{ id: 'a/x', price: { input: '1', output: 2 } }, 'a number'],
    [{ id: 'a/x', price: { input: '1', output: '2', outputs: '2' } }, 'a misspelt rate'],
    [{ id: 'a/x', price: 'cheap' }, 'another word'],
    [{ id: 'a/x', context: 5 }, 'a misspelt field'],
    [{ id: 'x' }, 'an id without a provider'],
    [{ id: 'a/x', offers: [] }, 'no offer at all'],
  ])('%p is refused: %s', (written) => {
    expect(() => override(written)).toThrow()
  })
})

describe('access', () => {
  const access = (price: object, more: object = {}) =>
    catalogOf([row('a/x', { price: price as never, ...more })]).resolve('a/x')

  test.each([
    // input  output   premium  flash class
    ['0.50', '2.50', false, true],
    ['0.500001', '2.50', false, false],
    ['0.50', '2.500001', false, false],
    ['1', '24.999999', false, false],
    ['1', '25', true, false],
  ])('input %s, output %s: premium %p, flash class %p', (input, output, premium, flashClass) => {
    expect(access({ input, output })).toMatchObject({ premium, flashClass })
  })

  test('a tier above the limits leaves the short prompts of a model in flash class', () => {
    const tiers = [{ above_prompt_tokens: 200_000, input: '0.6', output: '1' }]
    expect(access({ input: '0.1', output: '1', tiers }).flashClass).toBe(true)
    expect(access({ input: '0.6', output: '1', tiers }).flashClass).toBe(false)
  })

  test('dear reasoning is dear output', () => {
    expect(access({ input: '0.1', output: '1', reasoning: '3' }).flashClass).toBe(false)
  })

  test('the row says premium before the rule does', () => {
    expect(access({ input: '1', output: '30' }, { premium: false }).premium).toBe(false)
    expect(access({ input: '1', output: '1' }, { premium: true }).premium).toBe(true)
  })

  test('the rule is a setting', () => {
    const premiumRule = { outputAtLeast: 2_000_000n }
    expect(catalogOf([row('a/x')], { premiumRule }).resolve('a/x').premium).toBe(true)
  })

  test('an embeddings model is cheap but not a chat model: the daily allowance does not pay for it', () => {
    expect(access({ input: '0.02', output: '0' }, { output: ['embeddings'] }).flashClass).toBe(false)
  })
})

describe('listing', () => {
  const catalog = catalogOf([
    row('b/zeta', { name: 'Zeta Large', price: { input: '5', output: '30' }, parameters: ['tools', 'seed'] }),
    row('a/alpha', { parameters: ['tools'] }),
    row('a/beta', { price: { input: '0.1', output: '0.2' }, parameters: [] }),
    row('unknown/x'),
  ])
  const ids = (filter: Parameters<typeof catalog.list>[0]) => catalog.list(filter).map((model) => model.id)

  test('is by id, and only of providers that are known', () => {
    expect(ids({})).toEqual(['a/alpha', 'a/beta', 'b/zeta'])
  })

  test.each([
    [{ q: 'LARGE zeta' }, ['b/zeta']],
    [{ q: 'large alpha' }, []],
    [{ provider: 'a' }, ['a/alpha', 'a/beta']],
    [{ access: 'premium' as const }, ['b/zeta']],
    [{ access: 'open' as const }, ['a/alpha', 'a/beta']],
    [{ maxPrice: 2_000_000n }, ['a/alpha', 'a/beta']],
    [{ maxPrice: 200_000n }, ['a/beta']],
    [{ supportedParameters: ['tools'] }, ['a/alpha', 'b/zeta']],
    [{ supportedParameters: ['tools', 'seed'] }, ['b/zeta']],
  ])('%p gives %p', (filter, expected) => {
    expect(ids(filter)).toEqual(expected)
  })
})
