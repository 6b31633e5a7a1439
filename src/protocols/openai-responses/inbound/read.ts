// Translates a checked Responses body into a conversation.

import type {
  ChatRequest,
  Json,
  JsonObject,
  Labels,
  Reasoning,
  ResponseFormat,
  Sampling,
} from '../../../conversation/request.ts'
import type { ClientFields, Placed } from '../../request/client-fields.ts'
import { present } from '../../json.ts'
import { readRouting } from '../../request/gateway-fields.ts'
import type { Envelope } from '../../protocol.ts'
import { readItems } from './items.ts'
import { type InputItem, type ResponsesRequest } from './schema.ts'
import { chatFields, readFields, silentFields } from './check.ts'
import { functionsOf, readGatewayTools, readTool, readToolChoice } from './tools.ts'
import { withoutOnline } from '../../request/gateway-declarations.ts'
import { isStrict } from './check.ts'

// ---- the gateway's own fields -----------------------------------------------------------------------------

export function envelopeOf(request: ResponsesRequest): Envelope {
  return {
    model: withoutOnline(request.model),
    fallbacks: (request.models ?? []).map(withoutOnline),
    stream: request.stream === true,
    // The protocol always ends with the usage.
    includeUsage: true,
    maxOutputTokens: request.max_output_tokens ?? undefined,
    n: 1,
    routing: readRouting(request.provider),
    maxCost: request.max_cost ?? undefined,
    sessionId: request.session_id ?? undefined,
    strict: isStrict(request),
    onDisconnect: request.on_disconnect ?? undefined,
  }
}

// ---- the conversation -------------------------------------------------------------------------------------

/** The request for all protocols; `items` are its whole input, `offset` of which are from earlier responses. */
export function chatRequest(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): ChatRequest {
  return {
    messages: messagesOf(request, items, offset).map(({ message }) => message),
    tools: functionsOf(request).map(readTool),
    toolChoice: readToolChoice(request),
    parallelToolCalls: request.parallel_tool_calls ?? undefined,
    maxOutputTokens: request.max_output_tokens ?? undefined,
    sampling: readSampling(request),
    reasoning: readReasoning(request),
    responseFormat: readFormat(request),
    stream: request.stream === true,
    labels: readLabels(request),
    rest: readRest(request),
  }
}

function messagesOf(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): readonly Placed[] {
  const { instructions } = request
  const said = readItems(items, offset, readGatewayTools(request) === undefined ? 'left-out' : 'read')
  if (instructions == null || instructions === '') return said
  const content = [{ kind: 'text', text: instructions, cache: undefined } as const]
  return [{ message: { role: 'system', content }, field: 'instructions' }, ...said]
}

/** Paths of fields in this protocol; `items` and `offset` as for `chatRequest`. */
export function fieldsOf(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): ClientFields {
  return { messages: () => messagesOf(request, items, offset).map(({ field }) => field), names }
}

const names: Readonly<Record<string, string>> = {
  messages: 'input',
  logprobs: 'include',
  max_tokens: 'max_output_tokens',
  response_format: 'text.format',
  verbosity: 'text.verbosity',
}

function readSampling(request: ResponsesRequest): Sampling {
  const logprobs = request.include?.includes('message.output_text.logprobs') === true
  return present<Sampling>({
    temperature: request.temperature,
    topP: request.top_p,
    topK: request.top_k,
    presencePenalty: request.presence_penalty,
    frequencyPenalty: request.frequency_penalty,
    logprobs: logprobs ? true : null,
    // Probabilities are sent only with this `include`.
    topLogprobs: logprobs ? request.top_logprobs : null,
  })
}

function readReasoning({ reasoning }: ResponsesRequest): Reasoning | undefined {
  const summary = reasoning?.summary ?? reasoning?.generate_summary
  const read = present<Reasoning>({
    effort: reasoning?.effort,
    maxTokens: reasoning?.max_tokens,
    exclude: summary == null ? null : summary === 'none',
    summary: summary === 'concise' || summary === 'detailed' ? summary : null,
  })
  return Object.keys(read).length === 0 ? undefined : read
}

function readFormat({ text }: ResponsesRequest): ResponseFormat | undefined {
  const format = text?.format
  switch (format?.type) {
    case undefined:
      return undefined
    case 'text':
      return { kind: 'text' }
    case 'json_object':
      return { kind: 'json-object' }
    case 'json_schema':
      return {
        kind: 'json-schema',
        name: format.name,
        description: format.description ?? undefined,
        schema: format.schema as JsonObject,
        strict: format.strict ?? undefined,
      }
  }
}

/** `metadata` and `store` are for the response that we store: no provider gets them. */
function readLabels(request: ResponsesRequest): Labels {
  return present<Labels>({
    user: request.user,
    safetyIdentifier: request.safety_identifier,
    promptCacheKey: request.prompt_cache_key,
    serviceTier: request.service_tier,
    verbosity: request.text?.verbosity,
  })
}

// ---- everything else --------------------------------------------------------------------------------------

/** Unknown fields. The provider's row decides whether they are passed on. */
function readRest(request: ResponsesRequest): JsonObject {
  const rest: JsonObject = {}
  for (const field in request) {
    const known = readFields.has(field) || chatFields.has(field) || silentFields.has(field)
    const value = request[field] as Json | undefined
    if ((!known || field === 'prompt_cache_retention') && value != null) rest[field] = value
  }
  return rest
}
