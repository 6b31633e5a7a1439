// Limits retries over all calls together, so that they do not make an outage worse.

/** Retries allowed per request in the window. */
const share = 0.1
/** Retries always allowed in a window, so that a gateway with one caller can retry too. */
const floor = 10
/** The length of the sliding window. */
const seconds = 10

export class RetryBudget {
  readonly #clock: () => number
  readonly #requests = new Float64Array(seconds)
  readonly #retries = new Float64Array(seconds)
  #second = 0

  /** `clock` gives milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock
    this.#second = Math.floor(clock() / 1000)
  }

  request(): void {
    this.#requests[this.#slot()]! += 1
  }

  /** Takes one retry from the budget; false if it is used up. */
  take(): boolean {
    const slot = this.#slot()
    const allowed = Math.max(floor, share * sum(this.#requests))
    if (sum(this.#retries) + 1 > allowed) return false
    this.#retries[slot]! += 1
    return true
  }

  /** The slot of the current second; clears slots older than the window. */
  #slot(): number {
    const second = Math.floor(this.#clock() / 1000)
    const passed = Math.min(Math.max(0, second - this.#second), seconds)
    for (let step = 1; step <= passed; step++) {
      const at = (this.#second + step) % seconds
      this.#requests[at] = 0
      this.#retries[at] = 0
    }
    this.#second = Math.max(this.#second, second)
    return this.#second % seconds
  }
}

function sum(counts: Float64Array): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
