// A long text that comes in small pieces.

/** So many pieces are joined: a string cut out of a larger one, as pieces of a stream are, keeps the larger one in memory. */
const joinedPieces = 64

export class CollectedText {
  readonly #joined: string[] = []
  #pieces: string[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  add(piece: string): void {
    this.#length += piece.length
    if (this.#pieces.push(piece) < joinedPieces) return
    this.#joined.push(this.#pieces.join(''))
    this.#pieces = []
  }

  toString(): string {
    return this.#joined.join('') + this.#pieces.join('')
  }
}
