// The calls in flight: counted for the limits, awaited when the gateway stops, and shown to the account they are of.

/** What may be shown of a call that runs: no contents. */
export interface LiveCall {
  readonly id: string
  readonly account: string
  /** `admitted` until its credit is held, then `waiting` for the provider's first byte. */
  phase: 'admitted' | 'waiting' | 'streaming'
  /** As it was asked for; empty until it is known. */
  model: string
  key: string | null
  channel: 'api' | 'app'
  /** Milliseconds since 1970. */
  startedAt: number
  firstByteMs: number | null
  outputTokens: number | null
  /** What is held for it, picodollars. */
  hold: bigint
}

type LiveFacts = Partial<Omit<LiveCall, 'id' | 'account'>>

const nothing: Omit<LiveCall, 'id' | 'account' | 'startedAt'> = {
  phase: 'admitted',
  model: '',
  key: null,
  channel: 'api',
  firstByteMs: null,
  outputTokens: null,
  hold: 0n,
}

/** Calls by the id of their request. Entering twice and leaving twice do no harm. */
export class InFlight {
  readonly #calls = new Map<string, LiveCall>()
  readonly #perAccount = new Map<string, Set<LiveCall>>()
  readonly #watchers = new Map<string, number>()
  readonly #clock: () => number

  /** `clock` gives milliseconds since 1970. */
  constructor(clock: () => number = Date.now) {
    this.#clock = clock
  }

  get size(): number {
    return this.#calls.size
  }

  /** How many of them an account has. */
  of(account: string): number {
    return this.#perAccount.get(account)?.size ?? 0
  }

  /** Those of an account, in the order they came. They go on changing. */
  callsOf(account: string): readonly Readonly<LiveCall>[] {
    return [...(this.#perAccount.get(account) ?? [])]
  }

  /**
   * One more who watches the calls of an account, of at most `most`. Gives the function that ends it, to be called once;
   * undefined where there are enough.
   */
  watch(account: string, most: number): (() => void) | undefined {
    const watching = this.#watchers.get(account) ?? 0
    if (watching >= most) return undefined
    this.#watchers.set(account, watching + 1)
    return () => {
      const left = (this.#watchers.get(account) ?? 1) - 1
      if (left > 0) this.#watchers.set(account, left)
      else this.#watchers.delete(account)
    }
  }

  enter(requestId: string, account: string): void {
    if (this.#calls.has(requestId)) return
    const call: LiveCall = { id: requestId, account, startedAt: this.#clock(), ...nothing }
    this.#calls.set(requestId, call)
    const others = this.#perAccount.get(account)
    if (others) others.add(call)
    else this.#perAccount.set(account, new Set([call]))
  }

  /** What has become known of a call in flight. */
  note(requestId: string, facts: LiveFacts): void {
    const call = this.#calls.get(requestId)
    if (call) Object.assign(call, facts)
  }

  leave(requestId: string): void {
    const call = this.#calls.get(requestId)
    if (!call) return
    this.#calls.delete(requestId)
    const others = this.#perAccount.get(call.account)
    others?.delete(call)
    if (others?.size === 0) this.#perAccount.delete(call.account)
  }
}
