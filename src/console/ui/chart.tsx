// Charts by day, drawn by hand: no library draws them smaller. The days are read by pointer, by arrow keys, and as a table.

import { type KeyboardEvent, useId, useState } from 'react'
import { day, t } from '../strings/text.ts'

export interface Series {
  readonly id: string
  readonly label: string
  /** Of its colour: `bar-1` to `bar-6`. */
  readonly className: string
  /** One for each day; null where nothing is known. */
  readonly values: readonly (number | null)[]
}

interface ChartProps {
  readonly label: string
  readonly kind: 'bars' | 'line'
  /** UTC days, such as 2027-01-31, or months. */
  readonly days: readonly string[]
  readonly series: readonly Series[]
  /** What a day came to, in words. */
  readonly totalOf: (index: number) => string
  readonly textOf: (value: number) => string
  readonly low?: boolean
}

const width = 1000

/** Stacked bars, or one line for each series. */
export function Chart({ label, kind, days, series, totalOf, textOf, low = false }: ChartProps) {
  const [at, setAt] = useState<number | null>(null)
  const about = useId()
  const height = low ? 90 : 190
  const sums = days.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0))
  const most = kind === 'bars' ? sums : series.flatMap(({ values }) => values.map((value) => value ?? 0))
  const highest = niceAbove(Math.max(0, ...most))
  const step = width / Math.max(1, days.length)
  const onKey = (event: KeyboardEvent) => {
    const last = days.length - 1
    const to = { ArrowLeft: (at ?? days.length) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[
      event.key
    ]
    if (to === undefined) return
    event.preventDefault()
    setAt(Math.min(last, Math.max(0, to)))
  }
  return (
    <div>
      <p id={about} aria-live="polite" className="mb-1 min-h-[1.3em] text-[12.5px] tabular-nums">
        {at === null ? (
          <span className="text-muted">{textOf(highest)}</span>
        ) : (
          <>
            <span className="font-medium">{dayName(days[at]!)}</span> {totalOf(at)}
            {series.length > 1 && (
              <span className="text-muted">
                {series
                  .filter(({ values }) => (values[at] ?? 0) !== 0)
                  .map((one) => ` · ${one.label} ${textOf(one.values[at]!)}`)
                  .join('')}
              </span>
            )}
          </>
        )}
      </p>
      <div
        role="slider"
        aria-label={label}
        aria-valuemin={1}
        aria-valuemax={Math.max(1, days.length)}
        aria-valuenow={(at ?? days.length - 1) + 1}
        aria-valuetext={days.length === 0 ? label : valueText(at ?? days.length - 1)}
        tabIndex={0}
        onKeyDown={onKey}
        onBlur={() => setAt(null)}
        onPointerMove={({ currentTarget, clientX }) => {
          const { left, width: wide } = currentTarget.getBoundingClientRect()
          setAt(Math.min(days.length - 1, Math.max(0, Math.floor(((clientX - left) / wide) * days.length))))
        }}
        onPointerLeave={() => setAt(null)}
      >
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          className={`block w-full ${low ? 'h-24' : 'h-48'}`}
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
          {at !== null && (
            <rect x={at * step} y="0" width={step} height={height} className="fill-accent-soft" />
          )}
          {kind === 'bars'
            ? days.map((name, index) => (
                <Bar key={name} index={index} step={step} height={height} highest={highest} series={series} />
              ))
            : series.map(({ id, className, values }) => (
                <path
                  key={id}
                  d={lineOf(values, step, height, highest)}
                  className={className.replace('bar', 'line')}
                  strokeWidth="2"
                  vectorEffect="non-scaling-stroke"
                />
              ))}
        </svg>
      </div>
      <div className="mt-1 flex justify-between text-[12px] text-muted">
        <span>{dayName(days[0] ?? '')}</span>
        <span>{dayName(days.at(-1) ?? '')}</span>
      </div>
    </div>
  )

  function valueText(index: number): string {
    return `${dayName(days[index]!)}: ${totalOf(index)}`
  }
}

function dayName(name: string): string {
  return name.length === 'yyyy-mm-dd'.length ? day(name) : name
}

interface BarProps {
  readonly index: number
  readonly step: number
  readonly height: number
  readonly highest: number
  readonly series: readonly Series[]
}

function Bar({ index, step, height, highest, series }: BarProps) {
  const tallOf = ({ values }: Series) => ((values[index] ?? 0) / highest) * height
  return (
    <g>
      {series.map((one, place) => {
        const { id, className } = one
        const tall = tallOf(one)
        const below = series.slice(0, place).reduce((sum, other) => sum + tallOf(other), 0)
        return (
          <rect
            key={id}
            x={index * step + step * 0.14}
            y={height - below - tall}
            width={step * 0.72}
            height={tall}
            className={className}
          />
        )
      })}
    </g>
  )
}

/** Days of which nothing is known interrupt the line; one between two of these is a dash. */
function lineOf(values: readonly (number | null)[], step: number, height: number, highest: number): string {
  let path = ''
  let isDrawing = false
  values.forEach((value, index) => {
    if (value === null) {
      isDrawing = false
      return
    }
    const y = height - (value / highest) * height
    const x = (index + 0.5) * step
    const isAlone = !isDrawing && (values[index + 1] ?? null) === null
    if (isAlone) path += `M${x - step * 0.3} ${y}L${x + step * 0.3} ${y}`
    else path += `${isDrawing ? 'L' : 'M'}${x} ${y}`
    isDrawing = true
  })
  return path
}

/** The next of 1, 2 and 5 times a power of ten. */
function niceAbove(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return Number(([1, 2, 5, 10].find((step) => step * power >= value)! * power).toPrecision(1))
}

/** What the colours of a chart stand for. */
export function Legend({ series }: { series: readonly Series[] }) {
  return (
    <ul className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-[12.5px]">
      {series.map(({ id, label, className }) => (
        <li key={id} className="flex min-w-0 items-center gap-1.5">
          <span className={`size-2.5 shrink-0 rounded-sm ${className}`} aria-hidden="true" />
          <span className="truncate">{label}</span>
        </li>
      ))}
    </ul>
  )
}

interface AsTableProps {
  readonly label: string
  readonly days: readonly string[]
  readonly textOf: (index: number) => string
}

/** The same figures for whoever reads them rather than sees them. */
export function AsTable({ label, days, textOf }: AsTableProps) {
  return (
    <details className="mt-3 text-[12.5px]">
      <summary className="w-fit text-accent">{t('The days as a table')}</summary>
      <div className="mt-2 max-h-72 overflow-auto" role="group" aria-label={label} tabIndex={0}>
        {/* On a phone the figures of a day, which may be many, stand below it. */}
        <table className="[&_td]:pr-6 [&_th]:pr-6 [&_th]:text-left [&_th]:font-normal max-sm:w-full max-sm:[&_td]:block max-sm:[&_td]:pr-0 max-sm:[&_td]:pb-1.5 max-sm:[&_td]:text-left max-sm:[&_td]:break-words max-sm:[&_td]:whitespace-normal max-sm:[&_th]:block max-sm:[&_th]:text-muted">
          <tbody>
            {days.map((name, index) => (
              <tr key={name}>
                <th scope="row">{dayName(name)}</th>
                <td className="num">{textOf(index)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}
