// Joins the streams of all rounds: the relay sees one answer, with the output of tools between two rounds.

import type { ApprovedCall } from '../../conversation/gateway-tools.ts'
import type { Progress } from '../../conversation/progress.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors/errors.ts'
import { atOnce, type DoneOrSteps, isSteps, type Steps } from '../../json/json.ts'
import type { Bill } from '../../protocols/protocol.ts'
import { outcomeOf, type StoppedBy } from '../call.ts'
import { DispatchFailed, pause } from '../routing/dispatch.ts'
import type { EventSink } from '../streaming/guarded-stream.ts'
import type { StreamChannel } from '../streaming/translate.ts'
import { type ByteReader, type OpenStream, RoundProgress, roundsOf, unbegun } from '../streaming/relay.ts'
import type { OpenedStream } from '../upstream/fetch.ts'
import type { ToolLoop } from './loop.ts'

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
