// Shares the event loop among all calls: what takes long is cut into steps, and between two of them every other call,
// and every connection, has its turn.

import type { Steps } from '../../json/steps.ts'

/**
 * How long steps run before the loop looks after its connections again, milliseconds. What runs between them counts as
 * well: a thousand requests may arrive in one look, and each has more to do than its steps.
 */
const turnMs = 8

/** The least urgent step waits for no longer than this for others, milliseconds. */
const longestWaitMs = 50

/**
 * What steady streams bring goes before what is large: their clients notice a pause of a tenth of a second. And what has
 * been begun is brought to its end before more is begun: every answer that waits, whole or in part, takes memory.
 */
const urgencies = ['soon', 'begun', 'later', 'new'] as const
export type Urgency = (typeof urgencies)[number]

export class Turns {
  /** When this turn of the loop began, by performance.now(); undefined before its first step. */
  #begunAt: number | undefined
  #armed = false
  readonly #queues: Readonly<Record<Urgency, Queue>> = {
    soon: new Queue(),
    begun: new Queue(),
    later: new Queue(),
    new: new Queue(),
  }

  /**
   * Does one step of work: at once while the loop has time, and otherwise when its turn has come. One step should take
   * no more than a few milliseconds: nothing interrupts it. What it throws rejects, or is thrown.
   */
  run<T>(work: () => T, urgency: Urgency = 'later'): T | Promise<T> {
    if (this.#begunAt === undefined) {
      this.#begunAt = performance.now()
      this.#arm()
    }
    if (this.#hasTime && this.#isNext(urgency)) return work()
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

  /** Does work that pauses by itself: as many of its steps in one turn as take a few milliseconds. */
  through<T>(steps: Steps<T>, urgency: Urgency = 'later'): T | Promise<T> {
    const first = this.run(() => someOf(steps), urgency)
    if (first instanceof Promise) return this.#rest(steps, first, urgency)
    return first.done ? first.value : this.#rest(steps, first, urgency)
  }

  async #rest<T>(steps: Steps<T>, first: Some<T> | Promise<Some<T>>, urgency: Urgency): Promise<T> {
    let made = await first
    while (!made.done) made = await this.run(() => someOf(steps), urgency)
    return made.value
  }

  /** Whether nothing waits that comes before a step of this urgency. */
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
    // Between two of these the runtime has looked at every connection.
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#armed = false
    this.#begunAt = performance.now()
    for (const urgency of urgencies) {
      const queue = this.#queues[urgency]
      // However much is more urgent, one step of each is done now and then.
      if (queue.size > 0 && performance.now() - queue.takenAt > longestWaitMs) queue.take()()
      while (queue.size > 0 && this.#hasTime) queue.take()()
      if (queue.size > 0) this.#arm()
    }
    // The connections are looked at next, and what they bring has a time of its own.
    this.#begunAt = undefined
  }
}

/** How long the steps of one piece of work run in one turn, milliseconds. */
const runMs = 4

type Some<T> = IteratorResult<void, T>

function someOf<T>(steps: Steps<T>): Some<T> {
  const begun = performance.now()
  let made = steps.next()
  while (!made.done && performance.now() - begun < runMs) made = steps.next()
  return made
}

type Step = () => void

/** First in, first out; taking is as cheap from a long queue as from a short one. */
class Queue {
  #steps: Step[] = []
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
    const step = this.#steps[this.#at++]!
    this.takenAt = performance.now()
    if (this.#at === this.#steps.length) {
      this.#steps = []
      this.#at = 0
    }
    return step
  }
}

/** Bytes that a stream's step works on at the most. */
const stepBytes = 16_384
/** A read this small is of a steady stream, or of one that has little to say. */
export const smallBytes = 4_096

/** Whether bytes are few enough to go before others. */
export function isSmall(bytes: Uint8Array): boolean {
  return bytes.length <= smallBytes
}

/** The pieces that bytes are worked on in, a step for each. */
export function stepsOf(bytes: Uint8Array): Iterable<Uint8Array> {
  return bytes.length <= stepBytes ? [bytes] : piecesOf(bytes)
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += stepBytes) yield bytes.subarray(at, at + stepBytes)
}
