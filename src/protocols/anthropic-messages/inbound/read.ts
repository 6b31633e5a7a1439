// Translates a checked Messages request into a conversation, on demand.

import type { DeclaredTools, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  JsonObject,
  Labels,
  Message,
  Reasoning,
  ResponseFormat,
  Sampling,
  ToolChoice,
} from '../../../conversation/request.ts'
import { define } from '../../../json/parse.ts'
import { present } from '../../json.ts'
import type { ClientFields, Placed } from '../../request/client-fields.ts'
import {
  declarationOf,
  declaredTools,
  isGatewayTool,
  isOnline,
  searchDeclaration,
} from '../../request/gateway-declarations.ts'
import { messagesServers } from '../../request/mcp-declarations.ts'
import { type PlacedContent, readAssistant, readMark, readParts, readUser } from './read-blocks.ts'
import { gatewayFields, type MessagesRequest } from './schema.ts'

/** Takes a body that `messagesRequest` accepts. Throws GatewayError for a block whose source cannot be read. */
export function readRequest(body: MessagesRequest): ChatRequest {
  const { functions, others } = readTools(body)
  return {
    messages: readMessages(body).map(({ message }) => message),
    tools: functions,
    toolChoice: readToolChoice(body),
    parallelToolCalls: body.tool_choice?.disable_parallel_tool_use === true ? false : undefined,
    maxOutputTokens: body.max_tokens,
    sampling: readSampling(body),
    reasoning: readReasoning(body),
    responseFormat: readResponseFormat(body),
    stream: body.stream === true,
    labels: readLabels(body),
    rest: readRest(body, others),
  }
}

/** What clients of this protocol call their fields. */
export function fieldsOf(body: MessagesRequest): ClientFields {
  return { messages: () => readMessages(body).map(({ field }) => field), names, dotted: true }
}

const names: Readonly<Record<string, string>> = {
  parallel_tool_calls: 'tool_choice.disable_parallel_tool_use',
  reasoning: 'thinking',
  response_format: 'output_config.format',
  stop: 'stop_sequences',
  user: 'metadata.user_id',
}

function readMessages(body: MessagesRequest): Placed[] {
  const runs = readGatewayTools(body) === undefined ? 'left-out' : 'read'
  const said: Placed[] = []
  for (const turn of turnsOf(body.messages)) {
    const field = `messages.${turn.at}`
    for (const message of readTurn(turn, runs)) said.push({ message, field })
  }
  const system = body.system == null ? [] : readSystem(body.system)
  if (system.length === 0) return said
  return [{ message: { role: 'system', content: system }, field: 'system' }, ...said]
}

/** The line that Claude Code begins its system prompt with, for Anthropic's own accounting. */
const accountingLine = /^x-anthropic-billing-header:[^\n]*\n?/

/**
 * The system prompt without Claude Code's accounting line. It differs from one conversation or subagent to the next, in
 * some versions from request to request: a provider that reads it as text would not find the prompt in its cache, and
 * charge all of it at the full price each time. Anthropic itself gets the client's body as it is.
 */
function readSystem(system: NonNullable<MessagesRequest['system']>): ContentPart[] {
  return readParts(system, 'system').flatMap((part): ContentPart[] => {
    if (part.kind !== 'text' || !accountingLine.test(part.text)) return [part]
    const text = part.text.replace(accountingLine, '')
    return text === '' ? [] : [{ ...part, text }]
  })
}

interface Turn {
  readonly role: MessagesRequest['messages'][number]['role']
  /** Of its first message. */
  readonly at: number
  readonly contents: PlacedContent[]
}

/** The messages, those of the assistant in a row as one. */
function turnsOf(messages: MessagesRequest['messages']): Turn[] {
  const turns: Turn[] = []
  for (const [at, { role, content }] of messages.entries()) {
    const placed = { content, param: `messages.${at}.content` }
    const last = turns.at(-1)
    if (role === 'assistant' && last?.role === role) last.contents.push(placed)
    else turns.push({ role, at, contents: [placed] })
  }
  return turns
}

function readTurn({ role, contents }: Turn, runs: 'read' | 'left-out'): Message[] {
  if (role === 'assistant') return readAssistant(contents, runs)
  const read = ({ content, param }: PlacedContent): Message[] =>
    role === 'system' ? [{ role, content: readParts(content, param) }] : readUser(content, param)
  return contents.flatMap(read)
}

function readTools(body: MessagesRequest): { functions: FunctionTool[]; others: JsonObject[] } {
  const functions: FunctionTool[] = []
  const others: JsonObject[] = []
  for (const tool of body.tools ?? []) {
    if (isGatewayTool(tool.type) || tool.type === 'mcp_toolset') continue
    if ((tool.type != null && tool.type !== 'custom') || tool.name == null) {
      others.push(tool as JsonObject)
      continue
    }
    functions.push({
      name: tool.name,
      description: tool.description ?? undefined,
      parameters: (tool.input_schema as JsonObject | null | undefined) ?? undefined,
      strict: tool.strict ?? undefined,
      cache: readMark(tool.cache_control),
    })
  }
  return { functions, others }
}

/** The declared gateway tools; undefined if there are none. */
export function readGatewayTools(body: MessagesRequest): DeclaredTools | undefined {
  const isAsked = isOnline(body.model)
  if (body.tools == null && body['mcp_servers'] == null && !isAsked) return undefined
  const declarations = (body.tools ?? []).flatMap((tool, at): ToolDeclaration[] => {
    const declaration = declarationOf(tool as JsonObject, `tools.${at}`)
    return declaration === undefined ? [] : [declaration]
  })
  declarations.push(...messagesServers(body['mcp_servers'], (body.tools ?? []) as JsonObject[]))
  const searches = declarations.some(({ kind }) => kind === 'web-search')
  if (isAsked && !searches) declarations.push(searchDeclaration({}, 'model'))
  const chosen = isSearchChoice(body)
  const { max_tool_calls: maxCalls } = body
  return declaredTools(declarations, {
    maxCalls: maxCalls ?? undefined,
    choice: chosen ? { mode: 'required', tools: [{ kind: 'web-search' }] } : undefined,
  })
}

/** A named choice refers to the client's function if it has one of that name. */
function isSearchChoice({ tool_choice: choice, tools }: MessagesRequest): boolean {
  if (choice?.type !== 'tool') return false
  const named = (tools ?? []).filter(({ name }) => name === choice.name)
  return named.length > 0 && named.every(({ type }) => isGatewayTool(type))
}

function readToolChoice(body: MessagesRequest): ToolChoice | undefined {
  const choice = body.tool_choice
  if (isSearchChoice(body)) return undefined
  switch (choice?.type) {
    case undefined:
      return undefined
    case 'any':
      return { kind: 'required' }
    case 'tool':
      return { kind: 'function', name: choice.name ?? '' }
    default:
      return { kind: choice!.type }
  }
}

function readSampling(body: MessagesRequest): Sampling {
  return present<Sampling>({
    temperature: body.temperature,
    topP: body.top_p,
    topK: body.top_k,
    stop: body.stop_sequences,
  })
}

const efforts = new Set<unknown>(['low', 'medium', 'high', 'xhigh', 'max'])

/** The effort in `output_config`; undefined if absent or unknown. */
export function effortIn(value: unknown): Reasoning['effort'] {
  return efforts.has(value) ? (value as Reasoning['effort']) : undefined
}

function readReasoning(body: MessagesRequest): Reasoning | undefined {
  const { thinking } = body
  if (thinking == null) return undefined
  if (thinking.type === 'disabled') return { enabled: false }
  const effort = effortIn(body.output_config?.effort)
  return {
    enabled: true,
    ...(thinking.budget_tokens === undefined ? {} : { maxTokens: thinking.budget_tokens }),
    ...(effort === undefined ? {} : { effort }),
    ...(thinking.display === 'omitted' ? { exclude: true } : {}),
  }
}

function readResponseFormat(body: MessagesRequest): ResponseFormat | undefined {
  const format = body.output_config?.format ?? body.output_format
  if (format?.type !== 'json_schema' || format.schema === undefined) return undefined
  return {
    kind: 'json-schema',
    name: 'answer',
    description: undefined,
    schema: format.schema as JsonObject,
    strict: true,
  }
}

function readLabels(body: MessagesRequest): Labels {
  const user = body.metadata?.user_id
  const tier = body.service_tier
  return present<Labels>({ user, serviceTier: tier === 'standard_only' ? 'default' : tier })
}

const readFields = new Set([
  ...gatewayFields,
  'model',
  'max_tokens',
  'mcp_servers',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'output_config',
  'output_format',
  'stop_sequences',
  'stream',
  'temperature',
  'top_p',
  'top_k',
  'metadata',
  'service_tier',
])

/** All other fields unchanged, including `thinking`, which only Anthropic's own protocol has. */
function readRest(body: MessagesRequest, otherTools: JsonObject[]): JsonObject {
  const fields = body as JsonObject
  const rest: JsonObject = {}
  for (const field in fields) {
    const value = fields[field]!
    if (!readFields.has(field) && value !== null) define(rest, field, value)
  }
  if (body.output_config != null) {
    const { format: _, ...config } = body.output_config as JsonObject
    if (Object.keys(config).length > 0) rest.output_config = config
  }
  if (otherTools.length > 0) rest.tools = otherTools
  return rest
}
