// Requests and their outcomes, newest first. The filters are in the URL.

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useEffect, useId, useState } from 'react'
import { useSearchParams } from 'wouter'
import { call } from '../../api/call.ts'
import { useKeys } from '../../api/queries.ts'
import type { Key, KeyList, Page, RequestRow } from '../../api/wire.ts'
import { ago, count, countOf, milliseconds, usdShort } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Empty, Note, PageHead } from '../../ui/basics.tsx'
import { textOf } from '../../ui/form.tsx'
import { Older, QueryState } from '../../ui/table.tsx'
import { RequestTable } from './request.tsx'

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
  'client_gone',
] as const

export function Requests() {
  const [query, setQuery] = useSearchParams()
  const [noKey, setNoKey] = useState<string | null>(null)
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
    const given = filters.flatMap((name) =>
      textOf(form, name) ? [[name, textOf(form, name)!] as const] : [],
    )
    const typed = textOf(form, 'key')
    void (typed === undefined ? Promise.resolve(undefined) : keyCalled(typed)).then((key) => {
      const isUnknown = typed !== undefined && key === undefined
      setNoKey(isUnknown ? typed : null)
      if (!isUnknown) setQuery(given.map(([name, value]) => [name, name === 'key' ? key! : value]))
    })
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
        <KeyFilter chosen={query.get('key') ?? ''} />
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
      {noKey !== null && (
        <div className="mb-4">
          <Note tone="warn" role="status">
            {t('No single key is called {name}: pick one of those that are offered, or type more of it.', {
              name: noKey,
            })}
          </Note>
        </div>
      )}
      <QueryState query={list} rows={8} />
      {list.data && rows.length === 0 && (
        <Empty title={chosen.size === 0 ? t('Nothing has been called yet.') : t('No request matches.')} />
      )}
      {rows.length > 0 && <RequestTable rows={rows} />}
      <Older list={list} />
    </>
  )
}

/** The key that is meant: one that was picked, or the only one with this in its name, id or last characters. */
async function keyCalled(typed: string): Promise<string | undefined> {
  const picked = /\(([\w-]+)\)$/.exec(typed)?.[1]
  const asked = new URLSearchParams({ q: picked ?? typed, limit: '20' })
  const { data } = await call<KeyList>('GET', `keys?${asked}`)
  const exact = data.find(({ id, name }) => id === picked || id === typed || name === typed)
  return exact?.id ?? (data.length === 1 ? data[0]!.id : undefined)
}

/** What is offered for a key, and stands in the field when it was picked. */
function textOfKey({ id, name }: Key): string {
  return `${name} (${id})`
}

const offeredKeys = '20'

/** A key is typed: a list of all would have thousands of entries. */
function KeyFilter({ chosen }: { chosen: string }) {
  const [typed, setTyped] = useState<string | null>(null)
  const named = useKeys('keys', { q: chosen, limit: '1' })
  const offered = useKeys('keys', { q: typed ?? '', limit: offeredKeys })
  const options = offered.data?.pages[0]?.data ?? []
  const current = named.data?.pages[0]?.data.find(({ id }) => id === chosen)
  const id = useId()
  return (
    <div>
      <input
        type="search"
        name="key"
        list={id}
        aria-label={t('Key')}
        placeholder={t('every key')}
        autoComplete="off"
        maxLength={200}
        value={typed ?? (current === undefined ? chosen : textOfKey(current))}
        onChange={(event) => {
          setTyped(event.target.value)
          // Picked from the list, or emptied: nothing more is to be typed.
          const isWhole = options.some((key) => textOfKey(key) === event.target.value)
          if (isWhole || event.target.value === '') event.target.form?.requestSubmit()
        }}
        className="control"
      />
      <datalist id={id}>
        {options.map((key) => (
          <option key={key.id} value={textOfKey(key)}>
            …{key.last4}
          </option>
        ))}
      </datalist>
    </div>
  )
}

// The account's calls in flight, as they go. Nothing is shown while there are none.

/** Tokens a second since the first byte; nothing where it is too early to say. */
function speedOf({ started_at: at, first_byte_ms: first, output_tokens: tokens, phase }: LiveCall): string {
  const ms = first === null ? 0 : Date.now() - Date.parse(at) - first
  if (phase !== 'streaming' || ms < 1_000 || tokens === null) return ''
  return `, ${t('{count} a second', { count: count(Math.round((tokens * 1_000) / ms)) })}`
}

interface LiveCall {
  readonly id: string
  readonly model: string
  readonly phase: 'admitted' | 'waiting' | 'streaming' | 'settled'
  readonly started_at: string
  readonly first_byte_ms: number | null
  readonly output_tokens: number | null
  readonly hold: string
}

function LiveCalls() {
  const [calls, setCalls] = useState<readonly LiveCall[]>([])
  const client = useQueryClient()
  useEffect(() => {
    const source = new EventSource('/console/api/live')
    let before = 0
    source.addEventListener('calls', ({ data }: MessageEvent<string>) => {
      const { calls: now } = JSON.parse(data) as { calls: readonly LiveCall[] }
      setCalls(now)
      // Calls that have gone are in the list below.
      if (now.length < before) void client.invalidateQueries({ queryKey: ['requests'] })
      before = now.length
    })
    return () => source.close()
  }, [client])
  if (calls.length === 0) return null
  return (
    <section className="card mb-4 p-3" aria-label={t('In flight')}>
      <h2 className="mb-1 text-[13px] font-medium text-muted">{t('In flight')}</h2>
      <ul className="grid gap-1">
        {calls.map((call) => (
          <li key={call.id} className="flex flex-wrap items-center gap-x-3">
            <Badge tone={call.phase === 'streaming' ? 'accent' : 'plain'}>{t(call.phase)}</Badge>
            <span className="min-w-0 flex-1 truncate font-mono text-[12.5px]">{call.model}</span>
            <span className="text-muted">{ago(call.started_at)}</span>
            {call.first_byte_ms !== null && (
              <span className="tabular-nums">
                {t('first byte {time}', { time: milliseconds(call.first_byte_ms) })}
              </span>
            )}
            {call.output_tokens !== null && (
              <span className="tabular-nums">
                {countOf(call.output_tokens, '{count} token', '{count} tokens')}
                {speedOf(call)}
              </span>
            )}
            <span className="tabular-nums">{t('holds {amount}', { amount: usdShort(call.hold) })}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
