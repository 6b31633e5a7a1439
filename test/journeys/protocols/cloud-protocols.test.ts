// One streamed chat through the gateway over each protocol of the clouds, the provider answering with its recording.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { cases } from '../../support/recordings.ts'
import { everyBytes, replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

const recorded = (folder: string, id: string) => cases(folder).find((one) => one.id.includes(id))!
const routes = {
  cohere: {
    path: '/v2/chat',
    recording: recorded('cohere-v2', 'rub5b057a'),
    key: 'k',
    authorization: 'Bearer k',
    calls: ['weather'],
    model: 'cohere/one',
  },
  ollama: {
    path: '/api/chat',
    recording: recorded('ollama-native', 'lcg4b1a79'),
    key: undefined,
    authorization: null,
    calls: [],
    model: 'ollama/one',
  },
  bedrock: {
    path: '/model/us.amazon.nova-2-lite-v1%3A0/converse-stream',
    recording: recorded('bedrock-converse', 'rub3c1391'),
    key: 'AKIAIOSFODNN7EXAMPLE:secret',
    authorization: 'AWS4-HMAC-SHA256',
    calls: ['best_language_to_learn'],
    model: 'bedrock/one',
  },
  bedrockclaude: {
    path: '/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/invoke-with-response-stream',
    recording: recorded('bedrock-invoke-anthropic', 'otel911b40'),
    key: 'bearer-key',
    authorization: 'Bearer bearer-key',
    calls: [],
    model: 'bedrockclaude/one',
  },
} as const
const upstreams: Record<string, string> = {
  'cohere/one': 'command-a',
  'ollama/one': 'gemma3:1b',
  'bedrock/one': 'us.amazon.nova-2-lite-v1:0',
  'bedrockclaude/one': 'anthropic.claude-3-5-sonnet-20240620-v1:0',
}

let provider: ReplayServer
let weir: RunningWeir
let client: OpenAI

beforeAll(async () => {
  provider = startReplayServer(({ path }) => {
    const route = Object.values(routes).find((each) => each.path === path)
    if (!route) return { status: 404, headers: {}, body: new Uint8Array() }
    return replayOf(route.recording)
  }, everyBytes(37))
  weir = await startWeir({
    config: JSON.stringify({
      providers: Object.fromEntries(
        Object.entries(routes).map(([id, { key }]) => [
          id,
          {
            base_url: provider.url + (id === 'cohere' ? '/v2' : ''),
            ...(key === undefined ? {} : { api_key: key }),
          },
        ]),
      ),
      models: Object.entries(upstreams).map(([id, upstream]) => ({
        id,
        upstream,
        price: { input: '1', output: '10' },
      })),
    }),
  })
  client = new OpenAI({ baseURL: weir.baseUrl, apiKey: weir.key, maxRetries: 0 })
}, 30_000)
afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

describe.each(Object.values(routes).map((route) => [route.model, route] as const))('%s', (model, route) => {
  test('streams to a client of chat completions, and is charged', async () => {
    const before = provider.requests.length
    const stream = client.chat.completions.stream({
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      stream_options: { include_usage: true },
    })
    const answer = await stream.finalChatCompletion()
    const [choice] = answer.choices
    expect(choice!.finish_reason).toBe(route.calls.length > 0 ? 'tool_calls' : 'stop')
    const called = (choice!.message.tool_calls ?? []).map((call) =>
      'function' in call ? call.function.name : '',
    )
    expect(called).toEqual([...route.calls])
    if (called.length === 0) expect(choice!.message.content!.length).toBeGreaterThan(5)
    expect(answer.usage!.prompt_tokens).toBeGreaterThan(0)
    expect(Number((answer.usage as unknown as { cost: number }).cost)).toBeGreaterThan(0)
    expect(provider.requests).toHaveLength(before + 1)
    const asked = provider.requests.at(-1)!
    const sent = asked.headers.get('authorization')
    expect(route.authorization === null ? sent : sent?.startsWith(route.authorization)).toBe(
      route.authorization === null ? null : true,
    )
  })
})

test("Cohere's billed units are the charge, its counted tokens are what the client sees", async () => {
  const { usage } = await client.chat.completions
    .stream({
      model: 'cohere/one',
      messages: [{ role: 'user', content: 'x' }],
      stream_options: { include_usage: true },
    })
    .finalChatCompletion()
  const end = new TextDecoder().decode(routes.cohere.recording.stream())
  const told = JSON.parse(/"usage":(\{.*\})\}\}/.exec(end)![1]!)
  expect(usage!.prompt_tokens).toBe(told.tokens.input_tokens)
  const { input_tokens: input, output_tokens: output } = told.billed_units
  expect((usage as unknown as { cost: number }).cost).toBeCloseTo((input + output * 10) / 1e6, 12)
})
