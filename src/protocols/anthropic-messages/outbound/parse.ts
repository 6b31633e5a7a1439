// Parses Anthropic's answers: events of a stream, or a whole message as the same events.

import { z } from 'zod'
import type { Annotation, ChatEvent, Fault, FaultKind, FinishReason } from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../../conversation/usage.ts'
import { BlockParser } from '../../claude/content-blocks.ts'
import { compactionId, reasoningFormat } from '../../claude/models.ts'
import { detailOfWork, searchItem } from '../../claude/tools.ts'
import { errorEvent, fault, faultOfException, foreignFault, kindOfStatus } from '../../faults.ts'
import { exceptionIn } from '../../framing/decoder.ts'
import type { Frame } from '../../framing/sse.ts'
import {
  anything,
  entryOf,
  isObject,
  list,
  Malformed,
  number,
  object,
  parseAnswer,
  parseJson,
  text,
  type ValueRead,
} from '../../lenient.ts'
import type { AnthropicQuirks } from './quirks.ts'

// ---- the answer on the wire ------------------------------------------------------------------------------
// Loose on purpose: a field that is missing or of another type must not lose the rest of the answer.

const counters = {
  input_tokens: number,
  output_tokens: number,
  cache_read_input_tokens: number,
  cache_creation_input_tokens: number,
  cache_creation: object({ ephemeral_5m_input_tokens: number, ephemeral_1h_input_tokens: number }),
  output_tokens_details: object({ thinking_tokens: number }),
}

/** The counters of an answer; undefined without any. */
export const readUsage = object({
  ...counters,
  server_tool_use: object({ web_search_requests: number }),
  iterations: list(object(counters)),
  service_tier: text,
})

export type MessagesUsage = ValueRead<typeof readUsage>
type WireCounters = Pick<MessagesUsage, keyof typeof counters>

/** One block of content. `type` decides which of the fields matter. */
const readBlock = object({
  type: text,
  text,
  thinking: text,
  signature: text,
  data: text,
  id: text,
  tool_use_id: text,
  name: text,
  citations: list(anything),
})
type WireBlock = ValueRead<typeof readBlock>

const readCitation = object({ type: text, url: text, source: text, title: text })

const errorSchema = z.lazy(() =>
  z.object({ error: z.object({ type: z.string().optional(), message: z.string().optional() }) }),
)
type WireError = z.infer<typeof errorSchema>['error']

// ---- parsing the answer ----------------------------------------------------------------------------------

type Framing = AnthropicQuirks['framing']

/** A whole message as the events of an equivalent stream. */
export function parseWhole(body: unknown): readonly ChatEvent[] {
  const failure = errorSchema.safeParse(body)
  if (failure.success) return [errorEvent(faultOfEvent(failure.data.error))]
  const wire = eventsOfCompletion(body) ?? eventsOfMessage(body)
  if (wire === undefined) return [errorEvent(fault('broken', 'the answer is not a message of this protocol'))]
  return new MessagesParser('sse').readAll(wire)
}

/** The events that stream a message; undefined for anything else. */
function eventsOfMessage(body: unknown): readonly unknown[] | undefined {
  if (!isObject(body) || !Array.isArray(body.content)) return undefined
  const { type = 'message', id, model, content, usage, stop_reason, stop_sequence, stop_details } = body
  if (type !== 'message') return undefined
  return [
    { type: 'message_start', message: { id, model, usage } },
    ...content.flatMap((block, index) => [
      { type: 'content_block_start', index, content_block: block },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason, stop_sequence, stop_details } },
    { type: 'message_stop' },
  ]
}

/**
 * Parses the stream of one answer. A stream without `message_stop` ends in an error of kind `cut`. `document`: the answer
 * is to be one, of which no piece may be lost.
 */
export class MessagesParser extends BlockParser<unknown> {
  readonly #framing: Framing
  /** What the provider's own search looks for. */
  #query = ''
  /** How often it has found something. */
  #searches = 0
  #usage: MessagesUsage | undefined
  #stopReason: string | undefined
  #stopSequence: string | undefined
  readonly #malformed: Malformed

  constructor(framing: Framing, document?: true) {
    super({ lastEvent: 'message_stop', beforeText: '"type":"text_delta","text":"' })
    this.#framing = framing
    this.#malformed = new Malformed(document ? 'document' : 'words')
  }

  protected override readFrame(frame: Frame): void {
    let { data } = frame
    if (this.#framing === 'aws-event-stream') {
      // Amazon's own exceptions end the answer like an `error` event.
      const type = exceptionIn(frame)
      if (type !== undefined) return this.finish(errorEvent(faultOfException(type, data)))
      data = unwrapChunk(data)
    }
    if (data === '' || data === '[DONE]') return
    const event = parseAnswer(data)
    if (event !== undefined) this.read(event)
    else if (!this.#malformed.leaveOut(data, this.spoken)) this.fail('a stream event is not JSON')
  }

  protected override read(event: unknown): void {
    const { type, index, message, content_block, delta, usage }: JsonObject = isObject(event) ? event : {}
    switch (type) {
      case 'message_start': {
        if (!isObject(message)) return this.fail('message_start has no message')
        const id = text(message.id)
        this.seed = id || this.seed
        this.emit({ kind: 'message-start', id, model: text(message.model) })
        return this.#count(message.usage)
      }
      case 'content_block_start': {
        const block = readBlock(content_block)
        if (isIndex(index) && block?.type !== undefined) return this.#start(index, block)
        return this.fail('content_block_start has no block')
      }
      case 'content_block_delta':
        // The most frequent event, so it is read field by field instead of with a schema.
        if (isIndex(index) && isObject(delta) && typeof delta.type === 'string')
          return this.#addDelta(index, delta)
        return this.fail('content_block_delta has no delta')
      case 'content_block_stop':
        return isIndex(index) ? this.#stop(index) : undefined
      case 'message_delta': {
        const { stop_reason, stop_sequence, stop_details } = isObject(delta) ? delta : {}
        this.#stopReason = text(stop_reason) ?? this.#stopReason
        this.#stopSequence = text(stop_sequence) ?? this.#stopSequence
        // Why the model declined, where it says so.
        const refusal = isObject(stop_details) ? text(stop_details.explanation) : undefined
        if (refusal) this.emit({ kind: 'refusal-delta', choice: 0, text: refusal })
        return this.#count(usage)
      }
      case 'message_stop':
        return this.#end()
      case 'error':
        return this.finish(errorEvent(faultOfEvent(errorSchema.safeParse(event).data?.error ?? {})))
      case undefined:
      case 'completion': {
        const wire = eventsOfCompletion(event)
        if (wire === undefined) return this.fail('a stream event has no type')
        for (const each of wire) this.read(each)
        return
      }
      // `ping` and future events: the protocol's versioning policy allows ignoring new ones.
    }
  }

  #count(counted: unknown): void {
    const usage = readUsage(counted)
    if (usage === undefined) return
    this.#usage = mergeUsage(this.#usage, usage)
    this.emit({ kind: 'usage', usage: usageOf(this.#usage) })
  }

  #start(index: number, block: WireBlock): void {
    // A block that begins where another is open takes its place.
    if (block.type !== 'web_search_tool_result') this.open.delete(index)
    switch (block.type) {
      case 'text':
        this.openText(index, block.citations)
        return this.addText(block.text ?? '')
      case 'thinking': {
        const at = this.openReasoning(index)
        // A block with withheld text still has a signature; both must be returned.
        return this.#addThinking(at, block.thinking ?? '', block.signature ?? '')
      }
      case 'redacted_thinking':
        return this.#addOwn({
          type: 'reasoning.encrypted',
          index: this.openReasoning(index),
          data: block.data ?? '',
        })
      case 'compaction':
        return this.#addCompaction(this.openReasoning(index), block.content)
      case 'tool_use':
        return this.openCall(index, block.id ?? '', block.name ?? '', block.input)
      case 'web_search_tool_result':
        return this.#addResult(block)
      case 'server_tool_use':
        if (block.name === 'web_search') {
          this.open.set(index, { kind: 'search', id: block.id ?? '', json: '', input: block.input })
          return
        }
    }
    this.open.set(index, { kind: 'foreign' })
  }

  #addDelta(index: number, delta: JsonObject): void {
    const open = this.open.get(index)
    switch (delta.type) {
      case 'text_delta':
        this.addsOnlyText = true
        return this.addText(text(delta.text) ?? '')
      case 'input_json_delta':
        return this.addInput(index, text(delta.partial_json) ?? '')
      case 'thinking_delta':
        return open?.kind === 'reasoning'
          ? this.#addThinking(open.index, text(delta.thinking) ?? '', '')
          : undefined
      case 'signature_delta':
        return open?.kind === 'reasoning'
          ? this.#addThinking(open.index, '', text(delta.signature) ?? '')
          : undefined
      case 'compaction_delta':
        return open?.kind === 'reasoning' ? this.#addCompaction(open.index, delta.content) : undefined
      case 'citations_delta':
        if (open?.kind === 'text') open.citations.push(delta.citation)
    }
  }

  #stop(index: number): void {
    const open = this.close(index)
    // A citation comes before its text, so its range is known only when the block is complete.
    if (open?.kind === 'text') this.annotate(webAnnotations(open.citations, open.start, this.textLength))
    if (open?.kind !== 'search') return
    const input = open.json === '' ? open.input : parseJson(open.json)
    this.#query = (isObject(input) ? text(input.query) : undefined) ?? ''
    this.#addWork({
      type: 'server_tool_use',
      id: open.id,
      name: 'web_search',
      input: (input ?? {}) as Json,
    })
    this.emit({ kind: 'search-start', choice: 0, search: open.id, query: this.#query })
  }

  #addThinking(index: number, thinking: string, signature: string): void {
    if (thinking === '' && signature === '') return
    const signed = signature === '' ? {} : { signature }
    this.#addOwn({ type: 'reasoning.text', index, text: thinking, ...signed })
  }

  #addCompaction(index: number, summary: unknown): void {
    if (typeof summary !== 'string') return
    this.#addOwn({ type: 'reasoning.summary', index, id: compactionId, summary })
  }

  /** Adds reasoning that Claude takes back. */
  #addOwn(detail: Omit<ReasoningDetail, 'format'>): void {
    this.addReasoning({ ...detail, format: reasoningFormat })
  }

  /** A step of the provider's own search, carried along as reasoning. */
  #addWork(block: JsonObject): void {
    const detail = detailOfWork(block, this.nextReasoning)
    if (detail === undefined) return
    this.nextReasoning++
    this.addReasoning(detail)
  }

  #addResult({ type = '', tool_use_id = '', content }: WireBlock): void {
    this.#addWork({ type, tool_use_id, content: (content ?? []) as Json })
    const item = searchItem(this.#query, content)
    this.emit({ kind: 'gateway-item', choice: 0, item, search: tool_use_id })
    if (item.status === 'failed') return
    this.#searches++
    // A search with results is billed even if nothing else of the answer arrives.
    const counted = this.#usage?.server_tool_use
    if (this.#usage === undefined || count(counted?.web_search_requests) >= this.#searches) return
    this.#usage = {
      ...this.#usage,
      server_tool_use: { ...counted, web_search_requests: this.#searches },
    }
    this.emit({ kind: 'usage', usage: usageOf(this.#usage) })
  }

  #end(): void {
    const native = this.#stopReason
    if (native === undefined) return this.fail('the answer ended without a stop reason')
    this.finishWith(entryOf(finishReasons, native) ?? 'other', native, {
      ...(this.#stopSequence !== undefined && { stopSequence: this.#stopSequence }),
      ...(native === 'pause_turn' && { paused: true }),
    })
  }
}

const finishReasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  // The provider's own tools took too long for one answer: it is not whole, and clients that know the word continue it.
  pause_turn: 'other',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'content_filter',
}

/** What Bedrock's direct invocation wraps in a chunk: an event of Claude's, as base64. */
function unwrapChunk(data: string): string {
  const chunk = parseJson(data)
  return Buffer.from((isObject(chunk) && text(chunk.bytes)) || '', 'base64').toString('utf8')
}

function isIndex(value: unknown): value is number {
  return Number.isFinite(value)
}

// The older text completion protocol, which Claude 2 and Claude Instant still use at Amazon.

/**
 * The equivalent events for a whole completion or a part of a streamed one; undefined for anything else. Only Amazon's
 * streams count tokens, in the metrics of their last part.
 */
function eventsOfCompletion(value: unknown): readonly JsonObject[] | undefined {
  if (!isObject(value) || typeof value['completion'] !== 'string') return undefined
  const { completion, stop_reason } = value
  const text = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: completion } }
  if (typeof stop_reason !== 'string') return [text]
  const metrics = value['amazon-bedrock-invocationMetrics']
  const usage = isObject(metrics)
    ? { input_tokens: metrics['inputTokenCount'] ?? null, output_tokens: metrics['outputTokenCount'] ?? null }
    : null
  return [text, { type: 'message_delta', delta: { stop_reason }, usage }, { type: 'message_stop' }]
}

// Anthropic's citations as annotations of the joined text.

/**
 * The web sources of a text block, each for the whole block (start to end, UTF-16 offsets into the answer's text).
 * Citations of documents have no address and are left out.
 */
function webAnnotations(citations: readonly unknown[], start: number, end: number): Annotation[] {
  if (end <= start) return []
  return citations.flatMap((raw) => {
    const { type, url: named, source, title = '' } = readCitation(raw) ?? {}
    const url = named ?? source ?? ''
    if (type === undefined || !/^https?:\/\//i.test(url)) return []
    return [{ kind: 'url-citation' as const, url, title, start, end }]
  })
}

// ---- usage -----------------------------------------------------------------------------------------------
// Anthropic's counters as disjoint buckets: cached tokens are separate from the input count, thinking is
// inside the output.

/**
 * Merges a stream's counters with those of its next event, field by field. They are cumulative: later values replace
 * earlier ones unless they are smaller. Only `message_start` has the 5-minute and 1-hour split, so missing fields are
 * kept.
 */
export function mergeUsage(before: MessagesUsage | undefined, after: MessagesUsage): MessagesUsage {
  return { ...joinUsage(before, after), ...keptCounters(before, after) }
}

const promptFields = [
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cache_creation',
] as const

/**
 * The earlier values of fields whose later ones are smaller. The prompt is compared as a whole: a later event may say
 * that tokens of the input came from the cache, and to keep the input as well would count them twice. So are rounds: the
 * top level of the last event may count the last round alone.
 */
export function keptCounters(
  before: MessagesUsage | undefined,
  after: MessagesUsage,
): Partial<MessagesUsage> {
  if (before === undefined) return {}
  const earlier = spentOf(before)
  const later = spentOf(joinUsage(before, after))
  const promptShrinks = promptOf(later) < promptOf(earlier)
  const completionShrinks = later.completion < earlier.completion
  const fields: (keyof MessagesUsage)[] = []
  if (promptShrinks) fields.push(...promptFields)
  if (completionShrinks) fields.push('output_tokens')
  if (later.thinking < earlier.thinking) fields.push('output_tokens_details')
  if ((promptShrinks || completionShrinks) && before.iterations !== undefined) fields.push('iterations')
  return {
    ...Object.fromEntries(fields.map((field) => [field, before[field]])),
    ...keptSearches(before, after),
  }
}

/** The fields of both. A split that is more than the later total would count what it has lost once more. */
function joinUsage(before: MessagesUsage | undefined, after: MessagesUsage): MessagesUsage {
  const split = before?.cache_creation
  const written = counter(after.cache_creation_input_tokens)
  if (split === undefined || written === undefined || after.cache_creation !== undefined)
    return { ...before, ...after }
  const long = Math.min(written, count(split.ephemeral_1h_input_tokens))
  const short = Math.min(written - long, count(split.ephemeral_5m_input_tokens))
  const cache_creation = { ephemeral_1h_input_tokens: long, ephemeral_5m_input_tokens: short }
  return { ...before, ...after, cache_creation }
}

function keptSearches(
  before: MessagesUsage,
  { server_tool_use: later }: MessagesUsage,
): Partial<MessagesUsage> {
  const searches = count(before.server_tool_use?.web_search_requests)
  if (later === undefined || count(later.web_search_requests) >= searches) return {}
  return { server_tool_use: { ...later, web_search_requests: searches } }
}

/**
 * The whole call in disjoint buckets. Server-side rounds (compaction, an advisor) are listed in `iterations`, and
 * the top level leaves some of them out, so the sum of the rounds is what was consumed. Should the list be the
 * shorter account, the top level holds.
 */
function usageOf(wire: MessagesUsage): Usage {
  const spent = spentOf(wire)
  const { thinking } = spent
  const serviceTier = serviceTierOf(wire.service_tier)
  const searches = count(wire.server_tool_use?.web_search_requests)
  const rounds = wire.iterations?.length ?? 0
  const usage: Usage = {
    ...noUsage,
    input: spent.input,
    cacheRead: spent.cacheRead,
    cacheWrite5m: spent.cacheWrite5m,
    cacheWrite1h: spent.cacheWrite1h,
    output: spent.completion - thinking,
    reasoning: thinking,
    toolCalls: searches > 0 ? { web_search: searches } : {},
    ...(serviceTier && { serviceTier }),
    ...(rounds > 1 && { rounds }),
  }
  return withUncounted(usage, {
    prompt: counter(wire.input_tokens) ?? positive(promptOf(spent)),
    completion: counter(wire.output_tokens) ?? positive(spent.completion),
  })
}

/** What was consumed, with the thinking of all rounds. */
function spentOf(wire: MessagesUsage): Buckets {
  const top = bucketsOf(wire)
  const rounds = (wire.iterations ?? []).map(bucketsOf)
  const summed = rounds.reduce(add, bucketsOf({}))
  const spent = total(summed) >= total(top) && rounds.length > 0 ? summed : top
  return { ...spent, thinking: Math.min(spent.completion, Math.max(summed.thinking, top.thinking)) }
}

function positive(tokens: number): number | undefined {
  return tokens > 0 ? tokens : undefined
}

interface Buckets {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite5m: number
  readonly cacheWrite1h: number
  readonly completion: number
  readonly thinking: number
}

function bucketsOf(wire: WireCounters): Buckets {
  const long = count(wire.cache_creation?.ephemeral_1h_input_tokens)
  const short = count(wire.cache_creation?.ephemeral_5m_input_tokens)
  // The total may have grown since the split was sent: the increase is attributed in the same way.
  const written = Math.max(count(wire.cache_creation_input_tokens), long + short)
  const onlyLong = long > 0 && short === 0
  return {
    input: count(wire.input_tokens),
    cacheRead: count(wire.cache_read_input_tokens),
    cacheWrite5m: onlyLong ? 0 : written - long,
    cacheWrite1h: onlyLong ? written : long,
    completion: count(wire.output_tokens),
    thinking: count(wire.output_tokens_details?.thinking_tokens),
  }
}

function add(a: Buckets, b: Buckets): Buckets {
  return {
    input: a.input + b.input,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite5m: a.cacheWrite5m + b.cacheWrite5m,
    cacheWrite1h: a.cacheWrite1h + b.cacheWrite1h,
    completion: a.completion + b.completion,
    thinking: a.thinking + b.thinking,
  }
}

function promptOf(buckets: Buckets): number {
  return buckets.input + buckets.cacheRead + buckets.cacheWrite5m + buckets.cacheWrite1h
}

function total(buckets: Buckets): number {
  return promptOf(buckets) + buckets.completion
}

// ---- faults ----------------------------------------------------------------------------------------------
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
function faultOfEvent({ type, message = 'the provider reported an error' }: WireError): Fault {
  const kind = wordsKind(message) ?? (type === undefined ? undefined : entryOf(kindOfType, type)) ?? 'broken'
  return fault(kind, message, { providerCode: type })
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
