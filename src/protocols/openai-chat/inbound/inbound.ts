// The chat completions API for clients: checks bodies; encode.ts writes the answers.

import type { z } from 'zod'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { serviceTierOf } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import {
  addresses,
  chosenName,
  customsOf,
  functionsOf,
  maxOutputTokens,
  readGatewayTools,
  readRequest,
} from './read.ts'
import { isObject } from '../../lenient.ts'
import { type PromptParts, promptParts } from '../../request/prompt-parts.ts'
import {
  fateOf,
  isGatewayTool,
  readRouting,
  toolRefused,
  withModel,
  withoutOnline,
} from '../../request/gateway-tools.ts'
import {
  invalidParam,
  invalidRequest,
  isPlainField,
  isPlainMessage,
  misfitIn,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import { keepaliveComment } from '../../framing/sse.ts'
import type { Envelope, Inbound, InboundRequest } from '../../protocol.ts'
import { ChunkEncoder, wholeAnswer } from './encode.ts'
import {
  chatCompletionRequest,
  type ChatCompletionRequest,
  chatMessage,
  longestName,
  mostTools,
  tool,
} from './schema.ts'

export const inbound: Inbound = {
  id: 'openai-chat',
  // A comment: clients take every event with data for a chunk.
  keepalive: keepaliveComment,
  addresses,
  parse,
  whole: wholeAnswer,
  encoder: (context) => new ChunkEncoder(context),
  error: (error) => error,
}

export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = { conversation: 'messages', declared: ['tools', 'functions', 'response_format'] }

function parse(sent: unknown): InboundRequest {
  if (!isObject(sent)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
  const body = withModel(sent)
  refuseOtherEndpoints(body)
  refuseUnservedTools(body)
  checkFields(body)
  // The client's own object is used, not zod's copy: the schema transforms nothing.
  const request = withoutPrototypeKey(body) as ChatCompletionRequest
  refuseContradictions(request)
  const gatewayTools = readGatewayTools(request)
  return {
    envelope: readEnvelope(request),
    body: request as JsonObject,
    promptParts: promptOf(request as JsonObject),
    toChatRequest: readerOf(request, gatewayTools === undefined ? 'left-out' : 'read'),
    gatewayTools,
  }
}

function readerOf(
  request: ChatCompletionRequest,
  runs: 'read' | 'left-out',
): InboundRequest['toChatRequest'] {
  return () => readRequest(request, runs)
}

/** What the schema says of each field. */
const fields = new Map<string, z.ZodType>(Object.entries(chatCompletionRequest.shape))
const required = [...fields].filter(([, field]) => field.type !== 'optional').map(([name]) => name)

/** A request has few of sixty fields: checking all of them would take most of the time of reading a call. */
function checkFields(body: JsonObject): void {
  for (const name of required) checkField(name, body[name])
  for (const name in body) if (!required.includes(name)) checkField(name, body[name])
}

function checkField(name: string, value: Json | undefined): void {
  if (isPlainField(name, value)) return
  if (name === 'messages' && Array.isArray(value) && value.length > 0) return checkMessages(value)
  if (name === 'tools' && Array.isArray(value) && value.length <= mostTools) {
    const others = value.filter((item) => !isPlainTool(item))
    // The whole list says which of them is at fault.
    if (misfitIn(tool, others) < 0) return
  }
  const field = fields.get(name)
  const error = field && safeParsed(field, value).error
  if (error) throw invalidRequest(error, [name])
}

/** Agents send thousands of calls and results, nearly all of the plain shape: the schema is asked about the others. */
function checkMessages(messages: readonly Json[]): void {
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]
    if (isPlainMessage(message) || isPlainCalls(message) || isPlainResult(message)) continue
    if (misfitIn(chatMessage, [message]) < 0) continue
    const { error } = safeParsed(chatMessage, message)
    if (error) throw invalidRequest(error, ['messages', at])
  }
}

/** Calls of functions, and what was said before them. */
function isPlainCalls(message: unknown): boolean {
  if (!isObject(message) || message['role'] !== 'assistant' || !hasOnly(message, callsKeys)) return false
  const { content, tool_calls: calls } = message
  if (content != null && typeof content !== 'string') return false
  return Array.isArray(calls) && calls.every(isPlainCall)
}

function isPlainCall(call: unknown): boolean {
  if (!isObject(call) || !hasOnly(call, callKeys) || !isNonEmpty(call['id'])) return false
  const { type, function: called } = call
  if (type != null && type !== 'function') return false
  if (!isObject(called) || typeof called['arguments'] !== 'string') return false
  return isNonEmpty(called['name']) && called['name'].length <= longestName
}

/** A function as every client declares it. */
function isPlainTool(declared: unknown): boolean {
  if (!isObject(declared) || declared['type'] !== 'function' || !hasOnly(declared, toolKeys)) return false
  const { function: defined } = declared
  if (!isObject(defined) || !hasOnly(defined, functionKeys)) return false
  const { name, description, parameters, strict } = defined
  if (!isNonEmpty(name) || name.length > longestName) return false
  if (description != null && typeof description !== 'string') return false
  if (parameters != null && !isObject(parameters)) return false
  return strict == null || typeof strict === 'boolean'
}

/** The text that a function gave. */
function isPlainResult(message: unknown): boolean {
  if (!isObject(message) || message['role'] !== 'tool' || !hasOnly(message, resultKeys)) return false
  return typeof message['content'] === 'string' && isNonEmpty(message['tool_call_id'])
}

const callsKeys: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls'])
const callKeys: ReadonlySet<string> = new Set(['id', 'type', 'function'])
const resultKeys: ReadonlySet<string> = new Set(['role', 'content', 'tool_call_id'])
const toolKeys: ReadonlySet<string> = new Set(['type', 'function'])
const functionKeys: ReadonlySet<string> = new Set(['name', 'description', 'parameters', 'strict'])

function hasOnly(fields: object, names: ReadonlySet<string>): boolean {
  for (const name in fields) if (!names.has(name)) return false
  return true
}

function isNonEmpty(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** JSON may contain `__proto__`; assigning fields one by one must not change a prototype. */
function withoutPrototypeKey(body: JsonObject): JsonObject {
  if (!Object.hasOwn(body, '__proto__')) return body
  return Object.fromEntries(Object.entries(body).filter(([field]) => field !== '__proto__'))
}

const elsewhere: Readonly<Record<string, string>> = {
  input:
    'A body with `input` belongs to POST /v1/responses (or /v1/embeddings); chat completions take `messages`.',
  prompt: 'A body with `prompt` belongs to POST /v1/completions; chat completions take `messages`.',
  contents: 'A body with `contents` is of another API; chat completions take `messages`.',
}

function refuseOtherEndpoints(body: JsonObject): void {
  if (Object.hasOwn(body, 'messages')) return
  for (const [field, message] of Object.entries(elsewhere)) {
    if (Object.hasOwn(body, field)) throw new GatewayError('wrong_endpoint', { message, param: field })
  }
}

/** Reports tools other than functions before the schema would call them invalid. */
function refuseUnservedTools(body: JsonObject): void {
  if (Array.isArray(body['tools'])) {
    for (const [i, tool] of body['tools'].entries()) {
      if (isObject(tool) && fateOf('openai-chat', tool) === 'refused')
        throw toolRefused(String(tool['type']), `tools[${i}].type`)
    }
  }
}

/** Contradictions between fields: results without a call, choices of unknown tools. */
function refuseContradictions(request: ChatCompletionRequest): void {
  let calls: Set<string> | undefined
  const { messages } = request
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]!
    if (message.role === 'assistant') {
      // The audio of an earlier answer only exists at its provider, and we may ask another.
      if (message['audio'] != null)
        throw unsupportedParam(`messages[${i}].audio`, 'send its transcript as content.')
      if (message.tool_calls == null) continue
      calls ??= new Set()
      for (const call of message.tool_calls) calls.add(call.id)
    } else if (message.role === 'tool' && calls?.has(message.tool_call_id) !== true) {
      throw invalidParam(`messages[${i}].tool_call_id`, 'no tool call before this message has that id.')
    }
  }
  const choice = request.tool_choice
  if (choice == null || choice === 'auto' || choice === 'none') return
  const names = new Set([
    ...[...functionsOf(request), ...legacyTools(request)].map((tool) => tool.function.name),
    ...customsOf(request).map((tool) => tool.custom.name),
  ])
  if (choice === 'required') {
    if (names.size === 0 && readGatewayTools(request) === undefined)
      throw invalidParam('tool_choice', "'required' needs tools to choose from.")
  } else if (choice.type === 'function' || choice.type === 'custom') {
    if (!names.has(chosenName(choice) ?? ''))
      throw invalidParam(`tool_choice.${choice.type}.name`, 'no tool has that name.')
  } else if (choice.type !== 'allowed_tools' && !(isGatewayTool(choice.type) && readGatewayTools(request))) {
    throw toolRefused(choice.type, 'tool_choice.type')
  }
}

function legacyTools(request: ChatCompletionRequest): { function: { name: string } }[] {
  return (request.functions ?? []).map((definition) => ({ function: definition }))
}

const none: readonly string[] = []

function readEnvelope(request: ChatCompletionRequest): Envelope {
  const customs = customsOf(request)
  return {
    ...(customs.length === 0 ? {} : { customTools: new Set(customs.map(({ custom }) => custom.name)) }),
    model: withoutOnline(request.model),
    fallbacks: request.models == null ? none : request.models.map(withoutOnline),
    stream: request.stream === true,
    includeUsage: request.stream_options?.include_usage === true || request.usage?.include === true,
    maxOutputTokens: maxOutputTokens(request),
    n: request.n ?? 1,
    routing: readRouting(request.provider),
    maxCost: request.max_cost ?? undefined,
    ...(request.cache != null && { cacheMs: request.cache.ttl * 1000 }),
    sessionId: request.session_id ?? undefined,
    strict: request.strict === true || request.provider?.require_parameters === true,
    onDisconnect: request.on_disconnect ?? undefined,
    serviceTier: serviceTierOf(request.service_tier),
  }
}
