// The account at a glance: what can be spent, what happened lately, and the next step where nothing has.

import { useState } from 'react'
import { Link } from 'wouter'
import type { CreditsView, KeyView, UsageView } from '../../http/console/answers.ts'
import { useAnswer, useCredits, useKeys, useRecentRequests } from '../api/call.ts'
import { count, countOf, day, t, usd, usdShort } from '../strings/text.ts'
import { AsTable, Chart } from '../ui/chart.tsx'
import { Empty, Failure, Loading, Note, PageHead, Section, TextLink } from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'
import { Notices } from './credits.tsx'
import { poolNames } from './words.tsx'
import { RequestTable } from './requests.tsx'
import { Change, dayOf } from './usage.tsx'

export function Overview() {
  const credits = useCredits()
  const recent = useRecentRequests(8)
  return (
    <>
      <PageHead title={t('Overview')} />
      {credits.error && <Failure error={credits.error} retry={() => void credits.refetch()} />}
      {credits.isPending ? <Loading rows={2} /> : credits.data && <Spendable credits={credits.data} />}
      <Month />
      <KeysToSee />
      <Section title={t('Latest requests')} side={<TextLink href="/requests">{t('All requests')}</TextLink>}>
        <QueryState query={recent} />
        {recent.data?.data.length === 0 && <NextStep />}
        {recent.data && recent.data.data.length > 0 && <RequestTable rows={recent.data.data} />}
      </Section>
    </>
  )
}

// This month against the last, and thirty days as a line.

function Month() {
  const month = dayOf(Date.now()).slice(0, 7)
  const inMonth = useUsageByDay(`from=${month}-01&compare=before`)
  const lately = useUsageByDay('')
  const [now, recent] = [inMonth.data, lately.data]
  if (now === undefined || recent === undefined) {
    const fault = inMonth.error ?? lately.error
    return fault ? <Failure error={fault} /> : <Loading rows={3} />
  }
  if (recent.totals.calls === 0 && now.before?.totals.calls === 0) return null
  return (
    <Section title={t('This month')} side={<TextLink href="/usage?days=month">{t('Usage')}</TextLink>}>
      <div className="grid gap-3 lg:grid-cols-[14rem_minmax(0,1fr)]">
        <MonthFigures usage={now} from={`${month}-01`} />
        <ThirtyDays usage={recent} />
      </div>
    </Section>
  )
}

function useUsageByDay(span: string) {
  const asked = `usage?by=day&${span}`
  return useAnswer<UsageView>(['usage', asked], asked)
}

function MonthFigures({ usage: { totals, before }, from }: { usage: UsageView; from: string }) {
  return (
    <dl className="card grid content-start gap-3 p-4">
      <div>
        <dt className="text-[13px] text-muted">{t('Cost')}</dt>
        <dd className="text-xl font-semibold tabular-nums" title={usd(totals.cost)}>
          {usdShort(totals.cost)}
          <span className="block text-[12.5px] font-normal text-muted">
            <Change now={Number(totals.cost)} before={Number(before?.totals.cost ?? 0)} text={usdShort} />
          </span>
        </dd>
      </div>
      <div>
        <dt className="text-[13px] text-muted">{t('Calls')}</dt>
        <dd className="text-xl font-semibold tabular-nums">
          {count(totals.calls)}
          <span className="block text-[12.5px] font-normal text-muted">
            <Change
              now={totals.calls}
              before={before?.totals.calls ?? 0}
              text={(value) => count(Number(value))}
            />
          </span>
        </dd>
      </div>
      <div>
        <dt className="text-[13px] text-muted">{t('Failed')}</dt>
        <dd className="text-xl font-semibold tabular-nums">
          {totals.errors === 0 ? (
            '0'
          ) : (
            <Link
              href={`/requests?${new URLSearchParams({ outcome: 'unserved', from })}`}
              className="underline"
            >
              {count(totals.errors)}
            </Link>
          )}
        </dd>
      </div>
    </dl>
  )
}

function ThirtyDays({ usage }: { usage: UsageView }) {
  const of = new Map(usage.data.map((row) => [row.day, row]))
  const days: string[] = []
  for (let at = Date.parse(usage.from); at <= Date.parse(usage.to); at += 86_400_000) days.push(dayOf(at))
  const values = days.map((day) => Number(of.get(day)?.cost ?? 0))
  const textOf = (index: number) => {
    const row = of.get(days[index]!)
    if (row === undefined) return '–'
    return [
      usd(row.cost),
      countOf(row.calls, '{count} call', '{count} calls'),
      ...(row.errors === 0 ? [] : [t('{count} failed', { count: count(row.errors) })]),
    ].join(' · ')
  }
  const failing = usage.data.filter(({ errors }) => errors > 0).slice(-5)
  return (
    <div className="card p-4">
      <Chart
        label={t('Cost of the last thirty days')}
        kind="line"
        days={days}
        series={[{ id: 'cost', label: t('Cost'), className: 'bar-1', values }]}
        totalOf={textOf}
        textOf={(value) => usdShort(String(value))}
        low
      />
      <AsTable label={t('Cost of the last thirty days')} days={days} textOf={textOf} />
      {failing.length > 0 && (
        <p className="mt-3 flex flex-wrap gap-x-4 text-[12.5px]">
          <span className="text-muted">{t('Failures of a day:')}</span>
          {failing.map(({ day: name, errors }) => (
            <TextLink
              key={name}
              href={`/requests?${new URLSearchParams({ outcome: 'unserved', from: name, to: name })}`}
            >
              {day(name)}: {count(errors)}
            </TextLink>
          ))}
        </p>
      )}
    </div>
  )
}

// Keys that will stop working: near their limit, or about to expire.

const nearShare = 0.8
const soonMs = 14 * 86_400_000

function KeysToSee() {
  const [, rows] = useKeys('keys', { state: 'current' })
  const [now] = useState(() => Date.now())
  const keys = rows.filter(({ state }) => state === 'active')
  const shareOf = ({ limit_usd: limit, spent_usd: spent }: KeyView) =>
    limit === null || Number(limit) === 0 ? 0 : Number(spent) / Number(limit)
  const near = keys.filter((key) => shareOf(key) >= nearShare)
  const ending = keys.filter(({ expires_at: at }) => at !== null && Date.parse(at) - now < soonMs)
  if (near.length === 0 && ending.length === 0) return null
  return (
    <div className="mt-4 grid gap-2">
      {near.map((key) => (
        <Note key={key.id} tone="warn">
          {t('The key {name} has spent {spent} of its limit of {limit}.', {
            name: key.name,
            spent: usdShort(key.spent_usd),
            limit: usdShort(key.limit_usd ?? '0'),
          })}{' '}
          <TextLink href="/keys">{t('Keys')}</TextLink>
        </Note>
      ))}
      {ending.map((key) => (
        <Note key={`${key.id} ends`} tone="warn">
          {t('The key {name} expires on {day}.', { name: key.name, day: day(key.expires_at ?? '') })}{' '}
          <TextLink href="/keys">{t('Keys')}</TextLink>
        </Note>
      ))}
    </div>
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
              ? t('{amount} reserved for calls that are running', { amount: usdShort(credits.held) })
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
  const [, keys] = useKeys('keys', { state: 'current' })
  const hasKey = keys.some(({ state }) => state === 'active')
  return (
    <Empty title={t('Nothing has been called yet.')}>
      <p>
        {hasKey
          ? t('Point a client at the gateway with your key.')
          : t('Create a key and make the first call.')}{' '}
        {t('Or try a model in the chat.')}
      </p>
      <p className="flex gap-4">
        <TextLink href={hasKey ? '/connect' : '/keys'}>
          {hasKey ? t('Connect a client') : t('Create a key')}
        </TextLink>
        <TextLink href="/chat">{t('Open the chat')}</TextLink>
      </p>
    </Empty>
  )
}
