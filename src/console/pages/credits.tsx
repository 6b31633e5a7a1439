// Every credit of the account: by pool, by lot over time, and in the order in which it would be spent.

import { Link } from 'wouter'
import type { Pool } from '../../credits/pool.ts'
import type { CreditsView as CreditsOf, HistoryEntryView, LotView } from '../../http/console/answers.ts'
import { addressOf, useCredits, usePages } from '../api/call.ts'
import { ago, day, t, usd, usdShort } from '../strings/text.ts'
import { Badge, Empty, Note, PageHead, Section, TextLink, Time, Usd } from '../ui/kit.tsx'
import { notOnPhones, numeric, Older, QueryState, Table, wideOnly } from '../ui/table.tsx'
import { kindNames, Payments } from './payments.tsx'
import { PlanEnding, PlansLink } from './plans.tsx'
import { appOrder, poolBars, poolNames, poolRules } from './words.tsx'

export function Credits() {
  const { data: credits, error, isPending, refetch } = useCredits()
  return (
    <>
      <PageHead
        title={t('Credits')}
        about={t('1 credit is 1 US dollar of model usage, at the provider’s own price.')}
      >
        <PlansLink />
        <TextLink href="/credits/statements">{t('Statements')}</TextLink>
        <Link
          href="/credits/top-up"
          className="inline-flex h-9 items-center rounded-md border border-accent bg-accent px-3.5 font-medium text-accent-ink hover:opacity-90"
        >
          {t('Top up')}
        </Link>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {credits && <Whole credits={credits} />}
    </>
  )
}

function Whole({ credits }: { credits: CreditsOf }) {
  return (
    <>
      {Number(credits.debt) > 0 && (
        <Note tone="warn">
          {t('{amount} is owed: the next top-up pays it first.', { amount: usd(credits.debt) })}
        </Note>
      )}
      {credits.credit_line !== null && (
        <p className="mt-2 mb-3 text-muted">
          {credits.credit_line === 'unlimited'
            ? t('This account may go on without credit: what it uses is owed.')
            : t('Without credit this account may owe up to {amount}.', { amount: usd(credits.credit_line) })}
        </p>
      )}
      <Notices credits={credits} />
      <PlanEnding />
      <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-4">
        {credits.pools.map(({ type, remaining, held, resets_at: resets }) => (
          <li key={type} className="card p-4">
            <p className="flex items-center gap-2 text-[13px] text-muted">
              <span className={`size-2.5 rounded-sm ${poolBars[type]}`} aria-hidden="true" />
              {t(poolNames[type])}
            </p>
            <p className="mt-1 text-2xl font-semibold tracking-tight tabular-nums" title={usd(remaining)}>
              {usdShort(remaining)}
            </p>
            <p className="mt-1 text-[12.5px] text-muted">{t(poolRules[type])}</p>
            {Number(held) > 0 && (
              <p className="mt-1 text-[12.5px]">
                {t('{amount} reserved for calls that are running', { amount: usdShort(held) })}
              </p>
            )}
            {resets !== null && (
              <p className="mt-1 text-[12.5px]">{t('New {when}', { when: ago(resets) })}</p>
            )}
          </li>
        ))}
      </ul>
      <div className="mt-7 grid gap-4 lg:grid-cols-2">
        <Order
          title={t('What an API call would spend')}
          pools={['purchased']}
          credits={credits}
          free={credits.spendable.api}
        />
        <Order
          title={t('What a chat would spend')}
          pools={appOrder}
          credits={credits}
          free={credits.spendable.app}
        />
      </div>
      <Section title={t('Credit until it expires')}>
        {credits.lots.length === 0 ? (
          <Empty title={t('There is no credit now.')}>
            <p>{t('Chats draw on the welcome and the daily credit; API calls on what is purchased.')}</p>
          </Empty>
        ) : (
          <>
            <Timeline lots={credits.lots} />
            <Lots credits={credits} />
          </>
        )}
      </Section>
      <Payments />
      <History />
    </>
  )
}

interface OrderProps {
  readonly title: string
  readonly pools: readonly Pool[]
  readonly credits: CreditsOf
  readonly free: string
}

function Order({ title, pools, credits, free }: OrderProps) {
  const rows = pools.flatMap((pool) =>
    credits.lots.filter((lot) => lot.pool === pool && Number(lot.remaining) > 0),
  )
  return (
    <section className="card p-4" aria-label={title}>
      <h2 className="font-semibold">{title}</h2>
      {rows.length === 0 ? (
        <p className="mt-2 text-muted">
          {Number(free) > 0
            ? t('Nothing that is here: it would be owed, on the credit line.')
            : t('Nothing: it would be refused.')}
        </p>
      ) : (
        <ol className="mt-2 grid gap-1">
          {rows.map((lot, index) => (
            <li key={lot.id} className="flex items-baseline gap-2">
              <span className="w-5 text-muted tabular-nums">{index + 1}.</span>
              <span className={`size-2.5 shrink-0 rounded-sm ${poolBars[lot.pool]}`} aria-hidden="true" />
              <span className="flex-1">
                {t(poolNames[lot.pool])}
                {lot.expires_at !== null && (
                  <span className="text-muted"> · {t('until {day}', { day: day(lot.expires_at) })}</span>
                )}
                {lot.pool === 'daily' && <span className="text-muted"> · {t('flash-class models')}</span>}
              </span>
              <Usd amount={lot.remaining} />
            </li>
          ))}
        </ol>
      )}
      <p className="mt-3 flex border-t border-line pt-2 font-medium">
        <span className="flex-1">{t('One call could use at most')}</span>
        <Usd amount={free} />
      </p>
    </section>
  )
}

function Lots({ credits }: { credits: CreditsOf }) {
  return (
    <div className="mt-3">
      <Table
        label={t('Credit by its expiry')}
        columns={[
          t('Pool'),
          wideOnly(t('Added')),
          t('Expires'),
          wideOnly(numeric(t('Amount'))),
          wideOnly(numeric(t('Reserved'))),
          numeric(t('Remaining')),
        ]}
      >
        {credits.lots.map((lot) => (
          <tr key={lot.id}>
            <td className="whitespace-nowrap">{t(poolNames[lot.pool])}</td>
            <td className={notOnPhones}>
              <Time at={lot.granted_at} />
            </td>
            <td className="whitespace-nowrap">
              {lot.expires_at === null ? t('never') : day(lot.expires_at)}
            </td>
            <td className={`num ${notOnPhones}`}>{usd(lot.amount)}</td>
            <td className={`num text-muted ${notOnPhones}`}>
              {Number(lot.held) === 0 ? '–' : usd(lot.held)}
            </td>
            <td className="num font-medium">{usd(lot.remaining)}</td>
          </tr>
        ))}
      </Table>
    </div>
  )
}

const kindTones: Readonly<Record<string, 'good' | 'plain' | 'warn'>> = {
  grant: 'good',
  expire: 'warn',
  refund: 'good',
}

/** Where credit came from, by the beginning of its source. */
const sourceNames: Readonly<Record<string, string>> = {
  payment: 'Top-up',
  voucher: 'Voucher',
  subscription: 'Subscription',
  welcome: 'Welcome',
  daily: 'Daily',
  monthly: 'Monthly credit',
  operator: 'from the operator',
  bootstrap: 'the first credit',
}

function sourceName(source: string): string {
  const known = sourceNames[source.split(':')[0] ?? '']
  return known === undefined ? source : t(known)
}

function kindName(kind: string): string {
  const known = (kindNames as Readonly<Record<string, string>>)[kind]
  return known === undefined ? kind : t(known)
}

function History() {
  const [history, rows] = usePages<HistoryEntryView>(['credits', 'history'], 'credits/history', {
    limit: '50',
  })
  return (
    <Section
      title={t('History')}
      side={
        <a className="text-accent underline" href={addressOf('/console/api/credits/history.csv')} download>
          CSV
        </a>
      }
    >
      <QueryState query={history} />
      {rows.length > 0 && (
        <Table
          label={t('History')}
          columns={[
            wideOnly(t('When')),
            t('What'),
            wideOnly(t('Pool')),
            wideOnly(t('Of')),
            numeric(t('Amount')),
          ]}
        >
          {rows.map((row, index) => (
            <tr key={`${row.at}-${index}`}>
              <td className={notOnPhones}>
                <Time at={row.at} />
              </td>
              <td>
                <Badge tone={kindTones[row.kind] ?? 'plain'}>{kindName(row.kind)}</Badge>
                <span className="mt-0.5 block text-[12.5px] text-muted sm:hidden">
                  <Time at={row.at} /> {row.call === null && sourceName(row.note ?? '')}
                </span>
              </td>
              <td className={notOnPhones}>{row.pool === null ? '–' : t(poolNames[row.pool] ?? row.pool)}</td>
              <td
                className={`max-w-64 truncate ${notOnPhones} ${row.call === null ? '' : 'font-mono text-[12px]'}`}
                title={row.note ?? row.lot ?? undefined}
              >
                {row.call === null ? (
                  sourceName(row.note ?? row.lot ?? '–')
                ) : (
                  <a className="text-accent underline" href={addressOf(`/console/requests/${row.call}`)}>
                    {row.call}
                  </a>
                )}
              </td>
              <td className={`num ${row.amount.startsWith('-') ? '' : 'text-good'}`}>{usd(row.amount)}</td>
            </tr>
          ))}
        </Table>
      )}
      <Older list={history} />
    </Section>
  )
}

// Warnings about credit.

export function Notices({ credits: { notices } }: { credits: Pick<CreditsOf, 'notices'> }) {
  if (notices.length === 0) return null
  return (
    <div className="my-3 grid gap-2">
      {notices.map((notice) => (
        <Note key={notice.kind === 'balance_low' ? notice.kind : notice.lot} tone="warn">
          {notice.kind === 'balance_low' ? (
            <>
              {t('The purchased credit is low: {amount} is left.', { amount: usd(notice.available) })}{' '}
              <TextLink href="/credits/top-up">{t('Top up')}</TextLink>
            </>
          ) : (
            t('{amount} of purchased credit expires on {day}.', {
              amount: usd(notice.remaining),
              day: day(notice.expires_at),
            })
          )}
        </Note>
      ))}
    </div>
  )
}

// A bar for each lot from today to its expiry, with a height by its credit; held credit is hatched.

const dayMs = 86_400_000
const rowHeight = 26
/** Of the drawing, in its own units. */
const width = 1000

function Timeline({ lots }: { lots: readonly LotView[] }) {
  const now = Date.now()
  const living = lots.filter(({ remaining }) => Number(remaining) > 0)
  const ends = living.flatMap(({ expires_at: at }) => (at === null ? [] : [Date.parse(at)]))
  const until = Math.max(now + 30 * dayMs, ...ends)
  const largest = Math.max(...living.map(({ remaining }) => Number(remaining)))
  const x = (at: number) => Math.max(2, ((at - now) / (until - now)) * width)
  const first = living
    .filter(({ expires_at: at, pool }) => at !== null && pool !== 'daily')
    .toSorted(byExpiry)[0]
  const months = monthsBetween(now, until)
  return (
    <figure className="card p-4">
      <figcaption className="mb-3 text-[13px] text-muted">
        {first
          ? t('Next to expire: {amount} of {pool} on {day}.', {
              amount: usd(first.remaining),
              pool: t(poolNames[first.pool]).toLowerCase(),
              day: day(first.expires_at!),
            })
          : t('None of it expires, apart from daily credit.')}
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${living.length * rowHeight + 18}`}
        preserveAspectRatio="none"
        className="block h-auto w-full"
        height={living.length * rowHeight + 18}
        role="img"
        aria-label={t('Credit from today until it expires')}
      >
        <defs>
          <pattern id="held" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="2.5" height="6" className="fill-panel" />
          </pattern>
        </defs>
        {months.map((at) => (
          <line
            key={at}
            x1={x(at)}
            x2={x(at)}
            y1="0"
            y2={living.length * rowHeight}
            className="stroke-line"
          />
        ))}
        {living.map((lot, row) => {
          const height = Math.max(4, (Number(lot.remaining) / largest) * (rowHeight - 6))
          const end = lot.expires_at === null ? width : x(Date.parse(lot.expires_at))
          const y = (row + 1) * rowHeight - height - 3
          const held = Number(lot.held) / Number(lot.remaining)
          return (
            <g key={lot.id}>
              <title>
                {t('{pool}: {amount}', { pool: t(poolNames[lot.pool]), amount: usd(lot.remaining) })}
              </title>
              <rect x="0" y={y} width={end} height={height} rx="2" className={poolBars[lot.pool]} />
              {held > 0 && (
                <rect x="0" y={y} width={end * Math.min(1, held)} height={height} fill="url(#held)" />
              )}
            </g>
          )
        })}
      </svg>
      <div className="flex justify-between text-[12px] text-muted">
        <span>{t('today')}</span>
        <span>{day(new Date(until).toISOString())}</span>
      </div>
    </figure>
  )
}

function byExpiry(a: LotView, b: LotView): number {
  return Date.parse(a.expires_at!) - Date.parse(b.expires_at!)
}

function monthsBetween(from: number, until: number): readonly number[] {
  const start = new Date(from)
  const months: number[] = []
  for (let month = 1; month <= 120; month += 1) {
    const at = Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + month, 1)
    if (at >= until) break
    months.push(at)
  }
  return months
}
