// A client's body for the Responses protocol: checked, completed by what it refers to, and in the words of the
// conversation.

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
import { GatewayError } from '../../../errors.ts'
import type { ClientFields, Placed } from '../../request/client-fields.ts'
import { isObject, present } from '../../json.ts'
import { readRouting, withModel } from '../../request/gateway-fields.ts'
import { invalidParam, invalidRequest, unsupportedParam } from '../../request/invalid-param.ts'
import { chatCompletionRequest } from '../../openai-chat/inbound/schema.ts'
import type { Envelope, Warning } from '../../protocol.ts'
import { safeParsed } from '../../request/safe-parse.ts'
import { fateOf, toolRefused } from '../../request/served-tools.ts'
import { readItems } from './items.ts'
import {
  type FunctionToolItem,
  type InputItem,
  isKnown,
  kindOf,
  responsesRequest,
  type ResponsesRequest,
} from './schema.ts'

// ---- checking ---------------------------------------------------------------------------------------------

/**
 * The body, checked against the schema and for what is not served at all. Throws GatewayError `invalid_request`,
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
  const { error } = safeParsed(responsesRequest, body)
  if (error) throw invalidRequest(error)
  // The client's own object goes on, not zod's copy: the schema transforms nothing.
  const request = body as ResponsesRequest
  refuseUnserved(request)
  if (request.input == null && request.previous_response_id == null)
    throw invalidParam('input', 'it is required where no previous_response_id is given.')
  return request
}

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

// ---- what the request leaves to others --------------------------------------------------------------------

/**
 * What of the request is dropped, whoever serves it. Throws `unsupported_parameter` for a tool that is not served, and
 * for the first of what is dropped where the request is strict.
 */
export function droppedOf(request: ResponsesRequest): readonly Warning[] {
  const dropped: Warning[] = []
  const drop = (param: string, message: string) => dropped.push({ param, message })
  for (const [at, item] of ownItems(request).entries()) {
    if (!isKnown(item)) drop(`input[${at}]`, `An item of type '${named(kindOf(item))}' was left out.`)
  }
  for (const [at, tool] of (request.tools ?? []).entries()) {
    const fate = fateOf('openai-responses', tool)
    if (fate === 'refused') throw toolRefused(tool.type, `tools[${at}].type`)
    if (fate === 'left-out') drop(`tools[${at}]`, `A tool of type '${named(tool.type)}' was left out.`)
  }
  refuseUnservedChoice(request)
  for (const field of fieldsOfChat(request)) drop(field, 'This protocol has no such field; it was left out.')
  if (request.truncation === 'auto') {
    drop('truncation', 'The input is not shortened: one that is too long for the model is refused.')
  }
  const [first] = dropped
  if (first && isStrict(request)) {
    throw new GatewayError('unsupported_parameter', { message: first.message, param: first.param })
  }
  return dropped
}

/** Throws `unsupported_parameter` for a choice that leaves no tool that is served. */
function refuseUnservedChoice(request: ResponsesRequest): void {
  const choice = request.tool_choice
  if (choice == null || readToolChoice(request) !== undefined) return
  // Without any tool it contradicts itself, which is said elsewhere.
  if ((request.tools ?? []).length === 0 && choice === 'required') return
  if (typeof choice === 'object' && choice.type !== 'allowed_tools') {
    throw toolRefused(choice.type, 'tool_choice.type')
  }
  throw unsupportedParam('tool_choice', 'it allows no tool that is served.')
}

/** A name that a client made up, short enough for a header. */
function named(type: string): string {
  return type.slice(0, 64)
}

function isStrict({ strict, provider }: ResponsesRequest): boolean {
  return strict === true || provider?.require_parameters === true
}

function ownItems({ input }: ResponsesRequest): readonly InputItem[] {
  if (input == null) return []
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input
}

// ---- what the request refers to ---------------------------------------------------------------------------

/** What stands elsewhere and belongs to a request. */
export interface Recalled {
  /** The items of the conversation that `previous_response_id` continues, oldest first. */
  readonly history: readonly JsonObject[]
  /** Items of earlier answers, by their ids. */
  readonly items: ReadonlyMap<string, JsonObject>
}

/**
 * The ids of items that the request names instead of sending them, or sends without what only we have kept; each as
 * often as it stands there.
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
 * The items of the request itself, each whole. Throws `invalid_request` for a reference to an item that is not there;
 * reasoning that is not there stays what the client sent.
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

/** Throws for no input at all, for results without a call before them, and for choices of tools that are not there. */
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
    if (!names.includes(choice['name'] as string))
      throw invalidParam('tool_choice.name', 'no tool has that name.')
  }
}

// ---- what the gateway reads -------------------------------------------------------------------------------

export function envelopeOf(request: ResponsesRequest): Envelope {
  return {
    model: request.model,
    fallbacks: request.models ?? [],
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

/** The request as every protocol understands it; `items` are all of its input, `offset` of them from before. */
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
  const said = readItems(items, offset)
  if (instructions == null || instructions === '') return said
  const content = [{ kind: 'text', text: instructions, cache: undefined } as const]
  return [{ message: { role: 'system', content }, field: 'instructions' }, ...said]
}

/** What clients of this protocol call their fields; `items` and `offset` are those of `chatRequest`. */
export function fieldsOf(
  request: ResponsesRequest,
  items: readonly InputItem[],
  offset: number,
): ClientFields {
  return { messages: () => messagesOf(request, items, offset).map(({ field }) => field), names }
}

const names: Readonly<Record<string, string>> = {
  logprobs: 'include',
  max_tokens: 'max_output_tokens',
  response_format: 'text.format',
  verbosity: 'text.verbosity',
}

function functionsOf(request: ResponsesRequest): readonly FunctionToolItem[] {
  return (request.tools ?? []).filter((tool): tool is FunctionToolItem => tool.type === 'function')
}

function readTool(tool: FunctionToolItem): FunctionTool {
  return {
    name: tool.name,
    description: tool.description ?? undefined,
    parameters: tool.parameters == null ? undefined : (tool.parameters as JsonObject),
    strict: tool.strict ?? undefined,
    // The protocol makes a strict one of a function that says nothing, where its schema allows it.
    ...(tool.strict == null ? { strictUnsaid: true } : {}),
    cache: undefined,
  }
}

/** undefined also for a choice of tools that are not served. */
function readToolChoice(request: ResponsesRequest): ToolChoice | undefined {
  const choice = request.tool_choice
  if (choice == null) return undefined
  const names = functionsOf(request).map((tool) => tool.name)
  if (choice === 'required') return names.length === 0 ? undefined : { kind: choice }
  if (typeof choice === 'string') return { kind: choice }
  if (choice.type === 'function') return { kind: 'function', name: choice['name'] as string }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as { mode: 'auto' | 'required'; tools: { type: string; name?: string }[] }
  const allowed = tools.flatMap(({ type, name }) => (type === 'function' && name ? [name] : []))
  const served = allowed.filter((name) => names.includes(name))
  return served.length === 0 ? undefined : { kind: 'allowed', mode, names: served }
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
    // Alone it asks for nothing: without the `include` no probability is told.
    topLogprobs: logprobs ? request.top_logprobs : null,
  })
}

function readReasoning({ reasoning }: ResponsesRequest): Reasoning | undefined {
  const summary = reasoning?.summary ?? reasoning?.generate_summary
  const read = present<Reasoning>({
    effort: reasoning?.effort,
    maxTokens: reasoning?.max_tokens,
    exclude: summary == null ? null : summary === 'none',
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

/** `metadata` and `store` are about the response, which is ours: no provider is told. */
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

const chatFields: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequest.shape))
const readFields: ReadonlySet<string> = new Set(Object.keys(responsesRequest.shape))
/** What clients send with every request and that asks no model for anything. */
const silentFields: ReadonlySet<string> = new Set(['client_metadata', 'stream_options', '__proto__'])

/** The fields that only chat completions have: many a server would read them, which this protocol's clients do not mean. */
function fieldsOfChat(request: ResponsesRequest): readonly string[] {
  const foreign = (field: string) =>
    chatFields.has(field) && !readFields.has(field) && !silentFields.has(field)
  return Object.keys(request).filter((field) => request[field] != null && foreign(field))
}

/** Fields that nobody here has a word for: whether they go on is the provider's row to say. */
function readRest(request: ResponsesRequest): JsonObject {
  const rest: JsonObject = {}
  for (const field in request) {
    const known = readFields.has(field) || chatFields.has(field) || silentFields.has(field)
    const value = request[field] as Json | undefined
    if ((!known || field === 'prompt_cache_retention') && value != null) rest[field] = value
  }
  return rest
}
