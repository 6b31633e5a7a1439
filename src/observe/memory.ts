// Collects garbage before it adds up. The runtime often collects young objects, and all objects only when the heap has
// grown to a multiple of what was alive. The buffers of large answers outlive a collection of young objects: two thousand
// streams leave hundreds of megabytes, and more on a slow machine, where the runtime's own collections fall behind.

import { fullGC } from 'bun:jsc'

/** Growth that triggers a collection of young objects, bytes. */
const growthBytes = 48 * 1024 ** 2
const lookEveryMs = 250
/** Growth that triggers a collection of all objects while large answers are read, bytes. */
const burstBytes = 32 * 1024 ** 2
/** The same as a share of what was alive: collecting a large heap takes longer. */
const burstShare = 0.4
/** Collecting all objects of a larger heap than this holds the loop for more than 50 ms, bytes without buffers. */
const collectableBytes = 60 * 1024 ** 2
/** Beyond this growth it is done all the same, before the memory of the machine is full, bytes. */
const mostGrownBytes = 640 * 1024 ** 2
/** Shorter answers leave so little behind that collecting young objects is enough, bytes. */
const largeAnswerBytes = 64 * 1024
/** While large answers are read, memory is measured at most this often, milliseconds. */
const burstLookMs = 10
/** After a burst of large answers, a last collection runs this much later, milliseconds. */
const afterwardsMs = 2_000

interface MemoryUse {
  /** Bytes of the heap, and of the buffers and strings that belong to it. */
  readonly taken: () => number
  /** Bytes of the heap alone. */
  readonly heap: () => number
  /** Collects young objects without waiting for it, so no call is held up. */
  readonly collectYoung: () => void
  /** Collects all objects and waits for it: 10 to 30 ms with two thousand streams. */
  readonly collectAll: () => void
  /** Milliseconds; never goes back. */
  readonly now: () => number
}

const ofThisProcess: MemoryUse = {
  taken: () => {
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  },
  heap: () => process.memoryUsage().heapTotal,
  collectYoung: () => Bun.gc(false),
  collectAll: fullGC,
  now: () => performance.now(),
}

export class Memory {
  readonly #use: MemoryUse
  /** The least memory in use since the last collection of all objects, bytes. */
  #low: number
  #lookedAt = Number.NEGATIVE_INFINITY
  #collectedAt: number
  /** The least memory in use since the last collection of young objects, bytes. */
  #youngFrom: number
  /** Large answers have been read since the last collection of all objects. */
  #burst = false

  constructor(use: MemoryUse = ofThisProcess) {
    this.#use = use
    this.#low = this.#youngFrom = use.taken()
    this.#collectedAt = use.now()
  }

  /**
   * To be called before a large piece of an answer is processed, of which `received` bytes have come so far: collects
   * garbage if there is too much of it.
   */
  makeRoom(received: number): void {
    if (received < largeAnswerBytes) return
    const now = this.#use.now()
    if (now - this.#lookedAt < burstLookMs) return
    this.#lookedAt = now
    this.#burst = true
    this.#collectBeyond(Math.max(burstBytes, burstShare * this.#low))
  }

  /** Watches this process's memory until the returned function is called. */
  watch(): () => void {
    const timer = setInterval(() => this.look(), lookEveryMs)
    timer.unref()
    return () => clearInterval(timer)
  }

  /** Collects young objects if memory has grown, and all objects some time after large answers. */
  look(): void {
    const isOver = this.#burst && this.#use.now() - this.#collectedAt > afterwardsMs
    if (isOver) this.#collectBeyond(growthBytes)
    const bytes = this.#use.taken()
    const hasGrown = bytes > this.#youngFrom + growthBytes
    if (hasGrown) this.#use.collectYoung()
    if (hasGrown || bytes < this.#youngFrom) this.#youngFrom = bytes
  }

  #growth(): number {
    const bytes = this.#use.taken()
    this.#low = Math.min(this.#low, bytes)
    return bytes - this.#low
  }

  /** Collects all objects after so much growth, unless that would take too long. */
  #collectBeyond(bytes: number): void {
    const grown = this.#growth()
    if (grown <= bytes) return
    if (grown <= mostGrownBytes && this.#use.heap() > collectableBytes) return
    this.#use.collectAll()
    this.#burst = false
    this.#low = this.#use.taken()
    this.#collectedAt = this.#use.now()
  }
}

// How late the event loop is: whatever holds it delays every call.

const loopLookMs = 100

/** Calls `note` ten times a second with how late its timer was, milliseconds, until the returned function is called. */
export function watchLoop(note: (lateMs: number) => void): () => void {
  let due = performance.now() + loopLookMs
  const timer = setInterval(() => {
    const now = performance.now()
    note(Math.max(0, now - due))
    due = now + loopLookMs
  }, loopLookMs)
  timer.unref()
  return () => clearInterval(timer)
}
