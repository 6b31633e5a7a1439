// A chat request as Ollama wants it, compared with the recorded ones, and the answers that no recording shows.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { ChatRequest, ContentPart, JsonObject } from '../../../src/conversation/request.ts'
import { defaultQuirks, outbound } from '../../../src/protocols/ollama/ollama.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { assistant, call, chat, lookup as tool, result, system, user } from '../../support/conversation.ts'
import { assertWellFormed, cases, parseFrames } from '../../support/recordings.ts'
import { target } from './support.ts'

const lower = (request: Partial<ChatRequest>, changes = {}) => outbound.lower(chat(request), target(changes))
const image: ContentPart = {
  kind: 'image',
  source: { kind: 'base64', mediaType: 'image/png', data: 'aWs=' },
  detail: undefined,
  cache: undefined,
}

describe('a conversation', () => {
  test('has objects for arguments, names for results, and bare base64 for images', () => {
    const { body, warnings } = lower({
      messages: [
        system('Be brief.'),
        { role: 'user', content: [{ kind: 'text', text: 'Look', cache: undefined }, image] },
        assistant('', {
          reasoning: [{ type: 'reasoning.text', format: null, index: 0, text: 'Hm.' }],
          toolCalls: [call('c1', 'lookup', '{"a":1}')],
        }),
        result('c1', 'found'),
      ],
      tools: [tool],
    })
    expect(body.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Look', images: ['aWs='] },
      {
        role: 'assistant',
        content: '',
        thinking: 'Hm.',
        tool_calls: [{ id: 'c1', function: { name: 'lookup', arguments: { a: 1 } } }],
      },
      { role: 'tool', content: 'found', tool_name: 'lookup', tool_call_id: 'c1' },
    ])
    expect(warnings).toEqual([])
  })

  test('with arguments that are no object keeps their text and says so', () => {
    const { body, warnings } = lower({
      messages: [user('x'), assistant('', { toolCalls: [call('c', 'f', '[1')] })],
    })
    expect(JSON.stringify(body)).toContain('{"invalid_arguments":"[1"}')
    expect(warnings).toHaveLength(1)
  })

  test('with media that Ollama cannot take is refused', () => {
    const audio: ContentPart = { kind: 'audio', format: 'wav', data: '' }
    expect(() => lower({ messages: [{ role: 'user', content: [audio] }] })).toThrow(
      expect.objectContaining({ code: 'unsupported_parameter' }),
    )
  })
})

describe('parameters', () => {
  test('are options, beside those of the client; those of the operator hold, and so does the bound', () => {
    const { body, warnings } = lower(
      {
        maxOutputTokens: 9,
        sampling: { temperature: 0, topK: 3, seed: 5, stop: ['x'], repetitionPenalty: 1.1 },
        rest: { options: { num_ctx: 8192, num_predict: 90_000, num_gpu: 1 }, keep_alive: '5m' },
      },
      { quirks: { ...defaultQuirks, options: { num_ctx: 4096, num_thread: 2 } } },
    )
    expect(body.options).toEqual({
      num_ctx: 4096,
      num_thread: 2,
      num_gpu: 1,
      num_predict: 9,
      temperature: 0,
      top_k: 3,
      seed: 5,
      stop: ['x'],
      repeat_penalty: 1.1,
    })
    expect(body.keep_alive).toBe('5m')
    expect(warnings.map(({ param }) => param)).toEqual(['options.num_predict'])
  })

  test('forbid cutting the conversation in silence unless somebody allows it', () => {
    expect(lower({}).body.truncate).toBe(false)
    expect(lower({}, { quirks: { ...defaultQuirks, truncate: true } }).body.truncate).toBe(true)
    expect(lower({ rest: { truncate: true } }).body.truncate).toBe(true)
    const firm = { quirks: { ...defaultQuirks, truncate: false } }
    expect(lower({ rest: { truncate: true } }, firm).body.truncate).toBe(false)
  })

  test.each([
    [{ effort: 'high' }, 'qwen3:8b', true],
    [{ effort: 'none' }, 'qwen3:8b', false],
    [{ enabled: false }, 'qwen3:8b', false],
    [{ effort: 'minimal' }, 'gpt-oss:20b', 'low'],
    [{ effort: 'max' }, 'gpt-oss:20b', 'high'],
    [{ enabled: true }, 'gpt-oss:20b', true],
  ] as const)('reasoning %j of %s is think: %p', (reasoning, model, think) => {
    expect(lower({ reasoning }, { model }).body.think).toBe(think)
  })

  test.each([
    [{ kind: 'json-object' }, 'json'],
    [
      { kind: 'json-schema', name: 'a', description: undefined, schema: { type: 'object' }, strict: true },
      { type: 'object' },
    ],
  ] as const)('the format %j is %j', (responseFormat, format) => {
    expect(lower({ responseFormat }).body.format).toEqual(format as never)
  })

  test.each([
    [{ toolChoice: { kind: 'required' }, tools: [tool] }, 'tool_choice'],
    [{ parallelToolCalls: false, tools: [tool] }, 'parallel_tool_calls'],
    [{ sampling: { logitBias: { a: 1 } } }, 'logit_bias'],
    [{ labels: { serviceTier: 'flex' } }, 'service_tier'],
    [{ reasoning: { maxTokens: 100 } }, 'reasoning.max_tokens'],
    [{ rest: { unheard_of: 1 } }, 'unheard_of'],
  ] as const)('%j is dropped with a warning', (request, param) => {
    expect(lower(request as Partial<ChatRequest>).warnings.map((warning) => warning.param)).toEqual([param])
  })

  test('no tool is shown that may not be called', () => {
    expect(lower({ tools: [tool], toolChoice: { kind: 'none' } }).body.tools).toBeUndefined()
    const both = [tool, { ...tool, name: 'other' }]
    expect(lower({ tools: both, toolChoice: { kind: 'function', name: 'other' } }).body.tools).toHaveLength(1)
  })

  test('n is refused', () => {
    expect(() => lower({ sampling: { n: 2 } })).toThrow(
      expect.objectContaining({ code: 'unsupported_parameter' }),
    )
  })
})

// Not recordings: lines in the shapes that the server's source and its users describe.
describe('an answer', () => {
  const lines = (...values: object[]) =>
    values.map((value) => ({ event: undefined, data: JSON.stringify(value) }))
  const read = (...values: object[]) => parseFrames(outbound.parser(target()), lines(...values))
  const calling = (...calls: object[]) => ({ message: { content: '', tool_calls: calls }, done: false })
  const done = { message: { content: '' }, done: true, done_reason: 'stop', eval_count: 3 }
  const fn = { function: { name: 'f', arguments: { a: 1 } } }

  test('gets ids for calls that have none, different ones in different answers', () => {
    const [one, other] = [0, 1].map(() => {
      const events = read(calling(fn, { ...fn, id: 'own' }), calling(fn), done)
      assertWellFormed(events)
      return collect(events).choices[0]!
    })
    expect(one!.finish).toBe('tool_calls')
    expect(one!.toolCalls.map(({ id }) => id)[1]).toBe('own')
    expect(one!.toolCalls[0]!.id).not.toBe(other!.toolCalls[0]!.id)
  })

  test('that fails after it began is an error', () => {
    const events = read(
      { message: { content: 'Hel' }, done: false },
      { error: 'unexpected EOF from the runner' },
    )
    assertWellFormed(events)
    expect(collect(events).fault).toMatchObject({ kind: 'broken', message: 'unexpected EOF from the runner' })
  })

  test('without a count of its prompt, which was cached, still counts its tokens', () => {
    expect(collect(read(done)).usage).toMatchObject({ input: 0, output: 3 })
  })

  test.each([[null], ['x'], [[]], [{}], [{ message: { content: 'a' }, done: false }]])(
    '%j is broken',
    (body) => {
      expect(collect(outbound.whole(body, target())).fault?.kind).toBe('broken')
    },
  )

  test.each([
    [400, '{"error":"qwen does not support thinking"}', 'invalid-request'],
    [400, '{"error":"the input length exceeds the context length"}', 'context-length'],
    [401, '{"error":"unauthorized"}', 'credentials'],
    [429, '{"error":"you have reached your weekly usage limit"}', 'quota'],
    [429, '{"error":"too many requests"}', 'rate-limited'],
    [500, '{"error":"llama runner process has terminated"}', 'broken'],
    [503, '{"error":"server busy, please try again.  maximum pending requests exceeded"}', 'overloaded'],
    [502, '<html>', 'broken'],
    [404, '<html>', 'broken'],
  ] as const)('with status %p and %s is %s', (status, body, kind) => {
    expect(outbound.fault(status, new Headers(), body, target())).toMatchObject({ kind, status })
  })
})

describe('recorded requests', () => {
  /** A client's words for the recorded request: the same but for where options and formats stand. */
  function asClient({ options, format, think, messages, ...same }: JsonObject): ChatRequest {
    const { num_predict, think: _misplaced, ...sampling } = (options ?? {}) as JsonObject
    return inbound
      .parse({
        ...same,
        ...sampling,
        model: 'ollama/any',
        stream: same.stream ?? true,
        messages: (messages as JsonObject[]).map(clientMessage),
        ...(num_predict === undefined ? {} : { max_tokens: num_predict }),
        ...(format === 'json' ? { response_format: { type: 'json_object' } } : {}),
        ...(think === undefined ? {} : { reasoning: { enabled: think } }),
      })
      .toChatRequest()
  }

  function clientMessage(message: JsonObject): JsonObject {
    if (message.role === 'tool') return { ...message, tool_call_id: 'c1' }
    const calls = message.tool_calls as { function: JsonObject }[] | undefined
    if (!calls) return message
    const asText = ({ name, arguments: input }: JsonObject) => ({
      name: name!,
      arguments: JSON.stringify(input),
    })
    return {
      ...message,
      tool_calls: calls.map((call) => ({ id: 'c1', type: 'function', function: asText(call.function) })),
    }
  }

  /** Without what says nothing (empty tools, options, formats) and what only newer versions know. */
  function plain({ tools, options, format, keep_alive, truncate, ...body }: JsonObject): JsonObject {
    const { think: _misplaced, ...said } = (options ?? {}) as JsonObject
    const messages = (body.messages as JsonObject[]).map(({ tool_name, tool_call_id, ...message }) => ({
      ...message,
      ...(message.tool_calls
        ? { tool_calls: (message.tool_calls as JsonObject[]).map(({ id, ...call }) => call) }
        : {}),
    }))
    return {
      ...body,
      messages,
      stream: body.stream ?? true,
      options: said,
      ...(Array.isArray(tools) && tools.length > 0 ? { tools } : {}),
      ...(format ? { format } : {}),
    }
  }

  test.each(
    cases('ollama-native')
      .filter((one) => one.request)
      .map((one) => [one.id, one] as const),
  )('%s is what lowering makes', (_, one) => {
    const { body, path } = outbound.lower(
      asClient(one.request!),
      target({ model: String(one.request!.model) }),
    )
    expect(plain(body)).toEqual(plain(one.request!))
    expect(path).toBe(new URL(one.meta.url).pathname)
  })
})
