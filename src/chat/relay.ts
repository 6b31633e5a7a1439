// Upstream → { body, outcome }: exactly one outcome, however the stream ends.

import type { Fault } from '../conversation/event.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Ending } from '../credits/ledger.ts'
import { renderError, type GatewayError } from '../errors.ts'
import type { Bill } from '../protocols/protocol.ts'
import { errorOf, transportFault } from './fault-error.ts'
import type { ChatLimits } from './gateway.ts'
import type { StoppedBy, StreamChannel } from './stream-channel.ts'
import type { Watchdog } from './watchdog.ts'

/** A provider's stream, read up to its first content: it can no longer fail over. */
export interface OpenStream {
  readonly channel: StreamChannel
  readonly reader: ByteReader
  /** What the client gets for the bytes read so far. */
  readonly head: readonly Uint8Array[]
  /** The provider's body has already ended within the head. */
  readonly ended: boolean
  /** Ends the provider's work on this answer. */
  readonly abort: () => void
}

/** The part of a body reader that the relay uses: Bun's readMany takes what has arrived in one go. */
export interface ByteReader {
  readMany():
    | Promise<{ done: boolean; value?: Uint8Array[] | undefined }>
    | { done: boolean; value?: Uint8Array[] | undefined }
  cancel(): Promise<void>
}

/** How an answer ended, and what it delivered. */
export interface Outcome {
  readonly ending: Ending
  readonly fault: Fault | undefined
  /** What the provider counted; undefined where it did not get to it. */
  readonly usage: Usage | undefined
  readonly deliveredTokens: number
  readonly finishReason: string | undefined
  readonly upstreamId: string | undefined
  readonly stoppedBy: StoppedBy | undefined
}

export interface Settlement {
  readonly usage: Usage
  readonly bill: Bill
}

export interface RelayOptions {
  readonly requestId: string
  readonly provider: string
  readonly limits: ChatLimits
  readonly watchdog: Watchdog
  readonly onDisconnect: 'cancel' | 'drain' | 'free'
  /** Books the outcome; called exactly once. The client sees its figures only after it resolves. */
  readonly settle: (outcome: Outcome) => Promise<Settlement>
  /** Told after every read; answers whether the stream must stop now. */
  readonly onProgress: (channel: StreamChannel) => StoppedBy | undefined
}

const keepalive = new TextEncoder().encode(': keepalive\n\n')

/** The client's body for a provider's stream. Nobody has to read it: deadlines end it all the same. */
export function relay(open: OpenStream, options: RelayOptions): ReadableStream<Uint8Array> {
  const run = new Relay(open, options)
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => void run.start(controller),
      pull: () => run.wake(),
      cancel: () => run.clientGone(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: options.limits.bufferBytes }),
  )
}

class Relay {
  readonly #open: OpenStream
  readonly #options: RelayOptions
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #gone = false
  #stoppedBy: StoppedBy | undefined
  #deadlineFault: Fault | undefined
  #resume: (() => void) | undefined

  constructor(open: OpenStream, options: RelayOptions) {
    this.#open = open
    this.#options = options
  }

  async start(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#controller = controller
    const { limits, watchdog } = this.#options
    const total = watchdog.arm(limits.totalMs, () => this.#expire('the answer took too long'))
    const silence = watchdog.arm(limits.keepaliveMs, () => {
      this.#enqueue(keepalive)
      silence.extend(limits.keepaliveMs)
    })
    try {
      await this.#pump(() => silence.extend(limits.keepaliveMs))
    } finally {
      total.clear()
      silence.clear()
    }
    await this.#conclude()
  }

  wake(): void {
    this.#resume?.()
  }

  clientGone(): void {
    this.#gone = true
    this.#resume?.()
    if (this.#options.onDisconnect !== 'drain') {
      this.#open.abort()
      return
    }
    // The rest is read for its usage alone, and not for ever.
    this.#options.watchdog.arm(this.#options.limits.drainMs, () => this.#open.abort())
  }

  async #pump(onBytes: () => void): Promise<void> {
    const { channel, reader, head, ended } = this.#open
    const { limits, watchdog } = this.#options
    for (const bytes of head) this.#enqueue(bytes)
    if (ended) return
    const gap = watchdog.arm(limits.gapMs, () => this.#expire('the provider fell silent'))
    try {
      for (;;) {
        await this.#roomForMore()
        gap.extend(limits.gapMs)
        const { done, value } = await reader.readMany()
        for (const bytes of value ?? []) for (const out of channel.push(bytes)) this.#enqueue(out)
        onBytes()
        if (done) break
        if (channel.progress.fault !== undefined) break
        if (this.#gone && this.#options.onDisconnect !== 'drain') break
        this.#stoppedBy ??= this.#options.onProgress(channel)
        if (this.#stoppedBy !== undefined) break
      }
      if (this.#stoppedBy === undefined && !this.#gone) for (const out of channel.end()) this.#enqueue(out)
      if (this.#gone && this.#options.onDisconnect === 'drain') channel.end()
    } catch {
      // A broken connection, a deadline or our own abort: `progress` and the flags say which.
    } finally {
      gap.clear()
      this.#open.abort()
    }
  }

  /** Waits while the client takes nothing; a client that stalls too long is given up. */
  async #roomForMore(): Promise<void> {
    while (!this.#gone && (this.#controller?.desiredSize ?? 0) <= 0) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const stall = this.#options.watchdog.arm(this.#options.limits.clientStallMs, () => {
        this.clientGone()
        this.#controller?.error(new Error('the client took no byte for too long'))
      })
      this.#resume = resolve
      await promise
      this.#resume = undefined
      stall.clear()
    }
  }

  #expire(message: string): void {
    this.#deadlineFault = transportFault('timeout', message)
    this.#open.abort()
  }

  async #conclude(): Promise<void> {
    const outcome = this.#outcome()
    const { channel } = this.#open
    try {
      const { usage, bill } = await this.#options.settle(outcome)
      const last =
        outcome.fault === undefined || outcome.ending === 'finished'
          ? channel.finish(usage, bill, outcome.stoppedBy)
          : channel.fail(renderError(errorOf(outcome.fault, this.#options.provider), this.#options.requestId))
      for (const bytes of last) this.#enqueue(bytes)
    } catch (error) {
      const failed = channel.fail(renderError(error as GatewayError, this.#options.requestId))
      for (const bytes of failed) this.#enqueue(bytes)
    }
    if (!this.#gone) this.#controller?.close()
  }

  #outcome(): Outcome {
    const { progress } = this.#open.channel
    const facts = {
      usage: progress.usage,
      deliveredTokens: progress.deliveredTokens,
      finishReason: progress.finishReason,
      upstreamId: progress.upstreamId,
      stoppedBy: undefined,
    }
    if (progress.finished) return { ...facts, ending: 'finished', fault: undefined }
    if (this.#stoppedBy !== undefined) {
      return {
        ...facts,
        ending: 'stopped',
        fault: undefined,
        stoppedBy: this.#stoppedBy,
        finishReason: 'length',
      }
    }
    if (this.#gone) return { ...facts, ending: 'client-gone', fault: undefined }
    const fault = this.#deadlineFault ?? progress.fault ?? transportFault('cut', 'the stream broke off')
    return { ...facts, ending: this.#deadlineFault ? 'stopped' : 'provider-cut', fault }
  }

  #enqueue(bytes: Uint8Array): void {
    if (!this.#gone) this.#controller?.enqueue(bytes)
  }
}
