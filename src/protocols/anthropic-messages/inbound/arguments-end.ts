// Finds where the arguments of a call end, as their text comes.

/** Reads each piece once: parsing all of the text again with every piece of a long call would take minutes. */
export class ArgumentsEnd {
  #unread: string[] = []
  #depth = 0
  #inString = false
  #isEscaped = false
  #isReached = false

  add(piece: string): void {
    if (!this.#isReached) this.#unread.push(piece)
  }

  /** Whether the object or list that the text began with is closed. What it holds is not checked. */
  get isReached(): boolean {
    for (const piece of this.#unread.splice(0)) this.#read(piece)
    return this.#isReached
  }

  #read(piece: string): void {
    for (let at = 0; at < piece.length && !this.#isReached; at++) {
      const character = piece[at]!
      if (this.#isEscaped) this.#isEscaped = false
      else if (this.#inString && character === '\\') this.#isEscaped = true
      else if (character === '"') this.#inString = !this.#inString
      else if (!this.#inString) this.#nest(character)
    }
  }

  #nest(character: string): void {
    if (character === '{' || character === '[') this.#depth++
    else if (character === '}' || character === ']') this.#isReached = --this.#depth <= 0
  }
}
