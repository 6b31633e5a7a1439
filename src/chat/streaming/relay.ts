// Upstream → { body, outcome }: exactly one outcome, however the stream ends.

import { type Awaitable, type Placed, ShortLivedMap, ShortLivedSet } from '../../async/async.ts'
import type { Fault } from '../../conversation/event.ts'
import { EventProgress, type Progress } from '../../conversation/delivered.ts'
import type { Usage } from '../../conversation/usage.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Attempt } from '../../credits/ledger/ledger.ts'
import { asGatewayError, type GatewayError, renderError } from '../../errors/errors.ts'
import type { Memory } from '../../observe/memory.ts'
import type { AnswerKeeper, ChatLimits, FinalFigures, Outcome, PaidCall, StoppedBy } from '../call.ts'
import { DispatchFailed, withAttempts } from '../routing/dispatch.ts'
import { codeOf, errorOf, stopError, transportFault, withoutSecrets } from '../routing/fault-error.ts'
import { isSmall, stepsOf, type Scheduler } from '../../scheduler/scheduler.ts'
import type { StreamChannel } from './translate.ts'

/** A provider's stream, read up to its first content: it can no longer fail over. */
export interface OpenStream {
  readonly channel: StreamChannel
  readonly reader: ByteReader
  /** The client's bytes so far. */
  readonly head: Uint8Array[]
  /** The provider's body ended within the head. */
  readonly ended: boolean
  /** Called when everything read waits for the client. */
  readonly pausing: () => void
  /** Called when the provider's body has been read to its end. */
  readonly read: () => void
  /** Cancels the provider's work on this answer. */
  readonly abort: () => void
  /** Set if the answer has several rounds. */
  readonly rounds?: Rounds | undefined
  /** Called when the provider has been silent too long; true if another one goes on with its answer. */
  readonly onSilence?: (() => boolean) | undefined
  /** Has written what was kept back, before the end of the answer is. Rejects with AnswerRefused. */
  readonly closing?: () => Promise<void>
}

/** Nothing more of the answer may go to the client: its reader rejects with this, and the answer ends in `error`. */
export class AnswerRefused extends Error {
  readonly error: GatewayError

  constructor(error: GatewayError) {
    super(error.message, { cause: error })
    this.error = error
  }
}

/** Between two rounds no provider is read: tools run, and the next request is sent. */
interface Rounds {
  /** Whether the answer is between two rounds now; what is awaited then has its own deadlines. */
  readonly isBetween: boolean
  /** Why there is no further round although the answer needs one. */
  readonly stoppedBy: StoppedBy | undefined
  /** The client disconnected: no further round. */
  leave(): void
}

/** The rounds of a stream, as it says of itself at any time. */
export function roundsOf(of: {
  isBetween: () => boolean
  stoppedBy: () => StoppedBy | undefined
  leave: () => void
}): Rounds {
  return {
    get isBetween() {
      return of.isBetween()
    },
    get stoppedBy() {
      return of.stoppedBy()
    },
    leave: of.leave,
  }
}

/** A round that has not begun. */
export const unbegun: Progress = new EventProgress()

/**
 * The progress of the current round. It is finished only when the last round is (`isFinal`), and a fault of it is none of
 * the answer while another one goes on with it (`isMended`).
 */
export class RoundProgress implements Progress {
  readonly started = true
  readonly #round: () => Progress
  readonly #isFinal: () => boolean
  readonly #isMended: () => boolean

  constructor(
    round: () => Progress,
    { isFinal = () => true, isMended = () => false }: { isFinal?: () => boolean; isMended?: () => boolean },
  ) {
    this.#round = round
    this.#isFinal = isFinal
    this.#isMended = isMended
  }

  get finished(): boolean {
    return this.#isFinal() && this.#round().finished
  }

  get fault(): Fault | undefined {
    const { fault } = this.#round()
    return fault === undefined || this.#isMended() ? undefined : fault
  }

  get usage(): Usage | undefined {
    return this.#round().usage
  }

  get delivered(): Progress['delivered'] {
    return this.#round().delivered
  }

  get finishReason(): string | undefined {
    return this.#round().finishReason
  }

  get upstreamId(): string | undefined {
    return this.#round().upstreamId
  }
}

export interface Read {
  readonly done: boolean
  readonly value?: Uint8Array[] | undefined
}

/** The part of a body reader used here. Bun's readMany takes everything that has arrived at once. */
export interface BodyReader {
  readMany(): Promise<Read> | Read
  cancel(): Promise<void>
}

export interface ByteReader extends BodyReader {
  /** To be called with each read before it is processed. A promise of its own for that would cost as much as the read. */
  onRead(read: Read): void
}

export interface RelayOptions {
  readonly requestId: string
  /** The account's id. */
  readonly account: string
  /** The gateway's address as clients know it. */
  readonly publicUrl: string
  readonly provider: string
  /** All attempts so far, of all rounds. */
  readonly attempts: () => readonly Attempt[]
  /** Sent to the client while there is nothing else to send. */
  readonly keepalive: Uint8Array
  readonly limits: ChatLimits
  readonly watchdog: Watchdog
  readonly scheduler: Scheduler
  /** The memory of this process. */
  readonly memory: Pick<Memory, 'makeRoom'>
  /** Unread bytes of all streams. */
  readonly buffered: Buffered
  /** Milliseconds the call has taken so far; they count towards its total. */
  readonly elapsedMs: number
  /** Aborts when the client disconnects. (A stream's `cancel` is not called if nobody began to read the body.) */
  readonly disconnect: AbortSignal
  /** See `StreamingParts`. */
  readonly stopping: AbortSignal
  /** Removes our secrets from a provider's text. */
  readonly redact: (text: string) => string
  /** Of the provider that answers now: a later round may have another one. */
  readonly onDisconnect: 'cancel' | 'drain' | 'free'
  /**
   * Settles the outcome; called exactly once. `make` gets the figures before they are durable; the client sees them
   * only after this resolves.
   */
  readonly settle: (outcome: Outcome, make: (figures: FinalFigures) => Promise<void>) => Promise<void>
  /** Stores the client's bytes; undefined if the client cannot ask for them again. */
  readonly keeper: Pick<AnswerKeeper, 'add' | 'keep'> | undefined
  /** Resolves when the stored answer is queued; the charge is queued after it. */
  readonly kept: (() => Promise<void> | undefined) | undefined
  /** Called after every read; a returned reason stops the stream now. Nothing is read before a promise resolves. */
  readonly onProgress: (progress: Progress) => Awaitable<StoppedBy | undefined>
}

/**
 * Counts unread bytes. The relay enforces the limit itself: as a high-water mark, the runtime would allocate a buffer
 * of that size for each client in advance.
 */
const queued: QueuingStrategy<Uint8Array> = { highWaterMark: 0, size: (bytes) => bytes?.byteLength ?? 0 }

/** The client's body for a provider's stream. Deadlines end it even if nobody reads it. */
export function relay(open: OpenStream, options: RelayOptions): ReadableStream<Uint8Array> {
  const run = new Relay(open, options)
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => void run.start(controller),
      pull: () => run.wake(),
      cancel: () => run.onDisconnect(),
    },
    queued,
  )
}

/** How long a provider's connection may stay open after its answer has ended, milliseconds. */
const afterFinishMs = 1_000

class Relay {
  readonly #open: OpenStream
  readonly #options: RelayOptions
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #clientGone = false
  #concluded = false
  #stoppedBy: StoppedBy | undefined
  /** Set if the gateway itself ended the stream. */
  #stopError: GatewayError | undefined
  #stopFault: Fault | undefined
  /** Set if no provider answered a later round. */
  #roundError: GatewayError | undefined
  /** Set if the answer, complete or not, was refused. */
  #refusal: GatewayError | undefined
  #drain: Deadline | undefined
  /** Whether anything was written since the last read. */
  #wrote = false
  #resume: (() => void) | undefined
  readonly #buffered: Waiting
  /** A shutdown waits no longer, or the caller's access has ended. */
  readonly #onStopping = () => this.#stop(stopError(this.#options.stopping))

  constructor(open: OpenStream, options: RelayOptions) {
    this.#open = open
    this.#options = options
    this.#buffered = options.buffered.open(options.account)
  }

  /** Runs the answer to its end. Never rejects. */
  async start(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#controller = controller
    const { keepalive, limits, watchdog, elapsedMs, disconnect, stopping } = this.#options
    const total = watchdog.arm(limits.totalMs - elapsedMs, () => this.#expire('the answer took too long'))
    const silence = watchdog.arm(limits.keepaliveMs, () => {
      // A client that does not read needs no keep-alive.
      if (this.#hasRoom) this.#enqueue(keepalive)
      silence.extend(limits.keepaliveMs)
    })
    // Never removed: the signal is as short-lived as the client's request, and removing costs as much as adding.
    disconnect.addEventListener('abort', () => this.onDisconnect(), { once: true })
    stopping.addEventListener('abort', this.#onStopping, { once: true })
    if (disconnect.aborted) this.onDisconnect()
    if (stopping.aborted) this.#onStopping()
    await this.#pump(silence)
    total.clear()
    silence.clear()
    this.#drain?.clear()
    this.#buffered.close()
    stopping.removeEventListener('abort', this.#onStopping)
    await this.#conclude()
    this.#concluded = true
  }

  wake(): void {
    this.#resume?.()
  }

  onDisconnect(): void {
    if (this.#clientGone || this.#concluded) return
    this.#clientGone = true
    this.#resume?.()
    this.#open.rounds?.leave()
    const { onDisconnect, watchdog, limits } = this.#options
    // The rest is only read for its usage, and not for ever.
    if (onDisconnect === 'drain') this.#drain = watchdog.arm(limits.drainMs, () => this.#open.abort())
    else this.#open.abort()
  }

  /**
   * Reads the provider's body to its end and passes it on. What the client gets puts off the next sign of life; what the
   * provider sends may be kept back for long, such as the arguments of a call that goes to the client whole.
   */
  async #pump(silence: Deadline): Promise<void> {
    const { channel, reader, head, ended, rounds } = this.#open
    const { limits, watchdog, onProgress } = this.#options
    const gap = watchdog.arm(limits.gapMs, () => {
      if (this.#open.onSilence?.() !== true) this.#expire('the provider fell silent')
    })
    try {
      // Removed from the head, so that unread bytes are held once.
      for (const bytes of head.splice(0)) this.#enqueue(bytes)
      let { progress } = channel
      gap.pause()
      if (!this.#hasRoom) await this.#roomForMore()
      let closesBy: number | undefined
      let received = 0
      for (let over = ended || progress.fault !== undefined; !over;) {
        // A provider that sends on after its answer must not put off the end of it.
        if (progress.finished) closesBy ??= watchdog.now() + afterFinishMs
        if (rounds?.isBetween !== true)
          gap.extend(closesBy === undefined ? limits.gapMs : closesBy - watchdog.now())
        const read = await reader.readMany()
        reader.onRead(read)
        const { done, value } = read
        gap.pause()
        if (value !== undefined)
          for (const bytes of value) {
            received += bytes.length
            if (received > limits.streamBytes)
              throw this.#breakOff('too-large', `the stream has more than ${limits.streamBytes} bytes`)
            await this.#take(bytes, received)
          }
        if (this.#wrote) silence.extend(limits.keepaliveMs)
        this.#wrote = false
        if (this.#clientGone && this.#options.onDisconnect !== 'drain') break
        if (done) {
          this.#open.read()
          this.#endOfBody()
        }
        progress = channel.progress
        if (!done) this.#stoppedBy = rounds?.stoppedBy ?? (await onProgress(progress))
        over = done || this.#stoppedBy !== undefined || progress.fault !== undefined
      }
    } catch (error) {
      // Only for a later round: an error of the first is answered without a stream.
      if (error instanceof DispatchFailed) this.#roundError = error.error
      if (error instanceof AnswerRefused) this.#refuse(error)
      // A broken connection, a deadline or our own abort; `progress` and the flags say which. An answer that has given
      // its finish reason is complete all the same.
      if (!this.#clientGone || this.#options.onDisconnect === 'drain') this.#endOfBody()
    } finally {
      gap.clear()
      this.#open.abort()
    }
  }

  /**
   * Passes bytes on as the loop has time and the client room; many of them in steps between other calls. `received` is
   * how many have come so far.
   */
  async #take(bytes: Uint8Array, received: number): Promise<void> {
    const { scheduler, memory } = this.#options
    const { channel } = this.#open
    const isUrgent = isSmall(bytes)
    for (const piece of stepsOf(bytes)) {
      if (!isUrgent) memory.makeRoom(received)
      const frames = await scheduler.runDivisible(() => channel.push(piece), isUrgent ? 'urgent' : 'started')
      for (const frame of frames) this.#enqueue(frame)
      // The gateway may have ended the stream meanwhile: the rest is not needed.
      if (this.#stopError !== undefined) throw this.#stopError
      if (this.#hasRoom) continue
      await this.#roomForMore()
      if (this.#stopError !== undefined) throw this.#stopError
    }
  }

  #endOfBody(): void {
    for (const out of this.#open.channel.end()) this.#enqueue(out)
  }

  /** Unread bytes; larger than any limit once the stream is closed. */
  get #waiting(): number {
    return -(this.#controller?.desiredSize ?? Number.NEGATIVE_INFINITY)
  }

  get #hasRoom(): boolean {
    if (this.#clientGone) return true
    const waiting = this.#waiting
    return waiting < this.#options.limits.bufferBytes && this.#buffered.mayGrow(Math.max(0, waiting))
  }

  /**
   * Waits until the client has read everything; gives up on a client that reads nothing for too long. The stream asks
   * for more only when its buffer is empty, so a slow reader is checked in between.
   */
  async #roomForMore(): Promise<void> {
    const { watchdog, limits } = this.#options
    this.#open.pausing()
    while (!this.#hasRoom && this.#stopError === undefined) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const before = this.#waiting
      const stall = watchdog.arm(limits.clientStallMs, () => {
        if (this.#waiting < before) resolve()
        else this.#giveUpClient()
      })
      this.#resume = resolve
      await promise
      this.#resume = undefined
      stall.clear()
    }
  }

  #giveUpClient(): void {
    this.onDisconnect()
    this.#onStream((controller) => controller.error(new Error('the client took no byte for too long')))
  }

  #expire(message: string): void {
    this.#breakOff('timeout', message)
  }

  /** Ends the stream as the provider's fault, and returns the error that the client gets. */
  #breakOff(kind: 'timeout' | 'too-large', message: string): GatewayError {
    this.#stopFault = transportFault(kind, message)
    const error = errorOf(this.#stopFault, this.#options.provider)
    this.#stop(error)
    return error
  }

  #stop(error: GatewayError): void {
    this.#stopError ??= error
    this.#resume?.()
    this.#open.abort()
  }

  #refuse({ error }: AnswerRefused): void {
    this.#refusal = error
    this.#stop(error)
  }

  /** Has what was kept back written, where the answer ends and somebody reads it. */
  async #close(): Promise<void> {
    const { closing } = this.#open
    if (closing === undefined || this.#clientGone || this.#stopError !== undefined) return
    await closing().catch((error: unknown) => {
      this.#refuse(error instanceof AnswerRefused ? error : new AnswerRefused(asGatewayError(error)))
    })
  }

  async #conclude(): Promise<void> {
    await this.#close()
    const outcome = this.#outcome()
    const { settle, keeper, kept, requestId } = this.#options
    let last: readonly Uint8Array[] = []
    const make = async (figures: FinalFigures) => {
      last = await this.#lastFrames(outcome, figures)
      await kept?.()
      if (keeper === undefined || this.#clientGone) return
      for (const bytes of last) keeper.add(bytes)
      keeper.keep()
    }
    try {
      await settle(outcome, make).catch(async (error: unknown) => {
        last = await this.#fail(asGatewayError(error), outcome.fault)
      })
      for (const bytes of last) this.#send(bytes)
    } catch (error) {
      // Nothing more can be sent; an end without the last frames is an error to the client, as it should be.
      this.#onStream((controller) => controller.error(error))
    }
    if (!this.#clientGone) this.#onStream((controller) => controller.close())
    pass('last-frame', requestId)
  }

  #lastFrames(outcome: Outcome, { usage, bill, stoppedBy }: FinalFigures): Written {
    if (this.#refusal !== undefined) return this.#fail(this.#refusal, undefined)
    if (outcome.ending === 'finished' || outcome.stoppedBy !== undefined)
      return this.#options.scheduler.runDivisible(
        () => this.#open.channel.finish(usage, bill, stoppedBy),
        'started',
      )
    if (outcome.ending === 'client-gone') {
      // There is nobody to write to, but a stored response is what the client pays for and may come back for.
      this.#open.channel.cancel?.(usage, bill)
      return []
    }
    return this.#fail(
      this.#stopError ?? outcome.error ?? errorOf(outcome.fault ?? brokeOff, this.#options.provider),
      outcome.fault,
    )
  }

  /** `fault`: what ended the answer of the last attempt, if that was its provider. */
  #fail(error: GatewayError, fault: Fault | undefined): Written {
    const { scheduler, requestId, publicUrl, attempts } = this.#options
    const rendered = renderError(withAttempts(error, endedBy(fault, attempts())), requestId, publicUrl)
    return scheduler.runDivisible(() => this.#open.channel.fail(rendered), 'started')
  }

  #outcome(): Outcome {
    const { progress } = this.#open.channel
    const facts = {
      usage: progress.usage,
      delivered: progress.delivered,
      finishReason: progress.finishReason,
      upstreamId: progress.upstreamId,
      fault: undefined,
      stoppedBy: undefined,
      // A complete answer is charged as one, whoever gets it.
      ...(this.#refusal && { error: this.#refusal }),
    }
    if (progress.finished) return { ...facts, ending: 'finished' }
    if (this.#stoppedBy !== undefined)
      return { ...facts, ending: 'stopped', stoppedBy: this.#stoppedBy, finishReason: 'length' }
    if (this.#clientGone) return { ...facts, ending: 'client-gone' }
    if (this.#stopFault !== undefined) return { ...facts, ending: 'stopped', fault: this.#stopFault }
    if (this.#stopError !== undefined) return { ...facts, ending: 'stopped', error: this.#stopError }
    if (this.#roundError !== undefined) return { ...facts, ending: 'provider-cut', error: this.#roundError }
    const fault = withoutSecrets(progress.fault ?? brokeOff, this.#options.redact)
    return { ...facts, ending: 'provider-cut', fault }
  }

  #enqueue(bytes: Uint8Array): void {
    this.#wrote = true
    this.#options.keeper?.add(bytes)
    this.#send(bytes)
  }

  #send(bytes: Uint8Array): void {
    if (this.#clientGone) return
    try {
      this.#controller?.enqueue(bytes)
    } catch {
      this.onDisconnect()
    }
  }

  /** Acting on a stream that its reader has just cancelled throws: that only means the client disconnected. */
  #onStream(act: (controller: ReadableStreamDefaultController<Uint8Array>) => void): void {
    try {
      if (this.#controller) act(this.#controller)
    } catch {
      this.onDisconnect()
    }
  }
}

/** The attempts of an answer that had begun and ended with a fault. */
function endedBy(fault: Fault | undefined, attempts: readonly Attempt[]): readonly Attempt[] {
  const last = attempts.at(-1)
  if (fault === undefined || last === undefined || last.outcome !== 'served') return attempts
  return [...attempts.slice(0, -1), { ...last, code: codeOf(fault), status: fault.status ?? last.status }]
}

/** Resolved at once, or when the event loop has time. */
type Written = readonly Uint8Array[] | Promise<readonly Uint8Array[]>

const brokeOff = transportFault('cut', 'the stream broke off')

// Deadlines of running calls. One timer serves all of them: a timer per read would cost more than the read.

/** How often deadlines are checked, milliseconds; a deadline fires at most this much late. */
const tickMs = 50

export class Deadline implements Placed {
  /** Among the armed. */
  place = -1
  readonly #watchdog: Watchdog
  readonly #fire: () => void
  #due = Number.POSITIVE_INFINITY

  constructor(watchdog: Watchdog, fire: () => void) {
    this.#watchdog = watchdog
    this.#fire = fire
  }

  /** Sets the deadline to `ms` from now, even if it was cleared or has fired. */
  extend(ms: number): void {
    this.#due = this.#watchdog.now() + ms
    this.#watchdog.add(this)
  }

  /** Never fires unless it is extended: cheaper than `clear` for a deadline that is extended again and again. */
  pause(): void {
    this.#due = Number.POSITIVE_INFINITY
  }

  clear(): void {
    this.pause()
    this.#watchdog.remove(this)
  }

  /** Fires if it is due. */
  look(now: number): void {
    if (this.#due > now) return
    this.clear()
    this.#fire()
  }
}

export class Watchdog {
  /** Milliseconds; never goes back. */
  readonly now: () => number
  readonly #armed = new ShortLivedSet<Deadline>()
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(clock: () => number = () => performance.now()) {
    this.now = clock
  }

  /** Calls `fire` once, `ms` from now, unless the deadline is extended or cleared before. */
  arm(ms: number, fire: () => void): Deadline {
    const deadline = new Deadline(this, fire)
    deadline.extend(ms)
    return deadline
  }

  add(deadline: Deadline): void {
    this.#armed.add(deadline)
    this.#timer ??= setInterval(() => this.look(), tickMs)
  }

  remove(deadline: Deadline): void {
    this.#armed.delete(deadline)
  }

  /** Fires everything that is due; called every tick. */
  look(): void {
    const now = this.now()
    for (const deadline of this.#armed.values()) deadline.look(now)
    if (this.#armed.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/**
 * What to do with an answer when its client disconnects: the provider row's policy, unless the request asks to
 * `finish` or to `cancel`. A provider that keeps generating and billing after a disconnect is always read to its end:
 * closing the connection would save nothing and only hide what it bills.
 */
export function disconnectPolicy(
  call: Pick<PaidCall, 'request'>,
  row: 'cancel' | 'drain' | 'free',
): 'cancel' | 'drain' | 'free' {
  return call.request.envelope.onDisconnect === 'finish' ? 'drain' : row
}

// Limits the unread bytes of all streams together: two thousand slow clients must not fill the memory.

export class Buffered {
  readonly #mostBytes: number
  #bytes = 0
  /** How many streams of each account have something unread. */
  readonly #streams = new ShortLivedMap<string, number>()

  /** `mostBytes`: the limit for all streams together. */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Opens the account of one stream. Return it with `close`. */
  open(account: string): Waiting {
    return new Waiting(this, account)
  }

  /** Unread bytes of all streams. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Whether a stream with `bytes` unread may buffer more: all of them within the limit, it within its share. Accounts
   * have equal shares, and leave one for another that comes; the streams of an account have equal shares of its own.
   */
  hasRoomFor(account: string, bytes: number): boolean {
    const shares = (this.#streams.size + 1) * Math.max(1, this.#streams.get(account) ?? 0)
    return this.#bytes < this.#mostBytes && bytes < this.#mostBytes / shares
  }

  note(account: string, before: number, now: number): void {
    this.#bytes += now - before
    if (before > 0 === now > 0) return
    const streams = (this.#streams.get(account) ?? 0) + (now > 0 ? 1 : -1)
    if (streams > 0) this.#streams.set(account, streams)
    else this.#streams.take(account)
  }
}

/** The unread bytes of one stream. */
class Waiting {
  readonly #all: Buffered
  readonly #account: string
  #bytes = 0

  constructor(all: Buffered, account: string) {
    this.#all = all
    this.#account = account
  }

  /** Records the unread bytes; returns whether more may be read from the provider. An empty stream always may. */
  mayGrow(bytes: number): boolean {
    this.#set(bytes)
    return bytes === 0 || this.#all.hasRoomFor(this.#account, bytes)
  }

  close(): void {
    this.#set(0)
  }

  #set(bytes: number): void {
    this.#all.note(this.#account, this.#bytes, bytes)
    this.#bytes = bytes
  }
}
