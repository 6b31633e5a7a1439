// Clients of the Responses protocol: what they may send, what is made of it, and answers of shapes that no recording has.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatEvent } from '../../../src/conversation/event.ts'
import type { JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import { isClientToolType } from '../../../src/protocols/openai/client-tools.ts'
import { GatewayError, renderError } from '../../../src/errors/errors.ts'
import { listedItems } from '../../../src/protocols/openai-responses/inbound/inbound.ts'
import { cases } from '../../support/recordings.ts'
import {
  assertStream,
  bill,
  callOf,
  context,
  eventsIn,
  framesFor,
  telling,
  usage,
} from './inbound-support.ts'
import { hostsOf } from '../recorded-hosts.ts'

const refusal = (body: object, recalled: Parameters<typeof callOf>[2] = {}): unknown => {
  try {
    callOf(body, [], recalled).request.toChatRequest()
    return 'nothing'
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return [error.code, error.details.param]
  }
}

const chatOf = (body: object, recalled: Parameters<typeof callOf>[2] = {}) =>
  callOf(body, [], recalled).request.toChatRequest()

describe('a request', () => {
  const recorded = hostsOf('openai-responses').flatMap(({ folder }) =>
    cases(folder).flatMap((one) =>
      one.request === undefined || one.request['prompt'] != null || one.status !== 200
        ? []
        : ([[`${folder}/${one.id}`, one.request]] as const),
    ),
  )

  test.each(recorded)('%s, which a provider took, is understood', (_, request) => {
    const { input } = request
    const { previous_response_id: _previous, background: _background, ...body } = request
    const calls = Array.isArray(input) ? input.map((item) => (item as JsonObject)['call_id']) : []
    // What was said before was kept by the provider.
    const history = calls.map((call_id) => ({
      type: 'function_call',
      call_id: call_id ?? null,
      name: 'f',
      arguments: '{}',
    }))
    const sent = (request['tools'] ?? []) as JsonObject[]
    const isOwn = ({ type }: JsonObject) => type === 'function' || isClientToolType(type)
    const isSearch = (tool: JsonObject) => String(tool['type']).startsWith('web_search')
    const served = sent.filter((tool) => isOwn(tool) || isSearch(tool))
    // A search among tools that the provider runs is not called by name.
    const offered = served.filter((tool) => isOwn(tool) && tool['type'] !== 'tool_search')
    if (served.length < sent.length) {
      // Another tool that the provider ran is not served here.
      const at = sent.findIndex((tool) => !served.includes(tool))
      const named = ['unsupported_parameter', `tools[${at}].type`]
      expect(refusal({ ...body, tools: sent }, { history })).toEqual(named)
    }
    const { request: read } = callOf({ model: 'lab/model', ...body, tools: served }, [], { history })
    const { messages, tools } = read.toChatRequest()
    expect(read.gatewayTools?.declarations ?? []).toHaveLength(sent.filter(isSearch).length)
    expect(messages.length).toBeGreaterThan(0)
    const found = Array.isArray(input)
      ? input.flatMap((item) => ((item as JsonObject)['tools'] as JsonObject[]) ?? [])
      : []
    const names = [...offered, ...found].map((tool) => tool['name'] ?? tool['type'])
    expect(tools.map(({ name }): unknown => name)).toEqual([...new Set(names)])
    const texts = JSON.stringify(messages)
    if (typeof input === 'string') expect(texts).toContain(JSON.stringify(input))
  })

  test('becomes a conversation: instructions first, each turn of the assistant one message', () => {
    const { messages } = chatOf({
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: 'How high is the river?' },
        { type: 'reasoning', id: 'rs_x', summary: [{ type: 'summary_text', text: 'Hm.' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
        { type: 'function_call', call_id: 'call_1', name: 'level', arguments: '' },
        { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: '2 m' }] },
        { type: 'message', role: 'assistant', content: '2 metres.' },
        { role: 'developer', content: [{ type: 'input_text', text: 'In feet.' }] },
      ],
    })
    const text = (words: string) => [{ kind: 'text', text: words, cache: undefined }] as const
    expect(messages).toEqual([
      { role: 'system', content: text('Be brief.') },
      { role: 'user', content: text('How high is the river?') },
      {
        role: 'assistant',
        content: text('I look.'),
        reasoning: [{ type: 'reasoning.summary', format: null, index: 0, summary: 'Hm.' }],
        toolCalls: [{ id: 'call_1', name: 'level', arguments: '{}', thoughtSignature: undefined }],
      },
      { role: 'tool', toolCallId: 'call_1', content: text('2 m'), isError: false },
      { role: 'assistant', content: text('2 metres.'), reasoning: [], toolCalls: [] },
      { role: 'developer', content: text('In feet.') },
    ])
  })

  test('has each result directly behind its call, wherever the client put it', () => {
    const call = (id: string) => ({ type: 'function_call', call_id: id, name: 'level', arguments: '{}' })
    const result = (id: string) => ({ type: 'function_call_output', call_id: id, output: `of ${id}` })
    const said = (role: string, content: string) => ({ role, content })
    const orderOf = (input: object[]) => {
      const { messages } = chatOf({ input })
      return messages.map((message) => {
        if (message.role === 'tool') return message.toolCallId
        const calls = message.role === 'assistant' ? message.toolCalls.map(({ id }) => id) : []
        return [message.role, ...calls].join(' ')
      })
    }
    // Codex warns between a call and its result.
    expect(orderOf([said('user', 'go'), call('a'), said('user', 'Warning'), result('a')])).toEqual([
      'user',
      'assistant a',
      'a',
      'user',
    ])
    expect(
      orderOf([
        call('a'),
        call('b'),
        result('b'),
        said('user', 'and'),
        call('c'),
        said('developer', 'or'),
        result('a'),
        result('c'),
        call('d'),
        result('d'),
      ]),
    ).toEqual(['assistant a b', 'b', 'a', 'user', 'assistant c', 'c', 'developer', 'assistant d', 'd'])
    // An id that is used again is that of the latest call.
    expect(
      orderOf([call('a'), result('a'), said('user', 'again'), call('a'), said('user', 'x'), result('a')]),
    ).toEqual(['assistant a', 'a', 'user', 'assistant a', 'a', 'user'])
  })

  test('says in its own words what others say in theirs', () => {
    const chat = chatOf({
      input: 'Hello',
      max_output_tokens: 50,
      temperature: 0.5,
      top_p: 0.9,
      top_logprobs: 3,
      include: ['message.output_text.logprobs'],
      reasoning: { effort: 'low', summary: 'auto' },
      text: { verbosity: 'low', format: { type: 'json_schema', name: 'river', schema: { type: 'object' } } },
      tools: [{ type: 'function', name: 'level', parameters: { type: 'object' }, strict: true }],
      tool_choice: { type: 'function', name: 'level' },
      parallel_tool_calls: false,
      prompt_cache_key: 'k',
      metadata: { own: 'facts' },
      store: true,
    })
    expect(chat).toMatchObject({
      maxOutputTokens: 50,
      sampling: { temperature: 0.5, topP: 0.9, logprobs: true, topLogprobs: 3 },
      reasoning: { effort: 'low', exclude: false },
      responseFormat: { kind: 'json-schema', name: 'river' },
      tools: [{ name: 'level', strict: true }],
      toolChoice: { kind: 'function', name: 'level' },
      parallelToolCalls: false,
      rest: {},
    })
    // Metadata and storing are ours: a provider that has neither would be told of both.
    expect(chat.labels).toEqual({ promptCacheKey: 'k', verbosity: 'low' })
  })

  const results = { type: 'function_call_output', call_id: 'call_1', output: 'x' }
  const tools = [{ type: 'function', name: 'level' }]
  test.each([
    ['a result without a call', { input: [results] }, ['invalid_request', 'input[0].call_id']],
    ['neither input nor anything before', {}, ['invalid_request', 'input']],
    ['no items', { input: [] }, ['invalid_request', 'input']],
    [
      'a choice of a function that is not there',
      { input: 'x', tools, tool_choice: { type: 'function', name: 'no' } },
      ['invalid_request', 'tool_choice.name'],
    ],
    [
      'required tools without any',
      { input: 'x', tool_choice: 'required' },
      ['invalid_request', 'tool_choice'],
    ],
    [
      'a reference to nothing',
      { input: [{ type: 'item_reference', id: 'msg_1' }] },
      ['invalid_request', 'input[0].id'],
    ],
    [
      'a broken data: URL',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:x' }] }] },
      ['invalid_request', 'input[0].content[0].image_url'],
    ],
    [
      'an image of nothing',
      { input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
      ['invalid_request', 'input[0].content[0]'],
    ],
    ['a role of no kind', { input: [{ role: 'tool', content: 'x' }] }, ['invalid_request', 'input[0].role']],
    [
      'a function without a name',
      { input: 'x', tools: [{ type: 'function' }] },
      ['invalid_request', 'tools[0].name'],
    ],
    ['no number of tokens', { input: 'x', max_output_tokens: 0 }, ['invalid_request', 'max_output_tokens']],
    ['messages', { messages: [] }, ['wrong_endpoint', 'messages']],
    [
      'the background, and not stored',
      { input: 'x', background: true, store: false },
      ['invalid_request', 'background'],
    ],
    [
      'another tool',
      { input: 'x', tools: [{ type: 'code_interpreter' }] },
      ['unsupported_parameter', 'tools[0].type'],
    ],
    [
      'a server without a label',
      { input: 'x', tools: [{ type: 'mcp' }] },
      ['invalid_request', 'tools[0].server_label'],
    ],
    [
      'another item, strictly',
      { input: [{ type: 'web_search_call' }], strict: true },
      ['unsupported_parameter', 'input[0]'],
    ],
  ])('with %s is refused, naming the field', (_, body, expected) => {
    expect(refusal(body)).toEqual(expected)
  })

  test('of any kind is understood or refused, never a fault of ours', () => {
    const fields = [
      'input',
      'instructions',
      'tools',
      'tool_choice',
      'reasoning',
      'text',
      'include',
      'model',
    ] as const
    const kinds = [
      'message',
      'function_call',
      'function_call_output',
      'reasoning',
      'item_reference',
      'other',
      null,
    ]
    const names = [
      'role',
      'content',
      'call_id',
      'id',
      'output',
      'encrypted_content',
      'summary',
      'result',
      'length',
    ]
    const item = fc
      .tuple(
        fc.constantFrom(...kinds),
        fc.dictionary(fc.constantFrom(...names), fc.jsonValue({ maxDepth: 3 })),
      )
      .map(([type, rest]) => ({ ...rest, type }))
    const body = fc.record(
      Object.fromEntries(
        fields.map((field) => [field, fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.array(item))]),
      ),
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(body, (sent) => {
        // `refusal` lets through whatever is not a refusal.
        expect(refusal(sent)).toBeDefined()
      }),
      { numRuns: 100 },
    )
    expect(refusal({ model: { length: { valueOf: null, toString: null } }, input: 'x' })).toEqual([
      'invalid_request',
      undefined,
    ])
  })

  test('is served without what nobody here understands, and says so', () => {
    const { request } = callOf({
      input: [
        { role: 'user', content: 'x' },
        { type: 'web_search_call', id: 'ws_1' },
      ],
      tools: [...tools, { type: 'namespace', name: 'agents', tools: [] }],
      truncation: 'auto',
      no_such_field: { at: 'all' },
    })
    expect(request.warnings?.map(({ param }) => param)).toEqual(['input[1]', 'truncation'])
    const chat = request.toChatRequest()
    expect(chat.messages).toHaveLength(1)
    expect(chat.tools.map(({ name }) => name)).toEqual(['level'])
    expect(chat).toMatchObject({ toolChoice: undefined, rest: {} })
  })

  test('names the members of settings that it does not know, and shows those in effect', () => {
    const settings = {
      reasoning: { effort: 'high', summary: 'detailed', mode: 'pro', context: 'auto' },
      text: { format: null, verbosity: 'low', tone: 'kind' },
    }
    const asked = callOf({ input: 'x', ...settings })
    expect(asked.request.warnings?.map(({ param }) => param)).toEqual(['reasoning.mode', 'text.tone'])
    expect(asked.request.toChatRequest().reasoning).toEqual({
      effort: 'high',
      exclude: false,
      summary: 'detailed',
    })
    const [begun] = eventsIn([...asked.inbound.encoder(context).start()])
    expect((begun!['response'] as JsonObject)['reasoning']).toEqual({ effort: 'high', summary: 'detailed' })
    expect((begun!['response'] as JsonObject)['text']).toEqual({ format: { type: 'text' }, verbosity: 'low' })
    expect(() => callOf({ input: 'x', ...settings, strict: true })).toThrow('not known here')
  })

  test('continues what was said before, which counts for its calls and its size', () => {
    const history: JsonObject[] = [
      { type: 'message', role: 'user', content: 'How high?' },
      { type: 'function_call', call_id: 'call_1', name: 'level', arguments: '{}' },
    ]
    expect(refusal({ previous_response_id: 'resp_1', input: [results] }, { history })).toBe('nothing')
    const { request } = callOf({ previous_response_id: 'resp_1', input: [results] }, [], { history })
    expect(request.toChatRequest().messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool'])
    expect(request.body['input']).toEqual([...history, results])
  })

  test('takes the place of references with what they refer to, and of reasoning with what was kept of it', () => {
    const sealed = { type: 'reasoning', id: 'rs_kept', summary: [], encrypted_content: 'gAAAA' }
    const said = { type: 'message', id: 'msg_kept', role: 'assistant', content: 'Said.' }
    const items = new Map<string, JsonObject>([
      ['rs_kept', sealed],
      ['msg_kept', said],
    ])
    const input = [
      { type: 'reasoning', id: 'rs_kept', summary: [] },
      { type: 'item_reference', id: 'msg_kept' },
    ]
    const call = callOf({ input }, [], { items })
    expect(call.items as unknown[]).toEqual([sealed, said])
    const [turn] = call.request.toChatRequest().messages
    expect(turn).toMatchObject({
      content: [{ text: 'Said.' }],
      reasoning: [
        { type: 'reasoning.encrypted', format: 'openai-responses-v1', id: 'rs_kept', data: 'gAAAA' },
      ],
    })
  })

  test('takes nothing else in the place of what the request itself says', () => {
    const said = { type: 'message', id: 'msg_kept', role: 'assistant', content: 'Said.' }
    const own = { type: 'message', id: 'msg_kept', role: 'user', content: 'Mine.' }
    const input = [{ type: 'item_reference', id: 'msg_kept' }, own]
    const { items } = callOf({ input }, [], { items: new Map([['msg_kept', said]]) })
    expect(items as unknown[]).toEqual([said, own])
  })

  test('is kept with items that each have an id, a type and parts', () => {
    const { items } = callOf({
      input: [
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hi', id: 'mine' },
      ],
    })
    expect(listedItems(items, context.id)).toMatchObject([
      {
        id: 'msg_0123456789abcdef0123456789abcdef_in0',
        type: 'message',
        content: [{ type: 'input_text', text: 'Hello' }],
      },
      { id: 'mine', type: 'message', content: [{ type: 'output_text', text: 'Hi', annotations: [] }] },
    ])
  })
})

// ---- answers ----------------------------------------------------------------------------------------------

const choice = 0
const text = (words: string): ChatEvent => ({ kind: 'text-delta', choice, text: words })
const start = (call: number): ChatEvent => ({
  kind: 'tool-call-start',
  choice,
  call,
  id: `call_${call}`,
  name: `f${call}`,
  thoughtSignature: undefined,
})
const json = (call: number, part: string): ChatEvent => ({
  kind: 'tool-call-delta',
  choice,
  call,
  arguments: part,
})
const thought = (detail: Partial<ReasoningDetail>): ChatEvent => ({
  kind: 'reasoning-delta',
  choice,
  detail: { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0, ...detail },
})
const end = (reason: 'stop' | 'length' | 'tool_calls' | 'content_filter' = 'stop'): ChatEvent[] => [
  { kind: 'choice-finish', choice, reason, native: reason },
  { kind: 'finish' },
]

/** The output of a stream that is as it should be. */
function outputOf(events: readonly ChatEvent[], call = callOf(telling)): JsonObject[] {
  const frames = framesFor(events, call)
  assertStream(frames)
  return (eventsIn(frames).at(-1)!['response'] as JsonObject)['output'] as JsonObject[]
}

/** The assistant's turn as it is understood when this output is sent back. */
function sentBack(output: readonly JsonObject[]) {
  const [turn] = chatOf({ input: output }).messages
  return turn?.role === 'assistant' ? turn : undefined
}

describe('an answer', () => {
  test('whose calls are streamed side by side has all of each', () => {
    const output = outputOf([
      start(0),
      start(1),
      json(0, '{"a"'),
      json(1, '{"b":2}'),
      json(0, ':1}'),
      ...end('tool_calls'),
    ])
    expect(output).toMatchObject([
      { call_id: 'call_0', name: 'f0', arguments: '{"a":1}', status: 'completed' },
      { call_id: 'call_1', name: 'f1', arguments: '{"b":2}', status: 'completed' },
    ])
  })

  test('calls a function without arguments with an empty object', () => {
    expect(outputOf([start(0), ...end('tool_calls')])).toMatchObject([{ arguments: '{}' }])
  })

  test('that goes on with text after a call has two messages', () => {
    const output = outputOf([text('One.'), start(0), json(0, '{}'), text('Two.'), ...end()])
    expect(output.map(({ type }) => type)).toEqual(['message', 'function_call', 'message'])
    expect(sentBack(output)?.content.map((part) => 'text' in part && part.text)).toEqual(['One.', 'Two.'])
  })

  test('is not cut in two by a signature that comes in its midst', () => {
    const signed = thought({ index: 1, type: 'reasoning.encrypted', format: 'google-gemini-v1', data: 'sig' })
    const output = outputOf([text('One, '), signed, text('two.'), ...end()])
    expect(output.map(({ type }) => type)).toEqual(['message', 'reasoning'])
    expect(output[0]).toMatchObject({ content: [{ text: 'One, two.' }] })
    expect(sentBack(output)?.reasoning).toMatchObject([{ index: 1, data: 'sig' }])
  })

  test('keeps a thought and the signature that comes when the text has begun together', () => {
    const output = outputOf([
      thought({ text: 'Hm, ' }),
      thought({ text: 'yes.' }),
      text('Yes.'),
      thought({ signature: 'sig' }),
      ...end(),
    ])
    expect(output[0]).toMatchObject({ content: [{ type: 'reasoning_text', text: 'Hm, yes.' }] })
    const whole = {
      type: 'reasoning.text',
      format: 'anthropic-claude-v1',
      index: 0,
      text: 'Hm, yes.',
      signature: 'sig',
    }
    expect(sentBack(output)?.reasoning as unknown[]).toEqual([whole])
  })

  describe('to a client that asked for a summary', () => {
    const summarised = (summary: object) => callOf({ ...telling, reasoning: summary })

    test.each(['anthropic-claude-v1', 'google-gemini-v1', null])('has thoughts of %p in one', (format) => {
      const events = [
        thought({ format, text: 'Hm, ' }),
        thought({ format, text: 'yes.', signature: 'sig' }),
        thought({ format, index: 1, text: 'Again.' }),
        text('Yes.'),
        ...end(),
      ]
      const frames = framesFor(events, summarised({ summary: 'auto' }))
      assertStream(frames)
      expect(frames.map(({ event }) => event)).not.toContain('response.reasoning_text.delta')
      const output = outputOf(events, summarised({ summary: 'detailed' }))
      expect(
        output.filter(({ type }) => type === 'reasoning').flatMap(({ summary }) => summary as unknown[]),
      ).toEqual([
        { type: 'summary_text', text: 'Hm, yes.' },
        { type: 'summary_text', text: 'Again.' },
      ])
      // Sent back it is what its maker wrote, with the signature that holds for it.
      expect(sentBack(output)?.reasoning).toMatchObject([
        { type: 'reasoning.text', format, text: 'Hm, yes.', signature: 'sig' },
        { type: 'reasoning.text', format, text: 'Again.' },
      ])
    })

    test('has summaries and reasoning apart where its maker tells them apart', () => {
      const of = (detail: Partial<ReasoningDetail>) =>
        thought({ format: 'openai-responses-v1', id: 'rs_1', ...detail })
      const events = [
        of({ type: 'reasoning.summary', index: 0, summary: 'Short' }),
        of({ index: 1, text: 'Long' }),
        ...end(),
      ]
      expect(outputOf(events, summarised({ summary: 'auto' }))).toMatchObject([
        { summary: [{ text: 'Short' }], content: [{ text: 'Long' }] },
      ])
    })

    test.each([{}, { effort: 'low' }, { summary: 'none' }, { summary: null }])(
      'but not for %j',
      (reasoning) => {
        const output = outputOf([thought({ text: 'Hm.' }), ...end()], summarised(reasoning))
        expect(output).toMatchObject([{ summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }])
      },
    )
  })

  test('has the parts of one reasoning item of its maker in one of its own', () => {
    const of = (detail: Partial<ReasoningDetail>) =>
      thought({ format: 'openai-responses-v1', id: 'rs_1', ...detail })
    const output = outputOf([
      of({ type: 'reasoning.summary', index: 0, summary: 'First' }),
      of({ type: 'reasoning.summary', index: 1, summary: 'Second' }),
      of({ type: 'reasoning.encrypted', index: 2, data: 'gAAAA' }),
      text('Yes.'),
      ...end(),
    ])
    expect(output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'First' }, { text: 'Second' }] },
      {},
    ])
    expect(sentBack(output)?.reasoning).toMatchObject([
      { summary: 'First' },
      { summary: 'Second' },
      { data: 'gAAAA' },
    ])
  })

  test('shows what is encrypted to those alone that ask, and keeps it all the same', () => {
    const kept: JsonObject[] = []
    const output = outputOf(
      [thought({ text: 'Hm.', signature: 'sig' }), text('Yes.'), ...end()],
      callOf({ input: 'x' }, kept),
    )
    expect(output[0]).not.toHaveProperty('encrypted_content')
    expect(sentBack(kept[0]!['output'] as JsonObject[])?.reasoning).toMatchObject([{ signature: 'sig' }])
  })

  test('is not kept where the client says so', () => {
    const kept: JsonObject[] = []
    const call = callOf({ input: 'x', store: false }, kept)
    const { response } = eventsIn(framesFor([text('Yes.'), ...end()], call)).at(-1)!
    expect(response).toMatchObject({ store: false })
    expect(kept).toEqual([])
  })

  test('refuses in a part of its own, and cites what it has read', () => {
    const source = (start: number, end: number): ChatEvent => ({
      kind: 'annotation',
      choice,
      annotation: { kind: 'url-citation', url: 'https://example.org', title: 'River', start, end },
    })
    const output = outputOf([
      source(0, 3),
      text('One'),
      start(0),
      json(0, '{}'),
      text('Two'),
      source(3, 6),
      { kind: 'refusal-delta', choice, text: 'No more.' },
      ...end(),
    ])
    expect(output).toMatchObject([
      {
        content: [
          {
            text: 'One',
            annotations: [{ type: 'url_citation', url: 'https://example.org', start_index: 0, end_index: 3 }],
          },
        ],
      },
      {},
      {
        content: [
          { text: 'Two', annotations: [{ start_index: 0, end_index: 3 }] },
          { type: 'refusal', refusal: 'No more.' },
        ],
      },
    ])
  })

  test('tells the probabilities of its tokens, with the text and in the end', () => {
    const entry = { token: 'Yes', logprob: -0.1, bytes: [89], top_logprobs: [] }
    const frames = framesFor([
      text('Yes'),
      { kind: 'logprobs', choice, content: [entry], refusal: [] },
      ...end(),
    ])
    const events = eventsIn(frames)
    const told = (type: string) =>
      events.filter((event) => event.type === type).flatMap((event) => event['logprobs'])
    expect(told('response.output_text.delta')).toEqual([entry])
    expect(told('response.output_text.done')).toEqual([entry])
  })

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const)('that ends for %s is incomplete, with what was being written', (reason, told) => {
    const frames = framesFor([text('Once'), start(0), json(0, '{"a":'), ...end(reason)])
    assertStream(frames)
    const last = eventsIn(frames).at(-1)!
    expect(last.type).toBe('response.incomplete')
    expect(last['response']).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: told },
      completed_at: null,
      output: [{ status: 'completed' }, { status: 'incomplete', arguments: '{"a":' }],
    })
  })

  test('that fails ends nothing it has not ended: no call that only looks whole is carried out', () => {
    const kept: JsonObject[] = []
    const encoder = callOf(telling, kept).inbound.encoder(context)
    const rendered = renderError(new GatewayError('upstream_error', { message: 'It broke off.' }), context.id)
    const frames = [
      ...encoder.start(),
      ...[text('One.'), start(0), json(0, '{}')].flatMap((event) => [...encoder.event(event)]),
      ...encoder.fail(rendered),
    ]
    const events = eventsIn(frames)
    expect(events.filter(({ type }) => type === 'response.output_item.done')).toHaveLength(1)
    expect(events.slice(-2)).toMatchObject([
      {
        type: 'error',
        code: 'upstream_error',
        message: 'It broke off.',
        param: null,
        error: { code: 'upstream_error' },
      },
      {
        type: 'response.failed',
        response: {
          status: 'failed',
          usage: null,
          store: true,
          error: { code: 'upstream_error', message: 'It broke off.' },
          output: [{ status: 'completed' }, { status: 'incomplete' }],
        },
      },
    ])
    expect(kept).toMatchObject([
      { status: 'failed', output: [{ status: 'completed' }, { status: 'incomplete' }] },
    ])
  })

  test('the arguments of a finished call are not parsed again for each call after it', () => {
    const json = JSON.stringify({ text: 'x'.repeat(20_000) })
    const events = Array.from({ length: 2_000 }, (_, call): ChatEvent[] => [
      { kind: 'tool-call-start', choice: 0, call, id: `c${call}`, name: 'f', thoughtSignature: undefined },
      { kind: 'tool-call-delta', choice: 0, call, arguments: json },
    ]).flat()
    const frames = framesFor([
      ...events,
      { kind: 'choice-finish', choice: 0, reason: 'tool_calls', native: '' },
    ])
    const ended = frames.filter(({ event }) => event === 'response.function_call_arguments.done')
    expect(ended).toHaveLength(2_000)
  })

  test('whose charge could not be booked fails in place of its end', () => {
    const encoder = callOf(telling).inbound.encoder(context)
    const frames = [...encoder.start(), ...encoder.event(text('One.'))]
    encoder.finish(usage, bill)
    const rendered = renderError(new GatewayError('store_unavailable'), context.id)
    const events = eventsIn([...frames, ...encoder.fail(rendered)])
    expect(events.map((event) => event['sequence_number'])).toEqual([...events.keys()])
    expect(events.at(-1)!.type).toBe('response.failed')
  })

  test('tells back what was asked, what it cost, and what is ours', () => {
    const asked = callOf({
      input: 'x',
      metadata: { own: 'facts' },
      tools: [{ type: 'function', name: 'level' }],
      reasoning: { effort: 'low' },
      text: { verbosity: 'low' },
    })
    const extra = { mode: 'test', metadata: { stopped_by: 'credits' } }
    const warnings = [{ param: 'top_k', message: 'Left out.' }]
    const encoder = asked.inbound.encoder({ ...context, extra, warnings })
    encoder.start()
    const frames = encoder.finish(usage, bill)
    expect(eventsIn(frames).at(-1)!['response']).toMatchObject({
      metadata: { own: 'facts', stopped_by: 'credits' },
      tools: [{ type: 'function', name: 'level', description: null, parameters: null, strict: null }],
      reasoning: { effort: 'low', summary: null },
      text: { format: { type: 'text' }, verbosity: 'low' },
      mode: 'test',
      warnings,
      completed_at: 1_795_240_375,
      usage: {
        input_tokens: 7,
        input_tokens_details: { cached_tokens: 2, cache_write_tokens: 0 },
        output_tokens: 6,
        output_tokens_details: { reasoning_tokens: 4 },
        total_tokens: 13,
        cost: 0.0000075,
        cost_details: { total: '0.0000075' },
      },
    })
  })

  test.each([
    [undefined, undefined, null, null],
    [undefined, 'priority', null, 'priority'],
    ['flex', 'flex', 'flex', 'flex'],
    // It was left out, or the provider had no room for it.
    ['flex', undefined, 'flex', 'default'],
    ['auto', undefined, 'auto', 'default'],
  ])(
    'asked for at the tier %p and served at %p says %p, then %p',
    (service_tier, serviceTier, first, last) => {
      const encoder = callOf({ input: 'x', service_tier }).inbound.encoder(context)
      const served = serviceTier === undefined ? usage : { ...usage, serviceTier }
      const told = eventsIn([...encoder.start(), ...encoder.finish(served, bill)])
      const tiers = told.map(({ response }) => (response as JsonObject)['service_tier'])
      expect(tiers).toEqual([first, first, last])
    },
  )

  test('that never ended is none', () => {
    const { inbound } = callOf(telling)
    const result = { id: undefined, model: undefined, choices: [], usage: undefined, fault: undefined }
    expect(() => inbound.whole(result, usage, bill, context)).toThrow('without a finish reason')
  })
})
