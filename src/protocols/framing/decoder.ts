// The frame decoder of each framing a provider may use.

import type { Outbound } from '../protocol.ts'
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

// Decodes Amazon's binary event stream (`application/vnd.amazon.eventstream`), verifying both checksums.
// A message is: total length, headers length, checksum of these two; headers; payload; checksum of all before.

/** Prefix of the name of a frame that is an exception, followed by its type. Its data is `{"message": …}`. */
export const exceptionPrefix = 'exception:'

/** The type of Amazon's exception that a frame holds; undefined where it holds none. */
export function exceptionIn({ event }: Frame): string | undefined {
  return event?.startsWith(exceptionPrefix) ? event.slice(exceptionPrefix.length) : undefined
}

const preludeBytes = 12
const checksumBytes = 4
const utf8 = new TextDecoder()

/** Decodes the bytes of a body, cut anywhere, to frames named by event type. Throws for corrupt data. */
export class AwsEventStreamDecoder {
  readonly #maxBytes: number
  #pieces: Uint8Array[] = []
  #length = 0
  /** How many bytes are needed before the next message can be decoded. */
  #needed = preludeBytes
  /** The headers of the last message as bytes and decoded, since most messages repeat them. */
  #headerBytes: Uint8Array = new Uint8Array(0)
  #headers: ReadonlyMap<string, string> = new Map()

  constructor(maxBytes: number = maxFrameCharacters) {
    this.#maxBytes = maxBytes
  }

  /** The frames completed by these bytes. Throws for a wrong checksum, and like `SseDecoder`. */
  push(bytes: Uint8Array): Frame[] {
    this.#pieces.push(bytes)
    this.#length += bytes.length
    if (this.#length < this.#needed) return []
    const all = this.#pieces.length === 1 ? bufferOver(bytes) : Buffer.concat(this.#pieces)
    const frames: Frame[] = []
    let at = 0
    this.#needed = preludeBytes
    while (all.length - at >= preludeBytes) {
      const size = this.#sizeAt(all, at)
      if (all.length - at < size) {
        this.#needed = size
        break
      }
      const frame = this.#frameAt(all, at, at + size)
      if (frame !== undefined) frames.push(frame)
      at += size
    }
    this.#pieces = at < all.length ? [all.subarray(at)] : []
    this.#length = all.length - at
    return frames
  }

  /** Returns nothing: a truncated message is ignored. */
  end(): Frame[] {
    return []
  }

  /** The length of the message that begins at `start`. */
  #sizeAt(all: Buffer, start: number): number {
    if (Bun.hash.crc32(all.subarray(start, start + 8)) !== all.readUInt32BE(start + 8)) {
      throw new Error('the prelude of an event has a wrong checksum')
    }
    const size = all.readUInt32BE(start)
    if (size < preludeBytes + all.readUInt32BE(start + 4) + checksumBytes) {
      throw new Error('an event is shorter than its headers')
    }
    if (size > this.#maxBytes) throw new OversizedFrame(`an event is larger than ${this.#maxBytes} bytes`)
    return size
  }

  #frameAt(all: Buffer, start: number, end: number): Frame | undefined {
    const bodyEnd = end - checksumBytes
    if (Bun.hash.crc32(all.subarray(start, bodyEnd)) !== all.readUInt32BE(bodyEnd)) {
      throw new Error('an event has a wrong checksum')
    }
    const headersEnd = start + preludeBytes + all.readUInt32BE(start + 4)
    const headers = this.#headersAt(all, start + preludeBytes, headersEnd)
    return frameOf(headers, utf8.decode(all.subarray(headersEnd, bodyEnd)))
  }

  #headersAt(all: Buffer, start: number, end: number): ReadonlyMap<string, string> {
    const known = this.#headerBytes
    if (all.compare(known, 0, known.length, start, end) !== 0) {
      this.#headers = headersOf(all.subarray(start, end))
      this.#headerBytes = Uint8Array.from(all.subarray(start, end))
    }
    return this.#headers
  }
}

function frameOf(headers: ReadonlyMap<string, string>, data: string): Frame | undefined {
  switch (headers.get(':message-type')) {
    case 'exception':
      return { event: exceptionPrefix + (headers.get(':exception-type') ?? ''), data }
    case 'error': {
      // A transport error has everything in its headers.
      const message = headers.get(':error-message') ?? ''
      return {
        event: exceptionPrefix + (headers.get(':error-code') ?? ''),
        data: JSON.stringify({ message }),
      }
    }
    default: {
      const event = headers.get(':event-type')
      return event === undefined ? undefined : boundFrame({ event, data })
    }
  }
}

/** Sizes of header values by type number; true and false have none. */
const fixedSizes: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }
const stringType = 7
const bytesType = 6

/** String headers by name; others are skipped. Throws if they exceed the data. */
function headersOf(bytes: Uint8Array): Map<string, string> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const headers = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const nameEnd = at + 1 + view.getUint8(at)
    const name = utf8.decode(bytes.subarray(at + 1, nameEnd))
    const type = view.getUint8(nameEnd)
    const sized = type === stringType || type === bytesType
    const valueAt = nameEnd + (sized ? 3 : 1)
    const size = sized ? view.getUint16(nameEnd + 1) : fixedSizes[type]
    if (size === undefined || valueAt + size > bytes.length)
      throw new Error('a header of an event cannot be read')
    if (type === stringType) headers.set(name, utf8.decode(bytes.subarray(valueAt, valueAt + size)))
    at = valueAt + size
  }
  return headers
}

function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
