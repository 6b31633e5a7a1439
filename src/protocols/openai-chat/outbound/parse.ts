// Parses chat completions: streams, and whole bodies.

import type { Annotation, AudioDelta, ChatEvent, ChatResult, Fault } from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { errorEvent, fault } from '../../faults.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextRuns } from '../../framing/text-template.ts'
import {
  isObject,
  Malformed,
  nonEmpty,
  number,
  objectsIn,
  parseJson,
  present,
  type Spoken,
  stringIn,
  text,
} from '../../lenient.ts'
import { mintedId } from '../../names.ts'
import {
  callsAreWhole,
  type CallsState,
  completeCalls,
  hasNamelessCall,
  noCalls,
  takeCall,
} from '../../openai/messages.ts'
import {
  carriesError,
  failureOf,
  faultInside,
  faultOfErrorEvent,
  finishReasonOf,
  isReason,
  tierIn,
  usageIn,
} from '../../openai/usage.ts'
import type { StreamParser, Target, Texts } from '../../protocol.ts'
import type { OpenAIChatQuirks } from './quirks.ts'

interface StreamState {
  readonly over: boolean
  readonly started: boolean
  /** Generated call ids are derived from this: the answer's id, or a random text. */
  readonly seed: string
  readonly choices: ReadonlyMap<number, ChoiceState>
  readonly sources: readonly NumberedSource[]
  /** The service tier that the answer has named last. */
  readonly tier: string | undefined
}

type Step = readonly [StreamState, readonly ChatEvent[]]

/**
 * The parser of a provider's streams. A stream ends at `[DONE]`, an error, or the end of the body; it is complete only
 * if every choice has a finish reason, and without `[DONE]` if as many have begun as were asked for.
 */
export function streamParser(
  { quirks, document }: Pick<Target<OpenAIChatQuirks>, 'quirks' | 'document'>,
  choices: number,
): StreamParser {
  return new CompletionParser(quirks, choices, new Malformed(document ? 'document' : 'words'))
}

class CompletionParser implements StreamParser {
  readonly #quirks: OpenAIChatQuirks
  readonly #choices: number
  readonly #malformed: Malformed
  readonly #runs = new TextRuns()
  #state = fresh()

  constructor(quirks: OpenAIChatQuirks, choices: number, malformed: Malformed) {
    this.#quirks = quirks
    this.#choices = choices
    this.#malformed = malformed
  }

  push(frame: Frame): readonly ChatEvent[] {
    const before = this.#state
    const [next, events] = step(before, frame, this.#quirks, this.#malformed)
    this.#state = next
    const [event] = events
    // A frame can be the pattern of others if all it did was to add its text.
    if (next !== before) this.#runs.forget()
    else if (events.length === 1 && event?.kind === 'text-delta')
      this.#runs.learn(frame, event.choice, event.text, '"content":"')
    return events
  }

  end(): readonly ChatEvent[] {
    return this.#state.over ? [] : conclude(this.#state, this.#quirks, this.#choices)
  }

  texts(received: string, at: number): Texts | undefined {
    return this.#runs.at(received, at)
  }
}

/** A whole body as events. Complete JSON has ended, so a missing finish reason is a plain stop. */
export function wholeEvents(body: unknown, quirks: OpenAIChatQuirks): readonly ChatEvent[] {
  const reported = faultInside(body)
  if (reported) return [errorEvent(reported)]
  if (!isObject(body) || !Array.isArray(body.choices) || body.choices.length === 0) {
    return [errorEvent(fault('broken', 'The answer of the provider has no choices.'))]
  }
  // OpenRouter reports what interrupted an answer beside its text so far.
  const broken = body.choices.find((choice) => isObject(choice) && isObject(choice.error))
  if (broken) return [...usageEvents(body, quirks), errorEvent(faultInside(broken)!)]
  let state: StreamState = { ...fresh(), sources: sourcesIn(body) ?? [] }
  const [opened, events] = start(state, body)
  state = opened
  const out = [...events, ...(quirks.numberedCitations ? searchOf(state.sources) : [])]
  const choices = new Map<number, ChoiceState>()
  for (const [position, entry] of body.choices.entries()) {
    if (!isObject(entry)) continue
    const choice = choiceIndex(entry.index, position)
    const [taken, made] = takeWholeChoice(entry, contextOf(state, choice, quirks))
    choices.set(choice, { ...taken, finish: taken.finish ?? 'stop' })
    out.push(...made)
  }
  out.push(...usageEvents(body, quirks))
  return [...out, ...conclude({ ...state, choices }, quirks, 1)]
}

function fresh(): StreamState {
  return {
    over: false,
    started: false,
    seed: crypto.randomUUID(),
    choices: new Map(),
    sources: [],
    tier: undefined,
  }
}

function step(state: StreamState, frame: Frame, quirks: OpenAIChatQuirks, malformed: Malformed): Step {
  const data = frame.data.trim()
  if (state.over || data === '') return [state, []]
  if (data === '[DONE]') return [{ ...state, over: true }, conclude(state, quirks, 1)]
  const chunk = parseJson(data)
  if (frame.event === 'error') return failWith(state, faultOfErrorEvent(chunk ?? data), [])
  if (!isObject(chunk)) {
    if (malformed.leaveOut(data, spokenIn(state))) return [state, []]
    return failWith(state, fault('broken', 'The provider sent a chunk that is not JSON.'), [])
  }

  const reported = faultInside(chunk)
  // What the provider counted before its error is billed all the same.
  if (reported) return failWith(state, reported, usageEvents(chunk, quirks, state.tier))
  return take(state, chunk, quirks)
}

function spokenIn({ choices }: StreamState): Spoken {
  if (choices.size === 0) return 'nothing'
  return choices.values().some(({ calls }) => calls.calls.length > 0) ? 'calls' : 'words'
}

function take(before: StreamState, chunk: JsonObject, quirks: OpenAIChatQuirks): Step {
  const [started, startEvents] = start(before, chunk)
  const sources = quirks.numberedCitations ? sourcesIn(chunk) : undefined
  const events: ChatEvent[] = [...startEvents]
  if (sources !== undefined && before.sources.length === 0) events.push(...searchOf(sources))
  let { choices } = started
  // `choices` may be empty (usage, prompt filter) or missing.
  const entries = Array.isArray(chunk.choices) ? chunk.choices : []
  for (let position = 0; position < entries.length; position++) {
    const entry = entries[position]
    if (!isObject(entry)) continue
    const choice = choiceIndex(entry.index, position)
    const known = choices.get(choice)
    const [next, made] = takeChoice(known ?? emptyChoice, entry, contextOf(started, choice, quirks))
    if (next !== known) choices = new Map(choices).set(choice, next)
    events.push(...made)
  }
  const tier = tierIn(chunk) ?? before.tier
  const usage = usageIn(chunk, quirks, tier)
  if (usage !== undefined) events.push({ kind: 'usage', usage })
  if (choices === started.choices && sources === undefined && tier === before.tier) return [started, events]
  return [{ ...started, choices, sources: sources ?? started.sources, tier }, events]
}

/** The search that found these sources. Its query is not known. */
function searchOf(sources: readonly NumberedSource[] = []): readonly ChatEvent[] {
  return sources.length === 0 ? [] : [{ kind: 'gateway-item', choice: 0, item: searchItem(sources) }]
}

/** Azure opens with a chunk that has neither id nor choices: the message starts with the first chunk that has one. */
function start(state: StreamState, chunk: JsonObject): Step {
  if (state.started) return [state, []]
  const id = nonEmpty(chunk.id)
  const empty = !Array.isArray(chunk.choices) || chunk.choices.length === 0
  if (id === undefined && empty) return [state, []]
  return [
    { ...state, started: true, seed: id ?? state.seed },
    [{ kind: 'message-start', id, model: nonEmpty(chunk.model) }],
  ]
}

/** The end of an answer of at least so many choices: each one's last events, then the one terminal event. */
function conclude(state: StreamState, quirks: OpenAIChatQuirks, least: number): readonly ChatEvent[] {
  const choices = [...state.choices.entries()].toSorted(([a], [b]) => a - b)
  const finishes = choices.map(([, choice]) => choice.finish)
  if (choices.length === 0)
    return [errorEvent(fault('cut', 'The stream of the provider ended without an answer.'))]
  if (finishes.includes(undefined) || choices.length < least) {
    return [errorEvent(fault('cut', 'The stream of the provider broke off before its answer was finished.'))]
  }
  const events: ChatEvent[] = []
  for (const [index, choice] of choices) {
    const sources = quirks.numberedCitations ? state.sources : []
    for (const event of endChoice(choice, choice.finish!, sources, contextOf(state, index, quirks))) {
      events.push(event)
      if (event.kind === 'error') return events
    }
  }
  return [...events, { kind: 'finish' }]
}

function failWith(state: StreamState, fault: Fault, before: readonly ChatEvent[]): Step {
  return [{ ...state, over: true }, [...before, errorEvent(fault)]]
}

function usageEvents(chunk: JsonObject, quirks: OpenAIChatQuirks, tier?: string): readonly ChatEvent[] {
  const usage = usageIn(chunk, quirks, tier)
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

function contextOf(state: StreamState, choice: number, quirks: OpenAIChatQuirks) {
  return { choice, quirks, mintId: (call: number) => mintedId(state.seed, choice, call) }
}

/** A choice's own index, or its position where a provider sent none. */
export function choiceIndex(given: Json | undefined, position: number): number {
  return typeof given === 'number' && Number.isSafeInteger(given) && given >= 0 ? given : position
}

// Separates reasoning in `<think>…</think>` at the start of the text, while it streams.

/** The position in the text. `held` may turn out to be part of a tag. */
interface ThinkState {
  readonly phase: 'start' | 'opened' | 'inside' | 'after' | 'text'
  readonly held: string
}

/** What a further piece of text gives, and the position after it. */
interface ThinkSplit extends ThinkState {
  readonly reasoning: string
  readonly text: string
}

const opening = '<think>'
const closing = '</think>'

/** Before the first text: the opening tag may follow. */
const beforeThinking: ThinkState = { phase: 'start', held: '' }

/** Splits a further piece of text. Only a tag at the very start opens reasoning; later ones are text. */
function splitThinking({ phase, held }: ThinkState, piece: string): ThinkSplit {
  const text = held + piece
  switch (phase) {
    case 'text':
      return { phase, held: '', reasoning: '', text }
    case 'start':
      return startThink(text)
    case 'opened':
      return openThink(text)
    case 'inside':
      return inside(text)
    case 'after':
      return after(text)
  }
}

function startThink(text: string): ThinkSplit {
  const visible = text.trimStart()
  if (visible.startsWith(opening)) return openThink(visible.slice(opening.length))
  return opening.startsWith(visible)
    ? { phase: 'start', held: text, reasoning: '', text: '' }
    : { phase: 'text', held: '', reasoning: '', text }
}

/** Drops the line break after the opening tag, even if it comes in another piece. */
function openThink(text: string): ThinkSplit {
  const visible = text.trimStart()
  return visible === '' ? { phase: 'opened', held: '', reasoning: '', text: '' } : inside(visible)
}

function inside(text: string): ThinkSplit {
  const end = text.indexOf(closing)
  if (end >= 0) return { ...after(text.slice(end + closing.length)), reasoning: text.slice(0, end) }
  const known = text.length - tagPrefixAtEnd(text)
  return { phase: 'inside', held: text.slice(known), reasoning: text.slice(0, known), text: '' }
}

/** Drops the blank lines between the closing tag and the answer. */
function after(text: string): ThinkSplit {
  const visible = text.trimStart()
  return { phase: visible === '' ? 'after' : 'text', held: '', reasoning: '', text: visible }
}

/** The length of a possible beginning of the closing tag at the end of the text. */
function tagPrefixAtEnd(text: string): number {
  for (let length = Math.min(closing.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(closing.slice(0, length))) return length
  }
  return 0
}

// Parses one choice of an answer: its deltas or its whole message, and its state between them.

/** The state of a choice between two chunks. */
interface ChoiceState {
  /** The text so far, kept only if citations are located in it. */
  readonly text: string
  readonly thinking: ThinkState
  readonly reasoningKeys: ReasoningKeys
  readonly calls: CallsState
  /** The provider's finish reason. Sent at the end: some providers still send content, or the reason again. */
  readonly finish: string | undefined
}

const emptyChoice: ChoiceState = {
  text: '',
  thinking: beforeThinking,
  reasoningKeys: [],
  calls: noCalls,
  finish: undefined,
}

interface ChoiceContext {
  readonly choice: number
  readonly quirks: OpenAIChatQuirks
  readonly mintId: (call: number) => string
}

/** Reads an entry of `choices`: a streamed one has `delta`, a whole one `message`. */
function takeChoice(
  before: ChoiceState,
  entry: JsonObject,
  context: ChoiceContext,
): readonly [ChoiceState, readonly ChatEvent[]] {
  const taking = new Taking(before, context)
  // Perplexity sends the whole message so far beside each delta; a message only counts if there was no delta.
  const message = before === emptyChoice && isObject(entry.message) ? entry.message : {}
  const delta = isObject(entry.delta) ? entry.delta : message
  taking.reasoning(delta)
  taking.content(delta.content)
  taking.refusal(delta.refusal)
  taking.audio(delta.audio)
  taking.images(delta.images)
  taking.annotations(delta.annotations)
  taking.calls(delta)
  taking.logprobs(entry.logprobs)
  if (isReason(entry.finish_reason)) taking.finish(entry.finish_reason)
  return [taking.state, taking.events]
}

/** The same for a whole message: only `message` counts, even if there is a `delta`. */
function takeWholeChoice(
  entry: JsonObject,
  context: ChoiceContext,
): readonly [ChoiceState, readonly ChatEvent[]] {
  const message = isObject(entry.message) ? numberCalls(entry.message) : null
  const [state, events] = takeChoice(emptyChoice, { ...entry, delta: null, message }, context)
  // An empty text is an answer; only null means that there is none.
  const said = message?.content === '' && state.calls.calls.length === 0
  return said
    ? [state, [{ kind: 'text-delta', choice: context.choice, text: '' }, ...events]]
    : [state, events]
}

/** In a whole message each entry is a call of its own, whatever its id and `index`, which belongs to deltas. */
function numberCalls(message: JsonObject): JsonObject {
  const { tool_calls: calls } = message
  if (!Array.isArray(calls)) return message
  return {
    ...message,
    tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)),
  }
}

/**
 * The last events of a choice: held-back text, citations, empty arguments, the reason. An `error` event instead if the
 * reason is a failure or a call has no name.
 */
function endChoice(
  state: ChoiceState,
  finish: string,
  sources: readonly NumberedSource[],
  context: ChoiceContext,
): readonly ChatEvent[] {
  const { choice } = context
  const failure = failureOf(finish)
  if (failure) return [errorEvent(fault(failure, `The provider stopped: ${finish}.`))]
  if (hasNamelessCall(state.calls)) {
    return [errorEvent(fault('broken', 'The provider sent a tool call without a name.'))]
  }
  const taking = new Taking(state, context)
  taking.heldThinking()
  const made = state.calls.calls.length
  const whole = callsAreWhole(state.calls)
  const reason = finishReasonOf(finish, made === 0 ? 'none' : whole ? 'whole' : 'partial')
  return [
    ...taking.events,
    ...citationsOf(taking.state.text, sources).map((annotation) => annotationEvent(choice, annotation)),
    ...completeCalls(state.calls, choice),
    { kind: 'choice-finish', choice, reason, native: finish },
  ]
}

/** Collects the events of one step over a choice, and its next state. */
class Taking {
  state: ChoiceState
  readonly events: ChatEvent[] = []
  readonly #context: ChoiceContext
  readonly #choice: number

  constructor(before: ChoiceState, context: ChoiceContext) {
    this.state = before
    this.#context = context
    this.#choice = context.choice
  }

  reasoning(delta: JsonObject): void {
    this.#details(reasoningOf(delta, this.state.reasoningKeys))
  }

  content(content: Json | undefined): void {
    if (typeof content === 'string') return this.#text(content)
    if (!Array.isArray(content)) return
    for (const part of content) {
      if (typeof part === 'string') this.#text(part)
      else if (isObject(part)) this.#part(part)
    }
  }

  refusal(refusal: Json | undefined): void {
    if (typeof refusal === 'string' && refusal !== '') {
      this.events.push({ kind: 'refusal-delta', choice: this.#choice, text: refusal })
    }
  }

  audio(audio: Json | undefined): void {
    if (!isObject(audio)) return
    const delta = present<AudioDelta>({
      id: text(audio.id),
      data: text(audio.data),
      transcript: text(audio.transcript),
      expiresAt: number(audio.expires_at),
    })
    if (Object.keys(delta).length > 0)
      this.events.push({ kind: 'audio-delta', choice: this.#choice, audio: delta })
  }

  images(images: Json | undefined): void {
    for (const image of objectsIn(images)) this.#image(image)
  }

  annotations(annotations: Json | undefined): void {
    for (const raw of objectsIn(annotations)) {
      const annotation = urlCitation(raw)
      if (annotation) this.events.push(annotationEvent(this.#choice, annotation))
    }
  }

  calls(delta: JsonObject): void {
    const entries = objectsIn(delta.tool_calls)
    // The legacy single call; its own index keeps its deltas together.
    if (isObject(delta.function_call)) entries.push({ index: -1, function: delta.function_call })
    // Google's compatible endpoint may sign the message instead of the call: the first call gets the signature.
    if (entries[0] && isObject(delta.extra_content) && entries[0].extra_content === undefined) {
      entries[0] = { ...entries[0], extra_content: delta.extra_content }
    }
    for (const entry of entries) {
      const [calls, events] = takeCall(this.state.calls, entry, this.#context)
      this.state = { ...this.state, calls }
      this.events.push(...events)
    }
  }

  logprobs(logprobs: Json | undefined): void {
    if (!isObject(logprobs)) return
    const content = Array.isArray(logprobs.content) ? logprobs.content : []
    const refusal = Array.isArray(logprobs.refusal) ? logprobs.refusal : []
    if (content.length + refusal.length === 0) return
    this.events.push({ kind: 'logprobs', choice: this.#choice, content, refusal })
  }

  finish(reason: string): void {
    this.state = { ...this.state, finish: reason }
  }

  heldThinking(): void {
    if (!this.#context.quirks.thinkTags) return
    const { phase, held } = this.state.thinking
    // An incomplete tag is text.
    if (phase === 'inside') this.#plainReasoning(held)
    else this.#visible(held)
  }

  #part(part: JsonObject): void {
    if (part.type === 'thinking' || part.type === 'reasoning')
      return this.#plainReasoning(reasoningPartText(part))
    if (part.type === 'image_url') return this.#image(part)
    if (typeof part.text === 'string') this.#text(part.text)
  }

  #text(text: string): void {
    // Most of the text comes when no tag can follow any more.
    if (!this.#context.quirks.thinkTags || this.state.thinking.phase === 'text') return this.#visible(text)
    const { reasoning, text: visible, ...thinking } = splitThinking(this.state.thinking, text)
    this.state = { ...this.state, thinking }
    this.#plainReasoning(reasoning)
    this.#visible(visible)
  }

  #visible(text: string): void {
    if (text === '') return
    if (this.#context.quirks.numberedCitations) this.state = { ...this.state, text: this.state.text + text }
    this.events.push({ kind: 'text-delta', choice: this.#choice, text })
  }

  #plainReasoning(text: string): void {
    if (text !== '') this.#details(reasoningOf({ reasoning: text }, this.state.reasoningKeys))
  }

  #details([reasoningKeys, details]: readonly [ReasoningKeys, readonly ReasoningDetail[]]): void {
    if (details.length === 0) return
    if (reasoningKeys !== this.state.reasoningKeys) this.state = { ...this.state, reasoningKeys }
    for (const detail of details) this.events.push({ kind: 'reasoning-delta', choice: this.#choice, detail })
  }

  /** Images are data URLs; any other address is sent as text rather than lost. */
  #image(part: JsonObject): void {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url
    if (typeof url !== 'string') return
    const data = /^data:([^;,]+);base64,(.*)$/s.exec(url)
    if (!data) return this.#visible(`![](${url})`)
    this.events.push({ kind: 'image', choice: this.#choice, mediaType: data[1]!, data: data[2]! })
  }
}

function urlCitation(raw: JsonObject): Annotation | undefined {
  const cited = isObject(raw.url_citation) ? raw.url_citation : undefined
  if (raw.type !== 'url_citation' || typeof cited?.url !== 'string') return undefined
  return {
    kind: 'url-citation',
    url: cited.url,
    title: stringIn(cited.title),
    start: typeof cited.start_index === 'number' ? cited.start_index : 0,
    end: typeof cited.end_index === 'number' ? cited.end_index : 0,
  }
}

function annotationEvent(choice: number, annotation: Annotation): ChatEvent {
  return { kind: 'annotation', choice, annotation }
}

// Reads the usual whole answer, one choice of plain text, without events.

/** Fields that are empty in a plain answer; with any other field it is not plain. */
const emptyFields: ReadonlySet<string> = new Set([
  'refusal',
  'annotations',
  'audio',
  'images',
  'tool_calls',
  'function_call',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
])

const nothing: readonly never[] = []

/**
 * What the events of the same body would be collected to (`collect(wholeEvents(…))`), or undefined when only they can
 * tell: for failures, for several choices, and for a message that holds more than text.
 */
export function plainWhole(body: unknown, quirks: OpenAIChatQuirks): ChatResult | undefined {
  if (!isObject(body) || carriesError(body) || !Array.isArray(body.choices) || body.choices.length !== 1)
    return undefined
  const entry = body.choices[0]
  if (!isObject(entry) || isObject(entry.error) || entry.logprobs != null || !isFirst(entry.index))
    return undefined
  const text = plainText(entry.message)
  const native = isReason(entry.finish_reason) ? entry.finish_reason : 'stop'
  if (text === undefined || quirks.numberedCitations || (quirks.thinkTags && text.includes('<')))
    return undefined
  if (failureOf(native) !== undefined) return undefined
  return {
    id: nonEmpty(body.id),
    model: nonEmpty(body.model),
    choices: [
      {
        index: 0,
        text,
        refusal: null,
        reasoning: nothing,
        toolCalls: nothing,
        annotations: nothing,
        logprobs: null,
        audio: null,
        images: nothing,
        finish: finishReasonOf(native, 'none'),
        nativeFinish: native,
      },
    ],
    usage: usageIn(body, quirks),
    fault: undefined,
  }
}

/** An invalid index is replaced by the position. */
function isFirst(index: Json | undefined): boolean {
  return typeof index !== 'number' || index <= 0
}

/** The text of a message without anything else. */
function plainText(message: Json | undefined): string | undefined {
  if (!isObject(message) || typeof message.content !== 'string') return undefined
  for (const name in message) {
    if (name !== 'role' && name !== 'content' && !(emptyFields.has(name) && isEmpty(message, name)))
      return undefined
  }
  return message.content
}

function isEmpty(message: JsonObject, name: string): boolean {
  const value = message[name]
  return value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

// Reads reasoning under its various names, as ordered pieces with one index each.

/** The keys of the pieces so far; the position of a key is the index of its piece. */
type ReasoningKeys = readonly string[]

/** The reasoning in a delta or message. Plain text beside a structured form with text repeats it: ignored. */
function reasoningOf(
  delta: JsonObject,
  keys: ReasoningKeys,
): readonly [ReasoningKeys, readonly ReasoningDetail[]] {
  // Most chunks have none.
  if (delta.reasoning_details == null && delta.reasoning_content == null && delta.reasoning == null)
    return [keys, []]
  const details: ReasoningDetail[] = []
  let known = keys
  const add = (key: string, detail: Omit<ReasoningDetail, 'index'>) => {
    let index = known.indexOf(key)
    if (index < 0) {
      index = known.length
      known = [...known, key]
    }
    details.push({ ...detail, index })
  }

  for (const raw of objectsIn(delta.reasoning_details)) {
    const detail = structuredDetail(raw)
    if (detail) add(keyOf(raw, known.length), detail)
  }
  const worded = details.some((detail) => detail.text !== undefined || detail.summary !== undefined)
  // Some servers send both names with the same text.
  const text = nonEmpty(delta.reasoning_content) ?? nonEmpty(delta.reasoning)
  if (!worded && text !== undefined) add('plain', { type: 'reasoning.text', format: null, text })
  return [known, details]
}

/** The text of a reasoning part: Mistral's `thinking`, Databricks' `reasoning`. */
export function reasoningPartText(part: JsonObject): string {
  const pieces = part.type === 'thinking' ? part.thinking : part.summary
  if (typeof pieces === 'string') return pieces
  if (!Array.isArray(pieces)) return ''
  return pieces
    .map((piece) => (isObject(piece) ? piece.text : piece))
    .filter((text) => typeof text === 'string')
    .join('')
}

/**
 * What belongs together: the same kind of piece under the provider's index. Providers number every piece of a
 * stream 0, a summary and its encrypted form alike; joined they would be neither. An encrypted piece is whole,
 * so only another part of the same id continues it.
 */
function keyOf(raw: JsonObject, fresh: number): string {
  if (raw.type !== 'reasoning.encrypted')
    return `${raw.type}/${typeof raw.index === 'number' ? raw.index : 0}`
  return typeof raw.id === 'string' ? `encrypted/${raw.id}` : `encrypted#${fresh}`
}

function structuredDetail(raw: JsonObject): Omit<ReasoningDetail, 'index'> | undefined {
  const common = {
    format: typeof raw.format === 'string' ? raw.format : null,
    ...(typeof raw.id === 'string' ? { id: raw.id } : {}),
  }
  switch (raw.type) {
    case 'reasoning.text': {
      const signature = nonEmpty(raw.signature)
      if (typeof raw.text !== 'string' && signature === undefined) return undefined
      return {
        type: 'reasoning.text',
        ...common,
        ...(typeof raw.text === 'string' ? { text: raw.text } : {}),
        ...(signature === undefined ? {} : { signature }),
      }
    }
    case 'reasoning.summary':
      return typeof raw.summary === 'string' ? { type: raw.type, ...common, summary: raw.summary } : undefined
    case 'reasoning.encrypted':
      return typeof raw.data === 'string' ? { type: raw.type, ...common, data: raw.data } : undefined
    default:
      return undefined
  }
}

// Converts numbered sources, as in Perplexity's answers, to annotations with offsets.

export interface NumberedSource {
  readonly url: string
  readonly title: string
}

/** The numbered sources in a chunk or body, if any. They repeat on every chunk. */
export function sourcesIn(chunk: JsonObject): readonly NumberedSource[] | undefined {
  const results = objectsIn(chunk.search_results)
  const titles = new Map(results.map((result) => [result.url, result.title]))
  const urls = Array.isArray(chunk.citations) ? chunk.citations : results.map((result) => result.url ?? null)
  const sources = urls
    .filter((url) => typeof url === 'string')
    .map((url) => ({ url, title: stringIn(titles.get(url)) }))
  return sources.length === 0 ? undefined : sources
}

/** The search that found these sources, as an item of the Responses protocol. */
function searchItem(sources: readonly NumberedSource[]): JsonObject {
  const action = { type: 'search', query: '', sources: sources.map(({ url }) => ({ type: 'url', url })) }
  return { type: 'web_search_call', status: 'completed', action }
}

/**
 * One annotation for each citation `[2]` in the text; a source without a citation gets one without a place, so that
 * the numbers can be looked up.
 */
export function citationsOf(text: string, sources: readonly NumberedSource[]): readonly Annotation[] {
  if (sources.length === 0) return []
  const places = sources.map((): { start: number; end: number }[] => [])
  for (const match of text.matchAll(/\[(\d{1,3})\]/g)) {
    places[Number(match[1]) - 1]?.push({ start: match.index, end: match.index + match[0].length })
  }
  return sources.flatMap((source, index) => {
    const cited = places[index]!
    const where = cited.length === 0 ? [{ start: 0, end: 0 }] : cited
    return where.map((place) => ({ kind: 'url-citation' as const, ...source, ...place }))
  })
}
