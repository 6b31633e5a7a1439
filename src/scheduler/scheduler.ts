// Shares among all calls what they have together: the event loop, and places, connections and bytes.
//
// Tasks run by priority, and a long one yields between its steps, so that other calls and connections go on meanwhile.

import { type DoneOrSteps, isLong, isSteps, type Steps, textSteps } from '../json/json.ts'
import { ShortLivedMap } from '../async/async.ts'

/**
 * How long tasks may run in one iteration of the loop, which then checks its connections, milliseconds. What runs between
 * the tasks counts too: a thousand requests may arrive at once, and each does more than its tasks.
 */
const iterationMs = 8

/** A task of the lowest priority waits no longer than this for others, milliseconds. */
const longestWaitMs = 50

/**
 * Highest first. Small reads of steady streams are urgent: clients notice a pause of a tenth of a second. Started work is
 * finished before new work begins, because every unfinished answer takes memory.
 */
const priorities = ['urgent', 'started', 'normal', 'new'] as const
export type Priority = (typeof priorities)[number]

/** Work on so few characters runs without the scheduler: it takes less than the rest of a call. */
export const unscheduledCharacters = 16_384

/**
 * Awaited between two phases of a call: calls that go on in the same iteration of the loop do a phase one after another. That
 * costs each of them less than to run all phases in a row, as the processor has the code of a phase at hand.
 */
export const phaseBoundary: Promise<void> = Promise.resolve()

export class Scheduler {
  /** Resolves at the end of this iteration, if anybody waits for that. */
  #iterationEnd: Promise<void> | undefined
  /** When the current iteration began, by performance.now(); undefined before its first task. */
  #begunAt: number | undefined
  #armed = false
  readonly #queues: Readonly<Record<Priority, Queue>> = {
    urgent: new Queue(),
    started: new Queue(),
    normal: new Queue(),
    new: new Queue(),
  }

  /**
   * Runs a task: at once if the loop has time, otherwise in a later iteration. It should take no more than a few
   * milliseconds, since nothing interrupts it. Errors are thrown or reject.
   */
  run<T>(task: () => T, priority: Priority = 'normal'): T | Promise<T> {
    // However long the system stops the process here, the first task of an iteration has used none of its time.
    const isFirst = this.#begunAt === undefined
    if (isFirst) {
      this.#begunAt = performance.now()
      this.#arm()
    }
    return (isFirst || this.#hasTime) && this.#isNext(priority) ? task() : this.#enqueue(task, priority)
  }

  /** Resolves at the end of this iteration, for all who wait for it: they go on phase by phase. */
  endOfIteration(): Promise<void> {
    return (this.#iterationEnd ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#iterationEnd = undefined
        resolve()
      })
    }))
  }

  #enqueue<T>(task: () => T, priority: Priority): Promise<T> {
    const queue = this.#queues[priority]
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    queue.add(() => {
      try {
        resolve(task())
      } catch (error) {
        reject(error)
      }
    })
    return promise
  }

  /** Runs a task that yields between its steps, as many per iteration as fit into a few milliseconds. */
  async runSteps<T>(steps: Steps<T>, priority: Priority = 'normal'): Promise<T> {
    let made = await this.run(() => someOf(steps), priority)
    while (!made.done) made = await this.run(() => someOf(steps), priority)
    return made.value
  }

  /** Runs a task that goes on in steps if there is much to do. */
  async runDivisible<T>(task: () => DoneOrSteps<T>, priority: Priority = 'normal'): Promise<T> {
    const made = await this.run(task, priority)
    return isSteps(made) ? this.runSteps(made, priority) : made
  }

  /** The JSON text of a value: written at once if it is short, as most are. */
  stringify(value: unknown): string | Promise<string> {
    return isLong(value) ? this.runSteps(textSteps(value)) : JSON.stringify(value)
  }

  /** Whether no task of this or a higher priority is waiting. */
  #isNext(priority: Priority): boolean {
    for (const other of priorities) {
      if (this.#queues[other].size > 0) return false
      if (other === priority) break
    }
    return true
  }

  get #hasTime(): boolean {
    return this.#begunAt === undefined || performance.now() - this.#begunAt < iterationMs
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
    for (const priority of priorities) {
      const queue = this.#queues[priority]
      while (queue.size > 0 && this.#hasTime) {
        queue.take()()
        idle = false
      }
    }
    // What the tasks trigger runs before the connections are checked: it counts towards this iteration. And a process
    // that the system has stopped for a while may find the iteration over before its first task.
    if (!idle || this.#isWaiting) this.#arm()
    else this.#begunAt = undefined
  }

  get #isWaiting(): boolean {
    return priorities.some((priority) => this.#queues[priority].size > 0)
  }

  /**
   * The queue that has waited too long, if any: every priority gets a task now and then, however much of a higher one
   * waits. Only one per iteration, because it adds to its time.
   */
  #longestWaiting(): Queue | undefined {
    let longest: Queue | undefined
    for (const priority of priorities) {
      const queue = this.#queues[priority]
      if (queue.size === 0 || performance.now() - queue.takenAt <= longestWaitMs) continue
      if (longest === undefined || queue.takenAt < longest.takenAt) longest = queue
    }
    return longest
  }
}

/** How long the steps of one task may run in an iteration, milliseconds. */
const taskMs = 4

type Some<T> = IteratorResult<void, T>

function someOf<T>(steps: Steps<T>): Some<T> {
  const begun = performance.now()
  let made = steps.next()
  while (!made.done && performance.now() - begun < taskMs) made = steps.next()
  return made
}

type Task = () => void

/** Places of taken tasks that are kept at least, so that a short queue is not copied again and again. */
const takenPlaces = 256

/** First in, first out; taking costs the same however long the queue is. */
class Queue {
  #tasks: (Task | undefined)[] = []
  #at = 0
  /** When a task was last taken, by performance.now(). */
  takenAt = 0

  get size(): number {
    return this.#tasks.length - this.#at
  }

  add(task: Task): void {
    this.#tasks.push(task)
  }

  take(): Task {
    const task = this.#tasks[this.#at]!
    // A queue that is never empty must not keep what its tasks have worked on.
    this.#tasks[this.#at++] = undefined
    this.takenAt = performance.now()
    if (this.#at === this.#tasks.length || (this.#at >= takenPlaces && this.#at * 2 >= this.#tasks.length)) {
      this.#tasks = this.#tasks.slice(this.#at)
      this.#at = 0
    }
    return task
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

// Fair shares of what all have together: places of calls, connections, bytes.

/**
 * How much each has taken of a bounded whole. One may take as much as is then left free for others, so that nobody takes
 * all: one alone has half of it, two have a third each, and however many there are, one that comes finds something left.
 */
export class Shares {
  readonly #taken = new ShortLivedMap<string, number>()
  #total = 0

  /** What all have taken. */
  get taken(): number {
    return this.#total
  }

  /** What one has taken. */
  of(name: string): number {
    return this.#taken.get(name) ?? 0
  }

  /** Whether so much is not left of the whole. */
  isFull(whole: number, amount = 1): boolean {
    return this.#total + amount > whole
  }

  /** Whether taking so much would leave less for others than this one has then; who has nothing may take what there is. */
  isShareUsed(whole: number, name: string, amount = 1): boolean {
    const own = this.of(name)
    return own > 0 && own + amount > whole - this.#total - amount
  }

  /** Counts what one takes, whether it may or not. */
  take(name: string, amount = 1): void {
    this.#taken.set(name, this.of(name) + amount)
    this.#total += amount
  }

  giveBack(name: string, amount = 1): void {
    this.#total -= amount
    const left = this.of(name) - amount
    if (left > 0) this.#taken.set(name, left)
    else this.#taken.take(name)
  }
}
