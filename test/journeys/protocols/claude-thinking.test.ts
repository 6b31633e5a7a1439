// Claude's thinking for the clients of both other protocols: seen where a summary is asked for, and given up with a word
// where its history has lost it. Claude's answers are its recordings.

import Anthropic from '@anthropic-ai/sdk'
import { createOpenAI } from '@ai-sdk/openai'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { generateText, streamText } from 'ai'
import { type Case, cases } from '../../support/recordings.ts'
import {
  replayOf,
  type ReplayServer,
  type SeenRequest,
  startReplayServer,
} from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const recorded = (folder: string, id: string): Case => cases(folder).find((one) => one.id.includes(id))!
const whole = recorded('anthropic', 'json-reasoning-sig--claude-sonnet-4-20250514')
const stream = recorded(
  'anthropic',
  'stream-tool-reasoning-sig-roundtrip--claude-sonnet-4-5-20250929--btjcf3b7c',
)
const gemini = recorded('gemini', 'stream-tool-reasoning-sig--gemini-2.5-pro')

let provider: ReplayServer
let weir: ServedWeir

beforeAll(async () => {
  provider = startReplayServer((request: SeenRequest) => {
    if (request.path.includes('gemini')) return replayOf(gemini)
    return replayOf((request.json as { stream?: boolean }).stream === true ? stream : whole)
  })
  const price = { input: '1', output: '2' }
  weir = await serveWeir({
    config: JSON.stringify({
      providers: {
        anthropic: { base_url: `${provider.url}/v1`, api_key: 'k' },
        gemini: { base_url: `${provider.url}/v1beta`, api_key: 'k' },
      },
      models: [
        { id: 'anthropic/claude-sonnet-4-5', price, reasoning: true },
        { id: 'gemini/gemini-2.5-pro', price, reasoning: true },
      ],
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

describe('the AI SDK on /v1/responses, asking for a summary,', () => {
  const model = (id: string) => createOpenAI({ baseURL: weir.baseUrl, apiKey: weir.key }).responses(id)
  const options = {
    openai: { reasoningSummary: 'auto', reasoningEffort: 'low', forceReasoning: true },
  } as const
  const call = (id: string) => ({ model: model(id), prompt: 'Hi', maxRetries: 0, providerOptions: options })

  test.each(['anthropic/claude-sonnet-4-5', 'gemini/gemini-2.5-pro'])('sees what %s thinks', async (id) => {
    let thoughts = ''
    const { fullStream } = streamText(call(id))
    for await (const part of fullStream) {
      if (part.type === 'error') throw part.error
      if (part.type === 'reasoning-delta') thoughts += part.text
    }
    expect(thoughts.length).toBeGreaterThan(20)
  })

  test('sees it in a whole answer', async () => {
    const { reasoningText } = await generateText(call('anthropic/claude-sonnet-4-5'))
    const { content } = whole.response() as { content: { thinking?: string }[] }
    expect(reasoningText).toBe(content[0]!.thinking!)
  })
})

test('a turn of tools without its thoughts is continued without thinking, with a warning', async () => {
  const client = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
  const answer = await client.messages.create({
    model: 'claude-sonnet-4-5',
    max_tokens: 4096,
    thinking: { type: 'enabled', budget_tokens: 2048 },
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '1' }] },
    ],
  })
  expect(answer).toMatchObject({ warnings: [{ param: 'thinking' }] })
  const sent = provider.requests.at(-1)!.json as Record<string, unknown>
  expect(sent['thinking'] ?? null).toBeNull()
})
