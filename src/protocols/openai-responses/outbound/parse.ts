// Parses responses: streams of typed events, and whole bodies.

import type { ChatEvent, Fault } from '../../../conversation/event.ts'
import type { Json, JsonObject, TurnMessage } from '../../../conversation/request.ts'
import { count, noUsage, type Usage } from '../../../conversation/usage.ts'
import { errorEvent, fault } from '../../faults.ts'
import type { Frame } from '../../framing/sse.ts'
import { entryOf, isObject, nonEmpty, objectsIn, parseJson } from '../../lenient.ts'
import { mintedId } from '../../names.ts'
import { clientTools, clientToolTypes, kindOfCall } from '../../openai/client-tools.ts'
import {
  type CallContext,
  callsAreWhole,
  type CallsState,
  type CallState,
  completeCalls,
  continueCall,
  hasNamelessCall,
  noCalls,
} from '../../openai/messages.ts'
import { usageOf as chatUsageOf, faultInside, faultOfError, finishReasonOf } from '../../openai/usage.ts'
import type { UsageQuirks } from '../../openai/parameters.ts'
import type { StreamParser, Target } from '../../protocol.ts'
import type { ResponsesQuirks } from './quirks.ts'
import {
  type DetailPart,
  encryptedPart,
  keyOf,
  partIndex,
  summaryPart,
  textPart,
  urlCitation,
  wholeTextOf,
} from './lower.ts'
import { calledName } from './tools.ts'

export function wholeEvents(body: unknown, reading: Reading): readonly ChatEvent[] {
  const failure = wholeFailure(body)
  if (failure) return [...usageEvents(isObject(body) ? body : {}, 0, reading.quirks), errorEvent(failure)]
  return new ResponseParser(reading).whole(body as JsonObject)
}

type Reading = Pick<Target<ResponsesQuirks>, 'quirks' | 'clientSpeaksIt'>

/** Why a body is not an answer; undefined when it is one. */
function wholeFailure(body: unknown): Fault | undefined {
  if (!isObject(body)) return fault('broken', 'The answer of the provider is not a response.')
  if (isObject(body.error) && body.object === 'response') return faultOfError(body.error)
  if (faultInside(body)) return faultOfError(body)
  if (!Array.isArray(body.output)) return fault('broken', 'The answer of the provider has no output.')
  return undefined
}

// ---- events -----------------------------------------------------------------------------------------------

/** How each event with output is read. Unknown events are ignored: new ones are added often. */
const deltas: Readonly<Record<string, (output: Output, event: JsonObject) => void>> = {
  'response.output_item.added': (output, event) => output.itemAdded(event),
  'response.output_item.done': (output, event) => output.itemDone(event),
  'response.output_text.delta': (output, event) => output.textDelta(event),
  'response.output_text.done': (output, event) => output.textDone(event),
  'response.output_text.annotation.added': (output, event) => output.annotationAdded(event),
  'response.refusal.delta': (output, event) => output.refusalDelta(event),
  'response.refusal.done': (output, event) => output.refusalDone(event),
  'response.content_part.done': (output, event) => output.partDone(event),
  'response.reasoning_summary_text.delta': (output, event) => output.summary(event),
  'response.reasoning_summary_text.done': (output, event) => output.summary(event),
  'response.reasoning_summary_part.done': (output, event) => output.summary(event),
  'response.reasoning_text.delta': (output, event) => output.reasoningText(event),
  'response.reasoning_text.done': (output, event) => output.reasoningText(event),
  'response.function_call_arguments.delta': (output, event) => output.argumentsDelta(event),
  'response.function_call_arguments.done': (output, event) => output.argumentsDone(event),
  'response.custom_tool_call_input.delta': (output, event) => output.inputDelta(event),
}

/**
 * The parser of one provider's streams. The type of an event comes from its data: `event:` may be missing or late.
 * A stream ends at `response.completed`, `.incomplete` or `.failed`, at an error, or at the end of the body.
 */
export class ResponseParser implements StreamParser {
  readonly #reading: Reading
  readonly #output: Output
  #over = false
  #started = false

  constructor(reading: Reading) {
    this.#reading = reading
    this.#output = new Output(reading.quirks)
  }

  push(frame: Frame): readonly ChatEvent[] {
    const data = frame.data.trim()
    if (this.#over || data === '') return []
    // OpenRouter sends it after the terminal event; without a terminal event the stream is incomplete.
    if (data === '[DONE]') return this.#ending([cut()])
    const event = parseJson(data)
    if (!isObject(event)) {
      const failure =
        frame.event === 'error'
          ? faultOfError(data)
          : fault('broken', 'The provider sent an event that is not JSON.')
      return this.#ending([errorEvent(failure)])
    }
    const type = typeof event.type === 'string' ? event.type : frame.event
    if (type === 'error' || frame.event === 'error' || (type === undefined && faultInside(event))) {
      return this.#ending([errorEvent(faultOfError(event))])
    }
    return type === undefined ? [] : this.#take(type, event)
  }

  end(): readonly ChatEvent[] {
    return this.#over ? [] : [cut()]
  }

  whole(response: JsonObject): readonly ChatEvent[] {
    return [...this.#start(response), ...this.#conclude(response)]
  }

  #take(type: string, event: JsonObject): readonly ChatEvent[] {
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#start(isObject(event.response) ? event.response : {})
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled': {
        const response: JsonObject = isObject(event.response) ? event.response : {}
        // The status in the response may be missing or still the previous one; then the event's type decides.
        const stands = response.status === 'in_progress' || response.status === 'queued'
        const status = stands ? undefined : response.status
        return this.#ending(this.whole({ ...response, status: status ?? type.slice('response.'.length) }))
      }
      default:
        entryOf(deltas, type)?.(this.#output, event)
        return this.#output.events()
    }
  }

  #start(response: JsonObject): readonly ChatEvent[] {
    if (this.#started) return []
    this.#started = true
    const id = nonEmpty(response.id)
    this.#output.begin(id)
    return [{ kind: 'message-start', id, model: nonEmpty(response.model) }]
  }

  #ending(events: readonly ChatEvent[]): readonly ChatEvent[] {
    this.#over = true
    return events
  }

  #nativeOf(choice: JsonObject) {
    return this.#reading.clientSpeaksIt ? { nativeFields: { choice, usage: {}, prompt: {} } } : {}
  }

  /** What has not been sent of a finished response, then the one terminal event. */
  #conclude(response: JsonObject): readonly ChatEvent[] {
    const output = this.#output
    output.output(response.output)
    const events = output.events()
    const usage = usageEvents(response, output.searches, this.#reading.quirks)
    const failure = failureOf(response)
    // The provider charges for what it counted before it failed.
    if (failure) return [...events, ...usage, errorEvent(failure)]
    const calls: CallsState = { ...noCalls, calls: output.calls }
    if (hasNamelessCall(calls)) {
      const nameless = fault('broken', 'The provider sent a tool call without a name.')
      return [...events, ...usage, errorEvent(nameless)]
    }
    const { reason: ended, native } = endingOf(response)
    const made = calls.calls.length === 0 ? 'none' : callsAreWhole(calls) ? 'whole' : 'partial'
    const reason = finishReasonOf(ended, made)
    return [
      ...events,
      ...completeCalls(calls, choice),
      { kind: 'choice-finish', choice, reason, native, ...this.#nativeOf(response) },
      ...usage,
      { kind: 'finish' },
    ]
  }
}

function failureOf(response: JsonObject): Fault | undefined {
  switch (response.status) {
    case 'failed':
      return faultOfError(isObject(response.error) ? response.error : response)
    case 'cancelled':
    case 'queued':
    case 'in_progress':
      return fault('broken', `The provider gave back a response that is ${response.status}.`)
    default:
      return isObject(response.error) ? faultOfError(response.error) : undefined
  }
}

/** Why a response ended, as a finish reason of chat completions and in the provider's own word. */
function endingOf(response: JsonObject): { readonly reason: string; readonly native: string } {
  const details = isObject(response.incomplete_details) ? response.incomplete_details : undefined
  const reason = nonEmpty(details?.reason)
  if (response.status !== 'incomplete' && reason === undefined) {
    return { reason: 'stop', native: nonEmpty(response.status) ?? 'completed' }
  }
  return { reason: reason ?? 'other', native: reason ?? 'incomplete' }
}

function usageEvents(response: JsonObject, searches: number, quirks: ResponsesQuirks): readonly ChatEvent[] {
  const usage = usageOf(response, searches, quirks)
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

function cut(): ChatEvent {
  return errorEvent(fault('cut', 'The stream of the provider broke off before its response was finished.'))
}

// Which part of each item has been streamed, so that only the rest of a finished item is sent.

/** One part of an item: a text, a summary, the arguments of a call. */
interface PartState {
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
class StreamedParts {
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
class ItemPositions {
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

// The output items of a response as events: deltas as they arrive, and at the end of each item what they left out.

/** A response has one answer. */
const choice = 0

const callTypes = ['function_call', ...clientToolTypes.map((type) => clientTools[type].call)]

/** The output so far, and the events that have not been read yet. */
class Output {
  readonly #quirks: ResponsesQuirks
  /** Generated call ids are derived from this: the response's id, or a random string. */
  #seed: string = crypto.randomUUID()
  /** Length of the text of all messages so far, in UTF-16 units. */
  #textLength = 0
  readonly #parts = new StreamedParts()
  readonly #calls = new ItemCalls()
  readonly #positions = new ItemPositions()
  /** The index of the next reasoning detail; messages and calls count as well (see carriedItems in lower.ts). */
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
    if (item.type === 'function_call' || item.type === 'custom_tool_call')
      this.#call(position, namedCall(item))
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

  /** A custom tool is given a text: inside the gateway, it is the `input` of a function's arguments. */
  inputDelta(event: JsonObject): void {
    const { delta } = event
    if (typeof delta !== 'string') return
    const position = this.#positions.of(event)
    const begun = this.#calls.at(position)?.arguments ?? ''
    const opening = begun === '' ? '{"input":"' : ''
    this.#call(position, { arguments: opening + JSON.stringify(delta).slice(1, -1) })
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
    for (const [at, item] of objectsIn(items).entries()) {
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
        return this.#readEncrypted(item, position)
      case 'function_call':
        return this.#completeCall(position, item)
      case 'web_search_call':
        return this.#search(item, position)
      case 'image_generation_call':
        return this.#image(item)
      default:
        if (kindOfCall(item.type) !== undefined && item.execution !== 'server')
          return this.#completeCall(position, item)
      // Clients do not see other tools that the provider ran.
    }
  }

  #messageItem(item: JsonObject, position: number): void {
    const parts = objectsIn(item.content)
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
    for (const annotation of objectsIn(part.annotations).slice(known)) this.#annotation(key, annotation)
  }

  #reasoningItem(item: JsonObject, position: number): void {
    const id = nonEmpty(item.id)
    const lists = [
      ['summary', objectsIn(item.summary), summaryPart],
      ['reasoning', objectsIn(item.content), textPart],
    ] as const
    for (const [kind, parts, partOf] of lists) {
      const streamedAt = this.#parts.streamedAs(kind, position, parts)
      for (const [at, part] of parts.entries()) {
        const key = keyOf(kind, position, streamedAt(at))
        this.#reasoning(key, this.#parts.rest(key, part.text), (text) => partOf(this.#format, id, text))
      }
    }
    this.#readEncrypted(item, position)
  }

  #readEncrypted(item: JsonObject, position: number): void {
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
    const content = objectsIn(raw).map((entry) => ({ bytes: null, top_logprobs: [], ...entry }))
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
    const call = namedCall(item)
    const whole = typeof call.arguments === 'string' ? call.arguments : ''
    this.#call(position, {
      ...call,
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
    if (this.#calls.all.length > 0) for (const type of callTypes) types.add(type)
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

/** A call of any tool as one of a function: see `calledName`. */
function namedCall(item: JsonObject): JsonObject {
  const kind = kindOfCall(item.type)
  const namespace = nonEmpty(item.namespace)
  const name = nonEmpty(item.name)
  // A search of the provider's own puts what it has found into a namespace of the same name.
  const within = namespace === undefined || namespace === name ? {} : { namespace }
  const form = { kind: kind ?? 'function', name: name ?? '', ...within } as const
  const named =
    kind === undefined && name === undefined ? item : { ...item, name: calledName(form, form.name) }
  // A custom tool's input is not there before its item ends.
  const isBegun = kind === 'custom' && (item.status === 'in_progress' || item.input === '')
  if (kind === undefined) return named
  return { ...named, arguments: isBegun ? '' : clientTools[kind].argumentsOf(item) }
}

function markOf(message: TurnMessage): { readonly message?: TurnMessage } {
  return message.at === 0 && message.phase === undefined ? {} : { message }
}

/** The action of a search without one: xAI sends its searches as function calls. */
function searchedFor(json: Json | undefined): JsonObject {
  const args = typeof json === 'string' ? parseJson(json) : undefined
  return { type: 'search', query: (isObject(args) && nonEmpty(args.query)) || '' }
}

// The calls of a response by the positions of their items. Finding one takes constant time.

class ItemCalls {
  readonly #byPosition = new Map<number, CallState>()
  /** The number of calls with each id. */
  readonly #ids = new Map<string, number>()
  /** The number of calls that have been started. */
  #started = 0

  /** In the order in which they first appeared. */
  get all(): readonly CallState[] {
    return [...this.#byPosition.values()]
  }

  at(position: number): CallState | undefined {
    return this.#byPosition.get(position)
  }

  /** Continues the call at a position with an entry in the format of chat completions. */
  take(position: number, entry: JsonObject, context: CallContext): readonly ChatEvent[] {
    const before = this.#byPosition.get(position)
    const [next, events] = continueCall(before, entry, {
      ...context,
      started: this.#started,
      isTaken: (id) => (this.#ids.get(id) ?? 0) > (before?.id === id ? 1 : 0),
    })
    if (next === before) return []
    this.#byPosition.set(position, next)
    if (before?.id !== next.id) {
      this.#count(before?.id ?? '', -1)
      this.#count(next.id, 1)
    }
    if (next.call !== before?.call) this.#started += 1
    return events
  }

  #count(id: string, by: number): void {
    if (id !== '') this.#ids.set(id, (this.#ids.get(id) ?? 0) + by)
  }
}

// The usage of a response in disjoint counters. Its fields are those of chat completions under other names.

/** Their names in this protocol and in chat completions. */
const names = {
  input_tokens: 'prompt_tokens',
  output_tokens: 'completion_tokens',
  input_tokens_details: 'prompt_tokens_details',
  output_tokens_details: 'completion_tokens_details',
} as const

/**
 * The usage of a response; undefined if it has none. `searches` is the number of web searches in its output: they are
 * billed by the call, and only xAI counts them itself.
 */
function usageOf(response: JsonObject, searches: number, quirks: UsageQuirks): Usage | undefined {
  const raw = response.usage
  if (!isObject(raw)) return undefined
  const tier = response.service_tier
  const renamed: JsonObject = { ...raw, ...(typeof tier === 'string' ? { service_tier: tier } : {}) }
  for (const [ours, theirs] of Object.entries(names)) {
    if (renamed[ours] !== undefined) renamed[theirs] = renamed[ours]
  }
  const usage = chatUsageOf(renamed, quirks)
  if (!usage) return undefined
  const ran = isObject(raw.server_side_tool_usage_details) ? raw.server_side_tool_usage_details : {}
  const webSearch = ran.web_search_calls === undefined ? searches : count(ran.web_search_calls)
  return webSearch === 0 ? usage : { ...usage, toolCalls: { ...usage.toolCalls, web_search: webSearch } }
}
