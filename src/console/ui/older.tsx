// The button below a list that is read page by page.

import type { UseInfiniteQueryResult } from '@tanstack/react-query'
import { t } from '../strings/text.ts'
import { Button } from './basics.tsx'

/** Shown only if there is another page. */
export function Older({
  list,
}: {
  list: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>
}) {
  if (!list.hasNextPage) return null
  return (
    <p className="mt-3">
      <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
        {t('Older')}
      </Button>
    </p>
  )
}
