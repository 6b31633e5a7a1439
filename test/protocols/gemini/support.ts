// What the Gemini tests share: a target, a plain request, and an answer put back into a conversation.

import { type ChatEvent, type Choice, collect } from '../../../src/conversation/event.ts'
import type { AssistantMessage, ChatRequest, JsonObject } from '../../../src/conversation/request.ts'
import { defaultQuirks, type GeminiQuirks } from '../../../src/protocols/gemini/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { chat, targetsLike, textPart, user } from '../../support/conversation.ts'

export const providers = ['gemini', 'vertex-gemini'] as const

export function targetOf(model: string, quirks: Partial<GeminiQuirks> = {}): Target<GeminiQuirks> {
  const usual = { model, provider: 'gemini', quirks: { ...defaultQuirks, ...quirks }, reasoning: true }
  return targetsLike<GeminiQuirks>(usual)()
}

export function requestOf(more: Partial<ChatRequest> = {}): ChatRequest {
  return chat({ messages: [user('Hi')], ...more })
}

/** The first choice of an answer as the message a client sends back. */
export function asMessage(events: readonly ChatEvent[]): AssistantMessage {
  const choice: Choice | undefined = collect(events).choices[0]
  if (choice === undefined) throw new Error('the answer has no choice')
  return {
    role: 'assistant',
    content: [
      ...(choice.text === null ? [] : [textPart(choice.text)]),
      ...choice.images.map((image) => ({
        kind: 'image' as const,
        source: { kind: 'base64' as const, mediaType: image.mediaType, data: image.data },
        detail: undefined,
        cache: undefined,
      })),
    ],
    reasoning: choice.reasoning,
    toolCalls: choice.toolCalls,
  }
}

type Part = JsonObject

/**
 * Parts in the form in which two of them can be compared: unsigned text runs are one part, empty unsigned text and
 * unsigned thoughts are gone (they mean nothing to Gemini), base64 has one alphabet, minted ids are absent.
 */
export function comparable(parts: readonly Part[]): Part[] {
  const result: Part[] = []
  for (const original of parts) {
    const part = renamed(original)
    const signature = part['thoughtSignature']
    if (signature === undefined && part['thought'] === true) continue
    if (signature === undefined && part['text'] === '') continue
    const last = result.at(-1)
    const joins = signature === undefined && typeof part['text'] === 'string'
    if (joins && typeof last?.['text'] === 'string' && last['thoughtSignature'] === undefined) {
      last['text'] += part['text']
    } else result.push({ ...part })
  }
  return result
}

function renamed(part: Part): Part {
  const signature = part['thoughtSignature']
  const call = (part['functionCall'] ?? part['function_call']) as JsonObject | undefined
  const { function_call: _, ...rest } = part
  return {
    ...rest,
    ...(call === undefined ? {} : { functionCall: call }),
    ...(typeof signature === 'string'
      ? { thoughtSignature: signature.replaceAll('-', '+').replaceAll('_', '/') }
      : {}),
  }
}
