// Input items of clients as messages of the conversation. Text, reasoning and calls of one assistant turn are several
// items but one message.

import { z } from 'zod'
import type {
  ContentPart,
  JsonObject,
  Message,
  NativeItem,
  ReasoningDetail,
  ToolCall,
  ToolMessage,
  TurnMessage,
} from '../../../conversation/request.ts'
import { callIdIn, clientTools, kindOfCall, kindOfResult } from '../../openai/client-tools.ts'
import {
  isSealed,
  markLast,
  readMark,
  readPartMark,
  unseal,
  type WireCacheControl,
} from '../../request/prompt-parts.ts'
import { isObject, parseJson, present } from '../../lenient.ts'
import { fileSource, mediaSource, readRun } from '../../openai/messages.ts'
import type { PlacedMessage } from '../../request/fields.ts'
import { Approvals, type PlacedItem } from '../../request/gateway-tools.ts'
import {
  type InputItem,
  type InputPart,
  kindOf,
  type KnownItem,
  type NameOf,
  nativeTool,
  offeredName,
  offeredTools,
  placedTools,
  responseObject,
  type ResponsesRequest,
} from './schema.ts'
import type { Inbound } from '../../protocol.ts'

interface Turn {
  readonly content: ContentPart[]
  /** How many messages the content is of. */
  messages: number
  readonly reasoning: TurnReasoning
  readonly toolCalls: ToolCall[]
  /** Results of the calls that the gateway ran. */
  readonly results: ToolMessage[]
}

type MessageItem = Extract<KnownItem, { type: 'message' }>
type CallItem = Extract<KnownItem, { type: 'function_call' }>

/**
 * The messages of these items, each with its path in the body (for a turn, that of its first item). `offset` is the
 * number of items from earlier responses; errors name the others as `input[i]`. Calls of gateway tools are kept only if
 * such tools are declared: providers refuse calls of undeclared tools. `native` is what no message stands for. Throws GatewayError for an invalid `data:` URL.
 */
export function readItems(
  items: readonly InputItem[],
  offset: number,
  runs: 'read' | 'left-out',
  nameOf: NameOf,
): { readonly messages: readonly PlacedMessage[]; readonly native: readonly NativeItem[] } {
  const messages: PlacedMessage[] = []
  const native: { readonly after: PlacedMessage | undefined; readonly item: Omit<NativeItem, 'at'> }[] = []
  let turn: Turn | undefined
  let turnField = ''
  const assistant = (): Turn =>
    (turn ??= { content: [], messages: 0, reasoning: new TurnReasoning(), toolCalls: [], results: [] })
  const endTurn = () => {
    if (turn) {
      const { results, content, reasoning, toolCalls } = turn
      const message: Message = { role: 'assistant', content, reasoning: reasoning.details, toolCalls }
      messages.push({ message, field: turnField })
      for (const result of results) messages.push({ message: result, field: turnField })
    }
    turn = undefined
  }
  const keepNative = (item: JsonObject, param: string, refusedElsewhere?: string) => {
    endTurn()
    const refused = refusedElsewhere === undefined ? {} : { refusedElsewhere }
    native.push({ after: messages.at(-1), item: { item, param, ...refused } })
  }
  const placed = placedItems(items, offset)
  const approvals = runs === 'read' ? new Approvals(placed) : undefined
  for (const [at, any] of items.entries()) {
    const item = any as KnownItem
    const { param } = placed[at]!
    // Text after a tool's result belongs to the next round.
    if (turn && turn.results.length > 0 && /^(message|reasoning)$/.test(kindOf(item))) endTurn()
    if (turn === undefined) turnField = param
    switch (kindOf(item)) {
      case 'message': {
        const { role, content, phase, cache_control } = item as MessageItem
        const parts = readContent(content, `${param}.content`, cache_control)
        if (role === 'assistant') {
          addMessage(assistant(), parts, phase)
          break
        }
        endTurn()
        messages.push({ message: { role, content: parts }, field: param })
        break
      }
      case 'reasoning': {
        const { messages: said, reasoning, toolCalls } = assistant()
        const next = said + reasoning.details.length + toolCalls.length
        const details = detailsOf(item as Extract<KnownItem, { type: 'reasoning' }>, next)
        for (const detail of details) reasoning.add(detail)
        break
      }
      case 'function_call':
        assistant().toolCalls.push(readCall(item as CallItem, nameOf))
        break
      case 'custom_tool_call':
      case 'local_shell_call':
      case 'shell_call':
      case 'apply_patch_call':
      case 'tool_search_call': {
        const fields = item as unknown as JsonObject
        const call = readClientCall(fields, nameOf)
        if (call !== undefined) assistant().toolCalls.push(call)
        else keepNative(ranByProvider(fields), param)
        break
      }
      case 'custom_tool_call_output':
      case 'local_shell_call_output':
      case 'shell_call_output':
      case 'apply_patch_call_output':
      case 'tool_search_output': {
        const fields = item as unknown as JsonObject
        const result = readClientResult(fields, `${param}.output`)
        endTurn()
        if (result !== undefined) messages.push({ message: result, field: param })
        else keepNative(ranByProvider(fields), param)
        break
      }
      case 'additional_tools': {
        const { role = 'developer', tools } = item as unknown as JsonObject & { tools: JsonObject[] }
        const native = tools.flatMap((tool) => nativeTool(tool) ?? [])
        // What the gateway runs itself is declared to it alone.
        if (native.length > 0) keepNative({ type: 'additional_tools', role, tools: native }, param)
        break
      }
      case 'agent_message': {
        endTurn()
        const { author, recipient, content } = item as Extract<KnownItem, { type: 'agent_message' }>
        const own: JsonObject = { type: 'agent_message', ...present({ author, recipient }) }
        const said = content.map((part): JsonObject => ({ ...part }) as JsonObject)
        const texts = content.flatMap((part) => (part.type === 'input_text' ? [part.text] : []))
        if (texts.length < content.length) {
          const why = 'a message between agents that is encrypted can be read by its own provider alone'
          keepNative({ ...own, content: said }, param, why)
          break
        }
        const from =
          author == null ? '' : `Message from ${author}${recipient == null ? '' : ` to ${recipient}`}:\n`
        const text = { kind: 'text', text: from + texts.join('\n'), cache: undefined } as const
        const message: Message = { role: 'user', content: [text], item: { ...own, content: said } }
        messages.push({ message, field: param })
        break
      }
      case 'compaction_trigger':
        endTurn()
        messages.push({ message: compactionAsked, field: param })
        break
      case 'compaction': {
        const { encrypted_content } = item as Extract<KnownItem, { type: 'compaction' }>
        const summary = summaryIn(encrypted_content)
        if (summary !== undefined) {
          endTurn()
          const text = `What was said and done before, in short:\n\n${summary}`
          messages.push({ message: { role: 'user', content: textParts(text) }, field: param })
          break
        }
        const why = 'a compacted conversation can be read by its own provider alone'
        keepNative({ type: 'compaction', encrypted_content }, param, why)
        break
      }
      case 'mcp_approval_request': {
        const asked = approvals?.askedCall(item.id)
        if (!asked?.result) break
        assistant().toolCalls.push(asked.call)
        assistant().results.push(asked.result)
        break
      }
      case 'mcp_approval_response': {
        const { approval_request_id: id } = item as Extract<KnownItem, { type: 'mcp_approval_response' }>
        const asked = approvals?.askedCall(id)
        // An approved call runs now, wherever it was requested.
        if (asked && !asked.result) assistant().toolCalls.push(asked.call)
        break
      }
      case 'mcp_call':
      case 'web_search_call': {
        const fields = item as unknown as JsonObject
        const run = runs === 'read' ? readRun(fields, item.id ?? `${kindOf(item)}_${at}`) : undefined
        if (run === undefined) break
        assistant().toolCalls.push(run.call)
        assistant().results.push(run.result)
        break
      }
      case 'image_generation_call': {
        const { result } = item as Extract<KnownItem, { type: 'image_generation_call' }>
        if (result != null) assistant().content.push(imageOf(result, `${param}.result`))
        break
      }
      case 'function_call_output': {
        const { call_id, output, cache_control } = item as Extract<
          KnownItem,
          { type: 'function_call_output' }
        >
        endTurn()
        const content = readContent(output, `${param}.output`, cache_control)
        const message: Message = { role: 'tool', toolCallId: call_id, content, isError: false }
        messages.push({ message, field: param })
        break
      }
      default:
      // A reference has been replaced by its item, and other types are refused.
    }
  }
  endTurn()
  const ordered = resultsBehindCalls(messages)
  const at = (after: PlacedMessage | undefined) => (after === undefined ? 0 : ordered.indexOf(after) + 1)
  return { messages: ordered, native: native.map(({ after, item }) => ({ at: at(after), ...item })) }
}

/** A call of a tool that is no function; undefined for one that the provider has run itself. */
function readClientCall(item: JsonObject, nameOf: NameOf): ToolCall | undefined {
  const kind = kindOfCall(item.type)
  const id = callIdIn(item)
  if (kind === undefined || id === undefined || item.execution === 'server') return undefined
  const name = kind === 'custom' ? String(item.name) : kind
  const namespace = typeof item.namespace === 'string' ? item.namespace : undefined
  return {
    id,
    name: nameOf({ kind, name, namespace }) ?? offeredName(name, namespace),
    arguments: clientTools[kind].argumentsOf(item),
    thoughtSignature: signatureIn(item),
    form: { kind, name, ...(namespace === undefined ? {} : { namespace }) },
  }
}

/** What answers such a call; undefined for what the provider has run itself. */
function readClientResult(item: JsonObject, param: string): ToolMessage | undefined {
  const kind = kindOfResult(item.type)
  const id = callIdIn(item)
  if (kind === undefined || id === undefined || item.execution === 'server') return undefined
  const { id: _, call_id: _call, ...fields } = item
  return {
    role: 'tool',
    toolCallId: id,
    content: resultContent(item, param),
    isError: item.status === 'failed',
    // Its text and media are content, for whoever is sent it.
    item: kind === 'custom' ? { type: item.type! } : sentResult(fields),
  }
}

function resultContent(item: JsonObject, param: string): ContentPart[] {
  const text = (words: string): ContentPart[] => [{ kind: 'text', text: words, cache: undefined }]
  switch (item.type) {
    case 'custom_tool_call_output':
      return readContent(
        item.output as string | readonly InputPart[],
        param,
        item['cache_control'] as WireCacheControl,
      )
    case 'tool_search_output': {
      const names = placedTools({ tools: [] }, [item as unknown as InputItem], 0)
      return text(JSON.stringify({ tools_found: [...offeredTools(names).keys()] }))
    }
    case 'apply_patch_call_output':
      return text(typeof item.output === 'string' ? item.output : String(item.status ?? 'completed'))
    default:
      return text(typeof item.output === 'string' ? item.output : JSON.stringify(item.output))
  }
}

const resultFields = ['type', 'output', 'status', 'max_output_length', 'execution'] as const

/** What providers of the protocol are sent of a result. */
function sentResult(item: JsonObject): JsonObject {
  const sent: JsonObject = {}
  for (const field of resultFields) if (item[field] !== undefined) sent[field] = item[field]
  if (Array.isArray(item.tools))
    sent.tools = item.tools.filter(isObject).flatMap((tool) => nativeTool(tool) ?? [])
  return sent
}

/** A search for tools that the provider has run itself, and what it found. */
function ranByProvider(item: JsonObject): JsonObject {
  const { type, arguments: args, status = 'completed' } = item
  const ran: JsonObject = { type: type!, execution: 'server', call_id: null, status }
  return type === 'tool_search_call' ? { ...ran, arguments: args! } : { ...sentResult(item), ...ran }
}

function signatureIn(item: JsonObject): string | undefined {
  const google = isObject(item.extra_content) ? item.extra_content.google : undefined
  const signature = isObject(google) ? google.thought_signature : undefined
  return typeof signature === 'string' ? signature : undefined
}

function addMessage(turn: Turn, parts: readonly ContentPart[], phase: string | null | undefined): void {
  if (parts.length === 0) return
  const at = turn.messages + turn.toolCalls.length
  const named = phase == null || phase === '' ? { at } : { at, phase }
  const message: TurnMessage | undefined = at === 0 && !('phase' in named) ? undefined : named
  for (const part of parts) {
    const isText = part.kind === 'text' || part.kind === 'refusal'
    turn.content.push(isText && message !== undefined ? { ...part, message } : part)
  }
  turn.messages += 1
}

/**
 * The same with each result directly behind the turn that called. This protocol finds a result by its id wherever it
 * stands, and Codex puts warnings before it; chat completions and others refuse a call that is not answered at once.
 */
function resultsBehindCalls(messages: PlacedMessage[]): PlacedMessage[] {
  const callers = new Map<string, PlacedMessage>()
  const moved = new Map<PlacedMessage, PlacedMessage[]>()
  const others: PlacedMessage[] = []
  let answered: PlacedMessage | undefined
  for (const placed of messages) {
    const { message } = placed
    if (message.role === 'assistant') for (const { id } of message.toolCalls) callers.set(id, placed)
    if (message.role !== 'tool') answered = message.role === 'assistant' ? placed : undefined
    const caller = message.role === 'tool' ? callers.get(message.toolCallId) : undefined
    if (caller === undefined || caller === answered) others.push(placed)
    else if (moved.has(caller)) moved.get(caller)!.push(placed)
    else moved.set(caller, [placed])
  }
  if (moved.size === 0) return messages
  const ordered: PlacedMessage[] = []
  let waiting: readonly PlacedMessage[] = []
  for (const [at, placed] of others.entries()) {
    ordered.push(placed)
    if (placed.message.role === 'assistant') waiting = moved.get(placed) ?? []
    if (others[at + 1]?.message.role === 'tool') continue
    for (const result of waiting) ordered.push(result)
    waiting = []
  }
  return ordered
}

const noRuns: readonly PlacedItem[] = []

/** The items of a history that holds any of MCP servers: what became of their calls is read from all of them. */
export function placedRuns(items: readonly InputItem[], offset: number): readonly PlacedItem[] {
  return items.some((item) => kindOf(item).startsWith('mcp_')) ? placedItems(items, offset) : noRuns
}

/** Each item with its path in the body; items of earlier responses have none. */
function placedItems(items: readonly InputItem[], offset: number): readonly PlacedItem[] {
  return items.map((item, at) => ({
    item: item as unknown as JsonObject,
    param: at < offset ? 'previous_response_id' : `input[${at - offset}]`,
  }))
}

function readCall(
  { call_id, name, namespace, arguments: json, extra_content }: CallItem,
  nameOf: NameOf,
): ToolCall {
  return {
    id: call_id,
    name:
      nameOf({ kind: 'function', name, namespace: namespace ?? undefined }) ?? offeredName(name, namespace),
    arguments: json === '' ? '{}' : json,
    thoughtSignature: extra_content?.google?.thought_signature ?? undefined,
    ...(namespace == null || namespace === '' ? {} : { form: { kind: 'function', name, namespace } }),
  }
}

/** A generated image; base64 does not say its type, which is PNG by default. */
function imageOf(result: string, param: string): ContentPart {
  const url = result.startsWith('data:') ? result : `data:image/png;base64,${result}`
  return { kind: 'image', source: mediaSource(url, param), detail: undefined, cache: undefined }
}

/** A mark on the item applies to its last part that can carry one. */
function readContent(
  content: string | readonly InputPart[],
  param: string,
  mark: WireCacheControl,
): ContentPart[] {
  const parts =
    typeof content === 'string'
      ? textParts(content)
      : content.map((part, at) => readPart(part, `${param}[${at}]`))
  return mark == null ? parts : markLast(parts, readMark(mark)!)
}

function textParts(text: string): ContentPart[] {
  return text === '' ? [] : [{ kind: 'text', text, cache: undefined }]
}

function readPart(part: InputPart, param: string): ContentPart {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { kind: 'text', text: part.text, cache: readPartMark(part) }
    case 'refusal':
      return { kind: 'refusal', text: part.refusal }
    case 'input_image':
      return {
        kind: 'image',
        source:
          part.image_url == null
            ? { kind: 'provider-file', id: part.file_id! }
            : mediaSource(part.image_url, `${param}.image_url`),
        detail: part.detail ?? undefined,
        cache: readPartMark(part),
      }
    case 'input_file':
      return {
        kind: 'file',
        source: fileSource(part, param),
        filename: part.filename ?? undefined,
        cache: readPartMark(part),
      }
    case 'input_audio':
      return { kind: 'audio', format: part.input_audio.format, data: part.input_audio.data }
    default:
      return part satisfies never
  }
}

// Reasoning of any provider in the reasoning items of clients. All details, also encrypted ones and signatures, are in
// `encrypted_content`.

/**
 * The details of a client's reasoning item; `next` is the index of the first if the item has none. Encrypted content
 * that is not ours is OpenAI's: clients bring their history along. Text without encrypted content has no known format.
 */
export function detailsOf(item: Extract<KnownItem, { type: 'reasoning' }>, next: number): ReasoningDetail[] {
  const sealed = item.encrypted_content ?? ''
  const ours = unseal(sealed)
  if (ours !== undefined) return ours
  const foreign = sealed !== '' && !isSealed(sealed)
  const format = foreign ? 'openai-responses-v1' : null
  const id = foreign && item.id != null ? { id: item.id } : {}
  const parts: Omit<ReasoningDetail, 'index'>[] = [
    ...(item.summary ?? []).map(({ text }) => ({ type: 'reasoning.summary', format, ...id, summary: text })),
    ...(item.content ?? []).map(({ text }) => ({ type: 'reasoning.text', format, ...id, text })),
    ...(foreign ? [{ type: 'reasoning.encrypted', format, ...id, data: sealed }] : []),
  ]
  return parts.map((part, at): ReasoningDetail => ({ ...part, index: next + at }))
}

/** The reasoning of one turn, collected item by item. */
class TurnReasoning {
  readonly details: ReasoningDetail[] = []
  /** The position of the last detail of each index. */
  readonly #places = new Map<number, number>()

  /** A detail that is sent again, with its signature, replaces the earlier one. */
  add(detail: ReasoningDetail): void {
    const place = this.#places.get(detail.index)
    const earlier = place === undefined ? undefined : this.details[place]
    if (earlier && isSame(earlier, detail)) {
      this.details[place!] = detail
      return
    }
    this.#places.set(detail.index, this.details.length)
    this.details.push(detail)
  }
}

function isSame(a: ReasoningDetail, b: ReasoningDetail): boolean {
  const words = ({ type, format, text, summary, data }: ReasoningDetail) =>
    [type, format, text ?? '', summary ?? '', data ?? ''].join('\n')
  return words(a) === words(b)
}

// Compaction: a long conversation becomes what its people said and a summary of the rest, in an item that the client sends
// back unread (platform.openai.com/docs/api-reference/responses/compact). The model of the request writes the summary,
// whatever its provider speaks, so that any other can go on with it.

/** Marks what we made: what a provider has encrypted is for that provider alone. */
const prefix = 'weir.'

const carriedSchema = z.object({ summary: z.string() })

const request = `Write down what is needed to go on with this conversation without having read it: what was asked for, what was \
decided and why, what has been done and what came of it, with all names, paths, figures and identifiers that still \
matter, and what remains to be done. Leave out what is settled and of no further use. Write nothing else, and call no tool.`

/** What a `compaction_trigger` asks of a model: its provider is sent the trigger itself where it compacts. */
export const compactionAsked: Message = {
  role: 'user',
  content: [{ kind: 'text', text: request, cache: undefined }],
  item: { type: 'compaction_trigger' },
}

/** Whether a request asks for the compaction of its conversation instead of an answer to it. */
export function asksForCompaction({ input }: Pick<ResponsesRequest, 'input'>): boolean {
  const last = Array.isArray(input) ? input.at(-1) : undefined
  return last !== undefined && kindOf(last) === 'compaction_trigger'
}

/** Of these a summary has no use, or the request for it has its own. */
const replaced: ReadonlySet<string> = new Set([
  'stream',
  'store',
  'background',
  'include',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'max_tool_calls',
  'text',
])

/** The request for a response that is the summary. */
export function summaryRequest(asked: JsonObject): JsonObject {
  const kept = Object.fromEntries(Object.entries(asked).filter(([name]) => !replaced.has(name)))
  const { input } = asked
  const said = typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? [])
  // What is no list is refused by its own name.
  const items = Array.isArray(said) ? [...said, { role: 'user', content: request }] : said
  return { ...kept, input: items, store: false, stream: false }
}

/**
 * Answers with the compacted conversation instead of the summary alone. `items` are those that the summary was asked
 * with. Where no whole summary was written, the output is the conversation as it was, so that nothing is lost.
 */
export function asCompaction(responses: Inbound, items: readonly JsonObject[]): Inbound {
  return {
    ...responses,
    whole: (...answer) => compactionOf(responses.whole(...answer), items.slice(0, -1)),
  }
}

function compactionOf(response: JsonObject, items: readonly JsonObject[]): JsonObject {
  const { id, created_at, status, incomplete_details, model, usage, warnings } = response
  const summary = textOf(response)
  const isWhole = status === 'completed' && summary.trim() !== ''
  const output = isWhole
    ? [
        ...items.filter(isSaid).map(message),
        { id: String(id).replace(/^resp_/, 'cmp_'), ...compactionOfSummary(summary) },
      ]
    : [...items]
  return {
    id: id!,
    object: 'response.compaction',
    created_at: created_at!,
    model: model!,
    status: isWhole ? 'completed' : 'incomplete',
    incomplete_details: incomplete_details!,
    output,
    usage: usage!,
    ...(warnings === undefined ? {} : { warnings }),
  }
}

function textOf({ output }: JsonObject): string {
  const parts = (output as JsonObject[]).flatMap(({ type, content }) =>
    type === 'message' ? (content as JsonObject[]) : [],
  )
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}

/** What the people and the developer said is kept word by word. */
function isSaid(item: JsonObject): boolean {
  return kindOf(item as unknown as InputItem) === 'message' && item['role'] !== 'assistant'
}

function message({ role, content }: JsonObject): JsonObject {
  return { type: 'message', role: role!, content: content! }
}

/** A summary as an item, without its id. */
export function compactionOfSummary(summary: string): JsonObject {
  const carried = Buffer.from(JSON.stringify({ summary })).toString('base64url')
  return { type: 'compaction', encrypted_content: prefix + carried }
}

/** The summary in a `compaction` item of ours; undefined for one of a provider. */
export function summaryIn(encrypted: string): string | undefined {
  if (!encrypted.startsWith(prefix)) return undefined
  const carried = parseJson(Buffer.from(encrypted.slice(prefix.length), 'base64url').toString('utf8'))
  return isObject(carried) ? carriedSchema.safeParse(carried).data?.summary : undefined
}

export const compactionObject = responseObject
  .pick({ id: true, created_at: true, model: true, incomplete_details: true, usage: true, warnings: true })
  .extend({
    object: z.literal('response.compaction'),
    status: z.enum(['completed', 'incomplete']),
    output: z
      .array(z.looseObject({ type: z.string() }))
      .describe('To be sent as the input of the next request, in place of all before it.'),
  })
