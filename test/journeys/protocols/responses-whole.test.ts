// An answer of several items that is not streamed keeps their order, as a stream does, whatever its provider speaks.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI from 'openai'
import type { JsonObject } from '../../../src/conversation/request.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { recordedConfig } from './recorded-gateway.ts'

const said = (id: string, text: string) => ({
  type: 'message',
  id,
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const thought = (id: string, text: string) => ({
  type: 'reasoning',
  id,
  summary: [{ type: 'summary_text', text }],
})

const answers: Readonly<Record<string, JsonObject>> = {
  '/responses': {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    model: 'recorded',
    output: [
      thought('rs_1', 'First.'),
      said('msg_1', 'I look.'),
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_1',
        name: 'level',
        arguments: '{}',
        status: 'completed',
      },
      thought('rs_2', 'Then.'),
      said('msg_2', 'Wait.'),
    ],
    usage: { input_tokens: 5, output_tokens: 9, total_tokens: 14 },
  },
  '/messages': {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'recorded',
    content: [
      { type: 'text', text: 'I look.' },
      { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' },
      { type: 'text', text: 'It is high.' },
      { type: 'tool_use', id: 'toolu_1', name: 'level', input: {} },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 5, output_tokens: 9 },
  },
}

let provider: ReturnType<typeof Bun.serve>
let weir: ServedWeir
let client: OpenAI

beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ url }) => Response.json(answers[new URL(url).pathname]),
  })
  const config = recordedConfig(
    [
      { provider: 'same', protocol: 'openai-responses' },
      { provider: 'other', protocol: 'anthropic-messages' },
    ],
    `http://127.0.0.1:${provider.port}`,
  )
  weir = await serveWeir({ config })
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)
afterAll(async () => {
  await weir?.stop()
  await provider?.stop(true)
})

test.each([
  ['same', ['reasoning', 'message I look.', 'function_call', 'reasoning', 'message Wait.']],
  ['other', ['message I look.', 'reasoning', 'message It is high.', 'function_call']],
])('the items of the provider "%s" stand in its order', async (name, expected) => {
  const { output } = await client.responses.create({
    model: `${name}/recorded`,
    input: 'How high is the river?',
    tools: [
      { type: 'function', name: 'level', parameters: { type: 'object', properties: {} }, strict: null },
    ],
  })
  const kinds = output.map((item) => {
    const [part] = item.type === 'message' ? item.content : []
    return part?.type === 'output_text' ? `message ${part.text}` : item.type
  })
  expect(kinds).toEqual(expected)
})
