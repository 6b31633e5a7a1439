// Time and turns under the simulation's control: what the ledger schedules waits here until the seed picks it.

import { drainMicrotasks } from 'bun:jsc'
import type { Random } from './random.ts'

class Task {
  readonly process: string
  /** In the scheduler's own milliseconds; an immediate is due at once. */
  readonly due: number
  readonly run: () => void
  /** Of one that comes again: after how many milliseconds. */
  readonly every: number | undefined

  constructor(process: string, due: number, run: () => void, every?: number) {
    this.process = process
    this.due = due
    this.run = run
    this.every = every
  }

  unref(): this {
    return this
  }
}

/**
 * Stands in for the timers, Bun.sleep and performance.now. Every task belongs to the process that was running when it was
 * made, so that a crash can drop them.
 */
export class Scheduler {
  #tasks: Task[] = []
  #now = 0
  #process = ''
  readonly #stopped = new Set<string>()

  /** Milliseconds since the beginning. */
  get now(): number {
    return this.#now
  }

  /** Runs `body`, in which the global timers are these. It must not wait for anything real. */
  within<T>(body: () => T): T {
    const { setImmediate, setTimeout, clearTimeout, setInterval, clearInterval } = globalThis
    const { sleep } = Bun
    const realNow = performance.now
    const clear = (task: unknown) => void (this.#tasks = this.#tasks.filter((other) => other !== task))
    const replaced = {
      setImmediate: (run: () => void) => this.#add(run, 0),
      setTimeout: (run: () => void, ms = 0) => this.#add(run, ms),
      clearTimeout: clear,
      setInterval: (run: () => void, ms = 0) => this.#add(run, ms, ms),
      clearInterval: clear,
    }
    Object.assign(globalThis, replaced)
    Object.assign(Bun, {
      sleep: (ms: number) => new Promise<void>((resolve) => void this.#add(resolve, ms)),
    })
    performance.now = () => this.#now
    try {
      return body()
    } finally {
      Object.assign(globalThis, { setImmediate, setTimeout, clearTimeout, setInterval, clearInterval })
      Object.assign(Bun, { sleep })
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

  #add(run: () => void, ms: number, every?: number): Task {
    const task = new Task(this.#process, this.#now + ms, run, every)
    this.#tasks.push(task)
    return task
  }

  /** A task of another process than the one that runs. */
  later(process: string, ms: number, run: () => void): void {
    this.#tasks.push(new Task(process, this.#now + ms, run))
  }

  get idle(): boolean {
    return this.#tasks.length === 0
  }

  /** Runs one task: any that is due, or else time passes until the next one is. */
  runOne(random: Random): void {
    const able =
      this.#stopped.size === 0
        ? this.#tasks
        : this.#tasks.filter(({ process }) => !this.#stopped.has(process))
    if (able.length === 0) return
    let due = able.filter((task) => task.due <= this.#now)
    if (due.length === 0) {
      this.#now = Math.min(...able.map((task) => task.due))
      due = able.filter((task) => task.due <= this.#now)
    }
    const task = random.pick(due)
    const { process, run, every } = task
    this.#tasks = this.#tasks.filter((other) => other !== task)
    if (every !== undefined) this.#again(task)
    this.as(process, run)
  }

  /** It keeps its identity, by which it is cleared. */
  #again(task: Task): void {
    this.#tasks.push(Object.assign(task, { due: this.#now + task.every! }))
  }

  /** The process does nothing until it goes on. */
  stop(process: string): void {
    this.#stopped.add(process)
  }

  goOn(process: string): void {
    this.#stopped.delete(process)
  }

  /** The process is gone, and with it all it wanted to do. */
  drop(process: string): void {
    this.#stopped.delete(process)
    this.#tasks = this.#tasks.filter((task) => task.process !== process)
  }
}
