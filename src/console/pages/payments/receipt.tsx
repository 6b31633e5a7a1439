// The receipt of a payment, for printing: payer, payee, amount and credit. It is not a tax invoice.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link, useParams } from 'wouter'
import { call } from '../../api/call.ts'
import type { PaymentReceipt } from '../../api/payments.ts'
import { day, moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Button, Failure, Loading } from '../../ui/basics.tsx'
import { TextField } from '../../ui/form.tsx'
import { rateDay } from './top-up.tsx'
import { inr, processorName } from '../words.tsx'

export function ReceiptPage() {
  const { id } = useParams<{ id: string }>()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['top-ups', id, 'receipt'],
    queryFn: () => call<PaymentReceipt>('GET', `top-ups/${encodeURIComponent(id)}/receipt`),
  })
  return (
    <>
      <p className="mb-2 text-[13px] print:hidden">
        <Link href={`/credits/top-ups/${id}`} className="text-accent underline">
          {t('Top-up')}
        </Link>
      </p>
      {isPending && <Loading />}
      {error && (
        <>
          <h1 className="mb-4 text-xl font-semibold">{t('Payment receipt')}</h1>
          <Failure error={error} retry={() => void refetch()} />
        </>
      )}
      {data && <Receipt receipt={data} />}
    </>
  )
}

function Receipt({ receipt }: { receipt: PaymentReceipt }) {
  // Only the payer's e-mail address is stored; other details are typed in for printing.
  const [name, setName] = useState('')
  const [gstin, setGstin] = useState('')
  const { seller } = receipt
  return (
    <>
      <div className="card mb-4 flex flex-wrap items-end gap-3 p-4 print:hidden">
        <div className="min-w-48 flex-1">
          <TextField
            label={t('Your name on it')}
            value={name}
            maxLength={200}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="min-w-48 flex-1">
          <TextField
            label={t('Your GSTIN on it')}
            value={gstin}
            maxLength={15}
            onChange={(event) => setGstin(event.target.value)}
          />
        </div>
        <Button look="primary" onClick={() => print()}>
          {t('Print')}
        </Button>
      </div>
      <article className="card max-w-2xl p-6 print:max-w-none print:border-0 print:p-0">
        <header className="flex flex-wrap justify-between gap-4">
          <div>
            <h1 className="text-xl font-semibold">{t('Payment receipt')}</h1>
            <p className="font-mono">{receipt.receipt}</p>
          </div>
          <address className="text-right not-italic">
            <span className="block font-semibold">{seller.name ?? t('The operator of this gateway')}</span>
            {seller.address !== null && <span className="block whitespace-pre-line">{seller.address}</span>}
            {seller.gstin !== null && <span className="block">GSTIN {seller.gstin}</span>}
          </address>
        </header>
        <dl className="mt-6 border-t border-line">
          <Line name={t('Received from')}>
            {name !== '' && <span className="block">{name}</span>}
            <span className="block">{receipt.payer}</span>
            {gstin !== '' && <span className="block">GSTIN {gstin}</span>}
          </Line>
          <Line name={t('Amount received')}>
            <strong>{inr(receipt.amount)}</strong>
          </Line>
          <Line name={t('Paid on')}>{receipt.paid_at === null ? '–' : moment(receipt.paid_at)}</Line>
          <Line name={t('Paid with')}>
            {processorName(receipt.processor)}
            {receipt.method !== null && `, ${receipt.method}`}
          </Line>
          <Line name={t('Payment')}>
            <span className="font-mono break-all">{receipt.payment_id}</span>
          </Line>
          <Line name={t('For')}>
            {t('{credit} of prepaid credit for model usage', { credit: usd(receipt.credit_usd) })}
          </Line>
          <Line name={t('Rate')}>
            {t('₹{rate} for $1: {source}, {day}', {
              rate: receipt.rate,
              source: receipt.rate_source,
              day: rateDay(receipt.rate_as_of),
            })}
          </Line>
          <Line name={t('Credit usable until')}>{day(receipt.credit_expires_at)}</Line>
          {Number(receipt.refunded) > 0 && <Line name={t('Paid back since')}>{inr(receipt.refunded)}</Line>}
          <Line name={t('Top-up')}>
            <span className="font-mono break-all">{receipt.id}</span>
          </Line>
        </dl>
        <p className="mt-4 text-[12.5px] text-muted">
          {t('This is a receipt of a payment and no tax invoice.')}
        </p>
      </article>
    </>
  )
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[9rem_1fr] gap-3 border-b border-line py-2">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </div>
  )
}
