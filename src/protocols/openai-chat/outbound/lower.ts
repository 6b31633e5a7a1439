// Builds the request for a provider of chat completions, in the dialect of its row.

import type { ChatRequest, JsonObject, Message } from '../../../conversation/request.ts'
import { warnInto, warnOfName } from '../../lowering.ts'
import type { LoweredRequest, Target, Warning } from '../../protocol.ts'
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
  const messages = lowerMessages(instructed(request.messages, format.instruction), {
    quirks,
    provider: target.provider,
    reasons: target.reasoning,
    signatureOf: target.rememberedSignature,
  })

  const asked: JsonObject = {
    ...rest.fields,
    ...sampling.fields,
    ...reasoning.fields,
    ...lowerTools(request, quirks),
    ...searchFields(request, quirks),
    ...format.fields,
  }
  // Fields that the hold depends on, or that the gateway needs to read the answer: the client's values do not count.
  const ours: JsonObject = {
    model: target.model,
    messages,
    ...(request.maxOutputTokens === undefined ? {} : { [quirks.maxTokensField]: request.maxOutputTokens }),
    ...streaming(request.stream, quirks),
  }
  return {
    path: '/chat/completions',
    headers: {},
    body: { ...asked, ...quirks.bodyExtras, ...ours },
    warnings: [
      ...sampling.warnings,
      ...reasoning.warnings,
      ...format.warnings,
      ...rest.warnings,
      ...(quirks.messageNames ? [] : lostNames(request.messages)),
    ],
  }
}

function lostNames(messages: readonly Message[]): readonly Warning[] {
  const warnings: Warning[] = []
  for (const [at, message] of messages.entries()) warnOfName(message, `messages[${at}]`, warnInto(warnings))
  return warnings
}

/** Usage is always requested: without it a stream could only be charged by estimate. */
function streaming(stream: boolean, quirks: OpenAIChatQuirks): JsonObject {
  if (!stream) return { stream: false }
  return { stream: true, ...(quirks.streamOptions ? { stream_options: { include_usage: true } } : {}) }
}

/** The messages with another instruction after the leading system messages. */
function instructed(messages: readonly Message[], instruction: string | undefined): readonly Message[] {
  if (instruction === undefined) return messages
  const firstTurn = messages.findIndex((message) => message.role !== 'system' && message.role !== 'developer')
  const at = firstTurn < 0 ? messages.length : firstTurn
  const added: Message = { role: 'system', content: [{ kind: 'text', text: instruction, cache: undefined }] }
  return [...messages.slice(0, at), added, ...messages.slice(at)]
}
