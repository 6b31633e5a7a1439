// The output of a response, item by item, as events: deltas as they come, and at the end of each item what no delta
// brought.

import type { ChatEvent } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject, nonEmpty } from '../json.ts'
import { VersionedMap } from '../versioned-map.ts'
import type { ResponsesQuirks } from './quirks.ts'
import { type ItemCalls, mintedId, noItemCalls, takeItemCall } from './upstream-item-calls.ts'
import { keyOf, objects, partIndex, urlCitation, wholeTextOf } from './upstream-parts.ts'
import { type DetailPart, encryptedPart, summaryPart, textPart } from './upstream-reasoning.ts'

/** What is known of one part of an item: a text, a summary, the arguments of a call. */
interface PartState {
  /** UTF-16 units of it that have been told. */
  readonly told: number
  /** Where it starts in the text of the answer; or the index of its detail, for reasoning. */
  readonly start: number
  readonly annotations: number
  readonly logprobs: boolean
}

/** What is known of the output between two events. */
export interface OutputState {
  /** What minted call ids are made from: the response's id, or a random word where it has none. */
  readonly seed: string
  /** UTF-16 units of the text so far, over all messages and their parts. */
  readonly textLength: number
  /** All parts but for the latest, which most events continue. */
  readonly parts: VersionedMap<string, PartState>
  readonly latest: { readonly key: string; readonly part: PartState } | undefined
  readonly calls: ItemCalls
  /** The positions of items by their ids, for events that name no position. */
  readonly positions: VersionedMap<string, number>
  /** The position after those of all items with an id. */
  readonly nextPosition: number
  /** The index of the next reasoning detail: messages and calls count as well (see upstream-reasoning.ts). */
  readonly nextIndex: number
  /** Positions of messages and calls that have been counted. */
  readonly counted: VersionedMap<number, true>
  /** Positions of items whose end has been told. */
  readonly finished: VersionedMap<number, true>
  /** Web searches that the provider ran. */
  readonly searches: number
}

export function emptyOutput(seed: string): OutputState {
  return {
    seed,
    textLength: 0,
    parts: new VersionedMap(),
    latest: undefined,
    calls: noItemCalls(),
    positions: new VersionedMap(),
    nextPosition: 0,
    nextIndex: 0,
    counted: new VersionedMap(),
    finished: new VersionedMap(),
    searches: 0,
  }
}

/** A response has one answer. */
export const choice = 0

/** By how much the stream's number of a part may exceed the place that the finished item gives it. */
const furthestSkip = 8

const freshPart: PartState = { told: 0, start: 0, annotations: 0, logprobs: false }

/** One step over the output: collects events while it makes the next state out of copies. */
export class OutputStep {
  state: OutputState
  readonly events: ChatEvent[] = []
  readonly #quirks: ResponsesQuirks

  constructor(before: OutputState, quirks: ResponsesQuirks) {
    this.state = before
    this.#quirks = quirks
  }

  // ---- events of a stream ---------------------------------------------------------------------------------

  /** `response.output_item.added`: a call can be started, everything else waits for its parts. */
  itemAdded(event: JsonObject): void {
    const item = isObject(event.item) ? event.item : {}
    const position = this.#position(event, item)
    // Reasoning is not read here: what is encrypted so far is not what must be sent back.
    if (item.type === 'function_call') this.#call(position, item)
    if (item.type === 'message') this.#count(position)
  }

  textDelta(event: JsonObject): void {
    const position = this.#position(event)
    const key = keyOf('text', position, partIndex(event, 'content_index'))
    this.#text(key, position, event.delta)
    this.#logprobs(key, event.logprobs)
  }

  /** `response.output_text.done`: some servers tell the log probabilities here only. */
  textDone(event: JsonObject): void {
    this.#completeText(this.#partKey('text', event), this.#position(event), event.text, event.logprobs)
  }

  refusalDelta(event: JsonObject): void {
    this.#refusal(this.#partKey('refusal', event), event.delta)
  }

  refusalDone(event: JsonObject): void {
    const key = this.#partKey('refusal', event)
    this.#refusal(key, this.#rest(key, event.refusal))
  }

  annotationAdded(event: JsonObject): void {
    if (isObject(event.annotation)) this.#annotation(this.#partKey('text', event), event.annotation)
  }

  /** `response.reasoning_summary_text.delta` and `.done`, and `.reasoning_summary_part.done`. */
  summary(event: JsonObject): void {
    const key = this.#partKey('summary', event, 'summary_index')
    const text = event.delta ?? this.#rest(key, wholeTextOf(event))
    this.#reasoning(key, text, (words) => summaryPart(this.#format, nonEmpty(event.item_id), words))
  }

  /** `response.reasoning_text.delta` and `.done`. */
  reasoningText(event: JsonObject): void {
    const key = this.#partKey('reasoning', event)
    const text = event.delta ?? this.#rest(key, wholeTextOf(event))
    this.#reasoning(key, text, (words) => textPart(this.#format, nonEmpty(event.item_id), words))
  }

  /** `response.content_part.done`: a part of a message, or of reasoning. */
  partDone(event: JsonObject): void {
    if (!isObject(event.part)) return
    if (event.part.type === 'reasoning_text') return this.reasoningText(event)
    this.#messagePart(event.part, this.#position(event), partIndex(event, 'content_index'))
  }

  argumentsDelta(event: JsonObject): void {
    this.#call(this.#position(event), { arguments: event.delta ?? '' })
  }

  /** `response.function_call_arguments.done`: what the deltas left out. It may name the function, but never the call. */
  argumentsDone(event: JsonObject): void {
    this.#completeCall(this.#position(event), { arguments: event.arguments ?? '' })
  }

  itemDone(event: JsonObject): void {
    if (isObject(event.item)) this.item(event.item, this.#position(event, event.item))
  }

  // ---- whole items ----------------------------------------------------------------------------------------

  /**
   * The output that comes with the end of a response: the whole of it where nothing was streamed, else what no event
   * brought. Servers that give their items other ids in the end must not have them told twice, so an unknown item
   * counts only when there was none of its type.
   */
  output(items: Json | undefined): void {
    const before = this.state
    const told = typesTold(before)
    const free = positionAfter(before)
    for (const [at, item] of objects(items).entries()) {
      const known = before.positions.get(nonEmpty(item.id) ?? '')
      if (known !== undefined) {
        if (!before.finished.has(known)) this.item(item, known)
      } else if (!told.has(nonEmpty(item.type) ?? '')) this.item(item, free + at)
    }
  }

  /** A finished item: tells whatever has not been told of it. */
  item(item: JsonObject, position: number): void {
    this.#remember(item, position)
    if (this.state.finished.has(position)) return
    this.state = { ...this.state, finished: this.state.finished.with(position, true) }
    switch (item.type) {
      case 'message':
        this.#count(position)
        return this.#messageItem(item, position)
      case 'reasoning':
        return this.#reasoningItem(item, position)
      case 'compaction':
        return this.#encrypted(item, position)
      case 'function_call':
        return this.#completeCall(position, item)
      case 'web_search_call':
        return this.#search(item)
      case 'image_generation_call':
        return this.#image(item)
      default:
      // Other tools that the provider ran itself are no business of the client.
    }
  }

  #messageItem(item: JsonObject, position: number): void {
    const parts = objects(item.content)
    const texts = this.#streamedAs('text', position, parts, (part) => part.type === 'output_text')
    const refusals = this.#streamedAs('refusal', position, parts, (part) => part.type === 'refusal')
    for (const [at, part] of parts.entries()) {
      this.#messagePart(part, position, (part.type === 'refusal' ? refusals : texts)(at))
    }
  }

  #messagePart(part: JsonObject, position: number, at: number): void {
    if (part.type === 'refusal') {
      const key = keyOf('refusal', position, at)
      return this.#refusal(key, this.#rest(key, part.refusal))
    }
    if (part.type !== 'output_text') return
    const key = keyOf('text', position, at)
    this.#completeText(key, position, part.text, part.logprobs)
    const told = this.#part(key).annotations
    for (const annotation of objects(part.annotations).slice(told)) this.#annotation(key, annotation)
  }

  #reasoningItem(item: JsonObject, position: number): void {
    const id = nonEmpty(item.id)
    const [summaries, contents] = [objects(item.summary), objects(item.content)]
    const summaryAt = this.#streamedAs('summary', position, summaries)
    for (const [at, part] of summaries.entries()) {
      const key = keyOf('summary', position, summaryAt(at))
      this.#reasoning(key, this.#rest(key, part.text), (text) => summaryPart(this.#format, id, text))
    }
    const contentAt = this.#streamedAs('reasoning', position, contents)
    for (const [at, part] of contents.entries()) {
      const key = keyOf('reasoning', position, contentAt(at))
      this.#reasoning(key, this.#rest(key, part.text), (text) => textPart(this.#format, id, text))
    }
    this.#encrypted(item, position)
  }

  #encrypted(item: JsonObject, position: number): void {
    const key = keyOf('encrypted', position, 0)
    const data = this.#part(key).told > 0 ? '' : item.encrypted_content
    this.#reasoning(key, data, (text) => encryptedPart(this.#format, nonEmpty(item.id), text))
  }

  /** Opening a page of the results is not billed, and a search that failed is not either. */
  #search(item: JsonObject): void {
    const action = isObject(item.action) ? item.action.type : undefined
    if (item.status === 'failed' || (action !== undefined && action !== 'search')) return
    this.state = { ...this.state, searches: this.state.searches + 1 }
  }

  #image(item: JsonObject): void {
    const data = nonEmpty(item.result)
    if (data === undefined) return
    this.events.push({
      kind: 'image',
      choice,
      mediaType: `image/${nonEmpty(item.output_format) ?? 'png'}`,
      data,
    })
  }

  // ---- pieces ---------------------------------------------------------------------------------------------

  get #format() {
    return this.#quirks.reasoningFormat
  }

  #text(key: string, position: number, text: Json | undefined): void {
    if (typeof text !== 'string') return
    this.#count(position)
    const { textLength } = this.state
    const before = this.#known(key) ?? { ...freshPart, start: textLength }
    const { start, annotations, logprobs } = before
    const part = { told: before.told + text.length, start, annotations, logprobs }
    this.#setPart(key, part, textLength + text.length)
    this.events.push({ kind: 'text-delta', choice, text })
  }

  #completeText(key: string, position: number, text: Json | undefined, logprobs: Json | undefined): void {
    const rest = this.#rest(key, text)
    // An empty text is an answer too; told once.
    if (rest !== '' || this.#known(key) === undefined) this.#text(key, position, rest)
    if (!this.#part(key).logprobs) this.#logprobs(key, logprobs)
  }

  #refusal(key: string, text: Json | undefined): void {
    if (typeof text !== 'string' || text === '') return
    const before = this.#part(key)
    this.#setPart(key, { ...before, told: before.told + text.length })
    this.events.push({ kind: 'refusal-delta', choice, text })
  }

  /** Offsets are those of the part; the answer's text is all parts joined. */
  #annotation(key: string, raw: JsonObject): void {
    const part = this.#known(key) ?? { ...freshPart, start: this.state.textLength }
    this.#setPart(key, { ...part, annotations: part.annotations + 1 })
    const annotation = urlCitation(raw, part.start)
    if (annotation) this.events.push({ kind: 'annotation', choice, annotation })
  }

  #logprobs(key: string, raw: Json | undefined): void {
    if (!Array.isArray(raw) || raw.length === 0) return
    const content = objects(raw).map((entry) => ({ bytes: null, top_logprobs: [], ...entry }))
    if (content.length === 0) return
    this.#setPart(key, { ...this.#part(key), logprobs: true })
    this.events.push({ kind: 'logprobs', choice, content, refusal: [] })
  }

  #reasoning(key: string, text: Json | undefined, part: (text: string) => DetailPart): void {
    if (typeof text !== 'string' || text === '') return
    const known = this.#known(key)
    const before = known ?? { ...freshPart, start: this.state.nextIndex }
    if (!known) this.state = { ...this.state, nextIndex: this.state.nextIndex + 1 }
    this.#setPart(key, { ...before, told: before.told + text.length })
    this.events.push({ kind: 'reasoning-delta', choice, detail: { ...part(text), index: before.start } })
  }

  #completeCall(position: number, item: JsonObject): void {
    const known = this.state.calls.byPosition.get(position)
    const told = known?.arguments ?? ''
    const whole = typeof item.arguments === 'string' ? item.arguments : ''
    this.#call(position, { ...item, arguments: whole.startsWith(told) ? whole.slice(told.length) : '' })
  }

  /** Takes what an event says of a call: the position tells calls apart, whatever their ids are. */
  #call(position: number, item: JsonObject): void {
    this.#count(position)
    const known = this.state.calls.byPosition.get(position)
    const entry: JsonObject = {
      index: position,
      // The first id holds: the sibling would take another id under the same index for another call.
      id: known?.id || (nonEmpty(item.call_id) ?? ''),
      function: { name: known?.name ? '' : (nonEmpty(item.name) ?? ''), arguments: item.arguments ?? '' },
    }
    const mintId = (call: number) => mintedId(this.state.seed, call)
    const [calls, events] = takeItemCall(this.state.calls, position, entry, { choice, mintId })
    this.state = { ...this.state, calls }
    this.events.push(...events)
  }

  /**
   * By which index the stream called a part of a finished item: its own, or, where nothing was streamed under that, the
   * next that no other part of the item has. Amazon's Mantle numbers the deltas of an item's only part 1.
   */
  #streamedAs(
    kind: string,
    position: number,
    parts: readonly JsonObject[],
    isOfKind: (part: JsonObject) => boolean = () => true,
  ): (at: number) => number {
    const own = new Set(parts.flatMap((part, at) => (isOfKind(part) ? [at] : [])))
    const isStreamed = (at: number) => this.#known(keyOf(kind, position, at)) !== undefined
    const unknown = [...own].filter((at) => !isStreamed(at))
    if (unknown.length === 0) return (at) => at
    // A look at a few further indexes: a stream that skips more of them is none that anybody has seen.
    const others = [...Array(parts.length + furthestSkip).keys()].filter(
      (at) => !own.has(at) && isStreamed(at),
    )
    const names = new Map(unknown.map((at, rank) => [at, others[rank] ?? at]))
    return (at) => names.get(at) ?? at
  }

  // ---- bookkeeping ----------------------------------------------------------------------------------------

  /** What of a whole text has not been told. */
  #rest(key: string, whole: Json | undefined): string {
    return typeof whole === 'string' ? whole.slice(this.#part(key).told) : ''
  }

  #part(key: string): PartState {
    return this.#known(key) ?? freshPart
  }

  #known(key: string): PartState | undefined {
    const { latest, parts } = this.state
    return latest?.key === key ? latest.part : parts.get(key)
  }

  #setPart(key: string, part: PartState, textLength = this.state.textLength): void {
    const { latest, parts } = this.state
    const others = latest === undefined || latest.key === key ? parts : parts.with(latest.key, latest.part)
    this.state = { ...this.state, parts: others, latest: { key, part }, textLength }
  }

  #partKey(kind: string, event: JsonObject, index = 'content_index'): string {
    return keyOf(kind, this.#position(event), partIndex(event, index))
  }

  /** The position of the item that an event is about. */
  #position(event: JsonObject, item: JsonObject = {}): number {
    const id = nonEmpty(event.item_id) ?? nonEmpty(item.id)
    const known = id === undefined ? undefined : this.state.positions.get(id)
    const position =
      typeof event.output_index === 'number' ? event.output_index : (known ?? this.state.nextPosition)
    if (known === undefined && id !== undefined) this.#remember({ id }, position)
    return position
  }

  #remember(item: JsonObject, position: number): void {
    const id = nonEmpty(item.id)
    if (id === undefined || this.state.positions.has(id)) return
    const nextPosition = Math.max(this.state.nextPosition, position + 1)
    this.state = { ...this.state, positions: this.state.positions.with(id, position), nextPosition }
  }

  #count(position: number): void {
    if (this.state.counted.has(position)) return
    const counted = this.state.counted.with(position, true)
    this.state = { ...this.state, counted, nextIndex: this.state.nextIndex + 1 }
  }
}

/** The types of items of which something has been told. */
function typesTold(output: OutputState): Set<string> {
  const keys = [...output.parts.keys(), ...(output.latest ? [output.latest.key] : [])]
  const kinds = new Set(keys.map((key) => typesOfParts[key.split('/')[0]!]!))
  if (output.calls.byPosition.size > 0) kinds.add('function_call')
  if (output.searches > 0) kinds.add('web_search_call')
  return kinds
}

/** The position after those of all items that are known. */
function positionAfter({ nextPosition, counted, finished }: OutputState): number {
  let next = nextPosition
  for (const position of counted.keys()) next = Math.max(next, position + 1)
  for (const position of finished.keys()) next = Math.max(next, position + 1)
  return next
}

const typesOfParts: Readonly<Record<string, string>> = {
  text: 'message',
  refusal: 'message',
  summary: 'reasoning',
  reasoning: 'reasoning',
  encrypted: 'reasoning',
}
