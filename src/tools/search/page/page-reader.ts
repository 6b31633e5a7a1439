// Converts pages to markdown in a worker, so that a hostile page cannot block calls. The worker is started for the
// first page, handles one at a time, and ends when a page takes too long or when idle. A page that takes too long as
// markdown is then read as plain text.

import { Worker } from 'node:worker_threads'
// Its code is loaded by the thread alone.
import type { Extracted } from './extract.ts'

/** What goes to the worker. */
export interface ToExtract {
  readonly job: number
  readonly html: string
  readonly address: string
  readonly as: 'markdown' | 'text'
}

/** From the worker: that it has started, then one page per job. */
export type FromWorker = { readonly started: true } | ({ readonly job: number } & Extracted)

/** The page could not be converted in time, or too many others are waiting. */
export class UnreadablePage extends Error {}

interface Job extends ToExtract {
  readonly signal: AbortSignal
  readonly resolve: (extracted: Extracted) => void
  readonly reject: (reason: unknown) => void
}

/** An idle worker ends after this long, milliseconds. */
const idleMs = 60_000
/** Starting the worker loads a few hundred kilobytes of code. */
const startMs = 10_000
/** Limit of waiting pages: each is held in memory. */
const mostWaiting = 32

export class PageReader {
  readonly #timeoutMs: number
  readonly #waiting: Job[] = []
  #running: Job | undefined
  #last = 0
  #worker: Worker | undefined
  /** The worker has started and takes jobs. */
  #ready = false
  #idle: ReturnType<typeof setTimeout> | undefined
  #deadline: ReturnType<typeof setTimeout> | undefined

  /** @param timeoutMs how long a page may take, each way, milliseconds; starting the worker is not counted. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Whether a worker runs now. */
  get running(): boolean {
    return this.#worker !== undefined
  }

  /** The page as markdown. Throws UnreadablePage, and the signal's reason if the caller gave up. */
  extract(html: string, address: string, signal: AbortSignal): Promise<Extracted> {
    signal.throwIfAborted()
    if (this.#waiting.length >= mostWaiting) return Promise.reject(new UnreadablePage('too many pages wait'))
    const { promise, resolve, reject } = Promise.withResolvers<Extracted>()
    const job: Job = { job: ++this.#last, html, address, as: 'markdown', signal, resolve, reject }
    const give = () => {
      const at = this.#waiting.indexOf(job)
      if (at >= 0) this.#waiting.splice(at, 1)
      reject(signal.reason)
    }
    signal.addEventListener('abort', give, { once: true })
    this.#waiting.push(job)
    this.#next()
    return promise.finally(() => signal.removeEventListener('abort', give))
  }

  stop(): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#deadline)
    void this.#worker?.terminate()
    this.#worker = undefined
    this.#ready = false
  }

  #next(): void {
    if (this.#running) return
    const job = this.#waiting.shift()
    if (!job) return
    this.#running = job
    clearTimeout(this.#idle)
    if (this.#ready) this.#send(job)
    else this.#start()
  }

  #send({ job, html, address, as }: Job): void {
    clearTimeout(this.#deadline)
    this.#worker?.postMessage({ job, html, address, as } satisfies ToExtract)
    this.#deadline = setTimeout(() => this.#late(), this.#timeoutMs)
  }

  /** The worker is still busy with the page: it is ended, and another reads the page as text. */
  #late(): void {
    const late = this.#running
    if (late?.as !== 'markdown' || late.signal.aborted)
      return this.#fail(new UnreadablePage(`it takes longer than ${this.#timeoutMs} ms to read`))
    this.stop()
    this.#running = { ...late, as: 'text' }
    this.#start()
  }

  /** The worker's current page is abandoned with it. */
  #fail(reason: unknown): void {
    this.stop()
    const failed = this.#running
    this.#running = undefined
    failed?.reject(reason)
    this.#next()
  }

  #take(message: FromWorker): void {
    if ('started' in message) {
      this.#ready = true
      if (this.#running) this.#send(this.#running)
      return
    }
    const { job, ...extracted } = message
    if (this.#running?.job !== job) return
    clearTimeout(this.#deadline)
    this.#running.resolve(extracted)
    this.#running = undefined
    this.#next()
    if (this.#running) return
    this.#idle = setTimeout(() => this.stop(), idleMs)
    this.#idle.unref()
  }

  #start(): void {
    const worker = startWorker()
    worker.on('message', (message: FromWorker) => {
      if (this.#worker === worker) this.#take(message)
    })
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#fail(new UnreadablePage(`the reader failed: ${error.message}`))
    })
    // A process that exits does not wait for the worker.
    worker.unref()
    this.#worker = worker
    this.#deadline = setTimeout(() => this.#fail(new UnreadablePage('the reader did not start')), startMs)
  }
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  const file = inSource ? './page-worker.ts' : './tools/search/page/page-worker.ts'
  return new Worker(new URL(file, import.meta.url))
}
