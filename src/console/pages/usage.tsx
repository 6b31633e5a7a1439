// What was used: bars by day, by model, key or channel, and the same figures as a table and as CSV.

import { useQuery } from '@tanstack/react-query'
import { useSearchParams } from 'wouter'
import type { UsageView } from '../../http/console/answers.ts'
import { addressOf } from '../api/address.ts'
import { call } from '../api/call.ts'
import { compact, count, countOf, day, decimal, sumOf, t, usd, usdShort } from '../strings/text.ts'
import { Empty, PageHead, Section } from '../ui/kit.tsx'
import { numeric, QueryState, Table } from '../ui/table.tsx'

type Grouping = 'day' | 'model' | 'key' | 'channel'
type UsageOf = UsageView & { readonly by: Grouping }

const groups: readonly (readonly [Grouping, string])[] = [
  ['model', 'by model'],
  ['key', 'by key'],
  ['channel', 'by channel'],
  ['day', 'by day'],
]

const spans = [7, 30, 90] as const
const dayMs = 86_400_000

/** Days of UTC, as the allowance and the limits count them. */
function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

export function Usage() {
  const [query, setQuery] = useSearchParams()
  const by = groups.find(([name]) => name === query.get('by'))?.[0] ?? 'model'
  const span = spans.find((days) => String(days) === query.get('days')) ?? 30
  const to = dayOf(Date.now())
  const from = dayOf(Date.now() - (span - 1) * dayMs)
  const asked = `from=${from}&to=${to}&by=${by}`
  const shown = `${asked}&limit=${mostRows}`
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['usage', shown],
    queryFn: () => call<UsageOf>('GET', `usage?${shown}`),
  })
  const set = (name: string, value: string) =>
    setQuery((before) => new URLSearchParams([...[...before].filter(([key]) => key !== name), [name, value]]))
  return (
    <>
      <PageHead title={t('Usage')} about={t('Days are in UTC.')}>
        <select
          aria-label={t('Grouped')}
          value={by}
          onChange={(event) => set('by', event.target.value)}
          className="control w-auto!"
        >
          {groups.map(([name, text]) => (
            <option key={name} value={name}>
              {t(text)}
            </option>
          ))}
        </select>
        <select
          aria-label={t('Span')}
          value={span}
          onChange={(event) => set('days', event.target.value)}
          className="control w-auto!"
        >
          {spans.map((days) => (
            <option key={days} value={days}>
              {t('{count} days', { count: days })}
            </option>
          ))}
        </select>
        <a
          href={addressOf(`/console/api/usage.csv?${asked}`)}
          download
          className="inline-flex h-9 items-center rounded-md border border-line-strong px-3.5 font-medium hover:bg-paper"
        >
          CSV
        </a>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} rows={6} />
      {data && <Shown usage={data} days={daysBetween(from, span)} />}
    </>
  )
}

function daysBetween(from: string, span: number): readonly string[] {
  return Array.from({ length: span }, (_, index) => dayOf(Date.parse(from) + index * dayMs))
}

interface Group {
  readonly id: string
  readonly label: string
  readonly calls: number
  readonly errors: number
  readonly input: number
  readonly output: number
  readonly cost: string
}

/** What has no name of its own: calls without a key are the chat's, and unknown models are refused. */
const unnamed = { model: 'no known model', key: 'chat', channel: 'chat' } as const

/** The rest of the groups share a bar. */
const mostGroups = 5
/** Rows of the table; the others are added up in one. */
const mostRows = 50

function groupsOf({ data, by }: UsageOf): readonly Group[] {
  const rows = Map.groupBy(data, (row) => (by === 'day' ? row.day : row.group))
  const all = [...rows].map(([id, of]): Group => {
    const total = (pick: (row: (typeof of)[number]) => number) => of.reduce((sum, row) => sum + pick(row), 0)
    return {
      id,
      label: by === 'day' ? day(id) : (of[0]!.label ?? (id === '' ? t(unnamed[by]) : id)),
      calls: total((row) => row.calls),
      errors: total((row) => row.errors),
      input: total((row) => row.input_tokens),
      output: total((row) => row.output_tokens),
      cost: decimal(sumOf(of.map((row) => row.cost))),
    }
  })
  return by === 'day'
    ? all.toSorted((a, b) => (a.id < b.id ? 1 : -1))
    : all.toSorted((a, b) => Number(b.cost) - Number(a.cost) || b.calls - a.calls)
}

function Shown({ usage, days }: { usage: UsageOf; days: readonly string[] }) {
  const groups = groupsOf(usage)
  if (groups.length === 0) return <Empty title={t('Nothing was used in these days.')} />
  const stacked = usage.by === 'day' ? [] : groups.slice(0, mostGroups)
  const classOf = (id: string) => {
    const index = stacked.findIndex((group) => group.id === id)
    return usage.by === 'day' ? barClasses[0]! : (barClasses[index] ?? barClasses.at(-1)!)
  }
  const bars = days.map((at): Bar => {
    const rows = [
      ...usage.data.filter((row) => row.day === at),
      ...(usage.rest?.data.filter((row) => row.day === at) ?? []).map((row) => ({ ...row, group: null })),
    ]
    const values = new Map<string, number>()
    for (const { group, cost } of rows) {
      const name = group === null ? barClasses.at(-1)! : classOf(group)
      values.set(name, (values.get(name) ?? 0) + Number(cost))
    }
    return {
      day: at,
      title: t('{day}: {amount}, {calls}', {
        day: day(at),
        amount: usd(decimal(sumOf(rows.map((row) => row.cost)))),
        calls: countOf(
          rows.reduce((sum, row) => sum + row.calls, 0),
          '{count} call',
          '{count} calls',
        ),
      }),
      parts: [...values].map(([className, value]) => ({ value, className })),
    }
  })
  const { totals } = usage
  return (
    <>
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
        {(
          [
            [t('Cost'), usdShort(totals.cost), usd(totals.cost)],
            [t('Calls'), count(totals.calls), t('{count} failed', { count: count(totals.errors) })],
            [t('Tokens in'), compact(totals.input_tokens), count(totals.input_tokens)],
            [t('Tokens out'), compact(totals.output_tokens), count(totals.output_tokens)],
          ] as const
        ).map(([name, value, whole]) => (
          <div key={name} className="card p-3">
            <dt className="text-[12.5px] text-muted">{name}</dt>
            <dd className="text-xl font-semibold tabular-nums">
              {value}
              <span className="block text-[12px] font-normal text-muted">{whole}</span>
            </dd>
          </div>
        ))}
      </dl>
      <div className="card mt-4 p-4">
        <Bars bars={bars} label={t('Cost of each day')} />
        {stacked.length > 0 && (
          <ul className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-[12.5px]">
            {stacked.map(({ id, label }) => (
              <li key={id} className="flex min-w-0 items-center gap-1.5">
                <span className={`size-2.5 shrink-0 rounded-sm ${classOf(id)}`} aria-hidden="true" />
                <span className="truncate">{label}</span>
              </li>
            ))}
            {(groups.length > mostGroups || usage.rest !== null) && (
              <li className="flex items-center gap-1.5">
                <span className={`size-2.5 rounded-sm ${barClasses.at(-1)}`} aria-hidden="true" />{' '}
                {t('the rest')}
              </li>
            )}
          </ul>
        )}
      </div>
      <Section title={t(groupNames[usage.by])}>
        <Table
          label={t(groupNames[usage.by])}
          columns={[
            t(groupNames[usage.by]),
            numeric(t('Calls')),
            numeric(t('Failed')),
            numeric(t('Tokens in')),
            numeric(t('Tokens out')),
            numeric(t('Cost')),
          ]}
        >
          {groups.map((group) => (
            <tr key={group.id}>
              <td className="max-w-80 truncate" title={group.id}>
                {group.label}
              </td>
              <td className="num">{count(group.calls)}</td>
              <td className="num">{group.errors === 0 ? '–' : count(group.errors)}</td>
              <td className="num">{count(group.input)}</td>
              <td className="num">{count(group.output)}</td>
              <td className="num">{usd(group.cost)}</td>
            </tr>
          ))}
          {usage.rest && <Rest rest={usage.rest} />}
        </Table>
      </Section>
    </>
  )
}

function Rest({ rest: { groups, data } }: { rest: NonNullable<UsageOf['rest']> }) {
  const total = (pick: (row: (typeof data)[number]) => number) =>
    data.reduce((sum, row) => sum + pick(row), 0)
  return (
    <tr className="text-muted">
      <td>{countOf(groups, '{count} more, which the CSV has', '{count} more, which the CSV has')}</td>
      <td className="num">{count(total((row) => row.calls))}</td>
      <td className="num">{count(total((row) => row.errors))}</td>
      <td className="num">{count(total((row) => row.input_tokens))}</td>
      <td className="num">{count(total((row) => row.output_tokens))}</td>
      <td className="num">{usd(decimal(sumOf(data.map((row) => row.cost))))}</td>
    </tr>
  )
}

const groupNames: Readonly<Record<Grouping, string>> = {
  day: 'Day',
  model: 'Model',
  key: 'Key',
  channel: 'Channel',
}

// Stacked bars, one for each day, drawn by hand: no library draws them smaller.

interface Bar {
  readonly day: string
  readonly title: string
  readonly parts: readonly { readonly value: number; readonly className: string }[]
}

const barClasses = ['bar-1', 'bar-2', 'bar-3', 'bar-4', 'bar-5', 'bar-6'] as const

const width = 1000
const height = 190

function Bars({ bars, label }: { bars: readonly Bar[]; label: string }) {
  const sums = bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0))
  const highest = niceAbove(Math.max(...sums))
  const step = width / bars.length
  return (
    <div>
      <p className="mb-1 text-[12px] text-muted tabular-nums">{usdShort(String(highest))}</p>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
        className="block h-48 w-full"
      >
        {[0, 0.5, 1].map((part) => (
          <line
            key={part}
            x1="0"
            x2={width}
            y1={height * part}
            y2={height * part}
            className="stroke-line"
            vectorEffect="non-scaling-stroke"
          />
        ))}
        {bars.map(({ day, title, parts }, index) => {
          let top = height
          return (
            <g key={day}>
              <title>{title}</title>
              <rect x={index * step} y="0" width={step} height={height} className="fill-transparent" />
              {parts.map(({ value, className }, part) => {
                const tall = (value / highest) * height
                top -= tall
                return (
                  <rect
                    key={part}
                    x={index * step + step * 0.14}
                    y={top}
                    width={step * 0.72}
                    height={tall}
                    className={className}
                  />
                )
              })}
            </g>
          )
        })}
      </svg>
      <div className="mt-1 flex justify-between text-[12px] text-muted">
        <span>{day(bars[0]!.day)}</span>
        <span>{day(bars.at(-1)!.day)}</span>
      </div>
    </div>
  )
}

/** The next of 1, 2 and 5 times a power of ten. */
function niceAbove(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return Number(([1, 2, 5, 10].find((step) => step * power >= value)! * power).toPrecision(1))
}
