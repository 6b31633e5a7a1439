// Responses that are made in the background: what a store keeps of them beside the response itself, and those that this
// process makes.

import type { Awaitable } from '../async/async.ts'
import type { JsonObject } from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'
import type { ResponseViewer } from './response-store.ts'

export interface BackgroundRecord {
  readonly id: string
  readonly account: string
  readonly key: string | null
  /** The client's Idempotency-Key. */
  readonly idempotency: string | null
  /** Of the request, to tell another one with the same Idempotency-Key. */
  readonly bodyHash: string
  /** `running` in some process, or in one that is gone. */
  readonly status: 'running' | 'ended' | 'cancelled'
  /** Milliseconds since 1970. */
  readonly expiresAt: number
  /** The response as it stood when it was queued. */
  readonly response: JsonObject
}

export interface BackgroundStore {
  /** Keeps a response that has been accepted, durably; the one that has its Idempotency-Key already, if there is one. */
  begin(record: BackgroundRecord): Promise<BackgroundRecord | undefined>
  /** Keeps events, JSON texts in one line each, of which the first has this sequence number. Durable with the next commit. */
  append(id: string, from: number, events: readonly string[]): void
  end(id: string, status: 'ended' | 'cancelled'): Promise<void>
  /** Asks whichever process makes one to end it. */
  cancel(id: string): Promise<void>
  /** undefined where there is none, or none any more. */
  statusOf(id: string): Awaitable<BackgroundRecord['status'] | undefined>
  /** undefined if it never existed, has expired, was deleted, or may not be seen by the caller. */
  find(viewer: ResponseViewer, id: string): Awaitable<BackgroundRecord | undefined>
  /** The kept events behind this sequence number; all of them behind -1. */
  events(id: string, after: number): Awaitable<readonly string[]>
  /** How many of an account other processes make. */
  runningElsewhere(account: string): Awaitable<number>
  /** Those that a process has left when it died. */
  listInterrupted(): Promise<readonly BackgroundRecord[]>
  /** Forgets one, durably. */
  delete(id: string): Promise<void>
  /** Forgets those of an account. */
  forgetAccount(account: string): Promise<void>
  /** Forgets what has expired, in small steps. Resolves with how many. */
  sweep(now: number): Promise<number>
}

// Those of this process.

/** Events are written together that come within this time, milliseconds. */
const writeEveryMs = 250
/** How often it is looked at what other processes have been asked or have made, milliseconds. */
export const lookEveryMs = 250

export interface BackgroundLimits {
  /** Responses of one account that may be under way. */
  readonly perAccount: number
  /** The most that is kept of the events of one response, bytes; it can be followed no further than that. */
  readonly eventBytes: number
  /** How long a response is kept, milliseconds. */
  readonly retentionMs: number
}

/** The responses that this process makes in the background. */
export class BackgroundResponses {
  readonly store: BackgroundStore
  readonly limits: BackgroundLimits
  readonly #running = new Map<string, Running>()

  constructor(store: BackgroundStore, limits: BackgroundLimits) {
    this.store = store
    this.limits = limits
  }

  running(id: string): Running | undefined {
    return this.#running.get(id)
  }

  /** Rejects with `rate_limit_exceeded` for one too many of its account, and `store_unavailable`. */
  async add(running: Running): Promise<void> {
    const elsewhere = await this.store.runningElsewhere(running.account)
    const here = [...this.#running.values()].filter(
      ({ account, isOver }) => account === running.account && !isOver,
    ).length
    const ofAccount = here + elsewhere
    if (ofAccount >= this.limits.perAccount)
      throw new GatewayError('rate_limit_exceeded', {
        message: `${ofAccount} responses of this account are under way in the background, which is as many as may be.`,
        retryAfterMs: 5_000,
      })
    this.#running.set(running.id, running)
    const looking = setInterval(() => void this.#heed(running), lookEveryMs)
    looking.unref()
    void running.ended.then(() => {
      clearInterval(looking)
      this.#running.delete(running.id)
    })
  }

  /** Ends a response that another process was asked to cancel or to delete. */
  async #heed(running: Running): Promise<void> {
    try {
      const status = await this.store.statusOf(running.id)
      if (status === 'cancelled') running.cancel()
      else if (status === undefined) await running.drop()
    } catch {
      // While the store is out nobody can be asked, either.
    }
  }
}

/** Ends what a process has left that died: its client learns so. Resolves with how many there were. */
export async function endInterrupted(store: BackgroundStore): Promise<number> {
  const left = await store.listInterrupted()
  for (const record of left) {
    const events = await store.events(record.id, -1)
    const error = { code: 'server_error', message: 'The gateway was restarted while it made this response.' }
    const response = { ...record.response, status: 'failed', error }
    store.append(record.id, events.length, [failedEvent(response, events.length)])
    await store.end(record.id, 'ended')
  }
  return left.length
}

/** The event that ends a response which has failed. */
export function failedEvent(response: JsonObject, sequence: number): string {
  return JSON.stringify({ type: 'response.failed', sequence_number: sequence, response })
}

/** One response under way, whose row is in the store: its events, in memory and on their way there. */
export class Running {
  readonly id: string
  readonly account: string
  readonly ended: Promise<void>
  /** Of which the place is the sequence number. */
  readonly events: string[] = []
  #bytes = 0
  #written = 0
  #isCut = false
  #isOver = false
  #isUnwanted = false
  #keeping: Promise<void> | undefined
  #timer: Timer | undefined
  readonly #store: BackgroundStore
  readonly #mostBytes: number
  readonly #left = new AbortController()
  #more = Promise.withResolvers<void>()
  readonly #end = Promise.withResolvers<void>()

  constructor(id: string, account: string, { store, limits }: BackgroundResponses) {
    this.id = id
    this.account = account
    this.#store = store
    this.#mostBytes = limits.eventBytes
    this.ended = this.#end.promise
  }

  /** Aborts when it is cancelled. */
  get signal(): AbortSignal {
    return this.#left.signal
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get isCancelled(): boolean {
    return this.#left.signal.aborted
  }

  onEvent(data: string): void {
    if (this.#isCut) return
    this.#bytes += data.length
    this.#isCut = this.#bytes > this.#mostBytes
    if (this.#isCut) return
    this.events.push(data)
    this.#timer ??= setTimeout(() => this.#write(), writeEveryMs)
    this.#tell()
  }

  /** The response is being stored. */
  onKeeping(queued: Promise<void> | undefined): void {
    this.#keeping = queued
  }

  /** Whether it was deleted while it was made: it must not be stored after that. */
  get isUnwanted(): boolean {
    return this.#isUnwanted
  }

  /** Resolves when it has ended and nothing more of it comes to the store. */
  async drop(): Promise<void> {
    this.#isUnwanted = true
    this.cancel()
    await this.ended
    await this.#keeping
  }

  cancel(): void {
    this.#left.abort()
  }

  async onEnd(): Promise<void> {
    this.#isOver = true
    this.#write()
    this.#tell()
    await this.#store.end(this.id, this.isCancelled ? 'cancelled' : 'ended').catch(() => undefined)
    this.#end.resolve()
  }

  /** Resolves when there is another event, or no more to come. */
  next(): Promise<void> {
    return this.#more.promise
  }

  #tell(): void {
    this.#more.resolve()
    this.#more = Promise.withResolvers()
  }

  #write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#written === this.events.length) return
    this.#store.append(this.id, this.#written, this.events.slice(this.#written))
    this.#written = this.events.length
  }
}
