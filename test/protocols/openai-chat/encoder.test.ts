import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatCompletion } from 'openai/resources/chat/completions'
import { type ChatEvent, type ChatResult, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError, renderError } from '../../../src/errors/errors.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { chatCompletion } from '../../../src/protocols/openai-chat/inbound/schema.ts'
import type { AnswerContext } from '../../../src/protocols/protocol.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { parseFrames } from '../../support/recordings.ts'
import { targetOf } from './dialects.ts'
import { bill, context, expectContract, readByOpenAI, usage } from './wire-contract.ts'

function encode(events: readonly ChatEvent[], over: AnswerContext = context): Frame[] {
  const encoder = inbound.encoder(over)
  const frames = [...encoder.start()]
  for (const event of events) {
    if (event.kind !== 'usage' && event.kind !== 'finish') frames.push(...encoder.event(event))
  }
  return [...frames, ...encoder.finish(usage, bill)]
}

const deltasOf = (frames: readonly Frame[]): JsonObject[] =>
  frames
    .filter((frame) => frame.data !== '[DONE]')
    .flatMap((frame) => JSON.parse(frame.data).choices.map((choice: { delta: JsonObject }) => choice.delta))

const text = (value: string, choice = 0): ChatEvent => ({ kind: 'text-delta', choice, text: value })
const stop = (choice = 0): ChatEvent => ({ kind: 'choice-finish', choice, reason: 'stop', native: 'stop' })
const call = (number: number, id: string, name: string): ChatEvent => ({
  kind: 'tool-call-start',
  choice: 0,
  call: number,
  id,
  name,
  thoughtSignature: undefined,
})
const args = (number: number, json: string): ChatEvent => ({
  kind: 'tool-call-delta',
  choice: 0,
  call: number,
  arguments: json,
})

// ---- random answers ---------------------------------------------------------------------------------------

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const texts = (choice: number) =>
  fc.array(
    words.map((value) => text(value, choice)),
    { minLength: 1, maxLength: 5 },
  )
const reasoning = (choice: number) =>
  fc.array(
    words.map((value): ChatEvent => ({
      kind: 'reasoning-delta',
      choice,
      detail: { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0, text: value },
    })),
    { maxLength: 3 },
  )
const calls = (choice: number) =>
  fc
    .array(fc.tuple(fc.stringMatching(/^[a-z_]{1,12}$/), fc.option(fc.jsonValue())), { maxLength: 3 })
    .map((made) =>
      made.flatMap(([name, value], index): ChatEvent[] => [
        {
          kind: 'tool-call-start',
          choice,
          call: index,
          id: `call_${choice}_${index}`,
          name,
          thoughtSignature: undefined,
        },
        ...(value === null
          ? []
          : [...splitInTwo(JSON.stringify({ value }))].map((piece): ChatEvent => ({
              kind: 'tool-call-delta',
              choice,
              call: index,
              arguments: piece,
            }))),
      ]),
    )

function splitInTwo(json: string): string[] {
  const middle = Math.floor(json.length / 2)
  return [json.slice(0, middle), json.slice(middle)]
}

const answer = (choice: number) =>
  fc.tuple(reasoning(choice), texts(choice), calls(choice)).map(([thought, said, called]): ChatEvent[] => [
    ...thought,
    ...said,
    ...called,
    {
      kind: 'choice-finish',
      choice,
      reason: called.length > 0 ? 'tool_calls' : 'stop',
      native: called.length > 0 ? 'tool_calls' : 'stop',
    },
  ])
const answers = fc
  .integer({ min: 1, max: 3 })
  .chain((n) => fc.tuple(...Array.from({ length: n }, (_, choice) => answer(choice))))
  .map((all): ChatEvent[] => [...all.flat(), { kind: 'usage', usage }, { kind: 'finish' }])

const target = targetOf(outbound.defaultQuirks)

const comparable = (result: ChatResult) =>
  result.choices.map(({ text: said, toolCalls, finish, refusal, reasoning: thought }) => ({
    said,
    toolCalls,
    finish,
    refusal,
    thought: thought.map((detail) => detail.text).join(''),
  }))

describe('any streamed answer', () => {
  test('meets the wire contract, with and without the usage', () => {
    fc.assert(
      fc.property(answers, fc.boolean(), (events, includeUsage) => {
        const over = { ...context, includeUsage }
        expectContract(encode(events, over), over)
      }),
      { numRuns: 100 },
    )
  })

  test('says the same again when it is parsed back into events', () => {
    fc.assert(
      fc.property(answers, (events) => {
        const again = collect(parseFrames(outbound.parser(target), encode(events)))
        expect(again.fault).toBeUndefined()
        expect(comparable(again)).toEqual(comparable(collect(events)))
      }),
      { numRuns: 100 },
    )
  })

  test('says to the official client what the whole answer says', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async (events) => {
        const streamed = await readByOpenAI(encode(events))
        const whole = inbound.whole(collect(events), usage, bill, context) as unknown as ChatCompletion
        expect(streamed.choices.map(({ index, finish_reason }) => ({ index, finish_reason }))).toEqual(
          whole.choices.map(({ index, finish_reason }) => ({ index, finish_reason })),
        )
        for (const [i, choice] of streamed.choices.entries()) {
          expect(choice.message.content).toBe(whole.choices[i]!.message.content)
          const made = (choice.message.tool_calls ?? []).map(
            (one) => 'function' in one && [one.id, one.function],
          )
          const meant = (whole.choices[i]!.message.tool_calls ?? []).map(
            (one) => 'function' in one && [one.id, one.function],
          )
          expect(JSON.stringify(made)).toBe(JSON.stringify(meant))
        }
        expect(streamed.usage).toEqual(whole.usage)
      }),
      { numRuns: 40 },
    )
  })
})

describe('a streamed answer', () => {
  test('sends the role first, the text as it comes, then the finish, the usage and the end', () => {
    expect(encode([text('Hel'), text('lo'), stop()]).map((frame) => frame.data)).toEqual([
      '{"id":"gen-1","object":"chat.completion.chunk","created":1786000000,"model":"lab/test-model","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}',
      '{"id":"gen-1","object":"chat.completion.chunk","created":1786000000,"model":"lab/test-model","choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}],"usage":null}',
      '{"id":"gen-1","object":"chat.completion.chunk","created":1786000000,"model":"lab/test-model","choices":[{"index":0,"delta":{"content":"lo"},"logprobs":null,"finish_reason":null}],"usage":null}',
      '{"id":"gen-1","object":"chat.completion.chunk","created":1786000000,"model":"lab/test-model","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}',
      expect.stringContaining(
        '"choices":[],"usage":{"prompt_tokens":127,"completion_tokens":80,"total_tokens":207,',
      ),
      '[DONE]',
    ])
  })

  test('names each call once, gives `{}` to one without arguments, and finishes with tool_calls', () => {
    const events = [call(0, 'a', 'now'), call(1, 'b', 'add'), args(1, '{"x":'), args(1, '1}'), stop()]
    expect(deltasOf(encode(events)).slice(1)).toEqual([
      { tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'now', arguments: '' } }] },
      { tool_calls: [{ index: 1, id: 'b', type: 'function', function: { name: 'add', arguments: '' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '{"x":' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '1}' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
      {},
    ])
    expect(encode(events).at(-3)?.data).toContain('"finish_reason":"tool_calls"')
  })

  test('carries reasoning as text and as details, a signature where the provider made one', () => {
    const events: ChatEvent[] = [
      {
        kind: 'reasoning-delta',
        choice: 0,
        detail: { type: 'reasoning.encrypted', format: 'google-gemini-v1', index: 1, data: 'AAAA' },
      },
      {
        kind: 'reasoning-delta',
        choice: 0,
        detail: { type: 'reasoning.summary', format: 'openai-responses-v1', index: 0, summary: 'Thinking' },
      },
      { kind: 'tool-call-start', choice: 0, call: 0, id: 'c', name: 'f', thoughtSignature: 'sig' },
    ]
    expect(deltasOf(encode(events)).slice(1, 4)).toEqual([
      {
        reasoning_details: [
          { type: 'reasoning.encrypted', format: 'google-gemini-v1', index: 1, data: 'AAAA' },
        ],
      },
      {
        reasoning_content: 'Thinking',
        reasoning_details: [
          { type: 'reasoning.summary', format: 'openai-responses-v1', index: 0, summary: 'Thinking' },
        ],
      },
      {
        tool_calls: [
          {
            index: 0,
            id: 'c',
            type: 'function',
            function: { name: 'f', arguments: '' },
            extra_content: { google: { thought_signature: 'sig' } },
          },
        ],
      },
    ])
  })

  test.each([
    [
      {
        kind: 'annotation',
        choice: 0,
        annotation: { kind: 'url-citation', url: 'u', title: 't', start: 1, end: 2 },
      },
      {
        annotations: [
          { type: 'url_citation', url_citation: { url: 'u', title: 't', start_index: 1, end_index: 2 } },
        ],
      },
    ],
    [{ kind: 'refusal-delta', choice: 0, text: 'No.' }, { refusal: 'No.' }],
    [
      { kind: 'audio-delta', choice: 0, audio: { id: 'a', data: 'AA', expiresAt: 5 } },
      { audio: { id: 'a', data: 'AA', expires_at: 5 } },
    ],
    [
      { kind: 'image', choice: 0, mediaType: 'image/png', data: 'AAAA' },
      { images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    ],
  ] satisfies [ChatEvent, JsonObject][])('%p is the delta %p', (event, delta) => {
    expect(deltasOf(encode([event, stop()]))[1]).toEqual(delta)
  })

  test('puts log probabilities beside the delta', () => {
    const [, chunk] = encode([
      { kind: 'logprobs', choice: 0, content: [{ token: 'a' }], refusal: [] },
      stop(),
    ])
    expect(JSON.parse(chunk!.data).choices[0].logprobs).toEqual({ content: [{ token: 'a' }], refusal: null })
  })

  test('shows our own fields on the first chunk and on the one with the usage', () => {
    const frames = encode([text('a'), stop()], { ...context, extra: { mode: 'test' } })
    expect(frames.map((frame) => frame.data.includes('"mode":"test"'))).toEqual([
      true,
      false,
      false,
      true,
      false,
    ])
  })

  test('that fails ends with an error the official client throws, and without an invented finish', async () => {
    const encoder = inbound.encoder(context)
    const frames = [
      ...encoder.start(),
      ...encoder.event(text('Hel')),
      ...encoder.event(stop()),
      ...encoder.fail(renderError(new GatewayError('upstream_error', { param: 'x' }), 'req-1')),
    ]
    const [ended, failed] = frames.slice(-3, -1).map(({ data }) => JSON.parse(data))
    expect(failed).toEqual({
      error: expect.objectContaining({ code: 'upstream_error', type: 'provider_error', param: 'x' }),
    })
    expect(ended).not.toHaveProperty('error')
    expect(ended.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'error' }])
    expect(frames.at(-1)?.data).toBe('[DONE]')
    expect(frames.some((frame) => frame.data.includes('"finish_reason":"stop"'))).toBe(false)
    await expect(readByOpenAI(frames)).rejects.toThrow('The provider failed')
  })
})

describe('a whole answer', () => {
  test('has every required key, also when null', () => {
    const result = collect([call(0, 'a', 'now'), stop()])
    const whole = inbound.whole(result, usage, bill, {
      ...context,
      warnings: [{ param: 'seed', message: 'dropped' }],
    })
    expect(chatCompletion.safeParse(whole).error).toBeUndefined()
    expect(whole).toMatchObject({
      id: 'gen-1',
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            refusal: null,
            annotations: [],
            tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: '{}' } }],
          },
          logprobs: null,
          finish_reason: 'tool_calls',
        },
      ],
      warnings: [{ param: 'seed', message: 'dropped' }],
    })
  })

  test('counts cached tokens inside the prompt, reasoning inside the completion, and itemises the cost', () => {
    expect(inbound.whole(collect([text('a'), stop()]), usage, bill, context)['usage']).toEqual({
      prompt_tokens: 127,
      completion_tokens: 80,
      total_tokens: 207,
      prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 7, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 30, audio_tokens: 0 },
      cost: 0.0031,
      cost_details: {
        input: '0.001',
        cache_read: '0.0001',
        cache_write: '0',
        output: '0.002',
        reasoning: '0',
        tools: '0',
        total: '0.0031',
        upstream_inference_cost: null,
        upstream_inference_prompt_cost: 0.0011,
        upstream_inference_completions_cost: 0.002,
        server_tool_cost: 0,
      },
      server_tool_use: { web_search_requests: 0 },
    })
  })

  test('whose choice never ended is an error, not an invented stop', () => {
    expect(() => inbound.whole(collect([text('Hel')]), usage, bill, context)).toThrow(GatewayError)
  })
})
