// The parts of a provider's message or delta that deviate from the wire contract, mended. Unknown fields stay.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'
import type { AnswerContext } from '../../protocol.ts'
import { reasoningPartText } from '../outbound/reasoning.ts'

/** A message or delta taken apart: text fields are empty where there are none, `fields` is what is left. */
export interface Mended {
  readonly text: string
  readonly refusal: string
  readonly reasoning: string
  readonly details: readonly Json[]
  readonly toolCalls: readonly Json[]
  /** Everything else that is set, unknown fields included. */
  readonly fields: JsonObject
}

/**
 * Takes a message or delta apart. Reasoning under `reasoning` and in content parts becomes `reasoning`; reasoning
 * without details gets one, and details without text give theirs, so that clients of either find it.
 */
export function mend(message: JsonObject): Mended {
  const { content, refusal, tool_calls, function_call } = message
  const { reasoning, reasoning_content, reasoning_details } = message
  const split = splitContent(content)
  const given = text(reasoning_content) || text(reasoning) || split.reasoning
  const details = Array.isArray(reasoning_details) ? reasoning_details : none
  const calls = Array.isArray(tool_calls) ? tool_calls : none
  return {
    text: split.text,
    refusal: text(refusal),
    reasoning: given || readableIn(details),
    details:
      details.length === 0 && given !== ''
        ? [{ type: 'reasoning.text', format: null, index: 0, text: given }]
        : details,
    toolCalls: isObject(function_call) ? [...calls, { index: 0, function: function_call }] : calls,
    fields: othersOf(message, split),
  }
}

const none: readonly Json[] = []

/** What `mend` writes under names of its own, or not at all: to set `__proto__` would be to change the prototype. */
const mendedFields: ReadonlySet<string> = new Set([
  '__proto__',
  'role',
  'content',
  'refusal',
  'tool_calls',
  'function_call',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
])

function othersOf(message: JsonObject, { images, others }: SplitContent): JsonObject {
  const fields: JsonObject = {}
  for (const name in message) {
    const value = message[name]!
    if (value !== null && !mendedFields.has(name)) fields[name] = value
  }
  // A provider's own kind of `reasoning` or part is not ours to judge: it stays where it can be found.
  if (isObject(message['reasoning'])) fields['reasoning'] = message['reasoning']
  if (images.length > 0) fields['images'] = [...images]
  if (others.length > 0) fields['content_parts'] = [...others]
  return fields
}

const ownFields: ReadonlySet<string> = new Set([
  '__proto__',
  'id',
  'object',
  'created',
  'model',
  'choices',
  'usage',
])

/** The choices of a chunk or an answer, and the fields we have no word for; the others are ours to write. */
export function fieldsOf(body: JsonObject): { choices: Json | undefined; unknown: JsonObject } {
  return { choices: body['choices'], unknown: withUnknown({}, body) }
}

/** Adds the fields of a provider's body that we have no word for. */
export function withUnknown(target: JsonObject, body: JsonObject): JsonObject {
  for (const name in body) if (!ownFields.has(name)) target[name] = body[name]!
  return target
}

/** A choice's own index, or its position where a provider sent none. */
export function indexOf(given: Json | undefined, position: number): number {
  return typeof given === 'number' && Number.isSafeInteger(given) && given >= 0 ? given : position
}

/** The id of a tool call whose provider gave it none: the same whenever the answer is read again. */
export function mintedId({ id }: AnswerContext, choice: number, call: number): string {
  const stem = id.replace(/[^a-zA-Z0-9]/g, '').slice(-20)
  return `call_${stem}_${choice}_${call}`
}

interface SplitContent {
  readonly text: string
  readonly reasoning: string
  readonly images: readonly Json[]
  readonly others: readonly Json[]
}

/** Content is text; some send lists, in which thinking (Mistral, Databricks) and references stand beside it. */
function splitContent(content: Json | undefined): SplitContent {
  if (!Array.isArray(content)) return { text: text(content), reasoning: '', images: none, others: none }
  const split = { text: '', reasoning: '', images: [] as Json[], others: [] as Json[] }
  for (const part of content) {
    if (typeof part === 'string') split.text += part
    else if (!isObject(part)) split.others.push(part)
    else if (part['type'] === 'thinking' || part['type'] === 'reasoning')
      split.reasoning += reasoningPartText(part)
    else if (part['type'] === 'image_url') split.images.push(part)
    else if (typeof part['text'] === 'string') split.text += part['text']
    else split.others.push(part)
  }
  return split
}

function readableIn(details: readonly Json[]): string {
  let readable = ''
  for (const detail of details)
    if (isObject(detail)) readable += text(detail['text']) || text(detail['summary'])
  return readable
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}
