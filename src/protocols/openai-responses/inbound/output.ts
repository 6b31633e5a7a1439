// The items of an answer while they are written: each tells its own events, from its beginning to its end.

import type { Annotation } from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { isJson } from '../../json.ts'
import { wireSignature } from '../../openai/message-fields.ts'
import { seal } from './reasoning.ts'

/** Writes one event. */
export type Tell = (type: string, fields: JsonObject) => void

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

/** An item's place in the answer. */
export interface Place {
  readonly id: string
  readonly index: number
}

abstract class OutputItem {
  readonly id: string
  readonly index: number
  protected readonly tell: Tell
  #status: ItemStatus = 'in_progress'

  constructor(place: Place, tell: Tell) {
    this.id = place.id
    this.index = place.index
    this.tell = tell
  }

  get status(): ItemStatus {
    return this.#status
  }

  get open(): boolean {
    return this.#status === 'in_progress'
  }

  /** The item as it stands. */
  abstract json(status?: ItemStatus): JsonObject

  protected begin(): void {
    this.tell('response.output_item.added', { output_index: this.index, item: this.json() })
  }

  /** Ends whatever of the item is open, and the item. */
  close(status: ItemStatus): void {
    if (!this.open) return
    this.endParts()
    this.#status = status
    this.tell('response.output_item.done', { output_index: this.index, item: this.json() })
  }

  protected endParts(): void {}

  /** An event about this item. */
  protected about(type: string, fields: JsonObject): void {
    this.tell(type, { item_id: this.id, output_index: this.index, ...fields })
  }
}

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

export class MessageItem extends OutputItem {
  readonly #parts: MessagePart[] = []

  constructor(place: Place, tell: Tell) {
    super(place, tell)
    this.begin()
  }

  /** More text; `start` is how much text the answer had before it, UTF-16 units. */
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

  /** A source of the text, which is told when the text has ended; false where no text is open. */
  annotation({ url, title, start, end }: Annotation): boolean {
    const part = this.#parts.at(-1)
    if (part?.kind !== 'text') return false
    // Offsets are those of the whole answer's text; here a part counts its own.
    const [from, to] = [start, end].map((offset) => Math.max(0, offset - part.start))
    part.annotations.push({ type: 'url_citation', url, title, start_index: from!, end_index: to! })
    return true
  }

  logprobs(entries: readonly Json[]): void {
    const part = this.#parts.at(-1)
    if (part?.kind !== 'text' || entries.length === 0) return
    part.logprobs.push(...entries)
    // They come behind the text they are about, so they ride on a delta without any.
    this.#delta('', entries)
  }

  json(status: ItemStatus = this.status): JsonObject {
    return {
      id: this.id,
      type: 'message',
      status,
      role: 'assistant',
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

// ---- reasoning --------------------------------------------------------------------------------------------

interface ReasoningPart {
  readonly kind: 'summary' | 'text'
  /** The index of the detail that it shows. */
  readonly of: number
  text: string
}

export class ReasoningItem extends OutputItem {
  readonly #details = new Map<number, ReasoningDetail>()
  readonly #parts: ReasoningPart[] = []
  #last: ReasoningDetail
  /** Whether the client asked for a summary: it looks for the reasoning there, and nowhere else. */
  readonly #summarised: boolean
  /** What only its maker understands; made when the item has ended. */
  #sealed: string | undefined

  constructor(
    place: Place,
    tell: Tell,
    { known, delta, summarised }: { known: ReasoningDetail; delta: ReasoningDetail; summarised: boolean },
  ) {
    super(place, tell)
    this.#summarised = summarised
    this.#last = known
    this.begin()
    this.take(known, delta)
  }

  /**
   * Whether a detail goes on with this item: it is the one before it, or another part of the same item of its maker.
   * xAI gives several items of one answer the same id; the encrypted part is the last of each.
   */
  continuedBy(detail: ReasoningDetail): boolean {
    if (this.#details.has(detail.index)) return true
    const { id, format, type } = this.#last
    return id != null && id === detail.id && format === detail.format && type !== 'reasoning.encrypted'
  }

  /** A detail as it is `known` up to now, of which `delta` is new to the client. */
  take(known: ReasoningDetail, delta: ReasoningDetail): void {
    this.#details.set(known.index, known)
    this.#last = known
    this.#show(delta)
  }

  get details(): readonly ReasoningDetail[] {
    return [...this.#details.values()]
  }

  json(status: ItemStatus = this.status): JsonObject {
    const shown = (kind: ReasoningPart['kind'], type: string) =>
      this.#parts.filter((part) => part.kind === kind).map(({ text }): JsonObject => ({ type, text }))
    const content = shown('text', 'reasoning_text')
    return {
      id: this.id,
      type: 'reasoning',
      status,
      summary: shown('summary', 'summary_text'),
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

  /** Makers that speak this protocol tell summaries from the reasoning itself; the others only show what may be shown. */
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

  /** Summaries and texts are counted apart. */
  #where(part: ReasoningPart): JsonObject {
    const at = this.#parts.filter(({ kind }) => kind === part.kind).indexOf(part)
    return part.kind === 'summary' ? { summary_index: at } : { content_index: at }
  }
}

function wireReasoningPart({ kind, text }: ReasoningPart): JsonObject {
  return { type: kind === 'summary' ? 'summary_text' : 'reasoning_text', text }
}

/** What of a detail a person can read. */
export function readableText(detail: ReasoningDetail): string {
  return (detail.type === 'reasoning.summary' ? detail.summary : detail.text) ?? ''
}

// ---- calls and pictures -----------------------------------------------------------------------------------

export interface CallFacts {
  readonly id: string
  readonly name: string
  readonly thoughtSignature: string | undefined
}

export class CallItem extends OutputItem {
  readonly #call: CallFacts
  #arguments = ''

  constructor(place: Place, tell: Tell, call: CallFacts) {
    super(place, tell)
    this.#call = call
    this.begin()
  }

  /** Whether its arguments are whole. */
  get whole(): boolean {
    return isJson(this.#arguments)
  }

  take(json: string): void {
    if (json === '' || !this.open) return
    this.#arguments += json
    this.about('response.function_call_arguments.delta', { delta: json })
  }

  json(status: ItemStatus = this.status): JsonObject {
    const { id, name, thoughtSignature } = this.#call
    return {
      id: this.id,
      type: 'function_call',
      status,
      call_id: id,
      name,
      arguments: this.#arguments,
      ...wireSignature(thoughtSignature),
    }
  }

  protected override endParts(): void {
    // A function without parameters is called with an empty object, never with nothing.
    if (this.#arguments === '') this.take('{}')
    const { name } = this.#call
    this.about('response.function_call_arguments.done', { name, arguments: this.#arguments })
  }
}

/** A picture comes whole. */
export class ImageItem extends OutputItem {
  readonly #image: { readonly mediaType: string; readonly data: string }

  constructor(place: Place, tell: Tell, image: { readonly mediaType: string; readonly data: string }) {
    super(place, tell)
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

export type Item = MessageItem | ReasoningItem | CallItem | ImageItem
