// What was used, one's own and everybody's: a chart by day, the groups as a table with the time before beside them, and
// the same as CSV. The view stands in the address.

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import type { UsageView } from '../../http/console/answers.ts'
import { call } from '../api/call.ts'
import {
  compact,
  count,
  countOf,
  day,
  decimal,
  milliseconds,
  sumOf,
  t,
  usd,
  usdShort,
} from '../strings/text.ts'
import { AsTable, Chart, Legend, type Series } from '../ui/chart.tsx'
import { Button, Download, Empty, PageHead, RowButton, Section, textOf } from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, QueryState, Table, wholeRow, wideOnly } from '../ui/table.tsx'

/** What usage is divided by: one of these, or `tag:` and the name of a tag. */
const groups: readonly (readonly [string, string])[] = [
  ['account', 'by person'],
  ['provider', 'by provider'],
  ['model', 'by model'],
  ['key', 'by key'],
  ['channel', 'by channel'],
  ['user', 'by end user'],
  ['group', 'by group'],
  ['tag', 'by tag'],
  ['day', 'by day'],
]
/** Those that only everybody’s usage is divided by. */
const ofEverybody = new Set(['account', 'provider'])

const spans = ['7', '30', '90'] as const
const dayMs = 86_400_000

/** Days of UTC, as the allowance and the limits count them. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

interface Span {
  readonly from: string
  readonly to: string
}

/** `7`, `30` or `90` days up to today, `month` for this month, `last` for the one before, or two days with `..` between. */
function spanOf(chosen: string, now = Date.now()): Span {
  const today = dayOf(now)
  const first = `${today.slice(0, 7)}-01`
  const [from, to] = chosen.split('..')
  const isDay = (text: string | undefined) => text !== undefined && /^\d{4}-\d\d-\d\d$/.test(text)
  if (isDay(from) && isDay(to)) return from! <= to! ? { from: from!, to: to! } : { from: to!, to: from! }
  if (chosen === 'month') return { from: first, to: today }
  if (chosen === 'last') {
    const end = dayOf(Date.parse(first) - dayMs)
    return { from: `${end.slice(0, 7)}-01`, to: end }
  }
  const days = spans.find((known) => known === chosen) ?? '30'
  return { from: dayOf(now - (Number(days) - 1) * dayMs), to: today }
}

function daysBetween({ from, to }: Span): readonly string[] {
  const days: string[] = []
  for (let at = Date.parse(from); at <= Date.parse(to); at += dayMs) days.push(dayOf(at))
  return days
}

const measures = [
  ['cost', 'Cost'],
  ['calls', 'Calls'],
  ['tokens', 'Tokens'],
  ['errors', 'Failed'],
  ['time', 'Time of a call'],
] as const
type Measure = (typeof measures)[number][0]

/** Conditions of everybody's usage, which a row of the table may add. */
const conditions = ['account', 'key', 'model', 'provider', 'tag'] as const
const conditionNames: Readonly<Record<(typeof conditions)[number], string>> = {
  account: 'Account',
  key: 'Key',
  model: 'Model',
  provider: 'Provider',
  tag: 'Tag',
}

export function Usage() {
  return <UsageOf whose="own" />
}

/** Of all accounts, for operators. */
export function UsageOfEverybody() {
  return <UsageOf whose="everybody" />
}

function UsageOf({ whose }: { whose: 'own' | 'everybody' }) {
  const [query, setQuery] = useSearchParams()
  const isOwn = whose === 'own'
  const all = isOwn ? groups.filter(([name]) => !ofEverybody.has(name)) : groups
  const chosen = query.get('by') ?? ''
  const tagName = chosen.startsWith('tag:') ? chosen.slice('tag:'.length) : ''
  const by = all.some(([name]) => name === chosen && name !== 'tag') || tagName !== '' ? chosen : 'model'
  const chosenSpan = query.get('days') ?? '30'
  const span = spanOf(chosenSpan)
  const measure = measures.find(([name]) => name === query.get('show'))?.[0] ?? 'cost'
  const [isNamingTag, setNamingTag] = useState(false)
  const asked = new URLSearchParams({ from: span.from, to: span.to, by })
  for (const name of conditions) if (query.get(name)) asked.set(name, query.get(name)!)
  const shown = `${asked}&limit=${mostRows}&compare=before`
  const path = isOwn ? 'usage' : 'admin/usage'
  const { data, error, isPending, refetch } = useQuery({
    queryKey: [path, shown],
    queryFn: ({ signal }) => call<UsageView>('GET', `${path}?${shown}`, undefined, { signal }),
    placeholderData: keepPreviousData,
  })
  const set = (changes: Readonly<Record<string, string>>) =>
    setQuery((before) => {
      const next = new URLSearchParams(before)
      for (const [name, value] of Object.entries(changes)) {
        if (value === '') next.delete(name)
        else next.set(name, value)
      }
      return next
    })
  const nameTag = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const name = textOf(new FormData(event.currentTarget), 'tag')
    setNamingTag(false)
    if (name !== undefined) set({ by: `tag:${name}` })
  }
  return (
    <>
      <PageHead title={isOwn ? t('Usage') : t('Usage of all')} about={t('Days are in UTC.')}>
        <select
          aria-label={t('Grouped')}
          value={isNamingTag || tagName !== '' ? 'tag' : by}
          onChange={({ target }) => {
            setNamingTag(target.value === 'tag')
            if (target.value !== 'tag') set({ by: target.value })
          }}
          className="control w-auto!"
        >
          {all.map(([name, text]) => (
            <option key={name} value={name}>
              {t(text)}
            </option>
          ))}
        </select>
        {(isNamingTag || tagName !== '') && (
          <form onSubmit={nameTag} key={tagName}>
            <input
              name="tag"
              aria-label={t('Name of the tag')}
              placeholder="feature"
              defaultValue={tagName}
              maxLength={64}
              autoFocus={isNamingTag}
              className="control w-32!"
            />
          </form>
        )}
        <select
          aria-label={t('Span')}
          value={chosenSpan}
          onChange={({ target }) => set({ days: target.value })}
          className="control w-auto!"
        >
          {spans.map((days) => (
            <option key={days} value={days}>
              {t('{count} days', { count: days })}
            </option>
          ))}
          <option value="month">{t('this month')}</option>
          <option value="last">{t('last month')}</option>
          {chosenSpan.includes('..') && (
            <option value={chosenSpan}>
              {t('{from} to {to}', { from: day(span.from), to: day(span.to) })}
            </option>
          )}
        </select>
        <Download path={`${path}.csv?${asked}`} />
      </PageHead>
      <Conditions asked={asked} onDrop={(name) => set({ [name]: '' })} />
      <QueryState query={{ error, isPending, refetch }} rows={6} />
      {data && (
        <Shown
          usage={data}
          span={{ from: data.from, to: data.to }}
          measure={measure}
          onMeasure={(show) => set({ show })}
          addressOfGroup={(id) => (isOwn ? ownPlace(by, id, span) : placeOfAll(by, id, asked))}
        />
      )}
    </>
  )
}

/** The conditions in the address, each with a button that drops it. */
function Conditions({ asked, onDrop }: { asked: URLSearchParams; onDrop: (name: string) => void }) {
  const there = conditions.filter((name) => asked.has(name))
  if (there.length === 0) return null
  return (
    <ul className="mb-4 flex flex-wrap gap-2">
      {there.map((name) => (
        <li
          key={name}
          className="flex items-center gap-1 rounded-md bg-accent-soft py-0.5 pr-1 pl-2.5 text-[13px]"
        >
          {t(conditionNames[name])}: <span className="break-all">{asked.get(name)}</span>
          <RowButton label={t('Without this condition')} onClick={() => onDrop(name)}>
            ✕
          </RowButton>
        </li>
      ))}
    </ul>
  )
}

/** Where the calls of a group are. */
function ownPlace(by: string, id: string, { from, to }: Span): string | null {
  if (by === 'day') return `/requests?${new URLSearchParams({ from: id, to: id })}`
  if (id === '' || (by !== 'model' && by !== 'key')) return null
  return `/requests?${new URLSearchParams({ [by]: id, from, to })}`
}

function placeOfAll(by: string, id: string, asked: URLSearchParams): string | null {
  const calls = new URLSearchParams(asked)
  calls.delete('by')
  if (by === 'day') {
    calls.set('from', id)
    calls.set('to', id)
    return `/operator/requests?${calls}`
  }
  if (id === '') return null
  if (by === 'group') return `/operator/groups/${encodeURIComponent(id)}`
  if (by === 'account') {
    calls.set('account', id)
    calls.set('by', 'key')
    calls.set('days', `${asked.get('from')}..${asked.get('to')}`)
    calls.delete('from')
    calls.delete('to')
    return `/operator/usage?${calls}`
  }
  if (by === 'channel') return null
  if (by === 'user' || by.startsWith('tag:')) calls.set('tag', `${by === 'user' ? by : by.slice(4)}=${id}`)
  else calls.set(by, id)
  return `/operator/requests?${calls}`
}

interface Group {
  readonly id: string
  readonly label: string
  readonly calls: number
  readonly errors: number
  readonly input: number
  readonly output: number
  readonly cost: string
  /** Of the time before; undefined where nothing was called then. */
  readonly before: { readonly calls: number; readonly cost: string } | undefined
}

/** What has no name of its own: calls without a key are the chat's, and unknown models are refused. */
const unnamed: Readonly<Record<string, string>> = {
  model: 'no known model',
  key: 'chat',
  channel: 'chat',
  provider: 'no provider',
}

function labelOf(by: string, id: string, label: string | null): string {
  if (by === 'day') return day(id)
  return label ?? (id === '' ? t(unnamed[by] ?? 'none') : id)
}

/** The rest of the groups share a bar. */
const mostGroups = 5
/** Rows of the table; the others are added up in one. */
const mostRows = 50

function groupsOf({ data, by, before }: UsageView): readonly Group[] {
  const rows = Map.groupBy(data, (row) => (by === 'day' ? row.day : row.group))
  const earlier = new Map(before?.data.map((row) => [row.group, row]))
  const all = [...rows].map(([id, of]): Group => {
    const total = (pick: (row: (typeof of)[number]) => number) => of.reduce((sum, row) => sum + pick(row), 0)
    return {
      id,
      label: labelOf(by, id, of[0]!.label),
      calls: total((row) => row.calls),
      errors: total((row) => row.errors),
      input: total((row) => row.input_tokens),
      output: total((row) => row.output_tokens),
      cost: decimal(sumOf(of.map((row) => row.cost))),
      before: by === 'day' ? undefined : earlier.get(id),
    }
  })
  return by === 'day'
    ? all.toSorted((a, b) => (a.id < b.id ? 1 : -1))
    : all.toSorted((a, b) => Number(b.cost) - Number(a.cost) || b.calls - a.calls)
}

type Figures = Pick<
  UsageView['data'][number],
  'cost' | 'calls' | 'errors' | 'input_tokens' | 'output_tokens' | 'average_ms'
>

function valueOf(measure: Measure, row: Figures): number | null {
  switch (measure) {
    case 'cost':
      return Number(row.cost)
    case 'calls':
      return row.calls
    case 'tokens':
      return row.input_tokens + row.output_tokens
    case 'errors':
      return row.errors
    case 'time':
      return row.average_ms
    default:
      return measure satisfies never
  }
}

export function textOfMeasure(measure: Measure, value: number): string {
  if (measure === 'cost') return usdShort(String(value))
  return measure === 'time' ? milliseconds(value) : count(value)
}

interface ShownProps {
  readonly usage: UsageView
  readonly span: Span
  readonly measure: Measure
  readonly onMeasure: (measure: Measure) => void
  readonly addressOfGroup: (id: string) => string | null
}

function Shown({ usage, span, measure, onMeasure, addressOfGroup }: ShownProps) {
  const groups = groupsOf(usage)
  const { by, totals, before } = usage
  const name = t(groupNames[by] ?? 'Value of the tag')
  return (
    <>
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
        <Total name={t('Cost')} value={usdShort(totals.cost)}>
          <Change now={Number(totals.cost)} before={Number(before?.totals.cost ?? 0)} text={usdShort} />
        </Total>
        <Total name={t('Calls')} value={count(totals.calls)}>
          <Change
            now={totals.calls}
            before={before?.totals.calls ?? 0}
            text={(value) => count(Number(value))}
          />
        </Total>
        <Total name={t('Failed')} value={count(totals.errors)}>
          {totals.calls > 0 && t('{share} of the calls', { share: percent(totals.errors / totals.calls) })}
        </Total>
        <Total
          name={t('Tokens')}
          value={`${compact(totals.input_tokens)} → ${compact(totals.output_tokens)}`}
        >
          {count(totals.input_tokens)} → {count(totals.output_tokens)}
        </Total>
      </dl>
      {groups.length === 0 ? (
        <div className="mt-4">
          <Empty title={t('Nothing was used in these days.')} />
        </div>
      ) : (
        <>
          <UsageChart usage={usage} groups={groups} span={span} measure={measure} onMeasure={onMeasure} />
          <Section title={name}>
            <Table
              label={name}
              columns={[
                name,
                wideOnly(numeric(t('Calls'))),
                wideOnly(numeric(t('Failed'))),
                wideOnly(numeric(t('Tokens in'))),
                wideOnly(numeric(t('Tokens out'))),
                ...(by === 'day' ? [] : [wideOnly(numeric(t('Cost before')))]),
                numeric(t('Cost')),
              ]}
            >
              {groups.map((group) => (
                <GroupRow key={group.id} group={group} by={by} address={addressOfGroup(group.id)} />
              ))}
              {usage.rest && <Rest rest={usage.rest} by={by} />}
            </Table>
          </Section>
        </>
      )}
    </>
  )
}

function Total({ name, value, children }: { name: string; value: string; children?: ReactNode }) {
  return (
    <div className="card p-3">
      <dt className="text-[12.5px] text-muted">{name}</dt>
      <dd className="text-xl font-semibold tabular-nums">
        {value}
        <span className="block min-h-[1.45em] text-[12px] font-normal text-muted">{children}</span>
      </dd>
    </div>
  )
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`
}

interface ChangeProps {
  readonly now: number
  readonly before: number
  readonly text: (value: string) => string
}

/** Against the time before. */
export function Change({ now, before, text }: ChangeProps) {
  if (before === 0) return now === 0 ? null : t('nothing before')
  const share = (now - before) / before
  const sign = share > 0 ? '+' : share < 0 ? '−' : '±'
  return t('{change} against {before}', {
    change: `${sign}${Math.abs(share * 100).toFixed(0)} %`,
    before: text(String(before)),
  })
}

function GroupRow({ group, by, address }: { group: Group; by: string; address: string | null }) {
  return (
    <tr className={address === null ? '' : 'relative hover:bg-paper'}>
      <td className={`sm:max-w-80 ${firstOnPhones}`} title={group.id}>
        {address === null ? (
          <span className="block truncate">{group.label}</span>
        ) : (
          <Link href={address} className={`${wholeRow} block truncate`}>
            {group.label}
          </Link>
        )}
        <span className="block truncate text-[12.5px] text-muted sm:hidden">
          {countOf(group.calls, '{count} call', '{count} calls')}
          {group.errors > 0 && ` · ${t('{count} failed', { count: count(group.errors) })}`}
        </span>
      </td>
      <td className={`num ${notOnPhones}`}>{count(group.calls)}</td>
      <td className={`num ${notOnPhones}`}>{group.errors === 0 ? '–' : count(group.errors)}</td>
      <td className={`num ${notOnPhones}`}>{count(group.input)}</td>
      <td className={`num ${notOnPhones}`}>{count(group.output)}</td>
      {by !== 'day' && (
        <td className={`num text-muted ${notOnPhones}`}>
          {group.before === undefined ? '–' : usdShort(group.before.cost)}
        </td>
      )}
      <td className="num" title={usd(group.cost)}>
        {usdShort(group.cost)}
      </td>
    </tr>
  )
}

function Rest({ rest: { groups, data }, by }: { rest: NonNullable<UsageView['rest']>; by: string }) {
  const total = (pick: (row: (typeof data)[number]) => number) =>
    data.reduce((sum, row) => sum + pick(row), 0)
  return (
    <tr className="text-muted">
      <td>{countOf(groups, '{count} more, which the CSV has', '{count} more, which the CSV has')}</td>
      <td className={`num ${notOnPhones}`}>{count(total((row) => row.calls))}</td>
      <td className={`num ${notOnPhones}`}>{count(total((row) => row.errors))}</td>
      <td className={`num ${notOnPhones}`}>{count(total((row) => row.input_tokens))}</td>
      <td className={`num ${notOnPhones}`}>{count(total((row) => row.output_tokens))}</td>
      {by !== 'day' && <td className={`num ${notOnPhones}`}>–</td>}
      <td className="num">{usdShort(decimal(sumOf(data.map((row) => row.cost))))}</td>
    </tr>
  )
}

const groupNames: Readonly<Record<string, string>> = {
  day: 'Day',
  model: 'Model',
  key: 'Key',
  channel: 'Channel',
  user: 'End user',
  group: 'Group',
  account: 'Account',
  provider: 'Provider',
}

// The chart.

const barClasses = ['bar-1', 'bar-2', 'bar-3', 'bar-4', 'bar-5', 'bar-6'] as const

interface UsageChartProps extends Pick<ShownProps, 'usage' | 'span' | 'measure' | 'onMeasure'> {
  readonly groups: readonly Group[]
}

function UsageChart({ usage, groups, span, measure, onMeasure }: UsageChartProps) {
  const days = daysBetween(span)
  const series = seriesOf(usage, groups, days, measure)
  const label = t('{measure} of each day', { measure: t(measureNames[measure]) })
  const totals = days.map((at) => [
    ...usage.data.filter((row) => row.day === at),
    ...(usage.rest?.data.filter((row) => row.day === at) ?? []),
  ])
  const totalOf = (index: number) => {
    const rows = totals[index]!
    if (measure === 'cost') return usd(decimal(sumOf(rows.map((row) => row.cost))))
    if (measure === 'time') {
      const times = rows.flatMap((row) => (row.average_ms === null ? [] : [row]))
      // Only where it is divided by nothing else is this the time of all calls.
      return times.length === 1 ? milliseconds(times[0]!.average_ms!) : times.length === 0 ? '–' : ''
    }
    return count(rows.reduce((sum, row) => sum + (valueOf(measure, row) ?? 0), 0))
  }
  return (
    <div className="card mt-4 p-4">
      <div role="group" aria-label={t('Shown in the chart')} className="mb-3 flex flex-wrap gap-1">
        {measures.map(([name, text]) => (
          <Button
            key={name}
            small
            look="quiet"
            aria-pressed={measure === name}
            className="aria-pressed:bg-accent-soft"
            onClick={() => onMeasure(name)}
          >
            {t(text)}
          </Button>
        ))}
      </div>
      <Chart
        label={label}
        kind={measure === 'time' ? 'line' : 'bars'}
        days={days}
        series={series}
        totalOf={totalOf}
        textOf={(value) => textOfMeasure(measure, value)}
      />
      {series.length > 1 && <Legend series={series} />}
      <AsTable
        label={label}
        days={days}
        textOf={(index) =>
          series.length === 1
            ? totalOf(index)
            : [
                totalOf(index),
                ...series.flatMap(({ label: name, values }) => {
                  const value = values[index] ?? 0
                  return value === 0 ? [] : [`${name} ${textOfMeasure(measure, value)}`]
                }),
              ]
                .filter((part) => part !== '')
                .join(' · ')
        }
      />
    </div>
  )
}

const measureNames: Readonly<Record<Measure, string>> = Object.fromEntries(measures) as Record<
  Measure,
  string
>

/** One for each of the groups that cost most, and one for all others; of times there is no sum. */
function seriesOf(
  { data, rest, by }: UsageView,
  groups: readonly Group[],
  days: readonly string[],
  measure: Measure,
): readonly Series[] {
  const valuesOf = (rows: readonly (Figures & { readonly day: string })[]) =>
    days.map((at) => {
      const values = rows.filter((row) => row.day === at).map((row) => valueOf(measure, row))
      return values.length === 0 || values.includes(null)
        ? measure === 'time'
          ? null
          : 0
        : values.reduce<number>((sum, value) => sum + value!, 0)
    })
  if (by === 'day') return [{ id: '', label: '', className: barClasses[0], values: valuesOf(data) }]
  const named = groups.slice(0, mostGroups)
  const names = new Set(named.map(({ id }) => id))
  const series = named.map(({ id, label }, index): Series => ({
    id,
    label,
    className: barClasses[index]!,
    values: valuesOf(data.filter(({ group }) => group === id)),
  }))
  const others = [...data.filter(({ group }) => !names.has(group)), ...(rest?.data ?? [])]
  if (others.length === 0 || measure === 'time') return series
  return [
    ...series,
    { id: ':rest', label: t('the rest'), className: barClasses.at(-1)!, values: valuesOf(others) },
  ]
}
