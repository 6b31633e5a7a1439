// Answers that have come and are still worked through. The runtime reads what providers send into memory as fast as it
// comes, whether anybody has time for it or not: so nobody else is asked while too much of that lies there.

/** What a stream counts while it is worked through: nobody says how long it will be. */
const streamBytes = 262_144
/** How much one more answer changes what is expected of the next. */
const learning = 0.25
/** Of whom no more than this is expected, most models by far, is asked at any time. */
const littleBytes = 16_384
/** What is expected of a request counts for so long; an answer that takes longer comes when it comes, milliseconds. */
const soonMs = 1_000
const lookEveryMs = 50
/** An answer of which nothing more has come for so long has nothing waiting, milliseconds. */
const quietMs = 100
/** However long it takes, an answer keeps others waiting for no longer than this, milliseconds. */
const longestMs = 15_000

/** One answer: awaited, then there, then worked through. */
export class Arrival {
  readonly #arrivals: Arrivals
  readonly offer: string
  /** What it counts, while it does. */
  bytes = 0
  /** When it is forgotten, by the clock of the arrivals. */
  until = 0
  /** What has come of it in one go. */
  burst = 0

  /** Made by `Arrivals.turn`. */
  constructor(arrivals: Arrivals, offer: string) {
    this.#arrivals = arrivals
    this.offer = offer
  }

  /** It has come: all of it, as far as it says so itself, or its beginning. */
  comes({ headers }: Pick<Response, 'headers'>): void {
    const announced = Number(headers.get('content-length') ?? Number.NaN)
    this.#arrivals.comes(this, Number.isNaN(announced) ? undefined : announced)
  }

  /** What has come is worked through, and more is awaited. */
  awaits(): void {
    this.#arrivals.awaits(this)
  }

  /** More of it has come. */
  grows(bytes: number): void {
    this.#arrivals.grows(this, bytes)
  }

  /** Nothing of it waits any longer. To be called once or more. */
  end(): void {
    this.#arrivals.end(this)
  }
}

export class Arrivals {
  readonly #mostBytes: number
  readonly #now: () => number
  readonly #open = new Set<Arrival>()
  /** What the answers of an offer bring in one go, on average. Of most streams it is a few hundred bytes. */
  readonly #expected = new Map<string, number>()
  #bytes = 0
  #waiting: { readonly arrival: Arrival; readonly go: (arrival: Arrival) => void }[] = []
  #looking = false

  /** `mostBytes`: how much may lie there before nobody else is asked. `now`: milliseconds; never goes back. */
  constructor(mostBytes: number, now: () => number = () => performance.now()) {
    this.#mostBytes = mostBytes
    this.#now = now
  }

  /** Bytes that lie there now, or are expected to any moment. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * The answer that a provider may be asked for; a promise of it, in the order of the calls, where it must wait.
   * `offer` says of what answers this may be one.
   */
  turn(offer: string): Arrival | Promise<Arrival> {
    const arrival = new Arrival(this, offer)
    if (this.#expectedOf(arrival) <= littleBytes) return this.#ask(arrival)
    if (this.#bytes >= this.#mostBytes) this.#forgetOld()
    if (this.#bytes < this.#mostBytes && this.#waiting.length === 0) return this.#ask(arrival)
    const { promise, resolve } = Promise.withResolvers<Arrival>()
    this.#waiting.push({ arrival, go: resolve })
    this.#look()
    return promise
  }

  comes(arrival: Arrival, announced: number | undefined): void {
    this.#remove(arrival)
    // Of a stream at least something comes, and to have brought next to nothing is something to learn.
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

  #expectedOf({ offer }: Arrival): number {
    return this.#expected.get(offer) ?? 0
  }

  #learn(arrival: Arrival): void {
    if (arrival.burst === 0) return
    const before = this.#expectedOf(arrival)
    this.#expected.set(arrival.offer, before + learning * (arrival.burst - before))
    arrival.burst = 0
  }

  #add(arrival: Arrival, bytes: number, until: number): void {
    arrival.until = until
    if (this.#open.has(arrival)) return
    this.#open.add(arrival)
    arrival.bytes = bytes
    this.#bytes += bytes
  }

  #remove(arrival: Arrival): void {
    if (this.#open.delete(arrival)) this.#bytes -= arrival.bytes
  }

  #forgetOld(): void {
    const now = this.#now()
    for (const arrival of this.#open) if (arrival.until <= now) this.#remove(arrival)
  }

  /** Lets go on who has waited longest, as many as there is room for. */
  #admit(): void {
    while (this.#waiting.length > 0 && this.#bytes < this.#mostBytes) {
      const { arrival, go } = this.#waiting.shift()!
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
      if (this.#waiting.length > 0) this.#look()
    }, lookEveryMs)
  }
}
