// Translates a checked Responses body into a conversation.

import type { DeclaredTools, GatewayChoice, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  Json,
  JsonObject,
  Labels,
  NativeItem,
  Reasoning,
  ResponseFormat,
  Sampling,
  ToolChoice,
} from '../../../conversation/request.ts'
import { serviceTierOf } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject, present } from '../../lenient.ts'
import { chatCompletionRequest } from '../../openai-chat/inbound/schema.ts'
import { refuseDropped, type Warning } from '../../lowering.ts'
import { callIdIn, isClientToolType, kindOfCall, kindOfResult } from '../../openai/client-tools.ts'
import type { Envelope } from '../../protocol.ts'
import { readSchema, reasoningContext } from '../../openai/parameters.ts'
import {
  bodyObject,
  type ClientFields,
  type FieldSchemas,
  invalidParam,
  invalidRequest,
  fitsByFields,
  type PlacedMessage,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import {
  declarationOf,
  declaredTools,
  fateOf,
  gatewayEnvelope,
  gatewayPlaces,
  isOnline,
  isStrict,
  type PlacedItem,
  searchDeclaration,
  selectorOf,
  toolRefused,
  withModel,
  withoutOnline,
} from '../../request/gateway-tools.ts'
import { parts } from '../../request/prompt-parts.ts'
import { readItems } from './items.ts'
import {
  declaredTool,
  type InputItem,
  inputItem,
  isKnown,
  isRun,
  kindOf,
  mostTools,
  namesOf,
  nativeTool,
  type OfferedClientTool,
  offeredTools,
  type PlacedTool,
  placedTools,
  readMembers,
  type ResponsesRequest,
  responsesRequest,
  toolsIn,
} from './schema.ts'

// ---- the gateway's own fields -----------------------------------------------------------------------------

export function envelopeOf(request: ResponsesRequest): Envelope {
  return {
    ...gatewayEnvelope(request),
    model: withoutOnline(request.model),
    fallbacks: (request.models ?? []).map(withoutOnline),
    stream: request.stream === true,
    // The protocol always ends with the usage.
    includeUsage: true,
    maxOutputTokens: request.max_output_tokens ?? undefined,
    n: 1,
    serviceTier: serviceTierOf(request.service_tier),
  }
}

// ---- the conversation -------------------------------------------------------------------------------------

/** The request for all protocols; `items` are its whole input, `offset` of which are from earlier responses. */
export function chatRequest(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): ChatRequest {
  const placed = placedTools(request, items, offset)
  const offered = offeredTools(placed)
  const { messages, native } = messagesOf(request, items, offset, placed, offered)
  const nativeTools = placed
    .filter(isHostedSearch)
    .map(({ tool }) => nativeTool(tool))
    .filter((tool) => tool !== undefined)
  return {
    messages: messages.map(({ message }) => message),
    tools: Array.from(offered.values(), (tool) => tool.offered),
    ...(native.length === 0 ? {} : { nativeItems: native }),
    ...(nativeTools.length === 0 ? {} : { nativeTools }),
    toolChoice: readToolChoice(request, placed),
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
  placed: readonly PlacedTool[],
  offered = offeredTools(placed),
): { readonly messages: readonly PlacedMessage[]; readonly native: readonly NativeItem[] } {
  const { instructions } = request
  const runs = readGatewayTools(request, placed) === undefined ? 'left-out' : 'read'
  const said = readItems(items, offset, runs, namesOf(offered))
  if (instructions == null || instructions === '') return said
  const content = [{ kind: 'text', text: instructions, cache: undefined } as const]
  return {
    messages: [{ message: { role: 'system', content }, field: 'instructions' }, ...said.messages],
    native: said.native.map((item) => ({ ...item, at: item.at + 1 })),
  }
}

/** A search among tools that the provider runs: where it has none, what would be found is offered at once. */
function isHostedSearch({ tool, item }: PlacedTool): boolean {
  return tool.type === 'tool_search' && tool.execution !== 'client' && item === undefined
}

/** Paths of fields in this protocol; `items` and `offset` as for `chatRequest`. */
export function fieldsOf(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): ClientFields {
  const messages = () =>
    messagesOf(request, items, offset, placedTools(request, items, offset)).messages.map(({ field }) => field)
  return { messages, names }
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
      return readSchema(format)
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

/** Known to chat completions, which have no other word for them either. */
const passedFields: ReadonlySet<string> = new Set(['prompt_cache_retention', 'prompt_cache_options'])

/** Unknown fields. The provider's row decides whether they are passed on. */
function readRest(request: ResponsesRequest): JsonObject {
  const rest: JsonObject = {}
  for (const field in request) {
    const known = readFields.has(field) || chatFields.has(field) || silentFields.has(field)
    const value = request[field] as Json | undefined
    if ((!known || passedFields.has(field)) && value != null) rest[field] = value
  }
  const context = request.reasoning?.['context'] as Json | undefined
  if (context != null && context !== 'auto') rest[reasoningContext] = context
  return rest
}

// Checks a Responses body, and adds what it refers to.

/**
 * The body, checked against the schema and for unsupported features. Throws GatewayError `invalid_request`,
 * `wrong_endpoint` or `unsupported_parameter` with `param`.
 */
export function checkedRequest(body: unknown): ResponsesRequest {
  const sent = bodyObject(body)
  if (!Object.hasOwn(sent, 'input') && Object.hasOwn(sent, 'messages')) {
    const message = 'A body with `messages` belongs to POST /v1/chat/completions; responses take `input`.'
    throw new GatewayError('wrong_endpoint', { message, param: 'messages' })
  }
  const asked = withModel(sent)
  const fault = fitsByFields(asked, schemas) ? undefined : safeParsed(responsesRequest, asked).error
  if (fault) throw invalidRequest(fault)
  // The client's own object is used, not zod's copy: the schema transforms nothing.
  const request = asked as ResponsesRequest
  refuseUnserved(request)
  if (request.input == null && request.previous_response_id == null && request.conversation == null)
    throw invalidParam('input', 'it is required where no previous_response_id is given.')
  return request
}

const schemas: FieldSchemas = {
  required: ['model'],
  fields: responsesRequest.shape,
  lists: {
    input: { item: inputItem, least: 0, most: Number.POSITIVE_INFINITY },
    tools: { item: declaredTool, least: 0, most: mostTools },
  },
}

const unserved: Readonly<Record<string, string>> = {
  prompt: 'prompt templates are not kept here; send the prompt itself as input and instructions.',
}

function refuseUnserved(request: ResponsesRequest): void {
  if (request.conversation != null) {
    if (request.previous_response_id != null)
      throw invalidParam('previous_response_id', 'it stands beside conversation: give one of them.')
    if (request.store === false)
      throw invalidParam('store', 'a response that belongs to a conversation is stored.')
  }
  if (request.background === true && request.store === false)
    throw invalidParam('background', 'a response in the background is stored, so store cannot be false.')
  for (const [param, why] of Object.entries(unserved)) {
    if (request[param] != null) throw unsupportedParam(param, why)
  }
}

// ---- dropped parameters -----------------------------------------------------------------------------------

/**
 * Dropped parameters, independent of the provider. Throws `unsupported_parameter` for a tool that is not supported,
 * and for the first dropped parameter if the request is strict.
 */
export function droppedOf(request: ResponsesRequest, placed: readonly PlacedTool[]): readonly Warning[] {
  const dropped: Warning[] = []
  const drop = (param: string, message: string) => dropped.push({ param, message })
  const declares = readGatewayTools(request, placed) !== undefined
  for (const [at, item] of ownItems(request).entries()) {
    if (!isKnown(item)) {
      // It may hold calls, or what they gave: left out, the model would answer as if that had never been.
      const type = JSON.stringify(clipName(kindOf(item)))
      throw unsupportedParam(`input[${at}].type`, `items of type ${type} are not served here.`)
    }
    if (isRun(item) && !declares)
      drop(`input[${at}]`, `An item of type '${clipName(kindOf(item))}' was left out.`)
  }
  for (const { tool, param } of placed) refuseUnservedTool(tool, param)
  refuseUnservedChoice(request, placed)
  for (const field of fieldsOfChat(request)) drop(field, 'This protocol has no such field; it was left out.')
  for (const member of unreadMembers(request)) drop(member, 'It is not known here; it was left out.')
  if (request.truncation === 'auto') {
    drop('truncation', 'The input is not shortened: one that is too long for the model is refused.')
  }
  refuseDropped(dropped, isStrict(request))
  return dropped
}

function refuseUnservedTool(tool: JsonObject, param: string): void {
  if (fateOf('openai-responses', tool) === 'refused') throw toolRefused(String(tool.type), `${param}.type`)
  const { environment } = tool
  if (tool.type === 'shell' && isObject(environment) && environment.type !== 'local')
    throw unsupportedParam(
      `${param}.environment`,
      'commands run where the client is, not in a container of the provider.',
    )
  for (const [at, { type = 'function' }] of toolsIn(tool).entries()) {
    if (type !== 'function' && type !== 'custom')
      throw toolRefused(String(type), `${param}.tools[${at}].type`)
  }
  if (toolsIn(tool).length > 0 && (typeof tool.name !== 'string' || tool.name === ''))
    throw invalidParam(`${param}.name`, 'a namespace has a name.')
}

/** What settings with members of their own say when they ask for nothing. */
const withoutEffect: Readonly<Record<string, unknown>> = {
  'reasoning.mode': 'standard',
}

/** The paths of members that are not read, such as the mode `pro` of reasoning. */
function unreadMembers(request: ResponsesRequest): readonly string[] {
  return (['reasoning', 'text'] as const).flatMap((field) =>
    Object.entries(request[field] ?? {})
      .filter(([member, value]) => value != null && !readMembers[field].has(member))
      .map(([member, value]) => ({ path: `${field}.${clipName(member)}`, value }))
      .filter(({ path, value }) => path !== reasoningContext && withoutEffect[path] !== value)
      .map(({ path }) => path),
  )
}

/** Throws `unsupported_parameter` for a tool choice without any supported tool. */
function refuseUnservedChoice(request: ResponsesRequest, placed: readonly PlacedTool[]): void {
  const choice = request.tool_choice
  if (choice == null || readToolChoice(request, placed) !== undefined) return
  // It may choose tools of the gateway alone.
  if (gatewayChoice(request) !== undefined && readGatewayTools(request, placed) !== undefined) return
  // A choice without any tools is reported elsewhere.
  if (placed.length === 0 && choice === 'required') return
  if (typeof choice === 'object' && choice.type !== 'allowed_tools') {
    throw toolRefused(choice.type, 'tool_choice.type')
  }
  throw unsupportedParam('tool_choice', 'it allows no tool that is served.')
}

/** A name from the client, cut to fit into a header. */
function clipName(type: string): string {
  return type.slice(0, 64)
}

function ownItems({ input }: ResponsesRequest): readonly InputItem[] {
  if (input == null) return []
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input
}

// ---- stored items -----------------------------------------------------------------------------------------

/** Stored items that a request refers to. */
export interface Recalled {
  /** The items of the conversation continued by `previous_response_id`, oldest first. */
  readonly history: readonly JsonObject[]
  /** Items of earlier answers, by their ids. */
  readonly items: ReadonlyMap<string, JsonObject>
}

/**
 * The ids of items that the request refers to instead of sending them, or sends without parts that only we stored, as
 * often as they occur.
 */
export function itemsReferredTo(request: ResponsesRequest): readonly string[] {
  return ownItems(request).flatMap((item) => referredId(item) ?? [])
}

function referredId(item: InputItem): string | undefined {
  const bare = kindOf(item) === 'reasoning' && item['encrypted_content'] == null
  const refers = bare || kindOf(item) === 'item_reference'
  return refers && typeof item['id'] === 'string' ? item['id'] : undefined
}

/**
 * The request's own items, completed. Throws `invalid_request` for a reference to an unknown item; unknown reasoning
 * stays as the client sent it.
 */
export function completeItems(
  request: ResponsesRequest,
  recalled: Pick<Recalled, 'items'>,
): readonly InputItem[] {
  return ownItems(request).map((item, at) => {
    const id = referredId(item)
    const kept = id === undefined ? undefined : recalled.items.get(id)
    if (kept !== undefined) return kept as InputItem
    if (kindOf(item) === 'item_reference') {
      throw invalidParam(`input[${at}].id`, 'this account has no stored item with that id.')
    }
    return item
  })
}

/**
 * The request's own items without what the conversation before has already: some clients (Semantic Kernel) send all
 * results with each request that continues an answer, and in front of them the question once more. Most providers refuse
 * a second result of one call, and a question behind the result would be asked again.
 */
export function withoutRepeats(
  items: readonly InputItem[],
  history: readonly InputItem[],
): readonly InputItem[] {
  if (history.length === 0) return items
  const lastResult = items.findLastIndex(isResult)
  if (lastResult < 0) return items
  const answered = new Set(history.filter(isResult).map(resultName))
  const asked = new Set(history.map(questionIn))
  return items.filter((item, at) => {
    if (isResult(item)) return !answered.has(resultName(item))
    const question = at < lastResult ? questionIn(item) : undefined
    return question === undefined || !asked.has(question)
  })
}

/** What a message that is not the model's says, as text that can be compared. */
function questionIn(item: InputItem): string | undefined {
  if (kindOf(item) !== 'message' || item['role'] === 'assistant') return undefined
  const { content } = item as Extract<InputItem, { content?: unknown }>
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : content
  return JSON.stringify([item['role'], parts])
}

function isResult(item: InputItem): boolean {
  const type = kindOf(item)
  return type === 'function_call_output' || kindOfResult(type) !== undefined
}

/** The call that it answers. */
function resultName(item: InputItem): string {
  return `${kindOf(item)} ${String(callIdIn(item as unknown as JsonObject))}`
}

/** Throws for empty input, results without a call before them, and choices of unknown tools. */
export function refuseContradictions(
  request: ResponsesRequest,
  history: readonly InputItem[],
  items: readonly InputItem[],
  placed: readonly PlacedTool[],
): void {
  if (history.length + items.length === 0) throw invalidParam('input', 'there is nothing in it.')
  const calls = new Set<unknown>()
  for (const [at, item] of [...history, ...items].entries()) {
    const type = kindOf(item)
    const id = callIdIn(item as unknown as JsonObject)
    if (type === 'function_call' || kindOfCall(type) !== undefined) {
      calls.add(id)
      // OpenAI's local shell answers under the id of the call's item.
      if (type === 'local_shell_call' && typeof item['id'] === 'string') calls.add(item['id'])
    }
    if (isResult(item) && id !== undefined && !calls.has(id)) {
      const field = item['call_id'] == null ? 'id' : 'call_id'
      throw invalidParam(`input[${at - history.length}].${field}`, 'no call before this item has that id.')
    }
  }
  const choice = request.tool_choice
  if (choice === 'required' && placed.length === 0)
    throw invalidParam('tool_choice', "'required' needs tools to choose from.")
  if (
    choice != null &&
    typeof choice === 'object' &&
    (choice.type === 'function' || choice.type === 'custom')
  ) {
    if (chosenName(choice, offeredTools(placed)) === undefined)
      throw invalidParam('tool_choice.name', 'no tool has that name.')
  }
}

// ---- fields of chat completions ------------------------------------------------------------------------------

const chatFields: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequest.shape))
const readFields: ReadonlySet<string> = new Set(Object.keys(responsesRequest.shape))
/** Fields that clients send by default, without effect on the model. */
const silentFields: ReadonlySet<string> = new Set(['client_metadata', 'stream_options', '__proto__'])

/** Fields of chat completions only: many servers would read them, which clients of this protocol do not intend. */
function fieldsOfChat(request: ResponsesRequest): readonly string[] {
  const foreign = (field: string) =>
    chatFields.has(field) && !readFields.has(field) && !silentFields.has(field)
  return Object.keys(request).filter((field) => request[field] != null && foreign(field))
}

// The tools of a request, and which of them may be called.

/** Declared gateway tools and their earlier calls in the conversation; undefined if none are declared. */
export function readGatewayTools(
  request: ResponsesRequest,
  placed: readonly PlacedTool[],
  history: readonly PlacedItem[] = [],
): DeclaredTools | undefined {
  const isAsked = isOnline(request.model)
  if (placed.length === 0 && !isAsked && history.length === 0) return undefined
  const declarations = placed.flatMap(({ tool, param }): ToolDeclaration[] => {
    const declaration = declarationOf(tool, param)
    return declaration === undefined ? [] : [declaration]
  })
  const searches = declarations.some(({ kind }) => kind === 'web-search')
  if (isAsked && !searches) declarations.push(searchDeclaration({}, 'model'))
  return declaredTools(declarations, {
    maxCalls: request.max_tool_calls ?? undefined,
    choice: gatewayChoice(request),
    history,
  })
}

/** The tool choice among gateway tools, if the request makes one. */
function gatewayChoice({ tool_choice: choice }: ResponsesRequest): GatewayChoice | undefined {
  if (choice == null || typeof choice === 'string') return undefined
  const only = selectorOf(choice)
  if (only) return { mode: 'required', tools: [only] }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as unknown as { mode: 'auto' | 'required'; tools: JsonObject[] }
  const selectors = tools.flatMap((tool) => selectorOf(tool) ?? [])
  return selectors.length === 0 ? undefined : { mode, tools: selectors }
}

/** Undefined also for a choice of tools that the gateway runs. */
function readToolChoice(request: ResponsesRequest, placed: readonly PlacedTool[]): ToolChoice | undefined {
  const choice = request.tool_choice
  if (choice == null) return undefined
  const offered = offeredTools(placed)
  if (choice === 'required') {
    const some = offered.size > 0 || readGatewayTools(request, placed) !== undefined
    return some ? { kind: choice } : undefined
  }
  if (typeof choice === 'string') return { kind: choice }
  if (choice.type !== 'allowed_tools') {
    const name = chosenName(choice, offered)
    return name === undefined ? undefined : { kind: 'function', name }
  }
  const { mode, tools } = choice as unknown as { mode: 'auto' | 'required'; tools: JsonObject[] }
  const names = tools.flatMap((tool) => chosenName(tool, offered) ?? [])
  return names.length === 0 ? undefined : { kind: 'allowed', mode, names }
}

/** The chosen tool, by its name for the model; undefined if the client declares no such tool. */
function chosenName(choice: object, offered: ReadonlyMap<string, OfferedClientTool>): string | undefined {
  const { type, name, namespace } = choice as { type: string; name?: string; namespace?: string | null }
  const kind = type === 'function' || isClientToolType(type) ? type : undefined
  if (kind === undefined) return undefined
  const own = kind === 'function' || kind === 'custom' ? (name ?? '') : kind
  return namesOf(offered)({ kind, name: own, namespace: namespace ?? undefined })
}

// Fields of a request that may contain URLs.

const link = parts({ url: 'address', detail: 'words' }, { text: 'address' })

const part = parts(
  {
    image_url: link,
    file_url: 'address',
    file_data: 'data',
    input_audio: parts({ data: 'data', format: 'words' }),
    file_id: 'reference',
  },
  { others: 'never-sent' },
)

/**
 * Providers only receive what the conversation has fields for. Unknown fields, items and tools are not sent, so the
 * commands of a coding agent may contain addresses of its own machine.
 */
export const addresses = parts(
  {
    ...gatewayPlaces,
    input: parts({ content: part, output: part }, { others: 'never-sent' }),
  },
  { others: 'never-sent' },
)
