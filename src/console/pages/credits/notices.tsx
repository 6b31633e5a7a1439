// Warnings about credit.

import { Link } from 'wouter'
import type { Credits } from '../../api/wire.ts'
import { day, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Note } from '../../ui/basics.tsx'

export function Notices({ credits: { notices } }: { credits: Pick<Credits, 'notices'> }) {
  if (notices.length === 0) return null
  return (
    <div className="my-3 grid gap-2">
      {notices.map((notice) => (
        <Note key={notice.kind === 'balance_low' ? notice.kind : notice.lot} tone="warn">
          {notice.kind === 'balance_low' ? (
            <>
              {t('The purchased credit is low: {amount} is left.', { amount: usd(notice.available) })}{' '}
              <Link href="/credits/top-up" className="text-accent underline">
                {t('Top up')}
              </Link>
            </>
          ) : (
            t('{amount} of purchased credit expires on {day}.', {
              amount: usd(notice.remaining),
              day: day(notice.expires_at),
            })
          )}
        </Note>
      ))}
    </div>
  )
}
