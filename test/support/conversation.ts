// Requests to lower and targets to lower them for, everything at rest but what a test names.

import type { WebSearchDeclaration } from '../../src/conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  ChatRequest,
  FunctionTool,
  Message,
  ToolCall,
} from '../../src/conversation/request.ts'
import type { Target } from '../../src/protocols/protocol.ts'

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

export const textPart = (text: string) => ({ kind: 'text', text, cache: undefined }) as const

export function user(text: string): Message {
  return { role: 'user', content: [textPart(text)] }
}

export function system(text: string): Message {
  return { role: 'system', content: [textPart(text)] }
}

export function assistant(text: string, changes: Partial<AssistantMessage> = {}): AssistantMessage {
  return { role: 'assistant', content: [textPart(text)], reasoning: [], toolCalls: [], ...changes }
}

export function call(id: string, name = 'lookup', json = '{}'): ToolCall {
  return { id, name, arguments: json, thoughtSignature: undefined }
}

export function result(toolCallId: string, text: string): Message {
  return { role: 'tool', toolCallId, content: [textPart(text)], isError: false }
}

/** The tool that `call` calls. */
export const lookup: FunctionTool = {
  name: 'lookup',
  description: 'Looks up',
  parameters: undefined,
  strict: undefined,
  cache: undefined,
}

/** A request's wish to search, with nothing about how. */
export const webSearch: WebSearchDeclaration = {
  kind: 'web-search',
  param: 'tools[0]',
  engine: 'auto',
  contextSize: 'medium',
  location: undefined,
  allowedDomains: [],
  blockedDomains: [],
  maxUses: undefined,
  rest: {},
}

/** What makes a protocol's targets: `usual` is what its tests take for granted. */
export function targetsLike<Quirks>(
  usual: Pick<Target<Quirks>, 'model' | 'provider' | 'quirks'> & Partial<Target<Quirks>>,
): (changes?: Partial<Target<Quirks>>) => Target<Quirks> {
  return (changes = {}) => ({
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
    ...usual,
    ...changes,
  })
}
