// Serves a call that declares gateway tools: like ../complete.ts, with as many rounds as the tools need.

import { type ChatEvent, collect, eventsOf } from '../../conversation/event.ts'
import type { ApprovedCall, DeclaredTools } from '../../conversation/gateway-tools.ts'
import type { ContentEvent, Progress } from '../../conversation/delivered.ts'
import { GatewayError, type RenderedError } from '../../errors/errors.ts'
import type { Warning } from '../../protocols/lowering.ts'
import { CallTools } from '../../tools/tool.ts'
import type { Hold } from '../billing/hold.ts'
import {
  type IncomingCall,
  type Outcome,
  outcomeOf,
  stopNote,
  type StoppedBy,
  unservedOutcome,
} from '../call.ts'
import { type ChatParts, paidCall, type Payable } from '../paid-call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { DispatchFailed, pause } from '../routing/dispatch.ts'
import { clientGone, stopError } from '../routing/fault-error.ts'
import {
  answerHeaders,
  type EventSink,
  guardedAnswer,
  guardedEvents,
  jsonResponse,
  streamResponse,
} from '../streaming/respond.ts'
import { AnswerSink, type StreamChannel } from '../streaming/translate.ts'
import { contextOf } from '../upstream/upstream-request.ts'
import type { OpenedStream, WholeAnswer } from '../upstream/fetch.ts'
import { type LoopParts, mostCallsOf, ToolLoop } from './loop.ts'
import { ToolConversation } from './conversation.ts'
import type { Usage } from '../../conversation/usage.ts'
import { atOnce, type DoneOrSteps, isSteps, type Steps } from '../../json/json.ts'
import type { Bill } from '../../protocols/protocol.ts'
import { type ByteReader, type OpenStream, RoundProgress, roundsOf, unbegun } from '../streaming/relay.ts'

/** Serves a call as `complete` does; `declared` are its gateway tools. */
export async function completeWithTools(
  parts: ChatParts,
  call: IncomingCall,
  declared: DeclaredTools,
  payable: Payable,
  warnings: readonly Warning[],
): Promise<Response> {
  if (call.request.envelope.n > 1) {
    const message = 'Tools of the gateway work for one answer: leave n out.'
    throw new GatewayError('unsupported_parameter', { message, param: 'n' })
  }
  const life = new CallLife(parts, call)
  try {
    const asked = call.request.toChatRequest()
    const tools = await life.open(
      declared,
      asked.tools.map(({ name }) => name),
    )
    const [leftOut] = tools.warnings
    if (leftOut && call.request.envelope.strict) throw new GatewayError('unsupported_parameter', leftOut)
    const conversation = new ToolConversation(asked, tools, declared)
    if (call.guard !== undefined) await conversation.guardOffered(call.guard)
    const { maxCalls, note } = mostCallsOf(declared, parts.limits.toolCalls)
    if (maxCalls === 0 && !conversation.hasFunctions) conversation.freedom = 'none'
    const first = conversation.round(call, asked.maxOutputTokens)
    return await paidCall(parts, first, payable, async (hold) => {
      const { candidates } = payable
      const all = [...warnings, ...tools.warnings, ...note]
      const loop = { parts, call, hold, tools, conversation, candidates, maxCalls, signal: life.signal }
      const answer = new ToolAnswer({ ...loop, warnings: all, approved: declared.approved }, first, life)
      try {
        return await (call.request.envelope.stream ? answer.stream() : answer.whole())
      } catch (error) {
        // Its client may have a response by now.
        life.end()
        throw refusalOf(call, error)
      }
    })
  } catch (error) {
    life.end()
    throw refusalOf(call, error)
  }
}

/** What a call is refused with, given what its work rejected with: that its signal aborted is no fault of the gateway. */
function refusalOf(call: IncomingCall, error: unknown): unknown {
  const stopped = call.stopping.aborted ? stopError(call.stopping) : undefined
  const known = error instanceof DispatchFailed ? error.error : error
  // The error that the call has been ended with, and no other, is the one that is noted.
  if (stopped) return known instanceof GatewayError && known.code === stopped.code ? error : stopped
  if (!call.signal.aborted || error instanceof GatewayError || error instanceof DispatchFailed) return error
  return clientGone()
}

/** What a call keeps open besides its providers, for as long as it runs. */
class CallLife {
  readonly #controller = new AbortController()
  readonly #parts: ChatParts
  readonly #call: IncomingCall
  readonly #end = () => this.end()
  #tools: CallTools | undefined

  constructor(parts: ChatParts, call: IncomingCall) {
    this.#parts = parts
    this.#call = call
    call.stopping.addEventListener('abort', this.#end, { once: true })
    call.signal.addEventListener('abort', this.#end, { once: true })
    if (call.stopping.aborted || call.signal.aborted) this.end()
  }

  /** Aborts when the call is over or its client has disconnected. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  async open(declared: DeclaredTools, taken: readonly string[]): Promise<CallTools> {
    const { caller, requestId, arrivedAt } = this.#call
    const { toolMs, totalMs } = this.#parts.limits
    const deadlineAt = Math.min(performance.now() + toolMs, arrivedAt + totalMs)
    const of = { account: caller.account.id, mode: caller.mode, requestId, signal: this.signal, deadlineAt }
    this.#tools = await CallTools.open(this.#parts.toolSources, declared, of, taken)
    if (this.signal.aborted) await this.#tools.close()
    return this.#tools
  }

  end(): void {
    this.#call.stopping.removeEventListener('abort', this.#end)
    this.#call.signal.removeEventListener('abort', this.#end)
    if (this.#controller.signal.aborted) return
    this.#controller.abort()
    void this.#tools?.close()
  }
}

interface AnswerParts extends Omit<LoopParts, 'emit'> {
  readonly approved: DeclaredTools['approved']
}

class ToolAnswer {
  readonly #loop: AnswerParts
  readonly #first: IncomingCall
  readonly #life: CallLife

  constructor(loop: AnswerParts, first: IncomingCall, life: CallLife) {
    this.#loop = loop
    this.#first = first
    this.#life = life
  }

  async stream(): Promise<Response> {
    const { parts, call, hold, tools, approved } = this.#loop
    // Nothing is encoded until the first round is answered: only then is the provider known. Calls that the client has
    // approved run before it, and are shown while they do.
    let write = (event: ContentEvent) => void early.push(event)
    const early: ContentEvent[] = []
    const loop = new ToolLoop({ ...this.#loop, emit: (event) => write(event) }, this.#first)
    for (const item of tools.items) write({ kind: 'gateway-item', choice: 0, item })
    const first = approved.length > 0 ? undefined : streamOf(await loop.play())
    const { candidate, warnings } = first ?? {
      candidate: hold.candidate,
      warnings: [...this.#loop.warnings, ...hold.warningsFor(hold.candidate)],
    }
    const context = contextOf(parts, call, candidate, warnings)
    const encoded = new AnswerSink(call.inbound.encoder(context), context.extra)
    const { sink, guard } = guardedAnswer(call, encoded)
    for (const event of early) sink.event(event)
    write = (event) => {
      sink.event(event)
      joined.wake()
    }
    const { signal } = this.#life
    const head = await parts.scheduler.runDivisible(() => sink.takeWritten())
    const onFailed = (round: DispatchFailed) => hold.unansweredError(round)
    const joined = new JoinedStream(
      { loop, sink, signal, failed: onFailed, approved, abort: () => this.#life.end() },
      first?.answer,
      head,
    )
    const headers = answerHeaders(call, candidate, warnings, hold.attempts)
    return streamResponse(parts, call, hold, guard(joined), headers)
  }

  async whole(): Promise<Response> {
    const { parts, call, hold, tools } = this.#loop
    const events: ContentEvent[] = tools.items.map((item) => ({ kind: 'gateway-item', choice: 0, item }))
    const loop = new ToolLoop({ ...this.#loop, emit: (event) => void events.push(event) }, this.#first)
    try {
      refuseUnaffordable(await loop.runApproved(this.#loop.approved))
      const { answer, candidate, outcome } = await playAll(loop)
      const shown = await guardedEvents(call, hold, events, outcome)
      const answered = wholeAnswer(parts, call, candidate, shown, { ...answer, outcome })
      const headers = answerHeaders(call, candidate, answer.warnings, hold.attempts)
      return await jsonResponse(parts, call, hold, answered, headers)
    } catch (error) {
      throw (await owe(call, hold, error)) ?? refusalOf(call, error)
    } finally {
      this.#life.end()
    }
  }
}

/**
 * A whole answer failed after some of its rounds. Those are charged if the client disconnected, its access was ended or
 * the request is at fault: neither a page that overflows the context nor a key that its owner revokes may buy free
 * searches. If a provider failed they cost nothing, like every answer that is not delivered. Returns the error that a
 * call which was charged has ended with.
 */
async function owe(call: IncomingCall, hold: Hold, thrown: unknown): Promise<GatewayError | undefined> {
  const failed = thrown instanceof DispatchFailed ? thrown : undefined
  if (failed?.abandoned !== undefined) {
    await hold.fail(failed)
    return failed.error
  }
  if (!hold.owes) return undefined
  const outcome = owedOutcome(call, failed)
  if (outcome === undefined) return undefined
  if (failed !== undefined) hold.recordAttempts(failed.attempts)
  await hold.settle(outcome, () => undefined)
  return outcome.error
}

function owedOutcome(call: IncomingCall, failed: DispatchFailed | undefined): Outcome | undefined {
  const { stopping } = call
  if (stopping.reason instanceof GatewayError)
    return unservedOutcome('stopped', undefined, stopError(stopping))
  if (call.signal.aborted) return unservedOutcome('client-gone', undefined, clientGone())
  const isOfRequest = failed !== undefined && faultsOfRequests.has(failed.error.status)
  return isOfRequest ? unservedOutcome('stopped', undefined, failed.error) : undefined
}

const faultsOfRequests: ReadonlySet<number> = new Set([400, 413, 422])

/** A round that is streamed. */
function streamOf({ answer, candidate }: Awaited<ReturnType<ToolLoop['play']>>) {
  if (answer.kind !== 'stream') throw new Error('a stream was asked for')
  return { answer, candidate, warnings: answer.warnings }
}

/** After approved calls have run there must be credit left for an answer. */
function refuseUnaffordable(stoppedBy: StoppedBy | undefined): void {
  if (stoppedBy === undefined) return
  const message = 'What is left after the approved tools have run does not pay for an answer.'
  throw new GatewayError('insufficient_credits', { message })
}

interface Played {
  readonly answer: WholeAnswer
  readonly candidate: Candidate
  readonly outcome: Outcome
}

/** Plays rounds until the answer is complete. */
async function playAll(loop: ToolLoop): Promise<Played> {
  for (;;) {
    const { answer, candidate } = await loop.play()
    if (answer.kind !== 'whole') throw new Error('a whole answer was asked for')
    loop.take(answer.result.events ?? answer.result.choices.flatMap((choice) => eventsOf(choice)))
    const { outcome } = answer
    const calls = await loop.endRound(() => outcome)
    const next = calls === 'final' ? ({ kind: 'final' } as const) : await loop.follow(calls)
    if (next.kind === 'final') return { answer, candidate, outcome }
    if (next.kind === 'stopped') return { answer, candidate, outcome: unservedOutcome('stopped', next.by) }
  }
}

function wholeAnswer(
  parts: ChatParts,
  call: IncomingCall,
  candidate: Candidate,
  events: readonly ChatEvent[],
  { outcome, warnings }: Pick<WholeAnswer, 'outcome' | 'warnings'>,
): Pick<WholeAnswer, 'outcome' | 'body'> {
  return {
    outcome,
    body: ({ usage, bill, stoppedBy }) => {
      const context = contextOf(parts, call, candidate, warnings)
      Object.assign(context.extra, stopNote(stoppedBy))
      const all: ChatEvent[] = [...events]
      if (stoppedBy !== undefined && outcome.ending === 'stopped')
        all.push({ kind: 'choice-finish', choice: 0, reason: 'length', native: stoppedBy })
      return call.inbound.whole({ ...collect(all), events: all }, usage, bill, context)
    },
  }
}

// Joins the streams of all rounds: the relay sees one answer, with the output of tools between two rounds.

export interface JoinedParts {
  readonly loop: ToolLoop
  /** Calls of an earlier answer that run before the first round. */
  readonly approved: readonly ApprovedCall[]
  readonly sink: EventSink
  /** Cancels everything the call does. */
  readonly abort: () => void
  readonly signal: AbortSignal
  /** Called for a round that nobody answered. */
  readonly failed: (round: DispatchFailed) => void
}

/** Nothing from a provider: makes the relay look at what was written meanwhile. */
const nothingRead = { done: false, value: [new Uint8Array(0)] }

/** How long a provider's connection may stay open after its answer: one that ends by itself can be reused. */
const lingerMs = 1_000

export class JoinedStream implements OpenStream, StreamChannel {
  readonly channel: StreamChannel = this
  readonly reader: ByteReader = {
    readMany: () => this.#readMany(),
    // Those of its rounds have been reported already.
    onRead: () => undefined,
    cancel: () => Promise.resolve(),
  }
  readonly head: Uint8Array[]
  readonly ended = false
  readonly progress: Progress
  readonly rounds: NonNullable<OpenStream['rounds']>
  readonly #parts: JoinedParts
  /** Undefined before the first one. */
  #round: OpenedStream | undefined
  /** The round's body has been read to its end. */
  #isRead: boolean
  /** When a round that has ended is closed, though its provider sends on; milliseconds of performance.now(). */
  #closesAt: number | undefined
  /** The round has been booked: its progress is no longer part of what is still to be charged. */
  #isBooked = false
  /** The work after a round that called tools. */
  #following: Promise<void> | undefined
  #isFinal = false
  #stoppedBy: StoppedBy | undefined
  #left = false
  #written = Promise.withResolvers<void>()

  /** `head`: what the sink wrote so far. Without a `first` round the approved calls run before it. */
  constructor(parts: JoinedParts, first: OpenedStream | undefined, head: readonly Uint8Array[]) {
    this.#parts = parts
    this.#round = first
    this.#isRead = first?.ended ?? true
    this.head = [...head]
    this.progress = new RoundProgress(
      () => (this.#isBooked ? unbegun : (this.#round?.channel.progress ?? unbegun)),
      { isFinal: () => this.#isFinal },
    )
    this.rounds = roundsOf({
      isBetween: () => this.#isRead && !this.#isFinal,
      stoppedBy: () => this.#stoppedBy,
      leave: () => this.#leave(),
    })
  }

  /** Something was written without bytes from a provider. */
  wake(): void {
    this.#written.resolve()
  }

  read(): void {
    this.#round?.read()
  }

  pausing(): void {
    this.#round?.pausing()
  }

  abort(): void {
    this.#parts.abort()
    this.#round?.abort()
  }

  // ---- the channel ------------------------------------------------------------------------------------------

  *push(bytes: Uint8Array): Steps<readonly Uint8Array[]> {
    const pushed = bytes.length > 0 ? (this.#round?.channel.push(bytes) ?? []) : []
    if (isSteps(pushed)) yield* pushed
    // Anything written after this is awaited by the next look.
    this.#written = Promise.withResolvers()
    const written = this.#parts.sink.takeWritten()
    return isSteps(written) ? yield* written : written
  }

  end(): readonly Uint8Array[] {
    if (!this.#isRead) this.#round?.channel.end()
    return atOnce(this.#parts.sink.takeWritten())
  }

  take(): DoneOrSteps<readonly Uint8Array[]> {
    return this.#parts.sink.takeWritten()
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]> {
    this.#parts.sink.finish(usage, bill, stoppedBy)
    return this.#parts.sink.takeWritten()
  }

  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]> {
    this.#parts.sink.fail(error)
    return this.#parts.sink.takeWritten()
  }

  cancel(usage: Usage, bill: Bill): void {
    this.#parts.sink.cancel(usage, bill)
  }

  // ---- rounds -----------------------------------------------------------------------------------------------

  async #readMany(): Promise<{ done: boolean; value?: Uint8Array[] | undefined }> {
    if (this.#isFinal) return { done: true }
    const round = this.#round
    if (this.#isRead || !round) return this.#goOn()
    const { reader, channel } = round
    try {
      const next = channel.progress.finished ? await this.#rest(round) : await reader.readMany()
      reader.onRead(next)
      if (!next.done) return next
      round.read()
    } catch (error) {
      // The connection broke: the answer may have been complete before.
      channel.end()
      if (!channel.progress.finished) throw error
    }
    channel.end()
    round.abort()
    this.#isRead = true
    return nothingRead
  }

  /** Reads what a provider still sends after the end of its answer. */
  async #rest(round: OpenedStream): Promise<{ done: boolean; value?: Uint8Array[] | undefined }> {
    this.#closesAt ??= performance.now() + lingerMs
    const lingering = new AbortController()
    const late = pause(Math.max(0, this.#closesAt - performance.now()), lingering.signal).then(
      () => 'late' as const,
    )
    const next = await Promise.race([round.reader.readMany(), late])
    lingering.abort()
    if (next !== 'late') return next
    round.abort()
    return { done: true }
  }

  /** Resolves as soon as a tool wrote something or the next round is ready. */
  async #goOn(): Promise<{ done: boolean; value?: Uint8Array[] }> {
    if (this.#left && this.#following === undefined) return { done: true }
    if (this.#following === undefined) {
      const calls = this.#round ? await this.#endRound(this.#round.channel) : 'approved'
      if (calls === 'final') {
        this.#isFinal = true
        return nothingRead
      }
      this.#isBooked = calls === 'calls'
      this.#following = calls === 'approved' ? this.#open() : this.#follow(calls)
      // The relay may have ended by then; without a handler the rejection would be unhandled.
      this.#following.catch(() => undefined)
    }
    await Promise.race([this.#following, this.#written.promise])
    return nothingRead
  }

  #endRound({ progress }: StreamChannel): Promise<'final' | 'calls-last' | 'calls'> | 'final' {
    return progress.finished ? this.#parts.loop.endRound(() => outcomeOf(progress)) : 'final'
  }

  /** What comes before the first round. */
  async #open(): Promise<void> {
    const { loop, approved } = this.#parts
    this.#stoppedBy = await loop.runApproved(approved)
    if (this.#stoppedBy === undefined) await this.#play()
  }

  async #follow(calls: 'calls' | 'calls-last'): Promise<void> {
    const next = await this.#parts.loop.follow(calls)
    if (next.kind === 'final') this.#isFinal = true
    else if (next.kind === 'stopped') this.#stoppedBy = next.by
    else await this.#play()
  }

  async #play(): Promise<void> {
    const { loop, signal, failed } = this.#parts
    const { answer } = await loop.play().catch((error: unknown) => {
      if (error instanceof DispatchFailed) failed(error)
      throw error
    })
    if (answer.kind !== 'stream') throw new Error('a stream was asked for')
    this.#round = answer
    this.#isRead = answer.ended
    this.#closesAt = undefined
    this.#isBooked = false
    this.#following = undefined
    if (signal.aborted) answer.abort()
  }

  #leave(): void {
    this.#left = true
    if (this.#isRead) this.#parts.abort()
  }
}
