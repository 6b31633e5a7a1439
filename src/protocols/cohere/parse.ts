// Parses Cohere's answers: a state machine over stream events, which also parses whole answers.

import type { Annotation, ChatEvent, Fault, FaultKind, FinishReason } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { count, counter, disjoint, type Usage } from '../../conversation/usage.ts'
import { errorEvent, fault, foreignFault, kindOfStatus, retryAfterMs } from '../faults.ts'
import type { Frame } from '../framing/sse.ts'
import { CollectedText, entryOf, isObject, nonEmpty, parseJson } from '../lenient.ts'
import { callIdOf, mintedId } from '../names.ts'
import type { StreamParser } from '../protocol.ts'
import { stateParser } from '../state-parser.ts'
import {
  answerSchema,
  callOf,
  type CallStart,
  citationSchema,
  citationStartSchema,
  indexOf,
  logprobSchema,
  messageEndSchema,
  messageIn,
  textOf,
  type CohereUsage,
} from './schema.ts'

/** The text and the lists grow with the stream. */
interface CohereState {
  readonly ended: boolean
  /** What ids of calls are made from: the answer's own id, where it has one. */
  readonly seed: string
  readonly callIds: Set<string>
  readonly text: CollectedText
  readonly textLength: number
  /** Where each block begins in the text, by index. */
  readonly bases: Readonly<Record<number, number>>
  readonly citations: Cited[]
  /** The block index of each reasoning piece so far, in order. */
  readonly thoughts: readonly number[]
  /** Our number for each of the provider's call indexes, in order. */
  readonly calls: number[]
  /** The arguments of each call so far. */
  readonly arguments: string[]
}

type Step = readonly [CohereState, readonly ChatEvent[]]

function initial(): CohereState {
  return {
    ended: false,
    seed: crypto.randomUUID(),
    callIds: new Set(),
    text: new CollectedText(),
    textLength: 0,
    bases: {},
    citations: [],
    thoughts: [],
    calls: [],
    arguments: [],
  }
}

/** Parses the stream of one answer. A stream without `message-end` ends in an error of kind `cut`. */
export function streamParser(): StreamParser {
  return stateParser(
    initial(),
    (state, frame) => (state.ended ? [state, []] : stepFrame(state, frame)),
    (state) => (state.ended ? [] : [errorEvent(fault('cut', 'the stream ended before message-end'))]),
    {
      opening: '"content":{"text":"',
      after: (state, text) => ({ ...state, textLength: state.textLength + text.length }),
      collect: (state, text) => state.text.add(text),
    },
  )
}

/** A whole answer as the events that the same answer would have streamed. */
export function parseWhole(body: unknown): readonly ChatEvent[] {
  const answer = answerSchema.safeParse(body).data
  if (answer === undefined) {
    const failure = faultInside(body) ?? fault('broken', 'the answer is not one of this protocol')
    return [errorEvent(failure)]
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
  let state = initial()
  return wire.flatMap((event) => {
    if (state.ended) return []
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
  const type = isObject(event) ? event.type : undefined
  if (!isObject(event) || typeof type !== 'string' || type === 'error') {
    const failure = faultInside(event) ?? fault('broken', 'a stream event has no type')
    return [{ ...state, ended: true }, [errorEvent(failure)]]
  }
  const step = entryOf(steps, type)
  if (step === undefined) return [state, []]
  return step(state, event) ?? failWith(state, `${type} cannot be read`)
}

/** What each type of event means; undefined where it cannot be read. An event of another type is ignored. */
const steps: Readonly<Record<string, (state: CohereState, event: JsonObject) => Step | undefined>> = {
  'message-start': (state, { id }) => [
    { ...state, seed: textOf(id) || state.seed },
    [{ kind: 'message-start', id: typeof id === 'string' ? id : undefined, model: undefined }],
  ],
  'tool-plan-delta': (state, event) => {
    const message = messageIn(event)
    return message && addText(state, textOf(message.tool_plan))
  },
  'content-start': (state, event) => {
    const content = messageIn(event)?.content
    if (!isObject(content)) return undefined
    const index = indexOf(event)
    // The words of a plan stand before the first block: citations count per block.
    const bases = { ...state.bases, [index]: state.textLength }
    return addContent({ ...state, bases }, index, content)
  },
  'content-delta': (state, event) => {
    const content = messageIn(event)?.content
    if (!isObject(content)) return undefined
    const step = addContent(state, indexOf(event), content)
    return event.logprobs === undefined ? step : [step[0], [...step[1], ...logprobsOf(event.logprobs)]]
  },
  'citation-start': (state, event) => {
    const started = citationStartSchema.safeParse(event).data
    return started && addCitation(state, started.delta.message.citations)
  },
  'tool-call-start': (state, event) => {
    const started = callOf(messageIn(event)?.tool_calls)
    return started && startCall(state, indexOf(event), started)
  },
  'tool-call-delta': (state, event) => {
    const calls = messageIn(event)?.tool_calls
    const called = isObject(calls) ? calls.function : undefined
    return isObject(called) ? addArguments(state, indexOf(event), textOf(called.arguments)) : undefined
  },
  'message-end': (state, event) => {
    const ended = messageEndSchema.safeParse(event).data
    return ended && finish(state, ended.delta)
  },
}

// ---- content ----------------------------------------------------------------------------------------------

function addContent(state: CohereState, index: number, content: JsonObject): Step {
  const [next, made] = addText(state, textOf(content.text))
  const thinking = textOf(content.thinking)
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
  state.text.add(text)
  const textLength = state.textLength + text.length
  return [{ ...state, textLength }, [{ kind: 'text-delta', choice: 0, text }]]
}

/** A stretch may be of several tokens: their probabilities multiply, so the logarithms add up. */
function logprobsOf(item: unknown): ChatEvent[] {
  const token = logprobSchema.safeParse(item).data
  if (token === undefined || token.logprobs.length === 0) return []
  const entry: Json = {
    token: token.text,
    logprob: token.logprobs.reduce((sum, each) => sum + each, 0),
    bytes: [...Buffer.from(token.text)],
    top_logprobs: [],
  }
  return [{ kind: 'logprobs', choice: 0, content: [entry], refusal: [] }]
}

/** Kept until the end: the text that a citation quotes may still be on its way. */
function addCitation(state: CohereState, citation: unknown): Step {
  const block = citationSchema.safeParse(citation).data?.content_index
  // Without a block index it is the text block, of which there is only one.
  const base = block === undefined ? lastBase(state) : (state.bases[block] ?? lastBase(state))
  state.citations.push({ citation, base })
  return [state, []]
}

function lastBase(state: CohereState): number {
  return Object.values(state.bases).at(-1) ?? 0
}

// ---- calls ------------------------------------------------------------------------------------------------

function startCall(state: CohereState, index: number, started: CallStart): Step {
  if (started.name === '') return failWith(state, 'a tool call has no name')
  const call = state.calls.length
  const id = callIdOf(started.id, state.callIds, () => mintedId(state.seed, call))
  state.calls.push(index)
  state.arguments.push('')
  const [next, made] = addArguments(state, index, started.arguments)
  const start: ChatEvent = {
    kind: 'tool-call-start',
    choice: 0,
    call,
    id,
    name: started.name,
    thoughtSignature: undefined,
  }
  return [next, [start, ...made]]
}

/** Held back while it may become `null`, which is how calls without arguments may be written. */
function addArguments(state: CohereState, index: number, text: string): Step {
  const call = state.calls.lastIndexOf(index)
  if (call < 0 || text === '') return [state, []]
  const before = state.arguments[call] ?? ''
  const all = before + text
  state.arguments[call] = all
  if (mayBeNull(all)) return [state, []]
  const held = mayBeNull(before) ? before : ''
  return [state, [{ kind: 'tool-call-delta', choice: 0, call, arguments: held + text }]]
}

/** Only short texts are checked: trimming a long one on every delta would be quadratic. */
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
  readonly usage?: CohereUsage | null | undefined
  readonly error?: string | null | undefined
  readonly error_type?: string | null | undefined
}

function finish(state: CohereState, end: WireEnd): Step {
  const native = end.finish_reason ?? undefined
  const usage = usageOf(end.usage)
  const counted: ChatEvent[] = usage === undefined ? [] : [{ kind: 'usage', usage }]
  if (native === undefined) return failWith(state, 'the answer ended without a finish reason')
  if (native === 'ERROR' || native === 'TIMEOUT') {
    const error = faultOfFinish(native, end.error ?? undefined, end.error_type ?? undefined)
    return [{ ...state, ended: true }, [...counted, errorEvent(error)]]
  }
  const reason = entryOf(reasons, native) ?? 'stop'
  const texts = state.arguments
  const text = state.text.toString()
  // Calls must be answered whatever the reason; only the token limit can have cut one off.
  const whole = reason !== 'length' || texts.every((text) => mayBeNull(text) || isObject(parseJson(text)))
  const called = state.calls.length > 0
  const finishReason = called && whole ? 'tool_calls' : reason === 'tool_calls' ? 'stop' : reason
  return [
    { ...state, ended: true },
    [
      ...texts.flatMap((text, call): ChatEvent[] =>
        mayBeNull(text) ? [{ kind: 'tool-call-delta', choice: 0, call, arguments: '{}' }] : [],
      ),
      ...state.citations.flatMap((cited) =>
        annotationsOf(cited, text).map((annotation): ChatEvent => ({
          kind: 'annotation',
          choice: 0,
          annotation,
        })),
      ),
      ...counted,
      { kind: 'choice-finish', choice: 0, reason: finishReason, native },
      { kind: 'finish' },
    ],
  ]
}

function failWith(state: CohereState, message: string): Step {
  return [{ ...state, ended: true }, [errorEvent(fault('broken', message))]]
}

// Cohere's counters: `tokens` is what the model processed, `billed_units` what is charged.

/**
 * The counts of an answer, if any. Cached tokens are inside the input, reasoning inside the output. Cohere adds a
 * prompt of its own and does not charge for it (11 of 506 tokens in one recording), so the billed units are kept
 * separately.
 */
function usageOf(wire: CohereUsage | null | undefined): Usage | undefined {
  const counted = wire?.tokens ?? wire?.billed_units
  if (!wire || !counted) return undefined
  const usage = disjoint({
    prompt: counter(counted.input_tokens),
    completion: counter(counted.output_tokens),
    cacheRead: count(wire.cached_tokens),
    reasoning: count(counted.reasoning_tokens),
  })
  if (!wire.billed_units) return usage
  return {
    ...usage,
    billed: { input: count(wire.billed_units.input_tokens), output: count(wire.billed_units.output_tokens) },
  }
}

// Cohere's citations as annotations of the joined text.

/** A citation and its text block. */
interface Cited {
  readonly citation: unknown
  /** Where its block begins in the joined text, UTF-16 units. */
  readonly base: number
}

/** One annotation per source with an address; documents have no field on the wire. `text` is the joined text. */
function annotationsOf({ citation: sent, base }: Cited, text: string): Annotation[] {
  const citation = citationSchema.safeParse(sent).data
  if (citation === undefined) return []
  const [start, end] = stretchOf(text, base, citation)
  return citation.sources.flatMap((source): Annotation[] => {
    const found = addressOf(source)
    return found === undefined ? [] : [{ kind: 'url-citation', ...found, start, end }]
  })
}

/**
 * The stretch in UTF-16 code units. Offsets count characters, and which kind shows only where a text has characters
 * beyond the basic plane: the reading under which the quoted text stands there is the right one.
 */
function stretchOf(
  text: string,
  base: number,
  citation: { start: number; end: number; text: string },
): readonly [number, number] {
  const plain = [base + citation.start, base + citation.end] as const
  if (text.slice(...plain) === citation.text) return plain
  const characters = Array.from(text.slice(base))
  const unitsBefore = (at: number) => base + characters.slice(0, at).join('').length
  const counted = [unitsBefore(citation.start), unitsBefore(citation.end)] as const
  if (text.slice(...counted) === citation.text) return counted
  return [Math.min(plain[0], text.length), Math.min(plain[1], text.length)]
}

function addressOf(source: unknown): { url: string; title: string } | undefined {
  if (!isObject(source)) return undefined
  const said = [source.document, source.tool_output].find(isObject) ?? {}
  const url = [said.url, said.link, said.id, source.id]
    .map(nonEmpty)
    .find((each) => /^https?:\/\//.test(each ?? ''))
  return url === undefined ? undefined : { url, title: nonEmpty(said.title) ?? url }
}

// Classifies Cohere's errors: `{id, message, error_type?}` on error statuses, and answers that finish with ERROR.

/**
 * Recorded: TOO_MANY_TOKENS, INVALID_TOOL_GENERATION. The others are documented. Trial keys are limited per minute,
 * which passes, and per month.
 */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [/too[ _]many[ _]tokens|context (length|window)/i, 'context-length'],
  [/(per|\/) ?minute/i, 'rate-limited'],
  [/month|billing|out of credit/i, 'quota'],
  [/blocked|unsafe|content (policy|filter)/i, 'content-filter'],
]

/** Statuses that Cohere documents beside the usual ones: 498 blocked input, 499 cancelled request. */
const ownStatuses: Readonly<Record<number, FaultKind>> = { 498: 'content-filter', 499: 'cut' }

/** An answer with an error status. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const answer = parseJson(body)
  const wait = retryAfterMs(headers)
  if (!isObject(answer)) return foreignFault(status, body, wait)
  const message = nonEmpty(answer.message) ?? nonEmpty(answer.error) ?? 'an error without a message'
  const type = nonEmpty(answer.error_type)
  const byStatus = kindOfStatus(status, ownStatuses)
  const speaks = byStatus === 'invalid-request' || byStatus === 'rate-limited'
  const byWords = speaks ? kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1] : undefined
  return fault(byWords ?? byStatus, message, { status, providerCode: type, retryAfterMs: wait })
}

/** The error in place of an answer with status 200; undefined if there is none. */
function faultInside(body: unknown): Fault | undefined {
  if (!isObject(body)) return undefined
  const message = nonEmpty(body.message) ?? nonEmpty(body.error)
  if (message === undefined) return undefined
  const type = nonEmpty(body.error_type)
  const kind = kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1]
  return fault(kind ?? 'broken', message, { providerCode: type })
}

/** An answer that finished with ERROR or TIMEOUT: none of it may be taken as complete. */
function faultOfFinish(reason: string, message: string | undefined, type: string | undefined): Fault {
  const kind = reason === 'TIMEOUT' ? 'timeout' : 'broken'
  return fault(kind, message ?? `the answer finished with ${reason}`, { providerCode: type ?? reason })
}
