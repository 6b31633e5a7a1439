// Counters that are missing or cannot be: every protocol says which side it has no count of, and none takes it for zero.

import { expect, test } from 'bun:test'
import { collect } from '../../src/conversation/event.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { completionTokens, promptTokens, type Side, type Usage } from '../../src/conversation/usage.ts'
import type { ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'

type Counters = Readonly<Record<string, unknown>>

/** A whole answer of each protocol with these counters, and what its own two are called. */
const answers: Readonly<
  Partial<
    Record<ProtocolId, { readonly names: readonly [string, string]; answer(counters: Counters): object }>
  >
> = {
  'openai-chat': {
    names: ['prompt_tokens', 'completion_tokens'],
    answer: (usage) => ({
      choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
      usage,
    }),
  },
  'openai-responses': {
    names: ['input_tokens', 'output_tokens'],
    answer: (usage) => ({
      id: 'resp_1',
      status: 'completed',
      output: [
        { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: 'ok' }] },
      ],
      usage,
    }),
  },
  'anthropic-messages': {
    names: ['input_tokens', 'output_tokens'],
    answer: (usage) => ({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: 'ok' }],
      stop_reason: 'end_turn',
      usage,
    }),
  },
  gemini: {
    names: ['promptTokenCount', 'candidatesTokenCount'],
    answer: (usageMetadata) => ({
      candidates: [{ content: { role: 'model', parts: [{ text: 'ok' }] }, finishReason: 'STOP', index: 0 }],
      usageMetadata,
    }),
  },
  'bedrock-converse': {
    names: ['inputTokens', 'outputTokens'],
    answer: (usage) => ({
      output: { message: { role: 'assistant', content: [{ text: 'ok' }] } },
      stopReason: 'end_turn',
      usage,
    }),
  },
  cohere: {
    names: ['input_tokens', 'output_tokens'],
    answer: (tokens) => ({
      id: 'c',
      finish_reason: 'COMPLETE',
      message: { role: 'assistant', content: [{ type: 'text', text: 'ok' }] },
      usage: { tokens },
    }),
  },
  ollama: {
    names: ['prompt_eval_count', 'eval_count'],
    answer: (counters) => ({
      model: 'm',
      message: { role: 'assistant', content: 'ok' },
      done: true,
      done_reason: 'stop',
      ...counters,
    }),
  },
}

function usageOf(protocol: ProtocolId, counters: Counters) {
  const outbound = outbounds[protocol]
  const target: Target = {
    model: 'm',
    provider: 'p',
    quirks: outbound.defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  // As it comes over the wire: 1e999 is a number that JSON can hold.
  const text = JSON.stringify(answers[protocol]!.answer(counters)).replaceAll('"1e999"', '1e999')
  const result = collect(outbound.whole(JSON.parse(text) as JsonObject, target))
  expect(result.fault).toBeUndefined()
  return result.usage
}

for (const protocol of Object.keys(answers) as ProtocolId[]) {
  const [prompt, completion] = answers[protocol]!.names
  test.each<[string, Counters, number, number, readonly Side[] | undefined]>([
    ['both', { [prompt]: 12, [completion]: 6 }, 12, 6, undefined],
    ['explicit zeros', { [prompt]: 0, [completion]: 0 }, 0, 0, undefined],
    ['no completion', { [prompt]: 12 }, 12, 0, ['completion']],
    ['no prompt', { [completion]: 6 }, 0, 6, ['prompt']],
    ['a negative completion', { [prompt]: 12, [completion]: -6 }, 12, 0, ['completion']],
    ['a negative prompt', { [prompt]: -12, [completion]: 6 }, 0, 6, ['prompt']],
    ['a completion without end', { [prompt]: 12, [completion]: '1e999' }, 12, 0, ['completion']],
  ])(`${protocol}: %s`, (_, counters, asked, made, uncounted) => {
    const usage = usageOf(protocol, counters)!
    expect([promptTokens(usage), completionTokens(usage)]).toEqual([asked, made])
    expect(usage.uncounted).toEqual(uncounted as Side[])
  })
}

const totals: Readonly<Partial<Record<ProtocolId, string>>> = {
  'openai-chat': 'total_tokens',
  'openai-responses': 'total_tokens',
  gemini: 'totalTokenCount',
  'bedrock-converse': 'totalTokens',
}

for (const protocol of Object.keys(totals) as ProtocolId[]) {
  const [prompt, completion] = answers[protocol]!.names
  const total = totals[protocol]!
  test.each<[string, Counters, number, number, readonly Side[] | undefined]>([
    ['as much as its parts', { [prompt]: 12, [completion]: 6, [total]: 18 }, 12, 6, undefined],
    ['less than its parts', { [prompt]: 12, [completion]: 6, [total]: 12 }, 12, 6, undefined],
    ['more than its parts', { [prompt]: 400, [completion]: 50, [total]: 950 }, 400, 550, undefined],
    [
      'more than a prompt and no completion',
      { [prompt]: 21, [completion]: 0, [total]: 81 },
      21,
      60,
      undefined,
    ],
    ['without end', { [prompt]: 12, [completion]: 6, [total]: '1e999' }, 12, 6, undefined],
    ['alone: it says nothing of its parts', { [total]: 81 }, 0, 0, ['prompt', 'completion']],
  ])(
    `${protocol}: what a total has beyond its parts is output; %s`,
    (_, counters, asked, made, uncounted) => {
      const usage = usageOf(protocol, counters)
      expect([promptTokens(usage!), completionTokens(usage!)]).toEqual([asked, made])
      expect(usage!.uncounted).toEqual(uncounted as Side[])
    },
  )
}

test.each<[string, object, Partial<Usage>]>([
  [
    'thoughts, which are output',
    {
      prompt_tokens: 21,
      completion_tokens: 0,
      total_tokens: 81,
      completion_tokens_details: { reasoning_tokens: 60 },
    },
    { input: 21, output: 0, reasoning: 60 },
  ],
  [
    'thoughts, without a total',
    { prompt_tokens: 21, completion_tokens: 0, completion_tokens_details: { reasoning_tokens: 60 } },
    { input: 21, output: 0, reasoning: 60 },
  ],
  [
    'what was read from a cache, which is prompt',
    {
      prompt_tokens: 21,
      completion_tokens: 5,
      total_tokens: 1_026,
      prompt_tokens_details: { cached_tokens: 1_000 },
    },
    { input: 21, cacheRead: 1_000, output: 5 },
  ],
  [
    'the audio of the prompt',
    {
      prompt_tokens: 9,
      completion_tokens: 201,
      total_tokens: 585,
      prompt_tokens_details: { audio_tokens: 375 },
    },
    { input: 9, inputAudio: 375, output: 201 },
  ],
])('a total beyond its parts has %s', (_, counters, expected) => {
  expect(usageOf('openai-chat', counters as Counters)).toMatchObject(expected)
})
