// Counts o200k_base tokens in a worker, so that calls do not wait. The worker loads the vocabulary on first use and
// ends when idle, which frees ninety megabytes.

import { Worker } from 'node:worker_threads'

export interface ToCount {
  readonly job: number
  readonly texts: readonly string[]
}

export interface Counted {
  readonly job: number
  readonly tokens: number
}

/** Counts for one account. */
export interface Counter {
  /** The tokens of all texts together. Never rejects, because charges depend on it. */
  count(texts: readonly string[]): Promise<number>
}

interface Job {
  readonly texts: readonly string[]
  readonly characters: number
  readonly resolve: (tokens: number) => void
}

/** How much the worker has before it at most, characters: what takes it a twentieth of a second. */
const mostAhead = 131_072

/** An idle worker ends after this long, milliseconds. */
const idleMs = 60_000

export class TokenCounter {
  readonly #start: () => Worker
  /** What the worker has before it. */
  readonly #jobs = new Map<number, Job>()
  #ahead = 0
  /** What waits for that, by account, the next one first: nobody's thousand prompts delay the charge of another. */
  readonly #waiting = new Map<string, Job[]>()
  #last = 0
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  /** No worker can be started: this thread counts from now on. */
  #alone = false

  constructor(start: () => Worker = startWorker) {
    this.#start = start
  }

  of(account: string): Counter {
    return { count: (texts) => this.#count(account, texts) }
  }

  #count(account: string, texts: readonly string[]): Promise<number> {
    if (texts.length === 0) return Promise.resolve(0)
    const { promise, resolve } = Promise.withResolvers<number>()
    const characters = texts.reduce((sum, text) => sum + text.length, 0)
    const others = this.#waiting.get(account)
    if (others) others.push({ texts, characters, resolve })
    else this.#waiting.set(account, [{ texts, characters, resolve }])
    clearTimeout(this.#idle)
    this.#send()
    return promise
  }

  /** Gives the worker as much as it should have before it. */
  #send(): void {
    while (!this.#alone && this.#ahead < mostAhead) {
      const job = this.#next()
      if (job === undefined) return
      const id = ++this.#last
      this.#jobs.set(id, job)
      this.#ahead += job.characters
      try {
        this.#running().postMessage({ job: id, texts: job.texts } satisfies ToCount)
      } catch {
        this.#alone = true
      }
    }
    if (this.#alone) void this.#countHere()
  }

  /** The next job that waits, account by account. */
  #next(): Job | undefined {
    const [next] = this.#waiting
    if (next === undefined) return undefined
    const [account, jobs] = next
    const job = jobs.shift()!
    this.#waiting.delete(account)
    if (jobs.length > 0) this.#waiting.set(account, jobs)
    return job
  }

  stop(): void {
    clearTimeout(this.#idle)
    void this.#worker?.terminate()
    this.#worker = undefined
  }

  #running(): Worker {
    if (this.#worker) return this.#worker
    const worker = this.#start()
    worker.on('message', ({ job, tokens }: Counted) => {
      const counted = this.#jobs.get(job)
      this.#jobs.delete(job)
      this.#ahead -= counted?.characters ?? 0
      counted?.resolve(tokens)
      this.#send()
      if (this.#jobs.size > 0) return
      this.#idle = setTimeout(() => this.stop(), idleMs)
      this.#idle.unref()
    })
    worker.on('error', () => {
      this.stop()
      this.#alone = true
      void this.#countHere()
    })
    // A process that exits does not wait for the worker.
    worker.unref()
    this.#worker = worker
    return worker
  }

  async #countHere(): Promise<void> {
    const { countTexts } = await import('./count-texts.ts')
    for (const [job, { texts, resolve }] of this.#jobs) {
      this.#jobs.delete(job)
      resolve(countTexts(texts))
    }
    for (let job = this.#next(); job !== undefined; job = this.#next()) job.resolve(countTexts(job.texts))
  }
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(
    new URL(inSource ? './count-worker.ts' : './chat/counting/count-worker.ts', import.meta.url),
  )
}
