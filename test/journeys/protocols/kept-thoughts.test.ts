// What a provider has signed or encrypted of its reasoning is in the next request of a tool loop, although the client
// of chat completions has sent back the text alone, as most do. The answers are recordings.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { type Case, cases } from '../../support/recordings.ts'
import { replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const recorded = (folder: string, id: string): Case => cases(folder).find((one) => one.id.includes(id))!

const answers: readonly (readonly [model: string, answer: Case])[] = [
  ['anthropic/claude-sonnet-4-5', recorded('anthropic', 'json-tool-reasoning-sig--claude-sonnet-4-20250514')],
  [
    'anthropic/claude-sonnet-4-5',
    recorded('anthropic', 'stream-tool-reasoning-sig-roundtrip--claude-sonnet-4-5-20250929--btjcf3b7c'),
  ],
  ['thinker/gpt-5', recorded('openai-responses', 'json-tool-reasoning-sig-roundtrip--gpt-5-nano')],
  ['thinker/gpt-5', recorded('openai-responses', 'stream-tool-reasoning-sig--gpt-5--paib343b2')],
]

let answer: Case
let provider: ReplayServer
let weir: ServedWeir

beforeAll(async () => {
  provider = startReplayServer(() => replayOf(answer))
  const price = { input: '1', output: '2' }
  weir = await serveWeir({
    config: JSON.stringify({
      providers: {
        anthropic: { base_url: `${provider.url}/v1`, api_key: 'k' },
        thinker: { protocol: 'openai-responses', base_url: `${provider.url}/v1`, api_key: 'k' },
      },
      models: [
        { id: 'anthropic/claude-sonnet-4-5', price, reasoning: true },
        { id: 'thinker/gpt-5', price, reasoning: true },
      ],
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

/** What a client knows of a message, and what this gateway adds. */
interface Said {
  content: string | null
  reasoning_content?: string
  reasoning_details?: { signature?: string; data?: string }[]
  tool_calls: {
    index?: number
    id: string
    type: 'function'
    function: { name: string; arguments: string }
  }[]
}

const question = { role: 'user', content: 'What is the weather?' } as const
const tools: OpenAI.ChatCompletionTool[] = [
  { type: 'function', function: { name: 'f', parameters: { type: 'object' } } },
]
const asking = (model: string, messages: object[]) => ({
  model,
  messages: messages as OpenAI.ChatCompletionMessageParam[],
  tools,
  reasoning_effort: 'low' as const,
  max_tokens: 8_000,
})

async function ask(client: OpenAI, model: string, messages: object[], streamed: boolean): Promise<Said> {
  if (!streamed) {
    const { choices } = await client.chat.completions.create(asking(model, messages))
    return choices[0]!.message as unknown as Said
  }
  const said: Said = { content: null, reasoning_content: '', reasoning_details: [], tool_calls: [] }
  for await (const { choices } of await client.chat.completions.create({
    ...asking(model, messages),
    stream: true,
  })) {
    const delta = (choices[0]?.delta ?? {}) as Partial<Said>
    if (delta.content) said.content = (said.content ?? '') + delta.content
    said.reasoning_content += delta.reasoning_content ?? ''
    said.reasoning_details!.push(...(delta.reasoning_details ?? []))
    for (const { index, ...call } of delta.tool_calls ?? []) {
      const known = said.tool_calls[index!]
      if (known) known.function.arguments += call.function.arguments
      else said.tool_calls[index!] = structuredClone(call)
    }
  }
  return said
}

describe('between the calls of its tools', () => {
  test.each(answers.map(([model, given]) => [given.id, model, given] as const))(
    '%s goes on with what it has thought',
    async (_, model, given) => {
      answer = given
      const client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
      const { reasoning_details: details, ...said } = await ask(client, model, [question], given.streamed)
      const sealed = details!.flatMap(({ signature, data }) => [signature, data].filter((each) => each))
      expect(sealed.length).toBeGreaterThan(0)
      const results = said.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'Sunny.' }))
      const history = [question, { role: 'assistant', ...said }, ...results]
      const next = await ask(client, model, history, given.streamed)
      const { body, json } = provider.requests.at(-1)!
      for (const each of sealed) expect(body).toContain(JSON.stringify(each))
      if (model.startsWith('anthropic')) expect((json as { thinking?: object }).thinking).toBeTruthy()
      expect(next.tool_calls).toEqual(said.tool_calls)
    },
  )
})
