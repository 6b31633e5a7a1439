// The welcome credit reaches each person once: it is claimed by address, capped for each day, and then granted.

import { startOfDay, welcomeCredit, welcomeGrant } from './calendar.ts'
import type { LedgerCommands } from './ledger/ledger.ts'
import type { Pico } from './money.ts'

export interface WelcomeClaim {
  /** Stands for the person: a hash of the normalised address. */
  readonly address: string
  readonly account: string
  /** The UTC midnight at which the day began. */
  readonly day: number
  readonly amount: Pico
  /** The most that all claims of the day may come to. */
  readonly cap: Pico
}

export interface WelcomeRegister {
  /**
   * `claimed` when the address is this account's from now on, `repeated` when it was before; `taken` when another
   * account has had the credit of this address; `capped` when the day has no more to give.
   */
  claimWelcome(claim: WelcomeClaim): WelcomeAnswer | Promise<WelcomeAnswer>
  /** The claim of an account that had its credit before there were claims: it takes nothing from its day. */
  returnWelcome(address: string): void | Promise<void>
}

export type WelcomeAnswer = 'claimed' | 'repeated' | 'taken' | 'capped'

/** Accounts whose welcome is settled here; beyond it the register is asked again, which grants nothing twice. */
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
   * Makes sure that the account has been welcomed, if it is the first of its address and the day's cap allows; resolves
   * when the credit is durable. On another day it is tried again. Rejects with `store_unavailable` or `overloaded`.
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
      // The claim is durable first: a process that dies here grants it the next time.
      const { granted } = await this.#ledger.grant(welcomeGrant(account))
      if (!granted && answer === 'claimed') await this.#register.returnWelcome(address)
    }
    if (this.#settled.size >= rememberedAccounts) this.#settled.clear()
    this.#settled.add(account)
  }
}
