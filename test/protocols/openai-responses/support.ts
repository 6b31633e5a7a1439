// What the tests of the Responses protocol share: recorded answers, targets, and requests at rest but for what a
// test names.

import { type ChatEvent, type Choice, collect } from '../../../src/conversation/event.ts'
import type { AssistantMessage, ChatRequest, JsonObject } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import {
  defaultQuirks,
  type ResponsesQuirks,
} from '../../../src/protocols/openai-responses/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { hostedProviders } from '../../../src/providers/rows/hosted.ts'
import { chat, result, targetsLike, textPart, user } from '../../support/conversation.ts'
import { type Case, framesOf, parseFrames } from '../../support/recordings.ts'

/** The folders of recordings, each with what its provider does differently. */
export const dialects: readonly { readonly folder: string; readonly quirks: Partial<ResponsesQuirks> }[] = [
  { folder: 'openai-responses', quirks: quirksOfRow('openai') },
  { folder: 'azure-responses', quirks: quirksOfRow('azure') },
  { folder: 'xai-responses', quirks: quirksOfRow('xai') },
  { folder: 'deepseek-responses', quirks: { reasoningFormat: 'unknown', encryptedReasoning: false } },
  { folder: 'openrouter-responses', quirks: { reasoningFormat: 'unknown', reportedCost: 'usage.cost' } },
  { folder: 'bedrock-mantle-responses', quirks: {} },
  { folder: 'lmstudio-responses', quirks: { reasoningFormat: 'unknown', encryptedReasoning: false } },
]

/** How a provider's reasoning models are spoken to. */
function quirksOfRow(id: string): Partial<ResponsesQuirks> {
  const dialect = hostedProviders.find((row) => row.id === id)?.dialects?.[0]
  if (dialect?.protocol !== 'openai-responses') throw new Error(`${id} does not speak the Responses protocol`)
  return dialect.quirks as Partial<ResponsesQuirks>
}

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

/** One recorded answer: a file may hold several responses, one after the other. */
export interface Answer {
  readonly name: string
  readonly recorded: Case
  readonly frames: readonly Frame[] | undefined
  readonly events: readonly ChatEvent[]
  /** The response object as the provider ended it, read without any of our code. */
  readonly response: JsonObject
}

const terminal = /^response\.(completed|incomplete|failed)$/

export function answersOf(recorded: Case, quirks: Partial<ResponsesQuirks>): Answer[] {
  const name = `${recorded.provider}/${recorded.id}`
  if (!recorded.streamed) {
    const response = recorded.response() as JsonObject
    const events =
      recorded.status < 400 ? outbound.whole(response, target(quirks)) : [errorOf(recorded, quirks)]
    return [{ name, recorded, frames: undefined, events, response }]
  }
  const answers: Answer[] = []
  let frames: Frame[] = []
  for (const frame of framesOf([recorded.stream()])) {
    frames.push(frame)
    if (frame.data === '[DONE]') continue
    const event = JSON.parse(frame.data) as { type: string; response: JsonObject }
    if (!terminal.test(event.type)) continue
    const events = parseFrames(outbound.parser(target(quirks)), frames)
    answers.push({
      name: `${name} #${answers.length + 1}`,
      recorded,
      frames,
      events,
      response: event.response,
    })
    frames = []
  }
  return answers
}

function errorOf(recorded: Case, quirks: Partial<ResponsesQuirks>): ChatEvent {
  const fault = outbound.fault(recorded.status, recorded.headers, recorded.responseText(), target(quirks))
  return { kind: 'error', fault }
}

export function outputOf(response: JsonObject): JsonObject[] {
  return Array.isArray(response.output) ? (response.output as JsonObject[]) : []
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
