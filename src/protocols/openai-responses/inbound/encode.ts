// Encodes an answer as events of the Responses protocol: items one after the other, sequence numbers without gaps, one
// terminal event. An answer that is not streamed is the response in the terminal event.

import {
  type Annotation,
  type ChatEvent,
  type FinishReason,
  joinReasoning,
} from '../../../conversation/event.ts'
import type { JsonObject, ReasoningDetail, TurnMessage } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import { isLong } from '../../../json/stringify.ts'
import type { AnswerContext, Bill, StreamEncoder } from '../../protocol.ts'
import { type Frame, LongFrame } from '../../framing/sse.ts'
import { outputItemId, responseOf, type Standing, tierOf, wireUsage } from './answer.ts'
import { offeredFunctions } from './namespaces.ts'
import { type CallFacts, CallItem, ImageItem, type Item, MessageItem } from './output.ts'
import { NoteItem, notePrefix, RunItem, SearchItem } from './output-gateway.ts'
import { readableText, ReasoningItem } from './output-reasoning.ts'
import type { Place, Emit } from './output-item.ts'
import type { ResponsesRequest } from './schema.ts'

/** What encoding needs besides the events. */
export interface AnswerHooks {
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Stores the complete response right before its charge, if the client wants it. Returns whether it is stored. */
  readonly keep: (response: JsonObject) => boolean
  /** Resolves when the stored response is queued; undefined if it is not stored. */
  readonly kept: () => Promise<void> | undefined
}

export interface Asked {
  readonly request: ResponsesRequest
  /** Whether the client wants encrypted reasoning, which it sends back if nothing is stored. */
  readonly encrypted: boolean
  readonly hooks: AnswerHooks
}

const unfinished = { usage: null, error: null, incomplete: null, completedAt: null } as const

export class ResponseEncoder implements StreamEncoder {
  readonly #asked: Asked
  readonly #context: AnswerContext
  #frames: Frame[] = []
  #sequence = 0
  /** The next sequence number. */
  #sent = 0
  readonly #items: Item[] = []
  readonly #calls = new Map<number, CallItem>()
  #functions: ReturnType<typeof offeredFunctions> | undefined
  readonly #runs = new Map<string, RunItem>()
  readonly #searches = new Map<string, SearchItem>()
  /** All reasoning details so far, by their index. */
  readonly #details = new Map<number, ReasoningDetail>()
  /** Details without text that arrived during another item. */
  readonly #deferred = new Set<number>()
  /** Sources that arrived before their text. */
  #sources: Annotation[] = []
  #textLength = 0
  readonly #whole: boolean
  #reason: FinishReason | undefined

  /** For an answer that is not streamed. */
  constructor(asked: Asked, context: AnswerContext, answer: 'stream' | 'whole' = 'stream') {
    this.#asked = asked
    this.#context = context
    this.#whole = answer === 'whole'
  }

  start(): readonly Frame[] {
    const { store, service_tier: tier } = this.#asked.request
    const response = this.#response({
      ...unfinished,
      tier: tier ?? null,
      status: 'in_progress',
      output: [],
      stored: store ?? true,
    })
    this.#emit('response.created', { response })
    this.#emit('response.in_progress', { response })
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
    return this.#written()
  }

  /** Closes what is open and returns the response. */
  conclude(usage: Usage, bill: Bill): JsonObject {
    this.#tellDeferred()
    const incomplete = incompleteFor(this.#reason)
    const last = this.#items.at(-1)
    for (const item of this.#items) {
      const cut = incomplete !== null && (item === last || (item instanceof CallItem && !item.whole))
      item.close(cut || item instanceof SearchItem ? 'incomplete' : 'completed')
    }
    const { request, hooks } = this.#asked
    const standing = {
      ...unfinished,
      status: incomplete === null ? 'completed' : 'incomplete',
      incomplete,
      usage: wireUsage(usage, bill),
      tier: tierOf(request, usage),
      completedAt: incomplete === null ? Math.floor(hooks.now() / 1000) : null,
    } as const
    const output = this.#items.map((item) => item.json())
    const wanted = request.store ?? true
    const whole = this.#response({ ...standing, output, stored: wanted })
    const stored = wanted && hooks.keep(whole)
    return { ...whole, output: output.map((item) => this.#shown(item)), store: stored }
  }

  /** Items that the provider did not finish stay open: the client would run a call that looked complete. */
  fail({ error }: RenderedError): readonly Frame[] {
    const { code, message, param, type } = error
    const metadata = error.metadata as JsonObject
    // The end was encoded before its charge failed; it must not be sent.
    this.#sequence = this.#sent
    this.#emit('error', { code, message, param, error: { type, code, message, param, metadata } })
    const output = this.#items.map((item) => item.json(item.open ? 'incomplete' : item.status))
    const { request, hooks } = this.#asked
    const wanted = request.store ?? true
    const tier = request.service_tier ?? null
    const failed = { ...unfinished, status: 'failed', error: { code, message, metadata }, tier } as const
    const whole = this.#response({ ...failed, output, stored: wanted })
    // The client knows the id since the stream began and may retrieve the response to see how it ended.
    const stored = wanted && hooks.keep(whole)
    const shown = { ...whole, output: output.map((item) => this.#shown(item)), store: stored }
    this.#emit('response.failed', { response: shown })
    return this.#written()
  }

  /** Stores what was delivered as a response that is `cancelled`, the status that OpenAI gives to such. */
  cancel(usage: Usage, bill: Bill): void {
    const { request, hooks } = this.#asked
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
        const item = this.#begin('fc', (place, emit) => new CallItem(place, emit, this.#clientCall(event)))
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
        else
          this.#begin(notePrefix(item), (place, emit) => new NoteItem(place, emit, item)).close('completed')
        return
      }
      case 'choice-finish':
        this.#reason = event.reason
        return
      case 'audio-delta':
        // The protocol has no audio.
        return
      default:
        return event satisfies never
    }
  }

  /** A call, with the function as the client declared it. */
  #clientCall({ id, name, thoughtSignature }: Omit<CallFacts, 'namespace'>): CallFacts {
    this.#functions ??= offeredFunctions(this.#asked.request)
    const declared = this.#functions.get(name)
    return { id, name: declared?.name ?? name, namespace: declared?.namespace, thoughtSignature }
  }

  #beginSearch(query?: string): SearchItem {
    return this.#begin('ws', (place, emit) => new SearchItem(place, emit, query))
  }

  #reasoning(delta: ReasoningDetail): void {
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

  #tellDeferred(): void {
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

  #reasoningItem(place: Place, emit: Emit, known: ReasoningDetail, delta: ReasoningDetail): ReasoningItem {
    const summarised = asksForSummary(this.#asked.request)
    return new ReasoningItem(place, emit, { known, delta, summarised })
  }

  #annotate(source: Annotation): boolean {
    return this.#openMessage()?.annotation(source) ?? false
  }

  #openMessage(): MessageItem | undefined {
    const last = this.#items.at(-1)
    return last instanceof MessageItem && last.open ? last : undefined
  }

  #message(asked: TurnMessage | undefined): MessageItem {
    const open = this.#openMessage()
    if (open?.isOf(asked)) return open
    return this.#begin('msg', (place, emit) => new MessageItem(place, emit, asked))
  }

  // ---- items ------------------------------------------------------------------------------------------------

  /** Starts a new item; deferred details come first. */
  #begin<I extends Item>(kind: string, make: (place: Place, emit: Emit) => I): I {
    this.#tellDeferred()
    return this.#place(kind, make)
  }

  /** Starts an item. Earlier items are closed, except parallel calls. */
  #place<I extends Item>(kind: string, make: (place: Place, emit: Emit) => I): I {
    for (const item of this.#items) {
      // Asking a call whether it is whole parses its arguments.
      if (!item.open || item instanceof RunItem || item instanceof SearchItem) continue
      if (!(item instanceof CallItem) || item.whole) item.close('completed')
    }
    const index = this.#items.length
    const item = make({ id: outputItemId(kind, this.#context.id, index), index }, this.#emitForItem)
    this.#items.push(item)
    return item
  }

  /** The item with the fields that this client wants. */
  #shown(item: JsonObject): JsonObject {
    return this.#asked.encrypted ? item : withoutEncrypted(item)
  }

  /** How items write their events. */
  readonly #emitForItem: Emit = (type, fields) => {
    const { item } = fields
    const shown = item === undefined ? fields : { ...fields, item: this.#shown(item as JsonObject) }
    this.#emit(type, shown)
  }

  #emit(type: string, fields: JsonObject): void {
    if (this.#whole) return
    const json = { type, sequence_number: this.#sequence++, ...fields }
    // The last events repeat a text four times, and encoding megabytes takes time.
    this.#frames.push(
      isLong(fields) ? new LongFrame(type, json) : { event: type, data: JSON.stringify(json) },
    )
  }

  #response(standing: Standing): JsonObject {
    return responseOf(this.#asked.request, this.#context, standing)
  }

  #sending(): readonly Frame[] {
    this.#sent = this.#sequence
    return this.#written()
  }

  #written(): readonly Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }
}

function asksForSummary({ reasoning }: ResponsesRequest): boolean {
  const summary = reasoning?.summary ?? reasoning?.generate_summary
  return summary != null && summary !== 'none'
}

/** An item without the fields for clients that store everything themselves. */
export function withoutEncrypted(item: JsonObject): JsonObject {
  const { encrypted_content: _encrypted, ...shown } = item
  return shown
}

function incompleteFor(reason: FinishReason | undefined): Standing['incomplete'] {
  switch (reason) {
    case 'length':
      return 'max_output_tokens'
    case 'content_filter':
      return 'content_filter'
    default:
      return null
  }
}
