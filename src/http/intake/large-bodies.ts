// Limits the large request bodies that are parsed and translated at once. A body of ten megabytes becomes a hundred
// thousand objects, and collecting the garbage of a heap that is full of them holds the loop for longer than any call
// should wait. Small bodies, which are nearly all, take no part in this.

import { Shares } from '../../shares.ts'
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
  readonly account: string
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
  readonly #bytes = new Shares()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `now`: milliseconds; never goes back. */
  constructor(limits: Partial<Limits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...defaultLimits, ...limits }
    this.#now = now
  }

  /** Bytes of the bodies that are worked on now. */
  get bytes(): number {
    return this.#bytes.taken
  }

  /**
   * Permission to work on a body of so many bytes, or a promise of it: an account may have as much worked on as is left
   * for all others, and one body whatever its size. A request that has permission already gives that
   * back first, so that no two requests wait for each other. To be followed by `leave`.
   */
  turn(requestId: string, account: string, bytes: number): void | Promise<void> {
    this.leave(requestId)
    if (!this.#othersWait(account) && this.#mayBegin(account, bytes))
      return this.#begin(requestId, account, bytes)
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
    this.#bytes.giveBack(working.account, working.bytes)
    this.#admit()
  }

  /** Whether somebody waits whom a body of this account would hold up: not those who only wait for their own bodies. */
  #othersWait(account: string): boolean {
    if (this.#waiting.has(account)) return true
    for (const [other, [next]] of this.#waiting)
      if (!this.#bytes.isShareUsed(this.#limits.mostBytes, other, next!.bytes)) return true
    return false
  }

  #mayBegin(account: string, bytes: number): boolean {
    return this.#hasRoomFor(bytes) && !this.#bytes.isShareUsed(this.#limits.mostBytes, account, bytes)
  }

  /** A body that is larger than all that may be worked on goes alone. */
  #hasRoomFor(bytes: number): boolean {
    return this.#bytes.taken === 0 || !this.#bytes.isFull(this.#limits.mostBytes, bytes)
  }

  #begin(requestId: string, account: string, bytes: number): void {
    this.#working.set(requestId, { account, bytes, until: this.#now() + this.#limits.longestMs })
    this.#bytes.take(account, bytes)
  }

  #admit(): void {
    for (const account of this.#waiting.keys()) {
      const bodies = this.#waiting.get(account)!
      const { requestId, bytes, go } = bodies[0]!
      if (this.#bytes.isShareUsed(this.#limits.mostBytes, account, bytes)) continue
      // It is next: smaller ones of others must not overtake it for ever.
      if (!this.#hasRoomFor(bytes)) return
      bodies.shift()
      // Behind the others: it is their turn now. The loop comes back to it.
      this.#waiting.delete(account)
      if (bodies.length > 0) this.#waiting.set(account, bodies)
      this.#begin(requestId, account, bytes)
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
