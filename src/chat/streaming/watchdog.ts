// Deadlines of calls in flight. One timer serves them all: a timer per read would cost more than the read.

/** How often deadlines are looked at, milliseconds: the error of every deadline is below it. */
const tickMs = 50

/** One deadline of a call. */
export class Deadline {
  readonly #watchdog: Watchdog
  readonly #fire: () => void
  #due: number

  /** Made by `Watchdog.arm`. */
  constructor(watchdog: Watchdog, due: number, fire: () => void) {
    this.#watchdog = watchdog
    this.#due = due
    this.#fire = fire
  }

  /** Puts the deadline `ms` from now, also when it has been cleared or has fired. */
  extend(ms: number): void {
    this.#due = this.#watchdog.now() + ms
    this.#watchdog.watch(this)
  }

  clear(): void {
    this.#watchdog.forget(this)
  }

  /** Fires when it is due. */
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

  /** Fires what is due; the timer does it every tick. */
  look(): void {
    const now = this.now()
    for (const deadline of this.#armed) deadline.look(now)
    if (this.#armed.size > 0 || this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
