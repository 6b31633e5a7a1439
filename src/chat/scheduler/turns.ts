// Shares the event loop among all calls: long work is cut into steps, and other calls and connections get their turn
// between two steps.

import { type DoneOrSteps, isLong, isSteps, type Steps, textSteps } from '../../json/json.ts'

/**
 * How long steps may run before the loop checks its connections again, milliseconds. Work between the steps counts
 * too: a thousand requests may arrive at once, and each does more than its steps.
 */
const turnMs = 8

/** Even the least urgent step waits no longer than this for others, milliseconds. */
const longestWaitMs = 50

/**
 * Small steps of steady streams come before large ones: clients notice a pause of a tenth of a second. Started work is
 * finished before new work begins, because every unfinished answer takes memory.
 */
const urgencies = ['soon', 'begun', 'later', 'new'] as const
export type Urgency = (typeof urgencies)[number]

/** Work on so few characters is not put off: it takes less than the rest of a call, which nothing puts off either. */
export const littleCharacters = 16_384

/**
 * Awaited between two phases of a call: calls that go on in the same turn of the loop do each phase one after another. That
 * costs each of them less than to run through all phases by itself, as the processor has the code of a phase at hand.
 */
export const inStep: Promise<void> = Promise.resolve()

export class Turns {
  /** What `together` resolves at the end of this turn. */
  #together: Promise<void> | undefined
  /** When the current turn of the loop began, by performance.now(); undefined before its first step. */
  #begunAt: number | undefined
  #armed = false
  readonly #queues: Readonly<Record<Urgency, Queue>> = {
    soon: new Queue(),
    begun: new Queue(),
    later: new Queue(),
    new: new Queue(),
  }

  /**
   * Runs one step: at once if the loop has time, otherwise when its turn comes. A step should take no more than a few
   * milliseconds, since nothing interrupts it. Errors are thrown or reject.
   */
  run<T>(work: () => T, urgency: Urgency = 'later'): T | Promise<T> {
    // However long the system stops the process here, the first step of a turn has used none of its time.
    const isFirst = this.#begunAt === undefined
    if (isFirst) {
      this.#begunAt = performance.now()
      this.#arm()
    }
    return (isFirst || this.#hasTime) && this.#isNext(urgency) ? work() : this.#later(work, urgency)
  }

  /** Resolves at the end of this turn of the loop, for all who ask in it: they go on in step. Costs a turn. */
  together(): Promise<void> {
    return (this.#together ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#together = undefined
        resolve()
      })
    }))
  }

  #later<T>(work: () => T, urgency: Urgency): Promise<T> {
    const queue = this.#queues[urgency]
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    queue.add(() => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    })
    return promise
  }

  /** Runs work that yields between its steps, as many per turn as fit into a few milliseconds. */
  through<T>(steps: Steps<T>, urgency: Urgency = 'later'): T | Promise<T> {
    const first = this.run(() => someOf(steps), urgency)
    if (first instanceof Promise) return this.#rest(steps, first, urgency)
    return first.done ? first.value : this.#rest(steps, first, urgency)
  }

  /** Runs work as one step, and in further steps if there is much of it. */
  whole<T>(work: () => DoneOrSteps<T>, urgency: Urgency = 'later'): T | Promise<T> {
    const made = this.run(work, urgency)
    if (made instanceof Promise) return this.#resume(made, urgency)
    return isSteps(made) ? this.through(made, urgency) : made
  }

  async #resume<T>(work: Promise<DoneOrSteps<T>>, urgency: Urgency): Promise<T> {
    const made = await work
    return isSteps(made) ? this.through(made, urgency) : made
  }

  /** The JSON text of a value: written at once if it is short, as most are. */
  text(value: unknown): string | Promise<string> {
    return isLong(value) ? this.through(textSteps(value)) : JSON.stringify(value)
  }

  async #rest<T>(steps: Steps<T>, first: Some<T> | Promise<Some<T>>, urgency: Urgency): Promise<T> {
    let made = await first
    while (!made.done) made = await this.run(() => someOf(steps), urgency)
    return made.value
  }

  /** Whether no more urgent step is waiting. */
  #isNext(urgency: Urgency): boolean {
    for (const other of urgencies) {
      if (this.#queues[other].size > 0) return false
      if (other === urgency) break
    }
    return true
  }

  get #hasTime(): boolean {
    return this.#begunAt === undefined || performance.now() - this.#begunAt < turnMs
  }

  #arm(): void {
    if (this.#armed) return
    this.#armed = true
    // The runtime checks every connection between two of these.
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#armed = false
    this.#begunAt = performance.now()
    const overdue = this.#longestWaiting()
    overdue?.take()()
    let idle = overdue === undefined
    for (const urgency of urgencies) {
      const queue = this.#queues[urgency]
      while (queue.size > 0 && this.#hasTime) {
        queue.take()()
        idle = false
      }
    }
    // Work triggered by the steps runs before the connections are checked: it counts towards this turn. And a process
    // that the system has stopped for a while may find the turn over before its first step.
    if (!idle || this.#isWaiting) this.#arm()
    else this.#begunAt = undefined
  }

  get #isWaiting(): boolean {
    return urgencies.some((urgency) => this.#queues[urgency].size > 0)
  }

  /**
   * The queue that has waited too long, if any: every queue gets a step now and then, however much is more urgent.
   * Only one per turn, because it adds to the time of the turn.
   */
  #longestWaiting(): Queue | undefined {
    let longest: Queue | undefined
    for (const urgency of urgencies) {
      const queue = this.#queues[urgency]
      if (queue.size === 0 || performance.now() - queue.takenAt <= longestWaitMs) continue
      if (longest === undefined || queue.takenAt < longest.takenAt) longest = queue
    }
    return longest
  }
}

/** How long one piece of work may run in a turn, milliseconds. */
const runMs = 4

type Some<T> = IteratorResult<void, T>

function someOf<T>(steps: Steps<T>): Some<T> {
  const begun = performance.now()
  let made = steps.next()
  while (!made.done && performance.now() - begun < runMs) made = steps.next()
  return made
}

type Step = () => void

/** Places of taken steps that are kept at least, so that a short queue is not copied again and again. */
const takenPlaces = 256

/** First in, first out; taking costs the same however long the queue is. */
class Queue {
  #steps: (Step | undefined)[] = []
  #at = 0
  /** When a step was last taken, by performance.now(). */
  takenAt = 0

  get size(): number {
    return this.#steps.length - this.#at
  }

  add(step: Step): void {
    this.#steps.push(step)
  }

  take(): Step {
    const step = this.#steps[this.#at]!
    // A queue that is never empty must not keep what its steps have worked on.
    this.#steps[this.#at++] = undefined
    this.takenAt = performance.now()
    if (this.#at === this.#steps.length || (this.#at >= takenPlaces && this.#at * 2 >= this.#steps.length)) {
      this.#steps = this.#steps.slice(this.#at)
      this.#at = 0
    }
    return step
  }
}

/** The most bytes that one step of a stream works on. */
const stepBytes = 16_384
/** A read this small belongs to a steady stream. */
export const smallBytes = 4_096

/** Whether a read is small enough to go before others. */
export function isSmall(bytes: Uint8Array): boolean {
  return bytes.length <= smallBytes
}

/** Cuts bytes into pieces, one per step. */
export function stepsOf(bytes: Uint8Array): Iterable<Uint8Array> {
  return bytes.length <= stepBytes ? [bytes] : piecesOf(bytes)
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += stepBytes) yield bytes.subarray(at, at + stepBytes)
}
