// Grants the daily allowance on the first request of a signed-in account each UTC day.

import { allowanceGrant, startOfDay } from './calendar.ts'
import type { LedgerCommands } from './ledger/ledger.ts'

/** Accounts known to have today's grant. Beyond this the ledger is asked again, which grants nothing twice. */
const rememberedAccounts = 100_000

export class Allowances {
  readonly #ledger: Pick<LedgerCommands, 'grant'>
  readonly #now: () => number
  readonly #granted = new Set<string>()
  #day = -1

  constructor(ledger: Pick<LedgerCommands, 'grant'>, now: () => number) {
    this.#ledger = ledger
    this.#now = now
  }

  /**
   * Grants today's allowance to the account unless it has it; resolves when that is durable. Concurrent calls grant it
   * once, and a clock that went back grants nothing. Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: string): Promise<void> {
    const now = this.#now()
    const day = startOfDay(now)
    if (day !== this.#day || this.#granted.size >= rememberedAccounts) this.#granted.clear()
    this.#day = day
    if (this.#granted.has(account)) return
    try {
      await this.#ledger.grant(allowanceGrant(account, now))
    } catch (error) {
      // The day ended while the grant waited for its commit: what was asked for had expired, and today's is due.
      if (startOfDay(this.#now()) > day) return this.ensure(account)
      throw error
    }
    if (this.#day === day) this.#granted.add(account)
  }
}
