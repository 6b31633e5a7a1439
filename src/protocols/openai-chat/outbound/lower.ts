// Builds the request for a provider of chat completions, in the dialect of its row.

import type { ChatRequest, JsonObject, Message } from '../../../conversation/request.ts'
import { warnInto, warnOfName } from '../../lowering.ts'
import { joinWarnings, type LoweredRequest, type Warning } from '../../lowered-request.ts'
import type { Target } from '../../protocol.ts'
import { type OpenAIChatQuirks } from './quirks.ts'
import { lowerMessages } from './messages.ts'
import { lowerResponseFormat, lowerTools } from './parameters.ts'
import { searchFields } from './web-search.ts'
import { lowerReasoning } from '../../openai/reasoning.ts'
import { lowerRest, lowerSampling, refuseUnsupported } from '../../openai/parameters.ts'

export function lower(request: ChatRequest, target: Target<OpenAIChatQuirks>): LoweredRequest {
  const { quirks } = target
  refuseUnsupported(request, target)
  const sampling = lowerSampling(request, target)
  const reasoning = lowerReasoning(request, target)
  const format = lowerResponseFormat(request.responseFormat, target)
  const rest = lowerRest(request.rest, target)
  const messages = lowerMessages(withInstruction(request.messages, format.instruction), target)
  const body: JsonObject = {}
  Object.assign(body, rest.fields, sampling.fields, reasoning.fields)
  Object.assign(body, lowerTools(request, quirks), searchFields(request, quirks), format.fields)
  Object.assign(body, quirks.bodyExtras)
  // Fields that the hold depends on, or that the gateway needs to read the answer: the client's values do not count.
  body.model = target.model
  body.messages = messages
  if (request.maxOutputTokens !== undefined) body[quirks.maxTokensField] = request.maxOutputTokens
  body.stream = request.stream
  // Usage is always requested: without it a stream could only be charged by estimate.
  if (request.stream && quirks.streamOptions) body.stream_options = { include_usage: true }
  const asked = joinWarnings(
    joinWarnings(sampling.warnings, reasoning.warnings),
    joinWarnings(format.warnings, rest.warnings),
  )
  return {
    path: '/chat/completions',
    headers: noHeaders,
    body,
    warnings: quirks.messageNames ? asked : joinWarnings(asked, lostNames(request.messages)),
  }
}

const noHeaders: Readonly<Record<string, string>> = {}

function lostNames(messages: readonly Message[]): readonly Warning[] {
  const warnings: Warning[] = []
  for (const [at, message] of messages.entries()) warnOfName(message, `messages[${at}]`, warnInto(warnings))
  return warnings
}

/** The messages with another instruction after the leading system messages. */
function withInstruction(messages: readonly Message[], instruction: string | undefined): readonly Message[] {
  if (instruction === undefined) return messages
  const firstTurn = messages.findIndex((message) => message.role !== 'system' && message.role !== 'developer')
  const at = firstTurn < 0 ? messages.length : firstTurn
  const added: Message = { role: 'system', content: [{ kind: 'text', text: instruction, cache: undefined }] }
  return [...messages.slice(0, at), added, ...messages.slice(at)]
}
