// Credit that an account has each month: purchased credit that ends with its month in UTC, granted with the account's
// first call, page or command of the month.

import { decimalMonth, startOfNextMonth } from './calendar.ts'
import type { GrantCommand, LedgerCommands } from './ledger/ledger.ts'
import type { Pico } from './money.ts'
import { GatewayError } from '../errors/errors.ts'

/** An account, and what it has each month; zero for nothing. */
export interface MonthlyAccount {
  readonly id: string
  /** Its address, which it keeps for as long as it is there. */
  readonly email: string
  readonly monthlyCredit: Pico
}

/**
 * The grant of a month. Its source is the same all month, so asking twice grants once; it is of the address, since whoever
 * deletes an account and comes back by the single sign-on has another account.
 */
function monthlyGrant({ id, email, monthlyCredit }: MonthlyAccount, now: number): GrantCommand {
  return {
    source: monthlySource(email, now),
    account: id,
    pool: 'purchased',
    amount: monthlyCredit,
    expiresAt: startOfNextMonth(now),
    from: 'grant',
  }
}

/** The source of the grant to the account of this address in the month of `now`. */
export function monthlySource(email: string, now: number): string {
  const month = decimalMonth(now)
  return `monthly:${month}:${Bun.SHA256.hash(`${month} ${email}`, 'hex').slice(0, 32)}`
}

/** Accounts known to be done. Beyond this number the register is asked again, which grants nothing twice. */
const rememberedAccounts = 100_000

export class MonthlyCredit {
  readonly #due: (account: MonthlyAccount) => Promise<void>
  readonly #now: () => number
  readonly #settled = new Set<string>()
  #until = -1

  /** `due` grants what is due to an account, and may be asked again. */
  constructor(due: (account: MonthlyAccount) => Promise<void>, now: () => number) {
    this.#due = due
    this.#now = now
  }

  /**
   * Grants this month's credit to the account, if it has any and has not got it yet; resolves when that is durable.
   * Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: MonthlyAccount): Promise<void> {
    if (account.monthlyCredit === 0n) return
    const now = this.#now()
    if (now >= this.#until || this.#settled.size >= rememberedAccounts) {
      this.#settled.clear()
      this.#until = startOfNextMonth(now)
    }
    if (this.#settled.has(account.id)) return
    await this.#due(account)
    if (this.#now() < this.#until) this.#settled.add(account.id)
  }
}

/**
 * Grants an account's credit of this month, once, whatever has become of the amount since. `now` is the time of the
 * ledger, which never goes back: neither does the month.
 */
export async function grantMonthly(
  ledger: Pick<LedgerCommands, 'grant'> & { now(): number },
  account: MonthlyAccount,
): Promise<void> {
  if (account.monthlyCredit === 0n) return
  const grant = monthlyGrant(account, ledger.now())
  try {
    await ledger.grant(grant)
  } catch (error) {
    // The month ended while the grant waited for its commit: what was asked for had expired, and this one's is due.
    if (ledger.now() >= (grant.expiresAt as number)) return grantMonthly(ledger, account)
    // An account of this address that is deleted by now has had it.
    if (error instanceof GatewayError && error.code === 'idempotency_conflict') return
    throw error
  }
}
