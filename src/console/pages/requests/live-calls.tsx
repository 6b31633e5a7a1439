// The account's calls in flight, as they go. Nothing is shown while there are none.

import { useEffect, useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { ago, count, countOf, milliseconds, usdShort } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge } from '../../ui/basics.tsx'

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

export function LiveCalls() {
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
