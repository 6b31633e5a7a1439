// The official client counts the tokens of a response before it asks for it.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI from 'openai'
import type { InputTokenCountParams } from 'openai/resources/responses/input-tokens'
import {
  accountWith,
  expectAudited,
  keyFor,
  restingCredits,
  postAs,
  failure,
} from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const model = 'sim/echo'
const words = 'one two three four five six seven eight nine ten'
let weir: ServedWeir
let client: OpenAI

const clientWith = (apiKey: string) => new OpenAI({ apiKey, baseURL: weir.baseUrl, maxRetries: 0 })

beforeAll(async () => {
  weir = await serveWeir({})
  client = clientWith(weir.key)
}, 30_000)
afterAll(() => weir?.stop())

const count = async (body: InputTokenCountParams) => {
  const { object, input_tokens } = await client.responses.inputTokens.count({ model, ...body })
  expect(object).toBe('response.input_tokens')
  return input_tokens
}

test('it is about what the call is then charged for, and costs nothing', async () => {
  const input = 'The river runs from the mountains to the sea. '.repeat(40)
  const before = await restingCredits(weir)
  const counted = await count({ input })
  expect(await restingCredits(weir)).toEqual(before)
  const { usage } = await client.responses.create({ model, input })
  expect(Math.abs(counted - usage!.input_tokens)).toBeLessThan(0.2 * usage!.input_tokens)
})

test('it counts instructions, tools, items and what is continued', async () => {
  const bare = await count({ input: 'x' })
  const { id } = await client.responses.create({ model, input: words })
  const parameters = { type: 'object', properties: {} }
  for (const more of [
    { instructions: words },
    { tools: [{ type: 'function', name: 'f', description: words, parameters, strict: null }] },
    {
      input: [
        { role: 'user', content: 'x' },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: words },
      ],
    },
    { previous_response_id: id },
  ] satisfies InputTokenCountParams[])
    expect(await count({ input: 'x', ...more })).toBeGreaterThanOrEqual(bare + 10)
})

const notFound = 'previous_response_not_found'

test.each([
  [400, 'invalid_request', { model }],
  [400, 'invalid_request', { input: 'x' }],
  [400, 'wrong_endpoint', { model: 'sim/embed', input: 'x' }],
  [404, 'not_found', { model, input: 'x', conversation: 'conv_1' }],
  [400, notFound, { model, input: 'x', previous_response_id: 'resp_nothing' }],
  [404, 'model_not_found', { model: 'sim/ecko', input: 'x' }],
])('it is refused with %d %s for %j', async (status, code, body) => {
  const error: unknown = await failure(client.responses.inputTokens.count(body))
  expect(error).toMatchObject({ status, code })
})

test('it needs a key that may use the model, and no credit', async () => {
  const send = (key: string) => postAs(`${weir.baseUrl}/responses/input_tokens`, key, { model, input: 'x' })
  expect((await send('sk-weir-nothing')).status).toBe(401)
  const poor = await accountWith(weir, 'poor@example.com', {})
  expect((await send(poor.key)).status).toBe(200)
  const bound = await keyFor(weir, 'poor@example.com', '--models', 'sim/words')
  expect((await send(bound.key)).status).toBe(403)
})

test('the ledger proves itself after all of this', () => expectAudited(weir))
