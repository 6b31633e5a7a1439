// Parses Anthropic's answers: a state machine over stream events, which also parses whole messages.

import type { Annotation, ChatEvent, Fault, FaultKind, FinishReason } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { count } from '../../../conversation/usage.ts'
import {
  addText,
  type BlockState,
  finishReasonOf,
  nextCallId,
  noBlocks,
  withOpen,
} from '../../claude/content-blocks.ts'
import { answerTool, compactionId, reasoningFormat } from '../../claude/models.ts'
import { detailOfWork, searchItem } from '../../claude/tools.ts'
import { errorEvent, fault, faultOfException, foreignFault, kindOfStatus } from '../../faults.ts'
import { exceptionPrefix } from '../../framing/aws-event-stream.ts'
import type { Frame } from '../../framing/sse.ts'
import { entryOf, isJson, isObject, parseAnswer, parseJson } from '../../lenient.ts'
import type { StreamParser } from '../../protocol.ts'
import { stateParser } from '../../state-parser.ts'
import { eventsOfCompletion } from './lower.ts'
import {
  citationSchema,
  errorSchema,
  mergeUsage,
  messageSchema,
  readBlock,
  readUsage,
  usageOf,
  type WireBlock,
  type MessagesUsage,
} from './schema.ts'

/** A content block that has started but not stopped. */
type OpenBlock =
  | { readonly kind: 'text'; readonly start: number; readonly citations: readonly unknown[] }
  | { readonly kind: 'reasoning'; readonly index: number }
  | { readonly kind: 'call'; readonly call: number; readonly json: string; readonly input: unknown }
  /** A call of the tool that carries a structured answer: its arguments become the text. */
  | { readonly kind: 'answer'; readonly json: string; readonly input: unknown }
  /** A call of the provider's own search, to be returned with the next turn. */
  | { readonly kind: 'work'; readonly id: string; readonly json: string; readonly input: unknown }
  /** A call of another provider tool, which the client must not answer. */
  | { readonly kind: 'foreign' }

interface ParserState extends BlockState<OpenBlock> {
  readonly ended: boolean
  readonly reasonings: number
  /** What the provider's own search looks for. */
  readonly query: string
  /** How often it has found something. */
  readonly searches: number
  readonly usage: MessagesUsage | undefined
  readonly stopReason: string | undefined
  readonly stopSequence?: string
}

type Step = readonly [ParserState, readonly ChatEvent[]]

function initialState(): ParserState {
  return {
    ...noBlocks(),
    ended: false,
    reasonings: 0,
    query: '',
    searches: 0,
    usage: undefined,
    stopReason: undefined,
  }
}

/** Parses the stream of one answer. A stream without `message_stop` ends in an error of kind `cut`. */
export function streamParser(): StreamParser {
  return stateParser(
    initialState(),
    (state, frame) => (state.ended ? [state, []] : stepFrame(state, frame)),
    (state) => (state.ended ? [] : [errorEvent(fault('cut', 'the stream ended before message_stop'))]),
    {
      opening: '"type":"text_delta","text":"',
      after: (state, text) => ({ ...state, textLength: state.textLength + text.length }),
    },
  )
}

/** A whole message as the events of an equivalent stream. */
export function parseWhole(body: unknown): readonly ChatEvent[] {
  const failure = errorSchema.safeParse(body)
  if (failure.success) {
    return [errorEvent(faultOfEvent(failure.data.error.type, failure.data.error.message))]
  }
  const message = messageSchema.safeParse(body)
  const completion = eventsOfCompletion(body)
  if (completion !== undefined) return eventsOf(completion)
  if (!message.success) {
    return [errorEvent(fault('broken', 'the answer is not a message of this protocol'))]
  }
  const { id, model, content, usage, stop_reason, stop_sequence, stop_details } = message.data
  return eventsOf([
    { type: 'message_start', message: { id, model, usage } },
    ...content.flatMap((block, index) => [
      { type: 'content_block_start', index, content_block: block },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason, stop_sequence, stop_details } },
    { type: 'message_stop' },
  ])
}

/** What these events of a whole answer mean together. */
function eventsOf(wire: readonly unknown[]): readonly ChatEvent[] {
  const [state, events] = stepAll(initialState(), wire)
  return state.ended ? events : [...events, ...fail(state, 'the answer has no stop reason')[1]]
}

function stepAll(before: ParserState, wire: readonly unknown[]): Step {
  let state = before
  const events: ChatEvent[] = []
  for (const event of wire) {
    const [next, made] = state.ended ? ([state, []] as const) : stepEvent(state, event)
    state = next
    events.push(...made)
  }
  return [state, events]
}

function stepFrame(state: ParserState, frame: Frame): Step {
  if (frame.data === '' || frame.data === '[DONE]') return [state, []]
  const event = parseAnswer(frame.data)
  return event === undefined ? fail(state, 'a stream event is not JSON') : stepEvent(state, event)
}

function stepEvent(state: ParserState, event: unknown): Step {
  const type = typeof event === 'object' && event !== null && 'type' in event ? event.type : undefined
  switch (type) {
    case 'message_start': {
      const { message } = event as JsonObject
      if (!isObject(message)) return fail(state, 'message_start has no message')
      const id = nameOf(message.id)
      const [next, counted] = withUsage({ ...state, seed: id || state.seed }, message.usage)
      return [next, [{ kind: 'message-start', id, model: nameOf(message.model) }, ...counted]]
    }
    case 'content_block_start': {
      const { index, content_block } = event as JsonObject
      const block = readBlock(content_block)
      return isIndex(index) && block !== undefined
        ? startBlock(state, index, block)
        : fail(state, 'content_block_start has no block')
    }
    case 'content_block_delta': {
      // The most frequent event, so it is read field by field instead of with a schema.
      const { index, delta } = event as JsonObject
      return isIndex(index) && isObject(delta) && typeof delta.type === 'string'
        ? addDelta(state, index, delta)
        : fail(state, 'content_block_delta has no delta')
    }
    case 'content_block_stop': {
      const { index } = event as JsonObject
      return isIndex(index) ? stopBlock(state, index) : [state, []]
    }
    case 'message_delta': {
      const { delta, usage } = event as JsonObject
      const { stop_reason, stop_sequence, stop_details } = isObject(delta) ? delta : {}
      const [next, counted] = withUsage(state, usage)
      const stopReason = nameOf(stop_reason) ?? next.stopReason
      const stopped = typeof stop_sequence === 'string' ? { stopSequence: stop_sequence } : {}
      return [{ ...next, stopReason, ...stopped }, [...refusal(stop_details), ...counted]]
    }
    case 'message_stop':
      return finish(state)
    case 'error': {
      const parsed = errorSchema.safeParse(event)
      const fault = parsed.success
        ? faultOfEvent(parsed.data.error.type, parsed.data.error.message)
        : faultOfEvent(undefined, undefined)
      return [{ ...state, ended: true }, [errorEvent(fault)]]
    }
    case undefined:
    case 'completion': {
      const wire = eventsOfCompletion(event)
      return wire === undefined ? fail(state, 'a stream event has no type') : stepAll(state, wire)
    }
    default:
      // `ping` and future events: the protocol's versioning policy allows ignoring new ones.
      return [state, []]
  }
}

function withUsage(state: ParserState, counted: unknown): Step {
  const read = readUsage(counted)
  if (read === undefined) return [state, []]
  const usage = mergeUsage(state.usage, read)
  return [{ ...state, usage }, [{ kind: 'usage', usage: usageOf(usage) }]]
}

function startBlock(state: ParserState, index: number, block: WireBlock): Step {
  switch (block.type) {
    case 'text': {
      const open: OpenBlock = { kind: 'text', start: state.textLength, citations: block.citations }
      return addText(withOpen(state, index, open), block.text)
    }
    case 'thinking': {
      const [next, at] = openReasoning(state, index)
      // A block with withheld text still has a signature; both must be returned.
      const any = block.thinking !== '' || block.signature !== ''
      return [next, any ? [thinking(at, block.thinking, block.signature)] : []]
    }
    case 'redacted_thinking': {
      const [next, at] = openReasoning(state, index)
      return [next, [reasoning({ type: 'reasoning.encrypted', index: at, data: block.data })]]
    }
    case 'compaction': {
      const [next, at] = openReasoning(state, index)
      return [next, typeof block.content === 'string' ? [compaction(at, block.content)] : []]
    }
    case 'tool_use': {
      if (block.name === answerTool) {
        if (state.answered) return [withOpen(state, index, { kind: 'foreign' }), []]
        const next: ParserState = { ...state, answered: true }
        return [withOpen(next, index, { kind: 'answer', json: '', input: block.input }), []]
      }
      return startCall(state, index, block)
    }
    case 'server_tool_use': {
      const { id, name, input } = block
      const isSearch = name === 'web_search'
      return [
        withOpen(state, index, isSearch ? { kind: 'work', id, json: '', input } : { kind: 'foreign' }),
        [],
      ]
    }
    case 'web_search_tool_result': {
      const { tool_use_id, content } = block
      const [next, events] = addWork(state, {
        type: block.type,
        tool_use_id,
        content: (content ?? []) as Json,
      })
      const item = searchItem(state.query, content)
      const search = String(tool_use_id)
      const [counted, usage] = item.status === 'failed' ? [next, []] : addSearch(next)
      return [counted, [...events, { kind: 'gateway-item', choice: 0, item, search }, ...usage]]
    }
    default:
      return [withOpen(state, index, { kind: 'foreign' }), []]
  }
}

function startCall(state: ParserState, index: number, { id: theirs, name, input }: WireBlock): Step {
  if (name === '') return fail(state, 'a tool call has no name')
  const call = state.calls
  const id = nextCallId(state, theirs)
  const next = withOpen(state, index, { kind: 'call', call, json: '', input })
  return [
    { ...next, calls: call + 1 },
    [{ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined }],
  ]
}

/** A search with results is billed even if nothing else of the answer arrives. */
function addSearch(before: ParserState): Step {
  const state = { ...before, searches: before.searches + 1 }
  const { usage, searches } = state
  if (usage === undefined || count(usage.server_tool_use?.web_search_requests) >= searches) return [state, []]
  const counted = { ...usage, server_tool_use: { ...usage.server_tool_use, web_search_requests: searches } }
  return [{ ...state, usage: counted }, [{ kind: 'usage', usage: usageOf(counted) }]]
}

/** The steps of the provider's own search, carried along as reasoning. */
function addWork(state: ParserState, block: JsonObject): Step {
  const detail = detailOfWork(block, state.reasonings)
  if (detail === undefined) return [state, []]
  const reasonings = state.reasonings + 1
  return [{ ...state, reasonings }, [{ kind: 'reasoning-delta', choice: 0, detail }]]
}

function addDelta(state: ParserState, index: number, delta: JsonObject): Step {
  switch (delta.type) {
    case 'text_delta':
      return addText(state, text(delta.text))
    case 'input_json_delta':
      return addInput(state, index, text(delta.partial_json))
    case 'thinking_delta':
      return addThinking(state, index, text(delta.thinking), '')
    case 'signature_delta':
      return addThinking(state, index, '', text(delta.signature))
    case 'compaction_delta': {
      const open = state.open[index]
      if (open?.kind !== 'reasoning' || typeof delta.content !== 'string') return [state, []]
      return [state, [compaction(open.index, delta.content)]]
    }
    case 'citations_delta': {
      const open = state.open[index]
      if (open?.kind !== 'text') return [state, []]
      return [withOpen(state, index, { ...open, citations: [...open.citations, delta.citation] }), []]
    }
    default:
      return [state, []]
  }
}

function addInput(state: ParserState, index: number, piece: string): Step {
  const open = state.open[index]
  if (piece === '' || !(open?.kind === 'call' || open?.kind === 'answer' || open?.kind === 'work'))
    return [state, []]
  const next = withOpen(state, index, { ...open, json: open.json + piece })
  if (open.kind === 'answer') return addText(next, piece)
  if (open.kind === 'work') return [next, []]
  return [next, [{ kind: 'tool-call-delta', choice: 0, call: open.call, arguments: piece }]]
}

function addThinking(state: ParserState, index: number, piece: string, signature: string): Step {
  const open = state.open[index]
  if (open?.kind !== 'reasoning' || (piece === '' && signature === '')) return [state, []]
  return [state, [thinking(open.index, piece, signature)]]
}

function stopBlock(state: ParserState, index: number): Step {
  const open = state.open[index]
  if (open === undefined) return [state, []]
  const { [index]: _, ...others } = state.open
  const closed = { ...state, open: others }
  switch (open.kind) {
    case 'text':
      // A citation comes before its text, so its range is known only when the block is complete.
      return [
        closed,
        webAnnotations(open.citations, open.start, state.textLength).map((annotation) => ({
          kind: 'annotation',
          choice: 0,
          annotation,
        })),
      ]
    case 'call': {
      if (open.json !== '') return [{ ...closed, brokenCall: closed.brokenCall || !isJson(open.json) }, []]
      return [
        closed,
        [{ kind: 'tool-call-delta', choice: 0, call: open.call, arguments: inputText(open.input) }],
      ]
    }
    case 'work': {
      const input = open.json === '' ? open.input : parseJson(open.json)
      const block = { type: 'server_tool_use', id: open.id, name: 'web_search', input: (input ?? {}) as Json }
      const query = isObject(input) ? text(input.query) : ''
      const [next, events] = addWork({ ...closed, query }, block)
      return [next, [...events, { kind: 'search-start', choice: 0, search: open.id, query }]]
    }
    case 'answer':
      return open.json === '' ? addText(closed, inputText(open.input)) : [closed, []]
    default:
      return [closed, []]
  }
}

function finish(state: ParserState): Step {
  if (state.stopReason === undefined) return fail(state, 'the answer ended without a stop reason')
  return [
    { ...state, ended: true },
    [
      {
        kind: 'choice-finish',
        choice: 0,
        reason: finishReasonOf(entryOf(finishReasons, state.stopReason) ?? 'stop', state),
        native: state.stopReason,
        ...(state.stopSequence !== undefined && { stopSequence: state.stopSequence }),
        ...(state.stopReason === 'pause_turn' && { paused: true }),
      },
      { kind: 'finish' },
    ],
  ]
}

const finishReasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  // The provider's own tools took too long for one answer; the provider's reason tells clients that they may continue.
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'content_filter',
}

// ---- pieces -----------------------------------------------------------------------------------------------

function isIndex(value: unknown): value is number {
  return Number.isFinite(value)
}

/** A name or a word, where there is one. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** A text field of a delta; a missing or invalid one must not lose the rest. */
function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function fail(state: ParserState, message: string): Step {
  return [{ ...state, ended: true }, [errorEvent(fault('broken', message))]]
}

function openReasoning(state: ParserState, index: number): readonly [ParserState, number] {
  const at = state.reasonings
  return [{ ...withOpen(state, index, { kind: 'reasoning', index: at }), reasonings: at + 1 }, at]
}

/** Why the model declined, where it says so. */
function refusal(details: unknown): readonly ChatEvent[] {
  const text = isObject(details) ? nameOf(details.explanation) : undefined
  return text ? [{ kind: 'refusal-delta', choice: 0, text }] : []
}

type ReasoningEvent = Extract<ChatEvent, { kind: 'reasoning-delta' }>

function reasoning(detail: Omit<ReasoningEvent['detail'], 'format'>): ReasoningEvent {
  return { kind: 'reasoning-delta', choice: 0, detail: { ...detail, format: reasoningFormat } }
}

function thinking(index: number, text: string, signature: string): ReasoningEvent {
  return reasoning({ type: 'reasoning.text', index, text, ...(signature === '' ? {} : { signature }) })
}

function compaction(index: number, summary: string): ReasoningEvent {
  return reasoning({ type: 'reasoning.summary', index, id: compactionId, summary })
}

function inputText(input: unknown): string {
  return typeof input === 'object' && input !== null ? JSON.stringify(input) : '{}'
}

// Anthropic's citations as annotations of the joined text.

/**
 * The web sources of a text block, each for the whole block (start to end, UTF-16 offsets into the answer's text).
 * Citations of documents have no address and are left out.
 */
function webAnnotations(citations: readonly unknown[], start: number, end: number): Annotation[] {
  if (end <= start) return []
  return citations.flatMap((raw) => {
    const citation = citationSchema.safeParse(raw)
    if (!citation.success) return []
    const url = citation.data.url ?? citation.data.source ?? ''
    if (!/^https?:\/\//i.test(url)) return []
    return [{ kind: 'url-citation' as const, url, title: citation.data.title ?? '', start, end }]
  })
}

// Claude's events as Bedrock's direct invocation streams them: base64 inside chunks.

/** The same parser for chunks. Amazon's own exceptions end the answer like an `error` event. */
export function chunkParser(): StreamParser {
  const events = streamParser()
  let ended = false
  const note = (made: readonly ChatEvent[]) => {
    ended ||= made.some(({ kind }) => kind === 'finish' || kind === 'error')
    return made
  }
  return {
    push(frame) {
      if (ended) return []
      if (!frame.event?.startsWith(exceptionPrefix)) return note(events.push(unwrapFrame(frame)))
      const fault = faultOfException(frame.event.slice(exceptionPrefix.length), frame.data)
      return note([errorEvent(fault)])
    },
    end: () => (ended ? [] : events.end()),
  }
}

function unwrapFrame(frame: Frame): Frame {
  const chunk = parseJson(frame.data)
  const bytes = isObject(chunk) && typeof chunk.bytes === 'string' ? chunk.bytes : ''
  return { event: undefined, data: Buffer.from(bytes, 'base64').toString('utf8') }
}

// Classifies errors of this protocol by HTTP status, error type and message.

const kindOfType: Readonly<Record<string, FaultKind>> = {
  invalid_request_error: 'invalid-request',
  authentication_error: 'credentials',
  permission_error: 'credentials',
  billing_error: 'quota',
  not_found_error: 'not-found',
  request_too_large: 'invalid-request',
  rate_limit_error: 'rate-limited',
  timeout_error: 'timeout',
  api_error: 'broken',
  overloaded_error: 'overloaded',
}

/** Messages more specific than status and type. The first is recorded, the others documented or reported. */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [
    /prompt is too long|exceeds? (the )?context (limit|window)|input is too long|too many total text bytes/i,
    'context-length',
  ],
  [/credit balance is too low|usage limits?\b|spend(ing)? limit/i, 'quota'],
  [/content filtering policy|blocked by .*polic/i, 'content-filter'],
]

/** The fault of an error status. `body` is raw text: possibly HTML, empty, or another cloud's envelope. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const envelope = envelopeOf(body)
  const retryAfterMs = retryAfterOf(headers)
  if (envelope === undefined) return foreignFault(status, body, retryAfterMs)
  const kind = kindOf(status, envelope.type, envelope.message)
  return fault(kind, envelope.message, {
    param: kind === 'invalid-request' ? paramOf(envelope.message) : undefined,
    providerCode: envelope.type,
    status,
    retryAfterMs,
  })
}

/** The fault of an `error` event inside a stream with status 200. */
function faultOfEvent(type: string | undefined, message: string | undefined): Fault {
  const words = message ?? 'the provider reported an error'
  const kind = wordsKind(words) ?? (type === undefined ? undefined : entryOf(kindOfType, type)) ?? 'broken'
  return fault(kind, words, { providerCode: type })
}

function kindOf(status: number, type: string | undefined, message: string): FaultKind {
  const byWords = status < 500 && status !== 401 && status !== 404 ? wordsKind(message) : undefined
  if (byWords !== undefined) return byWords
  const byStatus = kindOfStatus(status)
  const byType = type === undefined ? undefined : entryOf(kindOfType, type)
  if (byStatus === 'invalid-request') return byType ?? byStatus
  return byStatus === 'broken' && (byType === 'overloaded' || byType === 'timeout') ? byType : byStatus
}

function wordsKind(message: string): FaultKind | undefined {
  return kindOfWords.find(([pattern]) => pattern.test(message))?.[1]
}

interface ErrorBody {
  readonly type: string | undefined
  readonly message: string
}

/** Anthropic's `{error:{type,message}}`, Google's `{error:{status,message}}` (Vertex), Amazon's `{message}`. */
function envelopeOf(body: string): ErrorBody | undefined {
  const parsed = parseJson(body)
  const outer: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isObject(outer)) return undefined
  const inner = isObject(outer.error) ? outer.error : outer
  const message = [inner.message, outer.message, outer.error].find(isText)
  const type = [inner.type, inner.status].find((value) => isText(value) && value !== 'error')
  return { type: isText(type) ? type : undefined, message: message ?? 'an error without a message' }
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** The field at fault: Anthropic's messages begin with its path ("messages.0.content: …"). */
function paramOf(message: string): string | undefined {
  return /^([a-z_]+(?:\.[a-z0-9_]+)*): /.exec(message)?.[1]
}

/** How long the provider asks to wait, milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date. */
function retryAfterOf(headers: Headers): number | undefined {
  const millis = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(millis) && millis > 0) return millis
  const after = headers.get('retry-after')
  if (after === null) return undefined
  const seconds = Number(after)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined
  // The date is relative to the provider's clock, not ours.
  const wait = Date.parse(after) - Date.parse(headers.get('date') ?? '')
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined
}
