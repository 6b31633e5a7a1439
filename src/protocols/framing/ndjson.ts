// Decodes newline-delimited JSON, one frame per line.

import { boundFrame, type Frame, maxFrameCharacters, OversizedFrame } from './sse.ts'

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
      this.#bound(data.length)
      return data === '' ? [] : [boundFrame({ event: undefined, data })]
    })
    this.#blank = frames.length > 0 ? 0 : this.#blank + text.length
    this.#bound(this.#blank)
    if (rest !== '') {
      this.#pieces.push(rest)
      this.#length += rest.length
      this.#bound(this.#length)
    }
    return frames
  }

  #bound(length: number): void {
    if (length > this.#maxCharacters)
      throw new OversizedFrame(`a line is longer than ${this.#maxCharacters} characters`)
  }
}
