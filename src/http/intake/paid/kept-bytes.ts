// Limits how much of the disk the answers kept for Idempotency-Keys take: each may be of megabytes, and any client can
// name a new key with every request.

interface Limits {
  /** Bytes of one account. */
  readonly accountBytes: number
  /** How long answers are kept, milliseconds. */
  readonly keepMs: number
}

/**
 * Counts what this process has kept for each account, in two halves of the time that answers are kept: the older half is
 * forgotten as a whole, so that at most twice the limit is ever there.
 */
export class KeptBytes {
  readonly #limits: Limits
  readonly #now: () => number
  #older = new Map<string, number>()
  #newer = new Map<string, number>()
  #turnsAt: number

  /** `now`: milliseconds; never goes back. */
  constructor(limits: Limits, now: () => number = () => performance.now()) {
    this.#limits = limits
    this.#now = now
    this.#turnsAt = now() + limits.keepMs / 2
  }

  /** Counts an answer that is about to be kept; false if there is no room for it. */
  take(account: string, bytes: number): boolean {
    this.#turn()
    const newer = this.#newer.get(account) ?? 0
    if (newer + (this.#older.get(account) ?? 0) + bytes > this.#limits.accountBytes) return false
    this.#newer.set(account, newer + bytes)
    return true
  }

  #turn(): void {
    const now = this.#now()
    const half = this.#limits.keepMs / 2
    if (now < this.#turnsAt) return
    // After a whole time without any answer nothing of what was counted is kept any more.
    this.#older = now < this.#turnsAt + half ? this.#newer : new Map<string, number>()
    this.#newer = new Map<string, number>()
    this.#turnsAt = now + half
  }
}
