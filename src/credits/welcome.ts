// Grants the welcome credit once per person: claimed by address, capped per day.

import { allowanceGrant, dailyAllowance, startOfDay, welcomeCredit, welcomeGrant } from './calendar.ts'
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

// Grants the daily allowance on the first request of a signed-in account each UTC day: once to a person, capped a day.

export interface AllowanceRegister {
  /**
   * `claimed`: the day's allowance of the address is now this account's. `repeated`: it was before. `taken`: another
   * account has it. `capped`: the day's limit is reached.
   */
  claimAllowance(claim: CreditClaim): ClaimAnswer | Promise<ClaimAnswer>
}

interface AllowanceParts {
  readonly register: AllowanceRegister
  readonly ledger: Pick<LedgerCommands, 'grant'>
  /** The most that a day gives. */
  readonly dailyCap: Pico
  readonly now: () => number
  /** Called once for each day whose limit is reached. */
  readonly capped: () => void
}

export class Allowances {
  readonly #parts: AllowanceParts
  /** Those that have today's grant, and those that get none today. */
  readonly #settled = new Set<string>()
  #day = -1
  #cappedDay = -1

  constructor(parts: AllowanceParts) {
    this.#parts = parts
  }

  /**
   * Grants today's allowance to the account, unless it or another account of this address has it, or the day's cap is
   * reached; resolves when that is durable. Concurrent calls grant it once, and a clock that went back grants nothing.
   * Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: string, address: string): Promise<void> {
    const { register, ledger, dailyCap, now } = this.#parts
    const at = now()
    const day = startOfDay(at)
    if (day !== this.#day || this.#settled.size >= rememberedAccounts) this.#settled.clear()
    this.#day = day
    if (this.#settled.has(account)) return
    const claim = { address, account, day, amount: dailyAllowance, cap: dailyCap }
    const answer = await register.claimAllowance(claim)
    if (answer === 'capped') this.#onCapped(day)
    try {
      // The claim comes first: if the process dies here, the credit is granted with the next request.
      if (answer === 'claimed' || answer === 'repeated') await ledger.grant(allowanceGrant(account, at))
    } catch (error) {
      // The day ended while the grant waited for its commit: what was asked for had expired, and today's is due.
      if (startOfDay(now()) > day) return this.ensure(account, address)
      throw error
    }
    if (this.#day === day) this.#settled.add(account)
  }

  #onCapped(day: number): void {
    if (this.#cappedDay === day) return
    this.#cappedDay = day
    this.#parts.capped()
  }
}
