// How many requests to providers may be open at one time: beyond that they are refused, not queued.

export class ConnectionLimit {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Counts one more and gives the function that ends it, which counts once; undefined when no more may be open. */
  take(): (() => void) | undefined {
    if (this.#open >= this.#most) return undefined
    this.#open += 1
    let mine = true
    return () => {
      if (mine) this.#open -= 1
      mine = false
    }
  }

  get taken(): number {
    return this.#open
  }
}
