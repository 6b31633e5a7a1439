// Encodes a streamed answer as events of the Messages API: one open block at a time, numbered from 0.

import {
  type Annotation,
  type ChatEvent,
  type FinishReason,
  joinReasoning,
  nativeReason,
} from '../../../conversation/event.ts'
import {
  type GatewayCall,
  type GatewayRun,
  type WebToolKind,
  webToolKinds,
  webTools,
} from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, Message, ReasoningDetail, ToolCall } from '../../../conversation/request.ts'
import { completionTokens, noUsage, type Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors/errors.ts'
import { blockOfDetail, signatureOf, thinkingText } from '../../claude/content-blocks.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextEvent } from '../../framing/text-template.ts'
import { entryOf, isObject, parseJson, parseToolJson } from '../../lenient.ts'
import type { AnswerContext, Bill, StreamEncoder, Texts } from '../../protocol.ts'

type OpenBlock =
  /** `start`: the length of the answer's text before this block, UTF-16 units. `event` is built when it is needed. */
  | { readonly kind: 'text'; text: string; readonly start: number; event: TextEvent | undefined }
  | { readonly kind: 'thinking'; detail: ReasoningDetail }
  | { readonly kind: 'call'; readonly call: number; readonly end: ArgumentsEnd }
  /** A search of the provider whose query is not known yet. */
  | { readonly kind: 'search'; readonly id: string }

type FinishOf = Extract<ChatEvent, { kind: 'choice-finish' }>
type GatewayItem = Extract<ChatEvent, { kind: 'gateway-item' }>

/** Encodes one answer. The last block stays open until `finish`, when its end is certain. */
export class EventEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  #index = -1
  #open: OpenBlock | undefined
  /** Events that wait until the open call has all its arguments: other providers may stream several calls at once. */
  #waiting: ChatEvent[] = []
  #finish: FinishOf | undefined
  #called = false
  #textLength = 0
  /** Block ids of the provider's searches. */
  readonly #searches = new Map<string, string>()

  constructor(context: AnswerContext) {
    this.#context = context
  }

  start(counted?: Usage): readonly Frame[] {
    const message = {
      id: this.#context.id,
      type: 'message',
      role: 'assistant',
      model: this.#context.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      // The last event carries the counts and the cost. Clients take the counts from it, but for what was written to a
      // cache with its lifetime: of that they would show zeros where nothing is counted yet.
      usage:
        counted === undefined ? { ...wireCounters(noUsage), cache_creation: null } : wireCounters(counted),
      ...this.#context.extra,
    }
    return [frameOf({ type: 'message_start', message })]
  }

  event(event: ChatEvent): readonly Frame[] {
    const open = this.#open
    if (event.kind !== 'text-delta' || open?.kind !== 'text') return this.wireEvents(event).map(frameOf)
    if (event.choice !== 0 || event.text === '') return []
    // The most frequent frame: only the text has to be escaped.
    this.#keepText(open, event.text)
    return [{ event: 'content_block_delta', data: `${this.#beforeText()}${JSON.stringify(event.text)}}}` }]
  }

  texts({ choice, texts, content }: Texts): string | undefined {
    if (choice !== 0) return ''
    const open = this.#open
    if (open?.kind !== 'text') return undefined
    this.#keepText(open, content)
    open.event ??= new TextEvent(`event: content_block_delta\ndata: ${this.#beforeText()}"`, '"}}\n\n')
    return open.event.write(texts)
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const last = this.close()
    const reason = this.#finish?.reason ?? 'stop'
    const finish = this.#called && reason === 'stop' ? 'tool_calls' : reason
    const delta = {
      type: 'message_delta',
      delta: {
        ...stopOf(finish, this.#finish?.native),
        stop_sequence: this.#finish?.stopSequence ?? null,
      },
      usage: wireUsage(usage, bill),
      // What stopped the answer is known only now.
      ...this.#context.extra,
    }
    return [...last, delta, { type: 'message_stop' }].map(frameOf)
  }

  fail(error: RenderedError): readonly Frame[] {
    return [frameOf(wireError(error))]
  }

  /** The wire events of an event. */
  wireEvents(event: ChatEvent): JsonObject[] {
    if ('choice' in event && event.choice !== 0) return []
    if (event.kind === 'choice-finish') {
      this.#finish = event
      return []
    }
    const open = this.#open
    if (open?.kind !== 'call') return this.#write(event)
    if (event.kind === 'tool-call-delta' && event.call === open.call) {
      const written = this.#write(event)
      return this.#waiting.length > 0 && open.end.isReached ? [...written, ...this.#resume()] : written
    }
    if (this.#waiting.length === 0 && open.end.isReached) return this.#write(event)
    this.#waiting.push(event)
    return []
  }

  /** The wire events of all that waits, call by call with complete arguments, then the end of the last block. */
  close(): JsonObject[] {
    const written: JsonObject[] = []
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting
      this.#waiting = []
      const open = this.#open
      const mine = (event: ChatEvent) =>
        event.kind === 'tool-call-delta' && open?.kind === 'call' && event.call === open.call
      written.push(...waiting.filter(mine).flatMap((event) => this.#write(event)))
      const [next, ...others] = waiting.filter((event) => !mine(event))
      if (next !== undefined) written.push(...this.#write(next))
      for (const event of others) written.push(...this.wireEvents(event))
    }
    return [...written, ...this.#closeBlock()]
  }

  /** Encodes waiting events in order, until an incomplete call makes the rest wait again. */
  #resume(): JsonObject[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting.flatMap((event) => this.wireEvents(event))
  }

  #write(event: ChatEvent): JsonObject[] {
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        return this.#text(event.text)
      case 'reasoning-delta':
        return this.#reasoning(event.detail)
      case 'annotation': {
        if (this.#open?.kind !== 'text') return []
        const quoted = quotedIn(this.#open, event.annotation)
        return [this.#delta({ type: 'citations_delta', citation: citation(event.annotation, quoted) })]
      }
      case 'tool-call-start': {
        this.#called = true
        const block = { type: 'tool_use', id: event.id, name: event.name, input: {} }
        return this.#start({ kind: 'call', call: event.call, end: new ArgumentsEnd() }, block)
      }
      case 'tool-call-delta':
        // White space may follow the arguments of a call whose block is closed.
        if (this.#open?.kind !== 'call' || this.#open.call !== event.call || event.arguments === '') return []
        this.#open.end.add(event.arguments)
        return [this.#delta(inputDelta(event.arguments))]
      case 'gateway-call':
        // Clients end the stream over arguments that are no JSON.
        return this.#whole(callBlock(event.call), inputDelta(JSON.stringify(inputOf(event.call.arguments))))
      case 'gateway-run':
        return this.#whole(resultBlock(event.run))
      case 'search-start':
        return this.#beginSearch(event.search)
      case 'gateway-item':
        return event.item.type === 'web_search_call' ? this.#endSearch(event) : []
      default:
        // Audio, images and log probabilities have no block in this protocol.
        return []
    }
  }

  #beginSearch(search: string): JsonObject[] {
    const id = searchBlockId(this.#context.id, this.#searches.size)
    this.#searches.set(search, id)
    return this.#start({ kind: 'search', id }, searchBlock(id))
  }

  #endSearch({ item, search = `item ${this.#searches.size}` }: GatewayItem): JsonObject[] {
    const begun = this.#searches.has(search) ? [] : this.#beginSearch(search)
    const id = this.#searches.get(search)!
    const isOpen = this.#open?.kind === 'search' && this.#open.id === id
    const input = isOpen ? [this.#delta(inputDelta(searchInput(item)))] : []
    return [...begun, ...input, ...this.#whole(searchResultBlock(id, item))]
  }

  #text(text: string): JsonObject[] {
    if (text === '') return []
    const before = this.#textLength
    const begun =
      this.#open?.kind === 'text'
        ? []
        : this.#start({ kind: 'text', text: '', start: before, event: undefined }, { type: 'text', text: '' })
    if (this.#open?.kind === 'text') this.#keepText(this.#open, text)
    return [...begun, this.#delta({ type: 'text_delta', text })]
  }

  #keepText(open: Extract<OpenBlock, { kind: 'text' }>, text: string): void {
    this.#textLength += text.length
    open.text += text
  }

  #reasoning(detail: ReasoningDetail): JsonObject[] {
    const block = blockOfDetail(detail)
    if (block.type === 'redacted_thinking') return this.#whole(block)
    if (block.type === 'compaction') {
      const content = block.content ?? null
      return this.#whole({ type: 'compaction', content: null }, { type: 'compaction_delta', content })
    }
    const written: JsonObject[] = []
    const open = this.#open
    if (open?.kind === 'thinking' && open.detail.index === detail.index)
      open.detail = joinReasoning(open.detail, detail)
    else
      written.push(
        ...this.#start({ kind: 'thinking', detail }, { type: 'thinking', thinking: '', signature: '' }),
      )
    const thinking = thinkingText(detail)
    if (thinking !== '') written.push(this.#delta({ type: 'thinking_delta', thinking }))
    return written
  }

  #start(block: OpenBlock | undefined, content_block: JsonObject): JsonObject[] {
    const closed = this.#closeBlock()
    this.#index += 1
    this.#open = block
    return [...closed, { type: 'content_block_start', index: this.#index, content_block }]
  }

  /** A block that is complete. */
  #whole(block: JsonObject, ...deltas: JsonObject[]): JsonObject[] {
    return [...this.#start(undefined, block), ...deltas.map((delta) => this.#delta(delta)), this.#stop()]
  }

  #closeBlock(): JsonObject[] {
    const open = this.#open
    if (open === undefined) return []
    this.#open = undefined
    if (open.kind !== 'thinking') return [this.#stop()]
    return [this.#delta({ type: 'signature_delta', signature: signatureOf(open.detail) }), this.#stop()]
  }

  #stop(): JsonObject {
    return { type: 'content_block_stop', index: this.#index }
  }

  #delta(delta: JsonObject): JsonObject {
    return { type: 'content_block_delta', index: this.#index, delta }
  }

  #beforeText(): string {
    return `{"type":"content_block_delta","index":${this.#index},"delta":{"type":"text_delta","text":`
  }
}

/** A piece of the arguments of a call. */
function inputDelta(json: string): JsonObject {
  return { type: 'input_json_delta', partial_json: json }
}

/** The part of an open text block that a source is cited for. Some providers restart the offsets with each text. */
function quotedIn(
  { text, start: before }: { text: string; start: number },
  { start, end }: Annotation,
): string {
  const within = start >= before && end - before <= text.length
  return within ? text.slice(start - before, end - before) : text.slice(-(end - start))
}

/** The names on `event:` lines are required: client libraries dispatch on them. */
export function frameOf(event: JsonObject): Frame {
  return { event: String(event.type), data: JSON.stringify(event) }
}

// Fields of an answer for clients of the Messages API: usage, stop reason, errors.

/** The `usage` object: cached tokens separate from the input, reasoning included in the output, and the cost. */
export function wireUsage(usage: Usage, bill: Bill): JsonObject {
  return { ...wireCounters(usage), ...costFields(bill) }
}

function wireCounters(usage: Usage): JsonObject {
  return {
    input_tokens: usage.input + usage.inputAudio + usage.inputImage,
    cache_creation_input_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
    cache_read_input_tokens: usage.cacheRead + usage.cacheReadAudio,
    cache_creation: {
      ephemeral_5m_input_tokens: usage.cacheWrite5m,
      ephemeral_1h_input_tokens: usage.cacheWrite1h,
    },
    output_tokens: completionTokens(usage),
    output_tokens_details: { thinking_tokens: usage.reasoning },
    server_tool_use: {
      web_fetch_requests: usage.toolCalls['web_fetch'] ?? 0,
      web_search_requests: usage.toolCalls['web_search'] ?? 0,
    },
    // The protocol has names for only two service tiers.
    service_tier: usage.serviceTier === 'priority' ? 'priority' : 'standard',
    inference_geo: null,
    speed: null,
  }
}

/** What the gateway adds to the counters. */
export function costFields({ cost, lines }: Bill): JsonObject {
  return { cost: Number(cost), cost_details: { ...lines, total: cost } }
}

const stopReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
  other: 'other',
}
/** Stop reasons that Anthropic distinguishes and we do not; kept if they are Anthropic's own. */
const finerReasons: Readonly<Record<string, FinishReason>> = {
  stop_sequence: 'stop',
  pause_turn: 'other',
  model_context_window_exceeded: 'length',
}

/** How an answer stopped, with the provider's own word where no stop reason of Anthropic's says it. */
export function stopOf(reason: FinishReason, native: string | undefined): JsonObject {
  const own = native !== undefined && entryOf(finerReasons, native) === reason
  return own ? { stop_reason: native } : { stop_reason: stopReasons[reason], ...nativeReason(reason, native) }
}

/** A web source as a citation of its text block. */
function citation(annotation: Annotation, quoted: string): JsonObject {
  return {
    type: 'web_search_result_location',
    url: annotation.url,
    title: annotation.title,
    cited_text: quoted,
    encrypted_index: '',
  }
}

/** The request field for message threads, which are not supported. */
export const threadField = 'thread'

const typeOfCode: Readonly<Record<string, string>> = {
  overloaded: 'overloaded_error',
  store_unavailable: 'overloaded_error',
  no_provider_available: 'overloaded_error',
  upstream_timeout: 'timeout_error',
  payload_too_large: 'request_too_large',
}
const typeOfType: Readonly<Record<string, string>> = {
  conflict_error: 'invalid_request_error',
  server_error: 'api_error',
  provider_error: 'api_error',
}

/** An error in Anthropic's shape, with our code and metadata beside its type. */
export function wireError({ error }: RenderedError): JsonObject {
  const { code, type, message, param, metadata } = error
  const requestId = metadata['request_id']
  return {
    type: 'error',
    error: {
      type: typeOfCode[code] ?? typeOfType[type] ?? type,
      message: code === 'context_length_exceeded' ? tooLong(message) : message,
      code,
      // Where Anthropic's clients look for a machine-readable code.
      details: detailsOf(code, param),
      param,
      metadata: metadata as JsonObject,
    },
    request_id: typeof requestId === 'string' ? requestId : null,
  }
}

/**
 * That a prompt is too long, in words that Anthropic's clients look for: Claude Code shortens a conversation when it
 * reads the first, and asks for fewer tokens when it reads the second. Other providers say it in words of their own.
 */
function tooLong(message: string): string {
  return /prompt is too long|exceed context limit/i.test(message) ? message : `prompt is too long: ${message}`
}

/** Anthropic's client runs a tool loop on a thread, and continues without one if the error has this message. */
function detailsOf(code: string, param: string | null): JsonObject {
  return param === threadField
    ? { error_code: 'thread_unsupported_request', unsupported: [threadField] }
    : { error_code: code }
}

/** The arguments of a call as an object; if they are not one (cut by the token limit, or no JSON), as text. */
export function inputOf(text: string): JsonObject {
  const input = parseToolJson(text)
  return isObject(input) ? input : { invalid_arguments: text }
}

// Finds where the arguments of a call end, as their text comes.

/** Reads each piece once: parsing all of the text again with every piece of a long call would take minutes. */
export class ArgumentsEnd {
  #unread: string[] = []
  #depth = 0
  #inString = false
  #isEscaped = false
  #isReached = false

  add(piece: string): void {
    if (!this.#isReached) this.#unread.push(piece)
  }

  /** Whether the object or list that the text began with is closed. What it holds is not checked. */
  get isReached(): boolean {
    for (const piece of this.#unread.splice(0)) this.#read(piece)
    return this.#isReached
  }

  #read(piece: string): void {
    for (let at = 0; at < piece.length && !this.#isReached; at++) {
      const character = piece[at]!
      if (this.#isEscaped) this.#isEscaped = false
      else if (this.#inString && character === '\\') this.#isEscaped = true
      else if (character === '"') this.#inString = !this.#inString
      else if (!this.#inString) this.#nest(character)
    }
  }

  #nest(character: string): void {
    if (character === '{' || character === '[') this.#depth++
    else if (character === '}' || character === ']') this.#isReached = --this.#depth <= 0
  }
}

// Calls of the gateway's tools as blocks of the Messages API, shaped like those of Anthropic's own tools so that its
// clients display them; and back.

/** Distinguishes our blocks from Anthropic's, which only Anthropic can read. */
const idPrefix = 'srvtoolu_weir_'

function idOf({ id }: GatewayCall): string {
  return idPrefix + id.replace(/[^a-zA-Z0-9_]/g, '_')
}

const serverTools: Readonly<Record<WebToolKind, string>> = {
  'web-search': 'web_search',
  'open-page': 'web_fetch',
}

/** The block of a call, without its input. */
function callBlock(call: GatewayCall): JsonObject {
  const { origin } = call
  return origin.kind === 'mcp'
    ? { type: 'mcp_tool_use', id: idOf(call), name: origin.tool, server_name: origin.serverLabel, input: {} }
    : { type: 'server_tool_use', id: idOf(call), name: serverTools[origin.kind], input: {} }
}

/** The result block. The model's own text is included, encoded like Anthropic's encrypted pages. */
function resultBlock({ call, result }: GatewayRun): JsonObject {
  const tool_use_id = idOf(call)
  const failed = result.failure !== undefined
  const sealed = Buffer.from(result.text, 'utf8').toString('base64')
  switch (call.origin.kind) {
    case 'mcp':
      return {
        type: 'mcp_tool_result',
        tool_use_id,
        is_error: failed,
        content: [{ type: 'text', text: result.output ?? result.text }],
      }
    case 'open-page':
      return {
        type: 'web_fetch_tool_result',
        tool_use_id,
        content: failed
          ? { type: 'web_fetch_tool_result_error', error_code: errorCode(result.failure!.code) }
          : {
              type: 'web_fetch_result',
              url: urlOf(call.arguments),
              content: {
                type: 'document',
                source: { type: 'text', media_type: 'text/plain', data: result.text },
                title: result.sources?.[0]?.title ?? null,
              },
              retrieved_at: null,
            },
      }
    case 'web-search':
      return {
        type: 'web_search_tool_result',
        tool_use_id,
        content: failed
          ? { type: 'web_search_tool_result_error', error_code: errorCode(result.failure!.code) }
          : (result.sources ?? []).map((source, at): JsonObject => ({
              type: 'web_search_result',
              url: source.url,
              title: source.title,
              page_age: source.publishedAt ?? null,
              // The first source carries all of it: the sources belong to one text.
              encrypted_content: at === 0 ? sealed : '',
            })),
      }
    default:
      return call.origin satisfies never
  }
}

// ---- searches of the provider -------------------------------------------------------------------------------

/** For a search that another provider ran itself: of no use to any model in a later turn. */
const searchPrefix = `${idPrefix}search_`

/** The block id of the `number`th provider search in the answer. */
function searchBlockId(answer: string, number: number): string {
  return `${searchPrefix}${answer.replace(/[^a-zA-Z0-9_]/g, '_')}_${number}`
}

/** The block of a provider's search, without its input. */
function searchBlock(id: string): JsonObject {
  return { type: 'server_tool_use', id, name: 'web_search', input: {} }
}

/** What it looked for, as JSON text. */
function searchInput({ action }: JsonObject): string {
  const { query, url } = isObject(action) ? action : {}
  return JSON.stringify(typeof url === 'string' ? { url } : { query: typeof query === 'string' ? query : '' })
}

/** Builds the result block from the search as an item of the Responses protocol. */
function searchResultBlock(id: string, { action, status }: JsonObject): JsonObject {
  const sources = isObject(action) && Array.isArray(action['sources']) ? action['sources'] : []
  return {
    type: 'web_search_tool_result',
    tool_use_id: id,
    content:
      status === 'failed'
        ? { type: 'web_search_tool_result_error', error_code: 'unavailable' }
        : sources.filter(isObject).flatMap(({ url, title }): JsonObject[] => {
            if (typeof url !== 'string') return []
            const named = typeof title === 'string' && title !== '' ? title : url
            return [{ type: 'web_search_result', url, title: named, page_age: null, encrypted_content: '' }]
          }),
  }
}

const errorCodes: Readonly<Record<string, string>> = {
  max_tool_calls: 'max_uses_exceeded',
  max_uses_exceeded: 'max_uses_exceeded',
  invalid_arguments: 'invalid_tool_input',
}

function errorCode(code: string): string {
  return errorCodes[code] ?? 'unavailable'
}

function urlOf(json: string): string {
  const args = parseJson(json)
  return isObject(args) && typeof args['url'] === 'string' ? args['url'] : ''
}

// ---- history ------------------------------------------------------------------------------------------------

/** Whether a block is a call of a gateway tool, or its result. */
export function isGatewayBlock(block: { readonly [field: string]: unknown }): boolean {
  const id =
    block['type'] === 'server_tool_use' || block['type'] === 'mcp_tool_use'
      ? block['id']
      : block['tool_use_id']
  return typeof id === 'string' && id.startsWith(idPrefix)
}

/** Whether a block belongs to a search that another provider ran itself. */
export function isSearchBlock(block: { readonly [field: string]: unknown }): boolean {
  const id = block['id'] ?? block['tool_use_id']
  return typeof id === 'string' && id.startsWith(searchPrefix)
}

export function readGatewayCall(block: JsonObject): ToolCall | undefined {
  const { type, id, name, input, server_name: serverLabel } = block
  const tool = textIn(name)
  const call = { id: textIn(id), arguments: JSON.stringify(input ?? {}), thoughtSignature: undefined }
  if (type === 'mcp_tool_use')
    return { ...call, name: tool, origin: { kind: 'mcp', serverLabel: textIn(serverLabel), tool } }
  const kind = webToolKinds.find((each) => serverTools[each] === tool)
  return kind && { ...call, name: webTools[kind].name, origin: { kind } }
}

/** The result of a call of the history. */
export function readGatewayResult(block: JsonObject): Extract<Message, { role: 'tool' }> {
  const { content } = block
  const isError = block['is_error'] === true || (isObject(content) && 'error_code' in content)
  const text = isError ? errorText(content) : resultText(content)
  return {
    role: 'tool',
    toolCallId: textIn(block['tool_use_id']),
    content: [{ kind: 'text', text: text === '' ? 'The result has not been kept.' : text, cache: undefined }],
    isError,
  }
}

function errorText(content: Json | undefined): string {
  const code = isObject(content) ? content['error_code'] : undefined
  return typeof code === 'string' ? `The call failed: ${code}` : resultText(content) || 'The call failed.'
}

function resultText(content: Json | undefined): string {
  if (typeof content === 'string') return content
  if (isObject(content)) {
    const document = isObject(content['content']) ? content['content'] : {}
    const source = isObject(document['source']) ? document['source'] : {}
    return typeof source['data'] === 'string' ? source['data'] : ''
  }
  if (!Array.isArray(content)) return ''
  return content
    .filter(isObject)
    .map(({ type, text, title, url, encrypted_content: sealed }) => {
      if (type === 'text') return textIn(text)
      if (typeof sealed === 'string' && sealed !== '') return Buffer.from(sealed, 'base64').toString('utf8')
      return sealed === '' ? '' : `${textIn(title)}\n${textIn(url)}`
    })
    .filter((each) => each !== '')
    .join('\n')
}

/** A client's text; empty for anything else, which may have no text at all (`{"toString":null}`). */
function textIn(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}
