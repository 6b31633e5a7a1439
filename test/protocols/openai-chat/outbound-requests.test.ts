// Recorded follow-up turns, read as a client's request and lowered again: the provider gets the same conversation.

import { describe, expect, test } from 'bun:test'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { isObject } from '../../../src/protocols/lenient.ts'
import { type Case, cases } from '../../support/recordings.ts'
import { chatHosts, targetOf } from './dialects.ts'

/** Requests that clients of chat completions could not send: parts and words of the provider's own dialect. */
const foreign = new Map([
  ['mistral', /document|magistral-medium|rub75a08f|rub266354|pai5ac887|oin1f6343/],
  ['perplexity', /rub9f4afe|rub207c68/],
  ['openrouter', /rubafbfcd|pai20970d/],
  ['openai-chat', /search-preview/],
])

/** An image inside a tool result follows it as the user's: its own test is in outbound.test.ts. */
const imageInToolResult = /json-image-reasoning-roundtrip--qwen3--rub4ac5c9/

describe('a recorded conversation', () => {
  for (const { folder, quirks } of chatHosts) {
    const own = cases(folder).filter(
      (recorded) =>
        isFollowUp(recorded) &&
        !foreign.get(folder)?.test(recorded.id) &&
        !imageInToolResult.test(recorded.id),
    )
    for (const recorded of own) {
      test(`${folder}/${recorded.id} reaches the provider as its client sent it`, () => {
        const sent = recorded.request!
        const request = inbound.parse({ ...sent, model: 'lab/model' }).toChatRequest()
        const { body } = outbound.lower(request, targetOf(quirks, { provider: folder }))
        expect(conversationOf(body)).toEqual(conversationOf(sent))
      })
    }
  }
})

function isFollowUp(recorded: Case): boolean {
  const messages = recorded.request?.messages
  return (
    Array.isArray(messages) && messages.some((message) => isObject(message) && message.role === 'assistant')
  )
}

/** What both bodies must agree on, with the spellings evened out that mean the same. */
function conversationOf(body: JsonObject): JsonObject {
  const tools = Array.isArray(body.tools) ? body.tools : []
  return {
    messages: (body.messages as JsonObject[]).map(plainMessage),
    tools: tools.map((tool) => withoutNulls(tool as JsonObject)),
    tool_choice:
      tools.length === 0 ? null : body.tool_choice === 'any' ? 'required' : (body.tool_choice ?? null),
    response_format: body.response_format ?? null,
  }
}

function plainMessage(message: JsonObject): JsonObject {
  const { reasoning, reasoning_content, extra_content: _, ...rest } = withoutNulls(message)
  const content = partsOf(rest.content)
  const calls = Array.isArray(rest.tool_calls) ? (rest.tool_calls as JsonObject[]) : []
  // A request tells the reasoning under one name or both; Cerebras' and Ollama's clients send theirs.
  const echo = reasoning_content ?? reasoning
  const told: JsonObject =
    rest.reasoning_details === undefined && echo !== undefined && echo !== '' ? { reasoning: echo } : {}
  return {
    ...rest,
    role: rest.role === 'developer' ? 'system' : (rest.role as string),
    content,
    tool_calls: calls.map(({ index: _index, cache_control: _mark, ...call }) => withoutNulls(call)),
    ...told,
    prefix: null,
    cache_control: null,
  }
}

function partsOf(content: Json | undefined): Json[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  if (!Array.isArray(content)) return []
  return content.map((part) => {
    const { cache_control: _mark, prompt_cache_breakpoint: _point, ...plain } = part as JsonObject
    return plain
  })
}

function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
}
