import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  buildPrice,
  decimalOf,
  PriceRefused,
  priceSpecSchema,
  shiftDecimal,
  specOf,
} from '../../src/catalog/row.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { formatUsdPerMillion, usd } from '../../src/credits/money.ts'
import { ceilingOf, costOf, isFree } from '../../src/credits/price.ts'

describe('decimals out of floats', () => {
  test.each([
    [1.5e-7, '0.00000015'],
    [2.5e-6, '0.0000025'],
    [0.0028, '0.0028'],
    [1e21, '1000000000000000000000'],
    [0, '0'],
    [-0.5, '-0.5'],
    [30, '30'],
  ])('%p is %s', (value, text) => {
    expect(decimalOf(value)).toBe(text)
  })

  test.each([
    ['1.5e-07', 6, '0.15'],
    ['0.0000025', 6, '2.5'],
    ['10', -3, '0.01'],
    ['2.5', -6, '0.0000025'],
    ['0', 6, '0'],
  ])('%s moved by %p is %s', (text, places, moved) => {
    expect(shiftDecimal(text, places)).toBe(moved)
  })

  test('what is no number is refused', () => {
    for (const text of ['', '1,5', '0x10', 'NaN', '1e999']) expect(shiftDecimal(text, 0)).toBeUndefined()
    expect(decimalOf(Number.NaN)).toBeUndefined()
  })

  test('shifting there and back gives the same digits', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 12n }), (perToken) => {
        const text = formatUsdPerMillion(perToken)
        expect(shiftDecimal(shiftDecimal(text, -6) ?? '', 6)).toBe(text)
      }),
    )
  })
})

describe('a price', () => {
  test('is exact: USD per million tokens are picodollars per token times a million', () => {
    const price = buildPrice({ input: '0.15', cache_read: '0.0028', output: '0.60' })
    expect(price.rates).toMatchObject({
      input: 150_000n,
      cacheRead: 2_800n,
      output: 600_000n,
      reasoning: 600_000n,
    })
  })

  test('without cache rates charges cached tokens like fresh ones, never nothing', () => {
    const { rates } = buildPrice({ input: '1', output: '2' })
    expect([rates.cacheRead, rates.cacheWrite5m, rates.cacheWrite1h]).toEqual([
      1_000_000n,
      1_000_000n,
      1_000_000n,
    ])
  })

  test('has its tiers in ascending order', () => {
    const tier = (above: number) => ({ above_prompt_tokens: above, input: '2', output: '3' })
    const { tiers } = buildPrice({ input: '1', output: '2', tiers: [tier(272_000), tier(128_000)] })
    expect(tiers.map((each) => each.abovePromptTokens)).toEqual([128_000, 272_000])
    const free = { above_prompt_tokens: 128_000, input: '0', output: '0' }
    expect(() => buildPrice({ input: '1', output: '2', tiers: [tier(128_000), free] })).toThrow(
      'two tiers begin above 128000 prompt tokens',
    )
  })

  test.each(['0.0000001', '-1', '', 'free', '1e-3', '1,5', ' 1'])(
    'of %p is refused, not rounded',
    (input) => {
      expect(() => buildPrice({ input, output: '1' })).toThrow(PriceRefused)
      expect(priceSpecSchema.safeParse({ input, output: '1' }).success).toBe(false)
    },
  )

  test('must be a string: a YAML number has been a float already', () => {
    const refused = priceSpecSchema.safeParse({ input: 0.1, output: '1' })
    expect(refused.error?.issues[0]?.message).toContain('as a string')
  })

  test('has the rates of other service tiers, each a factor of all standard ones', () => {
    const tier = { above_prompt_tokens: 100, input: '2', output: '4' }
    const price = buildPrice({
      input: '1',
      output: '2',
      tiers: [tier],
      service_tiers: { flex: '0.5', priority: '1.75' },
    })
    const { flex, priority } = price.serviceTiers
    expect([flex?.rates.input, flex?.rates.output, flex?.tiers[0]?.rates.output]).toEqual([
      500_000n,
      1_000_000n,
      2_000_000n,
    ])
    expect([priority?.rates.input, priority?.tiers[0]?.rates.input]).toEqual([1_750_000n, 3_500_000n])
    expect(buildPrice(specOf(price))).toEqual(price)
    expect(price.version).not.toBe(buildPrice({ input: '1', output: '2', tiers: [tier] }).version)
  })

  test('is refused where a service tier would cost parts of a picodollar', () => {
    const spec = { input: '0.000001', output: '1', service_tiers: { flex: '0.5' } }
    expect(() => buildPrice(spec)).toThrow('service_tiers.flex')
    for (const factor of ['-1', '0,5', '1e3', ''])
      expect(priceSpecSchema.safeParse({ ...spec, service_tiers: { flex: factor } }).success).toBe(false)
  })

  test('says which media it has no rate for, unless all is free; saying that they cost what text costs is the same price', () => {
    const flat = { input: '1', output: '2' }
    const stated = buildPrice({ ...flat, input_audio: '1', output_audio: '2', output_image: '2' })
    expect(buildPrice(flat).unstated).toEqual(['inputAudio', 'outputAudio', 'outputImage'])
    expect([stated.unstated, buildPrice({ input: '0', output: '0' }).unstated]).toEqual([[], []])
    expect(stated.version).toBe(buildPrice(flat).version)
    expect(buildPrice({ ...flat, input_audio: '8' }).rates.cacheReadAudio).toBe(8_000_000n)
  })

  test('charges audio and images above a tier no less than below it, if the tier does not say', () => {
    const media = { input_audio: '10', output_audio: '80', output_image: '40' }
    const long = { above_prompt_tokens: 1_000, input: '2', output: '50' }
    const { rates } = buildPrice({ input: '1', output: '2', ...media, tiers: [long] }).tiers[0]!
    expect(rates).toMatchObject({
      inputAudio: 10_000_000n,
      cacheReadAudio: 10_000_000n,
      outputAudio: 80_000_000n,
      outputImage: 50_000_000n,
    })
    const stated = { ...long, input_audio: '3' }
    const own = buildPrice({ input: '1', output: '2', ...media, tiers: [stated] }).tiers[0]!
    expect([own.rates.inputAudio, own.rates.cacheReadAudio]).toEqual([3_000_000n, 3_000_000n])
  })

  test('holds the highest fee of the search contexts, and is not free because of tokens that are', () => {
    const contexts = { per_request_by_search_context: { low: '0.005', high: '0.014' } }
    const price = buildPrice({ input: '0', output: '0', ...contexts })
    const searched = costOf({ ...noUsage, input: 10, searchContext: 'high' }, price).total
    expect(searched).toBe(usd('0.014'))
    expect(ceilingOf({ promptTokens: 10, outputTokens: 10, toolCalls: {} }, price)).toBe(searched)
    expect(isFree(price)).toBe(false)
    expect(buildPrice(specOf(price))).toEqual(price)
    expect(() => buildPrice({ input: '0', output: '0', ...contexts, per_request: '0.01' })).toThrow(
      'per_request 0.01 is less than 0.014',
    )
  })

  const rate = fc.bigInt({ min: 0n, max: 10n ** 10n }).map(formatUsdPerMillion)
  const rates = fc.record(
    { input: rate, output: rate, cache_read: rate, cache_write: rate, cache_write_1h: rate, reasoning: rate },
    { requiredKeys: ['input', 'output'] },
  )

  test('written out in full has the same version; another rate has another', () => {
    fc.assert(
      fc.property(rates, (spec) => {
        const price = buildPrice(spec)
        expect(price.version).toMatch(/^pv_[0-9a-f]{12}$/)
        expect(buildPrice(specOf(price))).toEqual(price)
        const dearer = buildPrice({ ...specOf(price), output: formatUsdPerMillion(price.rates.output + 1n) })
        expect(dearer.version).not.toBe(price.version)
      }),
    )
  })
})
