// A bar for each lot from today to its expiry, with a height by its credit; held credit is hatched.

import type { Lot } from '../../api/wire.ts'
import { day, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { poolBars, poolNames } from './pools.ts'

const dayMs = 86_400_000
const rowHeight = 26
/** Of the drawing, in its own units. */
const width = 1000

export function Timeline({ lots }: { lots: readonly Lot[] }) {
  const now = Date.now()
  const living = lots.filter(({ remaining }) => Number(remaining) > 0)
  const ends = living.flatMap(({ expires_at: at }) => (at === null ? [] : [Date.parse(at)]))
  const until = Math.max(now + 30 * dayMs, ...ends)
  const largest = Math.max(...living.map(({ remaining }) => Number(remaining)))
  const x = (at: number) => Math.max(2, ((at - now) / (until - now)) * width)
  const first = living
    .filter(({ expires_at: at, pool }) => at !== null && pool !== 'daily')
    .toSorted(byExpiry)[0]
  const months = monthsBetween(now, until)
  return (
    <figure className="card p-4">
      <figcaption className="mb-3 text-[13px] text-muted">
        {first
          ? t('Next to expire: {amount} of {pool} on {day}.', {
              amount: usd(first.remaining),
              pool: t(poolNames[first.pool]).toLowerCase(),
              day: day(first.expires_at!),
            })
          : t('None of it expires, apart from daily credit.')}
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${living.length * rowHeight + 18}`}
        preserveAspectRatio="none"
        className="block h-auto w-full"
        height={living.length * rowHeight + 18}
        role="img"
        aria-label={t('Lots from today to their expiry')}
      >
        <defs>
          <pattern id="held" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="2.5" height="6" className="fill-panel" />
          </pattern>
        </defs>
        {months.map((at) => (
          <line
            key={at}
            x1={x(at)}
            x2={x(at)}
            y1="0"
            y2={living.length * rowHeight}
            className="stroke-line"
          />
        ))}
        {living.map((lot, row) => {
          const height = Math.max(4, (Number(lot.remaining) / largest) * (rowHeight - 6))
          const end = lot.expires_at === null ? width : x(Date.parse(lot.expires_at))
          const y = (row + 1) * rowHeight - height - 3
          const held = Number(lot.held) / Number(lot.remaining)
          return (
            <g key={lot.id}>
              <title>
                {t('{pool}: {amount}', { pool: t(poolNames[lot.pool]), amount: usd(lot.remaining) })}
              </title>
              <rect x="0" y={y} width={end} height={height} rx="2" className={poolBars[lot.pool]} />
              {held > 0 && (
                <rect x="0" y={y} width={end * Math.min(1, held)} height={height} fill="url(#held)" />
              )}
            </g>
          )
        })}
      </svg>
      <div className="flex justify-between text-[12px] text-muted">
        <span>{t('today')}</span>
        <span>{day(new Date(until).toISOString())}</span>
      </div>
    </figure>
  )
}

function byExpiry(a: Lot, b: Lot): number {
  return Date.parse(a.expires_at!) - Date.parse(b.expires_at!)
}

function monthsBetween(from: number, until: number): readonly number[] {
  const start = new Date(from)
  const months: number[] = []
  for (let month = 1; month <= 120; month += 1) {
    const at = Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + month, 1)
    if (at >= until) break
    months.push(at)
  }
  return months
}
