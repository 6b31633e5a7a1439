// Limits the answers that have arrived but are not processed yet. The runtime reads whatever providers send into
// memory at once, so no further provider is asked while too much of it is waiting.

import { Shares } from '../../scheduler/scheduler.ts'
import { type Placed, ShortLivedSet } from '../../async/async.ts'

/** What a stream counts while it is processed: its length is not known. */
const streamBytes = 262_144
/**
 * How much each answer changes what is expected of the next. It rises faster than it falls: hundreds are asked for while
 * the first is on its way.
 */
const learning = { more: 0.5, less: 0.25 } as const
/** What is expected of an offer that has not answered yet: beyond its first calls, 128 are asked for in a second. */
const unknownBytes = 131_072
/** The first calls of an offer never wait: others that bring much must not hold them up. */
const firstCalls = 128
/** Offers with at most this expected per read, which are most of them, never wait. */
const littleBytes = 16_384
/** How long the expected size of a request counts, milliseconds; slower answers are not waited for. */
const soonMs = 250
const lookEveryMs = 50
/** An answer that got no more bytes for this long has none waiting, milliseconds. */
const quietMs = 100
/** An answer makes others wait for at most this long, milliseconds. */
const longestMs = 15_000

/** One answer: awaited, then arrived, then processed. */
export class Arrival implements Placed {
  /** Among those that count. */
  place = -1
  readonly #arrivals: Arrivals
  readonly offer: string
  readonly account: string
  /** The bytes it counts at the moment. */
  bytes = 0
  /** When it stops counting, by the clock of the arrivals. */
  until = 0
  /** Bytes that arrived in one go. */
  burst = 0

  constructor(arrivals: Arrivals, offer: string, account: string) {
    this.#arrivals = arrivals
    this.offer = offer
    this.account = account
  }

  /** The answer has arrived: all of it, if its headers say so, or its beginning. */
  onResponse({ headers }: Pick<Response, 'headers'>): void {
    const announced = Number(headers.get('content-length') ?? Number.NaN)
    this.#arrivals.onResponse(this, Number.isNaN(announced) ? undefined : announced)
  }

  /** The answer's bytes have been processed, and more are expected. */
  awaits(): void {
    this.#arrivals.awaits(this)
  }

  /** More of it has come. */
  grows(bytes: number): void {
    this.#arrivals.grows(this, bytes)
  }

  /** Nothing of the answer is waiting any more. May be called repeatedly. */
  end(): void {
    this.#arrivals.end(this)
  }
}

interface Waiting {
  readonly arrival: Arrival
  readonly go: (arrival: Arrival) => void
}

export class Arrivals {
  readonly #mostBytes: number
  readonly #now: () => number
  readonly #open = new ShortLivedSet<Arrival>()
  /** Average bytes per read of each offer. For most streams it is a few hundred bytes. */
  readonly #expected = new Map<string, number>()
  /** Calls of offers that have not answered yet. */
  readonly #calls = new Map<string, number>()
  readonly #bytes = new Shares()
  /** By account, the next one first: they are admitted by turns, however many of another wait. */
  readonly #waiting = new Map<string, Waiting[]>()
  #looking = false

  /** `mostBytes`: how much may be waiting before no further provider is asked. `now`: milliseconds; never goes back. */
  constructor(mostBytes: number, now: () => number = () => performance.now()) {
    this.#mostBytes = mostBytes
    this.#now = now
  }

  /** Bytes waiting now, or expected at any moment. */
  get bytes(): number {
    return this.#bytes.taken
  }

  /**
   * Permission to ask a provider for an account, or a promise of it, in order of its calls. `offer` predicts the size. An
   * account may have as much waiting as is left for all others.
   */
  permit(offer: string, account: string): Arrival | Promise<Arrival> {
    const arrival = new Arrival(this, offer, account)
    if (this.#expectedOf(arrival) <= littleBytes || this.#isFirst(offer)) return this.#ask(arrival)
    if (!this.#mayAsk(account)) this.#forgetOld()
    if (this.#mayAsk(account) && !this.#waiting.has(account)) return this.#ask(arrival)
    const { promise, resolve } = Promise.withResolvers<Arrival>()
    const others = this.#waiting.get(account)
    if (others) others.push({ arrival, go: resolve })
    else this.#waiting.set(account, [{ arrival, go: resolve }])
    this.#look()
    return promise
  }

  onResponse(arrival: Arrival, announced: number | undefined): void {
    this.#remove(arrival)
    // A stream counts at least something, and having brought next to nothing is worth learning too.
    arrival.burst = announced ?? 1
    this.#add(arrival, announced ?? streamBytes, this.#now() + longestMs)
  }

  awaits(arrival: Arrival): void {
    arrival.until = Math.min(arrival.until, this.#now() + quietMs)
  }

  grows(arrival: Arrival, bytes: number): void {
    arrival.burst += bytes
    this.#add(arrival, streamBytes, this.#now() + longestMs)
  }

  end(arrival: Arrival): void {
    this.#remove(arrival)
    this.#learn(arrival)
    this.#admit()
  }

  #ask(arrival: Arrival): Arrival {
    this.#add(arrival, this.#expectedOf(arrival), this.#now() + soonMs)
    return arrival
  }

  #mayAsk(account: string): boolean {
    return this.#bytes.taken < this.#mostBytes && !this.#bytes.isShareUsed(this.#mostBytes, account, 0)
  }

  #isFirst(offer: string): boolean {
    if (this.#expected.has(offer)) return false
    const calls = (this.#calls.get(offer) ?? 0) + 1
    this.#calls.set(offer, calls)
    return calls <= firstCalls
  }

  #expectedOf({ offer }: Arrival): number {
    return this.#expected.get(offer) ?? unknownBytes
  }

  #learn(arrival: Arrival): void {
    if (arrival.burst === 0) return
    const before = this.#expectedOf(arrival)
    const change = arrival.burst - before
    this.#calls.delete(arrival.offer)
    this.#expected.set(arrival.offer, before + learning[change > 0 ? 'more' : 'less'] * change)
    arrival.burst = 0
  }

  #add(arrival: Arrival, bytes: number, until: number): void {
    arrival.until = until
    if (arrival.place >= 0) return
    this.#open.add(arrival)
    arrival.bytes = bytes
    this.#bytes.take(arrival.account, bytes)
  }

  #remove(arrival: Arrival): void {
    if (this.#open.delete(arrival)) this.#bytes.giveBack(arrival.account, arrival.bytes)
  }

  #forgetOld(): void {
    const now = this.#now()
    for (const arrival of this.#open.values()) if (arrival.until <= now) this.#remove(arrival)
  }

  /** Admits those who wait, account by account, as far as there is room. */
  #admit(): void {
    for (const account of this.#waiting.keys()) {
      if (this.#bytes.taken >= this.#mostBytes) return
      const waiting = this.#waiting.get(account)!
      if (!this.#mayAsk(account)) continue
      const { arrival, go } = waiting.shift()!
      // Goes behind the other accounts; this loop comes back to it.
      this.#waiting.delete(account)
      if (waiting.length > 0) this.#waiting.set(account, waiting)
      go(this.#ask(arrival))
    }
  }

  /** Time alone makes room as well. */
  #look(): void {
    if (this.#looking) return
    this.#looking = true
    setTimeout(() => {
      this.#looking = false
      this.#forgetOld()
      this.#admit()
      if (this.#waiting.size > 0) this.#look()
    }, lookEveryMs)
  }
}
