// What a provider counts is held against the limits of its model; what cannot be is no count.

import { expect, test } from 'bun:test'
import { credibleUsage } from '../../../src/chat/counting/credible.ts'
import { buildPrice } from '../../../src/catalog/prices/price-spec.ts'
import { noUsage, type Side, type Usage } from '../../../src/conversation/usage.ts'

const price = buildPrice({ input: '1', output: '2', per_call: { web_search: '0.01' } })
const model = { model: { contextLength: 128_000, maxOutputTokens: 4_096 }, offer: { price } }

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

test('a reported cost is believed up to what the largest plausible usage costs at the catalog price', () => {
  // Ten rounds of 128,000 and 4,096 tokens, and a thousand searches.
  const most = '11.36192'
  const reported = (reportedCost: string, of = model) => credibleUsage({ ...noUsage, reportedCost }, of, 1)
  expect(reported(most).reportedCost).toBe(most)
  expect(reported('11.361921')).toEqual(noUsage)
  const free = { ...model, offer: { price: buildPrice({ input: '0', output: '0' }) } }
  expect(reported('25', free).reportedCost).toBe('25')
})
