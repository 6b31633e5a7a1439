// Queries of top-ups, their terms, and how often one that waits is asked for.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { Page } from '../../http/console/answers.ts'
import type { OwnPlansView, TopUpTermsView, TopUpView } from '../../http/payments/answers.ts'
import { call, relayedAnswerWithinMs } from './call.ts'

export function useTopUpTerms() {
  return useQuery({
    queryKey: ['top-up-terms'],
    queryFn: () => call<{ data: TopUpTermsView }>('GET', 'top-up-terms').then(({ data }) => data),
  })
}

export function usePlans() {
  return useQuery({
    queryKey: ['plans'],
    queryFn: () => call<{ data: OwnPlansView }>('GET', 'plans').then(({ data }) => data),
  })
}

export function useTopUps() {
  return useInfiniteQuery({
    queryKey: ['top-ups'],
    queryFn: ({ pageParam }) =>
      call<Page<TopUpView>>('GET', `top-ups?limit=20${pageParam === null ? '' : `&cursor=${pageParam}`}`),
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
      call<TopUpView>('GET', `top-ups/${encodeURIComponent(id)}`, undefined, {
        withinMs: relayedAnswerWithinMs,
      }),
    refetchInterval: ({ state: { data, dataUpdateCount } }) =>
      data !== undefined && isWaiting(data) ? askAgainMs(dataUpdateCount) : false,
  })
}

/** Whether it is still expected to change. */
export function isWaiting({ state, problem }: TopUpView): boolean {
  return (state === 'open' || state === 'paid') && problem === null
}
