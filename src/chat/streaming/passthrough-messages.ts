// A client of Anthropic's protocol at Anthropic: frames go on as they are, and the parser reads beside them what they cost.

import type { ChatEvent } from '../../conversation/event.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import { EventEncoder } from '../../protocols/anthropic-messages/inbound/encode.ts'
import { NativeFrames } from '../../protocols/anthropic-messages/native.ts'
import { streamParser } from '../../protocols/anthropic-messages/outbound/stream.ts'
import type { AnswerContext, Bill, StreamEncoder } from '../../protocols/protocol.ts'
import { bytesOf, SseDecoder, type Frame } from '../../protocols/framing/sse.ts'
import { type Progress, type StoppedBy, stopNote, type StreamChannel } from './channel.ts'
import { TranslateChannel, wholeChannel } from './translate.ts'

/** Says nothing: the frames themselves are the client's answer. */
const silent: StreamEncoder = { start: () => [], event: () => [], finish: () => [], fail: () => [] }

export class MessagesChannel implements StreamChannel {
  readonly #context: AnswerContext
  readonly #frames: NativeFrames
  /** Reads what passes: its own output is nothing. */
  readonly #meter: TranslateChannel
  #passed: Frame[] = []
  #whole: TranslateChannel | undefined

  constructor(context: AnswerContext, maxEventBytes: number) {
    this.#context = context
    this.#frames = new NativeFrames(context)
    const decoder = new SseDecoder(maxEventBytes)
    const tapped = {
      push: (bytes: Uint8Array) => this.#tap(decoder.push(bytes)),
      end: () => this.#tap(decoder.end()),
    }
    this.#meter = new TranslateChannel({
      decoder: tapped,
      parser: streamParser(),
      encoder: silent,
      extra: {},
      onSignature: () => undefined,
    })
  }

  get progress(): Progress {
    if (this.#whole) return this.#whole.progress
    const { progress } = this.#meter
    if (!this.#frames.begun) return progress
    progress.delivered.addOpaque()
    return { ...progress, started: true }
  }

  push(bytes: Uint8Array): readonly Uint8Array[] {
    this.#meter.push(bytes)
    return this.#written()
  }

  end(): readonly Uint8Array[] {
    this.#meter.end()
    return this.#written()
  }

  take(events: readonly ChatEvent[]): readonly Uint8Array[] {
    this.#whole ??= wholeChannel(new EventEncoder(this.#context), this.#context)
    return this.#whole.take(events)
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): readonly Uint8Array[] {
    if (this.#whole) return this.#whole.finish(usage, bill, stoppedBy)
    Object.assign(this.#context.extra, stopNote(stoppedBy))
    return bytesOf(this.#frames.finish(bill, stoppedBy === undefined ? undefined : usage))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return this.#whole ? this.#whole.fail(error) : bytesOf(new EventEncoder(this.#context).fail(error))
  }

  #tap(frames: readonly Frame[]): readonly Frame[] {
    for (const frame of frames) this.#passed.push(...this.#frames.pass(frame))
    return frames
  }

  #written(): readonly Uint8Array[] {
    const passed = this.#passed
    this.#passed = []
    return bytesOf(passed)
  }
}
