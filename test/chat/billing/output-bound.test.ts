// What the provider is told of the length of an answer: what credit bounds, and never a bound that it must refuse.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { needOf, outputBound } from '../../../src/chat/billing/need.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { affordableOutput } from '../../../src/credits/price.ts'
import { type Lab, startLab } from '../lab.ts'
import { asks, customRoutes, everyRoute, lowered, valuesOf } from '../routes.ts'
import { candidateOf, modelOf } from '../support.ts'

const bodies: Record<string, unknown>[] = []
let upstream: Bun.Server<undefined>
let lab: Lab

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      bodies.push((await request.json()) as Record<string, unknown>)
      return Response.json({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 12, completion_tokens: 1, total_tokens: 13 },
      })
    },
  })
  const price = { input: '1', output: '2' }
  lab = await startLab({
    providers: { lab: `http://127.0.0.1:${upstream.port}/v1` },
    models: {
      'lab/unknown': { price, max_output_tokens: undefined },
      'lab/context': { price, max_output_tokens: undefined, context_length: 8_192 },
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await upstream?.stop(true)
})

test.each<[string, string, Record<string, unknown>, number | undefined]>([
  ['nothing of a model whose limits nobody knows', 'lab/unknown', {}, undefined],
  ['nothing of a model whose context is all that is known', 'lab/context', {}, undefined],
  ['nothing where max_cost pays for more than the context', 'lab/context', { max_cost: '1' }, undefined],
  ['what was asked for', 'lab/context', { max_tokens: 7 }, 7],
])('a provider is told %s', async (_, model, more, told) => {
  bodies.length = 0
  const answer = await lab.ask(model, more)
  expect(answer.status).toBe(200)
  expect(bodies).toHaveLength(1)
  expect(bodies[0]!['max_tokens']).toBe(told as number)
})

test.each([
  ['less than the first hold', { max_cost: '0.001' }, 300, 500],
  ['more than the first hold', { max_cost: '0.1' }, 49_000, 50_000],
  ['more than the first hold, in a stream', { max_cost: '0.1', stream: true }, 49_000, 50_000],
])('max_cost bounds an answer to what it pays for: %s', async (_, more, least, most) => {
  bodies.length = 0
  await lab.ask('lab/unknown', more)
  expect(bodies[0]!['max_tokens']).toBeWithin(least, most + 1)
})

/** The names of an output limit, in all protocols. */
const limitNames = [
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'maxOutputTokens',
  'maxTokens',
  'num_predict',
]
const reasonings: readonly JsonObject[] = [
  {},
  { reasoning: { effort: 'high' } },
  { reasoning: { max_tokens: 2_000 } },
]
const routes = [...everyRoute, ...customRoutes]

test.each(
  routes.map((route) => [route.provider.id, route.provider.protocol, route.upstream, route] as const),
)('the limit that is sent is held for: %s (%s) %s', async (_id, _protocol, upstream, route) => {
  const { provider, reasoning } = route
  // As `lowered` has it.
  const model = modelOf(`${provider.id}/${upstream}`, { reasoning, maxOutputTokens: 4_096 })
  const candidate = { ...candidateOf(provider.id), model, offer: model.offers[0]!, provider }
  let sentLimits = 0
  for (const thinks of reasonings)
    for (const limit of [1, 2, 5, 15, 16, 17, 1_025, 4_096, 9_000, undefined]) {
      const asked = asks('chat', { ...thinks, ...(limit === undefined ? {} : { max_tokens: limit }) })
      const { envelope } = asked.request
      const need = needOf(envelope, [candidate], 1_000, 500)
      // The least that begins a call, the credit between, and all that is wanted.
      for (const held of [need.least, (need.least + need.want) / 2n, need.want, need.most]) {
        const bound = outputBound(need, held, envelope, candidate)
        const { body } = await lowered(asked, route, bound)
        const within = affordableOutput(held, need.bound, candidate.offer.price)
        // How much of it may be thoughts has the same name there.
        const { reasoning: _, ...limited } = body
        for (const sent of limitNames.flatMap((name) => valuesOf(name, limited))) {
          if (typeof sent !== 'number') throw new Error(`no number of tokens: ${String(sent)}`)
          sentLimits++
          expect([limit, held, sent, sent <= within]).toEqual([limit, held, sent, true])
        }
      }
    }
  expect(sentLimits).toBeGreaterThan(0)
})
