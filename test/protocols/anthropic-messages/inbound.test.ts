// Clients of the Messages API: their recorded requests are understood, and the official library reads our answers.

import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { noUsage, type Usage } from '../../../src/conversation/usage.ts'
import { GatewayError, renderError } from '../../../src/errors/errors.ts'
import { inbound } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { defaultQuirks } from '../../../src/protocols/anthropic-messages/outbound/quirks.ts'
import type { AnswerContext, Bill } from '../../../src/protocols/protocol.ts'
import { encodeFrame } from '../../../src/protocols/framing/sse.ts'
import { cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { target } from './support.ts'

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const inCloud = {
  'vertex-anthropic': {
    path: '/{model}',
    streamPath: '/{model}',
    version: 'vertex-2023-10-16',
    versionIn: 'body' as const,
  },
  'bedrock-invoke-anthropic': {
    path: '/{model}',
    streamPath: '/{model}',
    version: 'bedrock-2023-05-31',
    versionIn: 'body' as const,
  },
}

/** What our conversation has no word for, and only Anthropic would read: it survives on the way without translation. */
const wordless = ['citations', 'context', 'eager_input_streaming', 'defer_loading', 'search_result']

/** A request with everything spelled one way: the API takes several spellings of the same. */
function canonical(body: JsonObject, cloud: boolean): JsonObject {
  const { messages, system, stream, model, ...rest } = structuredClone(body)
  const turns: { role: Json; content: JsonObject[] }[] = []
  for (const message of messages as JsonObject[]) {
    const content = blocks(message.content)
    const last = turns.at(-1)
    if (last && last.role === message.role) last.content.push(...content)
    else turns.push({ role: message.role!, content })
  }
  const tools = ((rest.tools as JsonObject[] | undefined) ?? []).toSorted((a, b) =>
    String(a.name) < String(b.name) ? -1 : 1,
  )
  if (rest.tools !== undefined) rest.tools = tools
  const marked = Array.isArray(system) && system.some((block) => isObject(block) && 'cache_control' in block)
  return {
    ...(clean(rest) as JsonObject),
    messages: turns as unknown as Json,
    ...(cloud ? {} : { model: model! }),
    ...(system == null
      ? {}
      : {
          system: marked
            ? (clean(system) as Json)
            : blocks(system)
                .map((block) => block.text)
                .join('\n'),
        }),
    ...(stream === true ? { stream } : {}),
  }
}

function blocks(content: Json | undefined): JsonObject[] {
  if (content == null) return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return (content as JsonObject[]).map((block) => {
    const cleaned = clean(block) as JsonObject
    if (block.type !== 'tool_result') return cleaned
    const { is_error, ...result } = cleaned
    return { ...result, content: blocks(block.content), ...(is_error === true ? { is_error } : {}) }
  })
}

function clean(value: Json): Json {
  if (Array.isArray(value)) return value.map(clean)
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(
    ([key, inner]) =>
      !wordless.includes(key) &&
      !(key === 'disable_parallel_tool_use' && inner === false) &&
      !(key === 'ttl' && inner === '5m'),
  )
  return Object.fromEntries(
    entries.map(([key, inner]) => [key, key === 'input_schema' || key === 'input' ? inner : clean(inner)]),
  )
}

const toolsOf = (one: { request?: JsonObject | undefined }) => (one.request?.['tools'] ?? []) as JsonObject[]
const recorded = ['anthropic', 'vertex-anthropic', 'bedrock-invoke-anthropic']
  .flatMap(cases)
  .filter(
    (one) => Array.isArray(one.request?.messages) && typeof (one.request.messages as Json[])[0] === 'object',
  )
  // A search result becomes text, as other providers take it.
  .filter((one) => !one.id.includes('json-citations'))
  // Searches are declared to the gateway.
  .filter((one) => !toolsOf(one).some(({ type }) => String(type).startsWith('web_search')))
const isProviderRun = (one: (typeof recorded)[number]) =>
  toolsOf(one).some(({ type }) => /^(web_fetch|code_ex|advisor)/.test(String(type)))

describe('a recorded request', () => {
  test.each(recorded.filter(isProviderRun).map((one) => [`${one.provider}/${one.id}`, one] as const))(
    '%s, with a tool that Anthropic runs, is refused by the name of its type',
    (_, one) => {
      expect(() => inbound.parse({ model: 'a/b', ...one.request })).toThrow(
        expect.objectContaining({
          code: 'unsupported_parameter',
          details: expect.objectContaining({ param: expect.stringMatching(/^tools\.\d+\.type$/) }),
        }),
      )
    },
  )

  test.each(
    recorded.filter((one) => !isProviderRun(one)).map((one) => [`${one.provider}/${one.id}`, one] as const),
  )('%s is sent on as it came', (_, one) => {
    const model = (one.request!.model as string | undefined) ?? one.meta.model!
    const quirks = { ...defaultQuirks, ...inCloud[one.provider as keyof typeof inCloud] }
    const { anthropic_version: version, ...request } = one.request!
    const chat = inbound.parse({ ...request, model }).toChatRequest()
    const lowered = outbound.lower(chat, target({ model, quirks, maxOutputTokens: undefined }))
    const cloud = one.provider !== 'anthropic'
    const { anthropic_version: sent, ...body } = lowered.body
    if (version !== undefined) expect(sent).toEqual(version)
    expect(canonical(body, cloud)).toEqual(canonical({ ...request, model }, cloud))
  })

  test('that Anthropic refused is refused here, naming the same field', () => {
    const one = cases('anthropic').find((refused) => refused.id.includes('ddtdd03d5'))!
    expect(() => inbound.parse(one.request)).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ param: 'messages.0' }) }),
    )
  })
})

test.each([
  ['claude-sonnet-4-5', 'anthropic/claude-sonnet-4-5'],
  ['anthropic/claude-sonnet-4-5', 'anthropic/claude-sonnet-4-5'],
  ['openrouter/meta-llama/llama-4', 'openrouter/meta-llama/llama-4'],
])('the model %s is %s', (model, id) => {
  const body = { model, models: [model], max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }
  expect(inbound.parse(body).envelope).toMatchObject({ model: id, fallbacks: [id] })
})

describe('a malformed request names its field', () => {
  const good = { model: 'a/b', max_tokens: 10, messages: [{ role: 'user', content: 'x' }] }
  test.each([
    [{ ...good, model: undefined }, 'model'],
    [{ ...good, max_tokens: undefined }, 'max_tokens'],
    [{ ...good, messages: [] }, 'messages'],
    [{ ...good, messages: [{ role: 'robot', content: 'x' }] }, 'messages.0.role'],
    [{ ...good, messages: [{ role: 'user', content: [{ text: 'x' }] }] }, 'messages.0.content.0.type'],
    [{ ...good, thread: { id: 't' } }, 'thread'],
    [{ ...good, tool_choice: { type: 'maybe' } }, 'tool_choice.type'],
    ['text', undefined],
  ])('%j', (body, param) => {
    let thrown: unknown
    try {
      inbound.parse(body)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(GatewayError)
    expect((thrown as GatewayError).details.param).toBe(param as string)
  })

  test.each([
    [[{ type: 'text' }], 'messages.0.content.0.text'],
    [[{ type: 'image', source: { type: 'base64' } }], 'messages.0.content.0.source.media_type'],
    [[{ type: 'image' }], 'messages.0.content.0.source'],
    [[{ type: 'hologram' }], 'messages.0.content.0.type'],
    [[{ type: 'tool_result', tool_use_id: 't', content: 7 }], 'messages.0.content.0.content'],
    [[{ type: 'tool_result', tool_use_id: 't', content: [{}] }], 'messages.0.content.0.content.0.type'],
  ])('%j', (content, param) => {
    const request = inbound.parse({ ...good, messages: [{ role: 'user', content }] })
    expect(() => request.toChatRequest()).toThrow(
      expect.objectContaining({ code: 'invalid_request', details: expect.objectContaining({ param }) }),
    )
  })
})

// ---- answers ----------------------------------------------------------------------------------------------

const bill: Bill = {
  cost: '0.001',
  lines: { input: '0.0005', cache_read: '0', cache_write: '0', output: '0.0005', reasoning: '0', tools: '0' },
}
const usage: Usage = {
  ...noUsage,
  input: 5,
  cacheRead: 3,
  cacheWrite1h: 2,
  output: 7,
  reasoning: 4,
  toolCalls: { web_search: 1 },
}
const context: AnswerContext = {
  id: 'msg_1',
  model: 'anthropic/claude',
  created: 0,
  includeUsage: true,
  warnings: [],
  extra: {},
}

function sse(events: readonly ChatEvent[]): string {
  const encoder = inbound.encoder(context)
  const frames = [...encoder.start()]
  for (const event of events) {
    if (event.kind !== 'finish' && event.kind !== 'error' && event.kind !== 'usage')
      frames.push(...encoder.event(event))
  }
  frames.push(...encoder.finish(usage, bill))
  return frames.map(encodeFrame).join('')
}

/** What the official client library makes of a streamed body. */
async function read(body: string): Promise<Anthropic.Message> {
  const client = new Anthropic({
    apiKey: 'k',
    maxRetries: 0,
    fetch: async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } }),
  })
  const asked = { model: 'm', max_tokens: 1, messages: [{ role: 'user' as const, content: 'x' }] }
  return await client.messages.stream(asked).finalMessage()
}

const answers = cases('anthropic')
  .filter((one) => one.status === 200)
  .map((one) => {
    const events = one.streamed
      ? parseFrames(outbound.parser(target()), framesOf([one.stream()]))
      : outbound.whole(one.response(), target())
    return [one.id, events] as const
  })

describe('an answer', () => {
  test.each(answers)('of %s is the same for the official client, streamed or whole', async (_, events) => {
    const message = await read(sse(events))
    const whole = inbound.whole(collect(events), usage, bill, context)
    expect(message.stop_reason as string).toBe(whole.stop_reason as string)
    // A stream keeps the blocks in the order they came; a whole answer has one block of text.
    const kinds = (type: string, content: unknown) =>
      (content as JsonObject[]).filter((block) => block.type === type)
    for (const type of ['thinking', 'redacted_thinking', 'tool_use']) {
      expect(kinds(type, message.content)).toEqual(kinds(type, whole.content))
    }
    const text = (content: unknown) =>
      kinds('text', content)
        .map((block) => block.text)
        .join('')
    expect(text(message.content)).toBe(text(whole.content))
    expect(message.usage).toMatchObject({
      input_tokens: 5,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 2,
      output_tokens: 11,
    })
  })

  test.each(answers)(
    'of %s opens one block at a time, numbered from 0, and names its events',
    (_, events) => {
      let open: number | undefined
      let next = 0
      for (const frame of framesOf([new TextEncoder().encode(sse(events))])) {
        const event = JSON.parse(frame.data)
        expect(frame.event).toBe(event.type)
        if (event.type === 'content_block_start') {
          expect([open, event.index]).toEqual([undefined, next])
          open = next
          next += 1
        }
        if (event.type === 'content_block_delta') expect(event.index).toBe(open)
        if (event.type === 'content_block_stop') {
          expect(event.index).toBe(open)
          open = undefined
        }
      }
      expect(open).toBeUndefined()
    },
  )

  test('of another provider carries its reasoning to and fro', async () => {
    const foreign = {
      type: 'reasoning.encrypted',
      format: 'openai-responses-v1',
      index: 0,
      id: 'rs_1',
      data: 'xyz',
    } as const
    const message = await read(
      sse([
        { kind: 'reasoning-delta', choice: 0, detail: foreign },
        { kind: 'text-delta', choice: 0, text: 'Hi' },
        { kind: 'choice-finish', choice: 0, reason: 'stop', native: 'completed' },
      ]),
    )
    const back = inbound
      .parse({
        model: 'a/b',
        max_tokens: 1,
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: message.content },
          { role: 'user', content: 'y' },
        ],
      })
      .toChatRequest()
    expect(back.messages[1]).toMatchObject({
      role: 'assistant',
      reasoning: [foreign],
      content: [{ text: 'Hi' }],
    })
  })

  test('with calls that another provider streams side by side has each whole', async () => {
    const start = (call: number): ChatEvent => ({
      kind: 'tool-call-start',
      choice: 0,
      call,
      id: `c${call}`,
      name: `f${call}`,
      thoughtSignature: undefined,
    })
    const args = (call: number, json: string): ChatEvent => ({
      kind: 'tool-call-delta',
      choice: 0,
      call,
      arguments: json,
    })
    const message = await read(
      sse([
        start(0),
        start(1),
        args(0, '{"a"'),
        args(1, '{"b":'),
        args(0, ':1}'),
        start(2),
        args(1, '2}'),
        { kind: 'choice-finish', choice: 0, reason: 'stop', native: 'stop' },
      ]),
    )
    expect(message.content).toMatchObject([
      { type: 'tool_use', id: 'c0', name: 'f0', input: { a: 1 } },
      { type: 'tool_use', id: 'c1', name: 'f1', input: { b: 2 } },
      { type: 'tool_use', id: 'c2', name: 'f2', input: {} },
    ])
    expect(message.stop_reason).toBe('tool_use')
  })

  test('that fails midway makes the client throw', async () => {
    const encoder = inbound.encoder(context)
    const error = renderError(new GatewayError('upstream_error'), 'req_1')
    const frames = [
      ...encoder.start(),
      ...encoder.event({ kind: 'text-delta', choice: 0, text: 'a' }),
      ...encoder.fail(error),
    ]
    const body = frames.map(encodeFrame).join('')
    expect(body).toContain('event: error\n')
    await expect(read(body)).rejects.toThrow('broke off')
  })

  test('that never ended is not given an end', () => {
    const result = collect([{ kind: 'text-delta', choice: 0, text: 'a' }])
    expect(() => inbound.whole(result, usage, bill, context)).toThrow(
      expect.objectContaining({ code: 'upstream_error' }),
    )
  })
})

describe('that a prompt is too long', () => {
  test.each([
    ['maximum context length is 8192 tokens', 'prompt is too long: maximum context length is 8192 tokens'],
    ['prompt is too long: 210000 tokens > 200000 maximum', undefined],
    ['input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000', undefined],
  ])('%s: is said as Claude Code looks for it', (message, told = message) => {
    const error = new GatewayError('context_length_exceeded', { message })
    expect(inbound.error!(renderError(error, 'req_1'))).toMatchObject({ error: { message: told } })
  })

  test('is not said of other mistakes', () => {
    const error = new GatewayError('invalid_request', { message: 'Send a model.' })
    expect(inbound.error!(renderError(error, 'req_1'))).toMatchObject({ error: { message: 'Send a model.' } })
  })
})

describe('the images of a document', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aWs=' } }
  const text = { type: 'text', text: 'See figure 1.' }
  const partsOf = (content: JsonObject[]) => {
    const document = { type: 'document', source: { type: 'content', content } }
    const messages = [{ role: 'user', content: [document, { type: 'text', text: 'Well?' }] }]
    const { messages: said } = inbound.parse({ model: 'm', max_tokens: 1, messages }).toChatRequest()
    return said[0]!.content.map(({ kind }): string => kind)
  }

  test.each([
    [
      [text, image, image],
      ['file', 'image', 'image', 'text'],
    ],
    [[image], ['image', 'text']],
    [[text], ['file', 'text']],
  ])('%j go along with it', (content, kinds) => {
    expect(partsOf(content)).toEqual(kinds)
  })

  test('are named where they cannot be read', () => {
    expect(() => partsOf([{ type: 'image', source: { type: 'none' } }])).toThrow(
      'messages.0.content.0.source.content.0.source',
    )
  })
})
