// Deadlines of calls in flight. One timer serves them all: a timer per read would cost more than the read.

/** How often deadlines are looked at, milliseconds: the error of every deadline is below it. */
const tickMs = 50

export interface Deadline {
  /** Puts the deadline `ms` from now. */
  extend(ms: number): void
  clear(): void
}

export class Watchdog {
  readonly #armed = new Set<{ due: number; fire: () => void }>()
  readonly #clock: () => number
  #timer: ReturnType<typeof setInterval> | undefined

  /** `clock` gives milliseconds and must never go back. */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock
  }

  /** Calls `fire` once, `ms` from now, unless the deadline is extended or cleared before. */
  arm(ms: number, fire: () => void): Deadline {
    const entry = { due: this.#clock() + ms, fire }
    this.#armed.add(entry)
    this.#timer ??= setInterval(() => this.look(), tickMs)
    return {
      extend: (more) => {
        entry.due = this.#clock() + more
        this.#armed.add(entry)
        this.#timer ??= setInterval(() => this.look(), tickMs)
      },
      clear: () => void this.#armed.delete(entry),
    }
  }

  /** Fires what is due; the timer does it every tick. */
  look(): void {
    const now = this.#clock()
    for (const entry of this.#armed) {
      if (entry.due > now) continue
      this.#armed.delete(entry)
      entry.fire()
    }
    if (this.#armed.size > 0 || this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
