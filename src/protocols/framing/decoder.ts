// The frame decoder of each framing a provider may use.

import type { Outbound } from '../protocol.ts'
import { AwsEventStreamDecoder } from './aws-event-stream.ts'
import { boundFrame, endOfEvent, type Frame, maxFrameCharacters, OversizedFrame, SseDecoder } from './sse.ts'

/** Bytes of one framing, cut anywhere, to frames. */
export interface FrameDecoder {
  push(bytes: Uint8Array): readonly Frame[]
  end(): readonly Frame[]
}

const decoders: Readonly<Partial<Record<Outbound['framing'], (maxCharacters: number) => FrameDecoder>>> = {
  sse: (maxCharacters) => new SseDecoder(maxCharacters),
  ndjson: (maxCharacters) => new NdjsonDecoder(maxCharacters),
  'aws-event-stream': (maxBytes) => new AwsEventStreamDecoder(maxBytes),
}

/** A new decoder for events of at most `bytes`. Throws if the protocol has no framing, which is a bug. */
export function frameDecoder(framing: Outbound['framing'], maxBytes: number): FrameDecoder {
  const make = decoders[framing]
  if (!make) throw new Error(`no decoder for ${framing}`)
  return make(maxBytes)
}

// Reads the server-sent events of a stream one after the other.

const none: readonly Frame[] = []

/** Takes events of `received` from `at` on, where one begins; returns where they end, undefined if it takes none. */
type Skip = (received: string, at: number) => number | undefined

export class EventReader {
  readonly #decoder: SseDecoder
  readonly #skip: Skip
  /** Received and not yet decoded from `#at` on. */
  #received = ''
  #at = 0
  /** Decoded and not yet read from `#frame` on. */
  #frames = none
  #frame = 0

  /** `skip` is offered each event before it is decoded. */
  constructor(decoder: SseDecoder, skip: Skip) {
    this.#decoder = decoder
    this.#skip = skip
  }

  /** Takes bytes of the stream, cut anywhere; to be read to their end before the next. */
  push(bytes: Uint8Array): void {
    this.#received = this.#decoder.decode(bytes)
    this.#at = 0
    this.#frames = none
    this.#frame = 0
  }

  /** The next frame that is complete. Events that are skipped are skipped on the way. Throws what the decoder throws. */
  next(): Frame | undefined {
    if (this.#frame < this.#frames.length) return this.#frames[this.#frame++]
    while (this.#at < this.#received.length) {
      const skipped = this.#decoder.between ? this.#skip(this.#received, this.#at) : undefined
      if (skipped !== undefined) {
        this.#at = skipped
        continue
      }
      const end = endOfEvent(this.#received, this.#at)
      this.#frames = this.#decoder.feed(this.#received.slice(this.#at, end))
      this.#frame = 1
      this.#at = end
      if (this.#frames.length > 0) return this.#frames[0]
    }
    // Nothing of what was read is kept in memory until the next read.
    this.#received = ''
    this.#frames = none
    return undefined
  }
}

// Decodes newline-delimited JSON, one frame per line.

/** Decodes the bytes of a body, cut anywhere, to frames. Keeps what is unfinished until the next call. */
export class NdjsonDecoder {
  readonly #decoder = new TextDecoder('utf-8')
  readonly #maxCharacters: number
  /** Pieces of the unfinished line, joined once complete, so that a long line is not copied repeatedly. */
  #pieces: string[] = []
  #length = 0
  /** Characters since the last non-blank line: blank ones could continue without end. */
  #blank = 0

  constructor(maxCharacters: number = maxFrameCharacters) {
    this.#maxCharacters = maxCharacters
  }

  /** The frames of the lines completed by these bytes. Throws like `SseDecoder`. */
  push(bytes: Uint8Array): Frame[] {
    return this.#take(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The last line, which may lack its line break. */
  end(): Frame[] {
    return this.#take(`${this.#decoder.decode()}\n`)
  }

  #take(text: string): Frame[] {
    const lines = text.split('\n')
    const rest = lines.pop() ?? ''
    const frames = lines.flatMap((line): Frame[] => {
      const data = [...this.#pieces, line].join('').trim()
      this.#pieces = []
      this.#length = 0
      this.#requireWithin(data.length)
      return data === '' ? [] : [boundFrame({ event: undefined, data })]
    })
    this.#blank = frames.length > 0 ? 0 : this.#blank + text.length
    this.#requireWithin(this.#blank)
    if (rest !== '') {
      this.#pieces.push(rest)
      this.#length += rest.length
      this.#requireWithin(this.#length)
    }
    return frames
  }

  #requireWithin(length: number): void {
    if (length > this.#maxCharacters)
      throw new OversizedFrame(`a line is longer than ${this.#maxCharacters} characters`)
  }
}
