// A chat request as Converse wants it, compared with recorded requests where there are any.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { ChatRequest, ContentPart, JsonObject, Message } from '../../../src/conversation/request.ts'
import { exceptionPrefix } from '../../../src/protocols/framing/decoder.ts'
import { outbound } from '../../../src/protocols/bedrock-converse/parse.ts'
import { defaultQuirks } from '../../../src/protocols/bedrock-converse/lower.ts'
import { assistant, call, chat, lookup as tool, result, system, user } from '../../support/conversation.ts'
import { assertWellFormed, type Case, cases, parseFrames } from '../../support/recordings.ts'
import { framesOf, target } from './support.ts'

const all = cases('bedrock-converse')
const lower = (request: Partial<ChatRequest>, changes = {}) => outbound.lower(chat(request), target(changes))
const nova = { model: 'us.amazon.nova-lite-v1:0' }

function answerOf(one: Case) {
  const of = target({ model: one.meta.model! })
  const events = one.streamed
    ? parseFrames(outbound.parser(of), framesOf([one.stream()]))
    : outbound.whole(one.response(), of)
  return collect(events).choices[0]!
}

function saidBy(choice: ReturnType<typeof answerOf>): Message {
  return {
    role: 'assistant',
    content: choice.text === null ? [] : [{ kind: 'text', text: choice.text, cache: undefined }],
    reasoning: choice.reasoning,
    toolCalls: choice.toolCalls,
  }
}

describe('recorded requests', () => {
  type WireBlock = JsonObject & {
    text?: string
    toolUse?: { toolUseId: string; name: string; input: JsonObject }
    toolResult?: { toolUseId: string; content: { text: string }[]; status?: string }
    reasoningContent?: { reasoningText: { text: string; signature: string } }
  }

  /** The recorded conversation in our words. */
  function messagesOf(body: JsonObject): Message[] {
    const heads = ((body.system ?? []) as { text?: string; cachePoint?: object }[]).flatMap(
      (block, at, every) =>
        block.text === undefined
          ? []
          : [
              {
                kind: 'text' as const,
                text: block.text,
                cache: every[at + 1]?.cachePoint ? ({ ttl: '5m' } as const) : undefined,
              },
            ],
    )
    const turns = (body.messages as { role: string; content: WireBlock[] }[]).flatMap(
      ({ role, content }): Message[] => {
        const words = content.flatMap((block, at) =>
          block.text === undefined
            ? []
            : [
                {
                  kind: 'text' as const,
                  text: block.text,
                  cache: content[at + 1]?.cachePoint ? ({ ttl: '5m' } as const) : undefined,
                },
              ],
        )
        const results = content.flatMap(({ toolResult }): Message[] =>
          toolResult
            ? [result(toolResult.toolUseId, toolResult.content.map((each) => each.text).join(''))]
            : [],
        )
        if (role === 'user')
          return [...results, ...(words.length > 0 ? [{ role: 'user' as const, content: words }] : [])]
        const reasoning = content.flatMap(({ reasoningContent }, index) =>
          reasoningContent
            ? [
                {
                  type: 'reasoning.text' as const,
                  format: 'anthropic-claude-v1',
                  index,
                  ...reasoningContent.reasoningText,
                },
              ]
            : [],
        )
        const toolCalls = content.flatMap(({ toolUse }) =>
          toolUse ? [call(toolUse.toolUseId, toolUse.name, JSON.stringify(toolUse.input))] : [],
        )
        return [{ role: 'assistant' as const, content: words, reasoning, toolCalls }]
      },
    )
    return heads.length > 0 ? [{ role: 'system', content: heads }, ...turns] : turns
  }

  function choiceOf(choice: JsonObject | undefined): ChatRequest['toolChoice'] {
    if (choice?.tool) return { kind: 'function', name: String((choice.tool as JsonObject).name) }
    return choice?.any ? { kind: 'required' } : undefined
  }

  function asClient(body: JsonObject, stream: boolean): ChatRequest {
    const inference = (body.inferenceConfig ?? {}) as Record<string, never>
    const config = (body.toolConfig ?? {}) as { tools?: { toolSpec: JsonObject }[]; toolChoice?: JsonObject }
    const format = (
      body.outputConfig as { textFormat: { structure: { jsonSchema: JsonObject } } } | undefined
    )?.textFormat.structure.jsonSchema
    const { additionalModelRequestFields } = body
    return chat({
      messages: messagesOf(body),
      stream,
      maxOutputTokens: inference.maxTokens,
      sampling: {
        temperature: inference.temperature,
        topP: inference.topP,
        stop: inference.stopSequences,
      } as object,
      tools: (config.tools ?? []).map(({ toolSpec }) => ({
        name: String(toolSpec.name),
        description: toolSpec.description as string | undefined,
        parameters: (toolSpec.inputSchema as JsonObject).json as JsonObject,
        strict: undefined,
        cache: undefined,
      })),
      toolChoice: choiceOf(config.toolChoice),
      responseFormat: format && {
        kind: 'json-schema',
        name: String(format.name),
        description: format.description as string | undefined,
        schema: JSON.parse(String(format.schema)),
        strict: undefined,
      },
      rest: Object.fromEntries(
        Object.entries({ additionalModelRequestFields }).filter(([, value]) => value !== undefined),
      ) as JsonObject,
    })
  }

  /** Without what says nothing, and with results that do not repeat that they succeeded. */
  function plain(body: JsonObject): JsonObject {
    const entries = Object.entries(body).filter(
      ([, value]) => JSON.stringify(value) !== '{}' && JSON.stringify(value) !== '[]',
    )
    const copy = JSON.parse(
      JSON.stringify(Object.fromEntries(entries)).replaceAll(',"status":"success"', ''),
    ) as JsonObject
    const inference = copy.inferenceConfig as JsonObject | undefined
    if (JSON.stringify(inference?.stopSequences) === '[]') delete inference!.stopSequences
    const config = copy.toolConfig as JsonObject | undefined
    if (JSON.stringify(config?.toolChoice) === '{"auto":{}}') delete config!.toolChoice
    if (copy.outputConfig) {
      const { textFormat } = copy.outputConfig as { textFormat: { structure: { jsonSchema: JsonObject } } }
      const { jsonSchema } = textFormat.structure
      jsonSchema.schema = JSON.parse(String(jsonSchema.schema))
    }
    return copy
  }

  // What has no word in our conversation: guarded content, Amazon's own tools, documents by text, turns of one role.
  const foreign =
    /guardContent|systemTool|"document"|"video"|searchResult|"image"|"json":\{"(stdOut|result|weather)/
  const known = all.filter((one) => {
    const turns = (one.request?.messages ?? []) as { role: string }[]
    const alternates = turns.every((turn, at) => turn.role !== turns[at + 1]?.role)
    return one.request && alternates && !foreign.test(JSON.stringify(one.request))
  })

  test('are enough to say something', () => expect(known.length).toBeGreaterThanOrEqual(20))

  test.each(known.map((one) => [one.id, one] as const))('%s is what lowering makes', (_, one) => {
    const streamed = one.meta.url.endsWith('-stream')
    // A guardrail is the operator's to choose.
    const quirks = {
      ...defaultQuirks,
      guardrailConfig: one.request!.guardrailConfig as JsonObject | undefined,
    }
    const asked = target({ model: one.meta.model!, quirks })
    const lowered = outbound.lower(asClient(one.request!, streamed), asked)
    expect(plain(lowered.body)).toEqual(plain(one.request!))
    const path = new URL(one.meta.url.replace(/<[A-Z_]+>/, 'us-east-1')).pathname
    if (!path.includes('arn')) expect(lowered.path).toBe(path.replace(/(?<=[^%]):/, '%3A'))
  })
})

describe('a model id', () => {
  test('is escaped whole, colons and slashes included', () => {
    expect(lower({}).path).toBe('/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse')
    const arn = 'arn:aws:bedrock:us-east-1:1:inference-profile/x.y-v1:0'
    expect(lower({ stream: true }, { model: arn }).path).toBe(
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx.y-v1%3A0/converse-stream',
    )
  })
})

describe('reasoning', () => {
  const thinkers = all.filter(
    (one) => one.status === 200 && /claude/.test(one.meta.model!) && answerOf(one).reasoning.length > 0,
  )

  test('is in recordings of Claude, also redacted', () => {
    expect(thinkers.length).toBeGreaterThanOrEqual(4)
    expect(thinkers.some((one) => one.features.has('redacted_thinking'))).toBe(true)
  })

  test.each(thinkers.map((one) => [one.id, one] as const))(
    'of %s goes back byte for byte, first in its turn',
    (_, one) => {
      const { body, warnings } = lower({ messages: [user('x'), saidBy(answerOf(one)), user('y')] })
      const turn = (body.messages as { content: JsonObject[] }[])[1]!.content
      const thoughts = turn.filter((block) => 'reasoningContent' in block)
      expect(thoughts.length).toBe(answerOf(one).reasoning.length)
      expect(turn.slice(0, thoughts.length)).toEqual(thoughts)
      expect(warnings).toEqual([])
      const sent = one.streamed
        ? framesOf([one.stream()])
            .map((frame) => frame.data)
            .join('')
        : JSON.stringify(one.response())
      for (const { reasoningContent } of thoughts as { reasoningContent: JsonObject }[]) {
        const { signature } = (reasoningContent.reasoningText ?? {}) as JsonObject
        expect(sent).toContain(String(signature ?? reasoningContent.redactedContent))
      }
    },
  )

  test('of another provider is left out for Claude with a warning, and for others without', () => {
    const said = assistant('Hi', {
      reasoning: [{ type: 'reasoning.text', format: null, index: 0, text: 'Hm' }],
    })
    expect(lower({ messages: [user('x'), said, user('y')] }).warnings.map((each) => each.param)).toEqual([
      'messages[1].reasoning_details',
    ])
    expect(lower({ messages: [user('x'), said, user('y')] }, nova).warnings).toEqual([])
  })

  test.each([
    [{ effort: 'high' }, {}, { thinking: { type: 'enabled', budget_tokens: 16_384, display: undefined } }],
    [
      { effort: 'low' },
      { model: 'us.amazon.nova-2-lite-v1:0' },
      { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' } },
    ],
    [{ effort: 'none' }, { model: 'us.amazon.nova-2-lite-v1:0' }, { reasoningConfig: { type: 'disabled' } }],
    [{ effort: 'xhigh' }, { model: 'openai.gpt-oss-120b-1:0' }, { reasoning_effort: 'high' }],
    [{ enabled: true }, { model: 'qwen.qwen3-32b-v1:0' }, { reasoning_config: 'medium' }],
  ] as const)('%j for %j is %j', (reasoning, changes, fields) => {
    const { body } = lower({ reasoning, maxOutputTokens: 30_000 }, changes)
    expect(body.additionalModelRequestFields).toEqual(JSON.parse(JSON.stringify(fields)))
  })
})

describe('tools', () => {
  const odd = ['get.weather', 'get_weather', 'größe', 'x'.repeat(70), `${'x'.repeat(64)}y`]

  test('have names that are allowed, the same in definitions, history and choice, and get their own back', () => {
    const lowered = lower({
      messages: [
        user('a'),
        assistant('', { toolCalls: odd.map((name, at) => call(`c${at}`, name)) }),
        ...odd.map((_, at) => result(`c${at}`, 'ok')),
      ],
      tools: odd.map((name) => ({ ...tool, name })),
      toolChoice: { kind: 'function', name: 'get.weather' },
    })
    const body = lowered.body as unknown as {
      messages: { content: { toolUse: { name: string } }[] }[]
      toolConfig: { tools: { toolSpec: { name: string } }[]; toolChoice: unknown }
    }
    const [declared] = body.toolConfig.tools.map((each) => each.toolSpec.name)
    expect(body.toolConfig.toolChoice).toEqual({ tool: { name: declared } })
    const called = body.messages[1]!.content.map((block) => block.toolUse.name)
    expect(new Set(called).size).toBe(odd.length)
    for (const name of called) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(called[1]).toBe('get_weather')
    const answer = {
      output: {
        message: {
          content: called.map((name, at) => ({ toolUse: { toolUseId: `t${at}`, name, input: {} } })),
        },
      },
      stopReason: 'tool_use',
    }
    const choice = collect(outbound.whole(answer, target({ toolNames: lowered.toolNames! }))).choices[0]!
    expect(choice.toolCalls.map((each) => each.name)).toEqual(odd)
  })

  test('are declared anew when only the history has them', () => {
    const { body } = lower({
      messages: [user('a'), assistant('', { toolCalls: [call('c1')] }), result('c1', 'ok')],
    })
    expect(body.toolConfig).toEqual({
      tools: [{ toolSpec: { name: 'lookup', inputSchema: { json: { type: 'object', properties: {} } } } }],
    })
  })

  test('are left out when none may be called, and blank descriptions with them', () => {
    expect(lower({ tools: [tool], toolChoice: { kind: 'none' } }).body.toolConfig).toBeUndefined()
    const { body } = lower({ tools: [{ ...tool, description: ' ' }] })
    expect(JSON.stringify(body.toolConfig)).not.toContain('description')
  })

  test('have results together, first, one for each call, under ids that are allowed', () => {
    const ids = ['functions.a:0', 'b b', 'z'.repeat(80)]
    const { body, warnings } = lower({
      messages: [
        user('a'),
        assistant('Wait', { toolCalls: ids.map((id) => call(id)) }),
        result(ids[1]!, ''),
        user('And?'),
        { ...result(ids[0]!, 'bad'), isError: true } as Message,
      ],
      tools: [tool],
    })
    const [, , turn] = body.messages as { content: JsonObject[] }[]
    const wireId = (stem: string) => expect.stringMatching(new RegExp(`^${stem}_[0-9a-f]{8}$`)) as unknown
    expect(turn!.content).toMatchObject([
      { toolResult: { toolUseId: wireId('b_b'), content: [{ text: '(no output)' }] } },
      { toolResult: { toolUseId: wireId('functions_a_0'), content: [{ text: 'bad' }], status: 'error' } },
      { toolResult: { toolUseId: wireId('z{55}'), status: 'error' } },
      { text: 'And?' },
    ])
    expect(warnings).toHaveLength(1)
  })

  test('of two turns have ids of their own, also where the client used one twice', () => {
    const turn = [assistant('', { toolCalls: [call('call_0')] }), result('call_0', 'ok')]
    const { body } = lower({ messages: [user('a'), ...turn, user('b'), ...turn], tools: [tool] })
    const blocks = (body.messages as { content: JsonObject[] }[]).flatMap(({ content }) => content)
    expect(blocks.filter((block) => !('text' in block))).toMatchObject([
      { toolUse: { toolUseId: 'call_0' } },
      { toolResult: { toolUseId: 'call_0' } },
      { toolUse: { toolUseId: 'call_0_2' } },
      { toolResult: { toolUseId: 'call_0_2' } },
    ])
    const twice = assistant('', { toolCalls: [call('a'), call('a')] })
    expect(() => lower({ messages: [user('a'), twice] })).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })

  test.each([
    ['us.amazon.nova-lite-v1:0', ['b', 'lookup'], { tool: { name: 'b' } }, []],
    ['mistral.mistral-large-2407-v1:0', ['b'], { any: {} }, []],
    ['meta.llama3-1-70b-instruct-v1:0', ['b', 'lookup'], undefined, ['tool_choice']],
  ] as const)('of %s are forced as far as they can be', (model, declared, choice, warned) => {
    const tools = [{ ...tool, name: 'b' }, tool]
    const { body, warnings } = lower({ tools, toolChoice: { kind: 'function', name: 'b' } }, { model })
    const config = body.toolConfig as { tools: { toolSpec: JsonObject }[]; toolChoice?: JsonObject }
    expect(config.tools.map(({ toolSpec }) => toolSpec.name as string)).toEqual([...declared])
    expect(config.toolChoice).toEqual(choice)
    expect(warnings.map(({ param }) => param)).toEqual([...warned])
  })

  test('a result without its call is refused', () => {
    expect(() => lower({ messages: [user('a'), result('c', 'x')] })).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })
})

describe('content', () => {
  const file = (filename: string, mediaType = 'application/pdf'): ContentPart => ({
    kind: 'file',
    source: { kind: 'base64', mediaType, data: 'aWs=' },
    filename,
    cache: undefined,
  })

  test('of one role in a row is one turn, and blank text is left out', () => {
    const { body } = lower({ messages: [user('a'), user(' '), user('b'), assistant(''), assistant('c ')] })
    expect(body.messages).toEqual([
      { role: 'user', content: [{ text: 'a' }, { text: 'b' }] },
      { role: 'assistant', content: [{ text: 'c' }] },
    ])
  })

  test('names documents so that Bedrock takes them, each its own way', () => {
    const { body } = lower({
      messages: [
        {
          role: 'user',
          content: [file('a_b  c.pdf'), file('a.b.c.pdf'), file('a b c.PDF'), file('', 'text/x-python')],
        },
      ],
    })
    const [{ content }] = body.messages as [{ content: { document?: JsonObject; text?: string }[] }]
    expect(content[0]).toEqual({ text: 'See the document.' })
    expect(content.slice(1).map((block) => [block.document!.name, block.document!.format])).toEqual([
      ['a b c', 'pdf'],
      ['a b c (2)', 'pdf'],
      ['a b c (3)', 'pdf'],
      ['document', 'txt'],
    ])
  })

  test('has cache marks as points after their blocks, where the model knows them', () => {
    const marked: Message = { role: 'user', content: [{ kind: 'text', text: 'a', cache: { ttl: '1h' } }] }
    const head: Message = { role: 'system', content: [{ kind: 'text', text: 's', cache: { ttl: '5m' } }] }
    const request = { messages: [head, marked], tools: [{ ...tool, cache: { ttl: '5m' } as const }] }
    const { body } = lower(request)
    expect(body.messages).toEqual([
      { role: 'user', content: [{ text: 'a' }, { cachePoint: { type: 'default', ttl: '1h' } }] },
    ])
    expect(body.system).toEqual([{ text: 's' }, { cachePoint: { type: 'default' } }])
    expect((body.toolConfig as { tools: JsonObject[] }).tools[1]).toEqual({ cachePoint: { type: 'default' } })
    expect(JSON.stringify(lower(request, { model: 'meta.llama3-2-1b-instruct-v1:0' }).body)).not.toContain(
      'cachePoint',
    )
  })

  test('that Bedrock cannot take is refused by name', () => {
    const audio: ContentPart = { kind: 'audio', format: 'wav', data: '' }
    for (const part of [audio, file('a.zip', 'application/zip')]) {
      expect(() => lower({ messages: [{ role: 'user', content: [part] }] })).toThrow(
        expect.objectContaining({ code: 'unsupported_parameter' }),
      )
    }
  })

  test('that the assistant says first follows something of the user', () => {
    const { body, warnings } = lower({ messages: [system('Go'), assistant('Hello!'), user('Hi')] })
    expect(body.messages).toEqual([
      { role: 'user', content: [{ text: '.' }] },
      { role: 'assistant', content: [{ text: 'Hello!' }] },
      { role: 'user', content: [{ text: 'Hi' }] },
    ])
    expect(warnings.map((each) => each.param)).toEqual(['messages'])
  })

  test('that is nothing at all is refused', () => {
    expect(() => lower({ messages: [system(''), user(' ')] })).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })

  test('of the system alone is said by the user', () => {
    expect(lower({ messages: [system('Go')] }).body).toMatchObject({
      messages: [{ role: 'user', content: [{ text: 'Go' }] }],
    })
  })
})

describe('parameters', () => {
  test.each([
    [{ sampling: { seed: 1 } }, nova, 'seed'],
    [{ sampling: { temperature: 2 } }, nova, 'temperature'],
    [{ sampling: { topK: 5 } }, { model: 'meta.llama3-2-1b-instruct-v1:0' }, 'top_k'],
    [{ sampling: { temperature: 0.5, topP: 0.5 } }, {}, 'top_p'],
    [{ reasoning: { effort: 'high' } }, nova, 'reasoning'],
    [{ labels: { serviceTier: 'flex' } }, nova, 'service_tier'],
    [{ rest: { unheard_of: 1 } }, nova, 'unheard_of'],
    [{ parallelToolCalls: false, tools: [tool] }, nova, 'parallel_tool_calls'],
  ] as const)('%j for %j is changed or dropped with a warning', (request, changes, param) => {
    expect(lower(request as Partial<ChatRequest>, changes).warnings.map((each) => each.param)).toEqual([
      param,
    ])
  })

  test.each([undefined, { effort: 'high' }] as const)(
    'no more is asked for than the model writes (%j)',
    (reasoning) => {
      const { body, warnings } = lower({ maxOutputTokens: 100_000, reasoning }, { maxOutputTokens: 8192 })
      expect(body.inferenceConfig).toEqual({ maxTokens: 8192 })
      expect(warnings.map((each) => each.param)).toEqual(['max_tokens'])
      const { thinking } = (body.additionalModelRequestFields ?? {}) as {
        thinking?: { budget_tokens: number }
      }
      expect(thinking?.budget_tokens ?? 0).toBeLessThan(8192)
    },
  )

  test.each([[{ n: 2 }], [{ logprobs: true }], [{ topLogprobs: 2 }]])('%j is refused', (sampling) => {
    expect(() => lower({ sampling })).toThrow(expect.objectContaining({ code: 'unsupported_parameter' }))
  })

  test('a shape of the answer without a word for it is a tool, whose arguments are the answer', () => {
    const { body } = lower({ responseFormat: { kind: 'json-object' } }, nova)
    const { tools, toolChoice } = body.toolConfig as {
      tools: { toolSpec: { name: string } }[]
      toolChoice: JsonObject
    }
    const { name } = tools[0]!.toolSpec
    expect(toolChoice).toEqual({ tool: { name } })
    const answer = {
      output: { message: { content: [{ toolUse: { toolUseId: 't', name, input: { a: 1 } } }] } },
      stopReason: 'tool_use',
    }
    expect(collect(outbound.whole(answer, target(nova))).choices[0]).toMatchObject({
      text: '{"a":1}',
      finish: 'stop',
      toolCalls: [],
    })
  })
})

// Not recordings: statuses and exceptions as Amazon documents them.
describe('documented faults', () => {
  test.each([
    [
      400,
      'ValidationException',
      'Input Tokens Exceeded: Number of input tokens exceeds maximum length.',
      'context-length',
    ],
    [
      400,
      'ValidationException',
      'input length and `max_tokens` exceed context limit: 1 + 2 > 2',
      'context-length',
    ],
    [400, 'ValidationException', 'Output blocked by content filtering policy', 'content-filter'],
    [400, 'ValidationException', 'Malformed input request', 'invalid-request'],
    [400, 'ServiceQuotaExceededException', 'quota', 'quota'],
    [403, 'AccessDeniedException', "You don't have access to the model", 'credentials'],
    [403, 'ExpiredTokenException', 'The security token included in the request is expired', 'credentials'],
    [404, 'ResourceNotFoundException', 'Could not resolve the model', 'not-found'],
    [408, 'ModelTimeoutException', 'slow', 'timeout'],
    [424, 'ModelErrorException', 'The model failed', 'broken'],
    [429, 'ThrottlingException', 'Too many requests', 'rate-limited'],
    [429, 'ModelNotReadyException', 'warming up', 'overloaded'],
    [500, 'InternalServerException', 'oops', 'broken'],
    [503, 'ServiceUnavailableException', 'busy', 'overloaded'],
  ] as const)('%p %s (%s) is %s, as a status and in a stream', (status, type, message, kind) => {
    const body = JSON.stringify({ message })
    const headers = new Headers({ 'x-amzn-errortype': `${type}:http://internal/` })
    expect(outbound.fault(status, headers, body, target())).toMatchObject({
      kind,
      status,
      providerCode: type,
      message,
    })
    const inStream = type[0]!.toLowerCase() + type.slice(1)
    const events = parseFrames(outbound.parser(target()), [
      { event: 'messageStart', data: '{"role":"assistant"}' },
      { event: exceptionPrefix + inStream, data: body },
      { event: 'metadata', data: '{}' },
    ])
    assertWellFormed(events)
    expect(collect(events).fault).toMatchObject({ kind, message })
  })

  test.each([[null], ['x'], [{}], [{ output: { message: { content: [] } } }]])(
    'the answer %j is broken',
    (body) => {
      expect(collect(outbound.whole(body, target())).fault?.kind).toBe('broken')
    },
  )

  test.each([
    ['refusal', 'content_filter'],
    ['content_filtered', 'content_filter'],
    ['model_context_window_exceeded', 'length'],
    ['something_new', 'other'],
  ])('an answer that ends with %s is %s', (stopReason, finish) => {
    const body = { output: { message: { content: [{ text: 'x' }] } }, stopReason }
    expect(collect(outbound.whole(body, target())).choices).toMatchObject([{ text: 'x', finish }])
  })

  test('Claude is asked which stop sequence ended its answer, where there are any', () => {
    const pathsOf = (request: Partial<ChatRequest>, changes = {}) =>
      lower(request, changes).body['additionalModelResponseFieldPaths']
    const sampling = { stop: ['END'] }
    expect(pathsOf({ sampling })).toEqual(['/stop_sequence'])
    expect(pathsOf({})).toBeUndefined()
    expect(pathsOf({ sampling: { stop: [' '] } })).toBeUndefined()
    expect(pathsOf({ sampling }, nova)).toBeUndefined()
    const rest = { additionalModelResponseFieldPaths: ['/model', '/stop_sequence'] }
    expect(pathsOf({ sampling, rest })).toEqual(['/model', '/stop_sequence'])
    expect(pathsOf({ rest }, nova)).toEqual(['/model', '/stop_sequence'])
  })

  test.each<[string, JsonObject | null, string | undefined]>([
    ['stop_sequence', { stop_sequence: 'END' }, 'END'],
    ['stop_sequence', { stop_sequence: null }, undefined],
    ['stop_sequence', null, undefined],
    ['end_turn', { stop_sequence: 'END' }, undefined],
  ])('%s with %p names the stop sequence %p', (stopReason, additionalModelResponseFields, stopSequence) => {
    const usage = { inputTokens: 1, outputTokens: 1 }
    const whole = {
      output: { message: { content: [{ text: 'x' }] } },
      stopReason,
      additionalModelResponseFields,
      usage,
    }
    const streamed: [string, JsonObject][] = [
      ['messageStart', { role: 'assistant' }],
      ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'x' } }],
      ['contentBlockStop', { contentBlockIndex: 0 }],
      ['messageStop', { stopReason, additionalModelResponseFields }],
      ['metadata', { usage }],
    ]
    const frames = streamed.map(([event, data]) => ({ event, data: JSON.stringify(data) }))
    for (const events of [outbound.whole(whole, target()), parseFrames(outbound.parser(target()), frames)])
      expect(collect(events).choices[0]!.stopSequence).toBe(stopSequence)
  })

  test('an answer that the model spoilt is an error, not a stop', () => {
    const body = { output: { message: { content: [{ text: 'x' }] } }, stopReason: 'malformed_tool_use' }
    expect(collect(outbound.whole(body, target())).fault).toMatchObject({
      kind: 'unusable-output',
      providerCode: 'malformed_tool_use',
    })
  })
})
