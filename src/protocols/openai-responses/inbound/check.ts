// Checks a Responses body, and adds what it refers to.

import type { JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject } from '../../json.ts'
import { withModel } from '../../request/gateway-fields.ts'
import { invalidParam, invalidRequest, unsupportedParam } from '../../request/invalid-param.ts'
import { chatCompletionRequest } from '../../openai-chat/inbound/schema.ts'
import type { Warning } from '../../protocol.ts'
import { isPlainBody } from '../../request/plain-fields.ts'
import { safeParsed } from '../../request/safe-parse.ts'
import { fateOf, toolRefused } from '../../request/served-tools.ts'
import {
  type InputItem,
  isKnown,
  isRun,
  kindOf,
  readMembers,
  responsesRequest,
  type ResponsesRequest,
} from './schema.ts'
import { namespaceTool, unservedMembers } from './namespaces.ts'
import { chosenName, functionsOf, gatewayChoice, readGatewayTools, readToolChoice } from './tools.ts'

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
      drop(`input[${at}]`, `An item of type '${withArticle(kindOf(item))}' was left out.`)
  }
  for (const [at, tool] of (request.tools ?? []).entries()) {
    const fate = fateOf('openai-responses', tool)
    if (fate === 'refused') throw toolRefused(tool.type, `tools[${at}].type`)
    const others = unservedMembers(tool)
    if (fate === 'left-out' && namespaceTool(tool).length + others.length === 0)
      drop(`tools[${at}]`, `A tool of type '${withArticle(tool.type)}' was left out.`)
    for (const { type, at: member } of others)
      drop(`tools[${at}].tools[${member}]`, `A tool of type '${withArticle(type)}' was left out.`)
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
      .map(([member, value]) => ({ path: `${field}.${withArticle(member)}`, value }))
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
function withArticle(type: string): string {
  return type.slice(0, 64)
}

export function isStrict({ strict, provider }: ResponsesRequest): boolean {
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

export const chatFields: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequest.shape))
export const readFields: ReadonlySet<string> = new Set(Object.keys(responsesRequest.shape))
/** Fields that clients send by default, without effect on the model. */
export const silentFields: ReadonlySet<string> = new Set(['client_metadata', 'stream_options', '__proto__'])

/** Fields of chat completions only: many servers would read them, which clients of this protocol do not intend. */
function fieldsOfChat(request: ResponsesRequest): readonly string[] {
  const foreign = (field: string) =>
    chatFields.has(field) && !readFields.has(field) && !silentFields.has(field)
  return Object.keys(request).filter((field) => request[field] != null && foreign(field))
}
