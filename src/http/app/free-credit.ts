// The credit that is given away, to the accounts that may have it: the welcome once, the allowance each day.

import type { Account } from '../../accounts/account.ts'
import { personOf } from '../../accounts/identity/address.ts'
import type { Allowances } from '../../credits/allowance.ts'
import type { Welcomes } from '../../credits/welcome.ts'

export class FreeCredit {
  readonly #allowances: Pick<Allowances, 'ensure'>
  readonly #welcomes: Pick<Welcomes, 'ensure'>
  readonly #unverified: boolean

  /** `unverified` says whether accounts whose address nobody has proven get it, too. */
  constructor(
    allowances: Pick<Allowances, 'ensure'>,
    welcomes: Pick<Welcomes, 'ensure'>,
    unverified: boolean,
  ) {
    this.#allowances = allowances
    this.#welcomes = welcomes
    this.#unverified = unverified
  }

  /**
   * Makes sure that the account has what it is given; resolves when that is durable. Nothing for a suspended account.
   * Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: Account): Promise<void> {
    if (account.suspended || (account.verifiedAt === null && !this.#unverified)) return
    await this.#welcomes.ensure(account.id, personOf(account.email))
    await this.#allowances.ensure(account.id)
  }
}
