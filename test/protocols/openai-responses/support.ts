// What the tests of the Responses protocol share: targets, and requests at rest but for what a test names.

import { type ChatEvent, type Choice, collect } from '../../../src/conversation/event.ts'
import type { AssistantMessage, ChatRequest, JsonObject } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import {
  defaultQuirks,
  type ResponsesQuirks,
} from '../../../src/protocols/openai-responses/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { chat, result, targetsLike, textPart, user } from '../../support/conversation.ts'
import { parseFrames } from '../../support/recordings.ts'

export function target(
  quirks: Partial<ResponsesQuirks> = {},
  more: Partial<Target<ResponsesQuirks>> = {},
): Target<ResponsesQuirks> {
  const all = { ...defaultQuirks, ...quirks }
  return targetsLike({ model: 'gpt-5', provider: 'openai', quirks: all, reasoning: true })(more)
}

export function assistant(changes: Partial<AssistantMessage> = {}): AssistantMessage {
  return { role: 'assistant', content: [], reasoning: [], toolCalls: [], ...changes }
}

/** The first choice of an answer as the message a client sends back. */
export function asMessage(choice: Choice): AssistantMessage {
  return assistant({
    content: choice.text === null ? [] : [textPart(choice.text)],
    reasoning: choice.reasoning,
    toolCalls: choice.toolCalls,
  })
}

/** The next turn of a conversation: the answer as the assistant's message, its calls answered. */
export function nextTurn(choice: Choice): ChatRequest {
  const results = choice.toolCalls.map((made) => result(made.id, 'done'))
  return chat({ messages: [user('Hello'), asMessage(choice), ...results, user('Go on.')] })
}

/** The items that stand for the assistant's turn in a lowered conversation. */
export function itemsOfTurn(body: JsonObject): JsonObject[] {
  return (body.input as JsonObject[]).filter(
    (item) =>
      item.role === 'assistant' || ['reasoning', 'compaction', 'function_call'].includes(String(item.type)),
  )
}

export function choiceOf(events: readonly ChatEvent[]): Choice {
  const [choice] = collect(events).choices
  if (choice === undefined) throw new Error('the answer has no choice')
  return choice
}

/** A stream of these events' data, in order, as the parser reads it. */
export function streamOf(...events: readonly JsonObject[]): readonly ChatEvent[] {
  const frames = events.map((event) => ({ event: String(event.type), data: JSON.stringify(event) }))
  return parseFrames(outbound.parser(target()), frames)
}
