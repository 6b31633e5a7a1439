// One top-up: what it is waiting for, or its outcome.

import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { Link, useParams } from 'wouter'
import { isWaiting, type TopUp, useTopUp } from '../../api/payments.ts'
import { day, moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Button, Fact, Failure, Loading, Note, PageHead } from '../../ui/basics.tsx'
import { rateDay } from './top-up-form.tsx'
import { inr, problems, processorNames, TopUpBadges } from './words.tsx'

export function TopUpState() {
  const { id } = useParams<{ id: string }>()
  const client = useQueryClient()
  const { data: topUp, error, isPending, isFetching, refetch } = useTopUp(id)
  const state = topUp?.state
  useEffect(() => {
    if (state === undefined || state === 'open') return
    void client.invalidateQueries({ queryKey: ['credits'] })
    void client.invalidateQueries({ queryKey: ['top-ups'], exact: true })
  }, [client, state])
  return (
    <>
      <p className="mb-2 text-[13px]">
        <Link href="/credits" className="text-accent underline">
          {t('Credits')}
        </Link>
      </p>
      <PageHead title={topUp ? t('Top-up of {amount}', { amount: inr(topUp.amount) }) : t('Top-up')}>
        {topUp && <TopUpBadges topUp={topUp} />}
      </PageHead>
      {isPending && <Loading />}
      {error && <Failure error={error} retry={() => void refetch()} />}
      {topUp && (
        <>
          <Said topUp={topUp} />
          <Steps topUp={topUp} />
          <Facts topUp={topUp} />
          <p className="mt-4 flex flex-wrap gap-2">
            {topUp.state !== 'credited' && (
              <Button busy={isFetching} onClick={() => void refetch()}>
                {t('Look again')}
              </Button>
            )}
            {topUp.receipt !== null && (
              <Link href={`/credits/top-ups/${topUp.id}/receipt`} className="p-2 text-accent underline">
                {t('Receipt {number}', { number: topUp.receipt })}
              </Link>
            )}
            {!isWaiting(topUp) && (
              <Link href="/credits/top-up" className="p-2 text-accent underline">
                {t('Top up again')}
              </Link>
            )}
          </p>
        </>
      )}
    </>
  )
}

/** What it waits for, or how it ended: in a sentence. */
function Said({ topUp }: { topUp: TopUp }) {
  const name = processorNames[topUp.processor]
  const late = Date.parse(topUp.expires_at) < Date.now()
  if (topUp.problem !== null)
    return (
      <Note tone="bad" role="status">
        {t(problems[topUp.problem] ?? 'Something about this payment is not as it should be.')}{' '}
        {t('An operator has been called; nothing that was paid is lost. The id of this top-up is {id}.', {
          id: topUp.id,
        })}
      </Note>
    )
  switch (topUp.state) {
    case 'open':
      return (
        <Note tone="accent" role="status">
          {late
            ? t('The time to pay is over, and {name} has not said that anything was paid.', { name })
            : t('Waiting for {name} to say that it was paid.', { name })}{' '}
          {t('This page can be closed: what was paid is credited either way.')}
          {topUp.url !== null && !late && /^https?:/.test(topUp.url) && (
            <>
              {' '}
              <a href={topUp.url} className="text-accent underline">
                {t('To the payment page')}
              </a>
            </>
          )}
        </Note>
      )
    case 'paid':
      return (
        <Note tone="accent" role="status">
          {t('The payment has arrived. Waiting for the ledger to book the credit.')}
        </Note>
      )
    case 'credited':
      return topUp.test ? (
        <Note tone="warn" role="status">
          {t('The test is finished: no money moved, and no credit was added.')}
        </Note>
      ) : (
        <Note tone="good" role="status">
          {t('{amount} was added. It can be used until {day}.', {
            amount: usd(topUp.credit_usd),
            day: day(topUp.credit_expires_at),
          })}
        </Note>
      )
    case 'failed':
      return (
        <Note tone="bad" role="status">
          {t('{name} says that the payment failed.', { name })}{' '}
          {t('If money arrives after all within four days, it is credited.')}
        </Note>
      )
    case 'expired':
      return (
        <Note role="status">
          {t('Nothing was paid in time.')} {t('If money arrives after all within four days, it is credited.')}
        </Note>
      )
    case 'refunded_part':
    case 'refunded':
      return (
        <Note tone="warn" role="status">
          {t('{amount} was paid back, and its credit taken.', { amount: inr(topUp.refunded) })}
        </Note>
      )
    case 'disputed':
      return (
        <Note tone="bad" role="status">
          {t('The payment is disputed: what is left of its credit is set aside until that is decided.')}
        </Note>
      )
  }
}

function Steps({ topUp }: { topUp: TopUp }) {
  const paid = topUp.paid_at !== null
  const credited = paid && topUp.state !== 'paid'
  const steps = [
    [t('Opened'), true, topUp.created_at],
    [t('Paid at {name}', { name: processorNames[topUp.processor] }), paid, topUp.paid_at],
    [topUp.test ? t('Credited (not in test mode)') : t('Credited'), credited, null],
  ] as const
  const current = steps.findIndex(([, done]) => !done)
  return (
    <ol className="card mt-4 grid gap-2 p-4" aria-label={t('Steps')}>
      {steps.map(([name, done, at], index) => (
        <li
          key={name}
          className="flex items-baseline gap-2.5"
          aria-current={index === current && isWaiting(topUp) ? 'step' : undefined}
        >
          <span aria-hidden="true" className={done ? 'text-good' : 'text-muted'}>
            {done ? '✓' : '○'}
          </span>
          <span className={`flex-1 ${done ? '' : 'text-muted'}`}>
            {name}
            <span className="sr-only">{done ? t(': done') : t(': not yet')}</span>
          </span>
          {at !== null && <span className="text-[12.5px] text-muted">{moment(at)}</span>}
        </li>
      ))}
    </ol>
  )
}

function Facts({ topUp }: { topUp: TopUp }) {
  return (
    <dl className="card mt-4 grid grid-cols-2 gap-3 p-4 sm:grid-cols-3">
      <Fact name={t('Amount')}>{inr(topUp.amount)}</Fact>
      <Fact name={t('Credit')}>
        <span className="tabular-nums">{usd(topUp.credit_usd)}</span>
      </Fact>
      <Fact name={t('Rate')}>
        {t('₹{rate} for $1: {source}, {day}', {
          rate: topUp.rate,
          source: topUp.rate_source,
          day: rateDay(topUp.rate_as_of),
        })}
      </Fact>
      <Fact name={t('Can be paid until')}>{moment(topUp.expires_at)}</Fact>
      <Fact name={t('Credit usable until')}>{day(topUp.credit_expires_at)}</Fact>
      <Fact name={t('Payment')}>
        <span className="font-mono text-[12.5px] break-all">{topUp.payment_id ?? '–'}</span>
      </Fact>
    </dl>
  )
}
