// A translated stream of Messages begins with what its provider has counted of the prompt, where it counts that first.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { postAs } from '../../support/call-gateway.ts'
import { type ReplayServer, startReplayServer } from '../../support/replay-server.ts'

let provider: ReplayServer
let lab: Lab

const chunk = (content: string, usage: object | null) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }],
  usage,
})
const last = (usage: object) => ({
  ...chunk('', usage),
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
})
const counted = (completion_tokens: number) => ({
  prompt_tokens: 11,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens,
  total_tokens: 11 + completion_tokens,
})
const streams: Readonly<Record<string, readonly object[]>> = {
  // As vLLM does with `continuous_usage_stats`.
  first: [chunk('', counted(0)), chunk('Hi', counted(1)), last(counted(1))],
  last: [chunk('', null), chunk('Hi', null), last(counted(1))],
}

beforeAll(async () => {
  provider = startReplayServer(({ json }) => {
    const chunks = streams[(json as { model: string }).model]!
    const text = [...chunks.map((each) => JSON.stringify(each)), '[DONE]'].map((data) => `data: ${data}\n\n`)
    return {
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      body: new TextEncoder().encode(text.join('')),
    }
  })
  lab = await startLab({
    providers: { chat: `${provider.url}/v1` },
    models: { 'chat/first': {}, 'chat/last': {} },
  })
})
afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

async function usageAtStart(model: string): Promise<unknown> {
  const response = await postAs(`${lab.weir.baseUrl}/messages`, lab.weir.key, {
    model,
    max_tokens: 100,
    stream: true,
    messages: [{ role: 'user', content: 'Where does the river run, and how long is it?' }],
  })
  const [first] = [...(await response.text()).matchAll(/^data: (.*)$/gm)]
  return (JSON.parse(first![1]!) as { message: { usage: unknown } }).message.usage
}

test('with the counts', async () => {
  expect(await usageAtStart('chat/first')).toMatchObject({
    input_tokens: 7,
    cache_read_input_tokens: 4,
    cache_creation: { ephemeral_5m_input_tokens: 0 },
  })
})

test('or without any', async () => {
  expect(await usageAtStart('chat/last')).toMatchObject({ input_tokens: 0, cache_creation: null })
})
