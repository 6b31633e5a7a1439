// A chat request as Cohere wants it, compared with recorded requests where there are any.

import { describe, expect, test } from 'bun:test'
import type { ChatRequest, JsonObject } from '../../../src/conversation/request.ts'
import { collect } from '../../../src/conversation/event.ts'
import { outbound as parseChat } from '../../../src/protocols/cohere/cohere.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { assistant, call, chat, lookup as tool, result, user } from '../../support/conversation.ts'
import { cases } from '../../support/recordings.ts'
import { target } from './support.ts'

const all = cases('cohere-v2')
const lower = (request: Partial<ChatRequest>, changes = {}) => parseChat.lower(chat(request), target(changes))

/** The request of a recording as a client of ours would write it: the fields have other names, the shapes are alike. */
function asClient(recorded: JsonObject): ChatRequest {
  const { k, p, stop_sequences, thinking, response_format, messages, ...same } = recorded
  const format = response_format as JsonObject | undefined
  return inbound
    .parse({
      ...same,
      model: 'cohere/any',
      messages: (messages as JsonObject[]).map(clientMessage),
      ...(k === undefined ? {} : { top_k: k }),
      ...(p === undefined ? {} : { top_p: p }),
      ...(stop_sequences === undefined ? {} : { stop: stop_sequences }),
      ...(thinking === undefined ? {} : { reasoning: { enabled: true } }),
      ...(format?.json_schema === undefined
        ? {}
        : {
            response_format: { type: 'json_schema', json_schema: { name: 'a', schema: format.json_schema } },
          }),
    })
    .toChatRequest()
}

function clientMessage({ tool_plan, content, ...message }: JsonObject): JsonObject {
  const blocks = Array.isArray(content) ? (content as JsonObject[]) : []
  const thought = blocks.find((block) => block.type === 'thinking')
  const others = Array.isArray(content) ? blocks.filter((block) => block !== thought) : content
  return {
    ...message,
    content: tool_plan ?? others ?? null,
    ...(thought === undefined ? {} : { reasoning_content: thought.thinking }),
  } as JsonObject
}

/** A string is the same as one text block of it, and no words are the same as none. */
function plain(body: JsonObject): JsonObject {
  const messages = (body.messages as JsonObject[]).map(({ content, ...message }) => {
    const blocks =
      typeof content === 'string' ? [{ type: 'text', text: content }] : ((content ?? []) as JsonObject[])
    const said = blocks.filter((block) => block.text !== '')
    return { ...message, ...(said.length === 0 ? {} : { content: said }) }
  })
  return { ...body, messages }
}

describe('recorded requests', () => {
  // Documents as results of tools have no word in the client's protocol, nor have masked texts a meaning.
  const known = all.filter((one) => one.request && !JSON.stringify(one.request).includes('"type":"document"'))

  test('are enough to say something', () => expect(known.length).toBeGreaterThanOrEqual(18))

  test.each(known.map((one) => [one.id, one] as const))('%s is what lowering makes', (_, one) => {
    const { body, path } = parseChat.lower(
      asClient(one.request!),
      target({ model: String(one.request!.model) }),
    )
    expect(path).toBe('/chat')
    expect(plain(body)).toEqual(plain({ stream: false, ...one.request! }))
  })
})

describe('a conversation with tools', () => {
  test('sends the words before calls as their plan, and thinking as thinking', () => {
    const { body, warnings } = lower({
      messages: [
        user('Look'),
        assistant('I will look.', {
          reasoning: [{ type: 'reasoning.text', format: null, index: 0, text: 'Hm.' }],
          toolCalls: [call('c1')],
        }),
        result('c1', 'found'),
      ],
      tools: [tool],
    })
    expect((body.messages as JsonObject[]).slice(1)).toEqual([
      {
        role: 'assistant',
        content: [{ type: 'thinking', thinking: 'Hm.' }],
        tool_plan: 'I will look.',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'lookup', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'found' },
    ])
    expect(warnings).toEqual([])
  })

  test.each(all.filter((one) => one.status === 200 && !one.streamed).map((one) => [one.id, one] as const))(
    'returns what %s said unchanged',
    (_, one) => {
      const { message } = one.response() as { message: JsonObject }
      const said = collect(parseChat.whole(one.response(), target())).choices[0]!
      const { body } = lower({
        messages: [
          user('Go'),
          {
            role: 'assistant',
            content: said.text === null ? [] : [{ kind: 'text', text: said.text, cache: undefined }],
            reasoning: said.reasoning,
            toolCalls: said.toolCalls,
          },
        ],
      })
      const { citations: _citations, ...told } = message
      expect(plain({ messages: [(body.messages as JsonObject[])[1]!] })).toEqual(plain({ messages: [told] }))
    },
  )

  test.each([
    [undefined, undefined, 2],
    [{ kind: 'auto' }, undefined, 2],
    [{ kind: 'required' }, 'REQUIRED', 2],
    [{ kind: 'none' }, 'NONE', 2],
    [{ kind: 'function', name: 'lookup' }, 'REQUIRED', 1],
    [{ kind: 'allowed', mode: 'auto', names: ['lookup'] }, undefined, 1],
    [{ kind: 'allowed', mode: 'required', names: ['lookup'] }, 'REQUIRED', 1],
  ] as const)('the choice %j is %p over %p tools', (toolChoice, choice, count) => {
    const { body } = lower({ tools: [tool, { ...tool, name: 'other' }], toolChoice })
    expect(body.tool_choice).toBe(choice as never)
    expect(body.tools).toHaveLength(count)
  })

  test('a choice of a tool that is not there is refused', () => {
    expect(() => lower({ tools: [tool], toolChoice: { kind: 'function', name: 'nothing' } })).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })
})

describe('parameters', () => {
  test("have Cohere's names", () => {
    const { body, warnings } = lower({
      maxOutputTokens: 50,
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        topK: 20,
        seed: 7,
        stop: ['x'],
        frequencyPenalty: 0.1,
        logprobs: true,
      },
    })
    expect(body).toMatchObject({
      max_tokens: 50,
      temperature: 0.5,
      p: 0.9,
      k: 20,
      seed: 7,
      stop_sequences: ['x'],
      frequency_penalty: 0.1,
      logprobs: true,
    })
    expect(warnings).toEqual([])
  })

  test.each([
    [{ sampling: { temperature: 1.7 } }, 'temperature', { temperature: 1 }],
    [{ sampling: { topP: 1 } }, 'top_p', { p: 0.99 }],
    [{ sampling: { presencePenalty: -1 } }, 'presence_penalty', { presence_penalty: 0 }],
    [
      { sampling: { stop: ['1', '2', '3', '4', '5', '6'] } },
      'stop',
      { stop_sequences: ['1', '2', '3', '4', '5'] },
    ],
    [{ sampling: { minP: 0.1 } }, 'min_p', {}],
    [{ sampling: { logitBias: { a: 1 } } }, 'logit_bias', {}],
    [{ labels: { verbosity: 'low' } }, 'verbosity', {}],
    [{ rest: { unheard_of: 1 } }, 'unheard_of', {}],
    [{ reasoning: { effort: 'high' } }, 'reasoning', {}],
    [{ tools: [tool], parallelToolCalls: false }, 'parallel_tool_calls', {}],
  ] as const)('%j is changed or dropped with a warning', (request, param, sent) => {
    const { body, warnings } = lower(request as Partial<ChatRequest>)
    expect(warnings.map((warning) => warning.param)).toEqual([param])
    expect(body).toMatchObject(sent)
  })

  test.each([
    [{ sampling: { n: 2 } }, 'n'],
    [{ sampling: { topLogprobs: 3 } }, 'top_logprobs'],
  ] as const)('%j is refused', (request, param) => {
    expect(() => lower(request)).toThrow(
      expect.objectContaining({ code: 'unsupported_parameter', details: { param } }),
    )
  })

  test.each([
    [{ effort: 'low' }, { type: 'enabled', token_budget: 2048 }],
    [{ effort: 'high' }, { type: 'enabled' }],
    [{ maxTokens: 300 }, { type: 'enabled', token_budget: 300 }],
    [{ effort: 'none' }, { type: 'disabled' }],
    [{ enabled: false }, { type: 'disabled' }],
  ] as const)('reasoning %j of a model that thinks is %j', (reasoning, thinking) => {
    expect(lower({ reasoning }, { model: 'command-a-reasoning-08-2025' }).body.thinking).toEqual(
      thinking as never,
    )
  })

  test("Cohere's own fields go on", () => {
    const rest = { safety_mode: 'STRICT', documents: ['a'] }
    expect(lower({ rest }).body).toMatchObject(rest)
  })
})

describe('files', () => {
  const file = (mediaType: string) => ({
    kind: 'file' as const,
    source: { kind: 'base64' as const, mediaType, data: Buffer.from('Facts.').toString('base64') },
    filename: 'facts.txt',
    cache: undefined,
  })

  test('of text become documents', () => {
    const { body } = lower({ messages: [{ role: 'user', content: [file('text/plain')] }] })
    expect(body.documents).toEqual([{ id: 'doc:0', data: { title: 'facts.txt', text: 'Facts.' } }])
  })

  test('that Cohere cannot read are refused by name', () => {
    expect(() => lower({ messages: [{ role: 'user', content: [file('application/pdf')] }] })).toThrow(
      expect.objectContaining({
        code: 'unsupported_parameter',
        details: expect.objectContaining({ param: 'messages[0].content' }),
      }),
    )
  })
})

// Not recordings: bodies in the shapes that Cohere documents.
describe('documented faults', () => {
  test.each([
    [429, '{"message":"You are using a Trial key, which is limited to 1000 API calls / month"}', 'quota'],
    [429, '{"message":"too many requests"}', 'rate-limited'],
    [402, '{"message":"billing"}', 'quota'],
    [403, '{"message":"blocked"}', 'credentials'],
    [404, '{"message":"model not found"}', 'not-found'],
    [422, '{"message":"invalid temperature"}', 'invalid-request'],
    [498, '{"message":"input was blocked"}', 'content-filter'],
    [503, '{"message":"unavailable"}', 'overloaded'],
    [500, '{"message":"internal"}', 'broken'],
    [504, '', 'timeout'],
    [401, '<html>', 'broken'],
  ] as const)('%p with %s is %s', (status, body, kind) => {
    expect(parseChat.fault(status, new Headers({ 'retry-after': '3' }), body, target())).toMatchObject({
      kind,
      status,
      retryAfterMs: 3000,
    })
  })
})
