// Tables: a label, the names of the columns, and rows.

import type { UseInfiniteQueryResult, UseQueryResult } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, type RefObject, useEffect, useState } from 'react'
import { useSearchParams } from 'wouter'
import { t } from '../strings/text.ts'
import { Button, Failure, Loading, Options, PageHead, textOf } from './kit.tsx'

/** The name of a column, which also identifies it within its table. */
type Column =
  string | { readonly name: string; readonly className: string; readonly sorting?: Sorting | undefined }

/** How a list is sorted by a column: of the one that it is sorted by now, in which order. */
interface Sorting {
  readonly order: 'asc' | 'desc' | undefined
  onSort(): void
}

/** A column of numbers, aligned at their ends. */
export function numeric(name: string): Column {
  return { name, className: 'num' }
}

export function rightAligned(name: string): Column {
  return { name, className: 'text-right' }
}

/** A column whose name is only read by screen readers. */
export function screenReaderOnly(name: string): Column {
  return { name, className: 'sr-only' }
}

/** Of a link that the whole of its row leads to; the row is `relative`. */
export const wholeRow = 'text-accent underline after:absolute after:inset-0'

/** A column that is left out on a phone, where the first tells the rest in a second line. */
export const notOnPhones = 'max-sm:hidden'
/** Of the first cell on a phone: it takes what the others leave. */
export const firstOnPhones = 'max-sm:w-full max-sm:max-w-0'

export function wideOnly(column: Column): Column {
  if (typeof column === 'string') return { name: column, className: notOnPhones }
  return { ...column, className: `${column.className} ${notOnPhones}` }
}

/** A column that the list can be sorted by. */
export function sortable(column: Column, sorting: Sorting): Column {
  if (typeof column === 'string') return { name: column, className: '', sorting }
  return { ...column, sorting }
}

interface TableProps {
  readonly label: string
  readonly columns: readonly Column[]
  readonly children: ReactNode
}

/** A table that scrolls sideways on a narrow screen. */
export function Table({ label, columns, children }: TableProps) {
  return (
    <div className="card relative overflow-x-auto" role="group" aria-label={label} tabIndex={0}>
      <table className="w-full border-collapse text-left [&_td]:px-3 [&_td]:py-2 [&_th]:px-3 [&_th]:py-2 [&_tbody_tr]:border-t [&_tbody_tr]:border-line">
        <thead className="text-[12px] text-muted [&_th]:font-medium [&_th]:whitespace-nowrap">
          <tr>
            {columns.map((column) => (
              <Head key={typeof column === 'string' ? column : column.name} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

function Head({ column }: { column: Column }) {
  if (typeof column === 'string') return <th scope="col">{column}</th>
  const { name, className, sorting } = column
  if (sorting !== undefined) return <SortHead name={name} className={className} sorting={sorting} />
  if (className === 'sr-only')
    return (
      <th scope="col">
        <span className="sr-only">{name}</span>
      </th>
    )
  return (
    <th scope="col" className={className}>
      {name}
    </th>
  )
}

const orders = { asc: 'ascending', desc: 'descending' } as const

function SortHead({ name, className, sorting }: { name: string; className: string; sorting: Sorting }) {
  const { order, onSort } = sorting
  return (
    <th scope="col" className={className} aria-sort={order === undefined ? undefined : orders[order]}>
      <button type="button" onClick={onSort} className="font-medium hover:text-ink hover:underline">
        {name}
        {order !== undefined && <span aria-hidden="true">{order === 'asc' ? ' ↑' : ' ↓'}</span>}
      </button>
    </th>
  )
}

// The button below a list that is read page by page.

interface OlderProps {
  readonly list: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>
  readonly action?: string
}

/** Shown only if there is another page. */
export function Older({ list, action = t('Older') }: OlderProps) {
  if (!list.hasNextPage) return null
  return (
    <p className="mt-3">
      <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
        {action}
      </Button>
    </p>
  )
}

interface QueryStateProps {
  readonly query: Pick<UseQueryResult, 'error' | 'isPending' | 'refetch'>
  readonly rows?: number
  /** The head of a page that has another one with its data. */
  readonly title?: string
}

/** What a page shows of a query beside its data: that it is loading, or why it failed. */
export function QueryState({ query, rows, title }: QueryStateProps) {
  const { error, isPending, refetch } = query
  return (
    <>
      {error && title !== undefined && <PageHead title={title} />}
      {error && <Failure error={error} retry={() => void refetch()} />}
      {isPending && <Loading rows={rows} />}
    </>
  )
}

/** Rows rendered above and below the visible ones, so that quick scrolling shows no gaps. */
const spare = 12

/** Which rows of a long list with equal heights to render: `from` up to `to`. */
export function useWindow(box: RefObject<HTMLElement | null>, rows: number, rowHeight: number) {
  const [first, setFirst] = useState(0)
  const [visible, setVisible] = useState(30)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setVisible(Math.ceil(entry!.contentRect.height / rowHeight)),
    )
    observer.observe(box.current!)
    return () => observer.disconnect()
  }, [box, rowHeight])
  // In steps, so that scrolling by a few pixels changes nothing in the page.
  const step = Math.floor(spare / 2)
  const onScroll = () => {
    const at = Math.floor(box.current!.scrollTop / rowHeight)
    setFirst(Math.floor(at / step) * step)
  }
  return { from: Math.max(0, first - spare), to: Math.min(rows, first + visible + spare + step), onScroll }
}

// The filters of a list, which stand in the address: a view is sent to somebody by its address.

/** Those of the names that the address has. */
export function useFilters(names: readonly string[]): URLSearchParams {
  const [query] = useSearchParams()
  return new URLSearchParams(names.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])))
}

export interface FilterField {
  readonly name: string
  readonly label: string
  readonly placeholder?: string
  readonly type?: 'date'
  /** To choose from; with an empty value for all. */
  readonly options?: readonly (readonly [value: string, text: string])[]
}

/** A choice or a day is applied at once, a text with the button. */
export function Filters({ label, fields }: { label: string; fields: readonly FilterField[] }) {
  const [, setQuery] = useSearchParams()
  const chosen = useFilters(fields.map(({ name }) => name))
  const filter = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    setQuery(
      fields.flatMap(({ name }) => {
        const typed = textOf(form, name)
        return typed === undefined ? [] : [[name, typed]]
      }),
    )
  }
  return (
    <form
      key={chosen.toString()}
      onSubmit={filter}
      onChange={({ target, currentTarget }) => {
        if (target instanceof HTMLSelectElement) currentTarget.requestSubmit()
      }}
      className="mb-4 grid grid-cols-2 items-end gap-2 sm:grid-cols-3 lg:grid-cols-6"
      role="search"
      aria-label={label}
    >
      {fields.map(({ name, label: text, placeholder, type, options }) => (
        <label key={name} className="grid min-w-0 gap-1 text-[12px] text-muted">
          {text}
          {options === undefined ? (
            <input
              name={name}
              type={type ?? 'text'}
              placeholder={placeholder}
              maxLength={200}
              autoComplete="off"
              defaultValue={chosen.get(name) ?? ''}
              className="control text-ink"
            />
          ) : (
            <select name={name} defaultValue={chosen.get(name) ?? ''} className="control text-ink">
              <Options of={options} />
            </select>
          )}
        </label>
      ))}
      <Button type="submit">{t('Filter')}</Button>
    </form>
  )
}
