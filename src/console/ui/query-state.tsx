import type { UseQueryResult } from '@tanstack/react-query'
import { Failure, Loading } from './basics.tsx'

/** What a page shows of a query beside its data: that it is loading, or why it failed. */
export function QueryState({
  query: { error, isPending, refetch },
  rows,
}: {
  query: Pick<UseQueryResult, 'error' | 'isPending' | 'refetch'>
  rows?: number
}) {
  return (
    <>
      {error && <Failure error={error} retry={() => void refetch()} />}
      {isPending && <Loading rows={rows} />}
    </>
  )
}
