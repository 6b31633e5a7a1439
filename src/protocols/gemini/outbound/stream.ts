// Parses Gemini's answers: chunks of a stream, a whole answer, or the array of chunks of a stream without `alt=sse`.
// All consist of the same chunks, so one state machine reads them.

import type { ChatEvent, Fault } from '../../../conversation/event.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { fault } from '../../faults.ts'
import type { StreamParser } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { stateParser } from '../../state-parser.ts'
import {
  addCandidate,
  type CandidateState,
  callsOf,
  newCandidate,
  restOf,
  saysSomething,
} from './candidate.ts'
import { cutOff, faultIn } from './fault.ts'
import { brokenFinish, endsWell, finishOf } from './finish.ts'
import { annotationsOf, searchItems } from './grounding.ts'
import { type AnswerCandidate, type Chunk, readChunk, type UsageMetadata } from './schema.ts'
import type { Traits } from './quirks.ts'
import { mergeUsage, usageOf } from './usage.ts'

interface GeminiState {
  /** Google's id of the answer; call ids are derived from it, or from a random one. */
  readonly answer: string | undefined
  readonly fallbackAnswer: string
  readonly started: boolean
  readonly counters: UsageMetadata | undefined
  readonly candidates: readonly CandidateState[]
  /** Why the prompt was refused, when it was. */
  readonly blocked: string | undefined
  /** A terminal event has been given. */
  readonly over: boolean
}

type Step = readonly [GeminiState, readonly ChatEvent[]]

/** Reads the frames of a streamed answer. Gemini sends no end mark: an answer has ended when every candidate has. */
export function parserOf(traits: Traits): StreamParser {
  return stateParser(
    newAnswer(),
    (state, frame) => addFrame(state, frame, traits),
    (state) => endOf(state, traits, cutOff()),
  )
}

/** The events of a parsed JSON answer: one chunk, or an array of chunks. */
export function wholeAnswer(body: unknown, traits: Traits): readonly ChatEvent[] {
  const [state, events] = addValue(newAnswer(), body, traits)
  return [...events, ...endOf(state, traits, fault('broken', 'The answer holds no finished candidate.'))]
}

function newAnswer(): GeminiState {
  return {
    answer: undefined,
    fallbackAnswer: crypto.randomUUID(),
    started: false,
    counters: undefined,
    candidates: [],
    blocked: undefined,
    over: false,
  }
}

function addFrame(state: GeminiState, frame: Frame, traits: Traits): Step {
  const data = frame.data.trim()
  // Google sends no `[DONE]`, but gateways in front of it do.
  if (state.over || data === '' || data === '[DONE]') return [state, []]
  try {
    return addValue(state, JSON.parse(data), traits)
  } catch (error) {
    if (error instanceof SyntaxError)
      return failed(state, fault('broken', 'A frame of the stream is not JSON.'))
    throw error
  }
}

function addValue(state: GeminiState, value: unknown, traits: Traits): Step {
  if (!Array.isArray(value)) return addChunkValue(state, value, traits)
  const values: readonly unknown[] = value
  let after = state
  const events: ChatEvent[] = []
  for (const each of values) {
    if (after.over) break
    const [next, made] = addChunkValue(after, each, traits)
    after = next
    events.push(...made)
  }
  return [after, events]
}

function addChunkValue(state: GeminiState, value: unknown, traits: Traits): Step {
  const reported = faultIn(value)
  if (reported !== undefined) return failed(state, reported)
  const chunk = readChunk(value)
  return chunk === undefined
    ? failed(state, fault('broken', 'A chunk is not an object.'))
    : addChunk(state, chunk, traits)
}

function addChunk(before: GeminiState, chunk: Chunk, traits: Traits): Step {
  const events: ChatEvent[] = before.started
    ? []
    : [{ kind: 'message-start', id: chunk.responseId, model: chunk.modelVersion }]
  const answer = before.answer ?? chunk.responseId
  const received = chunk.candidates ?? []
  const failure = received.find(isFailure)
  let { candidates } = before
  // A failed candidate is not begun: its content would only prevent failing over.
  for (const candidate of failure === undefined ? received : []) {
    const choice = candidate.index ?? 0
    const place = placeOf(candidates, choice)
    const known = candidates[place] ?? newCandidate(choice)
    const [next, made] = addCandidate(known, candidate, answer ?? before.fallbackAnswer)
    candidates = withCandidate(candidates, place, next)
    for (const event of made) events.push(event)
  }
  const state: GeminiState = {
    answer,
    fallbackAnswer: before.fallbackAnswer,
    started: true,
    candidates,
    over: before.over,
    blocked: chunk.promptFeedback?.blockReason ?? before.blocked,
    counters:
      chunk.usageMetadata === undefined ? before.counters : mergeUsage(before.counters, chunk.usageMetadata),
  }
  if (chunk.usageMetadata !== undefined) for (const event of usageEvent(state, traits)) events.push(event)
  if (failure === undefined) return [state, events]
  const [over, error] = failed(state, brokenFinish(failure.finishReason ?? '', failure.finishMessage))
  return [over, [...events, ...error]]
}

function isFailure({ finishReason }: AnswerCandidate): boolean {
  return finishReason !== undefined && !endsWell(finishReason)
}

function placeOf(candidates: readonly CandidateState[], choice: number): number {
  return candidates[0]?.choice === choice ? 0 : candidates.findIndex((each) => each.choice === choice)
}

/** The candidates with this one replaced, or inserted by its choice. */
function withCandidate(
  candidates: readonly CandidateState[],
  place: number,
  candidate: CandidateState,
): readonly CandidateState[] {
  if (place >= 0) return candidates.length === 1 ? [candidate] : candidates.with(place, candidate)
  return [...candidates, candidate].toSorted((a, b) => a.choice - b.choice)
}

/** The end of the body: clean if every candidate has finished, otherwise `unfinished` is the fault. */
function endOf(state: GeminiState, traits: Traits, unfinished: Fault): readonly ChatEvent[] {
  if (state.over) return []
  if (state.candidates.length === 0 && state.blocked !== undefined) {
    // A refused prompt is answered without candidates.
    return [
      { kind: 'choice-finish', choice: 0, reason: 'content_filter', native: state.blocked },
      { kind: 'finish' },
    ]
  }
  const complete = state.candidates.length > 0 && state.candidates.every((each) => each.native !== undefined)
  if (!complete) return [{ kind: 'error', fault: unfinished }]
  const events: ChatEvent[] = []
  for (const candidate of state.candidates) {
    const native = candidate.native ?? ''
    const calls = callsOf(candidate)
    const reason = finishOf(native, calls, saysSomething(candidate))
    if (reason === undefined) {
      const why = calls === 'cut' ? 'A function call was never finished.' : undefined
      return [...events, { kind: 'error', fault: brokenFinish(native, why) }]
    }
    events.push(
      ...restOf(candidate),
      ...annotationsOf(candidate.sources, candidate.text).map((annotation) => ({
        kind: 'annotation' as const,
        choice: candidate.choice,
        annotation,
      })),
      // After the text: a message ends where an item follows.
      ...searchItems(candidate.sources).map((item) => ({
        kind: 'gateway-item' as const,
        choice: candidate.choice,
        item,
      })),
      { kind: 'choice-finish', choice: candidate.choice, reason, native },
    )
  }
  return [...events, ...(searchesOf(state, traits) > 0 ? usageEvent(state, traits) : []), { kind: 'finish' }]
}

function usageEvent(state: GeminiState, traits: Traits): readonly ChatEvent[] {
  const usage = usageSoFar(state, traits)
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

function usageSoFar(state: GeminiState, traits: Traits): Usage | undefined {
  const searches = searchesOf(state, traits)
  return usageOf(state.counters, searches > 0 ? { web_search: searches } : {})
}

/** How many searches Google bills: each query from generation 3 on, one per grounded prompt before. */
function searchesOf(state: GeminiState, traits: Traits): number {
  let queries = 0
  for (const { sources } of state.candidates) queries += sources.queries.length
  return traits.searchBilledPer === 'query' ? queries : Math.min(1, queries)
}

function failed(state: GeminiState, fault: Fault): Step {
  return [{ ...state, over: true }, [{ kind: 'error', fault }]]
}
