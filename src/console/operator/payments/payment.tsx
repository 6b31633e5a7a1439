// One top-up, for operators: its messages, its refunds, and what can be done.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useParams } from 'wouter'
import { call, relayedAnswerWithinMs } from '../../api/call.ts'
import { newId } from '../../api/new-id.ts'
import { inr, problems, processorNames, TopUpBadges } from '../../pages/payments/words.tsx'
import { decimal, exact, plus } from '../../strings/exact.ts'
import { moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Fact, Failure, Loading, Note, PageHead, Section, Time } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { elevate } from '../../ui/elevate.tsx'
import { textOf, TextField } from '../../ui/form.tsx'
import { numeric, Table } from '../../ui/table.tsx'
import { useAct } from '../../ui/use-act.ts'
import { ActForm } from '../../ui/act-form.tsx'
import { AccountLink, EventTable } from './payments.tsx'
import type { TopUpWhole } from './wire.ts'

export function PaymentPage() {
  const { id } = useParams<{ id: string }>()
  const path = `admin/top-ups/${encodeURIComponent(id)}`
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'top-up', id],
    queryFn: async () => (await call<{ data: TopUpWhole }>('GET', path)).data,
  })
  return (
    <>
      <p className="mb-2 text-[13px]">
        <Link href="/operator/payments" className="text-accent underline">
          {t('Payments')}
        </Link>
      </p>
      {isPending && <Loading />}
      {error && (
        <>
          <PageHead title={t('Top-up')} />
          <Failure error={error} retry={() => void refetch()} />
        </>
      )}
      {data && <Whole topUp={data} path={path} />}
    </>
  )
}

function Whole({ topUp, path }: { topUp: TopUpWhole; path: string }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const [refunding, setRefunding] = useState(false)
  const reconcile = () =>
    act(async () => {
      await call('POST', `${path}/reconcile`, undefined, { withinMs: relayedAnswerWithinMs })
      await client.invalidateQueries({ queryKey: ['admin'] })
    })
  const canRefund = ['credited', 'refunded_part', 'disputed'].includes(topUp.state)
  return (
    <>
      <PageHead title={t('Top-up of {amount}', { amount: inr(topUp.amount) })}>
        <TopUpBadges topUp={topUp} />
      </PageHead>
      {topUp.problem !== null && (
        <div className="mb-4">
          <Note tone="bad">{t(problems[topUp.problem] ?? topUp.problem)}</Note>
        </div>
      )}
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact name={t('Id')}>
          <span className="font-mono text-[12.5px] break-all">{topUp.id}</span>
        </Fact>
        <Fact name={t('Account')}>
          <span className="break-all">
            <AccountLink id={topUp.account} />
          </span>
        </Fact>
        <Fact name={t('Credit')}>{usd(topUp.credit_usd)}</Fact>
        <Fact name={t('Rate')}>{`₹${topUp.rate}, ${topUp.rate_source}, ${topUp.rate_as_of}`}</Fact>
        <Fact name={t('Processor')}>{t(processorNames[topUp.processor])}</Fact>
        <Fact name={t('Page')}>
          <span className="font-mono text-[12.5px] break-all">{topUp.reference ?? '–'}</span>
        </Fact>
        <Fact name={t('Payment')}>
          <span className="font-mono text-[12.5px] break-all">{topUp.payment_id ?? '–'}</span>
        </Fact>
        <Fact name={t('Receipt')}>{topUp.receipt ?? '–'}</Fact>
        <Fact name={t('Opened')}>{moment(topUp.created_at)}</Fact>
        <Fact name={t('Paid')}>{topUp.paid_at === null ? '–' : moment(topUp.paid_at)}</Fact>
        <Fact name={t('Last asked')}>
          <Time at={topUp.checked_at} none={t('never')} />
        </Fact>
      </dl>
      <div className="mt-4 flex flex-wrap gap-2">
        <Button busy={busy} onClick={() => void reconcile()}>
          {t('Ask the processor now')}
        </Button>
        {canRefund && (
          <Button look="danger" onClick={() => setRefunding(true)}>
            {t('Refund')}
          </Button>
        )}
      </div>
      {error !== null && (
        <div className="mt-3">
          <Failure error={error} />
        </div>
      )}
      <Section title={t('Messages')}>
        {topUp.events.length === 0 ? (
          <p className="text-muted">{t('None came; what is known was asked for.')}</p>
        ) : (
          <EventTable events={topUp.events} />
        )}
      </Section>
      {topUp.reversals.length > 0 && <Reversals topUp={topUp} />}
      {refunding && <Refund topUp={topUp} path={path} onClose={() => setRefunding(false)} />}
    </>
  )
}

function Reversals({ topUp }: { topUp: TopUpWhole }) {
  return (
    <Section title={t('Taken back')}>
      <Table
        label={t('Taken back')}
        columns={[t('When'), t('What'), t('Id'), numeric(t('Amount')), numeric(t('Credit')), t('Ledger')]}
      >
        {topUp.reversals.map((reversal) => (
          <tr key={reversal.id}>
            <td>
              <Time at={reversal.at} />
            </td>
            <td>
              <Badge tone="warn">{t(reversal.kind.replace('_', ' '))}</Badge>
            </td>
            <td className="font-mono text-[12px]">{reversal.id}</td>
            <td className="num">{inr(reversal.amount)}</td>
            <td className="num">{usd(reversal.credit_usd)}</td>
            <td>{reversal.booked ? t('booked') : t('to be booked')}</td>
          </tr>
        ))}
      </Table>
    </Section>
  )
}

function Refund({ topUp, path, onClose }: { topUp: TopUpWhole; path: string; onClose: () => void }) {
  const client = useQueryClient()
  // If the answer was lost, the same refund is sent again with this id and made once.
  const [id] = useState(() => newId())
  const rest = decimal(plus(exact(topUp.amount), exact(`-${topUp.refunded}`)))
  const refund = async (given: FormData) => {
    const amount = textOf(given, 'amount') ?? rest
    await elevate(() => call('POST', `${path}/refund`, { id, amount }, { withinMs: relayedAnswerWithinMs }))
    await client.invalidateQueries({ queryKey: ['admin'] })
    onClose()
  }
  return (
    <Dialog title={t('Refund')} onClose={onClose}>
      <ActForm onSubmit={refund} action={t('Give it back')} look="danger" fields={['amount']}>
        {(faultOf) => (
          <>
            <p className="text-muted">
              {t(
                'The money goes back through {name}; its credit is taken at the rate of the payment. What is spent already becomes a debt.',
                {
                  name: t(processorNames[topUp.processor]),
                },
              )}
            </p>
            <TextField
              label={t('Rupees')}
              name="amount"
              inputMode="decimal"
              hint={t('Empty: all that is left, {amount}.', { amount: inr(rest) })}
              error={faultOf('amount')}
            />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}
