// Translates a validated chat-completions body into a conversation, on demand.

import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  Json,
  JsonObject,
  Labels,
  Message,
  Reasoning,
  ReasoningDetail,
  ResponseFormat,
  Sampling,
  ToolCall,
} from '../../../conversation/request.ts'
import { present } from '../../json.ts'
import { restFields } from '../../openai/quirks.ts'
import { roundsOf, withAsked } from '../../openai/gateway-runs.ts'
import { readContent } from './read-content.ts'
import { chatCompletionRequest, type ChatCompletionRequest, type WireMessage } from './schema.ts'
import { Approvals } from '../../request/approvals.ts'
import { placedRuns, readGatewayTools, readToolChoice, readTools } from './tools.ts'
import { gatewayFields } from '../../request/gateway-fields.ts'

type WireAssistant = Extract<WireMessage, { role: 'assistant' }>

/** Takes a body that `chatCompletionRequest` accepts. Throws GatewayError for an invalid `data:` URL. */
export function readRequest(body: ChatCompletionRequest): ChatRequest {
  return {
    messages: readMessages(body),
    tools: readTools(body),
    toolChoice: readToolChoice(body),
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    maxOutputTokens: maxOutputTokens(body),
    sampling: readSampling(body),
    reasoning: readReasoning(body),
    responseFormat: readResponseFormat(body.response_format),
    stream: body.stream === true,
    labels: readLabels(body),
    rest: readRest(body),
  }
}

export function maxOutputTokens(body: ChatCompletionRequest): number | undefined {
  return body.max_completion_tokens ?? body.max_tokens ?? undefined
}

// ---- messages ---------------------------------------------------------------------------------------------

function readMessages(body: ChatCompletionRequest): Message[] {
  const { messages } = body
  const declares = readGatewayTools(body) !== undefined
  const approvals = declares ? new Approvals(placedRuns(body)) : undefined
  // The legacy function role has names instead of ids; a generated id links each result to the latest call of its
  // name.
  const legacyIds = new Map<string, string>()
  return messages.flatMap((message, i): Message | readonly Message[] => {
    const param = `messages[${i}].content`
    switch (message.role) {
      case 'system':
      case 'developer':
      case 'user':
        return {
          role: message.role,
          content: readContent(message.content, message.cache_control, param),
          ...named(message.name),
        }
      case 'assistant':
        if (message.function_call != null) legacyIds.set(message.function_call.name, `call_legacy_${i}`)
        return readTurn(message, `call_legacy_${i}`, param, approvals)
      case 'tool':
        return {
          role: 'tool',
          toolCallId: message.tool_call_id,
          content: readContent(message.content, message.cache_control, param),
          isError: message.is_error === true,
        }
      case 'function':
        return {
          role: 'tool',
          toolCallId: legacyIds.get(message.name) ?? `call_legacy_${i}`,
          content: readContent(message.content, undefined, param),
          isError: false,
        }
      default:
        return message satisfies never
    }
  })
}

function named(name: string | null | undefined): { name?: string } {
  return name == null || name === '' ? {} : { name }
}

/**
 * What the gateway's tools did in a turn is of use where such tools are declared (`approvals` is there then); providers
 * refuse calls of others.
 */
function readTurn(
  message: WireAssistant,
  legacyId: string,
  param: string,
  approvals: Approvals | undefined,
): readonly Message[] {
  const turn = readAssistant(message, legacyId, param)
  const entries = [...(message.web_search_calls ?? []), ...(message.mcp_calls ?? [])] as JsonObject[]
  if (!approvals || entries.length === 0) return [turn]
  const asked = entries
    .filter(({ type }) => type === 'mcp_approval_request')
    .flatMap((request) => approvals.asked(request.id) ?? [])
  return withAsked(roundsOf(turn, entries), asked)
}

function readAssistant(message: WireAssistant, legacyId: string, param: string): AssistantMessage {
  const content: ContentPart[] = readContent(message.content, message.cache_control, param)
  if (message.refusal != null && message.refusal !== '')
    content.push({ kind: 'refusal', text: message.refusal })
  if (message.images != null) content.push(...readContent(message.images, undefined, param))
  return {
    role: 'assistant',
    content,
    reasoning: readReasoningDetails(message),
    toolCalls: readToolCalls(message, legacyId),
    ...named(message.name),
  }
}

function readToolCalls(message: WireAssistant, legacyId: string): ToolCall[] {
  const calls = (message.tool_calls ?? []).map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: call.function.arguments === '' ? '{}' : call.function.arguments,
    thoughtSignature: call.extra_content?.google?.thought_signature ?? undefined,
  }))
  const legacy = message.function_call
  if (legacy == null) return calls
  const args = legacy.arguments === '' ? '{}' : legacy.arguments
  return [...calls, { id: legacyId, name: legacy.name, arguments: args, thoughtSignature: undefined }]
}

/** Ordered details are passed on unchanged; a client that kept only the text sends one detail of unknown origin. */
function readReasoningDetails(message: WireAssistant): ReasoningDetail[] {
  const details = message.reasoning_details ?? []
  if (details.length > 0) {
    return details.map(({ summary, data, ...detail }, i) => ({
      ...detail,
      format: detail.format ?? null,
      index: detail.index ?? i,
      ...(summary == null ? {} : { summary }),
      ...(data == null ? {} : { data }),
    }))
  }
  // Some providers' `reasoning` field of an answer is returned with the message.
  const text = message.reasoning_content ?? (typeof message.reasoning === 'string' ? message.reasoning : '')
  return text === '' ? [] : [{ type: 'reasoning.text', format: null, index: 0, text }]
}

// ---- settings ---------------------------------------------------------------------------------------------

function readSampling(body: ChatCompletionRequest): Sampling {
  return present<Sampling>({
    temperature: body.temperature,
    topP: body.top_p,
    topK: body.top_k,
    minP: body.min_p,
    frequencyPenalty: body.frequency_penalty,
    presencePenalty: body.presence_penalty,
    repetitionPenalty: body.repetition_penalty,
    seed: body.seed,
    stop: typeof body.stop === 'string' ? [body.stop] : body.stop,
    logitBias: body.logit_bias,
    logprobs: body.logprobs,
    topLogprobs: body.top_logprobs,
    n: body.n,
  })
}

function readLabels(body: ChatCompletionRequest): Labels {
  return present<Labels>({
    user: body.user,
    safetyIdentifier: body.safety_identifier,
    promptCacheKey: body.prompt_cache_key,
    serviceTier: body.service_tier,
    metadata: body.metadata,
    store: body.store,
    verbosity: body.verbosity,
  })
}

/** `reasoning.effort` is the more explicit of the two forms and takes precedence. */
function readReasoning(body: ChatCompletionRequest): Reasoning | undefined {
  const reasoning = present<Reasoning>({
    effort: body.reasoning?.effort ?? body.reasoning_effort,
    maxTokens: body.reasoning?.max_tokens,
    enabled: body.reasoning?.enabled,
    exclude: body.reasoning?.exclude,
  })
  return Object.keys(reasoning).length === 0 ? undefined : reasoning
}

function readResponseFormat(format: ChatCompletionRequest['response_format']): ResponseFormat | undefined {
  if (format == null) return undefined
  switch (format.type) {
    case 'text':
      return { kind: 'text' }
    case 'json_object':
      return { kind: 'json-object' }
    case 'json_schema': {
      const { name, description, schema, strict } = format.json_schema
      return {
        kind: 'json-schema',
        name,
        description: description ?? undefined,
        schema: (schema ?? {}) as JsonObject,
        strict: strict ?? undefined,
      }
    }
    default:
      return format satisfies never
  }
}

// ---- everything else --------------------------------------------------------------------------------------

const keptInRest: ReadonlySet<string> = new Set(restFields)

/** Fields that are read above, or by the gateway only. */
const translated: ReadonlySet<string> = new Set([
  ...Object.keys(chatCompletionRequest.shape).filter((field) => !keptInRest.has(field)),
  ...gatewayFields,
])

function readRest(body: ChatCompletionRequest): JsonObject {
  const rest: JsonObject = {}
  for (const field in body) {
    const value = body[field]
    if (!translated.has(field) && value !== null && field !== '__proto__') rest[field] = value as Json
  }
  return rest
}
