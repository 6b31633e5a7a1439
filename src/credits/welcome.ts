// Grants the welcome credit once per person: claimed by address, capped per day.

import { startOfDay, welcomeCredit, welcomeGrant } from './calendar.ts'
import type { LedgerCommands } from './ledger/ledger.ts'
import type { Pico } from './money.ts'

/** Free credit that a person gets whatever accounts it has: once, or once a day. */
export interface CreditClaim {
  /** Identifies the person: a hash of the normalised address. */
  readonly address: string
  readonly account: string
  /** The UTC midnight that begins the day. */
  readonly day: number
  readonly amount: Pico
  /** The limit for all claims of the day. */
  readonly cap: Pico
}

export interface WelcomeRegister {
  /**
   * `claimed`: the address is now this account's. `repeated`: it was before. `taken`: another account had the credit
   * for this address. `capped`: the day's limit is reached.
   */
  claimWelcome(claim: CreditClaim): ClaimAnswer | Promise<ClaimAnswer>
  /** For an account that had its credit before claims existed: does not count towards its day. */
  returnWelcome(address: string): void | Promise<void>
}

export type ClaimAnswer = 'claimed' | 'repeated' | 'taken' | 'capped'

/** Accounts known to be done. Beyond this number the register is asked again, which grants nothing twice. */
const rememberedAccounts = 100_000

export class Welcomes {
  readonly #register: WelcomeRegister
  readonly #ledger: Pick<LedgerCommands, 'grant'>
  readonly #dailyCap: Pico
  readonly #now: () => number
  readonly #settled = new Set<string>()
  #cappedDay = -1

  constructor(
    register: WelcomeRegister,
    ledger: Pick<LedgerCommands, 'grant'>,
    dailyCap: Pico,
    now: () => number,
  ) {
    this.#register = register
    this.#ledger = ledger
    this.#dailyCap = dailyCap
    this.#now = now
  }

  /**
   * Grants the welcome credit if the account is the first with its address and the day's cap allows; resolves when the
   * credit is durable. Tried again on another day. Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: string, address: string): Promise<void> {
    const day = startOfDay(this.#now())
    if (this.#cappedDay === day || this.#settled.has(account)) return
    const claim = { address, account, day, amount: welcomeCredit, cap: this.#dailyCap }
    const answer = await this.#register.claimWelcome(claim)
    if (answer === 'capped') {
      this.#cappedDay = day
      return
    }
    if (answer !== 'taken') {
      // The claim is durable first: if the process dies here, the credit is granted next time.
      const { granted } = await this.#ledger.grant(welcomeGrant(account))
      if (!granted && answer === 'claimed') await this.#register.returnWelcome(address)
    }
    if (this.#settled.size >= rememberedAccounts) this.#settled.clear()
    this.#settled.add(account)
  }
}
