// The calendar of credit, in UTC: allowance days and the lives of lots.

import type { GrantCommand } from './ledger/ledger.ts'
import { type Pico, usd } from './money.ts'
import type { Pool } from './pool.ts'

export const dayMs = 86_400_000

/** 0.20 USD each UTC day, spent in the app on flash-class chat models; what is left at midnight is gone. */
export const dailyAllowance: Pico = usd('0.2')
/** 0.50 USD, once for each new account. */
export const welcomeCredit: Pico = usd('0.5')

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
export function decimalMonth(now: number): string {
  return new Date(now).toISOString().slice(0, 7)
}

/** The first midnight of the next month in UTC. */
export function startOfNextMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

const monthlyPrefix = 'monthly:'

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
  if (pool === 'subscription' && (expiresAt === null || expiresAt === 'never'))
    return 'Subscription credit needs an expiry: the end of its period.'
  if (pool !== 'daily' || expiresAt === null) return undefined
  const lasts = expiresAt === 'never' ? Infinity : expiresAt
  return lasts > startOfDay(now) + dayMs
    ? 'Daily credit ends with the UTC day at the latest: leave the expiry out.'
    : undefined
}
