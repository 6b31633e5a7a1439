// Plans: what is sold, what the account has of it, and buying the next period.

import { useRef, useState } from 'react'
import { useLocation } from 'wouter'
import type { OwnPlansView, PlanPeriodView, PlanView, TopUpView } from '../../http/payments/answers.ts'
import { call, newId, queryClient, refresh, relayedAnswerWithinMs, usePlans } from '../api/call.ts'
import { countOf, day, money, t, usd } from '../strings/text.ts'
import {
  Back,
  Badge,
  Button,
  Choice,
  Empty,
  Failure,
  Note,
  PageHead,
  Section,
  TextLink,
  useAct,
} from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'
import { processorName } from './words.tsx'

export function PlansPage() {
  const { data, error, isPending, refetch } = usePlans()
  return (
    <>
      <Back href="/credits">{t('Credits')}</Back>
      <PageHead
        title={t('Plans')}
        about={t('A plan pays for chats until its period ends. API keys spend purchased credit alone.')}
      />
      <QueryState query={{ error, isPending, refetch }} />
      {data && data.periods.length > 0 && <Own periods={data.periods} />}
      {data?.plans.length === 0 && <Empty title={t('No plans are sold here.')} />}
      {data && data.plans.length > 0 && (
        <ul className="mt-6 grid items-start gap-4 sm:grid-cols-2 xl:grid-cols-3">
          {data.plans.map((plan) => (
            <PlanCard key={plan.id} plan={plan} periods={data.periods} />
          ))}
        </ul>
      )}
    </>
  )
}

/** What the account has paid for. Nothing renews itself: all that can be ended are the reminders. */
function Own({ periods }: { periods: readonly PlanPeriodView[] }) {
  const { error, busy, act } = useAct()
  const last = periods.toSorted((a, b) => Date.parse(a.to) - Date.parse(b.to)).at(-1)!
  const cancel = () =>
    act(async () => {
      await call('POST', 'plans/cancel')
      await refresh('plans')
    })
  return (
    <Section title={t('Your plans')}>
      <ul className="card divide-y divide-line">
        {periods.map(({ subscription, title, state, from, to, credit_usd: credit }) => (
          <li key={subscription} className="flex flex-wrap items-baseline gap-x-3 gap-y-1 p-4">
            <span className="font-semibold">{title}</span>
            <Badge tone={state === 'running' ? 'good' : 'plain'}>
              {state === 'running' ? t('running') : t('to come')}
            </Badge>
            <span className="text-muted">{t('{from} to {to}', { from: day(from), to: day(to) })}</span>
            <span className="ml-auto tabular-nums">{usd(credit)}</span>
          </li>
        ))}
      </ul>
      <p className="mt-3 text-muted">
        {last.cancelled_at === null
          ? t('It ends on {day} and does not renew itself: nothing is charged until you pay again.', {
              day: day(last.to),
            })
          : t('It ends on {day}, and you will not be reminded.', { day: day(last.to) })}
      </p>
      {error !== null && <Failure error={error} />}
      {last.cancelled_at === null && (
        <p className="mt-3">
          <Button busy={busy} onClick={() => void cancel()}>
            {t('Do not renew')}
          </Button>
        </p>
      )}
    </Section>
  )
}

/** When a period that is paid now begins: after those of as much credit or more; undefined for at once. */
export function beginsOn(
  { credit_usd: credit }: Pick<PlanView, 'credit_usd'>,
  periods: readonly Pick<PlanPeriodView, 'credit_usd' | 'to'>[],
): string | undefined {
  return periods
    .filter((period) => Number(period.credit_usd) >= Number(credit))
    .map(({ to }) => to)
    .toSorted((a, b) => Date.parse(a) - Date.parse(b))
    .at(-1)
}

function PlanCard({ plan, periods }: { plan: PlanView; periods: OwnPlansView['periods'] }) {
  const [, navigate] = useLocation()
  const { error, busy, act } = useAct()
  const [changed, setChanged] = useState(false)
  const [code, setCode] = useState(plan.prices[0]?.currency)
  const price = plan.prices.find(({ currency }) => currency === code) ?? plan.prices[0]!
  const [chosen, setProcessor] = useState(price.processors[0])
  const processor = price.processors.find((id) => id === chosen) ?? price.processors[0]
  // A request that is sent again after a lost answer opens the same payment; another choice is another request.
  const attempt = useRef({ of: '', key: '' })
  const has = periods.some((period) => period.plan === plan.id)
  const begins = beginsOn(plan, periods)
  const buy = () =>
    act(async () => {
      const of = `${price.currency} ${price.amount} ${processor}`
      if (attempt.current.of !== of) attempt.current = { of, key: newId() }
      const body = { currency: price.currency, processor }
      const topUp = await call<TopUpView>('POST', `plans/${encodeURIComponent(plan.id)}/payments`, body, {
        headers: { 'idempotency-key': attempt.current.key },
        withinMs: relayedAnswerWithinMs,
      })
      // Nobody pays a price that was not shown: the next press, with the price in view, opens a payment of its own.
      attempt.current = { of: '', key: '' }
      setChanged(topUp.amount !== price.amount)
      if (topUp.amount !== price.amount) return refresh('plans')
      queryClient.removeQueries({ queryKey: ['top-ups'] })
      const page = topUp.state === 'open' && topUp.url !== null ? URL.parse(topUp.url) : null
      if (page !== null && /^https?:$/.test(page.protocol)) location.assign(page)
      else navigate(`/credits/top-ups/${topUp.id}`)
    })
  return (
    <li className="card grid gap-3 p-4">
      <div>
        <h2 className="text-lg font-semibold">{plan.title}</h2>
        {plan.about !== null && <p className="text-muted">{plan.about}</p>}
      </div>
      <p className="flex flex-wrap items-baseline gap-x-2">
        <span className="text-2xl font-semibold tracking-tight tabular-nums">
          {money(price.amount, price.currency)}
        </span>
        <span className="text-muted">{countOf(plan.months, 'for a month', 'for {count} months')}</span>
      </p>
      <ul className="grid gap-1">
        <li>{t('{credit} of credit for chats', { credit: usd(plan.credit_usd) })}</li>
        <li>
          {plan.models === null
            ? t('Every model, while there is credit')
            : t('These premium models: {models}', { models: plan.models.join(', ') })}
        </li>
      </ul>
      {plan.prices.length > 1 && (
        <Choice
          label={t('Currency')}
          value={price.currency}
          onChange={(event) => setCode(event.target.value)}
          options={plan.prices.map(({ currency, amount }) => [
            currency,
            `${currency}, ${money(amount, currency)}`,
          ])}
        />
      )}
      {price.processors.length > 1 && (
        <Choice
          label={t('Paid with')}
          value={processor}
          onChange={(event) => setProcessor(event.target.value as TopUpView['processor'])}
          options={price.processors.map((id) => [id, processorName(id)])}
        />
      )}
      {processor === 'sim' && (
        <Note tone="warn">
          {t('This is a test mode: the whole flow runs, no money moves, and no credit is added.')}
        </Note>
      )}
      <p className="text-[12.5px] text-muted">
        {begins === undefined
          ? t('Begins when it is paid.')
          : t('Begins on {day}, when what you have ends.', { day: day(begins) })}
      </p>
      {changed && (
        <Note tone="warn" role="status">
          {t('The price has changed while this page was open: pay if you agree.')}
        </Note>
      )}
      {error !== null && <Failure error={error} />}
      <div>
        <Button look="primary" busy={busy} onClick={() => void buy()}>
          {has ? t('Renew {plan}', { plan: plan.title }) : t('Buy {plan}', { plan: plan.title })}
        </Button>
      </div>
    </li>
  )
}

/** The link to the plans on the page of the credit, where there is something to see. */
export function PlansLink() {
  const { data } = usePlans()
  if (!data || (data.plans.length === 0 && data.periods.length === 0)) return null
  return <TextLink href="/credits/plans">{t('Plans')}</TextLink>
}

const remindAheadMs = 7 * 86_400_000

/** That the last paid period ends soon, unless its holder wants it so. */
export function PlanEnding() {
  const { data } = usePlans()
  const last = data?.periods.toSorted((a, b) => Date.parse(a.to) - Date.parse(b.to)).at(-1)
  if (!last || last.cancelled_at !== null || Date.parse(last.to) > Date.now() + remindAheadMs) return null
  return (
    <div className="mb-3">
      <Note tone="warn">
        {t('{plan} ends on {day}.', { plan: last.title, day: day(last.to) })}{' '}
        <TextLink href="/credits/plans">{t('Renew it')}</TextLink>
      </Note>
    </div>
  )
}
