// Goes on with a stream that breaks off, where its caller allows that: another candidate is sent what the client has, as
// the beginning of its answer, and the client reads one stream. Only within a text: what a call of a tool, a thought or
// a document has lost cannot be made good. Each candidate's part is charged by its own count, within one hold: what the
// next part may cost is held before anybody is asked for it.

import type { Offer } from '../../catalog/row.ts'
import type { Fault } from '../../conversation/event.ts'
import type { ContentEvent, Progress } from '../../conversation/delivered.ts'
import type { AssistantMessage, ChatRequest, Message, TurnMessage } from '../../conversation/request.ts'
import { completionTokens, type Usage } from '../../conversation/usage.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import { asGatewayError, type RenderedError } from '../../errors/errors.ts'
import { atOnce, type DoneOrSteps, isSteps, type Steps } from '../../json/json.ts'
import type { Warning } from '../../protocols/lowering.ts'
import type { AnswerContext, Bill, Prefill } from '../../protocols/protocol.ts'
import { joinedPrompt, promptParts } from '../../protocols/request/prompt-parts.ts'
import type { Hold } from '../billing/hold.ts'
import { type IncomingCall, type Outcome, stopNote, type StoppedBy } from '../call.ts'
import { type ChatParts, playRound } from '../paid-call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { DispatchFailed } from '../routing/dispatch.ts'
import { errorOf, transportFault, withoutSecrets } from '../routing/fault-error.ts'
import type { OpenedStream } from '../upstream/fetch.ts'
import { quirksFor, upstreamModel } from '../upstream/lower.ts'
import { contextOf } from '../upstream/upstream-request.ts'
import { answerHeaders, type EventSink, guardedAnswer, noteBreak, streamResponse } from './respond.ts'
import { type ByteReader, type OpenStream, type Read, RoundProgress, roundsOf, unbegun } from './relay.ts'
import { AnswerSink, type StreamChannel } from './translate.ts'

/**
 * Serves a stream whose events are encoded here: one that another candidate may go on with, or that the guards of the call
 * look at. Settles or releases the hold like every other.
 */
export async function continuedStream(
  parts: ChatParts,
  call: IncomingCall,
  hold: Hold,
  { candidates, warnings, continues }: Continuing,
): Promise<Response> {
  const early: ContentEvent[] = []
  const said = new SaidSoFar((event) => void early.push(event))
  const emit = (event: ContentEvent) => said.take(event)
  const { answer, candidate } = await playRound(parts, hold, { call, candidates, warnings, emit })
  if (answer.kind !== 'stream') throw new Error('a stream was asked for')
  const context = contextOf(parts, call, candidate, answer.warnings)
  const encoded = new AnswerSink(call.inbound.encoder(context), context.extra, () => stream.progress.usage)
  const { sink, guard } = guardedAnswer(call, encoded)
  const others = continues ? candidates : []
  const stream: ContinuedStream = new ContinuedStream(
    { parts, call, hold, candidates: others, said, sink, context },
    answer,
  )
  for (const event of early) sink.event(event)
  said.forward = (event) => sink.event(event)
  stream.head.push(...(await parts.scheduler.runDivisible(() => sink.takeWritten())))
  return streamResponse(
    parts,
    call,
    hold,
    guard(stream),
    answerHeaders(call, candidate, answer.warnings, hold.attempts),
  )
}

interface Continuing {
  readonly candidates: readonly Candidate[]
  readonly warnings: readonly Warning[]
  /** Whether another candidate goes on with it. */
  readonly continues: boolean
}

interface ContinuedParts {
  readonly parts: ChatParts
  readonly call: IncomingCall
  readonly hold: Hold
  /** Who may go on with it. */
  readonly candidates: readonly Candidate[]
  readonly said: SaidSoFar
  readonly sink: EventSink
  readonly context: AnswerContext
}

/** Nothing from a provider: makes the relay look at what was written meanwhile. */
const nothingRead: Read = { done: false, value: [new Uint8Array(0)] }

class ContinuedStream implements OpenStream, StreamChannel {
  readonly channel: StreamChannel = this
  readonly reader: ByteReader = {
    readMany: () => this.#readMany(),
    // Those of its parts have been reported already.
    onRead: () => undefined,
    cancel: () => Promise.resolve(),
  }
  readonly head: Uint8Array[] = []
  readonly ended = false
  readonly progress: Progress
  readonly rounds: NonNullable<OpenStream['rounds']>
  readonly #of: ContinuedParts
  #part: OpenedStream
  /** The part has broken off, and the next one has not begun. */
  #broke: Fault | undefined
  /** The part is booked: its progress is no longer part of what is still to be charged. */
  #isBooked = false
  /** The offers whose answers broke off. */
  readonly #left = new Set<Offer>()
  /** The models that have gone on. */
  readonly #continuedBy: string[] = []
  /** Output tokens of the parts that are booked. */
  #spentTokens = 0
  #stoppedBy: StoppedBy | undefined
  /** The relay has ended the answer, or the client has left. */
  #isOver = false
  #isSilent = false

  /** `first`: opened with `said` as the receiver of its events. */
  constructor(of: ContinuedParts, first: OpenedStream) {
    this.#of = of
    this.#part = first
    this.progress = new RoundProgress(() => (this.#isBooked ? unbegun : this.#part.channel.progress), {
      isMended: () => this.#broke !== undefined || this.#mayGoOn,
    })
    this.rounds = roundsOf({
      isBetween: () => this.#broke !== undefined,
      stoppedBy: () => this.#stoppedBy,
      leave: () => (this.#isOver = true),
    })
  }

  read(): void {
    this.#part.read()
  }

  pausing(): void {
    this.#part.pausing()
  }

  abort(): void {
    this.#isOver = true
    this.#part.abort()
  }

  onSilence(): boolean {
    if (!this.#mayGoOn) return false
    this.#isSilent = true
    this.#part.abort()
    return true
  }

  // ---- the channel ------------------------------------------------------------------------------------------

  *push(bytes: Uint8Array): Steps<readonly Uint8Array[]> {
    const pushed = bytes.length > 0 ? this.#part.channel.push(bytes) : []
    if (isSteps(pushed)) yield* pushed
    const written = this.#of.sink.takeWritten()
    return isSteps(written) ? yield* written : written
  }

  end(): readonly Uint8Array[] {
    if (!this.#isBooked) this.#part.channel.end()
    return atOnce(this.#of.sink.takeWritten())
  }

  take(): DoneOrSteps<readonly Uint8Array[]> {
    return this.#of.sink.takeWritten()
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]> {
    const { sink, context } = this.#of
    if (this.#continuedBy.length > 0)
      Object.assign(context.extra, { metadata: { continued_by: this.#continuedBy, ...noteOf(stoppedBy) } })
    sink.finish(usage, bill, stoppedBy)
    return sink.takeWritten()
  }

  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]> {
    this.#of.sink.fail(error)
    return this.#of.sink.takeWritten()
  }

  cancel(usage: Usage, bill: Bill): void {
    this.#of.sink.cancel(usage, bill)
  }

  // ---- the parts --------------------------------------------------------------------------------------------

  async #readMany(): Promise<Read> {
    if (this.#broke !== undefined) {
      await this.#goOn(this.#broke)
      return nothingRead
    }
    const { reader, channel } = this.#part
    if (channel.progress.fault !== undefined) return this.#breakOff()
    try {
      const read = await reader.readMany()
      reader.onRead(read)
      if (!read.done) return read
      this.#part.read()
    } catch (error) {
      channel.end()
      // Answers that have given their finish reason are complete all the same.
      if (channel.progress.finished || !this.#mayGoOn) throw error
      return this.#breakOff()
    }
    channel.end()
    return channel.progress.finished || !this.#mayGoOn ? { done: true } : this.#breakOff()
  }

  /** Whether the answer is gone on with if it breaks off here. */
  get #mayGoOn(): boolean {
    const { call, parts, said } = this.#of
    if (this.#isOver || call.signal.aborted || call.stopping.aborted || !said.isText) return false
    return this.#left.size + 1 < parts.limits.attempts && this.#others().candidates.length > 0
  }

  #breakOff(): Read {
    const silent = transportFault('timeout', 'the provider fell silent')
    const fault = this.#isSilent ? silent : (this.#part.channel.progress.fault ?? brokeOff)
    this.#broke = withoutSecrets(fault, this.#of.parts.redact)
    this.#isSilent = false
    this.#part.abort()
    return nothingRead
  }

  /** Who may go on: other offers, of models that take a prefill, all in the same way. */
  #others(): { readonly candidates: readonly Candidate[]; readonly prefill: Prefill } {
    const { parts, hold, candidates } = this.#of
    const able = candidates.flatMap((candidate) => {
      const prefill = this.#left.has(candidate.offer) ? undefined : prefillOf(parts, candidate)
      return prefill === undefined || candidate.offer === hold.candidate.offer ? [] : [{ candidate, prefill }]
    })
    const prefill = able[0]?.prefill ?? 'rest'
    return {
      candidates: able.filter((each) => each.prefill === prefill).map(({ candidate }) => candidate),
      prefill,
    }
  }

  /**
   * Books the part that broke off, holds what the next may cost, and opens it. Rejects with DispatchFailed, with the
   * error of the break, where nobody goes on: the part that was served is charged then as well.
   */
  async #goOn(fault: Fault): Promise<void> {
    const { parts, call, hold, said } = this.#of
    const { candidates, prefill } = this.#others()
    const { provider, offer } = hold.candidate
    const { usage, delivered, finishReason, upstreamId } = this.#part.channel.progress
    const outcome: Outcome = {
      usage,
      delivered,
      finishReason,
      upstreamId,
      fault,
      ending: 'provider-cut',
      stoppedBy: undefined,
    }
    noteBreak(parts, call, hold, fault)
    hold.noteSeam(fault, said.text.length)
    this.#spentTokens += completionTokens(await hold.endRound(outcome, 'at-once'))
    this.#isBooked = true
    this.#left.add(offer)
    pass('round-ended', call.requestId)
    const error = new DispatchFailed(errorOf(fault, provider.id), [])
    const { maxOutputTokens: asked } = call.request.envelope
    const left = asked === undefined ? undefined : asked - this.#spentTokens
    if (left !== undefined && left < 1) {
      this.#stoppedBy = 'max_tokens'
      return
    }
    const text =
      call.guard === undefined ? said.text : (await call.guard.mask('request', { text: said.text })).text
    const round = continuationOf(call, text, left)
    if (round === undefined || (await hold.beginRound(round, candidates)) !== undefined) throw error
    pass('round-begun', call.requestId)
    said.onSeam(prefillIn(round.request.toChatRequest()), prefill)
    const emit = (event: ContentEvent) => said.take(event)
    const played = await playRound(parts, hold, { call: round, candidates, warnings: [], emit }).catch(
      (failed: unknown) => {
        if (failed instanceof DispatchFailed) hold.unansweredError(failed)
        parts.log.warn('nobody went on with an answer', {
          request_id: call.requestId,
          error: asGatewayError(failed instanceof DispatchFailed ? failed.error : failed),
        })
        throw error
      },
    )
    if (played.answer.kind !== 'stream') throw new Error('a stream was asked for')
    this.#part = played.answer
    this.#continuedBy.push(played.candidate.model.id)
    this.#isBooked = false
    this.#broke = undefined
    if (this.#isOver) this.#part.abort()
  }
}

function noteOf(stoppedBy: StoppedBy | undefined): object {
  return Object(stopNote(stoppedBy)['metadata'])
}

const brokeOff = transportFault('cut', 'the stream broke off')

// What is asked of whoever goes on.

function prefillOf(
  { outbounds, refusals }: Pick<ChatParts, 'outbounds' | 'refusals'>,
  candidate: Candidate,
): Prefill | undefined {
  const { model, offer, provider } = candidate
  if (refusals.withoutPrefill.has(upstreamModel(candidate))) return undefined
  const outbound = outbounds[provider.protocol]
  const target = { model: offer.upstream, quirks: quirksFor(outbound, provider), reasoning: model.reasoning }
  return outbound.prefill?.(target)
}

/**
 * The call whose answer begins with `text`, of which at most `left` tokens are still to be written. Undefined where it
 * cannot be asked for: an answer in JSON, or by a tool, would begin anew. It does not think: that was done, and models
 * that think take no prefill.
 */
function continuationOf(
  call: IncomingCall,
  text: string,
  left: number | undefined,
): IncomingCall | undefined {
  const asked = call.request.toChatRequest()
  const { responseFormat, toolChoice, rest, messages } = asked
  if (responseFormat !== undefined && responseFormat.kind !== 'text') return undefined
  if (toolChoice?.kind === 'required' || toolChoice?.kind === 'function') return undefined
  if (toolChoice?.kind === 'allowed' && toolChoice.mode === 'required') return undefined
  const begun = begunWith(messages, text.trimEnd())
  if (begun === undefined) return undefined
  const { thinking: _, ...others } = rest
  const request: ChatRequest = {
    ...asked,
    messages: begun,
    reasoning: undefined,
    maxOutputTokens: left,
    rest: others,
  }
  const added = promptParts(
    { messages: [{ role: 'assistant', content: text }] },
    { conversation: 'messages', declared: [] },
  )
  const last = `messages[${begun.length - 1}]`
  return {
    ...call,
    bodyBytes: call.bodyBytes + Buffer.byteLength(text) + messageBytes,
    request: {
      ...call.request,
      envelope: { ...call.request.envelope, maxOutputTokens: left },
      promptParts: joinedPrompt(call.request.promptParts, added),
      translated: true,
      isAdded: (param) => param.startsWith(last) || call.request.isAdded?.(param) === true,
      toChatRequest: () => request,
    },
  }
}

/** What a message measures beside its text, at most. */
const messageBytes = 64

/** The messages with the beginning of the answer; it is joined with what the client itself has begun. */
function begunWith(messages: readonly Message[], text: string): readonly Message[] | undefined {
  const last = messages.at(-1)
  const begun: AssistantMessage = {
    role: 'assistant',
    content: [{ kind: 'text', text, cache: undefined }],
    reasoning: [],
    toolCalls: [],
    prefill: true,
  }
  if (last?.role !== 'assistant') return [...messages, begun]
  const own = last.content.map((part) => (part.kind === 'text' ? part.text : undefined))
  if (last.toolCalls.length > 0 || own.includes(undefined)) return undefined
  return [
    ...messages.slice(0, -1),
    { ...last, content: [{ kind: 'text', text: own.join('') + text, cache: undefined }], prefill: true },
  ]
}

function prefillIn({ messages }: ChatRequest): string {
  const [part] = messages.at(-1)!.content
  return part?.kind === 'text' ? part.text : ''
}

// What the client has of the answer.

/** Of longer answers nobody is sent the beginning, characters. */
const longestText = 1_000_000

type TextEvent = Extract<ContentEvent, { text: string }>

/** Takes the events of all parts, and forwards them as those of one answer. */
export class SaidSoFar {
  /** Takes the events for the client. */
  forward: (event: ContentEvent) => void
  /** What the client has been sent. */
  text = ''
  /** Something other than text has come that cannot be gone on with. */
  #isOther = false
  /** A thought has come last: it may be half sent. */
  #thinks = false
  /** Thoughts of the parts before, and of this one. */
  #thoughtsBefore = 0
  #thoughts = 0
  /** The length of the text of the parts before. */
  #before = 0
  /** The message that the text is of. */
  #message: TurnMessage | undefined
  #seam: Seam | undefined

  constructor(forward: (event: ContentEvent) => void) {
    this.forward = forward
  }

  /** Whether nothing but a text is open, and there is some. */
  get isText(): boolean {
    return !this.#isOther && !this.#thinks && this.text.length <= longestText && this.text.trim() !== ''
  }

  /** What comes from here on is of another part, whose provider was sent `prefill`. */
  onSeam(prefill: string, answer: Prefill): void {
    const space = this.text.slice(this.text.trimEnd().length)
    this.#seam = new Seam(answer === 'repeated' ? prefill : '', space)
    this.#before = this.text.length
    this.#thoughtsBefore = Math.max(this.#thoughtsBefore, this.#thoughts)
  }

  take(event: ContentEvent): void {
    switch (event.kind) {
      case 'text-delta':
        return this.#say(this.#seam === undefined ? event : { ...event, text: this.#seam.take(event.text) })
      case 'reasoning-delta': {
        const index = this.#thoughtsBefore + event.detail.index
        this.#thoughts = Math.max(this.#thoughts, index + 1)
        this.#thinks = true
        return this.forward({ ...event, detail: { ...event.detail, index } })
      }
      case 'annotation': {
        const { start, end } = event.annotation
        const before = this.#before - (this.#seam?.taken ?? 0)
        const moved = { start: start + before, end: end + before }
        return this.forward({ ...event, annotation: { ...event.annotation, ...moved } })
      }
      case 'logprobs':
        return this.forward(event)
      case 'choice-finish': {
        const held = this.#seam?.end() ?? ''
        if (held !== '') this.#say({ kind: 'text-delta', choice: 0, text: held })
        this.#isOther = true
        return this.forward(event)
      }
      default:
        this.#isOther = true
        this.forward(event)
    }
  }

  #say(event: TextEvent): void {
    if (event.text === '' && this.#seam !== undefined) return
    this.text += event.text
    this.#thinks = false
    if (this.#seam === undefined) {
      this.#message = event.message
      return this.forward(event)
    }
    // The text goes on: it is of the message in which the part before was.
    const { kind, choice, text } = event
    this.forward({ kind, choice, text, ...(this.#message && { message: this.#message }) })
  }
}

/** Takes out of a part what the client has already: a prefill that is repeated, and the space at the seam. */
export class Seam {
  #repeated: string
  #space: string
  #held = ''
  /** Characters that were taken out. */
  taken = 0

  /** `repeated`: what the part begins with once more, if it does; `space`: what the text before ends with. */
  constructor(repeated: string, space: string) {
    this.#repeated = repeated
    this.#space = space
  }

  /** What of a further piece is new. */
  take(piece: string): string {
    if (this.#repeated === '' && this.#space === '') return piece
    this.#held += piece
    if (this.#repeated !== '') {
      if (this.#held.length < this.#repeated.length && this.#repeated.startsWith(this.#held)) return ''
      if (this.#held.startsWith(this.#repeated)) {
        this.#held = this.#held.slice(this.#repeated.length)
        this.taken += this.#repeated.length
      }
      this.#repeated = ''
    }
    let same = 0
    while (same < this.#held.length && same < this.#space.length && this.#held[same] === this.#space[same])
      same++
    this.taken += same
    const rest = this.#held.slice(same)
    // More of the space may follow.
    this.#space = rest === '' ? this.#space.slice(same) : ''
    this.#held = ''
    return rest
  }

  /** What was held back and is new after all. */
  end(): string {
    const held = this.#held
    this.#held = ''
    return held
  }
}
