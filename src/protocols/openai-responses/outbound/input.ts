// The conversation as input items: messages, calls, their outputs and reasoning.

import type {
  AssistantMessage,
  ContentPart,
  JsonObject,
  MediaSource,
  Message,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { FreeNames } from '../../free-names.ts'
import { warnInto, warnOfName } from '../../lowering.ts'
import type { Warning } from '../../protocol.ts'
import type { ResponsesQuirks } from './quirks.ts'
import { carriedItems, type CarriedItem } from './reasoning.ts'

export interface InputContext {
  readonly quirks: ResponsesQuirks
  readonly provider: string
}

/**
 * All input items, in order, and warnings for what was left out. Throws GatewayError `unsupported_parameter` for a
 * part that the provider does not accept.
 */
export function lowerInput(
  messages: readonly Message[],
  context: InputContext,
): { readonly input: JsonObject[]; readonly warnings: readonly Warning[] } {
  const input: JsonObject[] = []
  const warnings: Warning[] = []
  const ids = new CallIds()
  // If results can only hold text, images and files of a run of results follow it in a user message.
  let beside: JsonObject[] = []
  for (const [at, message] of messages.entries()) {
    if (message.role !== 'tool' && beside.length > 0) {
      input.push({ role: 'user', content: beside })
      beside = []
    }
    warnOfName(message, `messages[${at}]`, warnInto(warnings))
    switch (message.role) {
      case 'assistant':
        for (const item of lowerAssistant(message, at, ids, context, warnings)) input.push(item)
        break
      case 'tool': {
        const media = message.content.filter((part) => part.kind !== 'text' && part.kind !== 'refusal')
        const apart = media.length > 0 && !context.quirks.toolResultMedia
        input.push(lowerResult(message, apart, at, ids, context))
        if (apart) beside.push(...media.map((part) => inputPart(part, at, context)))
        break
      }
      default: {
        const role = message.role === 'developer' && !context.quirks.developerRole ? 'system' : message.role
        input.push({ role, content: lowerContent(message.content, at, context) })
      }
    }
  }
  if (beside.length > 0) input.push({ role: 'user', content: beside })
  return { input, warnings }
}

// ---- the assistant's turns --------------------------------------------------------------------------------

function lowerAssistant(
  message: AssistantMessage,
  at: number,
  ids: CallIds,
  context: InputContext,
  warnings: Warning[],
): JsonObject[] {
  if (message.content.some((part) => part.kind !== 'text' && part.kind !== 'refusal')) {
    warnings.push({
      param: `messages[${at}].content`,
      message: 'What the assistant said in other forms than text was left out: the provider takes none back.',
    })
  }
  const calls = message.toolCalls.map((call): JsonObject => ({
    type: 'function_call',
    call_id: ids.openCall(call.id),
    name: call.name,
    arguments: call.arguments,
  }))
  const carried = carriedItems(message.reasoning, context.quirks.reasoningFormat)
  const placed = interleaveItems(inTurn(saidIn(message.content, context.quirks), calls), carried.items)
  if (!carried.complete || placed.lost) {
    warnings.push({
      param: `messages[${at}].reasoning_details`,
      message: `Reasoning that ${context.provider} did not make, or cannot read alone, was left out.`,
    })
  }
  return placed.items
}

interface SaidItem {
  readonly item: JsonObject
  /** How many messages and calls of the turn come before it. */
  readonly at: number
}

/** The messages of a turn. */
function saidIn(parts: readonly ContentPart[], { phases }: ResponsesQuirks): readonly SaidItem[] {
  const said: SaidItem[] = []
  let content: JsonObject[] = []
  for (const part of parts) {
    const wire = outputPart(part)
    if (wire === undefined) continue
    const { at, phase } = ('message' in part ? part.message : undefined) ?? { at: 0 }
    if (said.at(-1)?.at !== at) {
      content = []
      const named: JsonObject = phases && phase !== undefined ? { phase } : {}
      said.push({ item: { role: 'assistant', ...named, content }, at })
    }
    content.push(wire)
  }
  return said
}

/** The messages and calls of a turn in their order. */
function inTurn(said: readonly SaidItem[], calls: readonly JsonObject[]): readonly JsonObject[] {
  const items: JsonObject[] = []
  let called = 0
  for (const { item, at } of said) {
    while (items.length < at && called < calls.length) items.push(calls[called++]!)
    items.push(item)
  }
  return [...items, ...calls.slice(called)]
}

/** Reasoning goes directly before the item it led to: the provider refuses reasoning without such an item. */
function interleaveItems(
  items: readonly JsonObject[],
  carried: readonly CarriedItem[],
): { readonly items: JsonObject[]; readonly lost: boolean } {
  const result: JsonObject[] = []
  let next = 0
  let lost = false
  for (const { item, before, mayEndTurn } of carried) {
    if (items.length === 0 && !mayEndTurn) {
      lost = true
      continue
    }
    const place = mayEndTurn ? before : Math.min(before, items.length - 1)
    while (next < Math.min(place, items.length)) result.push(items[next++]!)
    result.push(item)
  }
  return { items: [...result, ...items.slice(next)], lost }
}

function outputPart(part: ContentPart): JsonObject | undefined {
  if (part.kind === 'refusal') return { type: 'refusal', refusal: part.text }
  return part.kind === 'text' && part.text !== '' ? { type: 'output_text', text: part.text } : undefined
}

// ---- tool results -----------------------------------------------------------------------------------------

function lowerResult(
  message: ToolMessage,
  apart: boolean,
  at: number,
  ids: CallIds,
  context: InputContext,
): JsonObject {
  const content = apart
    ? message.content.filter((part) => part.kind === 'text' || part.kind === 'refusal')
    : message.content
  return {
    type: 'function_call_output',
    call_id: ids.answerCall(message.toolCallId),
    output: lowerOutput(content, at, context),
  }
}

function lowerOutput(
  parts: readonly ContentPart[],
  at: number,
  context: InputContext,
): string | JsonObject[] {
  if (parts.some((part) => part.kind !== 'text' && part.kind !== 'refusal')) {
    return parts.map((part) => {
      if (part.kind === 'audio') return refuse(context, at, 'audio in a tool result')
      return inputPart(part, at, context)
    })
  }
  return parts
    .map((part) => (part.kind === 'text' || part.kind === 'refusal' ? part.text : ''))
    .filter((text) => text !== '')
    .join('\n')
}

/**
 * Makes call ids unique within the input: some providers number them anew in each answer (`call_0`), and a result
 * could belong to either of two calls with the same id. A result belongs to the latest call with its id.
 */
class CallIds {
  readonly #written = new Map<string, string>()
  readonly #taken = new Set<string>()
  readonly #names = new FreeNames()

  openCall(id: string): string {
    const isTaken = (written: string) => this.#taken.has(written)
    const written = isTaken(id) ? this.#names.of(id, (turn) => `${id}_${turn}`, isTaken) : id
    this.#taken.add(written)
    this.#written.set(id, written)
    return written
  }

  answerCall(id: string): string {
    return this.#written.get(id) ?? id
  }
}

// ---- parts ------------------------------------------------------------------------------------------------

/** Plain text stays a string, which every server accepts; anything else becomes parts. */
function lowerContent(
  parts: readonly ContentPart[],
  at: number,
  context: InputContext,
): string | JsonObject[] {
  const spoken = parts.filter((part) => part.kind !== 'text' || part.text !== '')
  const [only] = spoken
  if (only === undefined) return ''
  if (spoken.length === 1 && only.kind === 'text') return only.text
  return spoken.map((part) => inputPart(part, at, context))
}

function inputPart(part: ContentPart, at: number, context: InputContext): JsonObject {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return { type: 'input_text', text: part.text }
    case 'image':
      return {
        type: 'input_image',
        ...(part.source.kind === 'provider-file'
          ? { file_id: part.source.id }
          : { image_url: urlOf(part.source) }),
        ...(part.detail === undefined ? {} : { detail: part.detail }),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: part.data, format: part.format } }
    case 'file':
      return filePart(part)
    case 'video':
      return refuse(context, at, 'a video')
  }
}

function filePart(part: Extract<ContentPart, { kind: 'file' }>): JsonObject {
  const { source } = part
  switch (source.kind) {
    case 'provider-file':
      return { type: 'input_file', file_id: source.id }
    case 'url':
      return { type: 'input_file', file_url: source.url }
    case 'base64':
      // OpenAI refuses file data without a name.
      return { type: 'input_file', filename: part.filename ?? 'file', file_data: urlOf(source) }
  }
}

function urlOf(source: Exclude<MediaSource, { kind: 'provider-file' }>): string {
  return source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.data}`
}

function refuse(context: InputContext, at: number, what: string): never {
  throw new GatewayError('unsupported_parameter', {
    message: `The provider ${context.provider} cannot be given ${what}.`,
    param: `messages[${at}].content`,
    provider: context.provider,
  })
}
