// Translates a checked Responses body into a conversation.

import type { DeclaredTools, GatewayChoice, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  Labels,
  Reasoning,
  ResponseFormat,
  Sampling,
  ToolChoice,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject, present } from '../../lenient.ts'
import { chatCompletionRequest } from '../../openai-chat/inbound/schema.ts'
import type { Warning } from '../../lowering.ts'
import type { Envelope } from '../../protocol.ts'
import {
  type ClientFields,
  invalidParam,
  invalidRequest,
  isPlainBody,
  type PlacedMessage,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import {
  declarationOf,
  declaredTools,
  fateOf,
  gatewayPlaces,
  isOnline,
  type PlacedItem,
  readRouting,
  searchDeclaration,
  selectorOf,
  toolRefused,
  withModel,
  withoutOnline,
} from '../../request/gateway-tools.ts'
import { parts } from '../../request/prompt-parts.ts'
import { namespaceTool, offeredFunctions, offeredName, readItems, unservedMembers } from './items.ts'
import {
  type FunctionToolItem,
  type InputItem,
  isKnown,
  isRun,
  kindOf,
  readMembers,
  type ResponsesRequest,
  responsesRequest,
} from './schema.ts'

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
): readonly PlacedMessage[] {
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

// Checks a Responses body, and adds what it refers to.

/**
 * The body, checked against the schema and for unsupported features. Throws GatewayError `invalid_request`,
 * `wrong_endpoint` or `unsupported_parameter` with `param`.
 */
export function checkedRequest(sent: unknown): ResponsesRequest {
  if (!isObject(sent))
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  if (!Object.hasOwn(sent, 'input') && Object.hasOwn(sent, 'messages')) {
    const message = 'A body with `messages` belongs to POST /v1/chat/completions; responses take `input`.'
    throw new GatewayError('wrong_endpoint', { message, param: 'messages' })
  }
  const body = withModel(sent)
  const fault = isPlainBody(body, required) ? undefined : safeParsed(responsesRequest, body).error
  if (fault) throw invalidRequest(fault)
  // The client's own object is used, not zod's copy: the schema transforms nothing.
  const request = body as ResponsesRequest
  refuseUnserved(request)
  if (request.input == null && request.previous_response_id == null)
    throw invalidParam('input', 'it is required where no previous_response_id is given.')
  return request
}

const required = ['model']

const unserved: Readonly<Record<string, string>> = {
  conversation: 'conversations are not kept here; continue one with previous_response_id.',
  prompt: 'prompt templates are not kept here; send the prompt itself as input and instructions.',
}

function refuseUnserved(request: ResponsesRequest): void {
  if (request.background === true) {
    throw unsupportedParam(
      'background',
      'responses are not made in the background; ask for a stream instead.',
    )
  }
  for (const [param, why] of Object.entries(unserved)) {
    if (request[param] != null) throw unsupportedParam(param, why)
  }
}

// ---- dropped parameters -----------------------------------------------------------------------------------

/**
 * Dropped parameters, independent of the provider. Throws `unsupported_parameter` for a tool that is not supported,
 * and for the first dropped parameter if the request is strict.
 */
export function droppedOf(request: ResponsesRequest): readonly Warning[] {
  const dropped: Warning[] = []
  const drop = (param: string, message: string) => dropped.push({ param, message })
  const declares = readGatewayTools(request) !== undefined
  for (const [at, item] of ownItems(request).entries()) {
    if (!isKnown(item) || (isRun(item) && !declares))
      drop(`input[${at}]`, `An item of type '${clipName(kindOf(item))}' was left out.`)
  }
  for (const [at, tool] of (request.tools ?? []).entries()) {
    const fate = fateOf('openai-responses', tool)
    if (fate === 'refused') throw toolRefused(tool.type, `tools[${at}].type`)
    const others = unservedMembers(tool)
    if (fate === 'left-out' && namespaceTool(tool).length + others.length === 0)
      drop(`tools[${at}]`, `A tool of type '${clipName(tool.type)}' was left out.`)
    for (const { type, at: member } of others)
      drop(`tools[${at}].tools[${member}]`, `A tool of type '${clipName(type)}' was left out.`)
  }
  refuseUnservedChoice(request)
  for (const field of fieldsOfChat(request)) drop(field, 'This protocol has no such field; it was left out.')
  for (const member of unreadMembers(request)) drop(member, 'It is not known here; it was left out.')
  if (request.truncation === 'auto') {
    drop('truncation', 'The input is not shortened: one that is too long for the model is refused.')
  }
  const [first] = dropped
  if (first && isStrict(request)) {
    throw new GatewayError('unsupported_parameter', { message: first.message, param: first.param })
  }
  return dropped
}

/** What settings with members of their own say when they ask for nothing. */
const withoutEffect: Readonly<Record<string, unknown>> = {
  'reasoning.context': 'auto',
  'reasoning.mode': 'standard',
}

/** The paths of members that are not read, such as the mode `pro` of reasoning. */
function unreadMembers(request: ResponsesRequest): readonly string[] {
  return (['reasoning', 'text'] as const).flatMap((field) =>
    Object.entries(request[field] ?? {})
      .filter(([member, value]) => value != null && !readMembers[field].has(member))
      .map(([member, value]) => ({ path: `${field}.${clipName(member)}`, value }))
      .filter(({ path, value }) => withoutEffect[path] !== value)
      .map(({ path }) => path),
  )
}

/** Throws `unsupported_parameter` for a tool choice without any supported tool. */
function refuseUnservedChoice(request: ResponsesRequest): void {
  const choice = request.tool_choice
  if (choice == null || readToolChoice(request) !== undefined || isGatewayChoice(request)) return
  // A choice without any tools is reported elsewhere.
  if ((request.tools ?? []).length === 0 && choice === 'required') return
  if (typeof choice === 'object' && choice.type !== 'allowed_tools') {
    throw toolRefused(choice.type, 'tool_choice.type')
  }
  throw unsupportedParam('tool_choice', 'it allows no tool that is served.')
}

/** Whether only declared gateway tools are chosen. */
function isGatewayChoice(request: ResponsesRequest): boolean {
  return gatewayChoice(request) !== undefined && readGatewayTools(request) !== undefined
}

/** A name from the client, cut to fit into a header. */
function clipName(type: string): string {
  return type.slice(0, 64)
}

function isStrict({ strict, provider }: ResponsesRequest): boolean {
  return strict === true || provider?.require_parameters === true
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

/** Throws for empty input, results without a call before them, and choices of unknown tools. */
export function refuseContradictions(
  request: ResponsesRequest,
  history: readonly InputItem[],
  items: readonly InputItem[],
): void {
  if (history.length + items.length === 0) throw invalidParam('input', 'there is nothing in it.')
  const calls = new Set<unknown>()
  for (const [at, item] of [...history, ...items].entries()) {
    if (kindOf(item) === 'function_call') calls.add(item['call_id'])
    if (kindOf(item) === 'function_call_output' && !calls.has(item['call_id'])) {
      throw invalidParam(
        `input[${at - history.length}].call_id`,
        'no function call before this item has that id.',
      )
    }
  }
  const choice = request.tool_choice
  if (choice === 'required' && (request.tools ?? []).length === 0)
    throw invalidParam('tool_choice', "'required' needs tools to choose from.")
  if (choice != null && typeof choice === 'object' && choice.type === 'function') {
    const names = functionsOf(request).map((tool) => tool.name)
    if (!names.includes(chosenName(choice))) throw invalidParam('tool_choice.name', 'no tool has that name.')
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

/** All functions, under the names that models are offered. */
function functionsOf(request: ResponsesRequest): readonly FunctionToolItem[] {
  const plain = (request.tools ?? []).filter((tool): tool is FunctionToolItem => tool.type === 'function')
  const inNamespaces = [...offeredFunctions(request).values()].filter(
    ({ namespace }) => namespace !== undefined,
  )
  return [...plain, ...inNamespaces.map(({ tool }) => tool)]
}

function readTool(tool: FunctionToolItem): FunctionTool {
  return {
    name: tool.name,
    description: tool.description ?? undefined,
    parameters: tool.parameters == null ? undefined : (tool.parameters as JsonObject),
    strict: tool.strict ?? undefined,
    // By default, a function is strict in this protocol if its schema allows it.
    ...(tool.strict == null ? { strictByDefault: true } : {}),
    cache: undefined,
  }
}

/** Declared gateway tools and their earlier calls in the conversation; undefined if none are declared. */
export function readGatewayTools(
  request: ResponsesRequest,
  history: readonly PlacedItem[] = [],
): DeclaredTools | undefined {
  const isAsked = isOnline(request.model)
  if (request.tools == null && !isAsked && history.length === 0) return undefined
  const declarations = (request.tools ?? []).flatMap((tool, at): ToolDeclaration[] => {
    const declaration = declarationOf(tool as unknown as JsonObject, `tools[${at}]`)
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

/** Undefined also for a choice of tools that are not functions. */
function readToolChoice(request: ResponsesRequest): ToolChoice | undefined {
  const choice = request.tool_choice
  if (choice == null) return undefined
  const names = functionsOf(request).map((tool) => tool.name)
  if (choice === 'required') {
    const some = names.length > 0 || readGatewayTools(request) !== undefined
    return some ? { kind: choice } : undefined
  }
  if (typeof choice === 'string') return { kind: choice }
  if (choice.type === 'function') return { kind: 'function', name: chosenName(choice) }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as { mode: 'auto' | 'required'; tools: JsonObject[] }
  const allowed = tools.flatMap((tool) =>
    tool['type'] === 'function' && tool['name'] ? [chosenName(tool)] : [],
  )
  const served = allowed.filter((name) => names.includes(name))
  return served.length === 0 ? undefined : { kind: 'allowed', mode, names: served }
}

/** The chosen function, by its name for the model. */
function chosenName(choice: object): string {
  const { name, namespace } = choice as { name: string; namespace?: string | null }
  return offeredName(name, namespace)
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
