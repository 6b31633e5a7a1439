// OpenRouter's own client against the gateway: its schemas reject an answer that lacks what they require.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: OpenRouter

beforeAll(async () => {
  weir = await serveWeir()
  client = new OpenRouter({ apiKey: weir.key, serverURL: weir.baseUrl })
})

afterAll(() => weir?.stop())

const messages = [{ role: 'user' as const, content: 'Hello, river.' }]

test('a whole answer is read, with its cost and its parts', async () => {
  const answer = await client.chat.send({ chatRequest: { model: 'sim/echo', messages, stream: false } })
  if (!('choices' in answer)) throw new Error('it is a stream')
  expect(answer.choices[0]!.message.content).toContain('Hello, river.')
  const { cost, costDetails } = answer.usage!
  expect(cost).toBeGreaterThan(0)
  const { upstreamInferencePromptCost, upstreamInferenceCompletionsCost } = costDetails!
  expect(upstreamInferencePromptCost + upstreamInferenceCompletionsCost).toBeCloseTo(cost!, 12)
})

// Asked for the usage by `stream_options`, the chunks before it say null, as OpenAI's do, which this client rejects.
test('a stream is read to its end', async () => {
  const stream = await client.chat.send({ chatRequest: { model: 'sim/echo', messages, stream: true } })
  if ('choices' in stream) throw new Error('it is whole')
  let words = ''
  for await (const chunk of stream) words += chunk.choices[0]?.delta.content ?? ''
  expect(words).toContain('Hello, river.')
})

test('its preferences of providers are honoured or refused', async () => {
  const ask = (provider: object) =>
    client.chat.send({ chatRequest: { model: 'sim/echo', messages, stream: false, provider } })
  expect(await ask({ zdr: true, dataCollection: 'deny', sort: 'price' })).toMatchObject({ model: 'sim/echo' })
  await expect(ask({ quantizations: ['fp8'] })).rejects.toThrow()
})

test('an answer of the Responses protocol is read, with its cost', async () => {
  const answer = await client.beta.responses.send({
    responsesRequest: { model: 'sim/echo', input: 'Hello, river.', stream: false },
  })
  if (!('usage' in answer)) throw new Error('it is a stream')
  expect(answer.usage?.cost).toBeGreaterThan(0)
  expect(answer.usage?.costDetails?.upstreamInferenceInputCost).toBeGreaterThan(0)
})
