// Limits concurrent requests to providers: more are refused, not queued.

export class ConnectionLimit {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Counts a request and returns the function that ends it, once; undefined if the limit is reached. */
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
