// A provider's whole chat.completion, mended to the wire contract; every unknown field stays.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors.ts'
import { define } from '../../../json/parse.ts'
import { isObject } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { callsState, wireAnnotation, wireWarnings } from '../../openai/message-fields.ts'
import { type CitationQuirks, defaultQuirks } from '../outbound/quirks.ts'
import { finishReasonOf, isReason } from '../../openai/finish.ts'
import { argumentText } from '../../openai/calls.ts'
import { indexOf, mend, mintedId, withUnknown } from './repair-message.ts'
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
  const sources = quirks.numberedCitations ? sourcesIn(body) : undefined
  const answer: JsonObject = {
    id: context.id,
    object: 'chat.completion',
    created: context.created,
    model: context.model,
    choices: repairChoices(body['choices'], context, sources ?? noSources),
  }
  withUnknown(answer, body)
  answer['usage'] = wireUsage(usage, bill)
  if (context.warnings.length > 0) Object.assign(answer, wireWarnings(context.warnings))
  return Object.assign(answer, context.extra)
}

const noSources: readonly Source[] = []

function repairChoices(
  sent: Json | undefined,
  context: AnswerContext,
  sources: readonly Source[],
): JsonObject[] {
  const choices: JsonObject[] = []
  for (const choice of Array.isArray(sent) ? sent : [])
    if (isObject(choice)) choices.push(repairChoice(choice, choices.length, context, sources))
  if (choices.length > 0) return choices
  throw new GatewayError('upstream_error', { message: 'The answer of the provider has no choices.' })
}

const choiceFields: ReadonlySet<string> = new Set(['index', 'message', 'finish_reason', 'logprobs'])

function repairChoice(
  choice: JsonObject,
  position: number,
  context: AnswerContext,
  sources: readonly Source[],
): JsonObject {
  const { message, finish_reason } = choice
  const index = indexOf(choice['index'], position)
  const mended = repairMessage(isObject(message) ? message : {}, index, context, sources)
  // A document that arrived whole has ended; only its word for it may be missing.
  const native = isReason(finish_reason) ? finish_reason : 'stop'
  const repaired: JsonObject = {
    index,
    message: mended,
    logprobs: choice['logprobs'] ?? null,
    finish_reason: finishReasonOf(native, stateOf(mended['tool_calls'])),
  }
  for (const name in choice) if (!choiceFields.has(name)) define(repaired, name, choice[name])
  return repaired
}

function repairMessage(
  message: JsonObject,
  choice: number,
  context: AnswerContext,
  sources: readonly Source[],
): JsonObject {
  const { text, refusal, reasoning, details, toolCalls, fields } = mend(message)
  const { annotations } = fields
  const calls = repairCalls(toolCalls, context, choice)
  const hasText = text !== '' || (message['content'] != null && calls.length === 0 && refusal === '')
  const mended: JsonObject = {
    role: 'assistant',
    content: hasText ? text : null,
    refusal: refusal === '' ? null : refusal,
    annotations: Array.isArray(annotations) ? annotations : citationsOf(text, sources).map(wireAnnotation),
  }
  if (reasoning !== '') mended['reasoning_content'] = reasoning
  if (details.length > 0) mended['reasoning_details'] = [...details]
  if (calls.length > 0) mended['tool_calls'] = calls
  for (const name in fields) if (name !== 'annotations') mended[name] = fields[name]!
  return mended
}

/** Two calls of one id could not be matched with their results: the second one gets an id of ours. */
function repairCalls(sent: readonly Json[], context: AnswerContext, choice: number): JsonObject[] {
  const calls: JsonObject[] = []
  if (sent.length === 0) return calls
  const taken = new Set<Json>()
  for (const call of sent) {
    if (!isObject(call)) continue
    const { id } = call
    const usable = typeof id === 'string' && id !== '' && !taken.has(id)
    const callId = usable ? id : mintedId(context, choice, calls.length)
    taken.add(callId)
    calls.push(repairCall(call, callId))
  }
  return calls
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

function stateOf(calls: Json | undefined): ReturnType<typeof callsState> {
  if (!Array.isArray(calls)) return 'none'
  return callsState(
    calls.map((call) =>
      isObject(call) && isObject(call.function) ? argumentText(call.function.arguments) : '',
    ),
  )
}

function nameText(name: Json | undefined): string {
  return typeof name === 'string' ? name : ''
}
