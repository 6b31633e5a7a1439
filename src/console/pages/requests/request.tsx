// One request: what became of it, why it was refused, and its receipt, which adds up.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useParams } from 'wouter'
import { call } from '../../api/call.ts'
import type { Receipt, RequestWhole } from '../../api/wire.ts'
import { count, countOf, milliseconds, moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Copy, Fact, Failure, Loading, PageHead, Section } from '../../ui/basics.tsx'
import { csvLine } from '../../../csv.ts'
import { saveFile } from '../../ui/save-file.ts'
import { numeric, Table } from '../../ui/table.tsx'
import { poolName } from '../credits/pools.ts'
import { addUp } from './add-up.ts'
import { Explanation } from './explanation.tsx'
import { Outcome } from './request-table.tsx'

export function RequestPage() {
  const { id } = useParams<{ id: string }>()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['request', id],
    queryFn: async () =>
      (await call<{ data: RequestWhole }>('GET', `requests/${encodeURIComponent(id)}`)).data,
  })
  return (
    <>
      <p className="mb-2 text-[13px]">
        <Link href="/requests" className="text-accent underline">
          {t('Requests')}
        </Link>
      </p>
      {isPending && <Loading />}
      {error && (
        <>
          <PageHead title={t('Request')} />
          <Failure error={error} retry={() => void refetch()} />
        </>
      )}
      {data && <Whole request={data} />}
    </>
  )
}

function Whole({ request }: { request: RequestWhole }) {
  const { receipt } = request
  return (
    <>
      <PageHead title={request.model ?? t('Request')}>
        <Outcome row={request} />
      </PageHead>
      <p className="-mt-3 mb-4 flex flex-wrap items-center gap-2 font-mono text-[12.5px] break-all text-muted">
        {request.id} <Copy text={request.id} look="quiet" label={t('Copy the id')} />
      </p>
      <dl className="card grid grid-cols-2 gap-x-4 gap-y-3 p-4 sm:grid-cols-4">
        <Fact name={t('Ended')}>{moment(request.ended_at)}</Fact>
        <Fact name={t('Provider')}>{request.provider ?? '–'}</Fact>
        <Fact name={t('Streamed')}>{request.stream ? t('yes') : t('no')}</Fact>
        <Fact name={t('Attempts')}>{request.attempts}</Fact>
        <Fact name={t('First byte')}>
          {request.first_byte_ms === null ? '–' : milliseconds(request.first_byte_ms)}
        </Fact>
        <Fact name={t('Total time')}>{milliseconds(request.total_ms)}</Fact>
        <Fact name={t('Tokens')}>
          {count(request.prompt_tokens)} → {count(request.completion_tokens)}
        </Fact>
        <Fact name={t('Cost')}>{usd(request.cost)}</Fact>
      </dl>
      {request.code !== null && <Explanation request={request} />}
      {receipt && receipt.attempts.length > 0 && <Attempts receipt={receipt} />}
      {receipt && receipt.state !== 'open' && receipt.lines.length > 0 && <ReceiptOf receipt={receipt} />}
      {receipt && receipt.state !== 'open' && receipt.lines.length === 0 && (
        <Section title={t('Receipt')}>
          <p className="text-muted">{t('Nothing was charged for it.')}</p>
        </Section>
      )}
    </>
  )
}

function ReceiptOf({ receipt }: { receipt: Receipt }) {
  const [checked, setChecked] = useState(false)
  const steps = checked ? addUp(receipt) : []
  const wrong = steps.filter(({ holds }) => !holds)
  // The model is called again after each round of tool results.
  const rounds = Math.max(1, ...receipt.lines.map(({ round = 1 }) => round))
  return (
    <Section
      title={t('Receipt')}
      side={
        <>
          {receipt.mode === 'test' && <Badge tone="warn">{t('test: free')}</Badge>}
          {receipt.usage?.estimated && <Badge tone="warn">{t('estimated')}</Badge>}
          <Button small onClick={() => setChecked(true)}>
            {t('Check it')}
          </Button>
          <Button small onClick={() => saveCsv(receipt)}>
            CSV
          </Button>
        </>
      }
    >
      <Table
        label={t('Receipt')}
        columns={[t('Item'), numeric(t('Quantity')), numeric(t('× rate')), numeric(t('= amount'))]}
      >
        {receipt.lines.map((line, index) => (
          <tr key={index}>
            <td>
              {line.item}
              {rounds > 1 && (
                <span className="text-muted"> · {t('round {round}', { round: line.round ?? 1 })}</span>
              )}
            </td>
            <td className="num">{count(line.quantity)}</td>
            <td className="num text-muted">{line.rate}</td>
            <td className="num">{line.amount}</td>
          </tr>
        ))}
        <tr className="font-semibold">
          <td colSpan={3}>{t('Total')}</td>
          <td className="num">{receipt.total}</td>
        </tr>
        {receipt.absorbed !== '0' && (
          <tr>
            <td colSpan={3}>{t('Paid by the operator')}</td>
            <td className="num">{receipt.absorbed}</td>
          </tr>
        )}
        {receipt.on_credit !== '0' && (
          <tr>
            <td colSpan={3}>{t('Owed, on the credit line')}</td>
            <td className="num">{receipt.on_credit}</td>
          </tr>
        )}
        {receipt.drawn.map(({ pool, lot, amount }) => (
          <tr key={lot}>
            <td colSpan={3}>
              {t('Paid from {pool}', { pool: poolName(pool) })}{' '}
              <span className="font-mono text-[12px] text-muted">{lot}</span>
            </td>
            <td className="num">{amount}</td>
          </tr>
        ))}
      </Table>
      <p className="mt-2 text-[12.5px] text-muted">
        {t('US dollars. Prices: {version}.', { version: receipt.price_version })}
        {receipt.unpriced.length > 0 &&
          ` ${t('Charged at the standard rate: {what}.', { what: receipt.unpriced.join(', ') })}`}
      </p>
      {checked && (
        <div
          role="status"
          className={`mt-3 rounded-md px-3 py-2 ${wrong.length === 0 ? 'bg-good-soft' : 'bg-bad-soft'}`}
        >
          <p className="font-medium">
            {wrong.length === 0
              ? countOf(
                  steps.length,
                  'It adds up: {count} sum, computed in your browser without rounding.',
                  'It adds up: {count} sums, computed in your browser without rounding.',
                )
              : countOf(
                  wrong.length,
                  'It does not add up: {count} sum is wrong. Please report this.',
                  'It does not add up: {count} sums are wrong. Please report this.',
                )}
          </p>
          <ul className="mt-1 font-mono text-[12px]">
            {steps.map(({ says, holds }, index) => (
              <li key={index}>
                <span aria-label={holds ? t('right') : t('wrong')}>{holds ? '✓' : '✗'}</span> {says}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Section>
  )
}

function Attempts({ receipt }: { receipt: Receipt }) {
  return (
    <Section title={t('Attempts')}>
      <Table
        label={t('Attempts')}
        columns={[t('Provider'), t('Outcome'), t('Reason'), t('Its id'), numeric(t('Time'))]}
      >
        {receipt.attempts.map((attempt, index) => (
          <tr key={index}>
            <td>{attempt.provider}</td>
            <td className="whitespace-nowrap">
              <Badge tone={attempt.code === null ? 'good' : 'warn'}>
                {attempt.status ?? ''} {attempt.code ?? attempt.outcome}
              </Badge>
            </td>
            <td className="max-w-80 break-words text-muted">{attempt.reason ?? '–'}</td>
            <td className="max-w-48 truncate font-mono text-[12px] text-muted">
              {attempt.upstream_id ?? '–'}
            </td>
            <td className="num">{milliseconds(attempt.ms)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  )
}

function saveCsv(receipt: Receipt): void {
  const rows = [
    ['item', 'quantity', 'rate', 'amount'],
    ...receipt.lines.map(({ item, quantity, rate, amount }) => [item, String(quantity), rate, amount]),
    ['total', '', '', receipt.total],
    ...receipt.drawn.map(({ pool, lot, amount }) => [`from ${pool} ${lot}`, '', '', amount]),
    ...(receipt.on_credit === '0' ? [] : [['on the credit line', '', '', receipt.on_credit]]),
  ]
  saveFile(`${receipt.id}.csv`, 'text/csv', rows.map(csvLine).join(''))
}
