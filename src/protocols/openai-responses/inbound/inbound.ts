// The Responses protocol for clients. Answers repeat the request and may be stored, so each request has its own
// inbound.

import {
  type Annotation,
  type ChatEvent,
  type ChatResult,
  eventsOf,
  type FinishReason,
  joinReasoning,
  nativeReason,
} from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail, TurnMessage } from '../../../conversation/request.ts'
import { completionTokens, promptTokens, type Usage } from '../../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../../errors/errors.ts'
import { entryOf, isObject, withMissing } from '../../lenient.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest, StreamEncoder } from '../../protocol.ts'
import { type PromptParts, promptParts } from '../../request/prompt-parts.ts'
import { type Frame, keepaliveComment, LongFrame } from '../../framing/sse.ts'
import {
  addresses,
  chatRequest,
  checkedRequest,
  completeItems,
  droppedOf,
  envelopeOf,
  fieldsOf,
  readGatewayTools,
  type Recalled,
  refuseContradictions,
  withoutRepeats,
} from './read.ts'
import { clientTools, clientToolTypes, forOtherProtocols } from '../../openai/client-tools.ts'
import { asksForCompaction, compactionOfSummary, placedRuns } from './items.ts'
import {
  conversationIdOf,
  type InputItem,
  kindOf,
  offeredTools,
  type PlacedTool,
  placedTools,
  readMembers,
  type ResponsesRequest,
} from './schema.ts'
import { requestOfApproval } from '../../../conversation/gateway-tools.ts'
import { isLong } from '../../../json/json.ts'
import { wireWarnings } from '../../lowering.ts'
import { wireUsage as chatUsage, costDetails, withOthers } from '../../openai/usage.ts'
import { shownTool } from '../../request/gateway-tools.ts'
import {
  type CallFacts,
  CallItem,
  callItemOf,
  callPrefix,
  type Emit,
  ImageItem,
  type Item,
  type ItemPlace,
  MessageItem,
  NoteItem,
  notePrefix,
  readableText,
  ReasoningItem,
  RunItem,
  SearchItem,
} from './output.ts'

/** The prompt of a request, including the conversation that it continues. */
export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = { conversation: 'input', instructions: 'instructions', declared: ['tools', 'text'] }

export interface ResponsesCall {
  readonly inbound: Inbound
  readonly request: InboundRequest
  /** The items of the request itself, completed. */
  readonly items: readonly InputItem[]
}

/**
 * A checked request, with its stored items, as a call. `hooks` are called with its answer. Throws GatewayError
 * `invalid_request` for contradictions, and `unsupported_parameter` if the request is strict.
 */
export function responsesCall(
  request: ResponsesRequest,
  recalled: Recalled,
  hooks: AnswerHooks,
): ResponsesCall {
  const history = recalled.history as readonly InputItem[]
  const items = withoutRepeats(completeItems(request, recalled), history)
  const all = [...history, ...items]
  const placed = placedTools(request, all, history.length)
  refuseContradictions(request, history, items, placed)
  const warnings = droppedOf(request, placed)
  const encrypted = request.include?.includes('reasoning.encrypted_content') === true
  const gatewayTools = readGatewayTools(request, placed, placedRuns(all, history.length))
  // In the background, or in a conversation: that is between the gateway and its client.
  const { background: _background, conversation: _conversation, ...asked } = request as unknown as JsonObject
  const body: JsonObject = { ...asked, input: all as unknown as JsonObject[] }
  const settings: ResponseSettings = { request, placed, encrypted, hooks }
  return {
    items,
    inbound: {
      id: 'openai-responses',
      keepalive: keepaliveComment,
      addresses,
      error: (error) => error,
      whenKept: hooks.kept,
      whenHeld: hooks.held,
      parse: (body) => responsesCall(checkedRequest(body), recalled, hooks).request,
      whole: (result, usage, bill, context) => wholeResponse(settings, result, usage, bill, context),
      encoder: (context) => new ResponseEncoder(settings, context),
      forOtherProtocols,
    },
    request: {
      envelope: envelopeOf(request),
      body,
      promptParts: promptOf(body),
      warnings,
      fields: fieldsOf(request, all, history.length),
      toChatRequest: () => chatRequest(request, all, history.length),
      gatewayTools,
    },
  }
}

/** Throws `upstream_error` for an answer that never ended: its status is unknown. */
function wholeResponse(
  settings: ResponseSettings,
  result: ChatResult,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
): JsonObject {
  const choice = result.choices[0]
  if (choice?.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  const encoder = new ResponseEncoder(settings, context, 'whole')
  for (const event of result.events ?? eventsOf(choice)) encoder.event(event)
  return encoder.conclude(usage, bill)
}

const idPrefixes: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  function_call_output: 'fco',
  reasoning: 'rs',
  ...Object.fromEntries(clientToolTypes.map((type) => [clientTools[type].call, clientTools[type].idPrefix])),
  ...Object.fromEntries(
    clientToolTypes.map((type) => [clientTools[type].result, `${clientTools[type].idPrefix}o`]),
  ),
  image_generation_call: 'ig',
  web_search_call: 'ws',
  mcp_list_tools: 'mcpl',
  mcp_call: 'mcp',
  mcp_approval_request: 'mcpr',
  mcp_approval_response: 'mcpa',
}

/** The items of a request as they are stored and listed: with type, id, and content as parts. */
export function listedItems(items: readonly InputItem[], requestId: string): JsonObject[] {
  return items.map((item, at): JsonObject => {
    const kind = kindOf(item)
    const id =
      typeof item['id'] === 'string'
        ? item['id']
        : inputItemId(entryOf(idPrefixes, kind) ?? 'item', requestId, at)
    const { content, role } = item as { content?: unknown; role?: unknown }
    const parts: JsonObject =
      kind === 'message' && typeof content === 'string'
        ? { content: [textPart(content, role === 'assistant')] }
        : {}
    return { status: 'completed', ...(item as unknown as JsonObject), ...parts, type: kind, id }
  })
}

function textPart(text: string, said: boolean): JsonObject {
  return said ? { type: 'output_text', text, annotations: [], logprobs: [] } : { type: 'input_text', text }
}

// Encodes an answer as events of the Responses protocol: items one after the other, sequence numbers without gaps, one
// terminal event. An answer that is not streamed is the response in the terminal event.

/** What encoding needs besides the events. */
export interface AnswerHooks {
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Stores the complete response right before its charge, if the client wants it. Returns whether it is stored. */
  readonly keep: (response: JsonObject) => boolean
  /** Resolves when the stored response is queued; undefined if it is not stored. */
  readonly kept: () => Promise<void> | undefined
  /** Called when the credit for the response is held; absent where nobody waits for that. */
  readonly held?: (() => void) | undefined
}

export interface ResponseSettings {
  readonly request: ResponsesRequest
  /** All tools of the request and its conversation. */
  readonly placed: readonly PlacedTool[]
  /** Whether the client wants encrypted reasoning, which it sends back if nothing is stored. */
  readonly encrypted: boolean
  readonly hooks: AnswerHooks
}

/** A response that has been accepted and not been begun. `created` in seconds since 1970. */
export function queuedResponse(request: ResponsesRequest, requestId: string, created: number): JsonObject {
  const context = { id: requestId, model: request.model, created, warnings: [], extra: {} }
  const tier = request.service_tier ?? null
  return responseOf(request, context, { ...unfinished, tier, status: 'queued', output: [], stored: true })
}

const unfinished = { usage: null, error: null, incomplete: null, completedAt: null } as const

export class ResponseEncoder implements StreamEncoder {
  readonly #settings: ResponseSettings
  readonly #context: AnswerContext
  #frames: Frame[] = []
  #sequence = 0
  /** The next sequence number. */
  #sent = 0
  readonly #items: Item[] = []
  readonly #calls = new Map<number, CallItem>()
  #tools: ReturnType<typeof offeredTools> | undefined
  readonly #runs = new Map<string, RunItem>()
  readonly #searches = new Map<string, SearchItem>()
  /** All reasoning details so far, by their index. */
  readonly #details = new Map<number, ReasoningDetail>()
  /** Details without text that arrived during another item. */
  readonly #deferred = new Set<number>()
  /** Sources that arrived before their text. */
  #sources: Annotation[] = []
  #textLength = 0
  /** What a model writes that was asked for a compaction; undefined for an answer like any other. */
  #summary: string | undefined
  readonly #whole: boolean
  #reason: FinishReason | undefined
  #native: string | undefined
  /** The provider's own response, where it speaks this protocol. */
  #fields: JsonObject | undefined

  /** For an answer that is not streamed. */
  constructor(settings: ResponseSettings, context: AnswerContext, answer: 'stream' | 'whole' = 'stream') {
    this.#settings = settings
    this.#context = context
    this.#whole = answer === 'whole'
    this.#summary = asksForCompaction(settings.request) ? '' : undefined
  }

  start(): readonly Frame[] {
    const { store, service_tier: tier } = this.#settings.request
    const response = this.#response({
      ...unfinished,
      tier: tier ?? null,
      status: 'in_progress',
      output: [],
      stored: store ?? true,
    })
    // Both repeat the instructions and tools of the request.
    const written = this.#whole || isLong(response) ? undefined : JSON.stringify(response)
    for (const type of ['response.created', 'response.in_progress']) this.#emit(type, { response }, written)
    return this.#sending()
  }

  event(event: ChatEvent): readonly Frame[] {
    // This protocol has only one choice.
    if ('choice' in event && event.choice === 0) this.#take(event)
    return this.#sending()
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const response = this.conclude(usage, bill)
    this.#emit(`response.${String(response['status'])}`, { response })
    return this.#write()
  }

  /** Closes what is open and returns the response. */
  conclude(usage: Usage, bill: Bill): JsonObject {
    this.#beginDeferred()
    const incomplete = incompleteFor(this.#reason)
    this.#endSummary(incomplete === null)
    const last = this.#items.at(-1)
    for (const item of this.#items) {
      const cut = incomplete !== null && (item === last || (item instanceof CallItem && !item.whole))
      item.close(cut || item instanceof SearchItem ? 'incomplete' : 'completed')
    }
    const { request, hooks } = this.#settings
    const counters = this.#fields?.['usage']
    const standing = {
      ...unfinished,
      status: incomplete === null ? 'completed' : 'incomplete',
      incomplete,
      native: this.#native,
      usage: withOthers(wireUsage(usage, bill), isObject(counters) ? counters : {}),
      tier: tierOf(request, usage),
      completedAt: incomplete === null ? Math.floor(hooks.now() / 1000) : null,
    } as const
    const output = this.#items.map((item) => item.json())
    const wanted = request.store ?? true
    const answer = this.#response({ ...standing, output, stored: wanted })
    const whole = this.#fields === undefined ? answer : withFieldsOf(answer, this.#fields)
    const stored = wanted && hooks.keep(whole)
    return { ...whole, output: output.map((item) => this.#show(item)), store: stored }
  }

  /** Items that the provider did not finish stay open: the client would run a call that looked complete. */
  fail({ error }: RenderedError): readonly Frame[] {
    const { code, message, param, type } = error
    const metadata = error.metadata as JsonObject
    // The end was encoded before its charge failed; it must not be sent.
    this.#sequence = this.#sent
    this.#emit('error', { code, message, param, error: { type, code, message, param, metadata } })
    const output = this.#items.map((item) => item.json(item.open ? 'incomplete' : item.status))
    const { request, hooks } = this.#settings
    const wanted = request.store ?? true
    const tier = request.service_tier ?? null
    const failed = { ...unfinished, status: 'failed', error: { code, message, metadata }, tier } as const
    const whole = this.#response({ ...failed, output, stored: wanted })
    // The client knows the id since the stream began and may retrieve the response to see how it ended.
    const stored = wanted && hooks.keep(whole)
    const shown = { ...whole, output: output.map((item) => this.#show(item)), store: stored }
    this.#emit('response.failed', { response: shown })
    return this.#write()
  }

  /** Stores what was delivered as a response that is `cancelled`, the status that OpenAI gives to such. */
  cancel(usage: Usage, bill: Bill): void {
    const { request, hooks } = this.#settings
    if (request.store === false) return
    // A call that was not finished could be neither run nor continued.
    const kept = this.#items.filter(
      (item) => !item.open || item instanceof MessageItem || item instanceof ReasoningItem,
    )
    const output = kept.map((item) => item.json(item.open ? 'incomplete' : item.status))
    const tier = tierOf(request, usage)
    const cancelled = { ...unfinished, status: 'cancelled', usage: wireUsage(usage, bill), tier } as const
    hooks.keep(this.#response({ ...cancelled, output, stored: true }))
  }

  // ---- events -----------------------------------------------------------------------------------------------

  #take(event: Extract<ChatEvent, { choice: number }>): void {
    switch (event.kind) {
      case 'text-delta':
        if (this.#summary !== undefined) {
          this.#summary += event.text
          return
        }
        if (event.text === '') return this.#openMessage()?.startMessage(event.message)
        this.#message(event.message).text(event.text, this.#textLength)
        this.#textLength += event.text.length
        this.#sources = this.#sources.filter((source) => !this.#annotate(source))
        return
      case 'refusal-delta':
        if (event.text !== '') this.#message(event.message).refusal(event.text)
        return
      case 'reasoning-delta':
        return this.#reasoning(event.detail)
      case 'tool-call-start': {
        const call = this.#clientCall(event)
        const item = this.#begin(callPrefix(call.form), (place, emit) => callItemOf(place, emit, call))
        this.#calls.set(event.call, item)
        return
      }
      case 'tool-call-delta':
        return this.#calls.get(event.call)?.take(event.arguments)
      case 'annotation':
        if (!this.#annotate(event.annotation)) this.#sources.push(event.annotation)
        return
      case 'logprobs':
        return this.#openMessage()?.logprobs(event.content)
      case 'image':
        this.#begin('ig', (place, emit) => new ImageItem(place, emit, event)).close('completed')
        return
      case 'gateway-call': {
        const { call } = event
        const item = this.#begin(RunItem.idPrefix(call), (place, emit) => new RunItem(place, emit, call))
        this.#runs.set(call.id, item)
        return
      }
      case 'gateway-run':
        return this.#runs.get(event.run.call.id)?.end(event.run)
      case 'search-start':
        this.#searches.set(event.search, this.#beginSearch(event.query))
        return
      case 'gateway-item': {
        const { item, search } = event
        if (item.type === 'web_search_call')
          (this.#searches.get(search ?? '') ?? this.#beginSearch()).end(item)
        else this.#note(item)
        return
      }
      case 'choice-finish':
        this.#reason = event.reason
        this.#native = event.native
        this.#fields = event.nativeFields?.choice
        return
      case 'audio-delta':
        // The protocol has no audio.
        return
      default:
        return event satisfies never
    }
  }

  /** A call, with the tool as the client declared it. */
  #clientCall({ id, name, thoughtSignature }: Omit<CallFacts, 'form'> & { name: string }): CallFacts {
    this.#tools ??= offeredTools(this.#settings.placed)
    return { id, form: this.#tools.get(name) ?? { kind: 'function', name }, thoughtSignature }
  }

  #beginSearch(query?: string): SearchItem {
    return this.#begin('ws', (place, emit) => new SearchItem(place, emit, query))
  }

  /** A whole summary is the compaction; of one that was cut the client is told as of any text. */
  #endSummary(isWhole: boolean): void {
    const summary = this.#summary ?? ''
    if (summary === '') return
    if (isWhole) this.#note(compactionOfSummary(summary))
    else this.#message(undefined).text(summary, 0)
  }

  #note(item: JsonObject): void {
    this.#begin(notePrefix(item), (place, emit) => new NoteItem(place, emit, item)).close('completed')
  }

  #reasoning(delta: ReasoningDetail): void {
    if (isCompaction(delta)) return this.#note({ type: 'compaction', encrypted_content: delta.data! })
    const detail = joinReasoning(this.#details.get(delta.index), delta)
    this.#details.set(delta.index, detail)
    const open = this.#items.at(-1)
    if (open instanceof ReasoningItem && open.open && open.continuedBy(delta)) return open.take(detail, delta)
    // A detail without text must not interrupt a text or a call.
    if (readableText(delta) === '' && this.#items.some((item) => item.open)) this.#deferred.add(delta.index)
    else this.#beginReasoning(detail, delta)
  }

  #beginReasoning(detail: ReasoningDetail, delta: ReasoningDetail): void {
    this.#begin('rs', (place, emit) => this.#reasoningItem(place, emit, detail, delta))
  }

  #beginDeferred(): void {
    const deferred = [...this.#deferred].map((index) => this.#details.get(index)!)
    this.#deferred.clear()
    for (const detail of deferred) {
      const withoutText = { ...detail, text: '', summary: '' }
      const open = this.#items.at(-1)
      if (open instanceof ReasoningItem && open.open && open.continuedBy(detail))
        open.take(detail, withoutText)
      else this.#place('rs', (place, emit) => this.#reasoningItem(place, emit, detail, withoutText))
    }
  }

  #reasoningItem(
    place: ItemPlace,
    emit: Emit,
    known: ReasoningDetail,
    delta: ReasoningDetail,
  ): ReasoningItem {
    const summarised = asksForSummary(this.#settings.request)
    return new ReasoningItem(place, emit, { known, delta, summarised })
  }

  #annotate(source: Annotation): boolean {
    return this.#openMessage()?.annotation(source) ?? false
  }

  #openMessage(): MessageItem | undefined {
    const last = this.#items.at(-1)
    return last instanceof MessageItem && last.open ? last : undefined
  }

  #message(message: TurnMessage | undefined): MessageItem {
    const open = this.#openMessage()
    if (open?.isOf(message)) return open
    return this.#begin('msg', (place, emit) => new MessageItem(place, emit, message))
  }

  // ---- items ------------------------------------------------------------------------------------------------

  /** Starts a new item; deferred details come first. */
  #begin<I extends Item>(kind: string, make: (place: ItemPlace, emit: Emit) => I): I {
    this.#beginDeferred()
    return this.#place(kind, make)
  }

  /** Starts an item. Earlier items are closed, except parallel calls. */
  #place<I extends Item>(kind: string, make: (place: ItemPlace, emit: Emit) => I): I {
    for (const item of this.#items) {
      // Asking a call whether it is whole parses its arguments.
      if (!item.open || item instanceof RunItem || item instanceof SearchItem) continue
      if (!(item instanceof CallItem) || item.whole) item.close('completed')
    }
    const index = this.#items.length
    const item = make({ id: `${kind}_${bareId(this.#context.id)}_${index}`, index }, this.#emitForItem)
    this.#items.push(item)
    return item
  }

  /** The item with the fields that this client wants. */
  #show(item: JsonObject): JsonObject {
    return this.#settings.encrypted ? item : withoutEncrypted(item)
  }

  /** How items write their events. */
  readonly #emitForItem: Emit = (type, fields) => {
    const { item } = fields
    const shown = item === undefined ? fields : { ...fields, item: this.#show(item as JsonObject) }
    this.#emit(type, shown)
  }

  /** `written`: the JSON of the response that is its only field, where that is made already. */
  #emit(type: string, fields: JsonObject, written?: string): void {
    if (this.#whole) return
    if (written !== undefined) {
      const data = `{"type":"${type}","sequence_number":${this.#sequence++},"response":${written}}`
      this.#frames.push({ event: type, data })
      return
    }
    const json = { type, sequence_number: this.#sequence++, ...fields }
    // The last events repeat a text four times, and encoding megabytes takes time.
    this.#frames.push(
      isLong(fields) ? new LongFrame(type, json) : { event: type, data: JSON.stringify(json) },
    )
  }

  #response(standing: Standing): JsonObject {
    return responseOf(this.#settings.request, this.#context, standing)
  }

  #sending(): readonly Frame[] {
    this.#sent = this.#sequence
    return this.#write()
  }

  #write(): readonly Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }
}

/** A provider of this protocol has compacted the conversation: a detail has no field for the type of its item. */
function isCompaction({ format, type, id, data }: ReasoningDetail): boolean {
  return (
    format?.endsWith('openai-responses-v1') === true &&
    type === 'reasoning.encrypted' &&
    id?.startsWith('cmp_') === true &&
    data !== undefined
  )
}

function asksForSummary({ reasoning }: ResponsesRequest): boolean {
  const summary = reasoning?.summary ?? reasoning?.generate_summary
  return summary != null && summary !== 'none'
}

/** An item without the fields for clients that store everything themselves. A compaction has nothing else to say. */
export function withoutEncrypted(item: JsonObject): JsonObject {
  if (item['type'] === 'compaction') return item
  const { encrypted_content: _encrypted, ...shown } = item
  return shown
}

function incompleteFor(reason: FinishReason | undefined): Standing['incomplete'] {
  switch (reason) {
    case 'length':
      return 'max_output_tokens'
    case 'content_filter':
      return 'content_filter'
    case 'other':
      return 'other'
    default:
      return null
  }
}

// The response object: the request's settings and the result.

/** The state of a response. */
interface Standing {
  readonly status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'
  readonly output: readonly JsonObject[]
  /** Whether it can be retrieved by its id. */
  readonly stored: boolean
  readonly usage: JsonObject | null
  /** The service tier it was served at; before that is known, the one that was asked for. */
  readonly tier: string | null
  readonly error: JsonObject | null
  /** Why it is incomplete; null if it is complete. */
  readonly incomplete: 'max_output_tokens' | 'content_filter' | 'other' | null
  /** The provider's own word for it, where it is `other`. */
  readonly native?: string | undefined
  /** Seconds since 1970; null unless it is complete. */
  readonly completedAt: number | null
}

/** The id of a call's response; its items' ids are derived from it. */
function responseId(requestId: string): string {
  return `resp_${bareId(requestId)}`
}

/** The call of a response; undefined for an id that is not ours. */
export function requestIdOf(response: string): string | undefined {
  return /^resp_[0-9a-f]{32}$/.test(response) ? response.replace('resp_', 'req_') : undefined
}

export function inputItemId(kind: string, requestId: string, at: number): string {
  return `${kind}_${bareId(requestId)}_in${at}`
}

/** The response that an item belongs to; undefined for an item that is not ours. */
export function responseOfItem(item: string): string | undefined {
  const match = /^[a-z]+_([0-9a-f]{32})_(?:in)?\d+$/.exec(item)
  if (match) return `resp_${match[1]!}`
  const request = requestOfApproval(item)
  return request === undefined ? undefined : responseId(request)
}

function bareId(requestId: string): string {
  return requestId.replace(/^req_/, '')
}

/** All keys that OpenAI and Open Responses require, null if unset; never `output_text`, which client libraries add. */
function responseOf(
  request: ResponsesRequest,
  context: Pick<AnswerContext, 'id' | 'model' | 'created' | 'warnings' | 'extra'>,
  standing: Standing,
): JsonObject {
  // Why the answer was stopped stands beside the client's own metadata.
  const { metadata: notes, ...extra } = context.extra
  const { incomplete } = standing
  return {
    id: responseId(context.id),
    object: 'response',
    created_at: context.created,
    completed_at: standing.completedAt,
    status: standing.status,
    error: standing.error,
    incomplete_details:
      incomplete === null ? null : { reason: incomplete, ...nativeReason(incomplete, standing.native) },
    instructions: request.instructions ?? null,
    model: context.model,
    tools: (request.tools ?? []).map(wireTool),
    tool_choice: (request.tool_choice ?? 'auto') as Json,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    output: [...standing.output],
    usage: standing.usage,
    metadata:
      notes === undefined ? (request.metadata ?? null) : { ...request.metadata, ...(notes as JsonObject) },
    temperature: request.temperature ?? null,
    top_p: request.top_p ?? null,
    presence_penalty: request.presence_penalty ?? null,
    frequency_penalty: request.frequency_penalty ?? null,
    top_logprobs: request.top_logprobs ?? null,
    reasoning: { effort: null, summary: null, ...inEffect(request, 'reasoning') },
    text: { format: { type: 'text' }, ...inEffect(request, 'text') },
    truncation: 'disabled',
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    previous_response_id: request.previous_response_id ?? null,
    store: standing.stored,
    background: request.background ?? false,
    ...(request.conversation != null && { conversation: { id: conversationIdOf(request)! } }),
    service_tier: standing.tier,
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    ...wireWarnings(context.warnings),
    ...extra,
  }
}

/** About the request, or the provider's bill, or what it has stored: there the gateway's own word holds. */
const ownWords: ReadonlySet<string> = new Set([
  'error',
  'incomplete_details',
  'instructions',
  'tools',
  'metadata',
  'max_output_tokens',
  'max_tool_calls',
  'previous_response_id',
  'conversation',
  'prompt',
  'output_text',
  'service_tier',
  'completed_at',
  'user',
  'safety_identifier',
  'billing',
  'cost',
])

/** The response with what the provider's says of the answer beyond it: filters, and the settings that were in effect. */
function withFieldsOf(response: JsonObject, sent: JsonObject): JsonObject {
  const all = { ...response }
  for (const [name, value] of Object.entries(sent)) {
    if (value === null || ownWords.has(name)) continue
    const own = all[name]
    if (own == null) all[name] = value
    else if ((name === 'reasoning' || name === 'text') && isObject(own) && isObject(value))
      all[name] = withMissing(own, value)
  }
  return all
}

/** The tier that the usage names. One that names none was served at the standard tier, whatever was asked for. */
function tierOf(request: ResponsesRequest, usage: Usage): string | null {
  return usage.serviceTier ?? (request.service_tier == null ? null : 'default')
}

/** The members of a setting that are set and read: a response shows what was in effect. */
function inEffect(request: ResponsesRequest, field: keyof typeof readMembers): JsonObject {
  const set = Object.entries(request[field] ?? {}) as [string, Json | null | undefined][]
  return Object.fromEntries(
    set.filter(([member, value]) => value != null && readMembers[field].has(member)),
  ) as JsonObject
}

function wireTool(tool: { readonly type: string }): JsonObject {
  const fields = shownTool(tool as unknown as JsonObject)
  return tool.type === 'function' ? { description: null, parameters: null, strict: null, ...fields } : fields
}

/** Cached and written tokens are inside `input_tokens`, reasoning inside `output_tokens`; with our cost fields. */
function wireUsage(usage: Usage, bill: Bill): JsonObject {
  const input = promptTokens(usage)
  const output = completionTokens(usage)
  const { cost, server_tool_use } = chatUsage(usage, bill)
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cacheRead + usage.cacheReadAudio,
      cache_write_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: input + output,
    cost: cost!,
    cost_details: costDetails(bill, 'input', 'output'),
    server_tool_use: server_tool_use!,
  }
}
