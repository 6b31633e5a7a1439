// The payments of the account, the newest first.

import { type ReactNode, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import type { PaymentReceiptView, StatementView, TopUpView } from '../../http/payments/answers.ts'
import { useAnswer, useData, useSession, useTopUps } from '../api/call.ts'
import { day, decimal, exact, moment, money, monthName, plus, sumOf, t, usd } from '../strings/text.ts'
import {
  Button,
  Choice,
  Download,
  Failure,
  Loading,
  Logo,
  Note,
  Section,
  TextField,
  TextLink,
} from '../ui/kit.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  Table,
  wholeRow,
  wideOnly,
} from '../ui/table.tsx'
import { rateDay } from './top-up.tsx'
import { amountOf, planText, poolNames, processorName, rateOf, TopUpBadges } from './words.tsx'

export function Payments() {
  const [topUps, rows] = useTopUps()
  return (
    <Section title={t('Payments')}>
      <QueryState query={topUps} rows={2} />
      {topUps.data && rows.length === 0 && <p className="text-muted">{t('Nothing was topped up yet.')}</p>}
      {rows.length > 0 && (
        <TopUpTable
          label={t('Payments')}
          rows={rows}
          address={({ id }) => `/credits/top-ups/${id}`}
          receipt={receiptLink}
        />
      )}
      <Older list={topUps} />
    </Section>
  )
}

function receiptLink({ id, receipt }: TopUpView) {
  return <TextLink href={`/credits/top-ups/${id}/receipt`}>{receipt}</TextLink>
}

// Top-ups in a table, for the account that paid and for an operator.

/** `address` is the page of a top-up; `account` adds a column. */
export function TopUpTable<Row extends TopUpView>({
  label,
  rows,
  address,
  receipt,
  account,
}: {
  label: string
  rows: readonly Row[]
  address: (topUp: Row) => string
  receipt: (topUp: Row) => ReactNode
  account?: (topUp: Row) => ReactNode
}) {
  return (
    <Table
      label={label}
      columns={[
        t('When'),
        wideOnly(t('State')),
        ...(account ? [wideOnly(t('Account'))] : []),
        wideOnly(t('Paid with')),
        numeric(t('Amount')),
        wideOnly(numeric(t('Credit'))),
        wideOnly(t('Receipt')),
      ]}
    >
      {rows.map((topUp) => (
        <tr key={topUp.id} className="relative hover:bg-paper">
          <td className={firstOnPhones}>
            <Link href={address(topUp)} className={`${wholeRow} sm:whitespace-nowrap`}>
              {moment(topUp.created_at)}
            </Link>
            <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
              <TopUpBadges topUp={topUp} /> {account?.(topUp)}
            </span>
          </td>
          <td className={notOnPhones}>
            <TopUpBadges topUp={topUp} />
          </td>
          {account && <td className={`max-w-56 truncate ${notOnPhones}`}>{account(topUp)}</td>}
          <td className={`whitespace-nowrap ${notOnPhones}`}>{processorName(topUp.processor)}</td>
          <td className="num">
            {amountOf(topUp)}
            <span className="block text-[12.5px] text-muted sm:hidden">{usd(topUp.credit_usd)}</span>
          </td>
          <td className={`num ${notOnPhones}`}>{usd(topUp.credit_usd)}</td>
          <td className={`whitespace-nowrap ${notOnPhones}`}>
            {topUp.receipt === null ? '–' : <span className="relative">{receipt(topUp)}</span>}
          </td>
        </tr>
      ))}
    </Table>
  )
}

// The receipt of a payment, for printing: payer, payee, amount and credit. It is not a tax invoice.

export function ReceiptPage() {
  const { id } = useParams<{ id: string }>()
  const { data, error, isPending, refetch } = useAnswer<PaymentReceiptView>(
    ['top-ups', id, 'receipt'],
    `top-ups/${encodeURIComponent(id)}/receipt`,
  )
  return (
    <>
      <p className="mb-2 text-[13px] print:hidden">
        <TextLink href={`/credits/top-ups/${id}`}>{t('Top-up')}</TextLink>
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

/** The brand above who sells, where it has a logo. */
function Letterhead() {
  const { data: session } = useSession()
  const brand = session?.brand
  return brand === undefined || brand.logo === null ? null : (
    <span className="mb-1 flex items-center justify-end gap-2 font-semibold">
      <Logo src={brand.logo} /> {brand.name}
    </span>
  )
}

function Receipt({ receipt }: { receipt: PaymentReceiptView }) {
  // Only the payer's e-mail address is stored; other details are typed in for printing.
  const [name, setName] = useState('')
  const [gstin, setGstin] = useState('')
  const { seller } = receipt
  // GST is for what is paid in rupees.
  const taxed = receipt.currency === 'INR'
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
        {taxed && (
          <div className="min-w-48 flex-1">
            <TextField
              label={t('Your GSTIN on it')}
              value={gstin}
              maxLength={15}
              onChange={(event) => setGstin(event.target.value)}
            />
          </div>
        )}
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
            <Letterhead />
            <span className="block font-semibold">{seller.name ?? t('The operator of this gateway')}</span>
            {seller.address !== null && <span className="block whitespace-pre-line">{seller.address}</span>}
            {taxed && seller.gstin !== null && <span className="block">GSTIN {seller.gstin}</span>}
          </address>
        </header>
        <dl className="mt-6 border-t border-line">
          <Line name={t('Received from')}>
            {name !== '' && <span className="block">{name}</span>}
            <span className="block">{receipt.payer}</span>
            {taxed && gstin !== '' && <span className="block">GSTIN {gstin}</span>}
          </Line>
          <Line name={t('Amount received')}>
            <strong>{amountOf(receipt)}</strong>
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
            {receipt.plan === null
              ? t('{credit} of prepaid credit for model usage', { credit: usd(receipt.credit_usd) })
              : t('{period}: {credit} of credit for chats', {
                  period: planText(receipt.plan),
                  credit: usd(receipt.credit_usd),
                })}
          </Line>
          {receipt.plan === null && (
            <Line name={t('Rate')}>
              {t('{rate} for $1: {source}, {day}', {
                rate: rateOf(receipt),
                source: receipt.rate_source,
                day: rateDay(receipt.rate_as_of),
              })}
            </Line>
          )}
          <Line name={t('Credit usable until')}>{day(receipt.credit_expires_at)}</Line>
          {Number(receipt.refunded) > 0 && (
            <Line name={t('Paid back since')}>{money(receipt.refunded, receipt.currency)}</Line>
          )}
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

// The statement of a month, to read, print or save: for the account's holder and for operators.

interface Place {
  /** The path of the account's statements below `/console/api/`. */
  readonly path: string
  /** The page of them, below `/console`. */
  readonly page: string
  readonly back: { readonly href: string; readonly name: string }
  /** When the account was opened; undefined until that is known. */
  readonly since: string | undefined
}

export function StatementPage() {
  const { data } = useSession()
  return (
    <Statements
      path="credits/statements"
      page="/credits/statements"
      back={{ href: '/credits', name: t('Credits') }}
      since={data?.account?.created_at}
    />
  )
}

export function Statements({ path, page, back, since }: Place) {
  const { month = thisMonth() } = useParams<{ month?: string }>()
  const [, navigate] = useLocation()
  const at = `${path}/${encodeURIComponent(month)}`
  const { data, error, isPending, refetch } = useData<StatementView>(['statements', path, month], at)
  const months = monthsSince(since, month)
  return (
    <>
      <p className="mb-2 text-[13px] print:hidden">
        <Link href={back.href} className="min-w-0 text-accent underline break-words">
          {back.name}
        </Link>
      </p>
      <div className="card mb-4 flex flex-wrap items-end gap-3 p-4 print:hidden">
        <div className="min-w-48 flex-1">
          <Choice
            label={t('Month')}
            value={month}
            options={months.map((name) => [name, monthName(name)])}
            onChange={(event) => navigate(`${page}/${event.target.value}`)}
          />
        </div>
        <Download path={`${at}/entries.csv`}>{t('Every entry as CSV')}</Download>
        <Button look="primary" disabled={!data} onClick={() => print()}>
          {t('Print')}
        </Button>
      </div>
      {isPending && <Loading />}
      {error && (
        <>
          <h1 className="mb-4 text-xl font-semibold">{t('Statement')}</h1>
          <Failure error={error} retry={() => void refetch()} />
        </>
      )}
      {data && <Statement statement={data} />}
    </>
  )
}

function Statement({ statement }: { statement: StatementView }) {
  const { opening, closing, totals, credit_line: line } = statement
  return (
    <article className="card p-6 max-sm:p-4 print:border-0 print:p-0">
      <header className="mb-4 flex flex-wrap justify-between gap-x-6 gap-y-2">
        <div>
          <h1 className="text-xl font-semibold">
            {t('Statement for {month}', { month: monthName(statement.month) })}
          </h1>
          <p className="text-muted">
            {statement.complete ? t('Days are in UTC.') : t('The month is not over. Days are in UTC.')}
          </p>
        </div>
        <div className="min-w-0 sm:text-right">
          <p className="break-all">{statement.email}</p>
          <p className="font-mono text-[12px] break-all text-muted">{statement.account}</p>
        </div>
      </header>
      <Table
        label={t('Sums of the month')}
        columns={[
          t('US dollars'),
          numeric(t('Credit')),
          wideOnly(numeric(t('Owed'))),
          wideOnly(numeric(t('Balance'))),
        ]}
      >
        <SumRow name={t('Opening')} sum={opening} strong />
        {totals.map((total) => (
          <SumRow key={total.kind} name={t(kindNames[total.kind])} sum={total} />
        ))}
        <SumRow name={t('Closing')} sum={closing} strong />
      </Table>
      <div className="mt-3 grid gap-2">
        {addsUp(statement) ? (
          <p className="text-muted">{t('Opening and all movements add up to closing, to the last digit.')}</p>
        ) : (
          <Note tone="bad">{t('These figures do not add up: tell the operator of this gateway.')}</Note>
        )}
        {(Number(closing.owed) > 0 || line !== null) && <Owed owed={closing.owed} line={line} />}
      </div>
      {statement.receipts.length > 0 && <Receipts statement={statement} />}
      {statement.days.length > 0 && <Days statement={statement} />}
    </article>
  )
}

function Owed({ owed, line }: { owed: string; line: string | null }) {
  const of =
    line === null
      ? t('It owes {amount}: the next top-up pays it first.', { amount: usd(owed) })
      : line === 'unlimited'
        ? t('It owes {amount}, on a credit line without limit.', { amount: usd(owed) })
        : t('It owes {amount} of a credit line of {line}.', { amount: usd(owed), line: usd(line) })
  return <p className="font-medium">{of}</p>
}

interface SumRowProps {
  readonly name: string
  readonly sum: StatementView['opening']
  readonly strong?: boolean
}

function SumRow({ name, sum, strong = false }: SumRowProps) {
  return (
    <tr className={strong ? 'font-semibold' : ''}>
      <th scope="row" className={`sm:min-w-32 ${strong ? 'font-semibold' : 'font-normal'}`}>
        {name}
      </th>
      <td className="num">
        {amount(sum.credit)}
        {Number(sum.owed) !== 0 && (
          <span className="block text-[12.5px] text-muted sm:hidden">
            {t('owed {amount}', { amount: usd(sum.owed) })}
          </span>
        )}
      </td>
      <td className={`num ${notOnPhones}`}>{amount(sum.owed)}</td>
      <td className={`num ${notOnPhones}`}>{amount(sum.balance)}</td>
    </tr>
  )
}

function Receipts({ statement }: { statement: StatementView }) {
  return (
    <Section title={t('Payments')}>
      <Table
        label={t('Payments')}
        columns={[
          wideOnly(t('Day')),
          t('Receipt'),
          wideOnly(t('Payment')),
          numeric(t('Paid')),
          wideOnly(numeric(t('Paid back since'))),
          wideOnly(numeric(t('Credit'))),
        ]}
      >
        {statement.receipts.map((receipt) => (
          <tr key={receipt.payment_id}>
            <td className={`${notOnPhones} whitespace-nowrap`}>{day(receipt.credited_at)}</td>
            <td className={`sm:whitespace-nowrap ${firstOnPhones}`}>
              {receipt.receipt ?? '–'}
              <span className="block text-[12.5px] text-muted sm:hidden">{day(receipt.credited_at)}</span>
              {receipt.plan !== null && (
                <span className="block text-[12.5px] text-muted sm:hidden">{receipt.plan}</span>
              )}
              <span className="block font-mono text-[12px] break-all text-muted sm:hidden">
                {receipt.payment_id}
              </span>
            </td>
            <td className={`${notOnPhones} font-mono text-[12px]`}>
              {receipt.plan !== null && <span className="block font-sans text-[13px]">{receipt.plan}</span>}
              {receipt.payment_id}
            </td>
            <td className="num">
              {receipt.amount === null ? '–' : moneyOf(receipt, receipt.amount)}
              <span className="block text-[12.5px] text-muted sm:hidden">{usd(receipt.credit_usd)}</span>
              {Number(receipt.refunded ?? 0) > 0 && (
                <span className="block text-[12.5px] text-muted sm:hidden">
                  −{moneyOf(receipt, receipt.refunded!)}
                </span>
              )}
            </td>
            <td className={`num ${notOnPhones}`}>
              {Number(receipt.refunded ?? 0) === 0 ? '–' : moneyOf(receipt, receipt.refunded!)}
            </td>
            <td className={`num ${notOnPhones}`}>{usd(receipt.credit_usd)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  )
}

function moneyOf({ currency }: StatementView['receipts'][number], amount: string): string {
  return currency === null ? amount : money(amount, currency)
}

function Days({ statement }: { statement: StatementView }) {
  return (
    <Section title={t('By day')}>
      <Table
        label={t('By day')}
        columns={[
          t('Day'),
          wideOnly(t('What')),
          wideOnly(t('Pool')),
          wideOnly(numeric(t('Entries'))),
          numeric(t('Credit')),
          wideOnly(numeric(t('Owed'))),
        ]}
      >
        {statement.days.map((movement) => (
          <tr key={`${movement.day} ${movement.kind} ${movement.pool}`} className="break-inside-avoid">
            <td className={`sm:whitespace-nowrap ${firstOnPhones}`}>
              {movement.day}
              <span className="mt-0.5 flex flex-wrap gap-x-2 text-[12.5px] text-muted sm:hidden">
                <span>{t(kindNames[movement.kind])}</span>
                <span>{t(poolNames[movement.pool])}</span>
              </span>
            </td>
            <td className={`${notOnPhones} whitespace-nowrap`}>{t(kindNames[movement.kind])}</td>
            <td className={`${notOnPhones} whitespace-nowrap`}>{t(poolNames[movement.pool])}</td>
            <td className={`num ${notOnPhones}`}>{movement.entries}</td>
            <td className="num">
              {amount(movement.credit)}
              {Number(movement.owed) !== 0 && (
                <span className="block text-[12.5px] text-muted sm:hidden">
                  {t('owed {amount}', { amount: usd(movement.owed) })}
                </span>
              )}
            </td>
            <td className={`num ${notOnPhones}`}>{amount(movement.owed)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  )
}

export const kindNames: Readonly<Record<StatementView['days'][number]['kind'], string>> = {
  grant: 'Credit added',
  settle: 'Calls',
  expire: 'Expired',
  refund: 'Paid back',
  adjust: 'Corrected',
  repay: 'Debt repaid',
  borrow: 'Lent on the credit line',
}

function amount(text: string): string {
  return Number(text) === 0 ? '–' : usd(text)
}

/** Added up here, not taken from the server's word. */
function addsUp({ opening, closing, totals, days }: StatementView): boolean {
  return [totals, days].every((movements) =>
    (['credit', 'owed', 'balance'] as const).every(
      (part) =>
        decimal(plus(exact(opening[part]), sumOf(movements.map((movement) => movement[part])))) ===
        closing[part],
    ),
  )
}

function thisMonth(): string {
  return new Date().toISOString().slice(0, 7)
}

/** The newest first; with the one that is shown, wherever it lies. */
function monthsSince(since: string | undefined, shown: string): string[] {
  const months = new Set([thisMonth(), shown])
  const from = since?.slice(0, 7) ?? thisMonth()
  for (const at = new Date(`${thisMonth()}-01`); at.toISOString().slice(0, 7) >= from;) {
    months.add(at.toISOString().slice(0, 7))
    at.setUTCMonth(at.getUTCMonth() - 1)
  }
  return [...months].toSorted().toReversed()
}
