// What stands around conversations, one or two of them: the end that stays in sight, and the credit.

import { useEffect, useRef } from 'react'
import { useCredits } from '../api/call.ts'
import { appOrder, poolBars, poolNames } from '../pages/words.tsx'
import { t, usd, usdShort } from '../strings/text.ts'

/** Keeps the end of the conversation visible while an answer grows, unless the user has scrolled up. */
export function useStuckToEnd(turns: readonly unknown[]) {
  const box = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  const count = useRef(0)
  useEffect(() => {
    if (turns.length !== count.current) stuck.current = true
    count.current = turns.length
    if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [turns])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!
    stuck.current = scrollHeight - scrollTop - clientHeight < 60
  }
  return { box, onScroll }
}

/** The pools in the order in which a chat spends them, with widths by their credit. */
export function PoolMeter() {
  const { data: credits } = useCredits()
  if (!credits) return <p className="mt-2 h-4" />
  const pools = appOrder.flatMap((type) =>
    credits.pools.filter((pool) => pool.type === type && Number(pool.remaining) > 0),
  )
  if (pools.length === 0)
    return <p className="mt-2 text-[12px] text-warn">{t('There is no credit for a chat now.')}</p>
  // By the square root: otherwise twenty cents would be invisible beside a hundred dollars.
  const widths = pools.map(({ remaining }) => Math.sqrt(Number(remaining)))
  const sum = widths.reduce((total, width) => total + width, 0)
  return (
    <div className="mt-2">
      <div className="flex h-1.5 gap-px overflow-hidden rounded-full" aria-hidden="true">
        {pools.map(({ type }, index) => (
          <div key={type} className={poolBars[type]} style={{ width: `${(widths[index]! / sum) * 100}%` }} />
        ))}
      </div>
      <ul className="mt-1 flex flex-wrap gap-x-3 text-[12px] text-muted" aria-label={t('Credit for chats')}>
        {pools.map(({ type, remaining }) => (
          <li key={type} className="flex items-center gap-1.5" title={usd(remaining)}>
            <span className={`size-2 rounded-sm ${poolBars[type]}`} aria-hidden="true" />
            {t(poolNames[type])} <span className="tabular-nums">{usdShort(remaining)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}
