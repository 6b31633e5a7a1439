// Translation: the provider's frames become events, the events become frames of the client's protocol.

import type { ChatEvent } from '../../conversation/event.ts'
import { type ContentEvent, EventProgress, type Progress } from '../../conversation/progress.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { Bill, StreamEncoder, StreamParser } from '../../protocols/protocol.ts'
import type { FrameDecoder } from '../../protocols/framing/decoder.ts'
import { encodeFrame, SseDecoder, type Frame } from '../../protocols/framing/sse.ts'
import { transportFault } from '../routing/fault-error.ts'
import { stopNote, type StoppedBy, type StreamChannel } from './channel.ts'

export interface TranslateParts {
  readonly decoder: FrameDecoder
  readonly parser: StreamParser
  readonly encoder: StreamEncoder
  /** The fields of ours that the encoder adds to its last frames; read when those are written. */
  readonly extra: JsonObject
  /** Told of every thought signature that a tool call carries. */
  readonly onSignature: (toolCallId: string, signature: string) => void
}

export class TranslateChannel implements StreamChannel {
  readonly #parts: TranslateParts
  readonly #utf8 = new TextEncoder()
  /** What is written and not yet handed on. */
  #text = ''
  #opened = false
  #choices = new Set<number>()
  #closed = new Set<number>()
  readonly #progress = new EventProgress()

  constructor(parts: TranslateParts) {
    this.#parts = parts
  }

  get progress(): Progress {
    return this.#progress
  }

  push(bytes: Uint8Array): readonly Uint8Array[] {
    try {
      for (const frame of this.#parts.decoder.push(bytes)) this.#step(frame)
    } catch (error) {
      this.#breakOff(error)
    }
    return this.#written()
  }

  end(): readonly Uint8Array[] {
    try {
      for (const frame of this.#parts.decoder.end()) this.#step(frame)
      if (!this.#progress.ended) this.#takeAll(this.#parts.parser.end())
    } catch (error) {
      this.#breakOff(error)
    }
    return this.#written()
  }

  /** Events that are already whole: a provider that answered a streamed request with plain JSON. */
  take(events: readonly ChatEvent[]): readonly Uint8Array[] {
    this.#takeAll(events)
    return this.#written()
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): readonly Uint8Array[] {
    this.#open()
    Object.assign(this.#parts.extra, stopNote(stoppedBy))
    if (stoppedBy !== undefined) {
      for (const choice of this.#choices.size > 0 ? this.#choices : [0]) {
        if (this.#closed.has(choice)) continue
        this.#write(
          this.#parts.encoder.event({
            kind: 'choice-finish',
            choice,
            reason: 'length',
            native: stoppedBy,
          }),
        )
      }
    }
    this.#write(this.#parts.encoder.finish(usage, bill))
    return this.#written()
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    this.#open()
    this.#write(this.#parts.encoder.fail(error))
    return this.#written()
  }

  #step(frame: Frame): void {
    if (this.#progress.ended) return
    this.#takeAll(this.#parts.parser.push(frame))
  }

  #takeAll(events: readonly ChatEvent[]): void {
    this.#progress.take(events, this.#onContent)
  }

  readonly #onContent = (event: ContentEvent): void => {
    this.#choices.add(event.choice)
    if (event.kind === 'choice-finish') this.#closed.add(event.choice)
    if (event.kind === 'tool-call-start' && event.thoughtSignature !== undefined) {
      this.#parts.onSignature(event.id, event.thoughtSignature)
    }
    this.#open()
    this.#write(this.#parts.encoder.event(event))
  }

  #open(): void {
    if (this.#opened) return
    this.#opened = true
    this.#write(this.#parts.encoder.start())
  }

  #breakOff(error: unknown): void {
    if (this.#progress.ended) return
    this.#progress.fault = transportFault('broken', `the stream could not be read: ${String(error)}`)
  }

  #write(frames: readonly Frame[]): void {
    for (const frame of frames) this.#text += encodeFrame(frame)
  }

  /** The bytes of what was written since the last time, in one piece. */
  #written(): readonly Uint8Array[] {
    const text = this.#text
    this.#text = ''
    return text === '' ? [] : [this.#utf8.encode(text)]
  }
}

/** For a provider that sent plain JSON instead of a stream of the client's own protocol: its answer comes as events. */
export function wholeChannel(
  encoder: StreamEncoder,
  { extra }: Pick<TranslateParts, 'extra'>,
): TranslateChannel {
  const unused = { push: () => [], end: () => [] }
  return new TranslateChannel({
    decoder: new SseDecoder(),
    parser: unused,
    encoder,
    extra,
    onSignature: () => undefined,
  })
}
