// Parses one candidate of an answer.

import type { AudioDelta, ChatEvent } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { CollectedText } from '../../collected-text.ts'
import { callIdOf } from '../../free-names.ts'
import { mintCallId } from '../call-id.ts'
import type { Calls } from './finish.ts'
import { addSources, noSources, type Sources } from './grounding.ts'
import { argumentsOf } from './partial-args.ts'
import type { AnswerCandidate, LogprobsResult, Part, PartialArg } from './schema.ts'
import { type Carried, carry, opaqueParts, signatureFormat, thoughtId } from '../signatures.ts'

/** What a candidate has said so far. */
export class Candidate {
  readonly choice: number
  /** All visible text; sources and signatures refer to offsets in it. */
  readonly text = new CollectedText()
  sources: Sources = noSources
  /** Gemini's finish reason, if any yet. Some models repeat it on every chunk, so only the end acts on it. */
  native: string | undefined
  /** The index of the next reasoning detail, and whether the last thought is still open. */
  #nextDetail = 0
  #thinking = false
  /** The ids of the calls; most answers have none. */
  #callIds: Set<string> | undefined
  /** Pieces of the last call's arguments while they are streamed. */
  #openCall: PartialArg[] | undefined
  #images = 0
  /** Bytes of audio that do not fill a base64 group yet, as base64. */
  #audioRest = ''

  constructor(choice: number) {
    this.choice = choice
  }

  /** Takes a chunk and adds its events. `answer` gives the seed for the ids of calls without one. */
  add(chunk: AnswerCandidate, answer: () => string, events: ChatEvent[]): void {
    this.sources = addSources(this.sources, chunk.groundingMetadata, chunk.citationMetadata)
    if (chunk.finishReason !== undefined && chunk.finishReason !== 'FINISH_REASON_UNSPECIFIED')
      this.native = chunk.finishReason
    const parts = chunk.content?.parts
    if (parts !== undefined) for (const part of parts) this.#addPart(part, answer, events)
    if (chunk.logprobsResult === undefined) return
    const content = logprobsOf(chunk.logprobsResult)
    if (content.length > 0) events.push({ kind: 'logprobs', choice: this.choice, content, refusal: [] })
  }

  /** Takes further visible text. */
  addText(text: string): void {
    this.text.add(text)
    this.#thinking = false
  }

  /** Its calls, for its finish reason. */
  get calls(): Calls {
    if (this.#openCall !== undefined) return 'cut'
    return this.#callCount > 0 ? 'complete' : 'none'
  }

  /** Whether it has any readable or visible content. */
  get saysSomething(): boolean {
    return this.text.length > 0 || this.#images > 0
  }

  /** The audio held back for a complete base64 group. */
  get rest(): readonly ChatEvent[] {
    return this.#audioRest === '' ? [] : [this.#audio({ data: this.#audioRest })]
  }

  #addPart(part: Part, answer: () => string, events: ChatEvent[]): void {
    const opaque = opaqueIn(part)
    if (opaque !== undefined) this.#addOpaque(opaque, part, events)
    else if (part.functionCall !== undefined) this.#addCall(part, part.functionCall, answer, events)
    else if (part.inlineData !== undefined) {
      // Images drawn while thinking are not part of the answer.
      if (part.thought !== true) this.#addMedia(part, events)
    } else if (part.thought === true) this.#addThought(part, events)
    else this.#addVisible(part, events)
  }

  #addVisible(part: Part, events: ChatEvent[]): void {
    const { text = '', thoughtSignature: signature } = part
    const start = this.text.length
    if (text !== '') {
      this.addText(text)
      events.push({ kind: 'text-delta', choice: this.choice, text })
    }
    if (!signature) return
    const place = { start, end: this.text.length, calls: this.#callCount }
    this.#addDetail({ ...place, kind: 'text', signature }, events)
  }

  #addThought(part: Part, events: ChatEvent[]): void {
    const { text = '', thoughtSignature: signature } = part
    if (text === '' && !signature) return
    // A signed part is a detail of its own: merged with unsigned ones it would not match its signature.
    const index = this.#thinking && !signature ? this.#nextDetail - 1 : this.#nextDetail
    const detail = {
      type: 'reasoning.text',
      format: signatureFormat,
      index,
      text,
      ...(signature ? { id: thoughtId(this.#here), signature } : {}),
    } as const
    this.#nextDetail = index + 1
    this.#thinking = !signature
    events.push({ kind: 'reasoning-delta', choice: this.choice, detail })
  }

  #addOpaque(kind: (typeof opaqueParts)[number], part: Part, events: ChatEvent[]): void {
    const whole: JsonObject = {
      [kind]: part[kind] as Json,
      ...(part.thoughtSignature ? { thoughtSignature: part.thoughtSignature } : {}),
    }
    this.#addDetail({ ...this.#here, kind: 'part', part: whole }, events)
  }

  #addMedia(part: Part, events: ChatEvent[]): void {
    const { mimeType = '', data = '' } = part.inlineData ?? {}
    if (data === '') return
    if (mimeType.startsWith('audio/')) {
      const [full, rest] = wholeGroups(this.#audioRest, data)
      this.#audioRest = rest
      if (full !== '') events.push(this.#audio({ data: full }))
      return
    }
    if (!mimeType.startsWith('image/')) return
    const image = this.#images++
    this.#thinking = false
    events.push({ kind: 'image', choice: this.choice, mediaType: mimeType, data })
    const signature = part.thoughtSignature
    if (signature) this.#addDetail({ ...this.#here, kind: 'image', image, signature }, events)
  }

  #addCall(
    part: Part,
    { id, name, args, partialArgs, willContinue }: NonNullable<Part['functionCall']>,
    answer: () => string,
    events: ChatEvent[],
  ): void {
    const { choice } = this
    if (!name) {
      // Without a name it continues the open call, or is ignored.
      if (this.#openCall === undefined) return
      for (const piece of partialArgs ?? []) this.#openCall.push(piece)
      if (willContinue !== true) this.#closeCall(this.#openCall, events)
      return
    }
    if (this.#openCall !== undefined) this.#closeCall(this.#openCall, events)
    const callIds = (this.#callIds ??= new Set())
    const call = callIds.size
    const callId = callIdOf(id, callIds, () => mintCallId(answer(), choice, call))
    this.#thinking = false
    const thoughtSignature = part.thoughtSignature || undefined
    events.push({ kind: 'tool-call-start', choice, call, id: callId, name, thoughtSignature })
    if (willContinue === true) this.#openCall = [...(partialArgs ?? [])]
    else if (partialArgs !== undefined) this.#closeCall(partialArgs, events)
    else events.push({ kind: 'tool-call-delta', choice, call, arguments: JSON.stringify(args ?? {}) })
  }

  /** Ends the last call with these pieces of arguments. */
  #closeCall(pieces: readonly PartialArg[], events: ChatEvent[]): void {
    this.#openCall = undefined
    const call = this.#callCount - 1
    events.push({ kind: 'tool-call-delta', choice: this.choice, call, arguments: argumentsOf(pieces) })
  }

  #addDetail(carried: Carried, events: ChatEvent[]): void {
    const detail = carry(this.#nextDetail++, carried)
    this.#thinking = false
    events.push({ kind: 'reasoning-delta', choice: this.choice, detail })
  }

  get #callCount(): number {
    return this.#callIds?.size ?? 0
  }

  get #here() {
    return { start: this.text.length, end: this.text.length, calls: this.#callCount }
  }

  #audio(audio: AudioDelta): ChatEvent {
    return { kind: 'audio-delta', choice: this.choice, audio }
  }
}

function opaqueIn(part: Part): (typeof opaqueParts)[number] | undefined {
  return opaqueParts.find((kind) => part[kind] !== undefined)
}

/** Base64 that can be concatenated: complete groups of three bytes, and the rest. Clients join the deltas as text. */
function wholeGroups(rest: string, data: string): readonly [string, string] {
  if (rest === '' && !data.endsWith('=')) return [data, '']
  const bytes = Buffer.concat([Buffer.from(rest, 'base64'), Buffer.from(data, 'base64')])
  const full = bytes.length - (bytes.length % 3)
  return [bytes.subarray(0, full).toString('base64'), bytes.subarray(full).toString('base64')]
}

/** Log probabilities in OpenAI's shape: the chosen tokens, each with its alternatives. */
function logprobsOf(result: LogprobsResult): Json[] {
  const tokenOf = (token: { token?: string | undefined; logProbability?: number | undefined }) => ({
    token: token.token ?? '',
    logprob: token.logProbability ?? 0,
    bytes: [...Buffer.from(token.token ?? '')],
  })
  return (result.chosenCandidates ?? []).map((chosen, position) => ({
    ...tokenOf(chosen),
    top_logprobs: (result.topCandidates?.[position]?.candidates ?? []).map(tokenOf),
  }))
}
