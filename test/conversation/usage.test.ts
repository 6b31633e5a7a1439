// Counters as providers report them become buckets that add up to what was reported, whatever was reported.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  completionTokens,
  count,
  disjoint,
  laterUsage,
  noUsage,
  promptTokens,
  type ReportedUsage,
  tokenBuckets,
} from '../../src/conversation/usage.ts'

const reported = fc.oneof(
  fc.nat(50),
  fc.constantFrom(-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.MAX_SAFE_INTEGER, 2 ** 60),
)

test('the buckets of the prompt and of the completion are whole, and add up to their totals', () => {
  const parts = [
    'cacheRead',
    'cacheWrite5m',
    'cacheWrite1h',
    'inputAudio',
    'inputImage',
    'reasoning',
    'outputAudio',
    'outputImage',
  ]
  const usages = fc.record(
    { prompt: reported, completion: reported, ...Object.fromEntries(parts.map((part) => [part, reported])) },
    { requiredKeys: ['prompt', 'completion'] },
  ) as fc.Arbitrary<ReportedUsage>
  fc.assert(
    fc.property(usages, (told) => {
      const usage = disjoint(told)
      expect(promptTokens(usage)).toBe(count(told.prompt))
      expect(completionTokens(usage)).toBe(count(told.completion))
      for (const bucket of tokenBuckets) {
        expect(Number.isSafeInteger(usage[bucket]) && usage[bucket] >= 0).toBe(true)
      }
    }),
  )
})

test.each([
  // what is told                                                                 what is counted
  [
    { cacheRead: 3, inputAudio: 2 },
    { input: 5, cacheRead: 3, inputAudio: 2 },
  ],
  // Parts that are larger than what is left are cut: the cache first, then what was written, audio, images.
  [
    { cacheRead: 12, inputImage: 4 },
    { input: 0, cacheRead: 10, inputImage: 0 },
  ],
  [
    { cacheRead: 4, cacheWrite1h: 5, cacheWrite5m: 5, inputAudio: 1 },
    { input: 0, cacheWrite1h: 5, cacheWrite5m: 1, inputAudio: 0 },
  ],
  [{ reasoning: 9 }, { output: 0, reasoning: 6 }],
  [
    { reasoning: 2, outputAudio: 9, outputImage: 1 },
    { output: 0, reasoning: 2, outputAudio: 4, outputImage: 0 },
  ],
])('of 10 prompt tokens and 6 of completion, %j is %j', (told, counted) => {
  expect(disjoint({ prompt: 10, completion: 6, ...told })).toMatchObject(counted)
})

describe('of two counts of one answer', () => {
  const counted = (prompt: number | undefined, completion: number | undefined, searches = 0) =>
    disjoint({ prompt, completion, toolCalls: searches === 0 ? {} : { web_search: searches } })

  test.each([
    // before                       later                             what holds
    [undefined, counted(0, 0), counted(0, 0)],
    [counted(12, 1), counted(12, 4), counted(12, 4)],
    // An estimate may be corrected downwards, but not away.
    [counted(12, 9), counted(12, 4), counted(12, 4)],
    [counted(12, 4), counted(0, 0), counted(12, 4)],
    [counted(12, 4), counted(0, 0, 1), counted(12, 4, 1)],
    [counted(12, 4), counted(12, undefined), counted(12, 4)],
    [counted(12, undefined), counted(undefined, 4), counted(12, 4)],
    [counted(12, undefined), counted(12, undefined), counted(12, undefined)],
    [{ ...noUsage, uncounted: ['prompt', 'completion'] as const }, counted(0, 0), counted(0, 0)],
  ])('%# the later one holds, but takes nothing back', (before, later, holds) => {
    expect(laterUsage(before, later)).toEqual(holds)
  })
})
