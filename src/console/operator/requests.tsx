// The calls of everybody, with filters that stand in the address, and one box that finds what a piece of text belongs to.

import { useQuery } from '@tanstack/react-query'
import type { FormEvent } from 'react'
import { Link, Redirect, useLocation, useParams, useSearchParams } from 'wouter'
import type { OperatorRequestView, SearchView } from '../../http/admin/answers.ts'
import type { RequestDetailView } from '../../http/console/answers.ts'
import { DuplicatesOf } from './support.tsx'
import { call, useData, usePages } from '../api/call.ts'
import { Outcome, RequestDetails } from '../pages/requests.tsx'
import { count, milliseconds, moment, t, usdShort } from '../strings/text.ts'
import { Badge, Button, Download, Empty, PageHead, TextLink, textOf } from '../ui/kit.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  Table,
  wholeRow,
  wideOnly,
} from '../ui/table.tsx'

const filters = ['outcome', 'account', 'model', 'provider', 'key', 'code', 'tag', 'from', 'to', 'id'] as const
type Filter = (typeof filters)[number]

/** What is typed of a model is a part of its name. */
const asPart = (typed: string) => (typed.includes('*') ? typed : `*${typed}*`)
const typedOf = (model: string) => model.replace(/^\*([^*]*)\*$/, '$1')

export function AllRequests() {
  const [query, setQuery] = useSearchParams()
  const valueOf = (name: Filter) => query.get(name) ?? ''
  const chosen = new URLSearchParams(
    filters.flatMap((name) => (valueOf(name) ? [[name, valueOf(name)]] : [])),
  )
  const [list, rows] = usePages<OperatorRequestView>(
    ['admin', 'requests', chosen.toString()],
    'admin/requests',
    chosen,
  )
  const filter = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setQuery(
      filters.flatMap((name) => {
        const typed = textOf(form, name)
        return typed === undefined ? [] : [[name, name === 'model' ? asPart(typed) : typed]]
      }),
    )
  }
  const field = (name: Filter, label: string, placeholder: string, type = 'text') => (
    <label className="grid gap-1 text-[12px] text-muted">
      {label}
      <input
        name={name}
        // A search for a time gives more than a day.
        type={valueOf(name).includes('T') ? 'text' : type}
        placeholder={placeholder}
        maxLength={200}
        autoComplete="off"
        defaultValue={name === 'model' ? typedOf(valueOf(name)) : valueOf(name)}
        className="control text-ink"
      />
    </label>
  )
  return (
    <>
      <PageHead title={t('All calls')}>
        <Button onClick={() => void list.refetch()} busy={list.isRefetching}>
          {t('Refresh')}
        </Button>
        <Download path={`admin/requests.csv?${chosen}`} />
      </PageHead>
      <form
        key={chosen.toString()}
        onSubmit={filter}
        onChange={(event) => {
          if (event.target instanceof HTMLSelectElement) event.currentTarget.requestSubmit()
        }}
        className="mb-4 grid grid-cols-2 items-end gap-2 sm:grid-cols-3 lg:grid-cols-6"
        role="search"
        aria-label={t('All calls')}
      >
        <label className="grid gap-1 text-[12px] text-muted">
          {t('Outcome')}
          <select name="outcome" defaultValue={valueOf('outcome')} className="control text-ink">
            <option value="">{t('every outcome')}</option>
            <option value="served">{t('served')}</option>
            <option value="failed">{t('failed')}</option>
            <option value="refused">{t('refused')}</option>
            <option value="unserved">{t('failed or refused')}</option>
          </select>
        </label>
        {field('account', t('Account'), t('Address or id'))}
        {field('model', t('Model'), t('a part of its name'))}
        {field('provider', t('Provider'), '')}
        {field('key', t('Key'), t('its id'))}
        {field('code', t('Code'), 'upstream_error')}
        {field('tag', t('Tag'), 'feature=chat')}
        {field('from', t('From'), '', 'date')}
        {field('to', t('To'), '', 'date')}
        {field('id', t('Request id'), 'req_…')}
        <Button type="submit">{t('Filter')}</Button>
      </form>
      <QueryState query={list} rows={8} />
      {list.data && rows.length === 0 && !list.hasNextPage && <Empty title={t('No request matches.')} />}
      {rows.length > 0 && <RequestRows rows={rows} />}
      <Older list={list} />
    </>
  )
}

function RequestRows({ rows }: { rows: readonly OperatorRequestView[] }) {
  return (
    <Table
      label={t('All calls')}
      columns={[
        t('When'),
        wideOnly(t('Outcome')),
        wideOnly(t('Account')),
        wideOnly(t('Model')),
        wideOnly(t('Provider')),
        wideOnly(numeric(t('Tokens'))),
        wideOnly(numeric(t('Time'))),
        numeric(t('Cost')),
      ]}
    >
      {rows.map((row) => (
        <tr key={row.id} className="relative hover:bg-paper">
          <td className={firstOnPhones}>
            <Link href={`/operator/requests/${row.id}`} className={`${wholeRow} sm:whitespace-nowrap`}>
              {moment(row.ended_at)}
            </Link>
            <span className="mt-0.5 flex min-w-0 items-center gap-x-2 sm:hidden">
              <Outcome row={row} />
              <span className="truncate text-[12.5px]">{row.account_email ?? row.account ?? '–'}</span>
            </span>
          </td>
          <td className={`whitespace-nowrap ${notOnPhones}`}>
            <Outcome row={row} />
          </td>
          <td className={`max-w-56 truncate ${notOnPhones}`}>{row.account_email ?? row.account ?? '–'}</td>
          <td
            className={`max-w-72 truncate font-mono text-[12.5px] ${notOnPhones}`}
            title={row.model ?? undefined}
          >
            {row.model ?? '–'}
          </td>
          <td className={notOnPhones}>{row.provider ?? '–'}</td>
          <td className={`num whitespace-nowrap ${notOnPhones}`}>
            {count(row.prompt_tokens)} → {count(row.completion_tokens)}
          </td>
          <td className={`num ${notOnPhones}`}>{milliseconds(row.total_ms)}</td>
          <td className="num">
            {usdShort(row.cost)}
            <span className="block max-w-32 truncate font-mono text-[12px] text-muted sm:hidden">
              {row.model ?? '–'}
            </span>
          </td>
        </tr>
      ))}
    </Table>
  )
}

type AnyRequestView = RequestDetailView & Pick<OperatorRequestView, 'account_email'>

export function AnyRequest() {
  const { id } = useParams<{ id: string }>()
  const [query] = useSearchParams()
  const ids = query.get('ids')?.split(',') ?? [id]
  const request = useData<AnyRequestView>(
    ['admin', 'request', id],
    `admin/requests/${encodeURIComponent(id)}`,
  )
  return (
    <>
      <p className="mb-2 flex flex-wrap gap-x-4 text-[13px]">
        <TextLink href="/operator/requests">{t('All calls')}</TextLink>
        {request.data?.account && (
          <Link
            href={`/operator/accounts/${request.data.account}`}
            className="text-accent underline min-w-0 break-words"
          >
            {request.data.account_email ?? request.data.account}
          </Link>
        )}
      </p>
      <QueryState query={request} title={t('Request')} />
      {request.data && <RequestDetails request={request.data} beside={<DuplicatesOf ids={ids} />} />}
    </>
  )
}

// The search.

/** A key that is pasted as a whole is not to stand in an address: its public id finds it, too. */
function withoutSecret(text: string): string {
  return /^(?:sk|mk)-weir(?:-[a-z]+)?-([0-9A-Za-z]+)-/.exec(text)?.[1] ?? text
}

/**
 * A day and a time of day that stand behind what is searched for, or alone: of the reader's clock, unless it says UTC.
 * A time of day alone is of today.
 */
export function withTime(typed: string, now = new Date()): { readonly text: string; readonly at?: string } {
  const found =
    /(?:^|\s)(?:(\d{4})-(\d\d)-(\d\d)[T ,]+)?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?( ?(?:Z|UTC))?$/i.exec(
      typed,
    )
  if (!found) return { text: typed }
  const [whole, year, month, date, hour, minute, second = '0', zone] = found
  const isUtc = zone !== undefined
  const day = [
    Number(year ?? (isUtc ? now.getUTCFullYear() : now.getFullYear())),
    month === undefined ? (isUtc ? now.getUTCMonth() : now.getMonth()) : Number(month) - 1,
    Number(date ?? (isUtc ? now.getUTCDate() : now.getDate())),
  ] as const
  const clock = [Number(hour), Number(minute), Number(second)] as const
  if (clock[0] > 23 || clock[1] > 59 || clock[2] > 59) return { text: typed }
  const at = isUtc ? new Date(Date.UTC(...day, ...clock)) : new Date(...day, ...clock)
  return { text: typed.slice(0, -whole.length).trim(), at: at.toISOString() }
}

/** The time that a page is about; null for none. */
export function timeOf(query: URLSearchParams): string | null {
  const at = query.get('at')
  return at === null || Number.isNaN(Date.parse(at)) ? null : at
}

const aroundMs = 15 * 60_000

/** The calls about a time. */
export function around(at: string): { readonly from: string; readonly to: string } {
  const moments = [-aroundMs, aroundMs].map((apart) => new Date(Date.parse(at) + apart).toISOString())
  return { from: moments[0]!, to: moments[1]! }
}

/** The box above the operators' pages. */
export function SearchBox() {
  const [, navigate] = useLocation()
  const [query] = useSearchParams()
  const search = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const typed = textOf(new FormData(event.currentTarget), 'q')?.trim()
    if (!typed) return
    const { text, at } = withTime(withoutSecret(typed))
    if (text !== '') navigate(`/operator/search?${new URLSearchParams({ q: text, ...(at && { at }) })}`)
    else if (at !== undefined) navigate(`/operator/requests?${new URLSearchParams(around(at))}`)
  }
  const q = query.get('q') ?? ''
  return (
    <form key={q} onSubmit={search} role="search" aria-label={t('Find')} className="mb-5 flex max-w-xl gap-2">
      <input
        name="q"
        aria-label={t('Find an account, a key, a call, a payment, a voucher or a group')}
        placeholder={t('Address, end of a key, id of a call or payment, voucher, group')}
        defaultValue={q}
        maxLength={300}
        autoComplete="off"
        className="control min-w-0 flex-1"
      />
      <Button type="submit">{t('Find')}</Button>
    </form>
  )
}

const kinds: Readonly<Record<SearchView['data'][number]['kind'], string>> = {
  account: 'Account',
  key: 'Key',
  management_key: 'Management key',
  request: 'Request',
  payment: 'Payment',
  voucher: 'Voucher',
  group: 'Group',
}

/** What is called that alone is what was meant; calls whose ids were all given stand beside each other. */
function placeOf(rows: SearchView['data'], q: string, at: string | null): string | undefined {
  const [first] = rows
  if (first === undefined) return undefined
  const page = first.href.replace(/^\/console/, '')
  const ids = q.split(/[\s,;]+/).filter((id) => id !== '')
  if (ids.length > 1 && rows.every(({ kind }) => kind === 'request'))
    return `${page}?${new URLSearchParams({ ids: ids.join(',') })}`
  if (rows.length > 1) return undefined
  const isOfAccount = first.kind === 'account' || first.kind === 'key'
  return at === null || !isOfAccount
    ? page
    : `${page}${page.includes('?') ? '&' : '?'}${new URLSearchParams({ at })}`
}

export function Search() {
  const [query] = useSearchParams()
  const q = query.get('q') ?? ''
  const found = useQuery({
    queryKey: ['admin', 'search', q],
    queryFn: async () => (await call<SearchView>('GET', `admin/search?${new URLSearchParams({ q })}`)).data,
    enabled: q !== '',
  })
  const rows = found.data ?? []
  const place = placeOf(rows, q, timeOf(query))
  if (place !== undefined) return <Redirect to={place} replace />
  return (
    <>
      <PageHead title={t('Found')} />
      {q !== '' && <QueryState query={found} />}
      {(q === '' || (found.data && rows.length === 0)) && (
        <Empty title={t('Nothing is called that.')}>
          {t('Type the beginning of an address, the last four letters of a key, or a whole id.')}
        </Empty>
      )}
      {rows.length > 0 && (
        <Table label={t('Found')} columns={[t('Kind'), t('Name'), t('Account'), t('When'), t('State')]}>
          {rows.map(({ kind, id, title, account, at, state, href }) => (
            <tr key={`${kind} ${id}`} className="relative hover:bg-paper">
              <td>{t(kinds[kind])}</td>
              <td className="max-w-80">
                <Link href={href.replace(/^\/console/, '')} className={wholeRow}>
                  {title === '' ? id : title}
                </Link>
                {title !== '' && <div className="truncate font-mono text-[12px] text-muted">{id}</div>}
              </td>
              <td className="max-w-56 truncate">{account === null ? '–' : account.email || account.id}</td>
              <td className="whitespace-nowrap">{moment(at)}</td>
              <td>
                <Badge tone="plain">{state}</Badge>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
