// Translates a chat request to Ollama's own chat API.

import type { ChatRequest, ContentPart, Json, JsonObject, Message } from '../../conversation/request.ts'
import { isObject } from '../json.ts'
import {
  argumentsObject,
  withoutUndefined,
  functionTool,
  isPlain,
  allowedFunctions,
  toolOffer,
  passedOn,
  plainReasoning,
  refuse,
  refusePart,
  linesOf,
  textOf,
  threeEfforts,
  unknownLabels,
  type Warn,
  warnInto,
  warnOfForeignReasoning,
  warnOfName,
  warnOfUnknown,
} from '../lowering.ts'
import type { LoweredRequest, Target, Warning } from '../protocol.ts'
import { defaultQuirks, type OllamaQuirks } from './schema.ts'

/** Ollama's own fields, passed on unchanged; `options` is merged with the options set here. */
const ownFields = new Set(['keep_alive', 'options', 'truncate', 'shift', 'think'])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1 and media that Ollama does not
 * accept, `invalid_request` for a choice of an unknown tool. `warnings` name what was dropped.
 */
export function lower(request: ChatRequest, target: Target<OllamaQuirks>): LoweredRequest {
  const { sampling } = request
  refuse({ n: (sampling.n ?? 1) > 1 })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const { options: own, ...rest } = passedOn(request.rest, ownFields, warn)
  const options = {
    ...clientOptions(own, warn),
    ...optionsOf(request, warn),
    ...quirks.options,
    ...boundOf(request),
  }
  const body: JsonObject = {
    model: target.model,
    messages: messagesOf(request.messages, warn),
    ...toolsOf(request, warn),
    ...formatOf(request),
    ...(Object.keys(options).length === 0 ? {} : { options }),
    ...thinkOf(request, target, quirks, warn),
    ...(sampling.logprobs === true ? { logprobs: true } : {}),
    ...(sampling.topLogprobs === undefined ? {} : { top_logprobs: sampling.topLogprobs }),
    ...rest,
    truncate: quirks.truncate ?? rest.truncate ?? false,
    stream: request.stream,
  }
  warnOfUnknown({ ...unknownLabels(request), logit_bias: sampling.logitBias }, warn)
  return { path: '/api/chat', headers: {}, body, warnings }
}

// ---- messages ---------------------------------------------------------------------------------------------

function messagesOf(messages: readonly Message[], warn: Warn): JsonObject[] {
  // Ollama identifies results by tool name, which a client's result does not contain.
  const names = new Map<string, string>()
  return messages.map((message, index): JsonObject => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        return { role: 'system', content: linesOf(message.content, `${param}.content`) }
      case 'user':
        return userMessage(message.content, `${param}.content`)
      case 'assistant': {
        for (const call of message.toolCalls) names.set(call.id, call.name)
        const thinking = plainReasoning(message.reasoning)
        warnOfForeignReasoning(message.reasoning, isPlain, param, warn)
        return {
          role: 'assistant',
          content: textOf(message.content, `${param}.content`),
          ...(thinking === '' ? {} : { thinking }),
          ...(message.toolCalls.length === 0
            ? {}
            : {
                tool_calls: message.toolCalls.map(({ id, name, arguments: json }) => ({
                  id,
                  function: { name, arguments: argumentsObject(json, `${param}.tool_calls`, warn) },
                })),
              }),
        }
      }
      case 'tool': {
        const name = names.get(message.toolCallId)
        return {
          role: 'tool',
          content: linesOf(message.content, `${param}.content`),
          ...(name === undefined ? {} : { tool_name: name }),
          tool_call_id: message.toolCallId,
        }
      }
      default:
        return message satisfies never
    }
  })
}

/** All text joined, with the images as bare base64. */
function userMessage(parts: readonly ContentPart[], param: string): JsonObject {
  const words: string[] = []
  const images: string[] = []
  for (const part of parts) {
    if (part.kind === 'text' || part.kind === 'refusal') words.push(part.text)
    else images.push(imageData(part, param))
  }
  return { role: 'user', content: words.join('\n'), ...(images.length === 0 ? {} : { images }) }
}

function imageData(part: ContentPart, param: string): string {
  const carries = part.kind === 'image' || part.kind === 'file'
  if (!carries || part.source.kind !== 'base64') return refusePart(part, param, 'text and images')
  if (part.kind === 'file' && !part.source.mediaType.startsWith('image/')) {
    return refusePart(part, param, 'text and images')
  }
  return part.source.data
}

// ---- tools, format, options -------------------------------------------------------------------------------

function toolsOf(request: ChatRequest, warn: Warn): JsonObject {
  const offer = toolOffer(request)
  const { choice } = offer
  const tools = allowedFunctions(offer)
  // `none` means offering no tools; Ollama cannot force a call.
  if (tools.length === 0 || choice === 'none') return {}
  if (choice === 'required')
    warn('tool_choice', 'The provider cannot make a model call a tool; it decides by itself.')
  if (request.parallelToolCalls === false) {
    warn('parallel_tool_calls', 'This model may always call several tools at once; dropped.')
  }
  if (tools.some((tool) => tool.strict === true)) {
    warn('tools.strict', 'The provider does not enforce schemas of tools; dropped.')
  }
  return { tools: tools.map(functionTool) }
}

function formatOf({ responseFormat: format }: ChatRequest): JsonObject {
  if (format === undefined || format.kind === 'text') return {}
  return { format: format.kind === 'json-object' ? 'json' : format.schema }
}

/** The client's own options, except for the token limit: the hold is based on `max_tokens`. */
function clientOptions(own: Json | undefined, warn: Warn): JsonObject {
  const { num_predict: bound, ...options }: JsonObject = isObject(own) ? own : {}
  if (bound !== undefined) warn('options.num_predict', 'The answer is bounded by max_tokens; dropped.')
  return options
}

function boundOf({ maxOutputTokens }: ChatRequest): JsonObject {
  return maxOutputTokens === undefined ? {} : { num_predict: maxOutputTokens }
}

function optionsOf({ sampling }: ChatRequest, warn: Warn): JsonObject {
  const { temperature, topP, topK, minP, seed, stop } = sampling
  if (sampling.topLogprobs !== undefined && sampling.logprobs !== true) {
    warn('top_logprobs', 'Without logprobs it has no effect.')
  }
  return withoutUndefined({
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    seed,
    stop: stop === undefined || stop.length === 0 ? undefined : [...stop],
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
  })
}

function thinkOf(
  { reasoning }: ChatRequest,
  target: Target<OllamaQuirks>,
  quirks: OllamaQuirks,
  warn: Warn,
): JsonObject {
  if (reasoning === undefined) return {}
  if (reasoning.maxTokens !== undefined && reasoning.maxTokens > 0) {
    warn('reasoning.max_tokens', 'The provider cannot bound thinking by tokens; dropped.')
  }
  if (reasoning.exclude === true) warn('reasoning.exclude', 'The provider always shows what a model thinks.')
  if (reasoning.effort === 'none' || reasoning.enabled === false || reasoning.maxTokens === 0) {
    return { think: false }
  }
  const leveled = new RegExp(quirks.levels, 'i').test(target.model)
  return { think: leveled ? (threeEfforts[reasoning.effort ?? ''] ?? true) : true }
}
