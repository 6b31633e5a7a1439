// The payments of the account, the newest first.

import { Link } from 'wouter'
import { useTopUps } from '../../api/payments.ts'
import { usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Button, Failure, Loading, Section, Table, Time } from '../../ui/basics.tsx'
import { inr, processorNames, TopUpBadges } from './words.tsx'

export function Payments() {
  const topUps = useTopUps()
  const rows = topUps.data?.pages.flatMap(({ data }) => data) ?? []
  return (
    <Section title={t('Payments')}>
      {topUps.error && <Failure error={topUps.error} retry={() => void topUps.refetch()} />}
      {topUps.isPending && <Loading rows={2} />}
      {topUps.data && rows.length === 0 && <p className="text-muted">{t('Nothing was topped up yet.')}</p>}
      {rows.length > 0 && (
        <Table
          label={t('Payments')}
          head={
            <tr>
              <th scope="col">{t('When')}</th>
              <th scope="col">{t('State')}</th>
              <th scope="col">{t('Paid with')}</th>
              <th scope="col" className="num">
                {t('Amount')}
              </th>
              <th scope="col" className="num">
                {t('Credit')}
              </th>
              <th scope="col">{t('Receipt')}</th>
            </tr>
          }
        >
          {rows.map((topUp) => (
            <tr key={topUp.id}>
              <td>
                <Link href={`/credits/top-ups/${topUp.id}`} className="text-accent underline">
                  <Time at={topUp.created_at} />
                </Link>
              </td>
              <td>
                <TopUpBadges topUp={topUp} />
              </td>
              <td className="whitespace-nowrap">{t(processorNames[topUp.processor])}</td>
              <td className="num">{inr(topUp.amount)}</td>
              <td className="num">{usd(topUp.credit_usd)}</td>
              <td className="whitespace-nowrap">
                {topUp.receipt === null ? (
                  '–'
                ) : (
                  <Link href={`/credits/top-ups/${topUp.id}/receipt`} className="text-accent underline">
                    {topUp.receipt}
                  </Link>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {topUps.hasNextPage && (
        <p className="mt-3">
          <Button busy={topUps.isFetchingNextPage} onClick={() => void topUps.fetchNextPage()}>
            {t('Older')}
          </Button>
        </p>
      )}
    </Section>
  )
}
