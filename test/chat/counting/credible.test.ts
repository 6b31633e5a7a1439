// What a provider counts is held against what it was asked and has answered; what cannot be is no count.

import { describe, expect, test } from 'bun:test'
import {
  type AskedRequest,
  type CountedOffer,
  credibleUsage,
  withoutSilence,
} from '../../../src/chat/counting/token-counter.ts'
import { buildPrice } from '../../../src/catalog/row.ts'
import { Delivered } from '../../../src/conversation/delivered.ts'
import { noUsage, type Side, type Usage } from '../../../src/conversation/usage.ts'

const price = buildPrice({ input: '1', output: '2', per_call: { web_search: '0.01' } })
const model: CountedOffer['model'] = {
  contextLength: 128_000,
  maxOutputTokens: 4_096,
  reasoning: false,
  outputModalities: ['text'],
}
const offer: CountedOffer = { model, offer: { price }, provider: { costFrom: 'rates' } }

interface Asked {
  readonly promptTokens?: number
  readonly unsized?: true
  readonly limit?: number
  readonly choices?: number
  readonly searches?: number
}

/** A prompt of at most 1,000 tokens, for an answer of at most five. */
function asking({
  promptTokens = 1_000,
  unsized,
  limit = 5,
  choices = 1,
  searches,
}: Asked = {}): AskedRequest {
  return {
    promptTokens,
    isUnsized: () => unsized === true,
    outputTokens: () => (limit === 0 ? undefined : limit),
    choices,
    searches,
  }
}

describe('of what a provider counts', () => {
  test.each<[string, Partial<Usage>, Asked, readonly Side[] | undefined]>([
    // what it counts, what was asked, the sides that are not believed
    ['a prompt within its bound', { input: 900, output: 5 }, {}, undefined],
    ['a prompt with instructions of the provider', { input: 20_000, output: 5 }, {}, undefined],
    ['a prompt of millions', { input: 9_000_000, output: 5 }, {}, ['prompt']],
    ['a prompt that only its context would hold', { input: 100_000, output: 5 }, {}, ['prompt']],
    ['the same from a cache', { cacheRead: 100_000, output: 5 }, {}, ['prompt']],
    ['the same with a document by its address', { input: 100_000, output: 5 }, { unsized: true }, undefined],
    ['the same after searches', { input: 400_000, output: 5 }, { searches: 5 }, undefined],
    ['the same of rounds of the provider', { input: 100_000, output: 5, rounds: 2 }, {}, undefined],
    ['millions of rounds of the provider', { input: 9e6, output: 5, rounds: 500 }, {}, ['prompt']],
    ['an answer of as much as was asked', { input: 9, output: 5 }, {}, undefined],
    ['an answer a word longer', { input: 9, output: 9 }, {}, undefined],
    ['an answer that ignores its limit', { input: 9, output: 500 }, {}, ['completion']],
    ['three answers', { input: 9, output: 100 }, { choices: 3 }, undefined],
    ['more than three answers', { input: 9, output: 200 }, { choices: 3 }, ['completion']],
    ['an answer and thoughts beside its limit', { input: 9, output: 5, reasoning: 3_000 }, {}, undefined],
    ['more thoughts than there can be', { input: 9, output: 5, reasoning: 90_000 }, {}, ['completion']],
    ['an answer without a limit', { input: 9, output: 4_096 }, { limit: 0 }, undefined],
    ['an answer that no model writes', { input: 9, output: 900_000 }, { limit: 0 }, ['completion']],
    ['nanoseconds', { input: 1e15, output: 2_900_000 }, {}, ['prompt', 'completion']],
  ])('%s is believed or is not', (_, counted, asked, uncounted) => {
    const usage = { ...noUsage, ...counted }
    const credible = credibleUsage(usage, offer, asking(asked))
    expect(credible.uncounted).toEqual(uncounted as Side[])
    if (uncounted === undefined) expect(credible).toBe(usage)
    if (uncounted?.includes('completion')) expect([credible.output, credible.reasoning]).toEqual([0, 0])
    else expect(credible.output).toBe(usage.output)
    if (uncounted?.includes('prompt')) expect([credible.input, credible.cacheRead]).toEqual([0, 0])
    else expect(credible.input).toBe(usage.input)
  })

  test('thoughts are believed of a model that thinks, though they are not counted apart', () => {
    const usage = { ...noUsage, input: 9, output: 3_000 }
    const thinks = { ...offer, model: { ...model, reasoning: true } }
    expect(credibleUsage(usage, thinks, asking())).toBe(usage)
    expect(credibleUsage(usage, offer, asking()).uncounted).toEqual(['completion'])
  })

  test('without any limit that is known, an answer of millions is not believed', () => {
    const unknown = { ...offer, model: { ...model, contextLength: undefined, maxOutputTokens: undefined } }
    const uncounted = (counted: Partial<Usage>) =>
      credibleUsage({ ...noUsage, ...counted }, unknown, asking({ limit: 0 })).uncounted
    expect(uncounted({ input: 9, output: 200_000 })).toBeUndefined()
    expect(uncounted({ input: 9_000_000, output: 2_900_000 })).toEqual(['prompt', 'completion'])
  })

  test('vectors have no output', () => {
    const vectors = { ...offer, model: { ...model, outputModalities: ['embeddings' as const] } }
    const uncounted = (counted: Partial<Usage>) =>
      credibleUsage({ ...noUsage, ...counted }, vectors, asking({ choices: 100 })).uncounted
    expect(uncounted({ input: 5_000 })).toBeUndefined()
    expect(uncounted({ input: 5_000, output: 90_000 })).toEqual(['completion'])
    expect(uncounted({ input: 500_000 })).toEqual(['prompt'])
  })

  test.each<[number, number | undefined, boolean]>([
    [1, undefined, false],
    [5, 5, true],
    [12, 5, true],
    [3_000, 5, false],
  ])('%p searches of %p that were asked for: believed %p', (web_search, searches, isBelieved) => {
    const usage = { ...noUsage, input: 9, toolCalls: { web_search } }
    const credible = credibleUsage(usage, offer, asking(searches === undefined ? {} : { searches }))
    expect(credible.toolCalls).toEqual(isBelieved ? { web_search } : {})
  })

  test('what it bills apart from its count is held against the same', () => {
    const usage = { ...noUsage, input: 9, output: 5 }
    const billed = { ...usage, billed: { input: 4, output: 5 } }
    expect(credibleUsage(billed, offer, asking())).toBe(billed)
    expect(credibleUsage({ ...usage, billed: { input: 9_000_000, output: 5 } }, offer, asking())).toEqual(
      usage,
    )
    expect(credibleUsage({ ...usage, billed: { input: 4, output: 9_000 } }, offer, asking())).toEqual(usage)
  })

  test('a cost is believed up to twice what the largest plausible usage costs by the catalog', () => {
    // 24,000 tokens of prompt, 40 of an answer.
    const most = 2 * (24_000 * 1e-6 + 40 * 2e-6)
    const reseller = { ...offer, provider: { costFrom: 'reported' } } as const
    const reported = (cost: number, of: CountedOffer = reseller) => {
      const usage = { ...noUsage, input: 9, reportedCost: cost.toFixed(6) }
      return credibleUsage(usage, of, asking()).reportedCost
    }
    expect(reported(most)).toBe(most.toFixed(6))
    expect(reported(most + 0.0001)).toBeUndefined()
    expect(reported(20.6)).toBeUndefined()
    // Nothing is charged by what other providers say of it.
    expect(reported(20.6, offer)).toBe('20.600000')
    // Where the catalog has no price, by what no model costs.
    const free = { ...reseller, offer: { price: buildPrice({ input: '0', output: '0' }) } }
    expect(reported(1.5, free)).toBe('1.500000')
    expect(reported(40, free)).toBeUndefined()
  })
})

describe('what a provider counts as nothing', () => {
  const saying = (...texts: string[]) => {
    const delivered = new Delivered()
    for (const text of texts) delivered.add(0, 'output', text)
    return delivered
  }
  const letters = 'The river runs to the weir and on to the sea. '.repeat(40)

  test.each<[string, Partial<Usage>, Delivered, readonly Side[] | undefined]>([
    ['no output beside none', { input: 9 }, new Delivered(), undefined],
    ['no output beside text', { input: 9 }, saying('Hi'), ['completion']],
    ['no prompt', { output: 2 }, saying('Hi'), ['prompt']],
    ['nothing at all', {}, saying(letters), ['prompt', 'completion']],
    ['a prompt from a cache alone', { cacheRead: 9, output: 2 }, saying('Hi'), undefined],
    ['thoughts beside text', { input: 9, reasoning: 400 }, saying(letters), undefined],
    ['one token of a long text', { input: 9, output: 1 }, saying(letters), ['completion']],
    ['one token of a few words', { input: 9, output: 1 }, saying('The river runs.'), undefined],
    ['few tokens of an image as text', { input: 9, output: 3 }, saying('A'.repeat(50_000)), undefined],
    ['a fair count', { input: 9, output: 440 }, saying(letters), undefined],
  ])('%s', (_, counted, delivered, uncounted) => {
    const usage = { ...noUsage, ...counted }
    const heard = withoutSilence(usage, delivered)
    expect(heard.uncounted).toEqual(uncounted as Side[])
    if (uncounted === undefined) expect(heard).toBe(usage)
  })

  test('is not billed as nothing either', () => {
    const billed = { ...noUsage, input: 9, output: 400, billed: { input: 9, output: 0 } }
    expect(withoutSilence(billed, saying(letters)).billed).toBeUndefined()
    expect(withoutSilence({ ...noUsage, reportedCost: '0' }, saying(letters)).reportedCost).toBeUndefined()
    // With a count, a cost of nothing is one.
    const free = { ...noUsage, input: 9, output: 400, reportedCost: '0' }
    expect(withoutSilence(free, saying(letters))).toBe(free)
  })
})
