// The payments of all accounts, and the messages of their processors.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import { call, newId, relayedAnswerWithinMs } from '../../api/call.ts'
import type { ProcessorId, TopUp } from '../../api/payments.ts'
import type { Page } from '../../api/wire.ts'
import { TopUpTable } from '../../pages/payments/payments.tsx'
import { inr, problems, processorName, TopUpBadges } from '../../pages/words.tsx'
import { decimal, exact, moment, plus, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import {
  Badge,
  Button,
  Empty,
  Fact,
  Failure,
  Loading,
  Note,
  PageHead,
  Section,
  Time,
} from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { elevate } from '../../ui/elevate.tsx'
import { ActForm, TextField, textOf, useAct } from '../../ui/form.tsx'
import { numeric, Older, QueryState, Table } from '../../ui/table.tsx'

const parts = [
  ['/operator/payments', 'Top-ups'],
  ['/operator/payments/messages', 'Messages'],
  ['/operator/payments/vouchers', 'Vouchers'],
  ['/operator/payments/subscriptions', 'Subscriptions'],
] as const

/** The head of each page about payments, with links to the others. */
export function PaymentsHead({ children }: { children?: ReactNode }) {
  const [path] = useLocation()
  return (
    <>
      <PageHead title={t('Payments')}>{children}</PageHead>
      <nav aria-label={t('Payments')} className="mb-4 flex flex-wrap gap-1">
        {parts.map(([address, name]) => (
          <Link
            key={address}
            href={address}
            aria-current={path === address ? 'page' : undefined}
            className={`rounded-md px-3 py-1.5 ${path === address ? 'bg-accent-soft font-medium text-accent' : 'hover:bg-panel'}`}
          >
            {t(name)}
          </Link>
        ))}
      </nav>
    </>
  )
}

export function AllPayments() {
  const list = useInfiniteQuery({
    queryKey: ['admin', 'top-ups'],
    queryFn: ({ pageParam }) =>
      call<Page<AnyTopUp>>('GET', `admin/top-ups${pageParam === null ? '' : `?cursor=${pageParam}`}`),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
  })
  const rows = list.data?.pages.flatMap(({ data }) => data) ?? []
  return (
    <>
      <PaymentsHead />
      <QueryState query={list} />
      {list.data && rows.length === 0 && <Empty title={t('Nothing was topped up yet.')} />}
      {rows.length > 0 && (
        <TopUpTable
          label={t('Top-ups')}
          rows={rows}
          address={({ id }) => `/operator/payments/${id}`}
          receipt={receiptOf}
          account={accountOf}
        />
      )}
      <Older list={list} />
    </>
  )
}

function receiptOf({ receipt }: AnyTopUp) {
  return receipt
}

function accountOf({ account }: AnyTopUp) {
  return <AccountLink id={account} />
}

export function AccountLink({ id }: { id: string }) {
  return (
    <Link href={`/operator/accounts/${id}`} className="font-mono text-[12px] text-accent underline">
      {id}
    </Link>
  )
}

export function Messages() {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'payment-events'],
    queryFn: () => call<{ data: readonly PaymentEvent[] }>('GET', 'admin/payment-events'),
  })
  return (
    <>
      <PaymentsHead />
      <QueryState query={{ error, isPending, refetch }} />
      {data?.data.length === 0 && <Empty title={t('No processor has sent a message yet.')} />}
      {data && data.data.length > 0 && <EventTable events={data.data} />}
    </>
  )
}

const outcomes: Readonly<Record<PaymentEvent['outcome'], 'good' | 'warn' | 'bad' | 'plain'>> = {
  received: 'warn',
  waiting: 'warn',
  unmatched: 'bad',
  applied: 'good',
  ignored: 'plain',
  refused: 'bad',
}

function EventTable({ events }: { events: readonly PaymentEvent[] }) {
  return (
    <Table
      label={t('Messages')}
      columns={[t('When'), t('Type'), t('Outcome'), t('Top-up'), t('Payment'), t('Id')]}
    >
      {events.map((event) => (
        <tr key={`${event.processor} ${event.id}`}>
          <td>
            <Time at={event.at} />
          </td>
          <td className="font-mono text-[12px] whitespace-nowrap">
            {event.processor} {event.type}
          </td>
          <td>
            <Badge tone={outcomes[event.outcome]}>{t(event.outcome)}</Badge>
          </td>
          <td className="font-mono text-[12px] whitespace-nowrap">
            {event.top_up === null ? (
              '–'
            ) : (
              <Link href={`/operator/payments/${event.top_up}`} className="text-accent underline">
                {event.top_up}
              </Link>
            )}
          </td>
          <td className="font-mono text-[12px] whitespace-nowrap">{event.payment_id ?? '–'}</td>
          <td className="font-mono text-[12px] whitespace-nowrap">{event.id}</td>
        </tr>
      ))}
    </Table>
  )
}

// One top-up, for operators: its messages, its refunds, and what can be done.

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
        <Fact name={t('Processor')}>{processorName(topUp.processor)}</Fact>
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
                  name: processorName(topUp.processor),
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

// Answers of the API for operators about payments.

type AnyTopUp = TopUp & { readonly account: string }

interface PaymentEvent {
  readonly processor: ProcessorId
  readonly id: string
  readonly type: string
  readonly at: string
  readonly outcome: 'received' | 'waiting' | 'unmatched' | 'applied' | 'ignored' | 'refused'
  readonly top_up: string | null
  readonly payment_id: string | null
}

type TopUpWhole = AnyTopUp & {
  readonly reference: string | null
  readonly checked_at: string | null
  readonly events: readonly PaymentEvent[]
  readonly reversals: readonly {
    readonly id: string
    readonly kind: string
    readonly amount: string
    readonly credit_usd: string
    readonly held_usd: string
    readonly booked: boolean
    readonly at: string
  }[]
}

export interface Voucher {
  readonly id: string
  readonly credit_usd: string
  readonly state: 'valid' | 'redeemed' | 'revoked' | 'expired'
  readonly note: string
  readonly created_at: string
  readonly expires_at: string | null
  readonly account: string | null
}

export type MadeVoucher = Voucher & { readonly code: string }

export interface Product {
  readonly id: string
  readonly credit_usd: string
  readonly months: number
}

export interface Period {
  readonly subscription: string
  readonly source: string
  readonly account: string
  readonly product: string
  readonly state: 'active' | 'grace' | 'ended' | 'refunded' | 'refund_reversed'
  readonly from: string
  readonly to: string
  readonly credit_usd: string
  readonly lot: string | null
}
