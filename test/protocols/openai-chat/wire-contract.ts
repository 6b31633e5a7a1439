// What every chat-completions stream must hold, whoever wrote it, and the same stream read by the official client.

import { expect } from 'bun:test'
import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream'
import type { ChatCompletion, ChatCompletionChunk } from 'openai/resources/chat/completions'
import { Stream } from 'openai/streaming'
import { noUsage, type Usage } from '../../../src/conversation/usage.ts'
import { chatCompletionChunk } from '../../../src/protocols/openai-chat/inbound/schema.ts'
import type { AnswerContext, Bill } from '../../../src/protocols/protocol.ts'
import { encodeFrame, type Frame } from '../../../src/protocols/framing/sse.ts'

export const context: AnswerContext = {
  id: 'gen-1',
  model: 'lab/test-model',
  created: 1_786_000_000,
  includeUsage: true,
  warnings: [],
  extra: {},
}

export const usage: Usage = {
  ...noUsage,
  input: 100,
  cacheRead: 20,
  cacheWrite5m: 3,
  cacheWrite1h: 4,
  output: 50,
  reasoning: 30,
}

export const bill: Bill = {
  cost: '0.0031',
  lines: {
    input: '0.001',
    cache_read: '0.0001',
    cache_write: '0',
    output: '0.002',
    reasoning: '0',
    tools: '0',
  },
}

/** Asserts the streaming rules of the wire contract on all frames of a stream that ended well. */
export function expectContract(frames: readonly Frame[], expected: AnswerContext): void {
  expect(frames.every((frame) => frame.event === undefined)).toBe(true)
  expect(frames.filter((frame) => frame.data === '[DONE]')).toHaveLength(1)
  expect(frames.at(-1)?.data).toBe('[DONE]')
  const chunks = frames.slice(0, -1).map((frame) => chatCompletionChunk.parse(JSON.parse(frame.data)))
  for (const chunk of chunks) {
    expect([chunk.id, chunk.created, chunk.model]).toEqual([expected.id, expected.created, expected.model])
  }
  const content = expected.includeUsage ? chunks.slice(0, -1) : chunks
  for (const chunk of content) {
    expect(chunk.choices.length).toBeGreaterThan(0)
    expect('usage' in chunk ? chunk.usage : 'absent').toBe(expected.includeUsage ? null : 'absent')
  }
  if (expected.includeUsage) {
    expect(chunks.at(-1)?.choices).toEqual([])
    expect(chunks.at(-1)?.usage).toMatchObject({ cost: 0.0031 })
  }
  expect(content[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })

  const choices = content.flatMap((chunk) => chunk.choices)
  for (const index of new Set(choices.map((choice) => choice.index))) {
    const own = choices.filter((choice) => choice.index === index)
    expect(own[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect(own.slice(1).every((choice) => choice.delta.role === undefined)).toBe(true)
    expect(own.slice(0, -1).every((choice) => choice.finish_reason === null)).toBe(true)
    expect(own.at(-1)?.delta).toEqual({})
    const calls = own.flatMap((choice) => choice.delta.tool_calls ?? [])
    expectCalls(calls.flatMap((each) => (each.function ? [{ ...each, function: each.function }] : [])))
    if (calls.length > 0) expect(own.at(-1)?.finish_reason).toBe('tool_calls')
    else
      expect(['stop', 'length', 'content_filter', 'tool_calls']).toContain(
        own.at(-1)?.finish_reason as string,
      )
  }
}

interface CallDelta {
  readonly index: number
  readonly id?: string | undefined
  readonly type?: string | undefined
  readonly function: { readonly name?: string | undefined; readonly arguments: string }
}

function expectCalls(deltas: readonly CallDelta[]): void {
  const starts = deltas.filter((delta) => delta.id !== undefined)
  expect(starts.map((delta) => delta.index)).toEqual(starts.map((_, i) => i))
  for (const start of starts) {
    expect(start.type).toBe('function')
    expect(start.function.name).not.toBe('')
    expect(start.function.arguments).toBe('')
    const later = deltas.filter((delta) => delta.index === start.index).slice(1)
    for (const delta of later) expect(Object.keys(delta).toSorted()).toEqual(['function', 'index'])
    expect(() => JSON.parse(later.map((delta) => delta.function.arguments).join(''))).not.toThrow()
  }
}

/** The stream as the official library reads it off an HTTP response, joined to a whole answer. */
export async function readByOpenAI(frames: readonly Frame[]): Promise<ChatCompletion> {
  const response = new Response(frames.map(encodeFrame).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  })
  const chunks = Stream.fromSSEResponse<ChatCompletionChunk>(response, new AbortController())
  return ChatCompletionStream.fromReadableStream(chunks.toReadableStream()).finalChatCompletion()
}
