// What must be held for a call, and what a held amount pays for.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  needOf,
  outputBound,
  outputWithin,
  quickNeed,
  wantedOf,
  withReserve,
} from '../../../src/chat/billing/need.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import { ceilingOf } from '../../../src/credits/price.ts'
import { candidateOf, envelope, modelOf, priceOf } from '../support.ts'

const offerOf = (provider: string, input: bigint, output: bigint) => ({
  provider,
  upstream: 'm',
  price: priceOf(input, output),
})

describe('the need', () => {
  const dear = { ...candidateOf('a'), offer: offerOf('a', 3_000_000n, 9_000_000n) }
  const cheap = { ...candidateOf('b'), offer: offerOf('b', 1_000_000n, 2_000_000n) }

  test('is that of the dearest offer that may serve', () => {
    const need = needOf({ ...envelope, maxOutputTokens: 10 }, [cheap, dear], 100, 4_096)
    expect(need.want).toBe(100n * 3_000_000n + 10n * 9_000_000n)
    expect(need.least).toBe(100n * 3_000_000n + 9_000_000n)
    expect(need.bounded).toBe(true)
  })

  test.each<[string, object, number, boolean]>([
    // what, of the envelope, output tokens held for, bounded
    ['a typical figure when nothing is said', {}, 1_000, false],
    ['what was asked for', { maxOutputTokens: 7 }, 7, true],
    ['the model can make no more', { maxOutputTokens: 1_000_000 }, 4_096, false],
    ['each of n answers', { maxOutputTokens: 7, n: 3 }, 21, true],
  ])('holds for %s', (_, more, tokens, bounded) => {
    const need = needOf({ ...envelope, ...more }, [cheap], 0, 1_000)
    expect([need.bound.outputTokens, need.bounded]).toEqual([tokens, bounded])
  })

  test('without output is that of the prompt, and no more is needed to begin', () => {
    const need = needOf({ ...envelope, maxOutputTokens: 0 }, [cheap], 100, 4_096)
    expect([need.want, need.least, need.bounded]).toEqual([100_000_000n, 100_000_000n, true])
  })

  test('max_cost caps it; one that is too low or no amount is refused by name', () => {
    const asked = (maxCost: string) => needOf({ ...envelope, maxCost }, [cheap], 100, 4_096)
    expect(asked('0.001').want).toBe(1_000_000_000n)
    for (const wrong of ['0.0000001', '0', '-1', 'much'])
      expect(() => asked(wrong)).toThrow(
        expect.objectContaining({ details: expect.objectContaining({ param: 'max_cost' }) }),
      )
  })

  test('a max_cost that is too low is told the least in dollars', () => {
    expect(() => needOf({ ...envelope, maxCost: '0.0000001' }, [cheap], 100, 4_096)).toThrow(
      expect.objectContaining({
        details: expect.objectContaining({ metadata: { least_usd: '0.000102' } }),
      }),
    )
  })

  test('what the held amount affords never costs more than it', () => {
    fc.assert(
      fc.property(fc.bigInt(300_000_000n, 10n ** 12n), fc.integer({ min: 1, max: 4 }), (held, n) => {
        const need = needOf({ ...envelope, n }, [dear], 100, 4_096)
        const output = outputWithin(held, need, dear.offer.price, n)
        const cost = ceilingOf(
          { promptTokens: 100, outputTokens: output * n, toolCalls: {} },
          dear.offer.price,
        )
        return output === 1 || cost <= held
      }),
    )
  })
})

describe('the quick need', () => {
  const candidates = [candidateOf('a')]
  // 1 a token of input, 2 a token of output, in millionths of a dollar: a prompt of 100 and 10 tokens of output are 120.
  const asked = { ...envelope, maxOutputTokens: 10 }
  const enough = 120_000_000n

  test.each<[string, object, bigint, boolean]>([
    ['the credit covers it', {}, enough, true],
    ['the credit falls short by the smallest unit', {}, enough - 1n, false],
    ['max_cost is above it', { maxCost: '0.000121' }, enough, true],
    ['max_cost may be below it', { maxCost: '0.000119' }, enough, false],
    ['max_cost is no amount', { maxCost: 'much' }, enough, false],
  ])('will do without a count of the prompt where %s', (_, more, free, will) => {
    expect(quickNeed({ ...asked, ...more }, candidates, 100, 1_000, free) !== undefined).toBe(will)
  })
})

describe('the output to ask of a candidate', () => {
  const price = priceOf(1_000_000n, 2_000_000n)
  const candidate = (limits: object): Candidate => ({
    ...candidateOf('a'),
    model: modelOf('a/m', { ...limits, offers: [offerOf('a', 1_000_000n, 2_000_000n)] }),
    offer: { provider: 'a', upstream: 'm', price },
  })
  const known = candidate({ maxOutputTokens: 500 })
  const unknown = candidate({ maxOutputTokens: undefined })
  const inContext = candidate({ maxOutputTokens: undefined, contextLength: 8_192 })
  /** Picodollars that pay for the prompt of 100 tokens and so many of output. */
  const paying = (tokens: number) => 100_000_000n + 2_000_000n * BigInt(tokens)

  test.each<[string, Candidate, object, bigint, bigint, number | undefined]>([
    // which, of whom, of the envelope, held, free beside it, the bound
    ["the client's own where credit covers it", known, { maxOutputTokens: 50 }, paying(50), 0n, 50],
    ["less than the client's own where credit is short", known, { maxOutputTokens: 50 }, paying(20), 0n, 20],
    ['none of a stream, which can be stopped', known, { stream: true }, paying(200), 0n, undefined],
    ['what is held of a stream that is short of credit', known, { stream: true }, paying(30), 0n, 30],
    ['none of a whole answer that all free credit covers', known, {}, paying(200), paying(500), undefined],
    ['all that free credit pays for, of a whole answer', known, {}, paying(200), 2_000_000n * 40n, 240],
    [
      'what max_cost pays for, even in a stream',
      known,
      { stream: true, maxCost: '0.0002' },
      paying(50),
      0n,
      50,
    ],
    ['none beyond a context that no answer can fill', inContext, {}, paying(200), paying(9_000), undefined],
    [
      'none of a model without limits and a rich account',
      unknown,
      {},
      paying(200),
      paying(1_000_000),
      undefined,
    ],
  ])('is %s', (_, of, more, amount, free, expected) => {
    const asked = { ...envelope, ...more }
    const need = needOf(asked, [of], 100, 200)
    expect(outputBound(need, { amount, free }, asked, of)).toBe(expected as number)
  })
})

describe('what is set aside beside the need', () => {
  const model = modelOf('a/m', { contextLength: 100_000 })
  const candidate = { ...candidateOf('a'), model }
  const need = needOf(envelope, [candidate], 1_000, 100)
  test.each([
    // searches, parts of unknown size, tokens of the prompt
    [undefined, false, 0],
    [undefined, true, 99_000],
    [1, false, 8_000],
    [3, false, 48_000],
    // No search puts more before the model than its context holds.
    [20, false, 8_000 * 78 + 8 * 100_000],
    [1, true, 107_000],
  ])('of %p searches, unsized: %p, is the price of %p tokens', (searches, isUnsized, tokens) => {
    const asked = searches === undefined ? envelope : { ...envelope, searches }
    const reserving = withReserve(need, asked, [candidate], isUnsized)
    expect(reserving.reserve).toBe(BigInt(tokens) * 1_000_000n)
    expect(wantedOf(reserving, undefined)).toBe(need.want + reserving.reserve)
    expect(wantedOf({ ...reserving, maxCost: need.want }, undefined)).toBe(need.want)
    // A key's limit must leave room for its other calls.
    const half = reserving.reserve / 2n
    expect(wantedOf(reserving, need.want + 2n * half)).toBe(need.want + half)
    expect(wantedOf(reserving, need.want / 2n)).toBe(need.want)
  })
})
