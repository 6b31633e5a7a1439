// The output items of the Responses protocol while they are being streamed.

import type { Annotation } from '../../../conversation/event.ts'
import type { GatewayCall, GatewayRun } from '../../../conversation/gateway-tools.ts'
import type {
  CallForm,
  Json,
  JsonObject,
  ReasoningDetail,
  TurnMessage,
} from '../../../conversation/request.ts'
import { isJson, isObject } from '../../lenient.ts'
import { callItem, clientTools, InputStream } from '../../openai/client-tools.ts'
import { actionOf, wireRun, wireSignature } from '../../openai/messages.ts'
import { seal } from '../../request/prompt-parts.ts'

/** Writes one event. */
export type Emit = (type: string, fields: JsonObject) => void

type ItemStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** An item's index and id in the answer. */
export interface ItemPlace {
  readonly id: string
  readonly index: number
}

abstract class OutputItem {
  readonly id: string
  readonly index: number
  protected readonly emit: Emit
  #status: ItemStatus = 'in_progress'

  constructor(place: ItemPlace, emit: Emit) {
    this.id = place.id
    this.index = place.index
    this.emit = emit
  }

  get status(): ItemStatus {
    return this.#status
  }

  get open(): boolean {
    return this.#status === 'in_progress'
  }

  abstract json(status?: ItemStatus): JsonObject

  protected begin(): void {
    this.emit('response.output_item.added', { output_index: this.index, item: this.json() })
  }

  /** Closes the item and its open parts. */
  close(status: ItemStatus): void {
    if (!this.open) return
    this.endParts()
    this.#status = status
    this.emit('response.output_item.done', { output_index: this.index, item: this.json() })
  }

  protected endParts(): void {}

  /** An event about this item. */
  protected about(type: string, fields: JsonObject): void {
    this.emit(type, { item_id: this.id, output_index: this.index, ...fields })
  }
}

// Output items while they are being streamed.

// ---- messages ---------------------------------------------------------------------------------------------

type MessagePart =
  | {
      readonly kind: 'text'
      text: string
      readonly start: number
      annotations: JsonObject[]
      logprobs: Json[]
    }
  | { readonly kind: 'refusal'; text: string }

const firstMessage: TurnMessage = { at: 0 }

export class MessageItem extends OutputItem {
  readonly #parts: MessagePart[] = []
  #message: TurnMessage

  constructor(place: ItemPlace, emit: Emit, message: TurnMessage = firstMessage) {
    super(place, emit)
    this.#message = message
    this.begin()
  }

  isOf(message: TurnMessage = firstMessage): boolean {
    return message.at === this.#message.at
  }

  /** Takes the phase of this message, which may be known only after its text. */
  startMessage(message: TurnMessage = firstMessage): void {
    if (this.isOf(message)) this.#message = message
  }

  /** Adds text; `start` is the length of the answer's text before it in UTF-16 units. */
  text(delta: string, start: number): void {
    this.#textPart(start).text += delta
    this.#delta(delta, [])
  }

  refusal(delta: string): void {
    const last = this.#parts.at(-1)
    const part: MessagePart = last?.kind === 'refusal' ? last : this.#openPart({ kind: 'refusal', text: '' })
    part.text += delta
    this.about('response.refusal.delta', { content_index: this.#at, delta })
  }

  /** Adds a source, written when the text has ended; false if no text is open. */
  annotation({ url, title, start, end }: Annotation): boolean {
    const part = this.#parts.at(-1)
    if (part?.kind !== 'text') return false
    // Ours are offsets in the whole answer's text; the client's are in the part.
    const [from, to] = [start, end].map((offset) => Math.max(0, offset - part.start))
    part.annotations.push({ type: 'url_citation', url, title, start_index: from!, end_index: to! })
    return true
  }

  logprobs(entries: readonly Json[]): void {
    const part = this.#parts.at(-1)
    if (part?.kind !== 'text' || entries.length === 0) return
    // One by one: there may be too many for one call of `push`.
    for (const entry of entries) part.logprobs.push(entry)
    // Log probabilities arrive after their text, so they go into an empty delta.
    this.#delta('', entries)
  }

  json(status: ItemStatus = this.status): JsonObject {
    return {
      id: this.id,
      type: 'message',
      status,
      role: 'assistant',
      ...(this.#message.phase === undefined ? {} : { phase: this.#message.phase }),
      content: this.#parts.map((part) => wirePart(part)),
    }
  }

  protected override endParts(): void {
    const part = this.#parts.at(-1)
    if (!part) return
    const content_index = this.#at
    if (part.kind === 'refusal') this.about('response.refusal.done', { content_index, refusal: part.text })
    else {
      for (const [annotation_index, annotation] of part.annotations.entries()) {
        const fields = { content_index, annotation_index, annotation }
        this.about('response.output_text.annotation.added', fields)
      }
      const { text, logprobs } = part
      this.about('response.output_text.done', { content_index, text, logprobs: [...logprobs] })
    }
    this.about('response.content_part.done', { content_index, part: wirePart(part) })
  }

  get #at(): number {
    return this.#parts.length - 1
  }

  #delta(delta: string, logprobs: readonly Json[]): void {
    this.about('response.output_text.delta', { content_index: this.#at, delta, logprobs: [...logprobs] })
  }

  #textPart(start: number): Extract<MessagePart, { kind: 'text' }> {
    const last = this.#parts.at(-1)
    if (last?.kind === 'text') return last
    return this.#openPart({ kind: 'text', text: '', start, annotations: [], logprobs: [] })
  }

  #openPart<P extends MessagePart>(part: P): P {
    this.endParts()
    this.#parts.push(part)
    this.about('response.content_part.added', { content_index: this.#at, part: wirePart(part) })
    return part
  }
}

function wirePart(part: MessagePart): JsonObject {
  return part.kind === 'refusal'
    ? { type: 'refusal', refusal: part.text }
    : {
        type: 'output_text',
        text: part.text,
        annotations: [...part.annotations],
        logprobs: [...part.logprobs],
      }
}

// ---- calls and pictures -----------------------------------------------------------------------------------

export interface CallFacts {
  readonly id: string
  /** The tool as the client declared it. */
  readonly form: CallForm
  readonly thoughtSignature: string | undefined
}

/** What the id of a call's item begins with. */
export function callPrefix({ kind }: CallForm): string {
  return kind === 'function' ? 'fc' : clientTools[kind].idPrefix
}

export function callItemOf(place: ItemPlace, emit: Emit, call: CallFacts): CallItem {
  return call.form.kind === 'custom' ? new CustomCallItem(place, emit, call) : new CallItem(place, emit, call)
}

/** A call of a function; of tools other than functions, whose items are whole in their last event. */
export class CallItem extends OutputItem {
  protected readonly call: CallFacts
  /** What a custom tool is given: here, since the first event is sent before a subclass has fields. */
  protected readonly input = new InputStream()
  #arguments = ''

  constructor(place: ItemPlace, emit: Emit, call: CallFacts) {
    super(place, emit)
    this.call = call
    this.begin()
  }

  /** Whether its arguments are complete. */
  get whole(): boolean {
    return isJson(this.#arguments)
  }

  take(json: string): void {
    if (json === '' || !this.open) return
    this.#arguments += json
    if (this.#isFunction) this.about('response.function_call_arguments.delta', { delta: json })
  }

  json(status: ItemStatus = this.status): JsonObject {
    const { id, form, thoughtSignature } = this.call
    const { type, ...fields } = callItem(form, this.#arguments)
    return { id: this.id, type: type!, status, call_id: id, ...fields, ...wireSignature(thoughtSignature) }
  }

  protected override endParts(): void {
    // A function without parameters gets an empty object.
    if (this.#arguments === '') this.take('{}')
    if (!this.#isFunction) return
    const { name } = this.call.form
    this.about('response.function_call_arguments.done', { name, arguments: this.#arguments })
  }

  get #isFunction(): boolean {
    return this.call.form.kind === 'function'
  }
}

/** A call of a custom tool: a text, streamed out of the arguments of the function that it is elsewhere. */
class CustomCallItem extends CallItem {
  override get whole(): boolean {
    return this.input.isWhole
  }

  override take(json: string): void {
    if (this.open) this.#tell(this.input.take(json))
  }

  override json(status: ItemStatus = this.status): JsonObject {
    const { id, form, thoughtSignature } = this.call
    const within: JsonObject = form.namespace === undefined ? {} : { namespace: form.namespace }
    return {
      id: this.id,
      type: 'custom_tool_call',
      status,
      call_id: id,
      name: form.name,
      ...within,
      input: this.input.text,
      ...wireSignature(thoughtSignature),
    }
  }

  protected override endParts(): void {
    this.#tell(this.input.end())
    this.about('response.custom_tool_call_input.done', { input: this.input.text })
  }

  #tell(delta: string): void {
    if (delta !== '') this.about('response.custom_tool_call_input.delta', { delta })
  }
}

/** A picture is sent whole. */
export class ImageItem extends OutputItem {
  readonly #image: { readonly mediaType: string; readonly data: string }

  constructor(place: ItemPlace, emit: Emit, image: { readonly mediaType: string; readonly data: string }) {
    super(place, emit)
    this.#image = image
    this.begin()
    this.about('response.image_generation_call.in_progress', {})
  }

  json(status: ItemStatus = this.status): JsonObject {
    const done = !this.open
    return {
      id: this.id,
      type: 'image_generation_call',
      status,
      result: done ? this.#image.data : null,
      ...(done ? { output_format: this.#image.mediaType.replace(/^image\//, '') } : {}),
    }
  }

  protected override endParts(): void {
    this.about('response.image_generation_call.completed', {})
  }
}

export type Item = MessageItem | ReasoningItem | CallItem | ImageItem | RunItem | SearchItem | NoteItem

// Output items of the gateway's own tools.

/** A tool call, open until it has run; several may be open. */
export class RunItem extends OutputItem {
  readonly #call: GatewayCall
  #run: GatewayRun | undefined

  constructor(place: ItemPlace, emit: Emit, call: GatewayCall) {
    super(place, emit)
    this.#call = call
    this.begin()
    this.about(`response.${this.#type}.in_progress`, {})
    if (this.#type === 'web_search_call') this.about('response.web_search_call.searching', {})
    else {
      this.about('response.mcp_call_arguments.delta', { delta: call.arguments })
      this.about('response.mcp_call_arguments.done', { arguments: call.arguments })
    }
  }

  static idPrefix({ origin }: GatewayCall): string {
    return origin.kind === 'mcp' ? 'mcp' : 'ws'
  }

  end(run: GatewayRun): void {
    this.#run = run
    const failed = run.result.failure !== undefined
    if (!failed) this.about(`response.${this.#type}.completed`, {})
    // A search has no event for its arguments.
    else if (this.#type === 'mcp_call') this.about('response.mcp_call.failed', {})
    this.close(failed ? 'failed' : 'completed')
  }

  json(status: ItemStatus = this.status): JsonObject {
    if (this.#run) return { id: this.id, ...wireRun(this.#run), status }
    const { origin, arguments: json } = this.#call
    if (origin.kind !== 'mcp')
      return {
        id: this.id,
        type: this.#type,
        status: searchStatus(status),
        action: actionOf(origin, json, undefined),
      }
    const { serverLabel, tool } = origin
    const call = { server_label: serverLabel, name: tool, arguments: json }
    return { id: this.id, type: this.#type, status, ...call, output: null, error: null }
  }

  get #type(): 'mcp_call' | 'web_search_call' {
    return this.#call.origin.kind === 'mcp' ? 'mcp_call' : 'web_search_call'
  }
}

/** A search run by the provider, open until its result arrives. */
export class SearchItem extends OutputItem {
  readonly #query: string
  #item: JsonObject

  constructor(place: ItemPlace, emit: Emit, query = '') {
    super(place, emit)
    this.#query = query
    this.#item = { type: 'web_search_call', action: { type: 'search', query } }
    this.begin()
    this.about('response.web_search_call.in_progress', {})
    this.about('response.web_search_call.searching', {})
  }

  /** The search has ended; `item` is its final state. */
  end(item: JsonObject): void {
    this.#item = { ...item, action: this.#withQuery(item.action) }
    const failed = item.status === 'failed'
    if (!failed) this.about('response.web_search_call.completed', {})
    this.close(failed ? 'failed' : 'completed')
  }

  json(status: ItemStatus = this.status): JsonObject {
    return { id: this.id, ...this.#item, status: searchStatus(status) }
  }

  /** If the turn paused between a search and its result, the query is not repeated. */
  #withQuery(action: Json | undefined): Json {
    const isUnnamed = isObject(action) && action.type === 'search' && action.query === ''
    return isUnnamed ? { ...action, query: this.#query } : (action ?? null)
  }
}

/** The protocol has no status for incomplete searches. */
function searchStatus(status: ItemStatus): ItemStatus {
  return status === 'incomplete' ? 'failed' : status
}

/** Other items of tools, which are sent whole. */
export class NoteItem extends OutputItem {
  readonly #item: JsonObject

  constructor(place: ItemPlace, emit: Emit, item: JsonObject) {
    // The client's answer refers to its id.
    super(typeof item.id === 'string' ? { ...place, id: item.id } : place, emit)
    this.#item = item
    this.begin()
  }

  json(): JsonObject {
    return { id: this.id, ...this.#item }
  }

  protected override endParts(): void {
    const { type, error } = this.#item
    // The other kinds have no events of their own.
    if (type !== 'mcp_list_tools') return
    this.about('response.mcp_list_tools.in_progress', {})
    this.about(`response.mcp_list_tools.${error == null ? 'completed' : 'failed'}`, {})
  }
}

const notePrefixes: Readonly<Record<string, string>> = {
  mcp_list_tools: 'mcpl',
  mcp_approval_request: 'mcpr',
  compaction: 'cmp',
}

export function notePrefix({ type }: JsonObject): string {
  return notePrefixes[String(type)] ?? 'item'
}

// A reasoning item while it is being streamed.

interface ReasoningPart {
  readonly kind: 'summary' | 'text'
  /** The index of its reasoning detail. */
  readonly of: number
  text: string
}

export class ReasoningItem extends OutputItem {
  readonly #details = new Map<number, ReasoningDetail>()
  readonly #parts: ReasoningPart[] = []
  #last: ReasoningDetail
  /** Whether the client requested a summary: then reasoning is sent as a summary. */
  readonly #summarised: boolean
  /** Encrypted content; set when the item has ended. */
  #sealed: string | undefined

  constructor(
    place: ItemPlace,
    emit: Emit,
    { known, delta, summarised }: { known: ReasoningDetail; delta: ReasoningDetail; summarised: boolean },
  ) {
    super(place, emit)
    this.#summarised = summarised
    this.#last = known
    this.begin()
    this.take(known, delta)
  }

  /**
   * Whether a detail continues this item: the same detail, or another part of the same item. xAI gives several items of
   * one answer the same id; the encrypted part is the last of each.
   */
  continuedBy(detail: ReasoningDetail): boolean {
    if (this.#details.has(detail.index)) return true
    const { id, format, type } = this.#last
    return id != null && id === detail.id && format === detail.format && type !== 'reasoning.encrypted'
  }

  /** Continues the detail: `known` is all of it so far, `delta` has not been sent yet. */
  take(known: ReasoningDetail, delta: ReasoningDetail): void {
    this.#details.set(known.index, known)
    this.#last = known
    this.#show(delta)
  }

  get details(): readonly ReasoningDetail[] {
    return [...this.#details.values()]
  }

  json(status: ItemStatus = this.status): JsonObject {
    const visiblePart = (kind: ReasoningPart['kind'], type: string) =>
      this.#parts.filter((part) => part.kind === kind).map(({ text }): JsonObject => ({ type, text }))
    const content = visiblePart('text', 'reasoning_text')
    return {
      id: this.id,
      type: 'reasoning',
      status,
      summary: visiblePart('summary', 'summary_text'),
      ...(content.length === 0 ? {} : { content }),
      ...(this.#sealed === undefined ? {} : { encrypted_content: this.#sealed }),
    }
  }

  protected override endParts(): void {
    this.#endPart()
    this.#sealed = seal(this.details)
  }

  #show(detail: ReasoningDetail): void {
    const kind = this.#kindOf(detail)
    const delta = readableText(detail)
    if (delta === '') return
    let part = this.#parts.at(-1)
    if (part?.kind !== kind || part.of !== detail.index) part = this.#openPart(kind, detail.index)
    part.text += delta
    const type =
      kind === 'summary' ? 'response.reasoning_summary_text.delta' : 'response.reasoning_text.delta'
    this.about(type, { ...this.#where(part), delta })
  }

  /** Providers of this protocol distinguish summaries from reasoning; others only return what may be shown. */
  #kindOf({ type, format }: ReasoningDetail): ReasoningPart['kind'] {
    if (type === 'reasoning.summary') return 'summary'
    return this.#summarised && !format?.includes('responses') ? 'summary' : 'text'
  }

  #openPart(kind: ReasoningPart['kind'], of: number): ReasoningPart {
    this.#endPart()
    const part: ReasoningPart = { kind, of, text: '' }
    this.#parts.push(part)
    const type = kind === 'summary' ? 'response.reasoning_summary_part.added' : 'response.content_part.added'
    this.about(type, { ...this.#where(part), part: wireReasoningPart(part) })
    return part
  }

  #endPart(): void {
    const part = this.#parts.at(-1)
    if (!part) return
    const where = this.#where(part)
    const summary = part.kind === 'summary'
    const { text } = part
    this.about(summary ? 'response.reasoning_summary_text.done' : 'response.reasoning_text.done', {
      ...where,
      text,
    })
    this.about(summary ? 'response.reasoning_summary_part.done' : 'response.content_part.done', {
      ...where,
      part: wireReasoningPart(part),
    })
  }

  /** Summaries and texts are numbered separately. */
  #where(part: ReasoningPart): JsonObject {
    const at = this.#parts.filter(({ kind }) => kind === part.kind).indexOf(part)
    return part.kind === 'summary' ? { summary_index: at } : { content_index: at }
  }
}

function wireReasoningPart({ kind, text }: ReasoningPart): JsonObject {
  return { type: kind === 'summary' ? 'summary_text' : 'reasoning_text', text }
}

/** The readable text of a detail. */
export function readableText(detail: ReasoningDetail): string {
  return (detail.type === 'reasoning.summary' ? detail.summary : detail.text) ?? ''
}
