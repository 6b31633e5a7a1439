// Parses Cohere's answers: events of a stream, or a whole answer as the same events.

import type { Annotation, ChatEvent, Fault, FaultKind, FinishReason } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { count, counter, disjoint, type Usage } from '../../conversation/usage.ts'
import { EventParser } from '../event-parser.ts'
import { errorEvent, fault, foreignFault, kindOfStatus, retryAfterMs } from '../faults.ts'
import type { Frame } from '../framing/sse.ts'
import { CollectedText, entryOf, isObject, nonEmpty, parseJson } from '../lenient.ts'
import { callIdOf, mintedId } from '../names.ts'
import type { StreamParser } from '../protocol.ts'
import {
  answerSchema,
  callOf,
  type CallStart,
  citationSchema,
  citationStartSchema,
  type CohereUsage,
  indexOf,
  logprobSchema,
  messageEndSchema,
  messageIn,
  textOf,
  type WireEnd,
} from './schema.ts'

/** Parses the stream of one answer. A stream without `message-end` ends in an error of kind `cut`. */
export function streamParser(): StreamParser {
  return new CohereParser()
}

/** A whole answer as the events that the same answer would have streamed. */
export function parseWhole(body: unknown): readonly ChatEvent[] {
  const answer = answerSchema.safeParse(body).data
  if (answer === undefined)
    return [errorEvent(faultInside(body) ?? fault('broken', 'the answer is not one of this protocol'))]
  const { id, message, logprobs, ...end } = answer
  const about = (type: string, index: number, said: object) => ({ type, index, delta: { message: said } })
  return new CohereParser().readAll([
    { type: 'message-start', id },
    about('tool-plan-delta', 0, { tool_plan: message.tool_plan ?? '' }),
    ...(message.content ?? []).map((content, index) => about('content-start', index, { content })),
    ...(logprobs ?? []).map((item) => ({ ...about('content-delta', 0, { content: {} }), logprobs: item })),
    ...(message.tool_calls ?? []).map((call, index) => about('tool-call-start', index, { tool_calls: call })),
    ...(message.citations ?? []).map((citations) => about('citation-start', 0, { citations })),
    { type: 'message-end', delta: end },
  ])
}

class CohereParser extends EventParser<unknown> {
  /** What ids of calls are made from: the answer's own id, where it has one. */
  #seed: string = crypto.randomUUID()
  readonly #callIds = new Set<string>()
  readonly #text = new CollectedText()
  /** Where each block begins in the text, by index. */
  readonly #bases: Record<number, number> = {}
  /** Kept until the end: the text that a citation quotes may still be on its way. */
  readonly #citations: Cited[] = []
  /** The block index of each reasoning piece so far, in order. */
  readonly #thoughts: number[] = []
  /** The provider's index of each call, in order, and its arguments so far. */
  readonly #calls: { readonly index: number; json: string }[] = []

  constructor() {
    super({ lastEvent: 'message-end', beforeText: '"content":{"text":"' })
  }

  protected override keepText(text: string): void {
    super.keepText(text)
    this.#text.add(text)
  }

  protected override readFrame({ data }: Frame): void {
    if (data !== '' && data !== '[DONE]') this.read(parseJson(data))
  }

  protected override read(event: unknown): void {
    const type = isObject(event) ? event.type : undefined
    if (!isObject(event) || typeof type !== 'string' || type === 'error')
      return this.finish(errorEvent(faultInside(event) ?? fault('broken', 'a stream event has no type')))
    if (!this.#readEvent(type, event)) this.fail(`${type} cannot be read`)
  }

  /** Whether the event can be read. Those of other types are ignored. */
  #readEvent(type: string, event: JsonObject): boolean {
    const index = indexOf(event)
    const message = messageIn(event)
    switch (type) {
      case 'message-start': {
        const { id } = event
        this.#seed = textOf(id) || this.#seed
        this.emit({
          kind: 'message-start',
          id: typeof id === 'string' ? id : undefined,
          model: undefined,
        })
        return true
      }
      case 'tool-plan-delta':
        this.addText(textOf(message?.tool_plan))
        return message !== undefined
      case 'content-start':
      case 'content-delta': {
        const content = message?.content
        if (!isObject(content)) return false
        this.addsOnlyText = type === 'content-delta'
        // The words of a plan stand before the first block: citations count per block.
        if (type === 'content-start') this.#bases[index] = this.textLength
        this.#addContent(index, content)
        if (type === 'content-delta' && event.logprobs !== undefined) this.#addLogprobs(event.logprobs)
        return true
      }
      case 'citation-start': {
        const started = citationStartSchema.safeParse(event).data
        if (started) this.#addCitation(started.delta.message.citations)
        return started !== undefined
      }
      case 'tool-call-start': {
        const started = callOf(message?.tool_calls)
        if (started) this.#startCall(index, started)
        return started !== undefined
      }
      case 'tool-call-delta': {
        const calls = message?.tool_calls
        const called = isObject(calls) ? calls.function : undefined
        if (!isObject(called)) return false
        this.#addArguments(index, textOf(called.arguments))
        return true
      }
      case 'message-end': {
        const ended = messageEndSchema.safeParse(event).data
        if (ended) this.#end(ended.delta)
        return ended !== undefined
      }
      default:
        return true
    }
  }

  #addContent(index: number, content: JsonObject): void {
    this.addText(textOf(content.text))
    const thinking = textOf(content.thinking)
    if (thinking === '') return
    if (!this.#thoughts.includes(index)) this.#thoughts.push(index)
    const at = this.#thoughts.indexOf(index)
    const detail = { type: 'reasoning.text', format: null, index: at, text: thinking } as const
    this.emit({ kind: 'reasoning-delta', choice: 0, detail })
  }

  /** A stretch may be of several tokens: their probabilities multiply, so the logarithms add up. */
  #addLogprobs(item: unknown): void {
    const token = logprobSchema.safeParse(item).data
    if (token === undefined || token.logprobs.length === 0) return
    const entry: Json = {
      token: token.text,
      logprob: token.logprobs.reduce((sum, each) => sum + each, 0),
      bytes: [...Buffer.from(token.text)],
      top_logprobs: [],
    }
    this.emit({ kind: 'logprobs', choice: 0, content: [entry], refusal: [] })
  }

  #addCitation(citation: unknown): void {
    const block = citationSchema.safeParse(citation).data?.content_index
    // Without a block index it is the text block, of which there is only one.
    const lastBase = Object.values(this.#bases).at(-1) ?? 0
    const base = block === undefined ? lastBase : (this.#bases[block] ?? lastBase)
    this.#citations.push({ citation, base })
  }

  #startCall(index: number, started: CallStart): void {
    const { name } = started
    if (name === '') return this.fail('a tool call has no name')
    const call = this.#calls.length
    const id = callIdOf(started.id, this.#callIds, () => mintedId(this.#seed, call))
    this.#calls.push({ index, json: '' })
    this.emit({ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined })
    this.#addArguments(index, started.arguments)
  }

  /** Held back while it may become `null`, which is how calls without arguments may be written. */
  #addArguments(index: number, text: string): void {
    const at = this.#calls.findLastIndex((call) => call.index === index)
    const call = this.#calls[at]
    if (call === undefined || text === '') return
    const before = call.json
    call.json += text
    if (mayBeNull(call.json)) return
    const held = mayBeNull(before) ? before : ''
    this.emit({ kind: 'tool-call-delta', choice: 0, call: at, arguments: held + text })
  }

  #end({ finish_reason: native, usage: counted, error, error_type: type }: WireEnd): void {
    if (native == null) return this.fail('the answer ended without a finish reason')
    const usage = usageOf(counted)
    if (native === 'ERROR' || native === 'TIMEOUT') {
      if (usage !== undefined) this.emit({ kind: 'usage', usage })
      return this.finish(errorEvent(faultOfFinish(native, error ?? undefined, type ?? undefined)))
    }
    const reason = entryOf(reasons, native) ?? 'stop'
    // Calls must be answered whatever the reason; only the token limit can have cut one off.
    const isWhole = ({ json }: { json: string }) => mayBeNull(json) || isObject(parseJson(json))
    const mustAnswer = this.#calls.length > 0 && (reason !== 'length' || this.#calls.every(isWhole))
    for (const [call, { json }] of this.#calls.entries())
      if (mayBeNull(json)) this.emit({ kind: 'tool-call-delta', choice: 0, call, arguments: '{}' })
    const text = this.#text.toString()
    for (const annotation of this.#citations.flatMap((cited) => annotationsOf(cited, text)))
      this.emit({ kind: 'annotation', choice: 0, annotation })
    if (usage !== undefined) this.emit({ kind: 'usage', usage })
    this.emit({
      kind: 'choice-finish',
      choice: 0,
      reason: mustAnswer ? 'tool_calls' : reason === 'tool_calls' ? 'stop' : reason,
      native,
    })
    this.finish()
  }
}

/** Only short texts are checked: trimming a long one on every delta would be quadratic. */
function mayBeNull(text: string): boolean {
  return text.length < 16 && 'null'.startsWith(text.trim())
}

const reasons: Readonly<Record<string, FinishReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool_calls',
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
