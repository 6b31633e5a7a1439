import { describe, expect, test } from 'bun:test'
import { findProvider } from '@pydantic/genai-prices'
import { bundledCatalog, bundledRows, simModels } from '../../src/catalog/bundled/bundled.ts'
import { buildCatalog } from '../../src/catalog/catalog.ts'
import { canonicalPrice, catalogFileSchema, rowSchema } from '../../src/catalog/row.ts'
import { acknowledgementsSchema } from '../../src/catalog/generate/sources/merge.ts'
import { coveredProviders } from '../../src/catalog/generate/sources/providers.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { formatUsd } from '../../src/credits/money.ts'
import { ceilingOf, costOf } from '../../src/credits/price.ts'

const file = bundledCatalog()
const providersKnown = new Set(['sim', ...coveredProviders.map((provider) => provider.id)])
const build = (today = file.date) =>
  buildCatalog({
    rows: bundledRows(file),
    unpriced: file.unpriced,
    providersKnown,
    today: () => today,
    date: file.date,
  })
const catalog = build('2024-01-01')

/** USD per million tokens, as numbers a person can compare with a price page. */
function perMillion(id: string) {
  const { rates, tiers, perCall } = catalog.resolve(id).offers[0]!.price
  const plain = (pico: bigint) => Number(pico) / 1e6
  return {
    input: plain(rates.input),
    cacheRead: plain(rates.cacheRead),
    write5m: plain(rates.cacheWrite5m),
    write1h: plain(rates.cacheWrite1h),
    output: plain(rates.output),
    tiers: tiers.map((tier) => [tier.abovePromptTokens, plain(tier.rates.input), plain(tier.rates.output)]),
    search: Number(perCall.web_search ?? 0n) / 1e12,
  }
}

describe('the committed catalog', () => {
  test('has the shape of its schema, and so have the simulator models', () => {
    expect(() => catalogFileSchema.parse(file)).not.toThrow()
    for (const model of simModels) expect(() => rowSchema.parse(model)).not.toThrow()
  })

  test('sells every row: each builds with whole picodollar rates, input and output above zero unless :free', () => {
    const models = catalog.list()
    expect(models).toHaveLength(file.models.length + simModels.length)
    expect(models.length).toBeGreaterThan(800)
    for (const model of models) {
      const { rates, version } = model.offers[0]!.price
      expect(version).toMatch(/^pv_[0-9a-f]{12}$/)
      expect(rates.input > 0n || model.id.endsWith(':free')).toBe(true)
      expect(
        rates.output > 0n || model.id.endsWith(':free') || model.outputModalities[0] === 'embeddings',
      ).toBe(true)
      // A per-thousand or per-token figure taken for a per-million one would land outside these bounds.
      expect(rates.input <= 500_000_000n && rates.output <= 2_000_000_000n).toBe(true)
      expect(rates.cacheRead <= rates.input).toBe(true)
    }
  })

  test('has each id once, in order within its provider', () => {
    const ids = file.models.map((model) => model.id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const provider of providersKnown) {
      const own = ids.filter((id) => id.startsWith(`${provider}/`))
      expect(own).toEqual([...own].toSorted())
    }
  })

  test('has the prices that are announced: half price ends with 2026', () => {
    const inputOn = (day: string, id: string) =>
      Number(build(day).resolve(id).offers[0]!.price.rates.input) / 1e6
    for (const id of ['gemini/gemini-3.8-flash', 'vertex/gemini-3.8-flash', 'gemini/gemini-3.5-flash'])
      expect([inputOn('2026-12-31', id), inputOn('2027-01-01', id)]).toEqual([0.75, 1.5])
    // Google answers it with a model that costs half.
    expect(inputOn('2026-10-07', 'gemini/gemini-3.5-flash')).toBe(1.5)
  })

  test('never sells what it lists as unpriced', () => {
    const sold = new Set(file.models.map((model) => model.id))
    expect(file.unpriced.length).toBeGreaterThan(0)
    for (const { id } of file.unpriced) {
      expect(sold.has(id)).toBe(false)
      expect(() => catalog.resolve(id)).toThrow('is not sold')
    }
  })

  test('names only successors that are for sale when they are needed', () => {
    const later = build('2026-11-21')
    for (const { successor } of file.models) {
      if (successor !== undefined) expect(later.resolve(successor).id).toBe(successor)
    }
  })

  test('has a reason for every disagreement that somebody decided', async () => {
    const decided = acknowledgementsSchema.parse(
      await Bun.file(`${import.meta.dir}/../../src/catalog/generate/acknowledged.json`).json(),
    )
    const sold = new Set(file.models.map((model) => model.id))
    for (const entry of decided) {
      expect(sold.has(entry.model)).toBe(true)
      expect(Object.keys(entry.differs).length).toBeGreaterThan(0)
    }
  })

  test('two prices share a version only when they are the same price', () => {
    const byVersion = new Map<string, string>()
    for (const model of catalog.list()) {
      const { price } = model.offers[0]!
      const canonical = canonicalPrice(price)
      expect(byVersion.get(price.version) ?? canonical).toBe(canonical)
      byVersion.set(price.version, canonical)
    }
  })
})

// Figures both sources state (of gpt-5.6-luna all but the tier's limit, which OpenAI's page decides): the
// rows say so in `source`, and the merge fails where they differ.
describe('known prices, USD per million tokens', () => {
  const none: unknown[] = []
  test.each([
    // id                            input cache  5m     1h     output tiers
    ['openai/gpt-4o', 2.5, 1.25, 2.5, 2.5, 10, none],
    ['openai/gpt-4o-mini', 0.15, 0.075, 0.15, 0.15, 0.6, none],
    ['openai/gpt-4.1', 2, 0.5, 2, 2, 8, none],
    ['openai/gpt-5', 1.25, 0.125, 1.25, 1.25, 10, none],
    ['openai/o3', 2, 0.5, 2, 2, 8, none],
    ['openai/gpt-5.6-luna', 0.2, 0.02, 0.25, 0.25, 1.2, [[272_000, 0.4, 1.8]]],
    ['anthropic/claude-haiku-4-5', 1, 0.1, 1.25, 2, 5, none],
    ['anthropic/claude-opus-4-5', 5, 0.5, 6.25, 10, 25, none],
    ['anthropic/claude-sonnet-4-6', 3, 0.3, 3.75, 6, 15, none],
    ['anthropic/claude-opus-5-5', 4, 0.2, 5, 8, 20, none],
    ['gemini/gemini-2.5-flash', 0.3, 0.03, 0.3, 0.3, 2.5, none],
    ['gemini/gemini-2.5-pro', 1.25, 0.125, 1.25, 1.25, 10, [[200_000, 2.5, 15]]],
    ['groq/llama-3.3-70b-versatile', 0.59, 0.59, 0.59, 0.59, 0.79, none],
  ] as const)('%s', (id, input, cacheRead, write5m, write1h, output, tiers) => {
    expect(perMillion(id)).toMatchObject({
      input,
      cacheRead,
      write5m,
      write1h,
      output,
      tiers: tiers as never,
    })
  })

  test('OpenAI has one boundary of long prompts: 272,000 tokens still pay the base rate', () => {
    const limits = file.models
      .filter(({ id }) => /^(openai|bedrock)\//.test(id) && /gpt-/.test(id))
      .flatMap(({ price }) => price?.tiers ?? [])
      .map((tier) => tier.above_prompt_tokens)
    expect(limits.length).toBeGreaterThan(30)
    expect(new Set(limits)).toEqual(new Set([272_000]))
    const { price } = catalog.resolve('openai/gpt-5.6-luna').offers[0]!
    const inputAt = (prompt: number) => costOf({ ...noUsage, input: prompt }, price).lines[0]!.rate
    expect([inputAt(272_000), inputAt(272_001)]).toEqual([200_000n, 400_000n])
  })

  test('whoever reads or writes sound has a rate for it, or a provider that reports what it costs', () => {
    const reporting = new Set(coveredProviders.filter(({ reportsCost }) => reportsCost).map(({ id }) => id))
    const heard = catalog.list().filter((model) => model.inputModalities.includes('audio'))
    expect(heard.length).toBeGreaterThan(20)
    for (const { id, offers } of heard)
      if (!reporting.has(offers[0]!.provider))
        expect([id, offers[0]!.price.unstated]).toEqual([id, expect.not.arrayContaining(['inputAudio'])])
  })

  test.each([
    ['mistral/voxtral-small-latest', ['inputAudio', 'outputAudio', 'outputImage']],
    ['bedrock/mistral.voxtral-mini-3b-2507', ['inputAudio', 'outputAudio', 'outputImage']],
    ['openai/gpt-audio', ['outputImage']],
    ['gemini/gemini-2.5-flash', ['outputAudio', 'outputImage']],
    ['gemini/gemini-3.1-pro-preview', ['outputAudio', 'outputImage']],
    ['sim/echo', ['outputAudio', 'outputImage']],
  ] as const)('%s states no rate for %p', (id, unstated) => {
    expect(catalog.resolve(id).offers[0]!.price.unstated).toEqual(unstated)
  })

  // https://ai.google.dev/gemini-api/docs/pricing
  test('cached sound has its own rate at Gemini', () => {
    const { rates } = catalog.resolve('gemini/gemini-2.5-flash').offers[0]!.price
    expect([rates.cacheRead, rates.cacheReadAudio, rates.inputAudio]).toEqual([30_000n, 100_000n, 1_000_000n])
  })

  // https://docs.perplexity.ai/getting-started/pricing
  test.each([
    ['sonar', '0.005', '0.008', '0.012'],
    ['sonar-reasoning-pro', '0.006', '0.01', '0.014'],
  ])("a request to Perplexity's %s costs %s, %s or %s by its search context", (name, low, medium, high) => {
    const { price } = catalog.resolve(`perplexity/${name}`).offers[0]!
    const fee = (searchContext?: string) =>
      formatUsd(costOf({ ...noUsage, ...(searchContext && { searchContext }) }, price).total)
    expect([fee('low'), fee('medium'), fee('high')]).toEqual([low, medium, high])
    // Nobody said: the most it can have been, which is also what is held for it.
    expect([fee(), fee('gigantic'), fee('constructor')]).toEqual([high, high, high])
    expect(formatUsd(ceilingOf({ promptTokens: 0, outputTokens: 0, toolCalls: {} }, price))).toBe(high)
  })

  test('a web search costs a cent at OpenAI and Anthropic', () => {
    for (const id of ['openai/gpt-5', 'anthropic/claude-haiku-4-5', 'anthropic/claude-haiku-4-5-20251001']) {
      expect(perMillion(id).search).toBe(0.01)
    }
  })

  test('agree with the installed genai-prices where it has one flat price for the id', () => {
    const models = findProvider({ providerId: 'openai' })?.models ?? []
    const flat = models.filter(({ id, prices }) => catalog.find(`openai/${id}`) && !Array.isArray(prices))
    expect(flat.length).toBeGreaterThan(30)
    for (const { id, prices } of flat) {
      const input = Array.isArray(prices) ? undefined : prices.input_mtok
      expect(perMillion(`openai/${id}`).input).toBe(
        (typeof input === 'object' ? input.base : input) ?? Number.NaN,
      )
    }
  })

  test('the dated price that has begun is taken, not the first in the history', () => {
    // o3 started at 10 and 40 and fell on 2025-06-10; Sol fell from 5 and 30 on 2026-08-21.
    expect(perMillion('openai/o3').input).toBe(2)
    expect(perMillion('openai/gpt-5.6-sol')).toMatchObject({ input: 4, output: 20 })
  })
})

describe('the simulator models', () => {
  test('that chat are flash class and open, so that every pool can pay; premium is premium', () => {
    for (const { id } of simModels.filter(({ output }) => output === undefined)) {
      expect(catalog.resolve(id)).toMatchObject({
        premium: id === 'sim/premium',
        flashClass: id !== 'sim/premium',
      })
    }
  })
})

test('parsing and building the whole catalog fits into the start of the process', () => {
  const once = () => {
    const start = performance.now()
    const parsed = bundledCatalog()
    buildCatalog({ rows: bundledRows(parsed), providersKnown, today: () => file.date, date: parsed.date })
    return performance.now() - start
  }
  once()
  expect(Math.min(once(), once(), once(), once(), once())).toBeLessThan(15)
})
