// The payments of all accounts, and the messages of their processors.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Link, useLocation } from 'wouter'
import { call } from '../../api/call.ts'
import type { Page } from '../../api/wire.ts'
import { TopUpTable } from '../../pages/payments/top-up-table.tsx'
import { t } from '../../strings/text.ts'
import { Badge, Empty, PageHead, Time } from '../../ui/basics.tsx'
import { Older } from '../../ui/older.tsx'
import { Table } from '../../ui/table.tsx'
import { QueryState } from '../../ui/query-state.tsx'
import type { AnyTopUp, PaymentEvent } from './wire.ts'

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

export function EventTable({ events }: { events: readonly PaymentEvent[] }) {
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
