// The statement of a month of a group: who has spent what in it.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { GroupStatementView } from '../../http/payments/answers.ts'
import { addressOf } from '../api/address.ts'
import { call } from '../api/call.ts'
import { countOf, monthName, t, usd } from '../strings/text.ts'
import { Choice, Empty, Section } from '../ui/kit.tsx'
import { firstOnPhones, numeric, QueryState, Table } from '../ui/table.tsx'

/** How many months back can be chosen. */
const months = 12

export function GroupStatement({ path }: { path: string }) {
  const [month, setMonth] = useState(() => monthsBack()[0]!)
  const at = `${path}/statements/${month}`
  const query = useQuery({
    queryKey: ['admin', 'group-statement', path, month],
    queryFn: async () => (await call<{ data: GroupStatementView }>('GET', at)).data,
  })
  return (
    <Section title={t('Statement')}>
      <div className="mb-3 flex flex-wrap items-end gap-3">
        <div className="min-w-48">
          <Choice
            label={t('Month')}
            value={month}
            options={monthsBack().map((name) => [name, monthName(name)])}
            onChange={(event) => setMonth(event.target.value)}
          />
        </div>
        <a
          className="inline-flex h-9 items-center rounded-md border border-line-strong bg-panel px-3.5 font-medium hover:bg-paper"
          href={addressOf(`/console/api/${at}/spending.csv`)}
          download
        >
          {t('By day and person as CSV')}
        </a>
      </div>
      <QueryState query={query} />
      {query.data && <Spending statement={query.data} />}
    </Section>
  )
}

function Spending({ statement: { spent, people, credit } }: { statement: GroupStatementView }) {
  if (spent.calls === 0) return <Empty title={t('No calls in this month.')} />
  return (
    <>
      <p className="mb-3">
        {countOf(spent.calls, '{count} call', '{count} calls')}, {usd(spent.charged_usd)}
        {credit !== null && (
          <>
            {' · '}
            {t('credit of the group: {opening} before, {closing} after', {
              opening: usd(credit.opening.balance),
              closing: usd(credit.closing.balance),
            })}
          </>
        )}
      </p>
      <Table label={t('Statement')} columns={[t('Person'), numeric(t('Calls')), numeric(t('Cost'))]}>
        {people.map(({ id, label, calls, charged_usd: charged }) => (
          <tr key={id}>
            <td className={`break-words ${firstOnPhones}`}>{label ?? id ?? t('all others')}</td>
            <td className="num">{calls}</td>
            <td className="num">{usd(charged)}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** This month first. */
function monthsBack(): readonly string[] {
  const now = new Date()
  return Array.from({ length: months }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  )
}
