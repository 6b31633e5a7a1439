// Client and provider both speak chat completions, but the provider's frames deviate from the wire contract:
// each frame is mended, every unknown field stays, and the finish and the usage wait for the charge.

import { Delivered } from '../../../conversation/delivered.ts'
import type { FinishReason } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { laterUsage, type Usage } from '../../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../../errors/errors.ts'
import { define } from '../../../json/json.ts'
import type { Frame } from '../../framing/sse.ts'
import { ContentTemplate } from '../../framing/text-template.ts'
import { hasNoFields, isObject, Malformed, parseJson, type Spoken, stringIn } from '../../lenient.ts'
import {
  argumentText,
  callsState,
  isAnotherCall,
  newArguments,
  wireAnnotation,
} from '../../openai/messages.ts'
import { wireWarnings } from '../../lowering.ts'
import {
  errorIn,
  failureOf,
  finishReasonOf,
  isReason,
  tierIn,
  usageIn,
  usageObject,
  wireFinish,
  wireUsage,
  wordOf,
} from '../../openai/usage.ts'
import type { UsageQuirks } from '../../openai/parameters.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { argumentsDelta, chunkHead, closingFrames, failingFrames } from '../inbound/inbound.ts'
import {
  choiceIndex,
  citationsOf,
  reasoningPartText,
  type NumberedSource,
  sourcesIn,
} from '../outbound/parse.ts'
import { type CitationQuirks, defaultQuirks } from '../outbound/quirks.ts'

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
  #sources: readonly NumberedSource[] = []
  /** The service tier that the answer has named last. */
  #tier: string | undefined
  readonly #malformed: Malformed
  /** Fields of frames that are not sent themselves, and our own; they ride on the next chunk. */
  #carried: JsonObject
  #counters: JsonObject | undefined

  /** `answer`: whether it is to be a document, of which no piece may be lost. */
  constructor(
    context: AnswerContext,
    quirks: CitationQuirks & UsageQuirks = defaultQuirks,
    answer: 'words' | 'document' = 'words',
  ) {
    this.#context = context
    this.#malformed = new Malformed(answer)
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
    const unburdened = hasNoFields(this.#carried) && !this.#cites
    const text = unburdened ? this.#template?.textOf(frame.data) : undefined
    if (this.#template && text !== undefined) {
      this.delivered.add(this.#templateChoice, 'output', unescapeText(text))
      return [{ event: undefined, data: this.#template.mend(text) }]
    }
    const mended = this.#parse(frame)
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
    if (!hasNoFields(this.#carried)) return undefined
    const run = this.#template.run(events, at)
    if (!run) return undefined
    this.delivered.add(this.#templateChoice, 'output', unescapeText(run.content))
    return { text: this.#template.write(run.texts), end: run.end }
  }

  #parse(frame: Frame): Frame[] {
    const chunk = parseJson(frame.data)
    this.error = errorIn(frame, chunk)
    if (!isObject(chunk)) {
      if (this.error === undefined && this.#malformed.leaveOut(frame.data, this.#spoken)) return []
      this.error ??= { message: 'The provider sent a frame that is not a JSON object.' }
      return []
    }
    // Some providers count on every chunk, cumulatively: the last count holds. What was counted up to an error is
    // owed all the same.
    this.#tier = tierIn(chunk) ?? this.#tier
    const counted = usageIn(chunk, this.#quirks, this.#tier)
    if (counted) {
      this.usage = laterUsage(this.usage, counted)
      this.#counters = usageObject(chunk)
    }
    const frames = this.error === undefined ? this.#chunk(chunk) : []
    if (counted) this.delivered.count(counted)
    return frames
  }

  get #spoken(): Spoken {
    if (!this.delivered.any) return 'nothing'
    return this.#choices.values().some(({ calls }) => calls.hasBegun) ? 'calls' : 'words'
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
      const ending = { ...wireFinish(native, choice.calls.state), ...choiceFields, logprobs }
      frames.push(this.#frame(index, {}, ending))
    }
    return [...frames, ...closingFrames(this.#context, usage, bill, this.#carried, this.#counters)]
  }

  fail(error: RenderedError): Frame[] {
    return failingFrames(this.#context, error, this.#choices.keys())
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
    const index = choiceIndex(given, position)
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
    else if (frames.length === before && (logprobs !== null || !hasNoFields(choiceFields))) {
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
    const deltas = hasNoFields(message) ? [] : [message]
    for (const call of calls) {
      const called = calledIn(call)
      if (called !== '') this.delivered.add(index, 'output', called)
      deltas.push({ tool_calls: [call] })
    }
    if (reasoning !== '') this.delivered.add(index, 'reasoning', reasoning)
    return deltas
  }

  #carry(fields: JsonObject): void {
    if (!hasNoFields(fields)) this.#carried = { ...this.#carried, ...fields }
  }

  #frame(index: number, delta: JsonObject, fields?: JsonObject): Frame {
    const chunk = chunkHead(this.#context)
    chunk.choices = [{ index, delta, logprobs: null, finish_reason: null, ...fields }]
    if (this.#context.includeUsage) chunk.usage = null
    // What was carried may have any name, even one that only spreading copies as it is.
    const whole = hasNoFields(this.#carried) ? chunk : { ...chunk, ...this.#carried }
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

// Repairs tool-call deltas to the wire contract: numbered without gaps, the name once, then arguments only.

interface Call {
  readonly index: number
  readonly id: string
  /** The provider's id; ours differs if another call had it first. */
  readonly theirId: string
  readonly name: string
  /** The provider's own index, where it sent one. */
  readonly theirs: number | undefined
  arguments: string
}

/** What came of a call before its name. */
interface Nameless {
  readonly id: string | undefined
  readonly arguments: string
}

/** The first call with an id: of all, of those without a provider index, and under each index. */
interface SameId {
  readonly first: Call
  unnumbered: Call | undefined
  readonly numbered: Map<number, Call>
}

/** Follows the tool calls of one choice. */
class CallRepair {
  readonly #calls: Call[] = []
  readonly #sameId = new Map<string, SameId>()
  /** The latest call under each provider index. */
  readonly #latest = new Map<number, Call>()
  /** Under the provider's index, or none. */
  readonly #nameless = new Map<number | undefined, Nameless>()
  readonly #mintId: (index: number) => string

  /** `mintId` generates an id for a call without one. */
  constructor(mintId: (index: number) => string) {
    this.#mintId = mintId
  }

  get state(): ReturnType<typeof callsState> {
    return callsState(this.#calls.map((call) => call.arguments))
  }

  get hasBegun(): boolean {
    return this.#calls.length + this.#nameless.size > 0
  }

  /** Whether there was a call without a function name, which nobody can run. */
  get hasNameless(): boolean {
    return this.#nameless.size > 0
  }

  /** Calls that ended without arguments; each still needs its `{}`. */
  withoutArguments(): number[] {
    return this.#calls.filter((call) => call.arguments === '').map((call) => call.index)
  }

  /** Our entries for an upstream delta, each to be sent in a chunk of its own. */
  step(deltas: readonly Json[]): JsonObject[] {
    return deltas.flatMap((delta) => (isObject(delta) ? this.#one(delta) : []))
  }

  #one(delta: JsonObject): JsonObject[] {
    const { index: theirs, id, type: _type, function: definition, ...unknown } = delta
    const { name, arguments: args, ...more } = isObject(definition) ? definition : {}
    const given = {
      theirs: typeof theirs === 'number' ? theirs : undefined,
      id: typeof id === 'string' && id !== '' ? id : undefined,
      name: typeof name === 'string' && name !== '' ? name : undefined,
    }
    const text = argumentText(args)
    const known = this.#callOf(given, text)
    if (known) return this.#continueCall(known, text, given.name !== undefined)
    if (given.name === undefined) return this.#awaitName(given, text)

    const before = this.#nameless.get(given.theirs)
    this.#nameless.delete(given.theirs)
    const call = this.#start(given.name, given.id ?? before?.id, given.theirs)
    const { index: ours } = call
    const start: JsonObject = {
      index: ours,
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: '', ...more },
      ...unknown,
    }
    return [start, ...this.#continueCall(call, (before?.arguments ?? '') + text, false)]
  }

  /** A call starts with its name; anything before is kept for it. */
  #awaitName(given: { theirs: number | undefined; id: string | undefined }, text: string): [] {
    if (given.id === undefined && text === '') return []
    const before = this.#nameless.get(given.theirs)
    const args = (before?.arguments ?? '') + text
    this.#nameless.set(given.theirs, { id: before?.id ?? given.id, arguments: args })
    return []
  }

  #start(name: string, id: string | undefined, theirs: number | undefined): Call {
    const index = this.#calls.length
    // Servers that restart their ids with each call would make two calls one.
    const isTaken = id !== undefined && this.#sameId.has(id)
    const ours = id === undefined || isTaken ? this.#mintId(index) : id
    const call: Call = { index, id: ours, theirId: id ?? ours, name, theirs, arguments: '' }
    this.#add(call)
    return call
  }

  #add(call: Call): void {
    this.#calls.push(call)
    if (call.theirs !== undefined) this.#latest.set(call.theirs, call)
    const known = this.#sameId.get(call.theirId)
    const same: SameId = known ?? { first: call, unnumbered: undefined, numbered: new Map() }
    if (!known) this.#sameId.set(call.theirId, same)
    if (call.theirs === undefined) same.unnumbered ??= call
    else if (!same.numbered.has(call.theirs)) same.numbered.set(call.theirs, call)
  }

  /** A new id under a used index is a new call: some providers number every parallel call 0. */
  #callOf(
    given: { theirs?: number | undefined; id?: string | undefined; name?: string | undefined },
    text: string,
  ) {
    if (given.id !== undefined) {
      const sameId = firstOf(this.#sameId.get(given.id), given.theirs)
      if (sameId || given.name !== undefined) return sameId
    }
    if (given.theirs !== undefined) {
      const last = this.#latest.get(given.theirs)
      return last && given.name !== undefined && isAnotherCall(last, given.name, text) ? undefined : last
    }
    return given.name === undefined ? this.#calls.at(-1) : undefined
  }

  /** `repeated`: the delta repeats the name, so it may contain the whole call so far. */
  #continueCall(call: Call, text: string, repeated: boolean): JsonObject[] {
    const piece = repeated ? newArguments(call.arguments, text) : text
    if (piece === '') return []
    call.arguments += piece
    return [{ index: call.index, function: { arguments: piece } }]
  }
}

/** The earliest call that an id can refer to: an index that either side lacks distinguishes nothing. */
function firstOf(same: SameId | undefined, theirs: number | undefined): Call | undefined {
  if (same === undefined || theirs === undefined) return same?.first
  const { unnumbered } = same
  const numbered = same.numbered.get(theirs)
  if (numbered === undefined || unnumbered === undefined) return numbered ?? unnumbered
  return numbered.index < unnumbered.index ? numbered : unnumbered
}

// The parts of a provider's message or delta that deviate from the wire contract, mended. Unknown fields stay.

/** A message or delta taken apart: text fields are empty where there are none, `fields` is what is left. */
interface Mended {
  readonly text: string
  readonly refusal: string
  readonly reasoning: string
  readonly details: readonly Json[]
  readonly toolCalls: readonly Json[]
  /** Everything else that is set, unknown fields included. */
  readonly fields: JsonObject
}

/**
 * Takes a message or delta apart. Reasoning under `reasoning` and in content parts becomes `reasoning`; reasoning
 * without details gets one, and details without text give theirs, so that clients of either find it.
 */
function mend(message: JsonObject): Mended {
  const { content, refusal, tool_calls, function_call } = message
  const { reasoning, reasoning_content, reasoning_details } = message
  const split = splitContent(content)
  const given = stringIn(reasoning_content) || stringIn(reasoning) || split.reasoning
  const details = Array.isArray(reasoning_details) ? reasoning_details : none
  const calls = Array.isArray(tool_calls) ? tool_calls : none
  return {
    text: split.text,
    refusal: stringIn(refusal),
    reasoning: given || readableIn(details),
    details:
      details.length === 0 && given !== ''
        ? [{ type: 'reasoning.text', format: null, index: 0, text: given }]
        : details,
    toolCalls: isObject(function_call) ? [...calls, { index: 0, function: function_call }] : calls,
    fields: othersOf(message, split),
  }
}

const none: readonly Json[] = []

/** What `mend` writes under names of its own, or not at all: to set `__proto__` would be to change the prototype. */
const mendedFields: ReadonlySet<string> = new Set([
  '__proto__',
  'role',
  'content',
  'refusal',
  'tool_calls',
  'function_call',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
])

function othersOf(message: JsonObject, { images, others }: SplitContent): JsonObject {
  const fields: JsonObject = {}
  for (const name in message) {
    const value = message[name]!
    if (value !== null && !mendedFields.has(name)) fields[name] = value
  }
  // A provider's own kind of `reasoning` or part is not ours to judge: it stays where it can be found.
  if (isObject(message['reasoning'])) fields['reasoning'] = message['reasoning']
  if (images.length > 0) fields['images'] = [...images]
  if (others.length > 0) fields['content_parts'] = [...others]
  return fields
}

const ownFields: ReadonlySet<string> = new Set([
  '__proto__',
  'id',
  'object',
  'created',
  'model',
  'choices',
  'usage',
])

/** The choices of a chunk or an answer, and the fields we have no word for; the others are ours to write. */
function fieldsOf(body: JsonObject): { choices: Json | undefined; unknown: JsonObject } {
  return { choices: body['choices'], unknown: withUnknown({}, body) }
}

/** Adds the fields of a provider's body that we have no word for. */
function withUnknown(target: JsonObject, body: JsonObject): JsonObject {
  for (const name in body) if (!ownFields.has(name)) target[name] = body[name]!
  return target
}

/** The id of a tool call whose provider gave it none: the same whenever the answer is read again. */
function mintedId({ id }: AnswerContext, choice: number, call: number): string {
  const stem = id.replace(/[^a-zA-Z0-9]/g, '').slice(-20)
  return `call_${stem}_${choice}_${call}`
}

interface SplitContent {
  readonly text: string
  readonly reasoning: string
  readonly images: readonly Json[]
  readonly others: readonly Json[]
}

/** Content is text; some send lists, in which thinking (Mistral, Databricks) and references stand beside it. */
function splitContent(content: Json | undefined): SplitContent {
  if (!Array.isArray(content)) return { text: stringIn(content), reasoning: '', images: none, others: none }
  const split = { text: '', reasoning: '', images: [] as Json[], others: [] as Json[] }
  for (const part of content) {
    if (typeof part === 'string') split.text += part
    else if (!isObject(part)) split.others.push(part)
    else if (part['type'] === 'thinking' || part['type'] === 'reasoning')
      split.reasoning += reasoningPartText(part)
    else if (part['type'] === 'image_url') split.images.push(part)
    else if (typeof part['text'] === 'string') split.text += part['text']
    else split.others.push(part)
  }
  return split
}

function readableIn(details: readonly Json[]): string {
  let readable = ''
  for (const detail of details)
    if (isObject(detail)) readable += stringIn(detail['text']) || stringIn(detail['summary'])
  return readable
}

// A provider's whole chat.completion, mended to the wire contract; every unknown field stays.

/**
 * The provider's answer under our id and model, with our usage and every required key. Throws `upstream_error`
 * for a body without choices: that is not an answer.
 */
export function repairWhole(
  body: JsonObject,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
  quirks: CitationQuirks = defaultQuirks,
): JsonObject {
  const sources = quirks.numberedCitations ? sourcesIn(body) : undefined
  const answer: JsonObject = {
    id: context.id,
    object: 'chat.completion',
    created: context.created,
    model: context.model,
    choices: repairChoices(body['choices'], context, sources ?? noSources),
  }
  withUnknown(answer, body)
  answer['usage'] = wireUsage(usage, bill, usageObject(body))
  if (context.warnings.length > 0) Object.assign(answer, wireWarnings(context.warnings))
  return Object.assign(answer, context.extra)
}

const noSources: readonly NumberedSource[] = []

function repairChoices(
  sent: Json | undefined,
  context: AnswerContext,
  sources: readonly NumberedSource[],
): JsonObject[] {
  const choices: JsonObject[] = []
  for (const choice of Array.isArray(sent) ? sent : [])
    if (isObject(choice)) choices.push(repairChoice(choice, choices.length, context, sources))
  if (choices.length > 0) return choices
  throw new GatewayError('upstream_error', { message: 'The answer of the provider has no choices.' })
}

const choiceFields: ReadonlySet<string> = new Set(['index', 'message', 'finish_reason', 'logprobs'])

function repairChoice(
  choice: JsonObject,
  position: number,
  context: AnswerContext,
  sources: readonly NumberedSource[],
): JsonObject {
  const { message, finish_reason } = choice
  const index = choiceIndex(choice['index'], position)
  const mended = repairMessage(isObject(message) ? message : {}, index, context, sources)
  // A document that arrived whole has ended; only its word for it may be missing.
  const native = isReason(finish_reason) ? finish_reason : 'stop'
  const repaired: JsonObject = {
    index,
    message: mended,
    logprobs: choice['logprobs'] ?? null,
    ...wireFinish(native, stateOf(mended['tool_calls'])),
  }
  for (const name in choice) if (!choiceFields.has(name)) define(repaired, name, choice[name])
  return repaired
}

function repairMessage(
  message: JsonObject,
  choice: number,
  context: AnswerContext,
  sources: readonly NumberedSource[],
): JsonObject {
  const { text, refusal, reasoning, details, toolCalls, fields } = mend(message)
  const { annotations } = fields
  const calls = repairCalls(toolCalls, context, choice)
  const hasText = text !== '' || (message['content'] != null && calls.length === 0 && refusal === '')
  const mended: JsonObject = {
    role: 'assistant',
    content: hasText ? text : null,
    refusal: refusal === '' ? null : refusal,
    annotations: Array.isArray(annotations) ? annotations : citationsOf(text, sources).map(wireAnnotation),
  }
  if (reasoning !== '') mended['reasoning_content'] = reasoning
  if (details.length > 0) mended['reasoning_details'] = [...details]
  if (calls.length > 0) mended['tool_calls'] = calls
  for (const name in fields) if (name !== 'annotations') mended[name] = fields[name]!
  return mended
}

/** Two calls of one id could not be matched with their results: the second one gets an id of ours. */
function repairCalls(sent: readonly Json[], context: AnswerContext, choice: number): JsonObject[] {
  const calls: JsonObject[] = []
  if (sent.length === 0) return calls
  const taken = new Set<Json>()
  for (const call of sent) {
    if (!isObject(call)) continue
    const { id } = call
    const usable = typeof id === 'string' && id !== '' && !taken.has(id)
    const callId = usable ? id : mintedId(context, choice, calls.length)
    taken.add(callId)
    calls.push(repairCall(call, callId))
  }
  return calls
}

function repairCall(call: JsonObject, id: string): JsonObject {
  // In a whole message the position is the number: `index` belongs to deltas.
  const { index: _index, id: _id, type: _type, function: definition, ...unknown } = call
  const { name, arguments: args, ...more } = isObject(definition) ? definition : {}
  return {
    id,
    type: 'function',
    function: { name: stringIn(name), arguments: argumentText(args) || '{}', ...more },
    ...unknown,
  }
}

function stateOf(calls: Json | undefined): ReturnType<typeof callsState> {
  if (!Array.isArray(calls)) return 'none'
  return callsState(
    calls.map((call) =>
      isObject(call) && isObject(call.function) ? argumentText(call.function.arguments) : '',
    ),
  )
}
