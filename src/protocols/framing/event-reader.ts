// Reads the server-sent events of a stream one after the other.

import { endOfEvent, type Frame, type SseDecoder } from './sse.ts'

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
