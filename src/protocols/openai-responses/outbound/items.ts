// The output items of a response as events: deltas as they arrive, and at the end of each item what they left out.

import type { ChatEvent } from '../../../conversation/event.ts'
import type { Json, JsonObject, TurnMessage } from '../../../conversation/request.ts'
import { noUsage } from '../../../conversation/usage.ts'
import { isObject, nonEmpty, parseJson } from '../../json.ts'
import type { CallState } from '../../openai/calls.ts'
import type { ResponsesQuirks } from './quirks.ts'
import { mintedId } from '../../free-names.ts'
import { ItemCalls } from './item-calls.ts'
import { keyOf, objects, partIndex, urlCitation, wholeTextOf } from './parts.ts'
import { ItemPositions, StreamedParts } from './streamed-parts.ts'
import { type DetailPart, encryptedPart, summaryPart, textPart } from './reasoning.ts'

/** A response has one answer. */
export const choice = 0

/** The output so far, and the events that have not been read yet. */
export class Output {
  readonly #quirks: ResponsesQuirks
  /** Generated call ids are derived from this: the response's id, or a random string. */
  #seed: string = crypto.randomUUID()
  /** Length of the text of all messages so far, in UTF-16 units. */
  #textLength = 0
  readonly #parts = new StreamedParts()
  readonly #calls = new ItemCalls()
  readonly #positions = new ItemPositions()
  /** The index of the next reasoning detail; messages and calls count as well (see upstream-reasoning.ts). */
  #nextIndex = 0
  /** Positions of messages and calls that have been counted. */
  readonly #counted = new Set<number>()
  /** The messages by their positions. */
  readonly #messages = new Map<number, TurnMessage>()
  /** Positions of items that have ended. */
  readonly #finished = new Set<number>()
  #searches = 0
  #events: ChatEvent[] = []

  constructor(quirks: ResponsesQuirks) {
    this.#quirks = quirks
  }

  /** Sets the id of the response. */
  begin(id: string | undefined): void {
    this.#seed = id ?? this.#seed
  }

  /** The events since the last time this was called. */
  events(): readonly ChatEvent[] {
    const made = this.#events
    this.#events = []
    return made
  }

  /** The number of web searches that the provider ran. */
  get searches(): number {
    return this.#searches
  }

  get calls(): readonly CallState[] {
    return this.#calls.all
  }

  // ---- events of a stream ---------------------------------------------------------------------------------

  /** `response.output_item.added`: starts a call; every other item starts with its first part. */
  itemAdded(event: JsonObject): void {
    const item = isObject(event.item) ? event.item : {}
    const position = this.#positions.of(event, item)
    // Reasoning is not read here: only the encrypted content of the finished item can be sent back.
    if (item.type === 'function_call') this.#call(position, item)
    if (item.type === 'message') this.#message(position, item)
    if (item.type === 'web_search_call')
      this.#events.push({ kind: 'search-start', choice, search: String(position) })
  }

  textDelta(event: JsonObject): void {
    const position = this.#positions.of(event)
    const key = keyOf('text', position, partIndex(event, 'content_index'))
    this.#text(key, position, event.delta)
    this.#logprobs(key, event.logprobs)
  }

  /** `response.output_text.done`: some servers send log probabilities only here. */
  textDone(event: JsonObject): void {
    this.#completeText(this.#partKey('text', event), this.#positions.of(event), event.text, event.logprobs)
  }

  refusalDelta(event: JsonObject): void {
    this.#refusal(this.#partKey('refusal', event), this.#positions.of(event), event.delta)
  }

  refusalDone(event: JsonObject): void {
    const key = this.#partKey('refusal', event)
    this.#refusal(key, this.#positions.of(event), this.#parts.rest(key, event.refusal))
  }

  annotationAdded(event: JsonObject): void {
    if (isObject(event.annotation)) this.#annotation(this.#partKey('text', event), event.annotation)
  }

  /** `response.reasoning_summary_text.delta` and `.done`, and `.reasoning_summary_part.done`. */
  summary(event: JsonObject): void {
    const key = this.#partKey('summary', event, 'summary_index')
    const text = event.delta ?? this.#parts.rest(key, wholeTextOf(event))
    this.#reasoning(key, text, (words) => summaryPart(this.#format, nonEmpty(event.item_id), words))
  }

  /** `response.reasoning_text.delta` and `.done`. */
  reasoningText(event: JsonObject): void {
    const key = this.#partKey('reasoning', event)
    const text = event.delta ?? this.#parts.rest(key, wholeTextOf(event))
    this.#reasoning(key, text, (words) => textPart(this.#format, nonEmpty(event.item_id), words))
  }

  /** `response.content_part.done`: a part of a message, or of reasoning. */
  partDone(event: JsonObject): void {
    if (!isObject(event.part)) return
    if (event.part.type === 'reasoning_text') return this.reasoningText(event)
    this.#messagePart(event.part, this.#positions.of(event), partIndex(event, 'content_index'))
  }

  argumentsDelta(event: JsonObject): void {
    this.#call(this.#positions.of(event), { arguments: event.delta ?? '' })
  }

  /** `response.function_call_arguments.done`: what the deltas left out. It may have the function's name. */
  argumentsDone(event: JsonObject): void {
    this.#completeCall(this.#positions.of(event), { arguments: event.arguments ?? '' })
  }

  itemDone(event: JsonObject): void {
    if (isObject(event.item)) this.item(event.item, this.#positions.of(event, event.item))
  }

  // ---- whole items ----------------------------------------------------------------------------------------

  /**
   * The output in the terminal event: all of it if nothing was streamed, otherwise what no event contained. Some
   * servers change the ids of their items at the end: to send nothing twice, an unknown item counts only if no item of
   * its type was streamed.
   */
  output(items: Json | undefined): void {
    const seen = this.#typesSeen()
    const free = this.#positionAfter()
    const positions = this.#positions.byId()
    for (const [at, item] of objects(items).entries()) {
      const known = positions.get(nonEmpty(item.id) ?? '')
      if (known !== undefined) this.item(item, known)
      else if (!seen.has(nonEmpty(item.type) ?? '')) this.item(item, free + at)
    }
  }

  /** A finished item: emits what has not been streamed of it. */
  item(item: JsonObject, position: number): void {
    this.#positions.remember(item, position)
    if (this.#finished.has(position)) return
    this.#finished.add(position)
    switch (item.type) {
      case 'message':
        this.#message(position, item)
        return this.#messageItem(item, position)
      case 'reasoning':
        return this.#reasoningItem(item, position)
      case 'compaction':
        return this.#encrypted(item, position)
      case 'function_call':
        return this.#completeCall(position, item)
      case 'web_search_call':
        return this.#search(item, position)
      case 'image_generation_call':
        return this.#image(item)
      default:
      // Clients do not see other tools that the provider ran.
    }
  }

  #messageItem(item: JsonObject, position: number): void {
    const parts = objects(item.content)
    const texts = this.#parts.streamedAs('text', position, parts, (part) => part.type === 'output_text')
    const refusals = this.#parts.streamedAs('refusal', position, parts, (part) => part.type === 'refusal')
    for (const [at, part] of parts.entries()) {
      this.#messagePart(part, position, (part.type === 'refusal' ? refusals : texts)(at))
    }
  }

  #messagePart(part: JsonObject, position: number, at: number): void {
    if (part.type === 'refusal') {
      const key = keyOf('refusal', position, at)
      return this.#refusal(key, position, this.#parts.rest(key, part.refusal))
    }
    if (part.type !== 'output_text') return
    const key = keyOf('text', position, at)
    this.#completeText(key, position, part.text, part.logprobs)
    const known = this.#parts.part(key).annotations
    for (const annotation of objects(part.annotations).slice(known)) this.#annotation(key, annotation)
  }

  #reasoningItem(item: JsonObject, position: number): void {
    const id = nonEmpty(item.id)
    const [summaries, contents] = [objects(item.summary), objects(item.content)]
    const summaryAt = this.#parts.streamedAs('summary', position, summaries)
    for (const [at, part] of summaries.entries()) {
      const key = keyOf('summary', position, summaryAt(at))
      this.#reasoning(key, this.#parts.rest(key, part.text), (text) => summaryPart(this.#format, id, text))
    }
    const contentAt = this.#parts.streamedAs('reasoning', position, contents)
    for (const [at, part] of contents.entries()) {
      const key = keyOf('reasoning', position, contentAt(at))
      this.#reasoning(key, this.#parts.rest(key, part.text), (text) => textPart(this.#format, id, text))
    }
    this.#encrypted(item, position)
  }

  #encrypted(item: JsonObject, position: number): void {
    const key = keyOf('encrypted', position, 0)
    const data = this.#parts.part(key).streamed > 0 ? '' : item.encrypted_content
    this.#reasoning(key, data, (text) => encryptedPart(this.#format, nonEmpty(item.id), text))
  }

  /** Shown to the client. Failed searches and opened pages are not billed. */
  #search({ action: raw, arguments: args, status }: JsonObject, position: number): void {
    const action = isObject(raw) ? raw : searchedFor(args)
    const shown = { type: 'web_search_call', status: status === 'failed' ? status : 'completed', action }
    this.#events.push({ kind: 'gateway-item', choice, item: shown, search: String(position) })
    if (status === 'failed' || action.type !== 'search') return
    this.#searches += 1
    // The search is charged even if the answer breaks off after it; tokens are counted at the end.
    const toolCalls = { web_search: this.#searches }
    this.#events.push({
      kind: 'usage',
      usage: { ...noUsage, toolCalls, uncounted: ['prompt', 'completion'] },
    })
  }

  #image(item: JsonObject): void {
    const data = nonEmpty(item.result)
    if (data === undefined) return
    this.#events.push({
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
    const message = this.#message(position)
    const part = this.#parts.beginPart(key, this.#textLength)
    part.streamed += text.length
    this.#textLength += text.length
    this.#events.push({ kind: 'text-delta', choice, text, ...markOf(message) })
  }

  #completeText(key: string, position: number, text: Json | undefined, logprobs: Json | undefined): void {
    const rest = this.#parts.rest(key, text)
    // An empty text is an answer, too, so it is sent once.
    if (rest !== '' || !this.#parts.has(key)) this.#text(key, position, rest)
    if (!this.#parts.part(key).logprobs) this.#logprobs(key, logprobs)
  }

  #refusal(key: string, position: number, text: Json | undefined): void {
    if (typeof text !== 'string' || text === '') return
    const message = this.#message(position)
    this.#parts.beginPart(key, 0).streamed += text.length
    this.#events.push({ kind: 'refusal-delta', choice, text, ...markOf(message) })
  }

  /** The provider's offsets are within the part, ours within the text of all parts. */
  #annotation(key: string, raw: JsonObject): void {
    const part = this.#parts.beginPart(key, this.#textLength)
    part.annotations += 1
    const annotation = urlCitation(raw, part.start)
    if (annotation) this.#events.push({ kind: 'annotation', choice, annotation })
  }

  #logprobs(key: string, raw: Json | undefined): void {
    if (!Array.isArray(raw) || raw.length === 0) return
    const content = objects(raw).map((entry) => ({ bytes: null, top_logprobs: [], ...entry }))
    if (content.length === 0) return
    this.#parts.beginPart(key, 0).logprobs = true
    this.#events.push({ kind: 'logprobs', choice, content, refusal: [] })
  }

  #reasoning(key: string, text: Json | undefined, part: (text: string) => DetailPart): void {
    if (typeof text !== 'string' || text === '') return
    const isNew = !this.#parts.has(key)
    const known = this.#parts.beginPart(key, this.#nextIndex)
    if (isNew) this.#nextIndex += 1
    known.streamed += text.length
    this.#events.push({ kind: 'reasoning-delta', choice, detail: { ...part(text), index: known.start } })
  }

  #completeCall(position: number, item: JsonObject): void {
    const known = this.#calls.at(position)
    const streamed = known?.arguments ?? ''
    const whole = typeof item.arguments === 'string' ? item.arguments : ''
    this.#call(position, {
      ...item,
      arguments: whole.startsWith(streamed) ? whole.slice(streamed.length) : '',
    })
  }

  /** Continues a call with an event or item. Calls are identified by their position, not by their id. */
  #call(position: number, item: JsonObject): void {
    this.#count(position)
    const known = this.#calls.at(position)
    const entry: JsonObject = {
      index: position,
      // Keep the first id: in chat completions, another id under the same index means another call.
      id: known?.id || (nonEmpty(item.call_id) ?? ''),
      function: { name: known?.name ? '' : (nonEmpty(item.name) ?? ''), arguments: item.arguments ?? '' },
    }
    const mintId = (call: number) => mintedId(this.#seed, call)
    this.#events.push(...this.#calls.take(position, entry, { choice, mintId }))
  }

  // ---- bookkeeping ----------------------------------------------------------------------------------------

  #partKey(kind: string, event: JsonObject, index = 'content_index'): string {
    return keyOf(kind, this.#positions.of(event), partIndex(event, index))
  }

  /** The message at a position, which is counted; `item` is what is known of it by now. */
  #message(position: number, item: JsonObject = {}): TurnMessage {
    const known = this.#messages.get(position)
    const phase = nonEmpty(item.phase)
    if (known && (phase === undefined || phase === known.phase)) return known
    const at = known?.at ?? this.#counted.size
    this.#count(position)
    const message = phase === undefined ? { at } : { at, phase }
    this.#messages.set(position, message)
    // Its text has gone before.
    if (known) this.#events.push({ kind: 'text-delta', choice, text: '', message })
    return message
  }

  #count(position: number): void {
    if (this.#counted.has(position)) return
    this.#counted.add(position)
    this.#nextIndex += 1
  }

  /** The types of items that have been streamed. */
  #typesSeen(): Set<string> {
    const types = new Set(this.#parts.types())
    if (this.#calls.all.length > 0) types.add('function_call')
    if (this.#searches > 0) types.add('web_search_call')
    return types
  }

  /** The position after those of all items that are known. */
  #positionAfter(): number {
    let next = this.#positions.next
    for (const position of [...this.#counted, ...this.#finished]) next = Math.max(next, position + 1)
    return next
  }
}

function markOf(message: TurnMessage): { readonly message?: TurnMessage } {
  return message.at === 0 && message.phase === undefined ? {} : { message }
}

/** The action of a search without one: xAI sends its searches as function calls. */
function searchedFor(json: Json | undefined): JsonObject {
  const args = typeof json === 'string' ? parseJson(json) : undefined
  return { type: 'search', query: (isObject(args) && nonEmpty(args.query)) || '' }
}
