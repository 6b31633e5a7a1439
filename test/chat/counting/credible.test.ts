// What a provider counts is held against the limits of its model; what cannot be is no count.

import { expect, test } from 'bun:test'
import { credibleUsage } from '../../../src/chat/counting/credible.ts'
import { noUsage, type Side, type Usage } from '../../../src/conversation/usage.ts'

const model = { contextLength: 128_000, maxOutputTokens: 4_096 }

test.each<[string, Partial<Usage>, readonly Side[] | undefined]>([
  ['a count within the context', { input: 100_000, output: 4_000 }, undefined],
  ['the context once for each of some rounds', { input: 1_000_000 }, undefined],
  ['nanoseconds for tokens', { input: 1e15, output: 10 }, ['prompt']],
  ['900,000 tokens of a model that writes 4,096', { input: 10, output: 900_000 }, ['completion']],
  ['the same as reasoning', { input: 10, reasoning: 900_000 }, ['completion']],
  ['the same as cached', { cacheRead: 9e9, output: 900_000 }, ['prompt', 'completion']],
])('of what a provider counts, %s is believed or is not', (_, counted, uncounted) => {
  const usage = { ...noUsage, ...counted }
  const credible = credibleUsage(usage, model, 1)
  expect(credible.uncounted).toEqual(uncounted as Side[])
  if (uncounted === undefined) expect(credible).toBe(usage)
  if (uncounted?.includes('completion')) expect([credible.output, credible.reasoning]).toEqual([0, 0])
  else expect(credible.output).toBe(usage.output)
  if (uncounted?.includes('prompt')) expect([credible.input, credible.cacheRead]).toEqual([0, 0])
  else expect(credible.input).toBe(usage.input)
})

test('calls of a tool without end are none', () => {
  const searches = (web_search: number) => credibleUsage({ ...noUsage, toolCalls: { web_search } }, model, 1)
  expect(searches(400).toolCalls).toEqual({ web_search: 400 })
  expect(searches(3_000).toolCalls).toEqual({})
})
