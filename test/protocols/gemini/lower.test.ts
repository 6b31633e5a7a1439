// A request as Gemini wants it: turns, tools, settings, media, and what is named because it is dropped.

import { describe, expect, test } from 'bun:test'
import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  JsonObject,
  Message,
} from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { outbound } from '../../../src/protocols/gemini/outbound/outbound.ts'
import type { GeminiQuirks } from '../../../src/protocols/gemini/outbound/quirks.ts'
import { collect } from '../../../src/conversation/event.ts'
import { textPart } from '../../support/conversation.ts'
import { parseFrames } from '../../support/recordings.ts'
import { requestOf, targetOf } from './support.ts'

const lower = (
  more: Partial<ChatRequest>,
  model = 'gemini-3-flash-preview',
  quirks: Partial<GeminiQuirks> = {},
) => outbound.lower(requestOf(more), targetOf(model, quirks))
const configOf = (more: Partial<ChatRequest>, model?: string) =>
  lower(more, model).body['generationConfig'] as JsonObject | undefined
const contentsOf = (messages: readonly Message[], model?: string) =>
  lower({ messages }, model).body['contents'] as { role: string; parts: JsonObject[] }[]
const user = (...content: ContentPart[]): Message => ({ role: 'user', content })
const call = (id: string, name: string, args = '{}') => ({
  id,
  name,
  arguments: args,
  thoughtSignature: 'sig',
})
const result = (toolCallId: string, text: string, isError = false): Message => ({
  role: 'tool',
  toolCallId,
  content: [textPart(text)],
  isError,
})
const assistant = (text: string, ...toolCalls: ReturnType<typeof call>[]): Message => ({
  role: 'assistant',
  content: text === '' ? [] : [textPart(text)],
  reasoning: [],
  toolCalls,
})
const refusalOf = (act: () => unknown): GatewayError => {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('path', () => {
  test.each([
    [false, 'gemini-2.5-flash', '/models/gemini-2.5-flash:generateContent'],
    [true, 'gemini-2.5-flash', '/models/gemini-2.5-flash:streamGenerateContent?alt=sse'],
    [false, 'models/gemini-2.5-flash', '/models/gemini-2.5-flash:generateContent'],
    [false, '../secret?x', '/models/..%2Fsecret%3Fx:generateContent'],
  ])('stream %p of %s is %s', (stream, model, path) => {
    expect(lower({ stream }, model).path).toBe(path)
  })
})

describe('turns', () => {
  test('instructions of every place and both roles are hoisted', () => {
    const { body } = lower({
      messages: [
        { role: 'system', content: [textPart('a')] },
        user(textPart('hi')),
        { role: 'developer', content: [textPart('b')] },
      ],
    })
    expect(body['systemInstruction']).toEqual({ parts: [{ text: 'a' }, { text: 'b' }] })
    expect(body['contents']).toEqual([{ role: 'user', parts: [{ text: 'hi' }] }])
  })

  test('instructions alone become the question', () => {
    const { body } = lower({ messages: [{ role: 'system', content: [textPart('a')] }] })
    expect(body).toEqual({ contents: [{ role: 'user', parts: [{ text: 'a' }] }] })
  })

  test('results go back by name, in the order of the calls, in one user turn', () => {
    const contents = contentsOf([
      user(textPart('?')),
      assistant('let me see', call('1', 'f', '{"x":1}'), call('2', 'g')),
      result('2', 'two'),
      result('1', '{"n":1}'),
      user(textPart('and?')),
    ])
    expect(contents).toEqual([
      { role: 'user', parts: [{ text: '?' }] },
      {
        role: 'model',
        parts: [
          { text: 'let me see' },
          { functionCall: { id: '1', name: 'f', args: { x: 1 } }, thoughtSignature: 'sig' },
          { functionCall: { id: '2', name: 'g', args: {} }, thoughtSignature: 'sig' },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: '1', name: 'f', response: { n: 1 } } },
          { functionResponse: { id: '2', name: 'g', response: { result: 'two' } } },
        ],
      },
      { role: 'user', parts: [{ text: 'and?' }] },
    ])
  })

  test('older models get no ids, and errors say that they are', () => {
    const [, model, results] = contentsOf(
      [user(), assistant('', call('1', 'f')), result('1', 'no', true)],
      'gemini-2.5-flash',
    ).slice(-3)
    expect([model, results].filter((turn) => turn !== undefined).at(-1)?.parts).toEqual([
      { functionResponse: { name: 'f', response: { error: 'no' } } },
    ])
  })

  test('a call without a result gets one that says so; the last message may be unanswered', () => {
    const calling = assistant('', call('1', 'f'), call('2', 'g'))
    const answered = contentsOf([user(textPart('?')), calling, result('1', 'a')])[2]!
    expect(answered.parts[1]).toEqual({
      functionResponse: { id: '2', name: 'g', response: { error: 'No result was given for this call.' } },
    })
    expect(contentsOf([user(textPart('?')), calling])).toHaveLength(2)
  })

  test('ids that come again in each turn meet the call right before them', () => {
    const contents = contentsOf([
      user(textPart('?')),
      assistant('', call('call_0', 'f')),
      result('call_0', 'one'),
      assistant('', call('call_0', 'g')),
      result('call_0', 'two'),
    ])
    expect(contents.at(-1)!.parts[0]).toEqual({
      functionResponse: { id: 'call_0', name: 'g', response: { result: 'two' } },
    })
  })

  test.each(['$ref', '$defs', '$schema', 'ref'])(
    'a result with a member %s is text: Gemini would follow it',
    (member) => {
      const json = JSON.stringify({ schema: { items: [{ [member]: '#/a' }] } })
      const contents = contentsOf([user(textPart('?')), assistant('', call('1', 'f')), result('1', json)])
      expect(contents.at(-1)!.parts).toEqual([
        { functionResponse: { id: '1', name: 'f', response: { result: json } } },
      ])
    },
  )

  test('two messages of the model are one turn', () => {
    const contents = contentsOf([
      user(textPart('?')),
      assistant('a'),
      assistant('', call('1', 'f')),
      result('1', 'x'),
    ])
    expect(contents.map((turn) => turn.role)).toEqual(['user', 'model', 'user'])
  })

  test('an image in a result stays in it where the model can take it, and follows it elsewhere', () => {
    const image: ContentPart = {
      kind: 'image',
      source: { kind: 'base64', mediaType: 'image/png', data: 'AA==' },
      detail: undefined,
      cache: undefined,
    }
    const messages: Message[] = [
      user(textPart('?')),
      assistant('', call('1', 'f')),
      { role: 'tool', toolCallId: '1', content: [image], isError: false },
    ]
    const inline = { inlineData: { mimeType: 'image/png', data: 'AA==' } }
    expect(contentsOf(messages).at(-1)!.parts).toEqual([
      { functionResponse: { id: '1', name: 'f', response: { result: '' }, parts: [inline] } },
    ])
    expect(
      contentsOf(messages, 'gemini-2.5-pro')
        .slice(-2)
        .map((turn) => turn.parts),
    ).toEqual([[{ functionResponse: { name: 'f', response: { result: '' } } }], [inline]])
  })

  test.each<[string, Message[], string]>([
    ['a result without a call', [user(textPart('?')), result('9', 'x')], 'messages[1].tool_call_id'],
    [
      'a result for another call',
      [user(textPart('?')), assistant('', call('1', 'f')), result('9', 'x')],
      'messages[2].tool_call_id',
    ],
    ['nothing at all', [user(textPart('')), user()], 'messages'],
  ])('%s is a mistake of the request', (_, messages, param) => {
    const error = refusalOf(() => lower({ messages }))
    expect([error.code, error.details.param]).toEqual(['invalid_request', param])
  })
})

test.each(['[1]', '{"a', '7'])('the arguments %s are shown to the model as they are', (args) => {
  const messages = [user(textPart('?')), assistant('', call('1', 'f', args))]
  const { body, warnings } = lower({ messages })
  expect((body['contents'] as { parts: JsonObject[] }[])[1]!.parts[0]).toMatchObject({
    functionCall: { name: 'f', args: { invalid_arguments: args } },
  })
  expect(warnings.map(({ param }) => param)).toEqual(['messages[1].tool_calls[0].function.arguments'])
})

test('empty text beside an image is left out', () => {
  const image: ContentPart = {
    kind: 'image',
    source: { kind: 'base64', mediaType: 'image/jpg', data: 'AA==' },
    detail: undefined,
    cache: undefined,
  }
  expect(contentsOf([user(textPart(''), image)])).toEqual([
    { role: 'user', parts: [{ inlineData: { mimeType: 'image/jpeg', data: 'AA==' } }] },
  ])
})

describe('media', () => {
  const url = (address: string): ContentPart => ({ kind: 'video', source: { kind: 'url', url: address } })
  test.each<[string, ContentPart, JsonObject]>([
    [
      'bytes',
      {
        kind: 'file',
        source: { kind: 'base64', mediaType: 'application/pdf', data: 'AA==' },
        filename: 'a.pdf',
        cache: undefined,
      },
      { inlineData: { mimeType: 'application/pdf', data: 'AA==' } },
    ],
    [
      'speech',
      { kind: 'audio', format: 'wav', data: 'AA==' },
      { inlineData: { mimeType: 'audio/wav', data: 'AA==' } },
    ],
    [
      'YouTube',
      url('https://youtu.be/lCdaVNyHtjU'),
      { fileData: { mimeType: 'video/mp4', fileUri: 'https://youtu.be/lCdaVNyHtjU' } },
    ],
    [
      'storage',
      url('gs://bucket/a.webm'),
      { fileData: { mimeType: 'video/webm', fileUri: 'gs://bucket/a.webm' } },
    ],
    [
      'an uploaded file',
      {
        kind: 'file',
        source: { kind: 'provider-file', id: 'files/abc' },
        filename: undefined,
        cache: undefined,
      },
      { fileData: { fileUri: 'https://generativelanguage.googleapis.com/v1beta/files/abc' } },
    ],
  ])('%s', (_, part, expected) => {
    expect(contentsOf([user(part)])[0]!.parts).toEqual([expected])
  })

  test('an address that Google does not read must have been inlined', () => {
    const messages = [user(url('https://example.com/a.mp4'))]
    const error = refusalOf(() => lower({ messages }))
    expect([error.code, error.details.param]).toEqual(['unsupported_parameter', 'messages[0]'])
    expect(lower({ messages }, undefined, { readsUrls: 'any' }).body['contents']).toEqual([
      {
        role: 'user',
        parts: [{ fileData: { mimeType: 'video/mp4', fileUri: 'https://example.com/a.mp4' } }],
      },
    ])
  })

  test.each([
    ['https://www.youtube.com/watch?v=a', true],
    ['gs://b/o', true],
    ['https://youtube.com.evil.example/watch?v=a', false],
    ['https://example.com/?https://youtu.be/x', false],
  ])('%s is read by Google: %p', (address, reads) => {
    expect(outbound.readsUrl!(address, targetOf('gemini-2.5-pro'))).toBe(reads)
  })
})

describe('tools', () => {
  const tool = (name: string, more: Partial<FunctionTool> = {}): FunctionTool => ({
    name,
    description: undefined,
    parameters: { type: 'object', properties: {}, additionalProperties: false },
    strict: undefined,
    cache: undefined,
    ...more,
  })
  const tools = [tool('f'), tool('g')]

  test.each<[ChatRequest['toolChoice'], JsonObject | undefined]>([
    [undefined, undefined],
    [{ kind: 'auto' }, undefined],
    [{ kind: 'none' }, { mode: 'NONE' }],
    [{ kind: 'required' }, { mode: 'ANY' }],
    [
      { kind: 'function', name: 'f' },
      { mode: 'ANY', allowedFunctionNames: ['f'] },
    ],
    [
      { kind: 'allowed', mode: 'required', names: ['g'] },
      { mode: 'ANY', allowedFunctionNames: ['g'] },
    ],
  ])('choice %j', (toolChoice, mode) => {
    const { body } = lower({ tools, toolChoice })
    expect(body['toolConfig']).toEqual(mode === undefined ? undefined : { functionCallingConfig: mode })
  })

  test('where the model may choose among some, only those are declared', () => {
    const { body } = lower({ tools, toolChoice: { kind: 'allowed', mode: 'auto', names: ['g'] } })
    expect(body['tools']).toEqual([
      { functionDeclarations: [{ name: 'g', parametersJsonSchema: tools[0]!.parameters! }] },
    ])
  })

  test('older models get the subset, and are told what it cannot say', () => {
    const parameters = { type: 'object', properties: { a: { type: ['string', 'null'], not: {} } } }
    const { body, warnings } = lower({ tools: [tool('f', { parameters })] }, 'gemini-2.0-flash')
    expect(body['tools']).toEqual([
      {
        functionDeclarations: [
          {
            name: 'f',
            parameters: { type: 'object', properties: { a: { type: 'string', nullable: true } } },
          },
        ],
      },
    ])
    expect(warnings.map((warning) => warning.param)).toEqual(['tools.f.parameters'])
  })

  test('have names that are allowed, the same everywhere, and get their own back', () => {
    const odd = ['3d_model', 'get weather', 'get_weather', `${'x'.repeat(64)}y`, 'a.b:c-d']
    const lowered = lower({
      messages: [
        user(textPart('?')),
        assistant('', ...odd.map((name, at) => call(`c${at}`, name))),
        ...odd.map((_, at) => result(`c${at}`, 'ok')),
      ],
      tools: odd.map((name) => tool(name)),
      toolChoice: { kind: 'function', name: '3d_model' },
    })
    const { body } = lowered as unknown as {
      body: {
        tools: [{ functionDeclarations: { name: string }[] }]
        contents: { parts: { functionCall?: { name: string }; functionResponse?: { name: string } }[] }[]
        toolConfig: JsonObject
      }
    }
    const declared = body.tools[0].functionDeclarations.map(({ name }) => name)
    expect(declared).toEqual([
      '_3d_model_5fe9ded7',
      'get_weather_dce3870e',
      'get_weather',
      `${'x'.repeat(55)}_96a61e9b`,
      'a.b:c-d',
    ])
    expect(body.contents[1]!.parts.map(({ functionCall }) => functionCall!.name)).toEqual(declared)
    expect(body.contents[2]!.parts.map(({ functionResponse }) => functionResponse!.name)).toEqual(declared)
    expect(body.toolConfig).toMatchObject({
      functionCallingConfig: { allowedFunctionNames: ['_3d_model_5fe9ded7'] },
    })

    const target = { ...targetOf('gemini-3-flash-preview'), toolNames: lowered.toolNames! }
    const parts = declared.map((name) => ({ functionCall: { name, args: {} } }))
    const answer = { candidates: [{ content: { parts }, finishReason: 'STOP' }] }
    const streamed = parseFrames(outbound.parser(target), [
      { event: undefined, data: JSON.stringify(answer) },
    ])
    for (const events of [outbound.whole(answer, target), streamed]) {
      expect(collect(events).choices[0]!.toolCalls.map(({ name }) => name)).toEqual(odd)
    }
  })

  test.each([
    ['gemini-2.0-flash', {}],
    ['gemini-2.0-flash', { type: 'object', properties: {} }],
    ['gemini-2.5-flash', {}],
  ] as const)('a function of %s that takes %j has no parameters', (model, parameters) => {
    const { body } = lower({ tools: [tool('f', { parameters })] }, model)
    expect(body['tools']).toEqual([{ functionDeclarations: [{ name: 'f' }] }])
  })

  describe('beside a format of the answer', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const request = {
      messages: [{ role: 'system', content: [textPart('Be kind.')] } as const, user(textPart('Hi'))],
      tools,
      responseFormat: { kind: 'json-schema', name: 'x', description: undefined, schema, strict: true },
    } as const

    test('are refused by older models, so the format is told in words', () => {
      const { body, warnings } = lower(request, 'gemini-2.5-flash')
      expect(body).not.toHaveProperty('generationConfig')
      expect(body).toHaveProperty('tools')
      const { parts } = body['systemInstruction'] as { parts: { text: string }[] }
      expect(parts[0]!.text).toBe('Be kind.')
      expect(parts[1]!.text).toEndWith(`It must fit this JSON Schema:\n${JSON.stringify(schema)}`)
      expect(warnings.map(({ param }) => param)).toEqual(['response_format'])
    })

    test('are left out where none may be called', () => {
      const { body, warnings } = lower({ ...request, toolChoice: { kind: 'none' } }, 'gemini-2.5-flash')
      expect(body).not.toContainAnyKeys(['tools', 'toolConfig'])
      expect(body['generationConfig']).toMatchObject({ responseJsonSchema: schema })
      expect(warnings).toEqual([])
    })

    test('are both sent to newer ones', () => {
      const { body } = lower(request, 'gemini-3-flash-preview')
      expect(body).toContainAllKeys(['contents', 'systemInstruction', 'tools', 'generationConfig'])
    })
  })

  test('a function that takes nothing has no parameters', () => {
    const { body } = lower({ tools: [tool('f', { parameters: undefined, description: 'does' })] })
    expect(body['tools']).toEqual([{ functionDeclarations: [{ name: 'f', description: 'does' }] }])
  })
})

describe('settings', () => {
  test('every setting Gemini has is sent under its name', () => {
    const sampling = {
      temperature: 0,
      topP: 0.9,
      topK: 40,
      seed: 7,
      stop: ['a', 'b'],
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      logprobs: true,
      topLogprobs: 5,
      n: 2,
    }
    expect(configOf({ sampling, maxOutputTokens: 50 })).toEqual({
      temperature: 0,
      topP: 0.9,
      topK: 40,
      seed: 7,
      stopSequences: ['a', 'b'],
      maxOutputTokens: 50,
      candidateCount: 2,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      responseLogprobs: true,
      logprobs: 5,
    })
    expect(lower({ sampling }).warnings).toEqual([])
  })

  test('no more is asked for than the model writes', () => {
    const target = { ...targetOf('gemini-2.5-flash'), maxOutputTokens: 8192 }
    const { body, warnings } = outbound.lower(requestOf({ maxOutputTokens: 100_000 }), target)
    expect(body['generationConfig']).toEqual({ maxOutputTokens: 8192 })
    expect(warnings.map(({ param }) => param)).toEqual(['max_tokens'])
  })

  test('nothing asked is nothing sent', () => {
    expect(lower({}).body).toEqual({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] })
  })

  test('a schema is JSON Schema for newer models and the subset for older ones', () => {
    const schema = { type: 'object', properties: { a: { const: 'x' } }, additionalProperties: false }
    const responseFormat = {
      kind: 'json-schema',
      name: 'a',
      description: undefined,
      schema,
      strict: true,
    } as const
    expect(configOf({ responseFormat }, 'gemini-2.5-flash')).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    })
    expect(configOf({ responseFormat }, 'gemini-1.5-pro')).toEqual({
      responseMimeType: 'application/json',
      responseSchema: { type: 'object', properties: { a: { type: 'string', enum: ['x'] } } },
    })
    for (const anyJson of [{ kind: 'json-object' }, { ...responseFormat, schema: {} }] as const) {
      expect(configOf({ responseFormat: anyJson })).toEqual({ responseMimeType: 'application/json' })
    }
  })

  test('who asks for alternatives to each token asks for the tokens', () => {
    expect(configOf({ sampling: { topLogprobs: 3 } })).toEqual({ responseLogprobs: true, logprobs: 3 })
    expect(configOf({ sampling: { topLogprobs: 3, logprobs: false } })).toBeUndefined()
  })

  test('what the answer is made of can be chosen', () => {
    const rest = { modalities: ['text', 'audio'], audio: { voice: 'Kore', format: 'wav' } }
    expect(configOf({ rest })).toEqual({
      responseModalities: ['TEXT', 'AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    })
  })

  test.each<[Partial<ChatRequest>, string[]]>([
    [
      { sampling: { minP: 0.1, repetitionPenalty: 1.1, logitBias: { '1': 2 } } },
      ['min_p', 'repetition_penalty', 'logit_bias'],
    ],
    [{ sampling: { stop: ['1', '2', '3', '4', '5', '6'] } }, ['stop']],
    [{ sampling: { stop: [''] } }, ['stop']],
    [{ messages: [{ role: 'user', name: 'Bo', content: [textPart('Hi')] }] }, ['messages[0].name']],
    [
      { labels: { verbosity: 'low', store: true, serviceTier: 'flex' } },
      ['service_tier', 'verbosity', 'store'],
    ],
    [
      { labels: { user: 'u', safetyIdentifier: 's', promptCacheKey: 'k', serviceTier: 'auto' } },
      ['user', 'safety_identifier', 'prompt_cache_key'],
    ],
    [{ rest: { prediction: {}, modalities: ['text'] } }, ['prediction']],
    [{ rest: { audio: { voice: 'Kore', format: 'wav' } } }, ['audio.format']],
  ])('%j: what is dropped is named: %j', (more, params) => {
    expect(lower(more).warnings.map((warning) => warning.param)).toEqual(params)
  })
})

describe('thinking', () => {
  test.each<[ChatRequest['reasoning'], string, JsonObject | undefined, number]>([
    // reasoning                     model                       thinkingConfig                                warnings
    [undefined, 'gemini-3-pro-preview', undefined, 0],
    [{ effort: 'low' }, 'gemini-3-pro-preview', { includeThoughts: true, thinkingLevel: 'low' }, 0],
    [{ effort: 'medium' }, 'gemini-3-pro-preview', { includeThoughts: true, thinkingLevel: 'high' }, 0],
    [{ effort: 'medium' }, 'gemini-3.1-pro-preview', { includeThoughts: true, thinkingLevel: 'medium' }, 0],
    [{ effort: 'minimal' }, 'gemini-3-flash-preview', { includeThoughts: true, thinkingLevel: 'minimal' }, 0],
    [{ effort: 'max', exclude: true }, 'gemini-flash-latest', { thinkingLevel: 'high' }, 0],
    [{ effort: 'none' }, 'gemini-3-pro-preview', { thinkingLevel: 'low' }, 1],
    [{ maxTokens: 2000 }, 'gemini-3-pro-preview', { includeThoughts: true, thinkingBudget: 2000 }, 0],
    [{ enabled: true }, 'gemini-3-pro-preview', { includeThoughts: true }, 0],
    [{ enabled: true }, 'gemini-2.5-flash-lite', { includeThoughts: true, thinkingBudget: -1 }, 0],
    [{ effort: 'medium' }, 'gemini-2.5-flash', { includeThoughts: true, thinkingBudget: 8192 }, 0],
    [{ effort: 'max' }, 'gemini-2.5-flash', { includeThoughts: true, thinkingBudget: 24_576 }, 0],
    [{ maxTokens: 10 }, 'gemini-2.5-pro', { includeThoughts: true, thinkingBudget: 128 }, 0],
    [{ maxTokens: 10 }, 'gemini-2.5-flash', { includeThoughts: true, thinkingBudget: 10 }, 0],
    [{ maxTokens: 10 }, 'gemini-2.5-flash-lite', { includeThoughts: true, thinkingBudget: 512 }, 0],
    [{ effort: 'none' }, 'gemini-2.5-flash-lite', { thinkingBudget: 0 }, 0],
    [{ enabled: false }, 'gemini-2.5-flash', { thinkingBudget: 0 }, 0],
    [{ enabled: false }, 'gemini-2.5-pro', { thinkingBudget: 128 }, 1],
    [{ effort: 'high' }, 'gemini-2.0-flash', undefined, 1],
    [{ effort: 'none' }, 'gemini-2.0-flash', undefined, 0],
  ])('%j on %s', (reasoning, model, thinkingConfig, warnings) => {
    expect(configOf({ reasoning }, model)?.['thinkingConfig']).toEqual(thinkingConfig)
    expect(lower({ reasoning }, model).warnings).toHaveLength(warnings)
  })

  test.each([
    ['high', 4000, 'gemini-2.5-flash', 3200],
    ['low', 4000, 'gemini-2.5-flash', 1024],
    ['high', 100, 'gemini-2.5-pro', 128],
    ['none', 100, 'gemini-2.5-flash', 0],
  ] as const)(
    'effort %s within %p tokens of %s leaves room for the answer',
    (effort, most, model, budget) => {
      const config = configOf({ reasoning: { effort }, maxOutputTokens: most }, model)
      expect(config?.['thinkingConfig']).toMatchObject({ thinkingBudget: budget })
    },
  )

  test('a model that the catalog says does not reason is not asked to', () => {
    const target = { ...targetOf('gemini-2.5-flash-image'), reasoning: false }
    const { body, warnings } = outbound.lower(requestOf({ reasoning: { effort: 'high' } }), target)
    expect(body['generationConfig']).toBeUndefined()
    expect(warnings.map((warning) => warning.param)).toEqual(['reasoning'])
  })
})
