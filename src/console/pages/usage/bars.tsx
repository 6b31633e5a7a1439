// Stacked bars, one for each day, drawn by hand: no library draws them smaller.

import { day as dayText, usdShort } from '../../strings/format.ts'

export interface Bar {
  readonly day: string
  readonly title: string
  readonly parts: readonly { readonly value: number; readonly className: string }[]
}

export const barClasses = ['bar-1', 'bar-2', 'bar-3', 'bar-4', 'bar-5', 'bar-6'] as const

const width = 1000
const height = 190

export function Bars({ bars, label }: { bars: readonly Bar[]; label: string }) {
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
        <span>{dayText(bars[0]!.day)}</span>
        <span>{dayText(bars.at(-1)!.day)}</span>
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
