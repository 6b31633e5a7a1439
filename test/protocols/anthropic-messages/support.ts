// Requests and targets to lower, everything at rest but what a test names.

import type { AssistantMessage, ChatRequest, Message, ToolCall } from '../../../src/conversation/request.ts'
import { type AnthropicQuirks, defaultQuirks } from '../../../src/protocols/anthropic-messages/schema.ts'
import type { Target } from '../../../src/protocols/protocol.ts'

export function target(changes: Partial<Target<AnthropicQuirks>> = {}): Target<AnthropicQuirks> {
  return {
    model: 'claude-sonnet-4-5',
    provider: 'anthropic',
    quirks: defaultQuirks,
    maxOutputTokens: 64_000,
    reasoning: true,
    rememberedSignature: () => undefined,
    ...changes,
  }
}

export function chat(changes: Partial<ChatRequest> = {}): ChatRequest {
  return {
    messages: [user('Hello')],
    tools: [],
    toolChoice: undefined,
    parallelToolCalls: undefined,
    maxOutputTokens: undefined,
    sampling: {},
    reasoning: undefined,
    responseFormat: undefined,
    stream: false,
    labels: {},
    rest: {},
    ...changes,
  }
}

export function user(text: string): Message {
  return { role: 'user', content: [{ kind: 'text', text, cache: undefined }] }
}

export function system(text: string): Message {
  return { role: 'system', content: [{ kind: 'text', text, cache: undefined }] }
}

export function assistant(text: string, changes: Partial<AssistantMessage> = {}): AssistantMessage {
  return {
    role: 'assistant',
    content: [{ kind: 'text', text, cache: undefined }],
    reasoning: [],
    toolCalls: [],
    ...changes,
  }
}

export function call(id: string, name = 'lookup', json = '{}'): ToolCall {
  return { id, name, arguments: json, thoughtSignature: undefined }
}

export function result(toolCallId: string, text: string): Message {
  return { role: 'tool', toolCallId, content: [{ kind: 'text', text, cache: undefined }], isError: false }
}
