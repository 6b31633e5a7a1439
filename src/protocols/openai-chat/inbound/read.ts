// Translates a validated chat-completions body into a conversation, on demand.

import type { DeclaredTools, GatewayChoice, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  Reasoning,
  ReasoningDetail,
  ResponseFormat,
  ToolCall,
  ToolChoice,
} from '../../../conversation/request.ts'
import { present, isObject } from '../../lenient.ts'
import { clientTools } from '../../openai/client-tools.ts'
import { fileSource, mediaSource, roundsOf, withAsked } from '../../openai/messages.ts'
import { type ParameterPlace, parameterPlaces, readSchema } from '../../openai/parameters.ts'
import {
  Approvals,
  declarationOf,
  declaredTools,
  gatewayFields,
  gatewayPlaces,
  isOnline,
  type PlacedItem,
  searchDeclaration,
  selectorOf,
} from '../../request/gateway-tools.ts'
import {
  markLast,
  parts,
  readMark,
  readPartMark,
  type WireCacheControl,
  wordsAt,
} from '../../request/prompt-parts.ts'
import {
  chatCompletionRequest,
  type ChatCompletionRequest,
  type WireFunction,
  type WireCustom,
  type WireMessage,
  type WirePart,
} from './schema.ts'

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
  const calls = (message.tool_calls ?? []).map((call): ToolCall => {
    const mark = call.cache_control == null ? {} : { cache: readMark(call.cache_control)! }
    const thoughtSignature = call.extra_content?.google?.thought_signature ?? undefined
    if (call.type === 'custom') {
      const { name, input } = call.custom
      const form = { kind: 'custom', name } as const
      return { id: call.id, name, arguments: JSON.stringify({ input }), thoughtSignature, form, ...mark }
    }
    const { name, arguments: json } = call.function
    return { id: call.id, name, arguments: json === '' ? '{}' : json, thoughtSignature, ...mark }
  })
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
    case 'json_schema':
      return readSchema(format.json_schema)
    default:
      return format satisfies never
  }
}

// ---- fields without a shape of their own --------------------------------------------------------------------

const elsewhere: ParameterPlace = { in: 'request', as: '' }
const inRest: ParameterPlace = { in: 'rest', as: '' }

/** Where each field goes: those read above, or by the gateway only, are not looked at here, and unknown ones go to `rest`. */
const places: ReadonlyMap<string, ParameterPlace> = new Map([
  ...[...Object.keys(chatCompletionRequest.shape), ...gatewayFields].map(
    (field) => [field, elsewhere] as const,
  ),
  ...parameterPlaces,
])

/** A null means that the field is not set. */
function readFields(body: ChatCompletionRequest): Pick<ChatRequest, 'sampling' | 'labels' | 'rest'> {
  let sampling: Record<string, unknown> | undefined
  let labels: Record<string, unknown> | undefined
  let rest: JsonObject | undefined
  for (const field in body) {
    const value = body[field]
    if (value == null || field === '__proto__') continue
    const place = places.get(field) ?? inRest
    if (place.in === 'rest') (rest ??= {})[field] = value as Json
    else if (place.in === 'sampling')
      (sampling ??= {})[place.as] = field === 'stop' && typeof value === 'string' ? [value] : value
    else if (place.in === 'labels') (labels ??= {})[place.as] = value
  }
  return { sampling: sampling ?? noFields, labels: labels ?? noFields, rest: rest ?? noFields }
}

/** Most requests set few fields. */
const noFields = Object.freeze({})

// Reads message content of chat completions.

/** Reads content, a string or parts, of the message `at` this place. Throws GatewayError for an invalid `data:` URL. */
function readContent(
  content: string | readonly WirePart[] | null | undefined,
  mark: WireCacheControl,
  at: number,
): ContentPart[] {
  if (content == null) return []
  const parts =
    typeof content === 'string'
      ? readText(content)
      : content.map((part, i) => readPart(part, `messages[${at}].content[${i}]`))
  // A mark on the message applies to its last part that can carry one.
  return mark == null ? parts : markLast(parts, readMark(mark)!)
}

function readText(text: string): ContentPart[] {
  return text === '' ? [] : [{ kind: 'text', text, cache: undefined }]
}

/** `extra_content.google`, where Google's compatible endpoint has what it adds to the protocol. */
function googleMembersOf(part: WirePart): { readonly google?: JsonObject } {
  const extra = 'extra_content' in part ? part.extra_content : undefined
  return isObject(extra) && isObject(extra['google']) ? { google: extra['google'] } : {}
}

function readPart(part: WirePart, param: string): ContentPart {
  switch (part.type) {
    case 'text':
      return { kind: 'text', text: part.text, cache: readPartMark(part) }
    case 'refusal':
      return { kind: 'refusal', text: part.refusal }
    case 'image_url':
      return {
        kind: 'image',
        source: mediaSource(part.image_url.url, `${param}.image_url.url`),
        detail: part.image_url.detail ?? undefined,
        cache: readPartMark(part),
        ...googleMembersOf(part),
      }
    case 'input_audio':
      return {
        kind: 'audio',
        format: part.input_audio.format,
        data: part.input_audio.data,
        ...googleMembersOf(part),
      }
    case 'file':
      return {
        kind: 'file',
        source: fileSource(part.file, `${param}.file`),
        filename: part.file.filename ?? undefined,
        cache: readPartMark(part),
        ...googleMembersOf(part),
      }
    case 'video_url':
      return {
        kind: 'video',
        source: mediaSource(part.video_url.url, `${param}.video_url.url`),
        ...googleMembersOf(part),
      }
    default:
      return part satisfies never
  }
}

// The tools of a chat completions request, and the tool choice.

export function functionsOf(body: Pick<ChatCompletionRequest, 'tools'>): readonly WireFunction[] {
  return (body.tools ?? []).filter((tool): tool is WireFunction => tool.type === 'function')
}

function readTools(body: ChatCompletionRequest): FunctionTool[] {
  if (body.tools == null && body.functions == null) return []
  const legacy = (body.functions ?? []).map((definition) => ({
    function: definition,
    cache_control: undefined,
  }))
  const functions = [...functionsOf(body), ...legacy].map(({ function: definition, cache_control }) => ({
    name: definition.name,
    description: definition.description ?? undefined,
    parameters: definition.parameters == null ? undefined : (definition.parameters as JsonObject),
    strict: 'strict' in definition && typeof definition.strict === 'boolean' ? definition.strict : undefined,
    cache: readMark(cache_control),
  }))
  return [...functions, ...customsOf(body).map(readCustom)]
}

/** The tools whose argument is a text. */
export function customsOf(body: Pick<ChatCompletionRequest, 'tools'>): readonly WireCustom[] {
  return (body.tools ?? []).filter((tool): tool is WireCustom => tool.type === 'custom')
}

function readCustom({ custom, cache_control }: WireCustom): FunctionTool {
  const { name, description, format } = custom
  const flat: JsonObject =
    format?.type === 'grammar'
      ? { format: { type: 'grammar', syntax: format.grammar.syntax, definition: format.grammar.definition } }
      : {}
  const tool: JsonObject = { type: 'custom', name, ...(description == null ? {} : { description }), ...flat }
  const offered = clientTools.custom.offer(tool)
  const form = { kind: 'custom', name, tool } as const
  return { name, ...offered, strict: undefined, cache: readMark(cache_control), form }
}

function readToolChoice(body: ChatCompletionRequest): ToolChoice | undefined {
  const choice = body.tool_choice ?? body.function_call
  if (choice == null) return undefined
  if (typeof choice === 'string') return { kind: choice }
  if ('allowed_tools' in choice && choice.type === 'allowed_tools') {
    const { mode, tools } = choice['allowed_tools'] as AllowedTools
    const names = tools.flatMap((tool) => chosenName(tool) ?? [])
    // If only gateway tools are allowed, they are listed separately.
    return names.length === 0 ? undefined : { kind: 'allowed', mode, names }
  }
  const name = chosenName(choice)
  if (name !== undefined) return { kind: 'function', name }
  if ('type' in choice) return undefined
  return { kind: 'function', name: (choice as { name: string }).name }
}

/** The name of a chosen tool that the client runs; undefined for a tool of the gateway. */
export function chosenName(choice: object): string | undefined {
  const { type, ...named } = choice as {
    type?: string
    function?: { name: string }
    custom?: { name: string }
  }
  return type === 'function' ? named.function?.name : type === 'custom' ? named.custom?.name : undefined
}

interface AllowedTools {
  readonly mode: 'auto' | 'required'
  readonly tools: readonly { readonly type: string }[]
}

// ---- tools of the gateway ---------------------------------------------------------------------------------

/** The declared gateway tools; undefined if there are none. */
export function readGatewayTools(body: ChatCompletionRequest): DeclaredTools | undefined {
  const history = placedRuns(body)
  const isAsked = isOnline(body.model)
  if (body.tools == null && body.web_search_options == null && !isAsked && history.length === 0)
    return undefined
  const declarations: ToolDeclaration[] = []
  for (const [at, tool] of (body.tools ?? []).entries()) {
    if (tool.type === 'function' || tool.type === 'custom') continue
    const declaration = declarationOf(tool as unknown as JsonObject, `tools[${at}]`)
    if (declaration !== undefined) declarations.push(declaration)
  }
  const searches = () => declarations.some(({ kind }) => kind === 'web-search')
  if (body.web_search_options != null && !searches())
    declarations.push(searchDeclaration(body.web_search_options as JsonObject, 'web_search_options'))
  if (isAsked && !searches()) declarations.push(searchDeclaration({}, 'model'))
  return declaredTools(declarations, {
    maxCalls: body.max_tool_calls ?? undefined,
    choice: gatewayChoice(body.tool_choice),
    history,
  })
}

const noRuns: readonly PlacedItem[] = []

/** The gateway tools' items in the history, each list after a mark of its message; none where no message has any. */
function placedRuns({ messages }: Pick<ChatCompletionRequest, 'messages'>): readonly PlacedItem[] {
  if (!messages.some(hasRuns)) return noRuns
  return messages.flatMap((message, at) => {
    if (message.role !== 'assistant') return []
    const entries = (message.mcp_calls ?? []).map((item, index) => ({
      item: item as JsonObject,
      param: `messages[${at}].mcp_calls[${index}]`,
    }))
    return [{ item: { type: 'message', role: 'assistant' }, param: `messages[${at}]` }, ...entries]
  })
}

function hasRuns(message: WireMessage): boolean {
  return message.role === 'assistant' && message.mcp_calls != null && message.mcp_calls.length > 0
}

function gatewayChoice(choice: ChatCompletionRequest['tool_choice']): GatewayChoice | undefined {
  if (choice == null || typeof choice === 'string' || chosenName(choice) !== undefined) return undefined
  if (choice.type === 'allowed_tools') {
    const { mode, tools } = choice['allowed_tools'] as AllowedTools
    const selectors = tools.flatMap((tool) => selectorOf({ ...tool }) ?? [])
    return selectors.length === 0 ? undefined : { mode, tools: selectors }
  }
  const only = selectorOf({ ...choice })
  return only && { mode: 'required', tools: [only] }
}

// Where addresses may be in the body of a chat completion or embeddings request.

const link = parts({ url: 'address', detail: 'words' }, { text: 'address' })

const contentPart = parts({
  ...wordsAt('type text refusal thinking signature'),
  image_url: link,
  video_url: link,
  input_audio: parts({ data: 'data', format: 'words' }),
  file: parts({ file_data: 'data', file_url: 'address', file_id: 'reference', filename: 'words' }),
  cache_control: 'words',
  prompt_cache_breakpoint: 'words',
})

const message = parts({
  ...wordsAt('role name'),
  content: contentPart,
  ...wordsAt('refusal tool_calls function_call tool_call_id reasoning reasoning_content reasoning_details'),
  // What an earlier answer read: nothing reads it again.
  ...wordsAt('annotations web_search_calls mcp_calls citations search_results'),
  images: parts({ type: 'words', image_url: link }),
  cache_control: 'words',
  prompt_cache_breakpoint: 'words',
})

/** Labels and sampling parameters of chat completions and embeddings. */
const words = wordsAt(
  'model stop functions function_call tool_choice response_format reasoning reasoning_effort modalities',
  'prediction logit_bias user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options',
  'service_tier metadata verbosity',
  // Schemas and grammars for servers of open models.
  'guided_json structured_outputs json_schema grammar',
)

export const addresses = parts({
  ...words,
  ...gatewayPlaces,
  messages: message,
  tools: parts({
    ...wordsAt('type function custom cache_control server_label server_name'),
    server_url: 'address',
    ...wordsAt('authorization headers allowed_tools require_approval'),
  }),
})

export const embeddingAddresses = parts({
  ...words,
  ...gatewayPlaces,
  ...wordsAt('input encoding_format'),
})
