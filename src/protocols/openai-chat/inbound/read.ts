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
import { placedRuns, readToolChoice, readTools } from './tools.ts'
import { gatewayFields } from '../../request/gateway-fields.ts'

type WireAssistant = Extract<WireMessage, { role: 'assistant' }>

/**
 * Takes a body that `chatCompletionRequest` accepts. `runs`: whether calls of the gateway's tools in the history are of
 * use, because such tools are declared; providers refuse calls of others. Throws GatewayError for an invalid `data:` URL.
 */
export function readRequest(body: ChatCompletionRequest, runs: 'read' | 'left-out'): ChatRequest {
  const { sampling, labels, rest } = readFields(body)
  return {
    messages: readMessages(body, runs === 'read' ? new Approvals(placedRuns(body)) : undefined),
    tools: readTools(body),
    toolChoice: readToolChoice(body),
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    maxOutputTokens: maxOutputTokens(body),
    sampling,
    reasoning: readReasoning(body),
    responseFormat: readResponseFormat(body.response_format),
    stream: body.stream === true,
    labels,
    rest,
  }
}

export function maxOutputTokens(body: ChatCompletionRequest): number | undefined {
  return body.max_completion_tokens ?? body.max_tokens ?? undefined
}

// ---- messages ---------------------------------------------------------------------------------------------

function readMessages({ messages }: ChatCompletionRequest, approvals: Approvals | undefined): Message[] {
  const read: Message[] = []
  // The legacy function role has names instead of ids; a generated id links each result to the latest call of its
  // name.
  let legacyIds: Map<string, string> | undefined
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!
    switch (message.role) {
      case 'system':
      case 'developer':
      case 'user': {
        const { role } = message
        const content = readContent(message.content, message.cache_control, at)
        read.push(message.name ? { role, content, name: message.name } : { role, content })
        break
      }
      case 'assistant': {
        const legacy = message.function_call
        if (legacy != null) legacyIds = (legacyIds ?? new Map()).set(legacy.name, legacyId(at))
        const turn = readAssistant(message, at)
        if (approvals) read.push(...roundsIn(message, turn, approvals))
        else read.push(turn)
        break
      }
      case 'tool':
        read.push({
          role: 'tool',
          toolCallId: message.tool_call_id,
          content: readContent(message.content, message.cache_control, at),
          isError: message.is_error === true,
        })
        break
      case 'function':
        read.push({
          role: 'tool',
          toolCallId: legacyIds?.get(message.name) ?? legacyId(at),
          content: readContent(message.content, undefined, at),
          isError: false,
        })
        break
      default:
        message satisfies never
    }
  }
  return read
}

function legacyId(at: number): string {
  return `call_legacy_${at}`
}

/** A turn in the rounds it was made in, with what the gateway's tools did. */
function roundsIn(message: WireAssistant, turn: AssistantMessage, approvals: Approvals): readonly Message[] {
  const entries = [...(message.web_search_calls ?? []), ...(message.mcp_calls ?? [])] as JsonObject[]
  if (entries.length === 0) return [turn]
  const asked = entries
    .filter(({ type }) => type === 'mcp_approval_request')
    .flatMap((request) => approvals.askedCall(request.id) ?? [])
  return withAsked(roundsOf(turn, entries), asked)
}

function readAssistant(message: WireAssistant, at: number): AssistantMessage {
  const content: ContentPart[] = readContent(message.content, message.cache_control, at)
  if (message.refusal != null && message.refusal !== '')
    content.push({ kind: 'refusal', text: message.refusal })
  if (message.images != null) content.push(...readContent(message.images, undefined, at))
  const reasoning = readReasoningDetails(message)
  const turn = { role: 'assistant', content, reasoning, toolCalls: readToolCalls(message, at) } as const
  return message.name ? { ...turn, name: message.name } : turn
}

function readToolCalls(message: WireAssistant, at: number): ToolCall[] {
  const calls = (message.tool_calls ?? []).map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: call.function.arguments === '' ? '{}' : call.function.arguments,
    thoughtSignature: call.extra_content?.google?.thought_signature ?? undefined,
  }))
  const legacy = message.function_call
  if (legacy == null) return calls
  const args = legacy.arguments === '' ? '{}' : legacy.arguments
  return [...calls, { id: legacyId(at), name: legacy.name, arguments: args, thoughtSignature: undefined }]
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

/** `reasoning.effort` is the more explicit of the two forms and takes precedence. */
function readReasoning(body: ChatCompletionRequest): Reasoning | undefined {
  if (body.reasoning == null && body.reasoning_effort == null) return undefined
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

// ---- fields without a shape of their own --------------------------------------------------------------------

const samplingFields = {
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  min_p: 'minP',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  repetition_penalty: 'repetitionPenalty',
  seed: 'seed',
  stop: 'stop',
  logit_bias: 'logitBias',
  logprobs: 'logprobs',
  top_logprobs: 'topLogprobs',
  n: 'n',
} as const satisfies { readonly [field: string]: keyof Sampling }

const labelFields = {
  user: 'user',
  safety_identifier: 'safetyIdentifier',
  prompt_cache_key: 'promptCacheKey',
  service_tier: 'serviceTier',
  metadata: 'metadata',
  store: 'store',
  verbosity: 'verbosity',
} as const satisfies { readonly [field: string]: keyof Labels }

const keptInRest: ReadonlySet<string> = new Set(restFields)

interface Place {
  readonly in: 'sampling' | 'labels' | 'elsewhere'
  readonly as: string
}

/** Where each field goes; those that are read above, or by the gateway only, go elsewhere, and all others to `rest`. */
const places: ReadonlyMap<string, Place> = new Map<string, Place>([
  ...[...Object.keys(chatCompletionRequest.shape), ...gatewayFields]
    .filter((field) => !keptInRest.has(field))
    .map((field) => [field, { in: 'elsewhere', as: field }] as const),
  ...Object.entries(samplingFields).map(([field, as]) => [field, { in: 'sampling', as }] as const),
  ...Object.entries(labelFields).map(([field, as]) => [field, { in: 'labels', as }] as const),
])

/** A null means that the field is not set. */
function readFields(body: ChatCompletionRequest): Pick<ChatRequest, 'sampling' | 'labels' | 'rest'> {
  let sampling: Record<string, unknown> | undefined
  let labels: Record<string, unknown> | undefined
  let rest: JsonObject | undefined
  for (const field in body) {
    const value = body[field]
    if (value == null || field === '__proto__') continue
    const place = places.get(field)
    if (place === undefined) (rest ??= {})[field] = value as Json
    else if (place.in === 'sampling') (sampling ??= {})[place.as] = field === 'stop' ? listOf(value) : value
    else if (place.in === 'labels') (labels ??= {})[place.as] = value
  }
  return { sampling: sampling ?? noFields, labels: labels ?? noFields, rest: rest ?? noFields }
}

/** Most requests set few fields. */
const noFields = Object.freeze({})

function listOf(stop: unknown): unknown {
  return typeof stop === 'string' ? [stop] : stop
}
