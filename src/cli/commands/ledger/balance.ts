// An account's credit for `weir credits show` and `weir accounts show`, in the format of GET /v1/credits.

import { freeIn } from '../../../credits/balance.ts'
import { formatCreditLine } from '../../../credits/credit-line.ts'
import type { LedgerReader, LotBalance } from '../../../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../../../credits/money.ts'
import { fundingOf, pools, type Pool } from '../../../credits/pool.ts'
import { isoTime, table } from '../../context.ts'

export interface BalanceView {
  readonly currency: 'USD'
  /** What API calls could hold now, and what calls from the app could hold. */
  readonly available: string
  readonly app_available: string
  readonly held: string
  readonly debt: string
  /** How much the account may owe; null if it may not owe anything. */
  readonly credit_line: string | null
  readonly pools: readonly PoolView[]
  readonly total_purchased: string
  readonly total_used: string
}

interface PoolView {
  readonly type: Pool
  readonly remaining: string
  readonly api_spendable: boolean
  readonly lots: readonly {
    readonly id: string
    readonly remaining: string
    readonly expires_at: string | null
  }[]
}

/** Reads the balance as it is at `now`; amounts are decimal strings in US dollars. */
export async function balanceView(ledger: LedgerReader, account: string, now: number): Promise<BalanceView> {
  const balance = await ledger.balance(account)
  const { lots, debt } = balance
  const { purchased, used } = await ledger.totals(account)
  const live = lots.filter((lot) => lot.remaining > 0n && (lot.expiresAt === null || lot.expiresAt > now))
  const held = sum(lots.map((lot) => lot.pinned))
  return {
    currency: 'USD',
    available: formatUsd(freeIn(balance, fundingOf('api', false), now)),
    app_available: formatUsd(freeIn(balance, fundingOf('app', true), now)),
    held: formatUsd(held),
    debt: formatUsd(debt),
    credit_line: formatCreditLine(balance.creditLine),
    pools: pools.map((pool) => poolView(pool, live)),
    total_purchased: formatUsd(purchased),
    total_used: formatUsd(used),
  }
}

function poolView(pool: Pool, live: readonly LotBalance[]): PoolView {
  const lots = live.filter((lot) => lot.pool === pool)
  return {
    type: pool,
    remaining: formatUsd(sum(lots.map((lot) => lot.remaining))),
    api_spendable: fundingOf('api', false).includes(pool),
    lots: lots.map(({ id, remaining, expiresAt }) => ({
      id,
      remaining: formatUsd(remaining),
      expires_at: isoTime(expiresAt),
    })),
  }
}

/** A lot of the balance by its id; undefined if it is used up. */
export function lotOf(balance: BalanceView, id: string) {
  return balance.pools.flatMap(({ lots }) => lots).find((lot) => lot.id === id)
}

export function renderBalance(balance: BalanceView): string {
  const lots = balance.pools.flatMap(({ type, lots }) =>
    lots.map((lot) => [type, lot.remaining, lot.expires_at ?? 'never', lot.id]),
  )
  const line = balance.credit_line === null ? '' : ` of a line of ${balance.credit_line}`
  const debt = balance.debt === '0' && line === '' ? '' : `, debt ${balance.debt}${line}`
  const heading =
    `available ${balance.available} USD to API calls, ${balance.app_available} in the app, ` +
    `held by calls in flight ${balance.held}${debt}`
  return lots.length === 0
    ? heading
    : `${heading}\n${table(['POOL', 'REMAINING USD', 'EXPIRES', 'LOT'], lots)}`
}

function sum(amounts: readonly Pico[]): Pico {
  return amounts.reduce((total, amount) => total + amount, 0n)
}
