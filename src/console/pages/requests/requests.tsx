// Requests and their outcomes, newest first. The filters are in the URL.

import { useInfiniteQuery } from '@tanstack/react-query'
import { type FormEvent } from 'react'
import { useSearchParams } from 'wouter'
import { call } from '../../api/call.ts'
import { useKeys } from '../../api/queries.ts'
import type { Page, RequestRow } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'
import { Button, Empty, PageHead } from '../../ui/basics.tsx'
import { textOf } from '../../ui/form.tsx'
import { Older } from '../../ui/older.tsx'
import { QueryState } from '../../ui/query-state.tsx'
import { LiveCalls } from './live-calls.tsx'
import { RequestTable } from './request-table.tsx'

const filters = ['model', 'key', 'code'] as const

const askEveryMs = 4_000

const codes = [
  'insufficient_credits',
  'purchased_credits_required',
  'plan_required',
  'credits_reserved',
  'key_limit_exceeded',
  'model_not_allowed',
  'model_not_found',
  'invalid_request',
  'rate_limit_exceeded',
  'upstream_rate_limited',
  'upstream_error',
  'upstream_timeout',
] as const

export function Requests() {
  const [query, setQuery] = useSearchParams()
  const { data: keys } = useKeys()
  const chosen = new URLSearchParams(
    filters.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])),
  )
  const list = useInfiniteQuery({
    queryKey: ['requests', chosen.toString()],
    queryFn: ({ pageParam }) => {
      const asked = new URLSearchParams(chosen)
      if (pageParam !== null) asked.set('cursor', pageParam)
      return call<Page<RequestRow>>('GET', `requests?${asked}`)
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
    // Calls that were refused at once were never in flight. A reader of older pages is left in peace.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : askEveryMs),
  })
  const rows = list.data?.pages.flatMap((page) => page.data) ?? []
  const filter = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setQuery(filters.flatMap((name) => (textOf(form, name) ? [[name, textOf(form, name)!]] : [])))
  }
  return (
    <>
      <PageHead title={t('Requests')}>
        <Button onClick={() => void list.refetch()} busy={list.isRefetching}>
          {t('Refresh')}
        </Button>
      </PageHead>
      <LiveCalls />
      <form
        key={chosen.toString()}
        onSubmit={filter}
        onChange={(event) => {
          if (event.target instanceof HTMLSelectElement) event.currentTarget.requestSubmit()
        }}
        className="mb-4 grid gap-2 sm:grid-cols-[minmax(0,1fr)_12rem_14rem_auto]"
        role="search"
      >
        <input
          type="search"
          name="model"
          aria-label={t('Model')}
          placeholder={t('Model, the whole id')}
          defaultValue={query.get('model') ?? ''}
          className="control"
        />
        <select name="key" aria-label={t('Key')} defaultValue={query.get('key') ?? ''} className="control">
          <option value="">{t('every key')}</option>
          {keys?.map(({ id, name, last4 }) => (
            <option key={id} value={id}>
              {name} …{last4}
            </option>
          ))}
        </select>
        <select
          name="code"
          aria-label={t('Outcome')}
          defaultValue={query.get('code') ?? ''}
          className="control"
        >
          <option value="">{t('every outcome')}</option>
          {codes.map((code) => (
            <option key={code} value={code}>
              {code}
            </option>
          ))}
        </select>
        <Button type="submit">{t('Filter')}</Button>
      </form>
      <QueryState query={list} rows={8} />
      {list.data && rows.length === 0 && (
        <Empty title={chosen.size === 0 ? t('Nothing has been called yet.') : t('No request matches.')} />
      )}
      {rows.length > 0 && <RequestTable rows={rows} />}
      <Older list={list} />
    </>
  )
}
