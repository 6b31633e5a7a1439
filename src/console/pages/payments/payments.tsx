// The payments of the account, the newest first.

import { Link } from 'wouter'
import { type TopUp, useTopUps } from '../../api/payments.ts'
import { t } from '../../strings/text.ts'
import { Section } from '../../ui/basics.tsx'
import { Older } from '../../ui/older.tsx'
import { QueryState } from '../../ui/query-state.tsx'
import { TopUpTable } from './top-up-table.tsx'

export function Payments() {
  const topUps = useTopUps()
  const rows = topUps.data?.pages.flatMap(({ data }) => data) ?? []
  return (
    <Section title={t('Payments')}>
      <QueryState query={topUps} rows={2} />
      {topUps.data && rows.length === 0 && <p className="text-muted">{t('Nothing was topped up yet.')}</p>}
      {rows.length > 0 && (
        <TopUpTable
          label={t('Payments')}
          rows={rows}
          address={({ id }) => `/credits/top-ups/${id}`}
          receipt={receiptLink}
        />
      )}
      <Older list={topUps} />
    </Section>
  )
}

function receiptLink({ id, receipt }: TopUp) {
  return (
    <Link href={`/credits/top-ups/${id}/receipt`} className="text-accent underline">
      {receipt}
    </Link>
  )
}
