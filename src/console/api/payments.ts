// Answers of the console API about payments, and their queries. Amounts of rupees and dollars are decimal strings.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { call, relayedAnswerWithinMs } from './call.ts'
import type { ProcessorId } from '../../http/console/views.ts'
import type { Page, Pool } from './wire.ts'

export type { ProcessorId }

export type TopUpState =
  'open' | 'paid' | 'credited' | 'failed' | 'expired' | 'refunded_part' | 'refunded' | 'disputed'

export interface TopUp {
  readonly id: string
  readonly state: TopUpState
  readonly processor: ProcessorId
  /** Of a test mode: it credits nothing. */
  readonly test: boolean
  readonly amount: string
  readonly currency: 'INR'
  /** Rupees for a US dollar. */
  readonly rate: string
  readonly rate_as_of: string
  readonly rate_source: string
  readonly credit_usd: string
  readonly credit_expires_at: string
  readonly url: string | null
  readonly lot: string | null
  readonly payment_id: string | null
  readonly refunded: string
  readonly problem: string | null
  readonly receipt: string | null
  readonly created_at: string
  readonly expires_at: string
  readonly paid_at: string | null
}

export interface TopUpTerms {
  readonly currency: 'INR'
  readonly rate: string
  readonly rate_as_of: string
  readonly rate_source: string
  readonly min: string
  readonly max: string
  readonly credit_expires_at: string
  readonly processors: readonly { readonly id: ProcessorId; readonly test: boolean }[]
}

export type PaymentReceipt = TopUp & {
  readonly method: string | null
  readonly seller: {
    readonly name: string | null
    readonly address: string | null
    readonly gstin: string | null
  }
  readonly payer: string
}

interface Standing {
  readonly credit: string
  readonly owed: string
  /** The credit less what is owed. */
  readonly balance: string
}

export type MovementKind = 'grant' | 'settle' | 'expire' | 'refund' | 'adjust' | 'repay' | 'borrow'
type Movement = Standing & { readonly kind: MovementKind; readonly entries: number }

/** An account's credit and usage of a month. */
export interface MonthlyStatement {
  readonly account: string
  readonly email: string
  /** As `2026-11`. */
  readonly month: string
  readonly complete: boolean
  readonly opening: Standing
  readonly closing: Standing
  readonly credit_line: string | null
  readonly totals: readonly Movement[]
  readonly days: readonly (Movement & { readonly day: string; readonly pool: Pool })[]
  readonly receipts: readonly {
    readonly receipt: string | null
    readonly payment_id: string
    /** Rupees. */
    readonly amount: string | null
    readonly refunded: string | null
    readonly credit_usd: string
    readonly credited_at: string
  }[]
}

export function useTopUpTerms() {
  return useQuery({
    queryKey: ['top-up-terms'],
    queryFn: () => call<{ data: TopUpTerms }>('GET', 'top-up-terms').then(({ data }) => data),
  })
}

export function useTopUps() {
  return useInfiniteQuery({
    queryKey: ['top-ups'],
    queryFn: ({ pageParam }) =>
      call<Page<TopUp>>('GET', `top-ups?limit=20${pageParam === null ? '' : `&cursor=${pageParam}`}`),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
  })
}

/** Short for a new payment, longer if it takes a while. */
function askAgainMs(asked: number): number {
  if (asked < 40) return 3_000
  return asked < 100 ? 10_000 : 30_000
}

/** A top-up, polled while it is pending and the page is visible. */
export function useTopUp(id: string) {
  return useQuery({
    queryKey: ['top-ups', id],
    queryFn: () =>
      call<TopUp>('GET', `top-ups/${encodeURIComponent(id)}`, undefined, { withinMs: relayedAnswerWithinMs }),
    refetchInterval: ({ state: { data, dataUpdateCount } }) =>
      data !== undefined && isWaiting(data) ? askAgainMs(dataUpdateCount) : false,
  })
}

/** Whether it is still expected to change. */
export function isWaiting({ state, problem }: TopUp): boolean {
  return (state === 'open' || state === 'paid') && problem === null
}
