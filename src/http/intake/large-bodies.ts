// Limits the large request bodies that are parsed and translated at once. A body of ten megabytes becomes a hundred
// thousand objects, and collecting the garbage of a heap that is full of them holds the loop for longer than any call
// should wait. Small bodies, which are nearly all, take no part in this.

import { type ConnectionParts, whileOpen } from './connection.ts'

/** Bodies of at least this many bytes wait for their turn. */
export const largeBytes = 262_144

/**
 * Permission for a request to read and parse so many bytes of what is stored, as for a body of that size: texts of the
 * requests that wait would be as much as the memory holds. A request that waits stays open.
 */
export function storedTurn(
  parts: ConnectionParts & { readonly largeBodies: LargeBodies },
  request: Request,
  requestId: string,
  account: string,
): (bytes: number) => void | Promise<void> {
  return (bytes) => {
    if (bytes < largeBytes) return undefined
    const turn = parts.largeBodies.turn(requestId, account, bytes)
    return turn && whileOpen(parts, request, () => turn)
  }
}

interface Limits {
  /** Large bodies that are worked on at once, bytes. */
  readonly mostBytes: number
  /** A body that is worked on for longer makes nobody wait: it is not the parsing that takes so long, milliseconds. */
  readonly longestMs: number
}

/** Three bodies of the largest size that is taken by default. */
const defaultLimits: Limits = { mostBytes: 32 * 1024 ** 2, longestMs: 10_000 }

interface Waiting {
  readonly requestId: string
  readonly bytes: number
  readonly go: () => void
}

interface Working {
  readonly bytes: number
  /** When others stop waiting for it, by the clock of the bodies. */
  readonly until: number
}

export class LargeBodies {
  readonly #limits: Limits
  readonly #now: () => number
  readonly #working = new Map<string, Working>()
  /** By account, the next one first: each has a body admitted in turn, however many another has waiting. */
  readonly #waiting = new Map<string, Waiting[]>()
  #bytes = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `now`: milliseconds; never goes back. */
  constructor(limits: Partial<Limits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...defaultLimits, ...limits }
    this.#now = now
  }

  /** Bytes of the bodies that are worked on now. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Permission to work on a body of so many bytes, or a promise of it. A request that has permission already gives that
   * back first, so that no two requests wait for each other. To be followed by `leave`.
   */
  turn(requestId: string, account: string, bytes: number): void | Promise<void> {
    this.leave(requestId)
    if (this.#waiting.size === 0 && this.#hasRoomFor(bytes)) return this.#begin(requestId, bytes)
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting = { requestId, bytes, go: resolve }
    const others = this.#waiting.get(account)
    if (others) others.push(waiting)
    else this.#waiting.set(account, [waiting])
    this.#look()
    return promise
  }

  /** The objects of the request's body are no longer needed, or the provider is being asked. May be called repeatedly. */
  leave(requestId: string): void {
    const working = this.#working.get(requestId)
    if (working === undefined) return
    this.#working.delete(requestId)
    this.#bytes -= working.bytes
    this.#admit()
  }

  /** A body that is larger than all that may be worked on goes alone. */
  #hasRoomFor(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#limits.mostBytes
  }

  #begin(requestId: string, bytes: number): void {
    this.#working.set(requestId, { bytes, until: this.#now() + this.#limits.longestMs })
    this.#bytes += bytes
  }

  #admit(): void {
    for (;;) {
      const [next] = this.#waiting
      if (next === undefined) return
      const [account, bodies] = next
      if (!this.#hasRoomFor(bodies[0]!.bytes)) return
      const { requestId, bytes, go } = bodies.shift()!
      // Behind the others: it is their turn now.
      this.#waiting.delete(account)
      if (bodies.length > 0) this.#waiting.set(account, bodies)
      this.#begin(requestId, bytes)
      go()
    }
  }

  /** Looks after the body that has been worked on for longest while others wait. */
  #look(): void {
    const [oldest] = this.#working.values()
    if (this.#timer !== undefined || oldest === undefined) return
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        for (const [requestId, { until }] of this.#working) if (until <= this.#now()) this.leave(requestId)
        if (this.#waiting.size > 0) this.#look()
      },
      Math.max(1, oldest.until - this.#now()),
    ).unref()
  }
}
