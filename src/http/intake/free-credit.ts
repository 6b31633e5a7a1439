// Grants free credit to each person: the welcome credit once, the allowance each day, and what its account has a month.

import type { Account } from '../../accounts/account.ts'
import { personOf } from '../../accounts/identity/address.ts'
import type { MonthlyCredit } from '../../credits/monthly-credit.ts'
import type { Allowances, Welcomes } from '../../credits/welcome.ts'

export class FreeCredit {
  readonly #allowances: Pick<Allowances, 'ensure'>
  readonly #welcomes: Pick<Welcomes, 'ensure'>
  readonly #monthly: Pick<MonthlyCredit, 'ensure'>
  readonly #unverified: boolean

  /** `unverified`: whether accounts without a verified address get it too. */
  constructor(
    allowances: Pick<Allowances, 'ensure'>,
    welcomes: Pick<Welcomes, 'ensure'>,
    monthly: Pick<MonthlyCredit, 'ensure'>,
    unverified: boolean,
  ) {
    this.#allowances = allowances
    this.#welcomes = welcomes
    this.#monthly = monthly
    this.#unverified = unverified
  }

  /**
   * Grants the account's free credit if it is due; resolves when that is durable. Nothing for a suspended account.
   * Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: Account): Promise<void> {
    if (account.suspended) return
    await this.#monthly.ensure(account)
    if (account.verifiedAt === null && !this.#unverified) return
    const person = personOf(account.email)
    await this.#welcomes.ensure(account.id, person)
    await this.#allowances.ensure(account.id, person)
  }
}
