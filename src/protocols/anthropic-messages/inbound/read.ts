// Translates a checked Messages request into a conversation, on demand.

import type { DeclaredTools, ToolDeclaration, ToolSelector } from '../../../conversation/gateway-tools.ts'
import type {
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Labels,
  MediaSource,
  Message,
  Reasoning,
  ReasoningDetail,
  ResponseFormat,
  Sampling,
  ToolCall,
  ToolChoice,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { define } from '../../../json/json.ts'
import { detailOfThinking } from '../../claude/content-blocks.ts'
import { compactionId, reasoningFormat } from '../../claude/models.ts'
import { detailOfWork } from '../../claude/tools.ts'
import { hasNoFields, isObject, objectsIn, present } from '../../lenient.ts'
import { noWarnings, type Warn, type Warning, warnInto, warnOfCitations } from '../../lowering.ts'
import type { ClientFields, PlacedMessage } from '../../request/fields.ts'
import { parts, type Place, readMark, wordsAt } from '../../request/prompt-parts.ts'
import {
  declarationOf,
  declaredTools,
  fateOf,
  isGatewayTool,
  isOnline,
  messagesServers,
  searchDeclaration,
  selectorOf,
  toolRefused,
} from '../../request/gateway-tools.ts'
import {
  type BlockContent,
  checkedContent,
  type ClientBlock,
  gatewayFields,
  isGatewayBlock,
  isSearchBlock,
  type MessagesRequest,
  readGatewayCall,
  readGatewayResult,
} from './schema.ts'

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

function readMessages(body: MessagesRequest): PlacedMessage[] {
  const runs = readGatewayTools(body) === undefined ? 'left-out' : 'read'
  const said: PlacedMessage[] = []
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
  const chosen = gatewayChoice(body)
  const { max_tool_calls: maxCalls } = body
  return declaredTools(declarations, {
    maxCalls: maxCalls ?? undefined,
    choice: chosen && { mode: 'required', tools: [chosen] },
  })
}

/** The gateway's tool that is to be called. A named choice refers to the client's function if it has one of that name. */
function gatewayChoice({ tool_choice: choice, tools }: MessagesRequest): ToolSelector | undefined {
  if (choice?.type !== 'tool') return undefined
  const named = (tools ?? []).filter(({ name }) => name === choice.name).map(selectorOf)
  return named.includes(undefined) ? undefined : named[0]
}

function readToolChoice(body: MessagesRequest): ToolChoice | undefined {
  const choice = body.tool_choice
  if (gatewayChoice(body)) return undefined
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
function effortIn(value: unknown): Reasoning['effort'] {
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

// A client's content blocks as parts of messages.

/** Content as parts: text, images, documents, search results. Throws `invalid_request` naming a block it cannot read. */
function readParts(content: BlockContent, param: string): ContentPart[] {
  if (typeof content === 'string') return [{ kind: 'text', text: content, cache: undefined }]
  return content.flatMap((block, index) => partsOf(block, `${param}.${index}`))
}

/** A user's message: each tool result becomes a message of its own, before the user's text. */
function readUser(content: BlockContent, param: string): Message[] {
  if (typeof content === 'string') return [{ role: 'user', content: readParts(content, param) }]
  const results: Message[] = []
  const said: ContentPart[] = []
  content.forEach((block, index) => {
    const at = `${param}.${index}`
    if (block.type === 'tool_result') results.push(readResult(block, at))
    else said.push(...partsOf(block, at))
  })
  return said.length === 0 ? results : [...results, { role: 'user', content: said }]
}

function readResult(block: ClientBlock, param: string): Message {
  const given = block['content']
  const parts =
    given == null
      ? []
      : readParts(checkedContent(given, `${param}.content`), `${param}.content`).filter(
          (part) => part.kind !== 'refusal',
        )
  const cache = readMark(block.cache_control)
  return {
    role: 'tool',
    toolCallId: text(block, 'tool_use_id', param),
    content: cache === undefined ? parts : markedAtTheEnd(parts, cache),
    isError: block['is_error'] === true,
  }
}

/** Puts a result's cache mark on its last part, where readers of parts expect it. */
function markedAtTheEnd(parts: readonly ContentPart[], cache: CacheMark): ContentPart[] {
  const last = parts.at(-1)
  if (last === undefined || !('cache' in last)) return [...parts, { kind: 'text', text: '', cache }]
  return [...parts.slice(0, -1), { ...last, cache }]
}

interface ReadBlocks {
  readonly content: ContentPart[]
  readonly reasoning: ReasoningDetail[]
  readonly toolCalls: ToolCall[]
  /** Ids of its calls that the gateway ran. */
  readonly ran: Set<string>
  /** Their results. */
  readonly results: ToolMessage[]
}

/** Content of an assistant's message, and its path in the body. */
interface PlacedContent {
  readonly content: BlockContent
  readonly param: string
}

/**
 * An assistant's turn, in the rounds that it was made in. The API takes consecutive messages of the assistant for one
 * turn, whose calls are answered together. What Anthropic's own tools did in it (`server_tool_use` and results) has no
 * place in another provider's conversation and is left out, but for what its search found, which goes back to
 * Anthropic; the text they led to stays. What the gateway's tools did is of use where such tools are declared:
 * providers refuse calls of others.
 */
export function readAssistant(contents: readonly PlacedContent[], runs: 'read' | 'left-out'): Message[] {
  const blocks = contents.flatMap(blocksOf)
  const turns: ReadBlocks[] = []
  const begin = (): ReadBlocks => {
    const turn: ReadBlocks = { content: [], reasoning: [], toolCalls: [], ran: new Set(), results: [] }
    turns.push(turn)
    return turn
  }
  let turn = begin()
  for (const { block, at } of blocks) {
    if (isGatewayBlock(block)) {
      if (runs === 'read' && !isSearchBlock(block)) readRun(block as JsonObject, turn)
      continue
    }
    // Text after a tool's result belongs to the next round.
    if (turn.results.length > 0 && block.type !== 'tool_use') turn = begin()
    readAssistantBlock(block, at, turn)
  }
  return turns.flatMap(({ content: parts, reasoning, results, toolCalls: called }) => {
    // There may be no result if the answer was cut off.
    const answered = new Set(results.map(({ toolCallId }) => toolCallId))
    const toolCalls = called.filter(({ id, origin }) => origin === undefined || answered.has(id))
    // Providers refuse a message of nothing, which is what may be left of one.
    if (blocks.length > 0 && parts.length + reasoning.length + toolCalls.length === 0) return []
    return [{ role: 'assistant', content: parts, reasoning, toolCalls } as const, ...results]
  })
}

function blocksOf({ content, param }: PlacedContent): { block: ClientBlock; at: string }[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content } as ClientBlock] : content
  return blocks.map((block, index) => ({ block, at: `${param}.${index}` }))
}

function readRun(block: JsonObject, { toolCalls, ran, results }: ReadBlocks): void {
  if (typeof block['tool_use_id'] === 'string') {
    if (ran.has(block['tool_use_id'])) results.push(readGatewayResult(block))
    return
  }
  const call = readGatewayCall(block)
  if (!call) return
  toolCalls.push(call)
  ran.add(call.id)
}

function readAssistantBlock(
  block: ClientBlock,
  at: string,
  { content, reasoning, toolCalls }: ReadBlocks,
): void {
  switch (block.type) {
    case 'thinking':
      reasoning.push(
        detailOfThinking(text(block, 'thinking', at), text(block, 'signature', at), reasoning.length),
      )
      return
    case 'redacted_thinking':
      reasoning.push({
        type: 'reasoning.encrypted',
        format: reasoningFormat,
        index: reasoning.length,
        data: text(block, 'data', at),
      })
      return
    case 'compaction':
      if (typeof block['content'] !== 'string') return
      reasoning.push({
        type: 'reasoning.summary',
        format: reasoningFormat,
        index: reasoning.length,
        id: compactionId,
        summary: block['content'],
      })
      return
    case 'tool_use':
      toolCalls.push(readCall(block, at))
      return
    case 'text':
      content.push(readPart(block, at))
      return
    default: {
      const found = detailOfWork(block as JsonObject, reasoning.length)
      if (found) reasoning.push(found)
      else if (!isProviderWork(block.type)) content.push(readPart(block, at))
    }
  }
}

function isProviderWork(type: string): boolean {
  return type === 'server_tool_use' || type === 'mcp_tool_use' || type.endsWith('_tool_result')
}

function readCall(block: ClientBlock, param: string): ToolCall {
  const cache = readMark(block.cache_control)
  return {
    id: text(block, 'id', param),
    name: text(block, 'name', param),
    arguments: JSON.stringify(block['input'] ?? {}),
    thoughtSignature: undefined,
    ...(cache === undefined ? {} : { cache }),
  }
}

/** A block, with the images of a document behind it: other protocols have documents of text alone. */
function partsOf(block: ClientBlock, param: string): ContentPart[] {
  const part = readPart(block, param)
  const source = block.type === 'document' && isObject(block['source']) ? block['source'] : {}
  if (source.type !== 'content' || !Array.isArray(source.content)) return [part]
  const within = `${param}.source.content`
  const blocks = checkedContent(source.content, within) as readonly ClientBlock[]
  const images = blocks.flatMap((each, at) =>
    each.type === 'image' ? [readPart(each, `${within}.${at}`)] : [],
  )
  return images.length > 0 && textsIn(source.content) === '' ? images : [part, ...images]
}

function readPart(block: ClientBlock, param: string): ContentPart {
  const cache = readMark(block.cache_control)
  switch (block.type) {
    case 'text':
      return { kind: 'text', text: text(block, 'text', param), cache }
    case 'image':
      return { kind: 'image', source: readSource(block, param), detail: undefined, cache }
    case 'document': {
      const { title, context, citations } = block as JsonObject
      return {
        kind: 'file',
        source: readSource(block, param),
        filename: typeof title === 'string' ? title : undefined,
        ...(typeof context === 'string' && context !== '' ? { context } : {}),
        ...(isObject(citations) && citations['enabled'] === true ? { cited: true } : {}),
        cache,
      }
    }
    case 'search_result':
      return { kind: 'text', text: searchResultText(block), cache }
    case 'tool_reference':
      // The result of a client's own search for tools. Other providers are shown all of them at once.
      return { kind: 'text', text: text(block, 'tool_name', param), cache }
    default:
      throw new GatewayError('invalid_request', {
        message: `${param}.type: a block of type ${JSON.stringify(block.type)} cannot be read here`,
        param: `${param}.type`,
      })
  }
}

function readSource(block: ClientBlock, param: string): MediaSource {
  const source = isObject(block['source']) ? block['source'] : undefined
  const at = `${param}.source`
  switch (source?.['type']) {
    case 'base64':
      return { kind: 'base64', mediaType: text(source, 'media_type', at), data: text(source, 'data', at) }
    case 'url':
      return { kind: 'url', url: text(source, 'url', at) }
    case 'file':
      return { kind: 'provider-file', id: text(source, 'file_id', at) }
    case 'text':
      return { kind: 'base64', mediaType: 'text/plain', data: base64(text(source, 'data', at)) }
    case 'content':
      return { kind: 'base64', mediaType: 'text/plain', data: base64(textsIn(source['content'])) }
    default:
      throw new GatewayError('invalid_request', { message: `${at}: the source cannot be read`, param: at })
  }
}

/** A found page as text: its address, then its content. */
function searchResultText(block: ClientBlock): string {
  const head = [block['title'], block['source']].filter((value) => typeof value === 'string')
  return [...head, textsIn(block['content'])].join('\n')
}

function textsIn(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((block) => (isObject(block) ? block['text'] : undefined))
    .filter((value) => typeof value === 'string')
    .join('\n')
}

function base64(words: string): string {
  return Buffer.from(words, 'utf8').toString('base64')
}

function text(of: Record<string, unknown>, field: string, param: string): string {
  const value = of[field]
  if (typeof value === 'string') return value
  throw new GatewayError('invalid_request', {
    message: `${param}.${field}: Input should be a valid string`,
    param: `${param}.${field}`,
  })
}

// Where addresses may be in the body of a message.

/** Blocks inside blocks: tool results, documents with parts. */
const nested: { [member: string]: Place } = {}
const block = parts(nested)
Object.assign(nested, {
  ...wordsAt('type text title context thinking signature data id name tool_use_id'),
  // What a tool was called with, and the address of a found page: nothing fetches these again.
  ...wordsAt('input citations url encrypted_content page_age cache_control'),
  content: block,
  // Of a `container_upload`.
  file_id: 'reference',
  // Of a search result it is a text.
  source: parts({
    ...wordsAt('type media_type data'),
    url: 'address',
    file_id: 'reference',
    content: block,
  }),
} satisfies { [member: string]: Place })

export const addresses = parts({
  ...wordsAt(...gatewayFields),
  ...wordsAt(
    'model betas tool_choice thinking output_config output_format stop_sequences metadata service_tier',
  ),
  messages: parts({ role: 'words', content: block }),
  system: block,
  tools: parts({
    ...wordsAt(
      'type name description input_schema input_examples cache_control mcp_server_name',
      'default_config configs',
    ),
  }),
  mcp_servers: parts({
    ...wordsAt('type name'),
    url: 'address',
    ...wordsAt('authorization_token tool_configuration'),
  }),
})

// Prepares a Messages request for providers of other protocols: drops what only Anthropic supports, with warnings.

/** Fields that are redundant, or do not affect the answer. */
const droppedSilently: ReadonlySet<string> = new Set([
  'betas',
  'cache_control',
  'diagnostics',
  'thinking',
  'user_profile_id',
])

/** The longest user name that every provider accepts. */
const longestUser = 64

/**
 * Removes all of `rest`: other providers refuse unknown fields or interpret them differently. Throws GatewayError
 * `unsupported_parameter` for a tool that only Anthropic's models have.
 */
export function forOtherProtocols(request: ChatRequest): {
  request: ChatRequest
  warnings: readonly Warning[]
} {
  const labels = shortenLabels(request.labels)
  const describes = request.messages.some(({ content }) => content.some(isDescribed))
  if (labels === request.labels && hasNoFields(request.rest) && !describes)
    return { request, warnings: noWarnings }
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  warnOfCitations(request, warn)
  const { tools, output_config: config, ...others } = request.rest
  for (const field of Object.keys(others)) {
    if (!droppedSilently.has(field)) warn(field, 'Only Anthropic knows it; dropped.')
  }
  dropTools(tools, warn)
  return {
    request: {
      ...request,
      messages: describes ? request.messages.map(withDescriptions) : request.messages,
      reasoning: request.reasoning ?? effortOf(config, warn),
      labels,
      rest: {},
    },
    warnings,
  }
}

/** Whether a part is a document with what only Anthropic's have: a title, a context, citations. */
function isDescribed(part: ContentPart): part is Extract<ContentPart, { kind: 'file' }> {
  return part.kind === 'file' && (part.filename ?? part.context ?? part.cited) !== undefined
}

/** The title and the context of a document are text before it, as the model would read them at Anthropic. */
function withDescriptions<Kind extends Message>(message: Kind): Kind {
  if (!message.content.some(isDescribed)) return message
  const content = message.content.flatMap((part): ContentPart[] => {
    if (!isDescribed(part)) return [part]
    const { context, cited: _, ...file } = part
    const said = [file.filename, context].filter((each) => each !== undefined).join('\n')
    return said === '' ? [file] : [{ kind: 'text', text: said, cache: undefined }, file]
  })
  return { ...message, content }
}

/** Drops tools without a client's schema, which other models do not know. */
function dropTools(tools: Json | undefined, warn: Warn): void {
  for (const tool of objectsIn(tools)) {
    if (fateOf('messages-elsewhere', tool) === 'refused') throw toolRefused(String(tool.type), 'tools')
    warn('tools', `A tool of type ${JSON.stringify(tool.type)} was left out: only Anthropic has it.`)
  }
}

/** The effort of a client that did not enable thinking: other models may think all the same. */
function effortOf(config: Json | undefined, warn: Warn): Reasoning | undefined {
  const { effort, ...others }: JsonObject = isObject(config) ? config : {}
  for (const field of Object.keys(others)) warn(`output_config.${field}`, 'Only Anthropic knows it; dropped.')
  const known = effortIn(effort)
  return known === undefined ? undefined : { effort: known }
}

/** A name that is too long for others is replaced by its digest, which still distinguishes users. */
function shortenLabels(labels: Labels): Labels {
  const { user } = labels
  if (user === undefined || user.length <= longestUser) return labels
  return { ...labels, user: new Bun.CryptoHasher('sha256').update(user).digest('hex') }
}
