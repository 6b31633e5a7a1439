// Anthropic's Messages API for clients: checks and reads bodies, encodes answers.

import {
  type Annotation,
  type ChatEvent,
  type ChatResult,
  eventsOf,
  type FinishReason,
  joinReasoning,
  nativeReason,
} from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { completionTokens, noUsage, type Usage } from '../../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../../errors/errors.ts'
import { blockOfDetail, signatureOf, thinkingText } from '../../claude/content-blocks.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextEvent } from '../../framing/text-template.ts'
import { entryOf } from '../../lenient.ts'
import { wireWarnings } from '../../lowering.ts'
import type {
  AnswerContext,
  Bill,
  Envelope,
  Inbound,
  InboundRequest,
  StreamEncoder,
  Texts,
} from '../../protocol.ts'
import { fateOf, gatewayEnvelope, toolRefused, withoutOnline } from '../../request/gateway-tools.ts'
import { promptParts, type PromptParts } from '../../request/prompt-parts.ts'
import { addresses, fieldsOf, forOtherProtocols, readGatewayTools, readRequest } from './read.ts'
import {
  callBlock,
  checkRequest,
  inputOf,
  isGatewayBlock,
  type MessagesRequest,
  resultBlock,
  searchBlock,
  searchBlockId,
  searchInput,
  searchResultBlock,
  threadField,
} from './schema.ts'

export const inbound: Inbound = {
  id: 'anthropic-messages',
  keepalive: new TextEncoder().encode('event: ping\ndata: {"type": "ping"}\n\n'),
  addresses,
  pauses: true,
  parse,
  whole,
  encoder: (context) => new EventEncoder(context),
  error: wireError,
  forOtherProtocols,
}

/** The provider of models that clients name without one. */
const home = 'anthropic'

/** The catalog id of the model a client names: `claude-sonnet-4-5` is Anthropic's. */
export function modelId(name: string): string {
  const model = withoutOnline(name)
  return model.includes('/') ? model : `${home}/${model}`
}

function parse(body: unknown): InboundRequest {
  const request = checkRequest(body)
  refuseProviderRun(request)
  const gatewayTools = readGatewayTools(request)
  return {
    envelope: envelopeOf(request),
    body: body as JsonObject,
    promptParts: promptOf(body as JsonObject),
    fields: fieldsOf(request),
    toChatRequest: () => readRequest(request),
    gatewayTools,
    translated: holdsRuns(request),
  }
}

/** The prompt of a body, also of one whose tokens are only counted. */
export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = {
  conversation: 'messages',
  instructions: 'system',
  declared: ['tools', 'output_config', 'output_format'],
}

/** Throws `unsupported_parameter` for a tool that Anthropic itself would run: its cost cannot be known in advance. */
function refuseProviderRun({ tools }: MessagesRequest): void {
  for (const [index, { type }] of (tools ?? []).entries()) {
    if (fateOf('anthropic-messages', { type }) === 'refused') throw toolRefused(type!, `tools.${index}.type`)
  }
}

/** Whether the history contains blocks of the gateway's tools, which Anthropic refuses because they are ours. */
function holdsRuns({ messages }: MessagesRequest): boolean {
  return messages.some(
    ({ role, content }) =>
      role === 'assistant' && typeof content !== 'string' && content.some(isGatewayBlock),
  )
}

function envelopeOf(request: MessagesRequest): Envelope {
  return {
    ...gatewayEnvelope(request),
    model: modelId(request.model),
    fallbacks: (request.models ?? []).map(modelId),
    stream: request.stream === true,
    // The protocol always ends with the usage.
    includeUsage: true,
    maxOutputTokens: request.max_tokens,
    n: 1,
  }
}

/** A whole answer. Throws `upstream_error` for one that never ended: no stop reason is invented. */
function whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject {
  const choice = result.choices[0]
  if (choice?.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a stop reason.' })
  }
  return {
    id: context.id,
    type: 'message',
    role: 'assistant',
    model: context.model,
    content: blocksOf(result.events ?? eventsOf({ ...choice, index: 0 }), context),
    ...stopOf(choice.finish, choice.nativeFinish),
    stop_sequence: choice.stopSequence ?? null,
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

/** The blocks of an answer, as its stream would have them. */
function blocksOf(events: readonly ChatEvent[], context: AnswerContext): Json[] {
  const encoder = new EventEncoder(context)
  const wire = [...events.flatMap((event) => encoder.wireEvents(event)), ...encoder.close()]
  const blocks: JsonObject[] = []
  for (const { type, content_block: block, delta } of wire) {
    if (type === 'content_block_start') blocks.push({ ...(block as JsonObject) })
    else if (type === 'content_block_delta') addDelta(delta as JsonObject, blocks.at(-1)!)
  }
  return blocks.map((block) => {
    const { partial_json: json, ...whole } = block
    return typeof json === 'string' ? { ...whole, input: inputOf(json) } : whole
  })
}

function addDelta({ type: _, ...fields }: JsonObject, block: JsonObject): void {
  for (const [field, value] of Object.entries(fields)) {
    if (field === 'citation')
      block['citations'] = [...((block['citations'] as Json[] | undefined) ?? []), value]
    else block[field] = typeof value === 'string' ? String(block[field] ?? '') + value : value
  }
}

// Encodes a streamed answer as events of the Messages API: one open block at a time, numbered from 0.

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
function wireUsage(usage: Usage, bill: Bill): JsonObject {
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
function stopOf(reason: FinishReason, native: string | undefined): JsonObject {
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
function wireError({ error }: RenderedError): JsonObject {
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
