// Upstream → { body, outcome }: exactly one outcome, however the stream ends.

import type { Progress } from '../../conversation/progress.ts'
import type { Fault } from '../../conversation/event.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import { asGatewayError, renderError, type GatewayError } from '../../errors.ts'
import type { Buffered, Waiting } from './buffered.ts'
import { DispatchFailed } from '../routing/dispatch.ts'
import { errorOf, shuttingDown, transportFault, withoutSecrets } from '../routing/fault-error.ts'
import type { FinalFigures, Outcome, StoppedBy } from '../outcome.ts'
import type { AnswerKeeper } from '../answer-keeper.ts'
import type { ChatLimits } from '../limits.ts'
import type { StreamChannel } from './channel.ts'
import { isSmall, stepsOf, type Turns } from './turns.ts'
import type { Deadline, Watchdog } from './watchdog.ts'

/** A provider's stream, read up to its first content: it can no longer fail over. */
export interface OpenStream {
  readonly channel: StreamChannel
  readonly reader: ByteReader
  /** What the client gets for the bytes read so far. */
  readonly head: Uint8Array[]
  /** The provider's body has already ended within the head. */
  readonly ended: boolean
  /** Call when what has come waits for the client alone. */
  readonly pausing: () => void
  /** Call when the provider's body has been read to its end. */
  readonly read: () => void
  /** Ends the provider's work on this answer. */
  readonly abort: () => void
  /** Of an answer that is made in several rounds. */
  readonly rounds?: Rounds
}

/** Between two rounds of an answer no provider is read: tools run, and the next is asked. */
interface Rounds {
  /** Whether that is so now: whatever is awaited has deadlines of its own. */
  readonly isBetween: boolean
  /** Why there is no further round, where the answer needs one. */
  readonly stoppedBy: StoppedBy | undefined
  /** The client has disconnected: no round follows. */
  leave(): void
}

/** What one look at a body brings. */
export interface Read {
  readonly done: boolean
  readonly value?: Uint8Array[] | undefined
}

/** The part of a body reader that the relay uses: Bun's readMany takes what has arrived in one go. */
export interface ByteReader {
  readMany(): Promise<Read> | Read
  cancel(): Promise<void>
}

export interface RelayOptions {
  readonly requestId: string
  /** The address of the gateway as its clients know it. */
  readonly publicUrl: string
  readonly provider: string
  /** What the client is sent while there is nothing else to send. */
  readonly keepalive: Uint8Array
  readonly limits: ChatLimits
  readonly watchdog: Watchdog
  readonly turns: Turns
  /** What waits for the clients of all streams. */
  readonly buffered: Buffered
  /** Milliseconds the call has taken already: they count towards its total. */
  readonly elapsedMs: number
  /** Aborts when the client disconnects: the stream's own `cancel` is not called for a body that nobody began to read. */
  readonly disconnect: AbortSignal
  /** Aborts when the gateway stops and waits no longer. */
  readonly stopping: AbortSignal
  /** Takes our secrets out of a provider's words. */
  readonly redact: (text: string) => string
  readonly onDisconnect: 'cancel' | 'drain' | 'free'
  /**
   * Books the outcome; called exactly once. `make` is given its figures before they are durable; the client sees them
   * only after it resolves.
   */
  readonly settle: (outcome: Outcome, make: (figures: FinalFigures) => Promise<void>) => Promise<void>
  /** Keeps what the client gets; undefined where nobody can ask for it again. */
  readonly keeper: Pick<AnswerKeeper, 'add' | 'keep'> | undefined
  /** Resolves when what the protocol keeps of its answer is queued: the charge comes behind it. */
  readonly kept: (() => Promise<void> | undefined) | undefined
  /** Called after every read; what it returns must stop the stream now. */
  readonly onProgress: (progress: Progress) => StoppedBy | undefined
}

/**
 * What waits for the client, in bytes. How much may wait is decided by the relay: given to the stream, it would make the
 * runtime allocate a buffer of that size for each client in advance.
 */
const queued: QueuingStrategy<Uint8Array> = { highWaterMark: 0, size: (bytes) => bytes?.byteLength ?? 0 }

/** The client's body for a provider's stream. Nobody has to read it: deadlines end it all the same. */
export function relay(open: OpenStream, options: RelayOptions): ReadableStream<Uint8Array> {
  const run = new Relay(open, options)
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => void run.start(controller),
      pull: () => run.wake(),
      cancel: () => run.disconnected(),
    },
    queued,
  )
}

/** How long a provider's connection may linger after its answer has ended: what it has still to say is nothing. */
const afterFinishMs = 1_000

class Relay {
  readonly #open: OpenStream
  readonly #options: RelayOptions
  readonly #onDisconnect = () => this.disconnected()
  readonly #onStopping = () => this.#stop(shuttingDown())
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #clientGone = false
  #stoppedBy: StoppedBy | undefined
  /** Why the gateway itself ended the stream. */
  #stopError: GatewayError | undefined
  #stopFault: Fault | undefined
  /** Why nobody has answered a later round. */
  #roundError: GatewayError | undefined
  #drain: Deadline | undefined
  #resume: (() => void) | undefined
  readonly #buffered: Waiting

  constructor(open: OpenStream, options: RelayOptions) {
    this.#open = open
    this.#options = options
    this.#buffered = options.buffered.open()
  }

  /** Runs the answer to its end. Never rejects. */
  async start(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#controller = controller
    const { keepalive, limits, watchdog, elapsedMs, disconnect, stopping } = this.#options
    const total = watchdog.arm(limits.totalMs - elapsedMs, () => this.#expire('the answer took too long'))
    const silence = watchdog.arm(limits.keepaliveMs, () => {
      // Whoever does not read what there is needs no sign of life.
      if (this.#hasRoom) this.#enqueue(keepalive)
      silence.extend(limits.keepaliveMs)
    })
    disconnect.addEventListener('abort', this.#onDisconnect, { once: true })
    stopping.addEventListener('abort', this.#onStopping, { once: true })
    if (disconnect.aborted) this.disconnected()
    if (stopping.aborted) this.#onStopping()
    await this.#pump(() => silence.extend(limits.keepaliveMs))
    total.clear()
    silence.clear()
    this.#drain?.clear()
    this.#buffered.close()
    stopping.removeEventListener('abort', this.#onStopping)
    await this.#conclude()
    disconnect.removeEventListener('abort', this.#onDisconnect)
  }

  wake(): void {
    this.#resume?.()
  }

  disconnected(): void {
    if (this.#clientGone) return
    this.#clientGone = true
    this.#resume?.()
    this.#open.rounds?.leave()
    const { onDisconnect, watchdog, limits } = this.#options
    // The rest is read for its usage alone, and not for ever.
    if (onDisconnect === 'drain') this.#drain = watchdog.arm(limits.drainMs, () => this.#open.abort())
    else this.#open.abort()
  }

  /** Reads the provider's body to its end, or to whatever ends it before. */
  async #pump(onBytes: () => void): Promise<void> {
    const { channel, reader, head, ended, rounds } = this.#open
    const { limits, watchdog, onDisconnect, onProgress } = this.#options
    const gap = watchdog.arm(limits.gapMs, () => this.#expire('the provider fell silent'))
    try {
      // Taken out: what a client has not read yet is to be held once.
      for (const bytes of head.splice(0)) this.#enqueue(bytes)
      let { progress } = channel
      for (let over = ended; !over;) {
        if (!this.#hasRoom) {
          gap.clear()
          await this.#roomForMore()
        }
        if (rounds?.isBetween !== true) gap.extend(progress.finished ? afterFinishMs : limits.gapMs)
        const { done, value } = await reader.readMany()
        gap.clear()
        for (const bytes of value ?? []) await this.#take(bytes)
        onBytes()
        if (this.#clientGone && onDisconnect !== 'drain') break
        if (done) {
          this.#open.read()
          this.#endOfBody()
        }
        progress = channel.progress
        if (!done) this.#stoppedBy = rounds?.stoppedBy ?? onProgress(progress)
        over = done || this.#stoppedBy !== undefined || progress.fault !== undefined
      }
    } catch (error) {
      // Of a later round: an error of the first is an answer without a stream.
      if (error instanceof DispatchFailed) this.#roundError = error.error
      // A broken connection, a deadline or our own abort: `progress` and the flags say which.
      // What came before may have been the whole answer: one that gave its finish reason has finished.
      if (!this.#clientGone || onDisconnect === 'drain') this.#endOfBody()
    } finally {
      gap.clear()
      this.#open.abort()
    }
  }

  /** Gives the client what came, in steps that leave the other calls their turns. */
  async #take(bytes: Uint8Array): Promise<void> {
    const { channel } = this.#open
    const urgency = isSmall(bytes) ? 'soon' : 'begun'
    for (const piece of stepsOf(bytes)) {
      const made = this.#options.turns.through(channel.push(piece), urgency)
      for (const out of made instanceof Promise ? await made : made) this.#enqueue(out)
      if (!this.#hasRoom) await this.#roomForMore()
      // The gateway has ended the stream meanwhile: what else has come is of no use.
      if (this.#stopError !== undefined) throw this.#stopError
    }
  }

  #endOfBody(): void {
    for (const out of this.#open.channel.end()) this.#enqueue(out)
  }

  /** Bytes that the client has not taken yet; more than any bound when its stream is closed. */
  get #waiting(): number {
    return -(this.#controller?.desiredSize ?? Number.NEGATIVE_INFINITY)
  }

  get #hasRoom(): boolean {
    if (this.#clientGone) return true
    const waiting = this.#waiting
    return waiting < this.#options.limits.bufferBytes && this.#buffered.mayGrow(Math.max(0, waiting))
  }

  /**
   * Waits until the client has taken what there is; a client that takes none of it for too long is given up. The stream
   * asks for more when nothing waits any longer: one that takes a little now and then is looked at in between.
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
    this.disconnected()
    this.#onStream((controller) => controller.error(new Error('the client took no byte for too long')))
  }

  #expire(message: string): void {
    this.#stopFault = transportFault('timeout', message)
    this.#stop(errorOf(this.#stopFault, this.#options.provider))
  }

  #stop(error: GatewayError): void {
    this.#stopError ??= error
    this.#resume?.()
    this.#open.abort()
  }

  async #conclude(): Promise<void> {
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
        last = await this.#fail(asGatewayError(error))
      })
      for (const bytes of last) this.#send(bytes)
    } catch (error) {
      // Nothing can be sent to the client any more; an end without its last frames is an error to it, as it should be.
      this.#onStream((controller) => controller.error(error))
    }
    if (!this.#clientGone) this.#onStream((controller) => controller.close())
    pass('last-frame', requestId)
  }

  #lastFrames(outcome: Outcome, { usage, bill, stoppedBy }: FinalFigures): Written {
    if (outcome.ending === 'finished' || outcome.stoppedBy !== undefined)
      return this.#options.turns.through(this.#open.channel.finish(usage, bill, stoppedBy), 'begun')
    // Nobody reads what would be written, and a response that was cancelled did not fail.
    if (outcome.ending === 'client-gone') return []
    return this.#fail(
      this.#stopError ?? outcome.error ?? errorOf(outcome.fault ?? brokeOff, this.#options.provider),
    )
  }

  #fail(error: GatewayError): Written {
    const { turns, requestId, publicUrl } = this.#options
    return turns.through(this.#open.channel.fail(renderError(error, requestId, publicUrl)), 'begun')
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
    }
    if (progress.finished) return { ...facts, ending: 'finished' }
    if (this.#stoppedBy !== undefined)
      return { ...facts, ending: 'stopped', stoppedBy: this.#stoppedBy, finishReason: 'length' }
    if (this.#clientGone) return { ...facts, ending: 'client-gone' }
    if (this.#stopError !== undefined) return { ...facts, ending: 'stopped', fault: this.#stopFault }
    if (this.#roundError !== undefined) return { ...facts, ending: 'provider-cut', error: this.#roundError }
    const fault = withoutSecrets(progress.fault ?? brokeOff, this.#options.redact)
    return { ...facts, ending: 'provider-cut', fault }
  }

  #enqueue(bytes: Uint8Array): void {
    this.#options.keeper?.add(bytes)
    this.#send(bytes)
  }

  #send(bytes: Uint8Array): void {
    if (!this.#clientGone) this.#onStream((controller) => controller.enqueue(bytes))
  }

  /** A stream that its reader has just cancelled throws at whatever is done to it: the client has disconnected, no more. */
  #onStream(act: (controller: ReadableStreamDefaultController<Uint8Array>) => void): void {
    try {
      if (this.#controller) act(this.#controller)
    } catch {
      this.disconnected()
    }
  }
}

/** At once, or when the loop has had time for it. */
type Written = readonly Uint8Array[] | Promise<readonly Uint8Array[]>

const brokeOff = transportFault('cut', 'the stream broke off')
