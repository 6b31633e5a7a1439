// A bounded number of things at one time; who finds none left is refused, not queued.

export class Slots {
  readonly #most: number
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Takes a slot and gives the function that returns it, which counts once; undefined when all are taken. */
  take(): (() => void) | undefined {
    if (this.#taken >= this.#most) return undefined
    this.#taken += 1
    let mine = true
    return () => {
      if (mine) this.#taken -= 1
      mine = false
    }
  }

  get taken(): number {
    return this.#taken
  }
}
