// Cohere's answers as events: a pure state machine over stream events, and whole answers fed through it.

import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import type { Json } from '../../conversation/request.ts'
import { fault } from '../faults.ts'
import { isObject, parseJson } from '../json.ts'
import type { StreamParser } from '../protocol.ts'
import type { Frame } from '../sse.ts'
import { annotationsOf, type Cited } from './citations.ts'
import { faultOfFinish } from './fault.ts'
import { answerSchema, citationSchema, eventSchemas, logprobSchema, type WireUsage } from './schema.ts'
import { usageOf } from './usage.ts'

export interface CohereState {
  readonly ended: boolean
  readonly text: string
  /** Where each block begins in the text, by its index. */
  readonly bases: Readonly<Record<number, number>>
  readonly citations: readonly Cited[]
  /** The reasoning pieces so far: the block index of each, in order. */
  readonly thoughts: readonly number[]
  /** Our number for each of the provider's call indexes, in order. */
  readonly calls: readonly number[]
  /** The arguments of each call so far. */
  readonly arguments: readonly string[]
}

type Step = readonly [CohereState, readonly ChatEvent[]]

const initial: CohereState = {
  ended: false,
  text: '',
  bases: {},
  citations: [],
  thoughts: [],
  calls: [],
  arguments: [],
}

/** Parses the stream of one answer. A stream without `message-end` ends in an error of kind `cut`. */
export const parser: StreamParser<CohereState> = {
  initial: () => initial,
  step: (state, frame) => (state.ended ? [state, []] : stepFrame(state, frame)),
  end: (state) =>
    state.ended ? [] : [{ kind: 'error', fault: fault('cut', 'the stream ended before message-end') }],
}

/** A whole answer as the events that the same answer would have streamed. */
export function parseWhole(body: unknown): readonly ChatEvent[] {
  const answer = answerSchema.safeParse(body).data
  if (answer === undefined) {
    return [{ kind: 'error', fault: fault('broken', 'the answer is not one of this protocol') }]
  }
  const { id, message, logprobs, ...end } = answer
  const wire: unknown[] = [
    { type: 'message-start', id },
    { type: 'tool-plan-delta', delta: { message: { tool_plan: message.tool_plan ?? '' } } },
    ...(message.content ?? []).map((content, index) => ({
      type: 'content-start',
      index,
      delta: { message: { content } },
    })),
    ...(logprobs ?? []).map((item) => ({
      type: 'content-delta',
      delta: { message: { content: {} } },
      logprobs: item,
    })),
    ...(message.tool_calls ?? []).map((call, index) => ({
      type: 'tool-call-start',
      index,
      delta: { message: { tool_calls: call } },
    })),
    ...(message.citations ?? []).map((citations) => ({
      type: 'citation-start',
      delta: { message: { citations } },
    })),
    { type: 'message-end', delta: end },
  ]
  let state = initial
  return wire.flatMap((event) => {
    const [next, made] = stepEvent(state, event)
    state = next
    return made
  })
}

function stepFrame(state: CohereState, frame: Frame): Step {
  if (frame.data === '' || frame.data === '[DONE]') return [state, []]
  return stepEvent(state, parseJson(frame.data))
}

function stepEvent(state: CohereState, event: unknown): Step {
  const type = typeof event === 'object' && event !== null && 'type' in event ? event.type : undefined
  if (typeof type !== 'string') return failed(state, 'a stream event has no type')
  if (!Object.hasOwn(eventSchemas, type)) return [state, []]
  const steps: Readonly<Record<string, () => Step | undefined>> = {
    'message-start': () => {
      const told = eventSchemas['message-start'].safeParse(event).data
      return told && [state, [{ kind: 'message-start', id: told.id, model: undefined }]]
    },
    'tool-plan-delta': () => {
      const told = eventSchemas['tool-plan-delta'].safeParse(event).data
      return told && addText(state, told.delta.message.tool_plan)
    },
    'content-start': () => {
      const told = eventSchemas['content-start'].safeParse(event).data
      if (!told) return undefined
      // The words of a plan stand before the first block: citations are told per block.
      const bases = { ...state.bases, [told.index]: state.text.length }
      return addContent({ ...state, bases }, told.index, told.delta.message.content)
    },
    'content-delta': () => {
      const told = eventSchemas['content-delta'].safeParse(event).data
      if (!told) return undefined
      const [next, made] = addContent(state, told.index, told.delta.message.content)
      return [next, [...made, ...logprobsOf(told.logprobs)]]
    },
    'citation-start': () => {
      const told = eventSchemas['citation-start'].safeParse(event).data
      return told && addCitation(state, told.delta.message.citations)
    },
    'tool-call-start': () => {
      const told = eventSchemas['tool-call-start'].safeParse(event).data
      return told && startCall(state, told.index, told.delta.message.tool_calls)
    },
    'tool-call-delta': () => {
      const told = eventSchemas['tool-call-delta'].safeParse(event).data
      return told && addArguments(state, told.index, told.delta.message.tool_calls.function.arguments)
    },
    'message-end': () => {
      const told = eventSchemas['message-end'].safeParse(event).data
      return told && finish(state, told.delta)
    },
  }
  return steps[type]?.() ?? failed(state, `${type} cannot be read`)
}

// ---- content ----------------------------------------------------------------------------------------------

function addContent(
  state: CohereState,
  index: number,
  { text, thinking }: { readonly text: string; readonly thinking: string },
): Step {
  const [next, made] = addText(state, text)
  if (thinking === '') return [next, made]
  const known = next.thoughts.includes(index)
  const thoughts = known ? next.thoughts : [...next.thoughts, index]
  return [
    { ...next, thoughts },
    [
      ...made,
      {
        kind: 'reasoning-delta',
        choice: 0,
        detail: { type: 'reasoning.text', format: null, index: thoughts.indexOf(index), text: thinking },
      },
    ],
  ]
}

function addText(state: CohereState, text: string): Step {
  if (text === '') return [state, []]
  return [{ ...state, text: state.text + text }, [{ kind: 'text-delta', choice: 0, text }]]
}

/** A stretch may be of several tokens: their probabilities multiply, so the logarithms add up. */
function logprobsOf(item: unknown): ChatEvent[] {
  const told = logprobSchema.safeParse(item).data
  if (told === undefined || told.logprobs.length === 0) return []
  const entry: Json = {
    token: told.text,
    logprob: told.logprobs.reduce((sum, each) => sum + each, 0),
    bytes: [...Buffer.from(told.text)],
    top_logprobs: [],
  }
  return [{ kind: 'logprobs', choice: 0, content: [entry], refusal: [] }]
}

/** Kept until the end: the text that a citation quotes may still be on its way. */
function addCitation(state: CohereState, citation: unknown): Step {
  const block = citationSchema.safeParse(citation).data?.content_index
  // Without a block's index the text block is meant, of which there is one.
  const base = block === undefined ? lastBase(state) : (state.bases[block] ?? lastBase(state))
  return [{ ...state, citations: [...state.citations, { citation, base }] }, []]
}

function lastBase(state: CohereState): number {
  return Object.values(state.bases).at(-1) ?? 0
}

// ---- calls ------------------------------------------------------------------------------------------------

function startCall(
  state: CohereState,
  index: number,
  told: { id: string; function: { name: string; arguments?: string | null | undefined } },
): Step {
  if (told.id === '' || told.function.name === '') return failed(state, 'a tool call has no id or no name')
  const call = state.calls.length
  const started: CohereState = {
    ...state,
    calls: [...state.calls, index],
    arguments: [...state.arguments, ''],
  }
  const [next, made] = addArguments(started, index, told.function.arguments ?? '')
  const start: ChatEvent = {
    kind: 'tool-call-start',
    choice: 0,
    call,
    id: told.id,
    name: told.function.name,
    thoughtSignature: undefined,
  }
  return [next, [start, ...made]]
}

/** Held back while it may still become `null`, which is how a call without arguments may be written. */
function addArguments(state: CohereState, index: number, text: string): Step {
  const call = state.calls.lastIndexOf(index)
  if (call < 0 || text === '') return [state, []]
  const before = state.arguments[call] ?? ''
  const all = before + text
  const next = { ...state, arguments: state.arguments.with(call, all) }
  if (mayBeNull(all)) return [next, []]
  const held = mayBeNull(before) ? before : ''
  return [next, [{ kind: 'tool-call-delta', choice: 0, call, arguments: held + text }]]
}

/** Looks at short texts only: trimming a long one with every delta would cost its length each time. */
function mayBeNull(text: string): boolean {
  return text.length < 16 && 'null'.startsWith(text.trim())
}

// ---- end --------------------------------------------------------------------------------------------------

const reasons: Readonly<Record<string, FinishReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool_calls',
}

interface WireEnd {
  readonly finish_reason?: string | null | undefined
  readonly usage?: WireUsage | null | undefined
  readonly error?: string | null | undefined
  readonly error_type?: string | null | undefined
}

function finish(state: CohereState, end: WireEnd): Step {
  const native = end.finish_reason ?? undefined
  const usage = usageOf(end.usage)
  const counted: ChatEvent[] = usage === undefined ? [] : [{ kind: 'usage', usage }]
  if (native === undefined) return failed(state, 'the answer ended without a finish reason')
  if (native === 'ERROR' || native === 'TIMEOUT') {
    const error = faultOfFinish(native, end.error ?? undefined, end.error_type ?? undefined)
    return [{ ...state, ended: true }, [...counted, { kind: 'error', fault: error }]]
  }
  const reason = reasons[native] ?? 'stop'
  // Whatever the reason says, calls are to be answered; only a limit may have cut one off.
  const whole =
    reason !== 'length' || state.arguments.every((text) => mayBeNull(text) || isObject(parseJson(text)))
  const called = state.calls.length > 0
  const told = called && whole ? 'tool_calls' : reason === 'tool_calls' ? 'stop' : reason
  return [
    { ...state, ended: true },
    [
      ...state.arguments.flatMap((text, call): ChatEvent[] =>
        mayBeNull(text) ? [{ kind: 'tool-call-delta', choice: 0, call, arguments: '{}' }] : [],
      ),
      ...state.citations.flatMap((cited) =>
        annotationsOf(cited, state.text).map((annotation): ChatEvent => ({
          kind: 'annotation',
          choice: 0,
          annotation,
        })),
      ),
      ...counted,
      { kind: 'choice-finish', choice: 0, reason: told, native },
      { kind: 'finish' },
    ],
  ]
}

function failed(state: CohereState, message: string): Step {
  return [{ ...state, ended: true }, [{ kind: 'error', fault: fault('broken', message) }]]
}
