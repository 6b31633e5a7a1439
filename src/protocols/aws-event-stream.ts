// Amazon's binary event stream (`application/vnd.amazon.eventstream`): bytes to frames, both checksums verified.
// A message is: total length, headers length, checksum of these two; headers; payload; checksum of all before.

import { crc32 } from 'node:zlib'
import { type Frame, maxFrameCharacters } from './sse.ts'

/** Begins the name of a frame that is an exception: what follows is its type. Its data is `{"message": …}`. */
export const exceptionPrefix = 'exception:'

const preludeBytes = 12
const checksumBytes = 4

/** Turns the bytes of a body, cut anywhere, into frames named by their event type. Throws for what is corrupt. */
export class AwsEventStreamDecoder {
  readonly #maxBytes: number
  #pieces: Uint8Array[] = []
  #length = 0
  /** How many bytes the next message needs to be looked at again. */
  #needed = preludeBytes

  constructor(maxBytes: number = maxFrameCharacters) {
    this.#maxBytes = maxBytes
  }

  /** The frames completed by these bytes. Throws for a wrong checksum and for a message that is too large. */
  push(bytes: Uint8Array): Frame[] {
    this.#pieces.push(bytes)
    this.#length += bytes.length
    if (this.#length < this.#needed) return []
    const all = this.#pieces.length === 1 ? bytes : Buffer.concat(this.#pieces)
    const frames: Frame[] = []
    let at = 0
    this.#needed = preludeBytes
    while (all.length - at >= preludeBytes) {
      const size = this.#sizeOf(all.subarray(at, at + preludeBytes))
      if (all.length - at < size) {
        this.#needed = size
        break
      }
      const frame = frameOf(all.subarray(at, at + size))
      if (frame !== undefined) frames.push(frame)
      at += size
    }
    this.#pieces = [all.subarray(at)]
    this.#length = all.length - at
    return frames
  }

  /** Nothing more: a message has no end but its own, and one that is broken off says nothing. */
  end(): Frame[] {
    return []
  }

  #sizeOf(prelude: Uint8Array): number {
    const view = viewOf(prelude)
    if (crc32(prelude.subarray(0, 8)) !== view.getUint32(8)) {
      throw new Error('the prelude of an event has a wrong checksum')
    }
    const size = view.getUint32(0)
    if (size < preludeBytes + view.getUint32(4) + checksumBytes) {
      throw new Error('an event is shorter than its headers')
    }
    if (size > this.#maxBytes) throw new Error(`an event is larger than ${this.#maxBytes} bytes`)
    return size
  }
}

function frameOf(message: Uint8Array): Frame | undefined {
  const view = viewOf(message)
  const bodyEnd = message.length - checksumBytes
  if (crc32(message.subarray(0, bodyEnd)) !== view.getUint32(bodyEnd)) {
    throw new Error('an event has a wrong checksum')
  }
  const headersEnd = preludeBytes + view.getUint32(4)
  const headers = headersOf(message.subarray(preludeBytes, headersEnd))
  const data = new TextDecoder().decode(message.subarray(headersEnd, bodyEnd))
  switch (headers.get(':message-type')) {
    case 'exception':
      return { event: exceptionPrefix + (headers.get(':exception-type') ?? ''), data }
    case 'error': {
      // An error of the transport says everything in its headers.
      const message = headers.get(':error-message') ?? ''
      return {
        event: exceptionPrefix + (headers.get(':error-code') ?? ''),
        data: JSON.stringify({ message }),
      }
    }
    default: {
      const event = headers.get(':event-type')
      return event === undefined ? undefined : { event, data }
    }
  }
}

/** The bytes that a header's value takes, by the number of its type; true and false take none. */
const fixedSizes: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }
const stringType = 7
const bytesType = 6

/** The headers that are strings, by name; the others are walked over. Throws when they run out of bytes. */
function headersOf(bytes: Uint8Array): Map<string, string> {
  const view = viewOf(bytes)
  const text = new TextDecoder()
  const headers = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const nameEnd = at + 1 + view.getUint8(at)
    const name = text.decode(bytes.subarray(at + 1, nameEnd))
    const type = view.getUint8(nameEnd)
    const sized = type === stringType || type === bytesType
    const valueAt = nameEnd + (sized ? 3 : 1)
    const size = sized ? view.getUint16(nameEnd + 1) : fixedSizes[type]
    if (size === undefined || valueAt + size > bytes.length)
      throw new Error('a header of an event cannot be read')
    if (type === stringType) headers.set(name, text.decode(bytes.subarray(valueAt, valueAt + size)))
    at = valueAt + size
  }
  return headers
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
