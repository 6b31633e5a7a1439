// The payments of all accounts, and the messages of their processors.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import type { AccountView } from '../../http/admin/answers.ts'
import type { Page } from '../../http/console/answers.ts'
import type {
  PaymentEventView,
  PeriodView,
  SubscriptionsView,
  TopUpDetailView,
  TopUpOfOperatorView,
} from '../../http/payments/answers.ts'
import {
  call,
  CallError,
  newId,
  refresh,
  relayedAnswerWithinMs,
  useAnswer,
  useData,
  usePages,
} from '../api/call.ts'
import { TopUpTable } from '../pages/payments.tsx'
import {
  amountOf,
  planText,
  problems,
  processorName,
  processors,
  rateOf,
  TopUpBadges,
} from '../pages/words.tsx'
import { elevate } from '../session/signed-out.tsx'
import { countOf, day, decimal, exact, moment, money, plus, t, usd } from '../strings/text.ts'
import {
  ActForm,
  Back,
  Badge,
  Button,
  Choice,
  Dialog,
  Empty,
  Fact,
  Failure,
  Note,
  PageHead,
  RowButton,
  Section,
  TextField,
  TextLink,
  textOf,
  Time,
  useAct,
} from '../ui/kit.tsx'
import {
  Filters,
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  screenReaderOnly,
  Table,
  useFilters,
  wideOnly,
} from '../ui/table.tsx'

const parts = [
  ['/operator/payments', 'Top-ups'],
  ['/operator/payments/messages', 'Messages'],
  ['/operator/payments/vouchers', 'Vouchers'],
  ['/operator/payments/plans', 'Plans'],
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

const topUpStateNames: Readonly<Record<TopUpOfOperatorView['state'], string>> = {
  open: 'open',
  paid: 'paid',
  credited: 'credited',
  failed: 'failed',
  expired: 'expired',
  refunded_part: 'refunded in part',
  refunded: 'refunded',
  disputed: 'disputed',
}
const paymentFilters = ['account', 'state', 'processor', 'problem', 'from', 'to'] as const

export function AllPayments() {
  const chosen = useFilters(paymentFilters)
  const [list, rows] = usePages<TopUpOfOperatorView>(
    ['admin', 'top-ups', chosen.toString()],
    'admin/top-ups',
    chosen,
  )
  return (
    <>
      <PaymentsHead />
      <Filters
        label={t('Top-ups')}
        fields={[
          { name: 'account', label: t('Account'), placeholder: t('Address or id') },
          {
            name: 'state',
            label: t('State'),
            options: [
              ['', t('every state')],
              ...Object.entries(topUpStateNames).map(([value, name]) => [value, t(name)] as const),
            ],
          },
          {
            name: 'processor',
            label: t('Paid with'),
            options: [
              ['', t('every processor')],
              ...processors.map((id) => [id, processorName(id)] as const),
            ],
          },
          {
            name: 'problem',
            label: t('Problem'),
            options: [
              ['', t('with or without')],
              ['yes', t('to be looked at')],
            ],
          },
          { name: 'from', label: t('From'), type: 'date' },
          { name: 'to', label: t('To'), type: 'date' },
        ]}
      />
      <QueryState query={list} />
      {list.data && rows.length === 0 && (
        <Empty title={chosen.size === 0 ? t('Nothing was topped up yet.') : t('No payment matches.')} />
      )}
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

function receiptOf({ receipt }: TopUpOfOperatorView) {
  return receipt
}

function accountOf({ account, account_email }: TopUpOfOperatorView) {
  return <AccountLink id={account} email={account_email} />
}

export function AccountLink({ id, email = null }: { id: string; email?: string | null }) {
  return (
    <Link
      href={`/operator/accounts/${id}`}
      title={id}
      className={`relative text-accent underline ${email === null ? 'font-mono text-[12px]' : ''}`}
    >
      {email ?? id}
    </Link>
  )
}

export function Messages() {
  const { data, error, isPending, refetch } = useAnswer<{ data: readonly PaymentEventView[] }>(
    ['admin', 'payment-events'],
    'admin/payment-events',
  )
  return (
    <>
      <PaymentsHead />
      <QueryState query={{ error, isPending, refetch }} />
      {data?.data.length === 0 && <Empty title={t('No processor has sent a message yet.')} />}
      {data && data.data.length > 0 && <EventTable events={data.data} />}
    </>
  )
}

const outcomes: Readonly<Record<PaymentEventView['outcome'], 'good' | 'warn' | 'bad' | 'plain'>> = {
  received: 'warn',
  waiting: 'warn',
  unmatched: 'bad',
  applied: 'good',
  ignored: 'plain',
  refused: 'bad',
}

function EventTable({ events }: { events: readonly PaymentEventView[] }) {
  return (
    <Table
      label={t('Messages')}
      columns={[
        wideOnly(t('When')),
        t('Type'),
        t('Outcome'),
        wideOnly(t('Top-up')),
        wideOnly(t('Payment')),
        wideOnly(t('Id')),
      ]}
    >
      {events.map((event) => (
        <tr key={`${event.processor} ${event.id}`}>
          <td className={notOnPhones}>
            <Time at={event.at} />
          </td>
          <td className={`font-mono text-[12px] sm:whitespace-nowrap ${firstOnPhones}`}>
            <span className="break-words">
              {event.processor} {event.type}
            </span>
            <span className="block text-muted sm:hidden">
              {event.top_up !== null && (
                <Link
                  href={`/operator/payments/${event.top_up}`}
                  className="block text-accent underline break-all"
                >
                  {event.top_up}
                </Link>
              )}
              <span className="block break-all">{event.payment_id}</span>
              <Time at={event.at} />
            </span>
          </td>
          <td>
            <Badge tone={outcomes[event.outcome]}>{t(event.outcome)}</Badge>
          </td>
          <td className={`font-mono text-[12px] whitespace-nowrap ${notOnPhones}`}>
            {event.top_up === null ? (
              '–'
            ) : (
              <TextLink href={`/operator/payments/${event.top_up}`}>{event.top_up}</TextLink>
            )}
          </td>
          <td className={`font-mono text-[12px] whitespace-nowrap ${notOnPhones}`}>
            {event.payment_id ?? '–'}
          </td>
          <td className={`font-mono text-[12px] whitespace-nowrap ${notOnPhones}`}>{event.id}</td>
        </tr>
      ))}
    </Table>
  )
}

// One top-up, for operators: its messages, its refunds, and what can be done.

export function PaymentPage() {
  const { id } = useParams<{ id: string }>()
  const path = `admin/top-ups/${encodeURIComponent(id)}`
  const query = useData<TopUpDetailView>(['admin', 'top-up', id], path)
  return (
    <>
      <Back href="/operator/payments">{t('Payments')}</Back>
      <QueryState query={query} title={t('Top-up')} />
      {query.data && <Whole topUp={query.data} path={path} />}
    </>
  )
}

function Whole({ topUp, path }: { topUp: TopUpDetailView; path: string }) {
  const { error, busy, act } = useAct()
  const [refunding, setRefunding] = useState(false)
  const reconcile = () =>
    act(async () => {
      await call('POST', `${path}/reconcile`, undefined, { withinMs: relayedAnswerWithinMs })
      await refresh('admin')
    })
  const canRefund = ['credited', 'refunded_part', 'disputed'].includes(topUp.state)
  return (
    <>
      <PageHead title={t('Top-up of {amount}', { amount: amountOf(topUp) })}>
        <TopUpBadges topUp={topUp} />
      </PageHead>
      {topUp.problem !== null && (
        <div className="mb-4">
          <Note tone="bad">{t(problems[topUp.problem] ?? topUp.problem)}</Note>
        </div>
      )}
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact mono name={t('Id')}>
          {topUp.id}
        </Fact>
        <Fact name={t('Account')}>
          <span className="break-all">
            <AccountLink id={topUp.account} email={topUp.account_email} />
          </span>
        </Fact>
        <Fact name={t('Credit')}>{usd(topUp.credit_usd)}</Fact>
        {topUp.plan === null ? (
          <Fact name={t('Rate')}>{`${rateOf(topUp)}, ${topUp.rate_source}, ${topUp.rate_as_of}`}</Fact>
        ) : (
          <Fact name={t('Plan')}>{planText(topUp.plan)}</Fact>
        )}
        <Fact name={t('Processor')}>{processorName(topUp.processor)}</Fact>
        <Fact mono name={t('Page')}>
          {topUp.reference ?? '–'}
        </Fact>
        <Fact mono name={t('Payment')}>
          {topUp.payment_id ?? '–'}
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

function Reversals({ topUp }: { topUp: TopUpDetailView }) {
  return (
    <Section title={t('Taken back')}>
      <Table
        label={t('Taken back')}
        columns={[
          wideOnly(t('When')),
          t('What'),
          wideOnly(t('Id')),
          numeric(t('Amount')),
          wideOnly(numeric(t('Credit'))),
          wideOnly(t('Ledger')),
        ]}
      >
        {topUp.reversals.map((reversal) => (
          <tr key={reversal.id}>
            <td className={notOnPhones}>
              <Time at={reversal.at} />
            </td>
            <td className={firstOnPhones}>
              <Badge tone="warn">{t(reversal.kind.replace('_', ' '))}</Badge>
              <span className="mt-0.5 block text-[12.5px] text-muted sm:hidden">
                {reversal.booked ? t('booked') : t('to be booked')}, <Time at={reversal.at} />
                <span className="block font-mono text-[12px] break-all">{reversal.id}</span>
              </span>
            </td>
            <td className={`font-mono text-[12px] ${notOnPhones}`}>{reversal.id}</td>
            <td className="num">
              {money(reversal.amount, topUp.currency)}
              <span className="block text-[12.5px] text-muted sm:hidden">{usd(reversal.credit_usd)}</span>
            </td>
            <td className={`num ${notOnPhones}`}>{usd(reversal.credit_usd)}</td>
            <td className={notOnPhones}>{reversal.booked ? t('booked') : t('to be booked')}</td>
          </tr>
        ))}
      </Table>
    </Section>
  )
}

function Refund({ topUp, path, onClose }: { topUp: TopUpDetailView; path: string; onClose: () => void }) {
  // If the answer was lost, the same refund is sent again with this id and made once.
  const [id] = useState(() => newId())
  const rest = decimal(plus(exact(topUp.amount), exact(`-${topUp.refunded}`)))
  const refund = async (given: FormData) => {
    const amount = textOf(given, 'amount') ?? rest
    await elevate(() => call('POST', `${path}/refund`, { id, amount }, { withinMs: relayedAnswerWithinMs }))
    await refresh('admin')
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
              label={t('Amount in {currency}', { currency: topUp.currency })}
              name="amount"
              inputMode="decimal"
              hint={t('Empty: all that is left, {amount}.', { amount: money(rest, topUp.currency) })}
              error={faultOf('amount')}
            />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}

// Answers of the API for operators about payments.

// Periods of subscriptions that are sold elsewhere: granted and ended by hand.

const subscriptionTones: Readonly<Record<PeriodView['state'], 'good' | 'warn' | 'plain' | 'bad'>> = {
  active: 'good',
  grace: 'warn',
  ended: 'plain',
  refunded: 'bad',
  refund_reversed: 'good',
}

export function Subscriptions() {
  const [granting, setGranting] = useState(false)
  const [ending, setEnding] = useState<PeriodView | null>(null)
  const { data, error, isPending, refetch } = useAnswer<SubscriptionsView>(
    ['admin', 'subscriptions'],
    'admin/subscriptions',
  )
  const periods = data?.data
  return (
    <>
      <PaymentsHead>
        <Button look="primary" onClick={() => setGranting(true)}>
          {t('Grant a period')}
        </Button>
      </PaymentsHead>
      <QueryState query={{ error, isPending, refetch }} />
      {periods?.length === 0 && (
        <Empty title={t('There are no subscriptions.')}>
          <p>
            {t('Their seller sends signed messages to /hooks/subscriptions, or a period is granted here.')}
          </p>
        </Empty>
      )}
      {periods && periods.length > 0 && (
        <Table
          label={t('Subscriptions')}
          columns={[
            t('Subscription'),
            wideOnly(t('State')),
            wideOnly(t('Account')),
            wideOnly(t('Product')),
            wideOnly(t('From')),
            wideOnly(t('To')),
            numeric(t('Credit')),
            screenReaderOnly(t('Actions')),
          ]}
        >
          {periods.map((period) => (
            <tr key={`${period.source} ${period.subscription} ${period.product} ${period.from} ${period.to}`}>
              <td className={firstOnPhones}>
                <span className="font-mono text-[12px] break-all">
                  {period.source} {period.subscription}
                </span>
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <Badge tone={subscriptionTones[period.state]}>{t(period.state.replace('_', ' '))}</Badge>
                  <AccountLink id={period.account} />
                  <span>{period.product}</span>
                  <span>
                    {day(period.from)} – {day(period.to)}
                  </span>
                </span>
              </td>
              <td className={notOnPhones}>
                <Badge tone={subscriptionTones[period.state]}>{t(period.state.replace('_', ' '))}</Badge>
              </td>
              <td className={notOnPhones}>
                <AccountLink id={period.account} />
              </td>
              <td className={notOnPhones}>{period.product}</td>
              <td className={`whitespace-nowrap ${notOnPhones}`}>{day(period.from)}</td>
              <td className={`whitespace-nowrap ${notOnPhones}`}>{day(period.to)}</td>
              <td className="num">{usd(period.credit_usd)}</td>
              <td className="text-right">
                {(period.state === 'active' || period.state === 'grace') && (
                  <RowButton
                    look="danger"
                    label={t('End {name}', { name: period.subscription })}
                    onClick={() => setEnding(period)}
                  >
                    {t('End')}
                  </RowButton>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {granting && <Granting products={data?.products ?? []} onClose={() => setGranting(false)} />}
      {ending && <Ending period={ending} onClose={() => setEnding(null)} />}
    </>
  )
}

const tenYearsMs = 3_650 * 86_400_000

function Granting({ products, onClose }: { products: SubscriptionsView['products']; onClose: () => void }) {
  // If the answer was lost, the same period is sent again and granted once: these two name it.
  const [{ subscription, begins }] = useState(() => ({
    subscription: `sub_${newId().slice(0, 18)}`,
    begins: Date.now(),
  }))
  const [typed, setTyped] = useState('')
  const accounts = useAccountsLike(typed)
  const grant = async (given: FormData) => {
    const until = textOf(given, 'to')
    const body = {
      subscription,
      source: 'manual',
      account: await accountIdOf(typed),
      product: textOf(given, 'product'),
      period: {
        from: new Date(begins).toISOString(),
        // The gateway cuts it to the length of the product.
        to: until === undefined ? new Date(begins + tenYearsMs).toISOString() : `${until}T23:59:59Z`,
      },
      state: 'active',
    }
    await elevate(() => call('POST', 'admin/subscriptions', body))
    await refresh('admin')
    onClose()
  }
  if (products.length === 0)
    return (
      <Dialog title={t('Grant a period')} onClose={onClose}>
        <p>{t('No product is set: subscriptions.products in the configuration says what is sold.')}</p>
      </Dialog>
    )
  return (
    <Dialog title={t('Grant a period')} onClose={onClose}>
      <ActForm onSubmit={grant} action={t('Grant')} fields={['account']}>
        {(faultOf) => (
          <>
            <TextField
              label={t('Account')}
              name="account"
              list={accountList}
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              autoComplete="off"
              required
              maxLength={254}
              hint={t('Its e-mail address or id.')}
              error={faultOf('account')}
            />
            <datalist id={accountList}>
              {accounts.map(({ id, email }) => (
                <option key={id} value={email}>
                  {id}
                </option>
              ))}
            </datalist>
            <Choice
              label={t('Product')}
              name="product"
              options={products.map(({ id, credit_usd: credit, months }) => [
                id,
                countOf(months, '{name}, a month: {credit}', '{name}, {count} months: {credit}', {
                  name: id,
                  credit: usd(credit),
                }),
              ])}
            />
            <TextField
              label={t('Ends')}
              name="to"
              type="date"
              hint={t('Empty: as long as the product says.')}
            />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}

const accountList = 'accounts-like'

function useAccountsLike(typed: string): readonly AccountView[] {
  const { data } = useQuery({
    queryKey: ['admin', 'accounts-like', typed],
    queryFn: () => accountsLike(typed),
    placeholderData: (before) => before,
  })
  return data ?? []
}

async function accountsLike(text: string): Promise<readonly AccountView[]> {
  const asked = new URLSearchParams({ limit: '20', ...(text === '' ? {} : { q: text }) })
  return (await call<Page<AccountView>>('GET', `admin/accounts?${asked}`)).data
}

/** The id of the account with this address or id. If there is none, throws an error for the field. */
export async function accountIdOf(typed: string): Promise<string> {
  const text = typed.trim().toLowerCase()
  const found = (await accountsLike(text)).find(
    ({ id, email }) => email.toLowerCase() === text || id.toLowerCase() === text,
  )
  if (found) return found.id
  const message = t('There is no account of this address.')
  throw new CallError({ status: 404, code: 'not_found', message, param: 'account', metadata: {} })
}

function Ending({ period, onClose }: { period: PeriodView; onClose: () => void }) {
  const { error, busy, act } = useAct()
  const { source, subscription } = period
  const end = (state: 'ended' | 'refunded') =>
    act(async () => {
      const body = { source, subscription, state }
      await elevate(() => call('POST', 'admin/subscriptions/end', body))
      await refresh('admin')
      onClose()
    })
  return (
    <Dialog title={t('End {name}', { name: subscription })} onClose={onClose}>
      <div className="grid gap-3.5">
        <p className="text-muted">
          {t('Ended, its credit lasts until {day}; refunded, what is left of it is taken now.', {
            day: day(period.to),
          })}
        </p>
        {error !== null && <Failure error={error} />}
        <div className="flex flex-wrap gap-2">
          <Button busy={busy} onClick={() => void end('ended')}>
            {t('End it')}
          </Button>
          <Button look="danger" busy={busy} onClick={() => void end('refunded')}>
            {t('Take it back')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
