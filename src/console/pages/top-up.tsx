// One top-up: what it is waiting for, or its outcome.

import { QueryState } from '../ui/table.tsx'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import type { CurrencyTermsView, TopUpTermsView, TopUpView } from '../../http/payments/answers.ts'
import {
  call,
  faultIn,
  isWaiting,
  newId,
  queryClient,
  refresh,
  relayedAnswerWithinMs,
  useTopUp,
  useTopUpTerms,
} from '../api/call.ts'
import { day, moment, money, t, usd } from '../strings/text.ts'
import {
  Back,
  Button,
  Choice,
  Fact,
  Failure,
  Note,
  PageHead,
  Section,
  TextField,
  textOf,
  useAct,
} from '../ui/kit.tsx'
import { amountOf, planText, problems, processorName, rateOf, TopUpBadges } from './words.tsx'

export function TopUpState() {
  const { id } = useParams<{ id: string }>()
  const { data: topUp, error, isPending, isFetching, refetch } = useTopUp(id)
  const state = topUp?.state
  useEffect(() => {
    if (state === undefined || state === 'open') return
    void refresh('credits')
    void refresh('plans')
    void queryClient.invalidateQueries({ queryKey: ['top-ups'], exact: true })
  }, [state])
  return (
    <>
      <Back href="/credits">{t('Credits')}</Back>
      <PageHead title={topUp ? titleOf(topUp) : t('Top-up')}>
        {topUp && <TopUpBadges topUp={topUp} />}
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
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
              <Link
                href={topUp.plan === null ? '/credits/top-up' : '/credits/plans'}
                className="p-2 text-accent underline"
              >
                {topUp.plan === null ? t('Top up again') : t('Plans')}
              </Link>
            )}
          </p>
        </>
      )}
    </>
  )
}

function titleOf(topUp: TopUpView): string {
  const amount = amountOf(topUp)
  if (topUp.plan !== null) return t('{plan} for {amount}', { plan: topUp.plan.title, amount })
  return t('Top-up of {amount}', { amount })
}

/** How the payment of a plan ended, in a sentence; undefined for what is said of every payment. */
function saidOfPlan({
  plan,
  state,
  test,
  refunded,
  currency,
  credit_usd: credit,
}: TopUpView): string | undefined {
  if (plan === null || test) return undefined
  const amount = money(refunded, currency)
  switch (state) {
    case 'credited':
      return t('{period}: {credit} of credit for chats.', { period: planText(plan), credit: usd(credit) })
    case 'refunded':
      return t('{amount} was paid back, and the plan has ended.', { amount })
    case 'refunded_part':
      return t('{amount} was paid back. The plan goes on.', { amount })
    case 'disputed':
      return t('The payment is disputed. If it is lost, the plan ends.')
    default:
      return undefined
  }
}

/** What it waits for, or how it ended: in a sentence. */
function Said({ topUp }: { topUp: TopUpView }) {
  const name = processorName(topUp.processor)
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
  const ofPlan = saidOfPlan(topUp)
  if (ofPlan !== undefined)
    return (
      <Note tone={topUp.state === 'credited' ? 'good' : 'warn'} role="status">
        {ofPlan}
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
          {t('{amount} was paid back, and its credit taken.', {
            amount: money(topUp.refunded, topUp.currency),
          })}
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

function Steps({ topUp }: { topUp: TopUpView }) {
  const paid = topUp.paid_at !== null
  const credited = paid && topUp.state !== 'paid'
  const steps = [
    [t('Opened'), true, topUp.created_at],
    [t('Paid at {name}', { name: processorName(topUp.processor) }), paid, topUp.paid_at],
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

function Facts({ topUp }: { topUp: TopUpView }) {
  return (
    <dl className="card mt-4 grid grid-cols-2 gap-3 p-4 sm:grid-cols-3">
      <Fact name={t('Amount')}>{amountOf(topUp)}</Fact>
      <Fact name={t('Credit')}>
        <span className="tabular-nums">{usd(topUp.credit_usd)}</span>
      </Fact>
      {topUp.plan !== null && <Fact name={t('Plan')}>{planText(topUp.plan)}</Fact>}
      {topUp.plan === null && (
        <Fact name={t('Rate')}>
          {t('{rate} for $1: {source}, {day}', {
            rate: rateOf(topUp),
            source: topUp.rate_source,
            day: rateDay(topUp.rate_as_of),
          })}
        </Fact>
      )}
      <Fact name={t('Can be paid until')}>{moment(topUp.expires_at)}</Fact>
      <Fact name={t('Credit usable until')}>{day(topUp.credit_expires_at)}</Fact>
      <Fact mono name={t('Payment')}>
        {topUp.payment_id ?? '–'}
      </Fact>
    </dl>
  )
}

// Topping up: money becomes dollars at a rate that is shown before anything is paid. And the other way in: vouchers.

export function TopUpPage() {
  const { data: terms, error, isPending, refetch } = useTopUpTerms()
  return (
    <>
      <Back href="/credits">{t('Credits')}</Back>
      <PageHead
        title={t('Top up')}
        about={t('Purchased credit pays for API calls and chats with every model, and lasts twelve months.')}
      />
      <QueryState query={{ error, isPending, refetch }} />
      {terms && <AmountForm terms={terms} />}
      <VoucherForm />
    </>
  )
}

/** Amounts to press: those known of rupees, and otherwise multiples of the smallest. */
function suggestedIn({ currency, min, decimals }: CurrencyTermsView): readonly string[] {
  if (currency === 'INR') return ['500', '1000', '2500', '5000']
  const least = minorOf(min, decimals) ?? 0n
  return [1n, 2n, 5n, 10n].map((times) => textOfMinor(least * times, decimals))
}

function AmountForm({ terms }: { terms: TopUpTermsView }) {
  const [, navigate] = useLocation()
  const { error, busy, act } = useAct()
  const [code, setCode] = useState(terms.currencies[0]?.currency)
  const inCurrency = terms.currencies.find(({ currency }) => currency === code) ?? terms.currencies[0]!
  const suggested = suggestedIn(inCurrency)
  const [amount, setAmount] = useState(suggested[0] ?? '')
  const [tried, setTried] = useState(false)
  const taking = terms.processors.filter(({ id }) => inCurrency.processors.includes(id))
  const [chosen, setProcessor] = useState(taking[0]?.id)
  const processor = taking.some(({ id }) => id === chosen) ? chosen : taking[0]?.id
  const [changed, setChanged] = useState(false)
  // A request that is sent again after a lost answer opens the same top-up; another amount is another request.
  const attempt = useRef({ of: '', key: '' })
  const fault = amountFault(amount, inCurrency)
  const refused = error !== null && faultIn(error).param === 'amount' ? faultIn(error).message : undefined
  const shown = tried && fault !== undefined ? faultText(fault, inCurrency) : refused
  const test = terms.processors.find(({ id }) => id === processor)?.test === true

  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (fault !== undefined || processor === undefined) return
    const { currency, rate } = inCurrency
    const of = `${amount} ${currency} ${processor}`
    if (attempt.current.of !== of) attempt.current = { of, key: newId() }
    void act(async () => {
      const body = { amount, currency, processor }
      const headers = { 'idempotency-key': attempt.current.key }
      const topUp = await call<TopUpView>('POST', 'top-ups', body, {
        headers,
        withinMs: relayedAnswerWithinMs,
      })
      // Nobody pays at a rate that was not shown: the next press, with the rate in view, opens the page of this top-up.
      setChanged(topUp.rate !== rate)
      if (topUp.rate !== rate) return refresh('top-up-terms')
      attempt.current = { of: '', key: '' }
      queryClient.removeQueries({ queryKey: ['top-ups'] })
      const page = topUp.state === 'open' && topUp.url !== null ? URL.parse(topUp.url) : null
      if (page !== null && /^https?:$/.test(page.protocol)) location.assign(page)
      else navigate(`/credits/top-ups/${topUp.id}`)
    })
  }
  const choose = (next: string) => {
    const other = terms.currencies.find(({ currency }) => currency === next)
    if (!other) return
    setCode(next)
    setTried(false)
    setAmount(suggestedIn(other)[0] ?? '')
  }
  return (
    <form onSubmit={submit} noValidate className="grid gap-4 lg:grid-cols-2">
      <div className="card grid content-start gap-3.5 p-4">
        {terms.currencies.length > 1 && (
          <Choice
            label={t('Currency')}
            name="currency"
            value={inCurrency.currency}
            onChange={(event) => choose(event.target.value)}
            options={terms.currencies.map(({ currency }) => [currency, currencyName(currency)])}
          />
        )}
        <TextField
          label={t('Amount in {currency}', { currency: inCurrency.currency })}
          name="amount"
          inputMode="decimal"
          autoComplete="transaction-amount"
          value={amount}
          onChange={(event) => setAmount(event.target.value.trim())}
          onBlur={() => setTried(true)}
          hint={t('From {least} to {most}.', {
            least: money(inCurrency.min, inCurrency.currency),
            most: money(inCurrency.max, inCurrency.currency),
          })}
          error={shown}
        />
        <div className="flex flex-wrap gap-2" role="group" aria-label={t('Common amounts')}>
          {suggested
            .filter((each) => amountFault(each, inCurrency) === undefined)
            .map((each) => (
              <Button key={each} small aria-pressed={each === amount} onClick={() => setAmount(each)}>
                {money(each, inCurrency.currency)}
              </Button>
            ))}
        </div>
        {taking.length > 1 && (
          <Choice
            label={t('Paid with')}
            name="processor"
            value={processor}
            onChange={(event) => setProcessor(event.target.value as TopUpView['processor'])}
            options={taking.map((each) => [
              each.id,
              each.test ? t('{name} (test)', { name: processorName(each.id) }) : processorName(each.id),
            ])}
          />
        )}
        {test && (
          <Note tone="warn">
            {t('This is a test mode: the whole flow runs, no money moves, and no credit is added.')}
          </Note>
        )}
        {changed && (
          <Note tone="warn" role="status">
            {t(
              'The rate has changed while this page was open. This is what it becomes now: pay if you agree.',
            )}
          </Note>
        )}
        {error !== null && refused === undefined && <Failure error={error} />}
        <div>
          <Button type="submit" look="primary" busy={busy}>
            {processor === undefined || test
              ? t('Continue')
              : t('Pay with {name}', { name: processorName(processor) })}
          </Button>
        </div>
      </div>
      <Quote
        amount={fault === undefined ? amount : null}
        terms={inCurrency}
        usableUntil={terms.credit_expires_at}
      />
    </form>
  )
}

interface QuoteProps {
  readonly amount: string | null
  readonly terms: CurrencyTermsView
  readonly usableUntil: string
}

/** What the amount becomes, before it is paid. */
function Quote({ amount, terms, usableUntil }: QuoteProps) {
  const minor = amount === null ? undefined : minorOf(amount, terms.decimals)
  return (
    <section className="card p-4" aria-label={t('What it becomes')}>
      <h2 className="font-semibold">{t('What it becomes')}</h2>
      <p className="mt-2 text-2xl font-semibold tracking-tight tabular-nums" aria-live="polite">
        {minor === undefined ? '–' : usd(creditOf(minor, terms))}
      </p>
      <dl className="mt-3 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5">
        <dt className="text-muted">{t('Rate')}</dt>
        <dd>
          {t('{rate} for $1', { rate: rateOf(terms) })}
          <span className="block text-[12.5px] text-muted">
            {t('{source}, of {day}', { source: terms.rate_source, day: rateDay(terms.rate_as_of) })}
          </span>
        </dd>
        <dt className="text-muted">{t('Markup')}</dt>
        <dd>{t('none')}</dd>
        <dt className="text-muted">{t('Usable until')}</dt>
        <dd>{t('{day}, if it is paid now', { day: day(usableUntil) })}</dd>
      </dl>
      <p className="mt-3 text-[12.5px] text-muted">
        {t('This rate holds for this top-up, even if the payment takes a while.')}
      </p>
    </section>
  )
}

/** Operators may leave the day of their rate open. */
export function rateDay(asOf: string): string {
  return /^\d{4}-\d{2}-\d{2}$/.test(asOf) ? day(asOf) : t('an unknown day')
}

function faultText(fault: AmountFault, { currency, decimals, min, max }: CurrencyTermsView): string {
  const texts: Readonly<Record<AmountFault, () => string>> = {
    empty: () => t('Type an amount.'),
    no_amount: () => t('Type an amount as digits, such as 500.'),
    decimals: () =>
      decimals === 0
        ? t('Amounts in {currency} have no decimals.', { currency })
        : t('Amounts in {currency} have at most {decimals} decimals.', { currency, decimals }),
    too_small: () => t('A top-up is at least {least}.', { least: money(min, currency) }),
    too_large: () => t('A top-up is at most {most}.', { most: money(max, currency) }),
  }
  return texts[fault]()
}

let currencyNames: Intl.DisplayNames | undefined

/** `EUR, Euro`: in the reader's language. */
function currencyName(code: string): string {
  currencyNames ??= new Intl.DisplayNames([document.documentElement.lang || 'en'], { type: 'currency' })
  return `${code}, ${currencyNames.of(code) ?? code}`
}

function VoucherForm() {
  const { error, busy, act } = useAct()
  const [redeemed, setRedeemed] = useState<string | null>(null)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const code = textOf(new FormData(form), 'code') ?? ''
    setRedeemed(null)
    void act(async () => {
      const { credit_usd: credit } = await call<{ credit_usd: string }>('POST', 'vouchers/redeem', { code })
      setRedeemed(credit)
      form.reset()
      await refresh('credits')
    })
  }
  const fault = error === null ? undefined : faultIn(error)
  const ofField = fault !== undefined && fault.code.startsWith('voucher_')
  return (
    <Section title={t('Redeem a voucher')}>
      <form onSubmit={submit} className="card grid gap-3.5 p-4 sm:max-w-md">
        <TextField
          label={t('Code')}
          name="code"
          required
          maxLength={100}
          autoComplete="off"
          spellCheck={false}
          placeholder="WEIR-XXXX-XXXX-XXXX-XXXX"
          hint={t('In capital or small letters, with or without hyphens.')}
          error={ofField ? fault.message : undefined}
        />
        {error !== null && !ofField && <Failure error={error} />}
        {redeemed !== null && error === null && (
          <Note tone="good" role="status">
            {t('{amount} was added. It lasts twelve months.', { amount: usd(redeemed) })}
          </Note>
        )}
        <div>
          <Button type="submit" busy={busy}>
            {t('Redeem')}
          </Button>
        </div>
      </form>
    </Section>
  )
}

// What an amount is worth in dollars, shown before anything is paid: the same sum that the gateway makes, rounded down to
// picodollars. Smallest units are here those that can be paid, of which a currency has at most a hundred to one.

const amountForm = /^(\d{1,9})(?:\.(\d{1,2}))?$/

/** An amount in the smallest units that can be paid; undefined for what is no amount with at most these decimals. */
export function minorOf(text: string, decimals: number): bigint | undefined {
  const match = amountForm.exec(text)
  const fraction = match?.[2] ?? ''
  if (!match || fraction.length > decimals) return undefined
  return BigInt(match[1]! + fraction.padEnd(decimals, '0'))
}

function textOfMinor(minor: bigint, decimals: number): string {
  const digits = String(minor).padStart(decimals + 1, '0')
  const fraction = decimals === 0 ? '' : digits.slice(-decimals)
  return /^0*$/.test(fraction)
    ? digits.slice(0, digits.length - decimals)
    : `${digits.slice(0, digits.length - decimals)}.${fraction}`
}

/** The credit of an amount at a rate such as "89.015" units for a dollar, as a decimal string of dollars. */
export function creditOf(
  minor: bigint,
  { rate, decimals }: Pick<CurrencyTermsView, 'rate' | 'decimals'>,
): string {
  const [whole = '', fraction = ''] = rate.split('.')
  const millionths = BigInt(whole + fraction.padEnd(6, '0'))
  const pico = (minor * 10n ** 18n) / (millionths * 10n ** BigInt(decimals))
  const digits = String(pico).padStart(13, '0')
  const cents = digits.slice(-12).replace(/0+$/, '')
  return `${digits.slice(0, -12)}${cents === '' ? '' : `.${cents}`}`
}

/** What is wrong with a typed amount. */
type AmountFault = 'empty' | 'no_amount' | 'decimals' | 'too_small' | 'too_large'

export function amountFault(
  text: string,
  { min, max, decimals }: Pick<CurrencyTermsView, 'min' | 'max' | 'decimals'>,
): AmountFault | undefined {
  if (text === '') return 'empty'
  const minor = minorOf(text, decimals)
  if (minor === undefined) return /^\d{1,9}\.\d+$/.test(text) ? 'decimals' : 'no_amount'
  if (minor < minorOf(min, decimals)!) return 'too_small'
  return minor > minorOf(max, decimals)! ? 'too_large' : undefined
}
