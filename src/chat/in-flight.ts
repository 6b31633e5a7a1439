// The calls in flight: counted for the limits, awaited when the gateway stops.

/** Calls by the id of their request. Entering twice and leaving twice do no harm. */
export class InFlight {
  readonly #accounts = new Map<string, string>()
  readonly #perAccount = new Map<string, number>()

  get size(): number {
    return this.#accounts.size
  }

  /** How many of them an account has. */
  of(account: string): number {
    return this.#perAccount.get(account) ?? 0
  }

  enter(requestId: string, account: string): void {
    if (this.#accounts.has(requestId)) return
    this.#accounts.set(requestId, account)
    this.#perAccount.set(account, this.of(account) + 1)
  }

  leave(requestId: string): void {
    const account = this.#accounts.get(requestId)
    if (account === undefined) return
    this.#accounts.delete(requestId)
    const left = this.of(account) - 1
    if (left > 0) this.#perAccount.set(account, left)
    else this.#perAccount.delete(account)
  }
}
