// Arranges a conversation for Gemini. Roles are user and model; function results are returned by name, in one user
// turn right after the calls and in their order; signatures are returned with their parts.

import type {
  AssistantMessage,
  ContentPart,
  Json,
  JsonObject,
  Message,
  ToolCall,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject, parseToolJson } from '../../json.ts'
import { argumentsObject, type Warn, warnOfName } from '../../lowering.ts'
import type { Target } from '../../protocol.ts'
import type { WireNames } from '../../wire-names.ts'
import { isMinted } from '../call-id.ts'
import { mediaPart } from './media.ts'
import {
  type Carried,
  carriedBy,
  signatureFormat,
  signaturesOfCalls,
  skippedSignature,
} from '../signatures.ts'
import type { GeminiQuirks, Traits } from './quirks.ts'

export interface TurnContext {
  readonly traits: Traits
  readonly quirks: GeminiQuirks
  readonly rememberedSignature: Target['rememberedSignature']
  readonly names: WireNames
  readonly warn: Warn
}

export interface Turns {
  readonly systemInstruction: JsonObject | undefined
  readonly contents: JsonObject[]
}

interface Turn {
  readonly role: 'user' | 'model'
  readonly parts: JsonObject[]
}

/** All messages as turns. Throws `invalid_request` for a tool result without a call, and for an empty conversation. */
export function turnsOf(messages: readonly Message[], context: TurnContext): Turns {
  const system: JsonObject[] = []
  const turns: Turn[] = []
  /** The calls of the assistant message before. */
  let open: ReadonlySet<string> = new Set()
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}]`
    warnOfName(message, param, context.warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        system.push(...contentParts(message.content, context, param))
        break
      case 'user':
        addTurn(turns, { role: 'user', parts: contentParts(message.content, context, param) })
        break
      case 'assistant':
        addTurn(turns, { role: 'model', parts: modelParts(message, context, param) })
        for (const turn of resultTurns(message, index, messages, context)) addTurn(turns, turn)
        open = new Set(message.toolCalls.map(({ id }) => id))
        break
      case 'tool':
        if (!open.has(message.toolCallId)) throw orphan(message, index)
        break
      default:
        return message satisfies never
    }
  }
  if (turns.length === 0) {
    if (system.length === 0) {
      throw new GatewayError('invalid_request', { message: 'No message has any content.', param: 'messages' })
    }
    // Gemini answers a turn; instructions alone are none.
    return { systemInstruction: undefined, contents: [{ role: 'user', parts: system }] }
  }
  return {
    systemInstruction: system.length === 0 ? undefined : { parts: system },
    contents: turns.map((turn) => ({ role: turn.role, parts: turn.parts })),
  }
}

function addTurn(turns: Turn[], turn: Turn): void {
  if (turn.parts.length === 0) return
  const last = turns.at(-1)
  // A call must directly follow a user's turn, so consecutive model messages are merged.
  if (turn.role === 'model' && last?.role === 'model') last.parts.push(...turn.parts)
  else turns.push(turn)
}

/** Empty text is dropped: without a signature it is refused. */
function contentParts(content: readonly ContentPart[], context: TurnContext, param: string): JsonObject[] {
  return content.flatMap((part): JsonObject[] => {
    if (part.kind !== 'text' && part.kind !== 'refusal') {
      return [mediaPart(part, context.quirks.readsUrls, param)]
    }
    return part.text === '' ? [] : [{ text: part.text }]
  })
}

// ---- what the model said ------------------------------------------------------------------------------------

function modelParts(message: AssistantMessage, context: TurnContext, param: string): JsonObject[] {
  const text = message.content
    .map((part) => (part.kind === 'text' || part.kind === 'refusal' ? part.text : ''))
    .join('')
  const media = message.content.flatMap((part) =>
    part.kind === 'text' || part.kind === 'refusal' ? [] : [mediaPart(part, context.quirks.readsUrls, param)],
  )
  const calls = callParts(message, context, param)
  const parts: JsonObject[] = []
  let textDone = 0
  let callsDone = 0
  const sayUntil = (end: number) => {
    if (end > textDone) parts.push({ text: text.slice(textDone, end) })
    textDone = Math.max(textDone, end)
  }
  const callUntil = (end: number) => {
    parts.push(...calls.slice(callsDone, end))
    callsDone = Math.max(callsDone, Math.min(end, calls.length))
  }
  for (const item of carriedIn(message)) {
    // The client may have trimmed the text: offsets beyond it move to its end, so that no signature is lost.
    const start = Math.min(item.start, text.length)
    const end = Math.min(item.end, text.length)
    sayUntil(start)
    callUntil(item.calls)
    if (item.kind === 'part') parts.push(item.part)
    else if (item.kind === 'text') {
      parts.push({ text: text.slice(Math.max(start, textDone), end), thoughtSignature: item.signature })
      textDone = Math.max(textDone, end)
    } else {
      const image = media[item.image]
      if (image !== undefined) media[item.image] = { ...image, thoughtSignature: item.signature }
    }
  }
  sayUntil(text.length)
  parts.push(...media)
  callUntil(calls.length)
  return parts
}

/** In Gemini's order. Summaries of thoughts are left out: only their signatures matter. */
function carriedIn(message: AssistantMessage): Carried[] {
  return message.reasoning
    .filter((detail) => detail.format === signatureFormat)
    .toSorted((a, b) => a.index - b.index)
    .map(carriedBy)
    .filter((item) => item !== undefined)
}

function callParts(message: AssistantMessage, context: TurnContext, param: string): JsonObject[] {
  const signatures = signaturesOfCalls(message.reasoning)
  return message.toolCalls.map((call, position) => {
    const signature =
      call.thoughtSignature ??
      signatures.get(call.id) ??
      context.rememberedSignature(call) ??
      // Only the first of parallel calls has one; without it Gemini 3 refuses the whole request.
      (position === 0 && context.traits.signaturesRequired ? skippedSignature : undefined)
    return {
      functionCall: {
        ...idOf(call, context),
        name: context.names.of(call.name),
        args: argumentsObject(
          call.arguments,
          `${param}.tool_calls[${position}].function.arguments`,
          context.warn,
        ),
      },
      ...(signature === undefined ? {} : { thoughtSignature: signature }),
    }
  })
}

function idOf(call: ToolCall, context: TurnContext): JsonObject {
  return context.traits.sendsCallIds && !isMinted(call.id) ? { id: call.id } : {}
}

// ---- what the functions answered ----------------------------------------------------------------------------

/** The indexes of the results before the model's next turn, by call; of two for one call the first. */
function resultsAfter(index: number, messages: readonly Message[]): ReadonlyMap<string, number> {
  const results = new Map<string, number>()
  for (let at = index + 1; at < messages.length; at++) {
    const message = messages[at]!
    if (message.role === 'assistant') break
    if (message.role === 'tool' && !results.has(message.toolCallId)) results.set(message.toolCallId, at)
  }
  return results
}

function resultTurns(
  message: AssistantMessage,
  index: number,
  messages: readonly Message[],
  context: TurnContext,
): Turn[] {
  // At the end of the conversation the calls cannot have been answered yet.
  if (message.toolCalls.length === 0 || index === messages.length - 1) return []
  const results = resultsAfter(index, messages)
  const turn: Turn = { role: 'user', parts: [] }
  const media: Turn = { role: 'user', parts: [] }
  for (const call of message.toolCalls) {
    const at = results.get(call.id)
    const result = at === undefined ? undefined : (messages[at] as ToolMessage)
    const [part, beside] = resultPart(call, result, context, `messages[${at ?? index}]`)
    turn.parts.push(part)
    media.parts.push(...beside)
  }
  return [turn, media]
}

/** The functionResponse of a call, and media that the model can only take beside it. */
function resultPart(
  call: ToolCall,
  result: ToolMessage | undefined,
  context: TurnContext,
  param: string,
): [JsonObject, JsonObject[]] {
  const parts = contentParts(result?.content ?? [], context, param)
  const text = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : [])).join('\n')
  const media = parts.filter((part) => part['text'] === undefined)
  const inside = context.traits.mediaInResults ? media : []
  const functionResponse = {
    ...idOf(call, context),
    name: context.names.of(call.name),
    response: responseOf(text, result),
    ...(inside.length === 0 ? {} : { parts: inside }),
  }
  return [{ functionResponse }, context.traits.mediaInResults ? [] : media]
}

/** Gemini requires an object: the function's JSON result, otherwise its text under a key for success or failure. */
function responseOf(text: string, result: ToolMessage | undefined): Json {
  // A call without a result would be refused.
  if (result === undefined) return { error: 'No result was given for this call.' }
  if (result.isError) return { error: text }
  const output = parseToolJson(text)
  return isObject(output) ? output : { result: text }
}

function orphan(message: ToolMessage, index: number): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The tool result ${message.toolCallId} answers no tool call of the assistant message before it.`,
    param: `messages[${index}].tool_call_id`,
  })
}
