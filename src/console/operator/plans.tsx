// Plans for operators: what is sold, who has it, and periods by hand.

import { useState } from 'react'
import type { PlanView, SubscriberView } from '../../http/payments/answers.ts'
import { call, newId, refresh, useData, usePages } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { countOf, day, money, t, usd } from '../strings/text.ts'
import { ActForm, Badge, Button, Choice, Dialog, Empty, Section, TextField, textOf } from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, Older, QueryState, Table, wideOnly } from '../ui/table.tsx'
import { accountIdOf, AccountLink, PaymentsHead } from './payments.tsx'

export function AllPlans() {
  const [granting, setGranting] = useState(false)
  const plans = useData<readonly PlanView[]>(['admin', 'plans'], 'admin/plans')
  const [subscribers, rows] = usePages<SubscriberView>(['admin', 'subscribers'], 'admin/plans/subscribers', {
    limit: '100',
  })
  const sold = plans.data ?? []
  return (
    <>
      <PaymentsHead>
        {sold.length > 0 && (
          <Button look="primary" onClick={() => setGranting(true)}>
            {t('Grant a plan')}
          </Button>
        )}
      </PaymentsHead>
      <QueryState query={plans} />
      {plans.data && sold.length === 0 && (
        <Empty title={t('No plans are sold here.')}>
          <p>{t('payments.plans in the configuration says what is sold.')}</p>
        </Empty>
      )}
      {sold.length > 0 && (
        <Table
          label={t('Plans')}
          columns={[
            t('Plan'),
            numeric(t('Price')),
            wideOnly(t('Period')),
            numeric(t('Credit')),
            wideOnly(t('Models')),
          ]}
        >
          {sold.map(({ id, title, months, models, prices, credit_usd: credit }) => (
            <tr key={id}>
              <td>
                {title} <span className="block font-mono text-[12px] text-muted">{id}</span>
              </td>
              <td className="num">
                {prices.map(({ currency, amount }) => (
                  <span key={currency} className="block whitespace-nowrap">
                    {money(amount, currency)}
                  </span>
                ))}
              </td>
              <td className={notOnPhones}>{countOf(months, 'a month', '{count} months')}</td>
              <td className="num">{usd(credit)}</td>
              <td className={`max-w-72 break-words ${notOnPhones}`}>
                {models?.join(', ') ?? t('every model')}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Section title={t('Who has a plan')}>
        <QueryState query={subscribers} />
        {subscribers.data && rows.length === 0 && <p className="text-muted">{t('Nobody has one.')}</p>}
        {rows.length > 0 && (
          <Table
            label={t('Who has a plan')}
            columns={[
              t('Account'),
              wideOnly(t('Plan')),
              wideOnly(t('State')),
              wideOnly(t('From')),
              wideOnly(t('To')),
              numeric(t('Credit')),
            ]}
          >
            {rows.map((row) => (
              <tr key={row.subscription}>
                <td className={`sm:max-w-56 ${firstOnPhones}`}>
                  <span className="block truncate">
                    <AccountLink id={row.account} email={row.account_email} />
                  </span>
                  <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                    <Badge tone={row.state === 'running' ? 'good' : 'plain'}>
                      {row.state === 'running' ? t('running') : t('to come')}
                    </Badge>
                    <span>{row.title}</span>
                    <span>
                      {day(row.from)} – {day(row.to)}
                    </span>
                  </span>
                </td>
                <td className={notOnPhones}>{row.title}</td>
                <td className={notOnPhones}>
                  <Badge tone={row.state === 'running' ? 'good' : 'plain'}>
                    {row.state === 'running' ? t('running') : t('to come')}
                  </Badge>
                </td>
                <td className={`whitespace-nowrap ${notOnPhones}`}>{day(row.from)}</td>
                <td className={`whitespace-nowrap ${notOnPhones}`}>{day(row.to)}</td>
                <td className="num">{usd(row.credit_usd)}</td>
              </tr>
            ))}
          </Table>
        )}
        <Older list={subscribers} action={t('More')} />
      </Section>
      {granting && <GrantPlan plans={sold} onClose={() => setGranting(false)} />}
    </>
  )
}

function GrantPlan({ plans, onClose }: { plans: readonly PlanView[]; onClose: () => void }) {
  // If the answer was lost, the same grant is sent again with this id and made once.
  const [id] = useState(() => newId())
  const grant = async (given: FormData) => {
    const account = await accountIdOf(textOf(given, 'account') ?? '')
    const plan = encodeURIComponent(textOf(given, 'plan') ?? '')
    await elevate(() => call('POST', `admin/plans/${plan}/grants`, { account, id }))
    await refresh('admin')
    onClose()
  }
  return (
    <Dialog title={t('Grant a plan')} onClose={onClose}>
      <ActForm onSubmit={grant} action={t('Grant')} fields={['account']}>
        {(faultOf) => (
          <>
            <TextField
              label={t('Account')}
              name="account"
              autoComplete="off"
              required
              maxLength={254}
              hint={t('Its e-mail address or id.')}
              error={faultOf('account')}
            />
            <Choice
              label={t('Plan')}
              name="plan"
              options={plans.map(({ id: plan, title }) => [plan, title])}
            />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}
