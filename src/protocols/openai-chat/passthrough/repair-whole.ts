// A provider's whole chat.completion, mended to the wire contract; every unknown field stays.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { callsState, wireAnnotation, wireWarnings } from '../../openai/message-fields.ts'
import { type CitationQuirks, defaultQuirks } from '../outbound/quirks.ts'
import { finishReasonOf, isReason } from '../../openai/finish.ts'
import { argumentText } from './repair-calls.ts'
import { fieldsOf, indexOf, mend, mintedId } from './repair-message.ts'
import { citationsOf, type Source, sourcesIn } from '../outbound/sources.ts'
import { wireUsage } from '../../openai/usage.ts'

/**
 * The provider's answer under our id and model, with our usage and every required key. Throws `upstream_error`
 * for a body without choices: that is not an answer.
 */
export function repairWhole(
  body: JsonObject,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
  quirks: CitationQuirks = defaultQuirks,
): JsonObject {
  const { choices: sent, unknown } = fieldsOf(body)
  const choices = Array.isArray(sent) ? sent.filter(isObject) : []
  if (choices.length === 0) {
    throw new GatewayError('upstream_error', { message: 'The answer of the provider has no choices.' })
  }
  const sources = quirks.numberedCitations ? (sourcesIn(body) ?? []) : []
  return {
    id: context.id,
    object: 'chat.completion',
    created: context.created,
    model: context.model,
    choices: choices.map((choice, i) => repairChoice(choice, i, context, sources)),
    ...unknown,
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

function repairChoice(
  choice: JsonObject,
  position: number,
  context: AnswerContext,
  sources: readonly Source[],
): JsonObject {
  const { index: given, message, finish_reason, logprobs, ...unknown } = choice
  const index = indexOf(given, position)
  const mended = repairMessage(isObject(message) ? message : {}, index, context, sources)
  // A document that arrived whole has ended; only its word for it may be missing.
  const native = isReason(finish_reason) ? finish_reason : 'stop'
  return {
    index,
    message: mended,
    logprobs: logprobs ?? null,
    finish_reason: finishReasonOf(native, callsState(argumentsOf(mended['tool_calls']))),
    ...unknown,
  }
}

function repairMessage(
  message: JsonObject,
  choice: number,
  context: AnswerContext,
  sources: readonly Source[],
): JsonObject {
  const { text, refusal, reasoning, details, toolCalls, fields } = mend(message)
  const { annotations, ...others } = fields
  const calls = repairCalls(toolCalls.filter(isObject), (call) => mintedId(context, choice, call))
  const hasText = text !== '' || (message['content'] != null && calls.length === 0 && refusal === '')
  return {
    role: 'assistant',
    content: hasText ? text : null,
    refusal: refusal === '' ? null : refusal,
    annotations: Array.isArray(annotations) ? annotations : citationsOf(text, sources).map(wireAnnotation),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(details.length === 0 ? {} : { reasoning_details: [...details] }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...others,
  }
}

/** Two calls of one id could not be matched with their results: the second one gets an id of ours. */
function repairCalls(calls: readonly JsonObject[], mintId: (call: number) => string): JsonObject[] {
  const taken = new Set<Json>()
  return calls.map((call, at) => {
    const { id } = call
    const usable = typeof id === 'string' && id !== '' && !taken.has(id)
    const callId = usable ? id : mintId(at)
    taken.add(callId)
    return repairCall(call, callId)
  })
}

function repairCall(call: JsonObject, id: string): JsonObject {
  // In a whole message the position is the number: `index` belongs to deltas.
  const { index: _index, id: _id, type: _type, function: definition, ...unknown } = call
  const { name, arguments: args, ...more } = isObject(definition) ? definition : {}
  return {
    id,
    type: 'function',
    function: { name: nameText(name), arguments: argumentText(args) || '{}', ...more },
    ...unknown,
  }
}

function argumentsOf(calls: Json | undefined): string[] {
  if (!Array.isArray(calls)) return []
  return calls.map((call) =>
    isObject(call) && isObject(call.function) ? argumentText(call.function.arguments) : '',
  )
}

function nameText(name: Json | undefined): string {
  return typeof name === 'string' ? name : ''
}
