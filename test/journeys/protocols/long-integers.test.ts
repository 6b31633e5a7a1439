// An integer beyond 2^53 in arguments of calls, schemas and seeds is the same at both ends, whatever protocols they speak:
// rounded, it would name another record, or be out of bounds.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { post } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const args =
  '{"id":1234567890123456789,"more":[-9007199254740993,1.5,{"big":123456789012345678901234567890}]}'
const digits = ['1234567890123456789', '-9007199254740993', '123456789012345678901234567890']
const quoted = JSON.stringify(args)

interface Protocol {
  /** A whole answer that calls `look`; `filler` is a text beside it. */
  readonly answer: (filler: string) => string
  /** The calls in a request to this provider, as they are written there. */
  readonly history: string
  /** A streamed answer, where the protocol writes arguments as an object in it. */
  readonly stream?: string
}

const providers: Record<string, Protocol> = {
  'anthropic-messages': {
    answer: (filler) =>
      `{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[{"type":"text","text":"${filler}"},{"type":"tool_use","id":"toolu_1","name":"look","input":${args}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}`,
    history: `"input":${args}`,
    stream: [
      `{"type":"message_start","message":{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}`,
      `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":${args}}}`,
      '{"type":"content_block_stop","index":0}',
      '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}',
      '{"type":"message_stop"}',
    ]
      .map((event) => `data: ${event}\n\n`)
      .join(''),
  },
  gemini: {
    answer: (filler) =>
      `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"${filler}"},{"functionCall":{"name":"look","args":${args}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18}}`,
    history: `"args":${args}`,
    stream: `data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"look","args":${args}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18}}\n\n`,
  },
  'bedrock-converse': {
    answer: (filler) =>
      `{"output":{"message":{"role":"assistant","content":[{"text":"${filler}"},{"toolUse":{"toolUseId":"t1","name":"look","input":${args}}}]}},"stopReason":"tool_use","usage":{"inputTokens":9,"outputTokens":9,"totalTokens":18}}`,
    history: `"input":${args}`,
  },
  ollama: {
    answer: (filler) =>
      `{"model":"m","message":{"role":"assistant","content":"${filler}","tool_calls":[{"function":{"name":"look","arguments":${args}}}]},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":9}`,
    history: `"arguments":${args}`,
    stream: `{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"look","arguments":${args}}}]},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":9}\n`,
  },
  'openai-chat': {
    answer: (filler) =>
      `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"${filler}","tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":${args}}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`,
    history: `"arguments":${quoted}`,
  },
  'openai-responses': {
    answer: (filler) =>
      `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"${filler}","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":${quoted},"status":"completed"}],"usage":{"input_tokens":9,"output_tokens":9,"total_tokens":18}}`,
    history: `"arguments":${quoted}`,
  },
  cohere: {
    answer: (filler) =>
      `{"id":"c1","finish_reason":"TOOL_CALL","message":{"role":"assistant","content":[{"type":"text","text":"${filler}"}],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":${quoted}}}]},"usage":{"tokens":{"input_tokens":9,"output_tokens":9}}}`,
    history: `"arguments":${quoted}`,
  },
}

interface Client {
  readonly path: string
  /** The fields of a request beside the model; `stream` is one more of them. */
  readonly ask: string
  /** The same with a call in the history. */
  readonly again: string
  /** The call in an answer, as it is written there. */
  readonly call: string
  /** A schema for the answer, where `ask` has none. */
  readonly form: (schema: string) => string
}

const schema = '{"type":"object","properties":{}}'
/** Limits and values as generators of schemas write them for integers of 64 bits. */
const bounded =
  '{"type":"object","properties":{"id":{"type":"integer","maximum":9223372036854775807,"enum":[1234567890123456789]}},"required":["id"],"additionalProperties":false}'
const clients: Record<string, Client> = {
  'chat completions': {
    path: '/chat/completions',
    ask: `"tools":[{"type":"function","function":{"name":"look","parameters":${schema}}}],"messages":[{"role":"user","content":"go"}]`,
    again: `"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":${quoted}}}]},{"role":"tool","tool_call_id":"call_1","content":"done"}]`,
    call: `"arguments":${quoted}`,
    form: (schema) =>
      `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}},"messages":[{"role":"user","content":"go"}]`,
  },
  responses: {
    path: '/responses',
    ask: `"tools":[{"type":"function","name":"look","parameters":${schema}}],"input":"go"`,
    again: `"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"call_1","name":"look","arguments":${quoted}},{"type":"function_call_output","call_id":"call_1","output":"done"}]`,
    call: `"arguments":${quoted}`,
    form: (schema) => `"text":{"format":{"type":"json_schema","name":"a","schema":${schema}}},"input":"go"`,
  },
  messages: {
    path: '/messages',
    ask: `"max_tokens":99,"tools":[{"name":"look","input_schema":${schema}}],"messages":[{"role":"user","content":"go"}]`,
    again: `"max_tokens":99,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"look","input":${args}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"done"}]}]`,
    call: `"input":${args}`,
    form: (schema) =>
      `"max_tokens":99,"output_config":{"format":{"type":"json_schema","schema":${schema}}},"messages":[{"role":"user","content":"go"}]`,
  },
  gemini: {
    path: 'gemini',
    ask: `"tools":[{"functionDeclarations":[{"name":"look","parameters":${schema}}]}],"contents":[{"role":"user","parts":[{"text":"go"}]}]`,
    again: `"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"look","args":${args}}}]},{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"found":1234567890123456789}}}]}]`,
    call: `"args":${args}`,
    form: (schema) =>
      `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":${schema}},"contents":[{"role":"user","parts":[{"text":"go"}]}]`,
  },
}

let upstream: Bun.Server<undefined>
let weir: ServedWeir
let filler = 'found it'
let streams = false
let asked = ''

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      asked = await request.text()
      const protocol = providers[new URL(request.url).pathname.split('/')[1]!]!
      return streams
        ? new Response(protocol.stream, {
            headers: {
              'content-type': protocol.stream?.startsWith('data')
                ? 'text/event-stream'
                : 'application/x-ndjson',
            },
          })
        : new Response(protocol.answer(filler), { headers: { 'content-type': 'application/json' } })
    },
  })
  const price = { input: '1', output: '1' }
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      providers: Object.fromEntries(
        Object.keys(providers).map((protocol) => [
          protocol,
          {
            protocol,
            base_url: `http://127.0.0.1:${upstream.port}/${protocol}`,
            api_key: 'key-0123456789-abc',
          },
        ]),
      ),
      models: Object.keys(providers).map((protocol) => ({
        id: `${protocol}/m`,
        upstream: 'm',
        price,
        max_output_tokens: 4096,
      })),
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await upstream?.stop(true)
})

/** Asks for an answer, streamed or whole. */
async function answerOf(provider: string, { path, ask }: Client, fields = ask): Promise<string> {
  const model = `${provider}/m`
  const act = streams ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const { status, text } =
    path === 'gemini'
      ? await post({ ...weir, baseUrl: weir.origin }, `{${fields}}`, {
          path: `/v1beta/models/${model}:${act}`,
        })
      : await post(weir, `{"model":"${model}","stream":${streams},${fields}}`, { path })
  expect({ status, text }).toMatchObject({ status: 200 })
  return text
}

const pairs = Object.keys(providers).flatMap((provider) =>
  Object.keys(clients).map((client) => [provider, client] as const),
)

describe('a long integer is exact', () => {
  test.each(pairs)('in a whole answer of %s for a client of %s', async (provider, name) => {
    streams = false
    const client = clients[name]!
    // The second answer is parsed and written in steps.
    for (filler of ['found it', 'found it '.repeat(40_000)])
      expect(await answerOf(provider, client)).toContain(client.call)
  })

  test.each(pairs.filter(([provider]) => providers[provider]!.stream !== undefined))(
    'in a streamed answer of %s for a client of %s',
    async (provider, name) => {
      streams = true
      const text = await answerOf(provider, clients[name]!)
      for (const each of digits) expect(text).toContain(each)
    },
  )

  test.each(pairs)('in the history that %s is sent for a client of %s', async (provider, name) => {
    streams = false
    filler = 'found it'
    const client = clients[name]!
    await answerOf(provider, client, client.again)
    expect(asked).toContain(providers[provider]!.history)
    const long = client.again.replaceAll('"go"', JSON.stringify('go '.repeat(40_000)))
    await answerOf(provider, client, long)
    expect(asked).toContain(providers[provider]!.history)
    if (name === 'gemini') expect(asked).toMatch(/found\\?":1234567890123456789/)
  })

  test.each(pairs)('in the schemas that %s is sent for a client of %s', async (provider, name) => {
    streams = false
    filler = 'found it'
    const client = clients[name]!
    for (const fields of [client.ask.replace(schema, bounded), client.form(bounded)]) {
      const long = fields.replace('"go"', JSON.stringify('go '.repeat(40_000)))
      for (const each of [fields, long]) {
        await answerOf(provider, client, each)
        expect(asked).toContain('9223372036854775807')
        expect(asked).not.toContain('9223372036854776')
        // Older Geminis know enumerations of texts only.
        if (provider !== 'gemini') expect(asked).toContain('[1234567890123456789]')
      }
    }
  })

  test.each(['openai-chat', 'gemini', 'ollama', 'cohere'])(
    'in the seed that %s is sent',
    async (provider) => {
      streams = false
      const seed = '9223372036854775807'
      const { 'chat completions': chat, gemini } = clients
      await answerOf(provider, chat!, `"seed":${seed},${chat!.again}`)
      expect(asked).toContain(`"seed":${seed}`)
      await answerOf(provider, gemini!, `"generationConfig":{"seed":-${seed}},${gemini!.ask}`)
      expect(asked).toContain(`"seed":-${seed}`)
    },
  )

  test('but not as anything else', async () => {
    const body = (seed: string) =>
      `{"model":"openai-chat/m","seed":${seed},${clients['chat completions']!.ask}}`
    for (const seed of ['1.5', '"7"', '{"rawJSON":"7"}', '[1234567890123456789]']) {
      const { status, text } = await post(weir, body(seed), { path: '/chat/completions' })
      expect([status, text]).toEqual([400, expect.stringContaining('"param":"seed"')])
    }
  })
})
