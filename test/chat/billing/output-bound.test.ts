// What the provider is told of the length of an answer: what credit bounds, and never a bound that it must refuse.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Lab, startLab } from '../lab.ts'

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
