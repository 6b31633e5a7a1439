// The account at a glance: what can be spent, what happened lately, and the next step where nothing has.

import { Link } from 'wouter'
import type { CreditsView } from '../../http/console/answers.ts'
import { useCredits, useKeys, useRecentRequests } from '../api/call.ts'
import { t, usd, usdShort } from '../strings/text.ts'
import { Empty, Failure, Loading, PageHead, Section } from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'
import { Notices } from './credits.tsx'
import { poolNames } from './words.tsx'
import { RequestTable } from './requests.tsx'

export function Overview() {
  const credits = useCredits()
  const recent = useRecentRequests(8)
  return (
    <>
      <PageHead title={t('Overview')} />
      {credits.error && <Failure error={credits.error} retry={() => void credits.refetch()} />}
      {credits.isPending ? <Loading rows={2} /> : credits.data && <Spendable credits={credits.data} />}
      <Section
        title={t('Latest requests')}
        side={
          <Link href="/requests" className="text-accent underline">
            {t('All requests')}
          </Link>
        }
      >
        <QueryState query={recent} />
        {recent.data?.data.length === 0 && <NextStep />}
        {recent.data && recent.data.data.length > 0 && <RequestTable rows={recent.data.data} />}
      </Section>
    </>
  )
}

function Spendable({ credits }: { credits: CreditsView }) {
  return (
    <>
      <div className="grid gap-3 sm:grid-cols-3">
        <Figure
          name={t('An API call can spend')}
          amount={credits.spendable.api}
          about={t('purchased credit')}
        />
        <Figure
          name={t('A chat can spend')}
          amount={credits.spendable.app}
          about={credits.pools
            .filter(({ remaining }) => Number(remaining) > 0)
            .map(({ type }) => t(poolNames[type]))
            .join(', ')}
        />
        <Figure
          name={t('Used in total')}
          amount={credits.total_used}
          about={
            Number(credits.held) > 0
              ? t('{amount} held by calls that run', { amount: usdShort(credits.held) })
              : ' '
          }
        />
      </div>
      <Notices credits={credits} />
    </>
  )
}

function Figure({ name, amount, about }: { name: string; amount: string; about: string }) {
  return (
    <div className="card p-4">
      <p className="text-[13px] text-muted">{name}</p>
      <p className="mt-1 text-2xl font-semibold tracking-tight tabular-nums" title={usd(amount)}>
        {usdShort(amount)}
      </p>
      <p className="mt-0.5 text-[12.5px] text-muted">{about}</p>
    </div>
  )
}

function NextStep() {
  const { data: keys } = useKeys('keys', { state: 'current' })
  const hasKey = keys?.pages.some(({ data }) => data.some(({ state }) => state === 'active'))
  return (
    <Empty title={t('Nothing has been called yet.')}>
      <p>
        {hasKey
          ? t('Point a client at the gateway with your key.')
          : t('Create a key and make the first call.')}{' '}
        {t('Or try a model in the chat.')}
      </p>
      <p className="flex gap-4">
        <Link href={hasKey ? '/connect' : '/keys'} className="text-accent underline">
          {hasKey ? t('Connect a client') : t('Create a key')}
        </Link>
        <Link href="/chat" className="text-accent underline">
          {t('Open the chat')}
        </Link>
      </p>
    </Empty>
  )
}
