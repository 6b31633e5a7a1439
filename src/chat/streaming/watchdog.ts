// Deadlines of running calls. One timer serves all of them: a timer per read would cost more than the read.

import { type Placed, ShortLivedSet } from '../../short-lived.ts'

/** How often deadlines are checked, milliseconds; a deadline fires at most this much late. */
const tickMs = 50

/** The slots of the wheel, one per tick: a check only sees the deadlines of its own tick, not those of every call. */
const slots = 512

type Slot = ShortLivedSet<Deadline>

export class Deadline implements Placed {
  /** In its slot. */
  place = -1
  readonly #watchdog: Watchdog
  readonly #fire: () => void
  #due = Number.POSITIVE_INFINITY
  #slot: Slot | undefined
  /** Its slot is looked at before this. */
  #seenBy = 0

  constructor(watchdog: Watchdog, fire: () => void) {
    this.#watchdog = watchdog
    this.#fire = fire
  }

  /** Sets the deadline to `ms` from now, even if it was cleared or has fired. */
  extend(ms: number): void {
    this.#due = this.#watchdog.now() + ms
    // One that is put off stays in its slot until it is looked at there: streams do so with every read.
    if (this.#slot === undefined || this.#due < this.#seenBy) this.#place()
  }

  /** Never fires unless it is extended: cheaper than `clear` for a deadline that is extended again and again. */
  pause(): void {
    this.#due = Number.POSITIVE_INFINITY
  }

  clear(): void {
    this.pause()
    this.#takeOut()
  }

  /** Fires if it is due; otherwise waits in the slot where it will be. */
  look(now: number): void {
    if (this.#due <= now) {
      this.#takeOut()
      this.#fire()
    } else if (this.#due === Number.POSITIVE_INFINITY) this.#takeOut()
    else this.#place()
  }

  #place(): void {
    const slot = this.#watchdog.slotOf(this.#due)
    this.#seenBy = this.#due
    if (slot === this.#slot) return
    this.#takeOut()
    this.#slot = slot
    this.#watchdog.putIn(this, slot)
  }

  #takeOut(): void {
    if (this.#slot === undefined) return
    this.#watchdog.takeOut(this, this.#slot)
    this.#slot = undefined
  }
}

export class Watchdog {
  /** Milliseconds; never goes back. */
  readonly now: () => number
  /** Deadlines by the tick they are due in, one slot for all ticks with the same remainder. */
  readonly #wheel: readonly Slot[] = Array.from({ length: slots }, () => new ShortLivedSet())
  #armed = 0
  /** The last tick that was looked at; its slot is looked at once more, because it had not ended. */
  #looked = 0
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(clock: () => number = () => performance.now()) {
    this.now = clock
  }

  /** Calls `fire` once, `ms` from now, unless the deadline is extended or cleared before. */
  arm(ms: number, fire: () => void): Deadline {
    const deadline = new Deadline(this, fire)
    deadline.extend(ms)
    return deadline
  }

  /** The slot that is looked at when `due` comes, or at the next look if it has come already. */
  slotOf(due: number): Slot {
    return this.#wheel[Math.max(tickOf(due), this.#looked) % slots]!
  }

  putIn(deadline: Deadline, slot: Slot): void {
    slot.add(deadline)
    this.#armed += 1
    this.#timer ??= setInterval(() => this.look(), tickMs)
  }

  takeOut(deadline: Deadline, slot: Slot): void {
    if (slot.delete(deadline)) this.#armed -= 1
  }

  /** Fires everything that is due; called every tick. */
  look(): void {
    const now = this.now()
    const until = tickOf(now)
    const from = Math.max(this.#looked, until - slots + 1)
    this.#looked = until
    for (let tick = from; tick <= until; tick++)
      for (const deadline of this.#wheel[tick % slots]!.values()) deadline.look(now)
    if (this.#armed > 0 || this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function tickOf(ms: number): number {
  return Math.floor(ms / tickMs)
}
