// The filters of a list, which stand in the address: a view is sent to somebody by its address.

import type { FormEvent } from 'react'
import { useSearchParams } from 'wouter'
import { t } from '../strings/text.ts'
import { Button, textOf } from './kit.tsx'

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
              {options.map(([value, option]) => (
                <option key={value} value={value}>
                  {option}
                </option>
              ))}
            </select>
          )}
        </label>
      ))}
      <Button type="submit">{t('Filter')}</Button>
    </form>
  )
}
