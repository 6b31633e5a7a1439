// Client and provider both speak chat completions, but the provider's frames deviate from the wire contract:
// each frame is mended, every unknown field stays, and the finish and the usage wait for the charge.

import type { FinishReason } from '../../../conversation/event.ts'
import { Delivered } from '../../../conversation/delivered.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { laterUsage, type Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import { isObject, parseJson } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { ContentTemplate } from './content-template.ts'
import { argumentsDelta, chunkHead, closingFrames, failingFrames } from '../inbound/encode.ts'
import { wireAnnotation } from '../../openai/message-fields.ts'
import { type CitationQuirks, defaultQuirks } from '../outbound/quirks.ts'
import { CallRepair } from './repair-calls.ts'
import { errorIn } from '../../openai/fault.ts'
import { failureOf, finishReasonOf, isReason, wordOf } from '../../openai/finish.ts'
import { fieldsOf, indexOf, mend, mintedId } from './repair-message.ts'
import { citationsOf, type Source, sourcesIn } from '../outbound/sources.ts'
import { tierIn, usageIn } from '../../openai/upstream-usage.ts'
import type { UsageQuirks } from '../../openai/quirks.ts'

/** Events that were mended without being parsed. */
interface MendedRun {
  /** The events for the client, including blank lines. */
  readonly text: string
  /** The position behind the last of theirs. */
  readonly end: number
}

interface OpenChoice {
  readonly calls: CallRepair
  /** The text so far, kept only where citations are looked up in it. */
  text: string
  ending: { native: string; logprobs: Json; choiceFields: JsonObject; chunkFields: JsonObject } | undefined
}

/**
 * Mends one stream. Feed it every frame of the provider, then end with `finish` when `finished`, else with `fail`.
 * It withholds usage, finish reasons and `[DONE]` until then, and counts what has passed.
 */
export class FrameRepair {
  /** What the provider has counted, the last count if there were several. */
  usage: Usage | undefined
  /** The provider's error, where it sent one inside the stream; nothing is forwarded after it. */
  error: Json | undefined
  /** Whether the provider said `[DONE]`. */
  done = false
  readonly delivered = new Delivered()
  /** The provider's id of the answer; the client sees ours. */
  id: string | undefined

  readonly #context: AnswerContext
  readonly #quirks: CitationQuirks & UsageQuirks
  readonly #cites: boolean
  readonly #choices = new Map<number, OpenChoice>()
  /** How many of them have no finish reason yet. */
  #unended = 0
  #template: ContentTemplate | undefined
  /** The choice that the template's frames belong to, and that of the last frame. */
  #templateChoice = 0
  #lastChoice = 0
  /** What the text cites by number. */
  #sources: readonly Source[] = []
  /** The service tier that the answer has named last. */
  #tier: string | undefined
  /** Fields of frames that are not sent themselves, and our own; they ride on the next chunk. */
  #carried: JsonObject

  constructor(context: AnswerContext, quirks: CitationQuirks & UsageQuirks = defaultQuirks) {
    this.#context = context
    this.#quirks = quirks
    this.#cites = quirks.numberedCitations
    this.#carried = { ...context.extra }
  }

  /** Whether content has been seen: from here on no failover is possible. */
  get started(): boolean {
    return this.delivered.any
  }

  /** Whether every choice has its finish reason: a stream that ends without this was cut. */
  get finished(): boolean {
    return this.error === undefined && this.#choices.size > 0 && this.#unended === 0
  }

  /** How many choices have begun. */
  get begun(): number {
    return this.#choices.size
  }

  /** Whether this choice has its finish reason. */
  hasEnded(index: number): boolean {
    return this.#choices.get(index)?.ending !== undefined
  }

  /** Why the first answer ended, in the words of the wire contract. */
  get finishReason(): FinishReason | undefined {
    const choice = this.#choices.get(0)
    return choice?.ending && finishReasonOf(choice.ending.native, choice.calls.state)
  }

  /** The mended frames of one upstream frame. After an error or `[DONE]` nothing more is taken. */
  push(frame: Frame): Frame[] {
    if (this.done || this.error !== undefined) return []
    const data = frame.data.trim()
    // A sign of life of some servers.
    if (data === '') return []
    if (data === '[DONE]') {
      this.done = true
      return []
    }
    const unburdened = isEmpty(this.#carried) && !this.#cites
    const text = unburdened ? this.#template?.textOf(frame.data) : undefined
    if (this.#template && text !== undefined) {
      this.delivered.add(this.#templateChoice, 'output', unescapeText(text))
      return [{ event: undefined, data: this.#template.mend(text) }]
    }
    const mended = this.#parsed(frame)
    // Fields carried over from frames before belong to this one alone: nothing may be learnt from it.
    if (unburdened && mended.length === 1) {
      const learnt = ContentTemplate.learn(frame, mended[0]!)
      if (learnt) {
        this.#template = learnt
        this.#templateChoice = this.#lastChoice
      }
    }
    return mended
  }

  /**
   * The events of a text that need not be parsed, mended: those that stand in a row from `at` on, where an event
   * begins, and differ in their text alone from one that has been. Undefined where the next one is not like that.
   */
  run(events: string, at: number): MendedRun | undefined {
    if (!this.#template || this.done || this.error !== undefined) return undefined
    if (!isEmpty(this.#carried)) return undefined
    const run = this.#template.run(events, at)
    if (!run) return undefined
    this.delivered.add(this.#templateChoice, 'output', unescapeText(run.content))
    return { text: this.#template.write(run.texts), end: run.end }
  }

  #parsed(frame: Frame): Frame[] {
    const chunk = parseJson(frame.data)
    this.error = errorIn(frame, chunk)
    if (!isObject(chunk)) {
      this.error ??= { message: 'The provider sent a frame that is not a JSON object.' }
      return []
    }
    // Some providers count on every chunk, cumulatively: the last count holds. What was counted up to an error is
    // owed all the same.
    this.#tier = tierIn(chunk) ?? this.#tier
    const counted = usageIn(chunk, this.#quirks, this.#tier)
    if (counted) this.usage = laterUsage(this.usage, counted)
    const frames = this.error === undefined ? this.#chunk(chunk) : []
    if (counted) this.delivered.count(counted)
    return frames
  }

  /** What is left open is closed: empty calls, the finish of each choice, the usage if asked for, `[DONE]`. */
  finish(usage: Usage, bill: Bill): Frame[] {
    const frames: Frame[] = []
    for (const [index, choice] of [...this.#choices].toSorted(([a], [b]) => a - b)) {
      for (const call of choice.calls.withoutArguments())
        frames.push(this.#frame(index, argumentsDelta(call, '{}')))
      const annotations = citationsOf(choice.text, this.#sources).map(wireAnnotation)
      if (annotations.length > 0) frames.push(this.#frame(index, { annotations }))
      const { native, logprobs, choiceFields, chunkFields } = choice.ending ?? plainStop
      this.#carry(chunkFields)
      const finish = finishReasonOf(native, choice.calls.state)
      frames.push(this.#frame(index, {}, { ...choiceFields, logprobs, finish_reason: finish }))
    }
    return [...frames, ...closingFrames(this.#context, usage, bill, this.#carried)]
  }

  fail(error: RenderedError): Frame[] {
    return failingFrames(
      this.#context,
      error,
      [...this.#choices.keys()].toSorted((a, b) => a - b),
    )
  }

  #chunk(chunk: JsonObject): Frame[] {
    const { choices, unknown } = fieldsOf(chunk)
    if (this.#cites) this.#sources = sourcesIn(chunk) ?? this.#sources
    this.#carry(unknown)
    if (!Array.isArray(choices)) return []
    const frames: Frame[] = []
    for (let position = 0; position < choices.length; position++) {
      const choice = choices[position]
      if (isObject(choice)) this.#choice(choice, position, frames)
    }
    return frames
  }

  #choice(raw: JsonObject, position: number, frames: Frame[]): void {
    const { index: given, delta, finish_reason, logprobs = null, message, ...choiceFields } = raw
    const index = indexOf(given, position)
    const known = this.#choices.get(index)
    // `message` repeats the whole text so far at Perplexity; clients that merge choices would see it twice. It counts
    // only where it comes in place of the first delta.
    const whole = known === undefined && isObject(message) ? message : {}
    const mended = mend(isObject(delta) ? delta : whole)
    const choice = known ?? this.#open(index)
    this.#lastChoice = index

    const deltas = this.#deltasOf(mended, choice, index)
    const before = frames.length
    // The role chunk goes alone when content follows at once; otherwise it takes the fields that came with it.
    if (!known) {
      const role = { role: 'assistant', content: '' }
      const fields = deltas.length === 0 && !isReason(finish_reason) ? { ...choiceFields, logprobs } : {}
      frames.push(this.#frame(index, role, fields))
    }
    let besides: JsonObject | undefined = { ...choiceFields, logprobs }
    for (const piece of deltas) {
      frames.push(this.#frame(index, piece, besides))
      // They go with the first.
      besides = undefined
    }
    if (deltas.length > 0) this.delivered.addOpaque()
    if (isReason(finish_reason)) this.#end(choice, finish_reason, besides && { choiceFields, logprobs })
    else if (frames.length === before && (logprobs !== null || !isEmpty(choiceFields))) {
      frames.push(this.#frame(index, { content: '' }, besides))
    }
  }

  #open(index: number): OpenChoice {
    const calls = new CallRepair((call) => mintedId(this.#context, index, call))
    const choice: OpenChoice = { calls, text: '', ending: undefined }
    this.#choices.set(index, choice)
    this.#unended += 1
    return choice
  }

  #end(
    choice: OpenChoice,
    native: string,
    fields: { choiceFields: JsonObject; logprobs: Json } | undefined,
  ): void {
    if (failureOf(native) !== undefined) {
      this.error = fields?.choiceFields['error'] ?? {
        message: `The provider ended the answer with '${native}'.`,
        code: wordOf(native),
      }
      return
    }
    if (choice.calls.hasNameless) {
      this.error = { message: 'The provider sent a tool call without a name.' }
      return
    }
    // The fields of the chunk that finishes go with the finish, not with whatever chunk comes before it.
    const chunkFields = this.#carried
    this.#carried = {}
    if (choice.ending === undefined) this.#unended -= 1
    choice.ending = {
      native,
      logprobs: fields?.logprobs ?? null,
      choiceFields: fields?.choiceFields ?? {},
      chunkFields,
    }
  }

  /** The deltas to send for one upstream delta: the message's fields in one, each entry of a call in its own. */
  #deltasOf(mended: ReturnType<typeof mend>, choice: OpenChoice, index: number): JsonObject[] {
    const { text, refusal, reasoning, details, toolCalls, fields } = mended
    const message: JsonObject = {}
    if (text !== '') message.content = text
    if (refusal !== '') message.refusal = refusal
    if (reasoning !== '') message.reasoning_content = reasoning
    if (details.length > 0) message.reasoning_details = [...details]
    for (const name in fields) message[name] = fields[name]!
    if (this.#cites) choice.text += text
    // This may throw: nothing of the delta is counted then.
    const calls = toolCalls.length === 0 ? noCalls : choice.calls.step(toolCalls)
    if (text !== '') this.delivered.add(index, 'output', text)
    if (refusal !== '') this.delivered.add(index, 'output', refusal)
    const deltas = isEmpty(message) ? [] : [message]
    for (const call of calls) {
      const called = calledIn(call)
      if (called !== '') this.delivered.add(index, 'output', called)
      deltas.push({ tool_calls: [call] })
    }
    if (reasoning !== '') this.delivered.add(index, 'reasoning', reasoning)
    return deltas
  }

  #carry(fields: JsonObject): void {
    if (!isEmpty(fields)) this.#carried = { ...this.#carried, ...fields }
  }

  #frame(index: number, delta: JsonObject, fields?: JsonObject): Frame {
    const chunk = chunkHead(this.#context)
    chunk.choices = [{ index, delta, logprobs: null, finish_reason: null, ...fields }]
    if (this.#context.includeUsage) chunk.usage = null
    // What was carried may have any name, even one that only spreading copies as it is.
    const whole = isEmpty(this.#carried) ? chunk : { ...chunk, ...this.#carried }
    if (whole !== chunk) this.#carried = {}
    return { event: undefined, data: JSON.stringify(whole) }
  }
}

const noCalls: readonly JsonObject[] = []

const plainStop: NonNullable<OpenChoice['ending']> = {
  native: 'stop',
  logprobs: null,
  choiceFields: {},
  chunkFields: {},
}

function isEmpty(fields: JsonObject): boolean {
  for (const _ in fields) return false
  return true
}

/** What a delta of a call adds to what the model has written. */
function calledIn({ function: piece }: JsonObject): string {
  if (!isObject(piece)) return ''
  return String(piece.name ?? '') + String(piece.arguments ?? '')
}

/** The text of a JSON string's body; an escape that JSON does not know stays as it is. */
function unescapeText(body: string): string {
  if (!body.includes('\\')) return body
  const text = parseJson(`"${body}"`)
  return typeof text === 'string' ? text : body
}
