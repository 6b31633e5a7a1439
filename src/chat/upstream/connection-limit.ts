// Limits concurrent requests to providers: more are refused, not queued.

export class ConnectionLimit {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Counts a request, which must be given back once; false if the limit is reached. */
  take(): boolean {
    if (this.#open >= this.#most) return false
    this.#open += 1
    return true
  }

  giveBack(): void {
    this.#open -= 1
  }

  get taken(): number {
    return this.#open
  }
}
