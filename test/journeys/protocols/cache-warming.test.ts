// `max_tokens: 0` writes a prompt to Anthropic's cache and generates nothing. Other providers have no such thing.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic, { APIError } from '@anthropic-ai/sdk'
import { expectAudited, receiptOf } from '../../support/call-gateway.ts'
import { type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const warmed = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-4-5',
  content: [],
  stop_reason: 'max_tokens',
  stop_sequence: null,
  usage: {
    input_tokens: 3,
    cache_creation_input_tokens: 2000,
    cache_read_input_tokens: 0,
    cache_creation: { ephemeral_5m_input_tokens: 2000, ephemeral_1h_input_tokens: 0 },
    output_tokens: 0,
  },
}

let provider: ReplayServer
let weir: ServedWeir
let client: Anthropic

beforeAll(async () => {
  provider = startReplayServer([
    {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: new TextEncoder().encode(JSON.stringify(warmed)),
    },
  ])
  const price = { input: '1', cache_write: '2', output: '10' }
  const served = { provider: 'anthropic', upstream: 'claude-sonnet-4-5', price }
  weir = await serveWeir({
    config: JSON.stringify({
      providers: {
        anthropic: { base_url: provider.url, api_key: 'key-of-anthropic-0123456789' },
        other: { protocol: 'openai-chat', base_url: provider.url, api_key: 'key-of-another-0123456789' },
      },
      models: [
        { id: 'anthropic/warm', price, upstream: 'claude-sonnet-4-5', max_output_tokens: 4096 },
        { id: 'lab/either', offers: [{ ...served, provider: 'other', upstream: 'm' }, served] },
        { id: 'other/cold', price },
      ],
    }),
  })
  client = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

const warm = (model: string, more: object = {}) =>
  client.messages.create({
    model,
    max_tokens: 0,
    system: [{ type: 'text', text: 'A river, at length.', cache_control: { type: 'ephemeral' } }],
    messages: [{ role: 'user', content: 'warm' }],
    ...more,
  })

describe('a request without output', () => {
  test.each<[string, string, object]>([
    ['passes', 'anthropic/warm', {}],
    // A fallback may need another protocol; a bound on the price has the request translated.
    ['passes with a bound on its cost', 'anthropic/warm', { max_cost: '0.5' }],
    ['goes to the offer that can serve it', 'lab/either', {}],
  ])('%s', async (_, model, more) => {
    const before = provider.requests.length
    const answer = await warm(model, more)
    expect(answer).toMatchObject({ content: [], stop_reason: 'max_tokens' })
    expect(answer.usage).toMatchObject({ output_tokens: 0, cache_creation_input_tokens: 2000 })
    expect(provider.requests.slice(before).map(({ json }) => json)).toMatchObject([{ max_tokens: 0 }])
    const id = (answer as unknown as { _request_id: string })._request_id
    // 3 tokens at 1, and 2,000 at 2 dollars a million.
    expect(await receiptOf(weir, id)).toMatchObject({ ending: 'finished', charged: '0.004003' })
  })

  test.each(['other/cold', 'sim/echo'])(
    'is refused where the provider has no such thing: %s',
    async (model) => {
      const before = provider.requests.length
      const thrown: unknown = await warm(model).catch((error: unknown) => error)
      expect(thrown).toBeInstanceOf(APIError)
      const { status, error } = thrown as APIError
      expect(status).toBe(400)
      expect(error).toMatchObject({
        error: { type: 'invalid_request_error', message: expect.stringContaining('max_tokens') as string },
      })
      expect(provider.requests.length).toBe(before)
    },
  )

  test('leaves the books in order', () => expectAudited(weir))
})

test('a choice of a tool without its name is an error that says so', async () => {
  const thrown: unknown = await warm('anthropic/warm', {
    max_tokens: 10,
    tools: [{ name: 'level', input_schema: { type: 'object' } }],
    tool_choice: { type: 'tool' },
  }).catch((error: unknown) => error)
  expect(thrown).toMatchObject({
    status: 400,
    error: { error: { message: expect.stringContaining('tool_choice.name') as string } },
  })
})
