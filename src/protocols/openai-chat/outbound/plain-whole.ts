// Reads the usual whole answer, one choice of plain text, without events.

import type { ChatResult } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject, nonEmpty } from '../../json.ts'
import type { OpenAIChatQuirks } from './quirks.ts'
import { failureOf, finishReasonOf, isReason } from '../../openai/finish.ts'
import { carriesError } from '../../openai/fault.ts'
import { usageIn } from '../../openai/upstream-usage.ts'

/** Fields that are empty in a plain answer; with any other field it is not plain. */
const emptyFields: ReadonlySet<string> = new Set([
  'refusal',
  'annotations',
  'audio',
  'images',
  'tool_calls',
  'function_call',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
])

const nothing: readonly never[] = []

/**
 * What the events of the same body would be collected to (`collect(wholeEvents(…))`), or undefined when only they can
 * tell: for failures, for several choices, and for a message that holds more than text.
 */
export function plainWhole(body: unknown, quirks: OpenAIChatQuirks): ChatResult | undefined {
  if (!isObject(body) || carriesError(body) || !Array.isArray(body.choices) || body.choices.length !== 1)
    return undefined
  const entry = body.choices[0]
  if (!isObject(entry) || isObject(entry.error) || entry.logprobs != null || !isFirst(entry.index))
    return undefined
  const text = plainText(entry.message)
  const native = isReason(entry.finish_reason) ? entry.finish_reason : 'stop'
  if (text === undefined || quirks.numberedCitations || (quirks.thinkTags && text.includes('<')))
    return undefined
  if (failureOf(native) !== undefined) return undefined
  return {
    id: nonEmpty(body.id),
    model: nonEmpty(body.model),
    choices: [
      {
        index: 0,
        text,
        refusal: null,
        reasoning: nothing,
        toolCalls: nothing,
        annotations: nothing,
        logprobs: null,
        audio: null,
        images: nothing,
        finish: finishReasonOf(native, 'none'),
        nativeFinish: native,
      },
    ],
    usage: usageIn(body, quirks),
    fault: undefined,
  }
}

/** An invalid index is replaced by the position. */
function isFirst(index: Json | undefined): boolean {
  return typeof index !== 'number' || index <= 0
}

/** The text of a message without anything else. */
function plainText(message: Json | undefined): string | undefined {
  if (!isObject(message) || typeof message.content !== 'string') return undefined
  for (const name in message) {
    if (name !== 'role' && name !== 'content' && !(emptyFields.has(name) && isEmpty(message, name)))
      return undefined
  }
  return message.content
}

function isEmpty(message: JsonObject, name: string): boolean {
  const value = message[name]
  return value === null || value === '' || (Array.isArray(value) && value.length === 0)
}
