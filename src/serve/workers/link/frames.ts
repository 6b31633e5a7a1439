// Messages on a stream of bytes: each frame is its length, four bytes, and a JSON array of messages.

const headerBytes = 4
/** The size limit of a frame; a greater length means that the stream is broken. */
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

/** Assembles frames from chunks of the stream. */
export class FrameReader {
  #pieces: Buffer[] = []
  #bytes = 0

  /** The contents of the frames that are complete now. Throws RangeError for an impossible length. */
  take(piece: Uint8Array): string[] {
    // Copied: the socket reuses its buffer.
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

  /** The length of the current frame; undefined until its header has arrived. */
  #length(): number | undefined {
    if (this.#bytes < headerBytes) return undefined
    if (this.#pieces[0]!.length < headerBytes) this.#joined()
    const length = this.#pieces[0]!.readUInt32LE()
    if (length > mostFrameBytes) throw new RangeError(`a frame of ${length} bytes`)
    return length
  }

  /** All chunks joined: once for each frame, however many chunks it came in. */
  #joined(): Buffer {
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = [all]
    return all
  }
}
