// Which part of each item has been streamed, so that only the rest of a finished item is sent.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { nonEmpty } from '../../json.ts'
import { keyOf } from './parts.ts'

/** One part of an item: a text, a summary, the arguments of a call. */
export interface PartState {
  /** UTF-16 units streamed so far. */
  streamed: number
  /** Where it starts in the answer's text; for reasoning, the index of its detail. */
  readonly start: number
  annotations: number
  logprobs: boolean
}

/** By how much a part's index in the stream may exceed its index in the finished item. */
const furthestSkip = 8

const freshPart: Readonly<PartState> = { streamed: 0, start: 0, annotations: 0, logprobs: false }

const typesOfParts: Readonly<Record<string, string>> = {
  text: 'message',
  refusal: 'message',
  summary: 'reasoning',
  reasoning: 'reasoning',
  encrypted: 'reasoning',
}

/** The parts of a response's items, by their keys, and how much of each has been streamed. */
export class StreamedParts {
  readonly #parts = new Map<string, PartState>()

  has(key: string): boolean {
    return this.#parts.has(key)
  }

  /** The types of the items that the parts belong to. */
  types(): string[] {
    return Array.from(this.#parts.keys(), (key) => typesOfParts[key.split('/')[0]!]!)
  }

  /** The end of a whole text that has not been streamed. */
  rest(key: string, whole: Json | undefined): string {
    return typeof whole === 'string' ? whole.slice(this.part(key).streamed) : ''
  }

  part(key: string): Readonly<PartState> {
    return this.#parts.get(key) ?? freshPart
  }

  /** The part; a new one starts at `start`. */
  beginPart(key: string, start: number): PartState {
    const known = this.#parts.get(key)
    if (known) return known
    const part = { ...freshPart, start }
    this.#parts.set(key, part)
    return part
  }

  /**
   * The index in the stream of a part of a finished item: its own or, if nothing was streamed under that, the next one
   * that no other part of the item has. Amazon's Mantle numbers the deltas of an item's only part 1.
   */
  streamedAs(
    kind: string,
    position: number,
    parts: readonly JsonObject[],
    isOfKind: (part: JsonObject) => boolean = () => true,
  ): (at: number) => number {
    const own = new Set(parts.flatMap((part, at) => (isOfKind(part) ? [at] : [])))
    const isStreamed = (at: number) => this.#parts.has(keyOf(kind, position, at))
    const unknown = [...own].filter((at) => !isStreamed(at))
    if (unknown.length === 0) return (at) => at
    // A few further indexes are enough: no known stream skips more.
    const others = [...Array(parts.length + furthestSkip).keys()].filter(
      (at) => !own.has(at) && isStreamed(at),
    )
    const names = new Map(unknown.map((at, rank) => [at, others[rank] ?? at]))
    return (at) => names.get(at) ?? at
  }
}

/** The positions of items by their ids, for events without a position. */
export class ItemPositions {
  readonly #positions = new Map<string, number>()
  /** The position after those of all items with an id. */
  next = 0

  of(event: JsonObject, item: JsonObject = {}): number {
    const id = nonEmpty(event.item_id) ?? nonEmpty(item.id)
    const known = id === undefined ? undefined : this.#positions.get(id)
    const position = typeof event.output_index === 'number' ? event.output_index : (known ?? this.next)
    if (known === undefined && id !== undefined) this.remember({ id }, position)
    return position
  }

  remember(item: JsonObject, position: number): void {
    const id = nonEmpty(item.id)
    if (id === undefined || this.#positions.has(id)) return
    this.next = Math.max(this.next, position + 1)
    this.#positions.set(id, position)
  }

  byId(): ReadonlyMap<string, number> {
    return new Map(this.#positions)
  }
}
