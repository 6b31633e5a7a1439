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

interface Job {
  readonly texts: readonly string[]
  readonly resolve: (tokens: number) => void
}

/** An idle worker ends after this long, milliseconds. */
const idleMs = 60_000

export class TokenCounter {
  readonly #start: () => Worker
  readonly #jobs = new Map<number, Job>()
  #last = 0
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  /** No worker can be started: this thread counts from now on. */
  #alone = false

  constructor(start: () => Worker = startWorker) {
    this.#start = start
  }

  /** The tokens of all texts together. Never rejects, because charges depend on it. */
  count(texts: readonly string[]): Promise<number> {
    if (texts.length === 0) return Promise.resolve(0)
    const { promise, resolve } = Promise.withResolvers<number>()
    const job = ++this.#last
    this.#jobs.set(job, { texts, resolve })
    clearTimeout(this.#idle)
    try {
      if (!this.#alone) this.#running().postMessage({ job, texts } satisfies ToCount)
    } catch {
      this.#alone = true
    }
    if (this.#alone) void this.#countHere()
    return promise
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
      this.#jobs.get(job)?.resolve(tokens)
      this.#jobs.delete(job)
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
  }
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(
    new URL(inSource ? './count-worker.ts' : './chat/counting/count-worker.ts', import.meta.url),
  )
}
