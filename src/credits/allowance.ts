// The daily allowance is granted when a signed-in account first comes by on a UTC day, and not before.

import { allowanceGrant, startOfDay } from './calendar.ts'
import type { LedgerCommands } from './ledger/ledger.ts'

/** Accounts whose grant of the day is known here; beyond it the ledger is asked again, which grants nothing twice. */
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
   * Makes sure that the account has been granted today's allowance; resolves when that is durable. Many at once grant
   * once, and a clock that went back grants nothing. Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: string): Promise<void> {
    const now = this.#now()
    const day = startOfDay(now)
    if (day !== this.#day || this.#granted.size >= rememberedAccounts) this.#granted.clear()
    this.#day = day
    if (this.#granted.has(account)) return
    await this.#ledger.grant(allowanceGrant(account, now))
    if (this.#day === day) this.#granted.add(account)
  }
}
