// Parses Gemini's answers: chunks of a stream, a whole answer, or the array of chunks of a stream without `alt=sse`.
// All consist of the same chunks, so one state machine reads them.

import type { BlockedPrompt, ChatEvent, Fault } from '../../../conversation/event.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { parseOpaque } from '../../../json/exact.ts'
import { fault } from '../../faults.ts'
import { opaqueInAnswers } from '../../json.ts'
import type { StreamParser, Texts } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextRuns } from '../../framing/text-runs.ts'
import { Candidate } from './candidate.ts'
import { cutOff, faultIn } from './fault.ts'
import { brokenFinish, endsWell, finishOf } from './finish.ts'
import { annotationsOf, searchItems } from './grounding.ts'
import { type AnswerCandidate, type Chunk, readChunk } from './schema.ts'
import type { Traits } from './quirks.ts'
import { type Counters, updateCounters, usageOf } from './usage.ts'

/**
 * Reads the frames of a streamed answer. Gemini sends no end mark: an answer has ended when every candidate has, and
 * as many have begun as were asked for.
 */
export function parserOf(traits: Traits, choices: number): StreamParser {
  return new AnswerParser(traits, choices)
}

/** The events of a parsed JSON answer: one chunk, or an array of chunks. */
export function wholeAnswer(body: unknown, traits: Traits): readonly ChatEvent[] {
  const parser = new AnswerParser(traits, 1)
  const events: ChatEvent[] = []
  parser.add(body, events)
  return [...events, ...parser.endOr(fault('broken', 'The answer holds no finished candidate.'))]
}

class AnswerParser implements StreamParser {
  readonly #traits: Traits
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
  #blocked: { readonly reason: string; readonly prompt: BlockedPrompt } | undefined
  /** A terminal event has been given. */
  #over = false
  readonly #runs = new TextRuns()
  /** Ids of calls are derived from the answer's, or from a random one. */
  readonly #callSeed = (): string => this.#answer ?? (this.#ownId ??= crypto.randomUUID())

  constructor(traits: Traits, choices: number) {
    this.#traits = traits
    this.#least = choices
  }

  push(frame: Frame): readonly ChatEvent[] {
    const data = frame.data.trim()
    // Google sends no `[DONE]`, but gateways in front of it do.
    if (data === '[DONE]') this.#least = 1
    if (this.#over || data === '' || data === '[DONE]') return []
    const value = parseJson(data)
    if (value === undefined) return [this.#failed(fault('broken', 'A frame of the stream is not JSON.'))]
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
      return [
        { kind: 'choice-finish', choice: 0, reason: 'content_filter', native, blockedPrompt },
        { kind: 'finish' },
      ]
    }
    const complete =
      this.#candidates.length >= this.#least && this.#candidates.every((each) => each.native !== undefined)
    if (!complete) return [{ kind: 'error', fault: unfinished }]
    const events: ChatEvent[] = []
    for (const candidate of this.#candidates) {
      const native = candidate.native ?? ''
      const { choice, calls, sources } = candidate
      const reason = finishOf(native, calls, candidate.saysSomething)
      if (reason === undefined) {
        const why = calls === 'cut' ? 'A function call was never finished.' : undefined
        return [...events, { kind: 'error', fault: brokenFinish(native, why) }]
      }
      events.push(...candidate.rest)
      for (const annotation of annotationsOf(sources, candidate.text.toString()))
        events.push({ kind: 'annotation', choice, annotation })
      // After the text: a message ends where an item follows.
      for (const item of searchItems(sources)) events.push({ kind: 'gateway-item', choice, item })
      events.push({ kind: 'choice-finish', choice, reason, native })
    }
    if (this.#searches > 0) this.#addUsage(events)
    events.push({ kind: 'finish' })
    return events
  }

  #addValue(value: unknown, events: ChatEvent[]): Chunk | undefined {
    const reported = faultIn(value)
    const chunk = reported === undefined ? readChunk(value) : undefined
    if (chunk !== undefined) this.#addChunk(chunk, events)
    else events.push(this.#failed(reported ?? fault('broken', 'A chunk is not an object.')))
    return chunk
  }

  #addChunk(chunk: Chunk, events: ChatEvent[]): void {
    if (!this.#started)
      events.push({ kind: 'message-start', id: chunk.responseId, model: chunk.modelVersion })
    this.#started = true
    this.#answer ??= chunk.responseId
    const { blockReason: reason, blockReasonMessage: message } = chunk.promptFeedback ?? {}
    if (reason !== undefined) this.#blocked = { reason, prompt: message === undefined ? {} : { message } }
    const received = chunk.candidates ?? []
    const failure = received.find(isFailure)
    // A failed candidate is not begun: its content would only prevent failing over.
    if (failure === undefined)
      for (const candidate of received)
        this.#candidateOf(candidate.index ?? 0).add(candidate, this.#callSeed, events)
    if (chunk.usageMetadata !== undefined) {
      updateCounters(this.#counters, chunk.usageMetadata)
      this.#addUsage(events)
    }
    if (failure !== undefined)
      events.push(this.#failed(brokenFinish(failure.finishReason ?? '', failure.finishMessage)))
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
    return this.#traits.searchBilledPer === 'query' ? queries : Math.min(1, queries)
  }

  #failed(fault: Fault): ChatEvent {
    this.#over = true
    this.#runs.forget()
    return { kind: 'error', fault }
  }
}

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
