// Messages on a stream of bytes: each frame is its length, four bytes, and a JSON array of messages.

const headerBytes = 4
/** What one frame may hold: a length beyond it is no length, but a fault. */
const mostFrameBytes = 512 * 1024 ** 2

/** Messages, each as JSON text, as one frame. */
export function frameOf(messages: readonly string[]): Buffer {
  const text = `[${messages.join(',')}]`
  const bytes = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(headerBytes + bytes)
  frame.writeUInt32LE(bytes)
  frame.write(text, headerBytes)
  return frame
}

/** Puts frames together from the pieces in which they arrive. */
export class FrameReader {
  #pieces: Buffer[] = []
  #bytes = 0

  /** The content of the frames that are whole now. Throws RangeError where no frame can begin so. */
  take(piece: Uint8Array): string[] {
    // The socket uses its buffer again.
    this.#pieces.push(Buffer.from(piece))
    this.#bytes += piece.byteLength
    const contents: string[] = []
    for (let length = this.#length(); length !== undefined; length = this.#length()) {
      if (this.#bytes < headerBytes + length) break
      const all = this.#joined()
      contents.push(all.toString('utf8', headerBytes, headerBytes + length))
      this.#pieces = [all.subarray(headerBytes + length)]
      this.#bytes -= headerBytes + length
    }
    return contents
  }

  /** Of the frame that has begun; undefined while that is not known. */
  #length(): number | undefined {
    if (this.#bytes < headerBytes) return undefined
    if (this.#pieces[0]!.length < headerBytes) this.#joined()
    const length = this.#pieces[0]!.readUInt32LE()
    if (length > mostFrameBytes) throw new RangeError(`a frame of ${length} bytes`)
    return length
  }

  /** All that waits in one piece: once for each frame, however many pieces it came in. */
  #joined(): Buffer {
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = [all]
    return all
  }
}
