// The payments of the account, the newest first.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { type TopUp, useTopUps } from '../../api/payments.ts'
import { usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Section, Time } from '../../ui/basics.tsx'
import { numeric, Older, QueryState, Table } from '../../ui/table.tsx'
import { inr, processorName, TopUpBadges } from '../words.tsx'

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

// Top-ups in a table, for the account that paid and for an operator.

/** `address` is the page of a top-up; `account` adds a column. */
export function TopUpTable<Row extends TopUp>({
  label,
  rows,
  address,
  receipt,
  account,
}: {
  label: string
  rows: readonly Row[]
  address: (topUp: Row) => string
  receipt: (topUp: Row) => ReactNode
  account?: (topUp: Row) => ReactNode
}) {
  return (
    <Table
      label={label}
      columns={[
        t('When'),
        t('State'),
        ...(account ? [t('Account')] : []),
        t('Paid with'),
        numeric(t('Amount')),
        numeric(t('Credit')),
        t('Receipt'),
      ]}
    >
      {rows.map((topUp) => (
        <tr key={topUp.id}>
          <td>
            <Link href={address(topUp)} className="text-accent underline">
              <Time at={topUp.created_at} />
            </Link>
          </td>
          <td>
            <TopUpBadges topUp={topUp} />
          </td>
          {account && <td>{account(topUp)}</td>}
          <td className="whitespace-nowrap">{processorName(topUp.processor)}</td>
          <td className="num">{inr(topUp.amount)}</td>
          <td className="num">{usd(topUp.credit_usd)}</td>
          <td className="whitespace-nowrap">{topUp.receipt === null ? '–' : receipt(topUp)}</td>
        </tr>
      ))}
    </Table>
  )
}
