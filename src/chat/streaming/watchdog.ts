// Deadlines of running calls. One timer serves all of them: a timer per read would cost more than the read.

/** How often deadlines are checked, milliseconds; a deadline fires at most this much late. */
const tickMs = 50

export class Deadline {
  readonly #watchdog: Watchdog
  readonly #fire: () => void
  #due: number

  constructor(watchdog: Watchdog, due: number, fire: () => void) {
    this.#watchdog = watchdog
    this.#due = due
    this.#fire = fire
  }

  /** Sets the deadline to `ms` from now, even if it was cleared or has fired. */
  extend(ms: number): void {
    this.#due = this.#watchdog.now() + ms
    this.#watchdog.watch(this)
  }

  /** Never fires unless it is extended: cheaper than `clear` for a deadline that is extended again and again. */
  pause(): void {
    this.#due = Number.POSITIVE_INFINITY
  }

  clear(): void {
    this.#watchdog.forget(this)
  }

  /** Fires if it is due. */
  look(now: number): void {
    if (this.#due > now) return
    this.#watchdog.forget(this)
    this.#fire()
  }
}

export class Watchdog {
  /** Milliseconds; never goes back. */
  readonly now: () => number
  readonly #armed = new Set<Deadline>()
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(clock: () => number = () => performance.now()) {
    this.now = clock
  }

  /** Calls `fire` once, `ms` from now, unless the deadline is extended or cleared before. */
  arm(ms: number, fire: () => void): Deadline {
    const deadline = new Deadline(this, this.now() + ms, fire)
    this.watch(deadline)
    return deadline
  }

  watch(deadline: Deadline): void {
    this.#armed.add(deadline)
    this.#timer ??= setInterval(() => this.look(), tickMs)
  }

  forget(deadline: Deadline): void {
    this.#armed.delete(deadline)
  }

  /** Fires everything that is due; called every tick. */
  look(): void {
    const now = this.now()
    for (const deadline of this.#armed) deadline.look(now)
    if (this.#armed.size > 0 || this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
