// Parses Gemini's answers: chunks of a stream, a whole answer, or the array of chunks of a stream without `alt=sse`.
// All consist of the same chunks, so one state machine reads them.

import type {
  Annotation,
  AudioDelta,
  BlockedPrompt,
  ChatEvent,
  Fault,
  FinishReason,
  NativeFields,
} from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { parseOpaque } from '../../../json/json.ts'
import { errorEvent, fault } from '../../faults.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextRuns } from '../../framing/text-template.ts'
import { CollectedText, Malformed, opaqueInAnswers, type Spoken } from '../../lenient.ts'
import { callIdOf } from '../../names.ts'
import type { StreamParser, Texts } from '../../protocol.ts'
import {
  type Carried,
  carry,
  isFilterReason,
  mintCallId,
  opaqueParts,
  signatureFormat,
  thoughtId,
} from '../wire-words.ts'
import {
  type AnswerCandidate,
  type Chunk,
  type CitationMetadata,
  type Counters,
  cutOff,
  faultIn,
  type GroundingMetadata,
  type LogprobsResult,
  type Part,
  type PartialArg,
  readChunk,
  updateCounters,
  usageOf,
} from './schema.ts'
import type { Traits } from './quirks.ts'

/** What reading an answer depends on. */
interface Reading {
  readonly traits: Pick<Traits, 'searchBilledPer'>
  /** See `Target`. */
  readonly clientSpeaksIt: boolean
  readonly document: boolean
}

/** The events of a parsed JSON answer: one chunk, or an array of chunks. */
export function wholeAnswer(body: unknown, reading: Reading): readonly ChatEvent[] {
  const parser = new AnswerParser(reading, 1)
  const events: ChatEvent[] = []
  parser.add(body, events)
  return [...events, ...parser.endOr(fault('broken', 'The answer holds no finished candidate.'))]
}

/**
 * Reads the frames of a streamed answer. Gemini sends no end mark: an answer has ended when every candidate has, and
 * as many have begun as were asked for.
 */
export class AnswerParser implements StreamParser {
  readonly #reading: Reading
  /** How many candidates there are at least; an end mark says that there are no more. */
  #least: number
  /** Google's id of the answer. */
  #answer: string | undefined
  #ownId: string | undefined
  #started = false
  readonly #counters: Counters = {}
  /** In the order of their choices. */
  readonly #candidates: Candidate[] = []
  /** Why the prompt was refused, when it was. */
  #feedback: JsonObject = {}
  #blocked: { readonly reason: string; readonly prompt: BlockedPrompt } | undefined
  /** A terminal event has been given. */
  #over = false
  readonly #malformed: Malformed
  readonly #runs = new TextRuns()
  /** Ids of calls are derived from the answer's, or from a random one. */
  readonly #callSeed = (): string => this.#answer ?? (this.#ownId ??= crypto.randomUUID())

  constructor(reading: Reading, choices: number) {
    this.#reading = reading
    this.#least = choices
    this.#malformed = new Malformed(reading.document ? 'document' : 'words')
  }

  push(frame: Frame): readonly ChatEvent[] {
    const data = frame.data.trim()
    // Google sends no `[DONE]`, but gateways in front of it do.
    if (data === '[DONE]') this.#least = 1
    if (this.#over || data === '' || data === '[DONE]') return []
    const value = parseJson(data)
    if (value === undefined) {
      if (this.#malformed.leaveOut(data, this.#spoken)) return []
      return [this.#failure(fault('broken', 'A frame of the stream is not JSON.'))]
    }
    const events: ChatEvent[] = []
    this.#learn(frame, this.add(value, events), events)
    return events
  }

  texts(received: string, at: number): Texts | undefined {
    const run = this.#runs.at(received, at)
    if (run === undefined) return undefined
    const { choice, texts, content, counts, end } = run
    this.#candidateOf(choice).addText(content)
    if (counts === undefined) return run
    const [candidates, total] = counts
    this.#counters.candidatesTokenCount = candidates
    this.#counters.totalTokenCount = total
    return { choice, texts, content, usage: this.#usage, end }
  }

  end(): readonly ChatEvent[] {
    return this.endOr(cutOff())
  }

  get #spoken(): Spoken {
    if (this.#candidates.length === 0) return 'nothing'
    return this.#candidates.every(({ isInWords }) => isInWords) ? 'words' : 'calls'
  }

  /** Takes a parsed answer, or a part of one, and adds its events. Returns the chunk, if it is one. */
  add(value: unknown, events: ChatEvent[]): Chunk | undefined {
    if (!Array.isArray(value)) return this.#addValue(value, events)
    const values: readonly unknown[] = value
    for (const each of values) {
      if (this.#over) break
      this.#addValue(each, events)
    }
    return undefined
  }

  /** The end of the body: clean if every candidate has finished, otherwise `unfinished` is the fault. */
  endOr(unfinished: Fault): readonly ChatEvent[] {
    if (this.#over) return []
    if (this.#candidates.length === 0 && this.#blocked !== undefined) {
      // A refused prompt is answered without candidates.
      const { reason: native, prompt: blockedPrompt } = this.#blocked
      const { nativeFields } = this.#nativeOf(undefined)
      return [
        {
          kind: 'choice-finish',
          choice: 0,
          reason: 'content_filter',
          native,
          blockedPrompt,
          ...(nativeFields && { nativeFields }),
        },
        { kind: 'finish' },
      ]
    }
    const complete =
      this.#candidates.length >= this.#least && this.#candidates.every((each) => each.native !== undefined)
    if (!complete) return [errorEvent(unfinished)]
    const events: ChatEvent[] = []
    for (const candidate of this.#candidates) {
      const native = candidate.native ?? ''
      const { choice, calls, sources } = candidate
      const { explanation } = candidate
      const kept = this.#reading.clientSpeaksIt && calls !== 'cut' && !endsWell(native)
      const reason = kept ? 'other' : finishOf(native, calls, candidate.saysSomething)
      if (reason === undefined) {
        const why = calls === 'cut' ? 'A function call was never finished.' : undefined
        return [...events, errorEvent(brokenFinish(native, why))]
      }
      events.push(...candidate.rest)
      for (const annotation of annotationsOf(sources, candidate.text.toString()))
        events.push({ kind: 'annotation', choice, annotation })
      // After the text: a message ends where an item follows.
      for (const item of searchItems(sources)) events.push({ kind: 'gateway-item', choice, item })
      events.push({
        kind: 'choice-finish',
        choice,
        reason,
        native,
        ...(explanation !== undefined && { explanation }),
        ...this.#nativeOf(candidate),
      })
    }
    if (this.#searches > 0) this.#addUsage(events)
    events.push({ kind: 'finish' })
    return events
  }

  /** What only a client of Google's protocol is told. */
  #nativeOf(candidate: Candidate | undefined): { readonly nativeFields?: NativeFields } {
    if (!this.#reading.clientSpeaksIt) return {}
    const usage = Object.fromEntries(
      nativeCounters.flatMap((name) => {
        const value = this.#counters[name]
        return value === undefined ? [] : [[name, value as Json]]
      }),
    )
    return { nativeFields: { choice: { ...candidate?.nativeFields }, usage, prompt: this.#feedback } }
  }

  #addValue(value: unknown, events: ChatEvent[]): Chunk | undefined {
    const reported = faultIn(value)
    const chunk = reported === undefined ? readChunk(value) : undefined
    if (chunk !== undefined) this.#addChunk(chunk, events)
    else events.push(this.#failure(reported ?? fault('broken', 'A chunk is not an object.')))
    return chunk
  }

  #addChunk(chunk: Chunk, events: ChatEvent[]): void {
    if (!this.#started)
      events.push({ kind: 'message-start', id: chunk.responseId, model: chunk.modelVersion })
    this.#started = true
    this.#answer ??= chunk.responseId
    if (this.#reading.clientSpeaksIt && chunk.promptFeedback !== undefined)
      this.#feedback = { ...chunk.promptFeedback } as JsonObject
    const { blockReason: reason, blockReasonMessage: message } = chunk.promptFeedback ?? {}
    if (reason !== undefined) this.#blocked = { reason, prompt: message === undefined ? {} : { message } }
    const received = chunk.candidates ?? []
    const failure = this.#reading.clientSpeaksIt ? undefined : received.find(isFailure)
    // A failed candidate is not begun: its content would only prevent failing over.
    if (failure === undefined)
      for (const candidate of received)
        this.#candidateOf(candidate.index ?? 0).add(candidate, this.#callSeed, events)
    if (chunk.usageMetadata !== undefined) {
      updateCounters(this.#counters, chunk.usageMetadata)
      this.#addUsage(events)
    }
    if (failure !== undefined)
      events.push(this.#failure(brokenFinish(failure.finishReason ?? '', failure.finishMessage)))
  }

  /** Recognises the next frames by this one if all it did was to add a text, and to count it. */
  #learn(frame: Frame, chunk: Chunk | undefined, [event, counted, more]: readonly ChatEvent[]): void {
    this.#runs.forget()
    if (event?.kind !== 'text-delta' || (counted !== undefined && counted.kind !== 'usage') || more) return
    if (chunk === undefined || !isOneText(chunk)) return
    const { choice, text } = event
    const [opening, another] = frame.data.match(textKey) ?? []
    if (opening === undefined || another !== undefined) return
    // What is counted by kind does not grow with the total.
    const names = this.#counters.candidatesTokensDetails === undefined ? runningCounts : undefined
    const counts = this.#runs.learn(frame, choice, text, opening, names)?.learntCounts
    const { usageMetadata } = chunk
    // Counts of the same names elsewhere are not these.
    if (counts?.some((count, at) => usageMetadata?.[runningCounts[at]!] !== count))
      this.#runs.learn(frame, choice, text, opening)
  }

  #candidateOf(choice: number): Candidate {
    for (const each of this.#candidates) if (each.choice === choice) return each
    const candidate = new Candidate(choice)
    this.#candidates.push(candidate)
    this.#candidates.sort((a, b) => a.choice - b.choice)
    return candidate
  }

  #addUsage(events: ChatEvent[]): void {
    const usage = this.#usage
    if (usage !== undefined) events.push({ kind: 'usage', usage })
  }

  get #usage(): Usage | undefined {
    const searches = this.#searches
    return usageOf(this.#counters, searches > 0 ? { web_search: searches } : {})
  }

  /** How many searches Google bills: each query from generation 3 on, one per grounded prompt before. */
  get #searches(): number {
    let queries = 0
    for (const { sources } of this.#candidates) queries += sources.queries.length
    return this.#reading.traits.searchBilledPer === 'query' ? queries : Math.min(1, queries)
  }

  #failure(fault: Fault): ChatEvent {
    this.#over = true
    this.#runs.forget()
    return errorEvent(fault)
  }
}

/** Counters that no other protocol has. */
const nativeCounters = [
  'toolUsePromptTokenCount',
  'promptTokensDetails',
  'cacheTokensDetails',
  'candidatesTokensDetails',
  'toolUsePromptTokensDetails',
  'trafficType',
  'serviceTier',
] as const

/** Fields of candidates that no other protocol has; the last of each holds. */
const nativeOfCandidates = [
  'safetyRatings',
  'citationMetadata',
  'avgLogprobs',
  'tokenCount',
  'urlContextMetadata',
  'groundingMetadata',
] as const

function isFailure({ finishReason }: AnswerCandidate): boolean {
  return finishReason !== undefined && !endsWell(finishReason)
}

/** The counters that grow with the text. */
const runningCounts = ['candidatesTokenCount', 'totalTokenCount'] as const

/** What is before the text: Google's own servers write a space, others do not. */
const textKey = /"text" *: *"/g

/** Whether nothing but one part is in a chunk. Sources add up even if they are repeated. */
function isOneText({ candidates = [] }: Chunk): boolean {
  const [candidate, another] = candidates
  if (candidate === undefined || another !== undefined) return false
  const { content, groundingMetadata, citationMetadata } = candidate
  return content?.parts?.length === 1 && groundingMetadata === undefined && citationMetadata === undefined
}

/** The parsed JSON; undefined if it is not JSON. The decoder has checked its shape. */
function parseJson(text: string): unknown {
  try {
    return parseOpaque(text, opaqueInAnswers)
  } catch {
    return undefined
  }
}

// Parses one candidate of an answer.

/** What a candidate has said so far. */
class Candidate {
  readonly choice: number
  /** All visible text; sources and signatures refer to offsets in it. */
  readonly text = new CollectedText()
  sources: Sources = noSources
  /** Gemini's finish reason, if any yet. Some models repeat it on every chunk, so only the end acts on it. */
  native: string | undefined
  /** Google's sentence about it. */
  explanation: string | undefined
  /** Google's own fields of it. */
  nativeFields: JsonObject | undefined
  /** The index of the next reasoning detail, and whether the last thought is still open. */
  #nextDetail = 0
  #thinking = false
  /** The ids of the calls; most answers have none. */
  #callIds: Set<string> | undefined
  /** Pieces of the last call's arguments while they are streamed. */
  #openCall: PartialArg[] | undefined
  #images = 0
  /** Bytes of audio that do not fill a base64 group yet, as base64. */
  #audioRest = ''

  constructor(choice: number) {
    this.choice = choice
  }

  /** Takes a chunk and adds its events. `answer` gives the seed for the ids of calls without one. */
  add(chunk: AnswerCandidate, answer: () => string, events: ChatEvent[]): void {
    this.sources = addSources(this.sources, chunk.groundingMetadata, chunk.citationMetadata)
    if (chunk.finishReason !== undefined && chunk.finishReason !== 'FINISH_REASON_UNSPECIFIED')
      this.native = chunk.finishReason
    if (chunk.finishMessage !== undefined) this.explanation = chunk.finishMessage
    for (const name of nativeOfCandidates) {
      const value = (chunk as JsonObject)[name]
      if (value !== undefined) this.nativeFields = { ...this.nativeFields, [name]: value }
    }
    const parts = chunk.content?.parts
    if (parts !== undefined) for (const part of parts) this.#addPart(part, answer, events)
    if (chunk.logprobsResult === undefined) return
    const content = logprobsOf(chunk.logprobsResult)
    if (content.length > 0) events.push({ kind: 'logprobs', choice: this.choice, content, refusal: [] })
  }

  /** Takes further visible text. */
  addText(text: string): void {
    this.text.add(text)
    this.#thinking = false
  }

  /** Its calls, for its finish reason. */
  get calls(): Calls {
    if (this.#openCall !== undefined) return 'cut'
    return this.#callCount > 0 ? 'complete' : 'none'
  }

  /** Whether a text has come last, and no call before it. */
  get isInWords(): boolean {
    return this.text.length > 0 && !this.#thinking && this.calls === 'none'
  }

  /** Whether it has any readable or visible content. */
  get saysSomething(): boolean {
    return this.text.length > 0 || this.#images > 0
  }

  /** The audio held back for a complete base64 group. */
  get rest(): readonly ChatEvent[] {
    return this.#audioRest === '' ? [] : [this.#audio({ data: this.#audioRest })]
  }

  #addPart(part: Part, answer: () => string, events: ChatEvent[]): void {
    const opaque = opaqueParts.find((kind) => part[kind] !== undefined)
    if (opaque !== undefined) this.#addOpaque(opaque, part, events)
    else if (part.functionCall !== undefined) this.#addCall(part, part.functionCall, answer, events)
    else if (part.inlineData !== undefined) {
      // Images drawn while thinking are not part of the answer.
      if (part.thought !== true) this.#addMedia(part, events)
    } else if (part.thought === true) this.#addThought(part, events)
    else this.#addVisible(part, events)
  }

  #addVisible(part: Part, events: ChatEvent[]): void {
    const { text = '', thoughtSignature: signature } = part
    const start = this.text.length
    if (text !== '') {
      this.addText(text)
      events.push({ kind: 'text-delta', choice: this.choice, text })
    }
    if (!signature) return
    const place = { start, end: this.text.length, calls: this.#callCount }
    this.#addDetail({ ...place, kind: 'text', signature }, events)
  }

  #addThought(part: Part, events: ChatEvent[]): void {
    const { text = '', thoughtSignature: signature } = part
    if (text === '' && !signature) return
    // A signed part is a detail of its own: merged with unsigned ones it would not match its signature.
    const index = this.#thinking && !signature ? this.#nextDetail - 1 : this.#nextDetail
    const detail = {
      type: 'reasoning.text',
      format: signatureFormat,
      index,
      text,
      ...(signature ? { id: thoughtId(this.#here), signature } : {}),
    } as const
    this.#nextDetail = index + 1
    this.#thinking = !signature
    events.push({ kind: 'reasoning-delta', choice: this.choice, detail })
  }

  #addOpaque(kind: (typeof opaqueParts)[number], part: Part, events: ChatEvent[]): void {
    const whole: JsonObject = {
      [kind]: part[kind] as Json,
      ...(part.thoughtSignature ? { thoughtSignature: part.thoughtSignature } : {}),
    }
    this.#addDetail({ ...this.#here, kind: 'part', part: whole }, events)
  }

  #addMedia(part: Part, events: ChatEvent[]): void {
    const { mimeType = '', data = '' } = part.inlineData ?? {}
    if (data === '') return
    if (mimeType.startsWith('audio/')) {
      const [full, rest] = wholeGroups(this.#audioRest, data)
      this.#audioRest = rest
      if (full !== '') events.push(this.#audio({ data: full }))
      return
    }
    if (!mimeType.startsWith('image/')) return
    const image = this.#images++
    this.#thinking = false
    events.push({ kind: 'image', choice: this.choice, mediaType: mimeType, data })
    const signature = part.thoughtSignature
    if (signature) this.#addDetail({ ...this.#here, kind: 'image', image, signature }, events)
  }

  #addCall(
    part: Part,
    { id, name, args, partialArgs, willContinue }: NonNullable<Part['functionCall']>,
    answer: () => string,
    events: ChatEvent[],
  ): void {
    const { choice } = this
    if (!name) {
      // Without a name it continues the open call, or is ignored.
      if (this.#openCall === undefined) return
      for (const piece of partialArgs ?? []) this.#openCall.push(piece)
      if (willContinue !== true) this.#closeCall(this.#openCall, events)
      return
    }
    if (this.#openCall !== undefined) this.#closeCall(this.#openCall, events)
    const callIds = (this.#callIds ??= new Set())
    const call = callIds.size
    const callId = callIdOf(id, callIds, () => mintCallId(answer(), choice, call))
    this.#thinking = false
    const thoughtSignature = part.thoughtSignature || undefined
    events.push({ kind: 'tool-call-start', choice, call, id: callId, name, thoughtSignature })
    if (willContinue === true) this.#openCall = [...(partialArgs ?? [])]
    else if (partialArgs !== undefined) this.#closeCall(partialArgs, events)
    else events.push({ kind: 'tool-call-delta', choice, call, arguments: JSON.stringify(args ?? {}) })
  }

  /** Ends the last call with these pieces of arguments. */
  #closeCall(pieces: readonly PartialArg[], events: ChatEvent[]): void {
    this.#openCall = undefined
    const call = this.#callCount - 1
    events.push({ kind: 'tool-call-delta', choice: this.choice, call, arguments: argumentsOf(pieces) })
  }

  #addDetail(carried: Carried, events: ChatEvent[]): void {
    const detail = carry(this.#nextDetail++, carried)
    this.#thinking = false
    events.push({ kind: 'reasoning-delta', choice: this.choice, detail })
  }

  get #callCount(): number {
    return this.#callIds?.size ?? 0
  }

  get #here() {
    return { start: this.text.length, end: this.text.length, calls: this.#callCount }
  }

  #audio(audio: AudioDelta): ChatEvent {
    return { kind: 'audio-delta', choice: this.choice, audio }
  }
}

/** Base64 that can be concatenated: complete groups of three bytes, and the rest. Clients join the deltas as text. */
function wholeGroups(rest: string, data: string): readonly [string, string] {
  if (rest === '' && !data.endsWith('=')) return [data, '']
  const bytes = Buffer.concat([Buffer.from(rest, 'base64'), Buffer.from(data, 'base64')])
  const full = bytes.length - (bytes.length % 3)
  return [bytes.subarray(0, full).toString('base64'), bytes.subarray(full).toString('base64')]
}

/** Log probabilities in OpenAI's shape: the chosen tokens, each with its alternatives. */
function logprobsOf(result: LogprobsResult): Json[] {
  const tokenOf = (token: { token?: string | undefined; logProbability?: number | undefined }) => ({
    token: token.token ?? '',
    logprob: token.logProbability ?? 0,
    bytes: [...Buffer.from(token.token ?? '')],
  })
  return (result.chosenCandidates ?? []).map((chosen, position) => ({
    ...tokenOf(chosen),
    top_logprobs: (result.topCandidates?.[position]?.candidates ?? []).map(tokenOf),
  }))
}

// Maps Gemini's finish reasons. An answer that the model spoiled is a failure that is not retried: it has been billed.

/** What the candidate did before it ended. */
type Calls = 'none' | 'complete' | 'cut'

/** The model spoiled its answer, or could not do what was requested: the output so far is not an answer. */
const spoilt: readonly string[] = [
  'MALFORMED_FUNCTION_CALL',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
  'NO_IMAGE',
  'TOO_MANY_TOOL_CALLS',
  'UNEXPECTED_TOOL_CALL',
]

/**
 * The finish reason for Gemini's, or undefined where the answer is broken. Gemini says STOP after function calls as
 * well. A word that is not known here, or says nothing (OTHER), ends an answer that holds something, though not well;
 * an answer without anything is broken. `said`: whether there is text or an image.
 */
function finishOf(native: string, calls: Calls, said: boolean): FinishReason | undefined {
  if (isFilterReason(native)) return 'content_filter'
  // CONTINUATION: the answer has reached the limit of one request.
  if (native === 'MAX_TOKENS' || native === 'CONTINUATION')
    return calls === 'complete' ? 'tool_calls' : 'length'
  if (!endsWell(native) || calls === 'cut') return undefined
  if (calls === 'complete') return 'tool_calls'
  if (native === 'STOP') return 'stop'
  return said ? 'other' : undefined
}

/** Whether the output with this reason belongs to an answer. */
function endsWell(native: string): boolean {
  return !spoilt.includes(native)
}

/** The fault of a candidate that ended badly, with Google's explanation if there is one. */
function brokenFinish(native: string, message: string | undefined): Fault {
  const kind = endsWell(native) ? 'broken' : 'unusable-output'
  return fault(kind, message ?? `The model stopped with ${native}.`, { providerCode: native })
}

// Converts Gemini's sources for text ranges to annotations. Google counts UTF-8 bytes, annotations UTF-16 units.

/** A candidate's sources so far. Chunks of a stream may repeat or extend them. */
interface Sources {
  readonly chunks: readonly { readonly uri: string; readonly title: string }[]
  readonly supports: readonly Support[]
  readonly queries: readonly string[]
}

interface Support {
  readonly start: number
  readonly end: number
  readonly text: string | undefined
  /** The source itself, or its index in `chunks`. */
  readonly source: number | { readonly uri: string; readonly title: string }
}

const noSources: Sources = { chunks: [], supports: [], queries: [] }

/** The sources after one more chunk. */
function addSources(
  before: Sources,
  grounding: GroundingMetadata | undefined,
  citations: CitationMetadata | undefined,
): Sources {
  if (grounding === undefined && citations === undefined) return before
  const chunks = (grounding?.groundingChunks ?? []).map(({ web, retrievedContext, maps }) => {
    const { uri = '', title = '' } = web ?? retrievedContext ?? maps ?? {}
    return { uri, title }
  })
  const grounded = (grounding?.groundingSupports ?? []).flatMap((support) =>
    (support.groundingChunkIndices ?? []).map((source) => ({
      start: support.segment?.startIndex ?? 0,
      end: support.segment?.endIndex ?? 0,
      text: support.segment?.text,
      source,
    })),
  )
  const cited = (citations?.citations ?? [])
    .filter((citation) => citation.uri !== undefined && citation.endIndex !== undefined)
    .map((citation) => ({
      start: citation.startIndex ?? 0,
      end: citation.endIndex ?? 0,
      text: undefined,
      source: { uri: citation.uri ?? '', title: citation.title ?? '' },
    }))
  const queries = grounding?.webSearchQueries ?? []
  return {
    chunks: chunks.length > 0 ? chunks : before.chunks,
    supports: [...before.supports, ...grounded, ...cited],
    queries: queries.length > 0 ? queries : before.queries,
  }
}

/** The search as an item of the Responses protocol: Google does not say which query found which page. */
function searchItems({ queries, chunks }: Sources): readonly JsonObject[] {
  const [query] = queries
  if (query === undefined) return []
  const sources = chunks.flatMap(({ uri }) => (uri === '' ? [] : [{ type: 'url', url: uri }]))
  const action = { type: 'search', query, queries: [...queries], sources }
  return [{ type: 'web_search_call', status: 'completed', action }]
}

/**
 * The annotations of the whole text, each stretch and source once. A stretch whose bytes do not hold the text that
 * Google says they hold is looked for by that text, and left out when it is not there: a wrong place is worse than
 * none.
 */
function annotationsOf(sources: Sources, text: string): Annotation[] {
  const toUnits = unitsAt(
    text,
    sources.supports.flatMap((support) => [support.start, support.end]),
  )
  const seen = new Set<string>()
  const annotations: Annotation[] = []
  for (const support of sources.supports) {
    const source = typeof support.source === 'number' ? sources.chunks[support.source] : support.source
    const place = placeOf(support, text, toUnits)
    if (source === undefined || source.uri === '' || place === undefined) continue
    const key = `${place.start} ${place.end} ${source.uri}`
    if (seen.has(key)) continue
    seen.add(key)
    annotations.push({ kind: 'url-citation', url: source.uri, title: source.title, ...place })
  }
  return annotations
}

function placeOf(
  support: Support,
  text: string,
  toUnits: ReadonlyMap<number, number>,
): { start: number; end: number } | undefined {
  const start = toUnits.get(support.start) ?? text.length
  const end = toUnits.get(support.end) ?? text.length
  const named = support.text
  if (named === undefined || named === '') return end > start ? { start, end } : undefined
  if (text.slice(start, end) === named) return { start, end }
  const found = text.indexOf(named)
  return found < 0 ? undefined : { start: found, end: found + named.length }
}

/** Maps UTF-8 byte offsets to UTF-16 offsets, in one pass over the text. */
function unitsAt(text: string, byteOffsets: readonly number[]): Map<number, number> {
  const wanted = [...new Set(byteOffsets)].toSorted((a, b) => a - b)
  const units = new Map<number, number>()
  let bytes = 0
  let unit = 0
  let next = 0
  const settle = () => {
    while (next < wanted.length && wanted[next]! <= bytes) units.set(wanted[next++]!, unit)
  }
  settle()
  for (const character of text) {
    if (next >= wanted.length) break
    bytes += Buffer.byteLength(character)
    unit += character.length
    settle()
  }
  return units
}

// Collects arguments that arrive in pieces (streamFunctionCallArguments), each with a JSON path and a value.
// They are returned as a whole, because pieces of a tree are not pieces of its text.

/** The most pieces per call, and the longest list a piece may create: a stream must not fill the memory. */
const maxPieces = 100_000
const maxListLength = 100_000

/** The JSON text of the arguments in these pieces. Pieces with an invalid path are left out. */
function argumentsOf(pieces: readonly PartialArg[]): string {
  // Without prototypes: an argument may be called `__proto__`.
  const root = Object.create(null) as { [key: string]: Json }
  for (const piece of pieces.slice(0, maxPieces)) {
    const path = pathOf(piece.jsonPath ?? '')
    if (path !== undefined) put(root, path, piece)
  }
  return JSON.stringify(root)
}

type Container = { [key: string]: Json } | Json[]

function put(root: Container, path: readonly (string | number)[], piece: PartialArg): void {
  let container = root
  for (const [depth, key] of path.entries()) {
    if (Array.isArray(container) !== (typeof key === 'number')) return
    if (depth === path.length - 1) {
      write(container, key, valueOf(piece, read(container, key)))
      return
    }
    let inner = read(container, key)
    if (typeof inner !== 'object' || inner === null) {
      inner = typeof path[depth + 1] === 'number' ? [] : (Object.create(null) as { [key: string]: Json })
      write(container, key, inner)
    }
    container = inner
  }
}

function read(container: Container, key: string | number): Json | undefined {
  return Array.isArray(container) ? container[Number(key)] : container[key]
}

function write(container: Container, key: string | number, value: Json): void {
  if (!Array.isArray(container)) container[key] = value
  else if (Number(key) <= Math.min(container.length, maxListLength)) container[Number(key)] = value
}

function valueOf(piece: PartialArg, before: Json | undefined): Json {
  // Strings are split: each piece continues the one before at the same path.
  if (piece.stringValue !== undefined) return (typeof before === 'string' ? before : '') + piece.stringValue
  return piece.numberValue ?? piece.boolValue ?? null
}

/** The keys of a path such as `$.stops[0].city` or `$['a b']`; undefined if it is invalid. */
function pathOf(path: string): (string | number)[] | undefined {
  if (!path.startsWith('$')) return undefined
  const step = /\.([^.[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy
  const keys: (string | number)[] = []
  step.lastIndex = 1
  while (step.lastIndex < path.length) {
    const match = step.exec(path)
    if (match === null) return undefined
    const [, dotted, index, single, double] = match
    if (index !== undefined) keys.push(Number(index))
    else keys.push((dotted ?? single ?? double ?? '').replace(/\\(.)/g, '$1'))
  }
  return keys.length === 0 ? undefined : keys
}
