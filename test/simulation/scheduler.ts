// Time and turns under the simulation's control: what the ledger schedules waits here until the seed picks it.

import { drainMicrotasks } from 'bun:jsc'
import type { Random } from './random.ts'

interface Task {
  readonly id: number
  readonly process: string
  /** In the scheduler's own milliseconds; an immediate is due at once. */
  readonly due: number
  readonly run: () => void
}

/**
 * Stands in for setImmediate, setTimeout, clearTimeout and performance.now. Every task belongs to the process that
 * was running when it was made, so that a crash can drop them.
 */
export class Scheduler {
  #tasks: Task[] = []
  #now = 0
  #nextId = 1
  #process = ''

  /** Runs `body`, in which the global timers are these. It must not wait for anything real. */
  within<T>(body: () => T): T {
    const { setImmediate, setTimeout, clearTimeout } = globalThis
    const realNow = performance.now
    const replaced = {
      setImmediate: (run: () => void) => this.#add(run, 0),
      setTimeout: (run: () => void, ms = 0) => this.#add(run, ms),
      clearTimeout: (id: unknown) => void (this.#tasks = this.#tasks.filter((task) => task.id !== id)),
    }
    Object.assign(globalThis, replaced)
    performance.now = () => this.#now
    try {
      return body()
    } finally {
      Object.assign(globalThis, { setImmediate, setTimeout, clearTimeout })
      performance.now = realNow
    }
  }

  /** Runs something as a process, and every promise callback that follows from it. */
  as(process: string, run: () => void): void {
    const before = this.#process
    this.#process = process
    try {
      run()
      drainMicrotasks()
    } finally {
      this.#process = before
    }
  }

  #add(run: () => void, ms: number): number {
    const id = this.#nextId++
    this.#tasks.push({ id, process: this.#process, due: this.#now + ms, run })
    return id
  }

  get idle(): boolean {
    return this.#tasks.length === 0
  }

  /** Runs one task: any that is due, or else time passes until the next one is. */
  runOne(random: Random): void {
    if (this.idle) return
    let due = this.#tasks.filter((task) => task.due <= this.#now)
    if (due.length === 0) {
      this.#now = Math.min(...this.#tasks.map((task) => task.due))
      due = this.#tasks.filter((task) => task.due <= this.#now)
    }
    const task = random.pick(due)
    this.#tasks = this.#tasks.filter((other) => other !== task)
    this.as(task.process, task.run)
  }

  /** The process is gone, and with it all it wanted to do. */
  drop(process: string): void {
    this.#tasks = this.#tasks.filter((task) => task.process !== process)
  }
}
