// The calendar of credit, in UTC: allowance days and the lives of lots.

import { GatewayError } from '../errors/errors.ts'
import type { GrantCommand, LedgerCommands, LedgerReader } from './ledger/ledger.ts'
import { type Pico, usd } from './money.ts'
import { type Pool, rulesOf } from './pool.ts'

export const dayMs = 86_400_000

/** 0.20 USD each UTC day, spent in the app on flash-class chat models; what is left at midnight is gone. */
const dailyAllowance: Pico = usd('0.2')
/** 0.50 USD, once for each new account. */
const welcomeCredit: Pico = usd('0.5')

export function startOfDay(now: number): number {
  return Math.floor(now / dayMs) * dayMs
}

export function startOfMonth(at: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}

/** The same day and hour twelve months later; February 28 after a February 29. */
export function twelveMonthsAfter(at: number): number {
  return monthsAfter(at, 12)
}

/** The same day and hour some months later; the last day of the month if it has no such day. */
export function monthsAfter(at: number, months: number): number {
  const date = new Date(at)
  const day = date.getUTCDate()
  date.setUTCMonth(date.getUTCMonth() + months)
  if (date.getUTCDate() !== day) date.setUTCDate(0)
  return date.getTime()
}

/** The month in UTC, such as `2026-11`. */
function decimalMonth(now: number): string {
  return new Date(now).toISOString().slice(0, 7)
}

/** The first midnight of the next month in UTC. */
export function startOfNextMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

export const monthlyPrefix = 'monthly:'

/** Whether a grant is that of a month, which an account has once whatever its amount is by then. */
export function isMonthly(grant: { readonly pool: string; readonly source: string }): boolean {
  return grant.pool === 'purchased' && grant.source.startsWith(monthlyPrefix)
}

const allowancePrefix = 'daily:'

/** The grant of today's allowance. Its source is the same all day, so asking twice grants once. */
export function allowanceGrant(account: string, now: number, amount: Pico = dailyAllowance): GrantCommand {
  const day = startOfDay(now)
  const date = new Date(day).toISOString().slice(0, 10)
  return {
    source: `${allowancePrefix}${account}:${date}`,
    account,
    pool: 'daily',
    amount,
    expiresAt: day + dayMs,
    from: 'grant',
  }
}

/** Whether a grant is the daily allowance rather than an operator's grant to the daily pool. */
export function isAllowance(grant: { readonly pool: string; readonly source: string }): boolean {
  return grant.pool === 'daily' && grant.source.startsWith(allowancePrefix)
}

const welcomePrefix = 'welcome:'

/** The grant of the welcome credit: one source per account, so it is granted once. */
export function welcomeGrant(account: string, amount: Pico = welcomeCredit): GrantCommand {
  return {
    source: `${welcomePrefix}${account}`,
    account,
    pool: 'welcome',
    amount,
    expiresAt: null,
    from: 'grant',
  }
}

/** Whether a grant is the welcome credit rather than an operator's grant to the welcome pool. */
export function isWelcome(grant: { readonly pool: string; readonly source: string }): boolean {
  return grant.pool === 'welcome' && grant.source.startsWith(welcomePrefix)
}

/**
 * Why a pool cannot have a grant that ends at `expiresAt` (as GrantCommand has it), as a sentence; undefined if it can.
 * For people who grant: whether the time has passed is another question.
 */
export function lifeFault(pool: Pool, expiresAt: GrantCommand['expiresAt'], now: number): string | undefined {
  const { life } = rulesOf(pool)
  const name = pool[0]!.toUpperCase() + pool.slice(1)
  if (life === 'named' && (expiresAt === null || expiresAt === 'never'))
    return `${name} credit needs an expiry: the end of its period.`
  if (life !== 'day' || expiresAt === null) return undefined
  const lasts = expiresAt === 'never' ? Infinity : expiresAt
  return lasts > startOfDay(now) + dayMs
    ? `${name} credit ends with the UTC day at the latest: leave the expiry out.`
    : undefined
}

// Grants the welcome credit once per person: claimed by address, capped per day.

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

// Credit that an account has each month: purchased credit that ends with its month in UTC, granted with the account's
// first call, page or command of the month.

/** An account, and what it has each month; zero for nothing. */
export interface MonthlyAccount {
  readonly id: string
  /** Its address, which a directory may change. */
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
  ledger: Pick<LedgerCommands, 'grant'> & Pick<LedgerReader, 'hasMonthly'> & { now(): number },
  account: MonthlyAccount,
): Promise<void> {
  if (account.monthlyCredit === 0n) return
  const grant = monthlyGrant(account, ledger.now())
  // Under the address that it had then the source was another.
  if (await ledger.hasMonthly(account.id, grant.expiresAt as number)) return
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
