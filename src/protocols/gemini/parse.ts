// Answers of Gemini as events: chunks of a stream, a whole answer, or the array of chunks that a stream without
// `alt=sse` is. All three are the same chunks, so one state machine reads them.

import type { ChatEvent, Fault } from '../../conversation/event.ts'
import { fault } from '../faults.ts'
import type { StreamParser } from '../protocol.ts'
import type { Frame } from '../sse.ts'
import { addCandidate, type CandidateState, callsOf, newCandidate, restOf } from './candidate.ts'
import { cutOff, faultIn } from './fault.ts'
import { brokenFinish, endsWell, finishOf } from './finish.ts'
import { annotationsOf } from './grounding.ts'
import { type Chunk, chunkSchema, type UsageMetadata } from './schema.ts'
import { isPlainChunk } from './plain-chunk.ts'
import type { Traits } from './traits.ts'
import { mergeUsage, usageOf } from './usage.ts'

export interface GeminiState {
  /** Google's id of the answer; call ids are made from it, or from a random one where there is none. */
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

/** Reads the frames of one streamed answer. Gemini sends no end mark: an answer has ended when every candidate has. */
export function parserOf(traits: Traits): StreamParser<GeminiState> {
  return {
    initial: newAnswer,
    step: (state, frame) => addFrame(state, frame, traits),
    end: (state) => endOf(state, traits, cutOff()),
  }
}

/** The events of a parsed JSON answer: one chunk, or all the chunks of a stream in an array. */
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
  const told = faultIn(value)
  if (told !== undefined) return failed(state, told)
  const chunk = isPlainChunk(value) ? value : chunkSchema.safeParse(value).data
  return chunk === undefined
    ? failed(state, fault('broken', 'A chunk is not an object.'))
    : addChunk(state, chunk, traits)
}

function addChunk(before: GeminiState, chunk: Chunk, traits: Traits): Step {
  const events: ChatEvent[] = before.started
    ? []
    : [{ kind: 'message-start', id: chunk.responseId, model: chunk.modelVersion }]
  const answer = before.answer ?? chunk.responseId
  const failure = (chunk.candidates ?? []).find(
    (candidate) => candidate.finishReason !== undefined && !endsWell(candidate.finishReason),
  )
  let { candidates } = before
  // A candidate that failed is not begun: its content would only stand in the way of trying again elsewhere.
  for (const candidate of failure === undefined ? (chunk.candidates ?? []) : []) {
    const choice = candidate.index ?? 0
    const known = candidates.find((each) => each.choice === choice) ?? newCandidate(choice)
    const [next, made] = addCandidate(known, candidate, answer ?? before.fallbackAnswer)
    candidates = withCandidate(candidates, next)
    events.push(...made)
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
  if (chunk.usageMetadata !== undefined) events.push(...usageEvent(state, traits))
  if (failure === undefined) return [state, events]
  const [over, error] = failed(state, brokenFinish(failure.finishReason ?? '', failure.finishMessage))
  return [over, [...events, ...error]]
}

/** The candidates in the order of their choices, with this one in its place. */
function withCandidate(
  candidates: readonly CandidateState[],
  candidate: CandidateState,
): readonly CandidateState[] {
  const at = candidates.findIndex((each) => each.choice === candidate.choice)
  if (at >= 0) return candidates.with(at, candidate)
  return [...candidates, candidate].toSorted((a, b) => a.choice - b.choice)
}

/** The end of the body: clean when every candidate has finished, else `unfinished` is what went wrong. */
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
    const reason = finishOf(native, callsOf(candidate))
    if (reason === undefined) {
      return [
        ...events,
        { kind: 'error', fault: brokenFinish(native, 'A function call was never finished.') },
      ]
    }
    events.push(
      ...restOf(candidate),
      ...annotationsOf(candidate.sources, candidate.text).map((annotation) => ({
        kind: 'annotation' as const,
        choice: candidate.choice,
        annotation,
      })),
      { kind: 'choice-finish', choice: candidate.choice, reason, native },
    )
  }
  return [...events, ...(searchesOf(state, traits) > 0 ? usageEvent(state, traits) : []), { kind: 'finish' }]
}

function usageEvent(state: GeminiState, traits: Traits): readonly ChatEvent[] {
  const searches = searchesOf(state, traits)
  const usage = usageOf(state.counters, searches > 0 ? { web_search: searches } : {})
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

/** How many searches Google bills: each query from generation 3 on, once for a grounded prompt before. */
function searchesOf(state: GeminiState, traits: Traits): number {
  const queries = state.candidates.reduce((sum, each) => sum + each.sources.queries.length, 0)
  return traits.searchBilledPer === 'query' ? queries : Math.min(1, queries)
}

function failed(state: GeminiState, fault: Fault): Step {
  return [{ ...state, over: true }, [{ kind: 'error', fault }]]
}
