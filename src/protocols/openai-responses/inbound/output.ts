// Output items while they are being streamed.

import type { Annotation } from '../../../conversation/event.ts'
import type { Json, JsonObject, TurnMessage } from '../../../conversation/request.ts'
import { isJson } from '../../json.ts'
import { wireSignature } from '../../openai/message-fields.ts'
import { type ItemStatus, OutputItem, type Place, type Emit } from './output-item.ts'
import type { NoteItem, RunItem, SearchItem } from './output-gateway.ts'
import type { ReasoningItem } from './output-reasoning.ts'

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

  constructor(place: Place, emit: Emit, message: TurnMessage = firstMessage) {
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
  readonly name: string
  /** The namespace that the client declared the function in; undefined without one. */
  readonly namespace: string | undefined
  readonly thoughtSignature: string | undefined
}

export class CallItem extends OutputItem {
  readonly #call: CallFacts
  #arguments = ''

  constructor(place: Place, emit: Emit, call: CallFacts) {
    super(place, emit)
    this.#call = call
    this.begin()
  }

  /** Whether its arguments are complete. */
  get whole(): boolean {
    return isJson(this.#arguments)
  }

  take(json: string): void {
    if (json === '' || !this.open) return
    this.#arguments += json
    this.about('response.function_call_arguments.delta', { delta: json })
  }

  json(status: ItemStatus = this.status): JsonObject {
    const { id, name, namespace, thoughtSignature } = this.#call
    return {
      id: this.id,
      type: 'function_call',
      status,
      call_id: id,
      name,
      ...(namespace === undefined ? {} : { namespace }),
      arguments: this.#arguments,
      ...wireSignature(thoughtSignature),
    }
  }

  protected override endParts(): void {
    // A function without parameters gets an empty object.
    if (this.#arguments === '') this.take('{}')
    const { name } = this.#call
    this.about('response.function_call_arguments.done', { name, arguments: this.#arguments })
  }
}

/** A picture is sent whole. */
export class ImageItem extends OutputItem {
  readonly #image: { readonly mediaType: string; readonly data: string }

  constructor(place: Place, emit: Emit, image: { readonly mediaType: string; readonly data: string }) {
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
