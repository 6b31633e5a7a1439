// The same answer as each protocol streams it, one piece for each event: many small deltas, one large one, many calls.
// What changes from frame to frame at the provider (counters, numbers, padding) changes here as well.

import type { ProtocolId } from '../src/protocols/protocol.ts'
import { message } from '../test/support/aws-event-stream.ts'

/** What the answer is made of: each text a delta, then so many tool calls. */
export interface Answer {
  readonly texts: readonly string[]
  readonly calls: number
}

const utf8 = new TextEncoder()
const line = (data: unknown) => utf8.encode(`data: ${JSON.stringify(data)}\n\n`)
const named = (event: { type: string }, spaces = '') =>
  utf8.encode(`event: ${event.type}\ndata: ${JSON.stringify(event).slice(0, -1)}${spaces}}\n\n`)
const json = '{"city":"Basel"}'
/** What providers add to hide the length of a text; never the same twice in a row. */
const padding = (at: number) => 'abcdefghijklmnopqrstuvwxyz'.slice(0, 4 + ((at * 7) % 17))
const numbers = (count: number) => Array.from({ length: count }, (_, at) => at)

/** The stream of an answer in a protocol. */
export const streams: Readonly<Record<ProtocolId, (answer: Answer) => Uint8Array[]>> = {
  'openai-chat': ({ texts, calls }) => {
    const fields = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' }
    const chunk = (delta: object, finish: string | null = null) =>
      line({ ...fields, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] })
    return [
      chunk({ role: 'assistant', content: '' }),
      ...texts.map((content) => chunk({ content })),
      ...numbers(calls).flatMap((index) => [
        chunk({
          tool_calls: [
            { index, id: `call_${index}`, type: 'function', function: { name: 'f', arguments: '' } },
          ],
        }),
        chunk({ tool_calls: [{ index, function: { arguments: json } }] }),
      ]),
      chunk({}, calls > 0 ? 'tool_calls' : 'stop'),
      line({ ...fields, choices: [], usage: { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 } }),
      utf8.encode('data: [DONE]\n\n'),
    ]
  },

  'openai-responses': ({ texts, calls }) => {
    const response = { id: 'resp_1', object: 'response', model: 'm', status: 'in_progress', output: [] }
    const part = { item_id: 'msg_1', output_index: 0, content_index: 0 }
    const item = { id: 'msg_1', type: 'message', role: 'assistant' }
    const whole = { type: 'output_text', text: texts.join(''), annotations: [] }
    const call = (at: number, status: string, args: string) => ({
      id: `fc_${at}`,
      type: 'function_call',
      call_id: `call_${at}`,
      name: 'f',
      arguments: args,
      status,
    })
    const events = [
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
      { type: 'response.content_part.added', ...part, part: { ...whole, text: '' } },
      ...texts.map((delta, at) => ({
        type: 'response.output_text.delta',
        ...part,
        delta,
        logprobs: [],
        obfuscation: padding(at),
      })),
      { type: 'response.output_text.done', ...part, text: whole.text, logprobs: [] },
      { type: 'response.content_part.done', ...part, part: whole },
      { type: 'response.output_item.done', output_index: 0, item: { ...item, content: [whole] } },
      ...numbers(calls).flatMap((at) => [
        { type: 'response.output_item.added', output_index: at + 1, item: call(at, 'in_progress', '') },
        {
          type: 'response.function_call_arguments.delta',
          item_id: `fc_${at}`,
          output_index: at + 1,
          delta: json,
        },
        {
          type: 'response.function_call_arguments.done',
          item_id: `fc_${at}`,
          output_index: at + 1,
          arguments: json,
        },
        { type: 'response.output_item.done', output_index: at + 1, item: call(at, 'completed', json) },
      ]),
      {
        type: 'response.completed',
        response: {
          ...response,
          status: 'completed',
          output: [{ ...item, content: [whole] }, ...numbers(calls).map((at) => call(at, 'completed', json))],
          usage: { input_tokens: 9, output_tokens: 9, total_tokens: 18 },
        },
      },
    ]
    return events.map((event, at) => named(Object.assign(event, { sequence_number: at })))
  },

  'anthropic-messages': ({ texts, calls }) => [
    named({
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    } as { type: string }),
    ...anthropicBlock(
      0,
      { type: 'text', text: '' },
      texts.map((text) => ({ type: 'text_delta', text })),
    ),
    ...numbers(calls).flatMap((at) =>
      anthropicBlock(at + 1, { type: 'tool_use', id: `toolu_${at}`, name: 'f', input: {} }, [
        { type: 'input_json_delta', partial_json: json },
      ]),
    ),
    named({
      type: 'message_delta',
      delta: { stop_reason: calls > 0 ? 'tool_use' : 'end_turn' },
      usage: { output_tokens: 9 },
    } as { type: string }),
    named({ type: 'message_stop' }),
  ],

  gemini: ({ texts, calls }) => {
    const chunk = (parts: object[], candidatesTokenCount: number, more: object = {}) =>
      line({
        candidates: [{ content: { parts, role: 'model' }, ...more, index: 0 }],
        usageMetadata: {
          promptTokenCount: 9,
          candidatesTokenCount,
          totalTokenCount: 9 + candidatesTokenCount,
          promptTokensDetails: [{ modality: 'TEXT', tokenCount: 9 }],
        },
        modelVersion: 'm',
        responseId: 'r1',
      })
    return [
      ...texts.map((text, at) => chunk([{ text }], at + 1)),
      ...numbers(calls).map(() => chunk([{ functionCall: { name: 'f', args: { city: 'Basel' } } }], 9)),
      chunk([{ text: '' }], texts.length, { finishReason: 'STOP' }),
    ]
  },

  cohere: ({ texts, calls }) => {
    const event = (type: string, message?: object, index = 0) =>
      named({ type, index, ...(message === undefined ? {} : { delta: { message } }) } as { type: string })
    return [
      named({ type: 'message-start', id: 'c1', delta: { message: { role: 'assistant' } } } as {
        type: string
      }),
      event('content-start', { content: { type: 'text', text: '' } }),
      ...texts.map((text) => event('content-delta', { content: { text } })),
      event('content-end'),
      ...numbers(calls).flatMap((at) => [
        event(
          'tool-call-start',
          { tool_calls: { id: `call_${at}`, type: 'function', function: { name: 'f', arguments: '' } } },
          at,
        ),
        event('tool-call-delta', { tool_calls: { function: { arguments: json } } }, at),
        event('tool-call-end', undefined, at),
      ]),
      named({
        type: 'message-end',
        delta: {
          finish_reason: calls > 0 ? 'TOOL_CALL' : 'COMPLETE',
          usage: { tokens: { input_tokens: 9, output_tokens: 9 } },
        },
      } as { type: string }),
    ]
  },

  ollama: ({ texts, calls }) => {
    const chunk = (fields: object, more: object = { done: false }) =>
      utf8.encode(
        `${JSON.stringify({ model: 'm', created_at: '2026-11-21T00:00:00Z', message: { role: 'assistant', ...fields }, ...more })}\n`,
      )
    return [
      ...texts.map((content) => chunk({ content })),
      ...numbers(calls).map(() =>
        chunk({ content: '', tool_calls: [{ function: { name: 'f', arguments: { city: 'Basel' } } }] }),
      ),
      chunk({ content: '' }, { done: true, done_reason: 'stop', prompt_eval_count: 9, eval_count: 9 }),
    ]
  },

  'bedrock-converse': ({ texts, calls }) => {
    const event = (type: string, payload: object) =>
      message(
        { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' },
        JSON.stringify(payload),
      )
    const delta = (contentBlockIndex: number, fields: object, at = 0) =>
      event('contentBlockDelta', { contentBlockIndex, delta: fields, p: padding(at) })
    const stop = (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex })
    return [
      event('messageStart', { role: 'assistant' }),
      ...texts.map((text, at) => delta(0, { text }, at)),
      stop(0),
      ...numbers(calls).flatMap((at) => [
        event('contentBlockStart', {
          contentBlockIndex: at + 1,
          start: { toolUse: { toolUseId: `tooluse_${at}`, name: 'f' } },
        }),
        delta(at + 1, { toolUse: { input: json } }),
        stop(at + 1),
      ]),
      event('messageStop', { stopReason: calls > 0 ? 'tool_use' : 'end_turn' }),
      event('metadata', { usage: { inputTokens: 9, outputTokens: 9, totalTokens: 18 }, metrics: {} }),
    ]
  },
}

function anthropicBlock(index: number, content_block: object, deltas: readonly object[]): Uint8Array[] {
  const event = (fields: { type: string }) => named({ ...fields, index } as { type: string })
  return [
    event({ type: 'content_block_start', content_block } as { type: string }),
    ...deltas.map((delta, at) =>
      named({ type: 'content_block_delta', index, delta } as { type: string }, ' '.repeat(at % 13)),
    ),
    event({ type: 'content_block_stop' }),
  ]
}
