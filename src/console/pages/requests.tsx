// Requests and their outcomes, newest first. The filters are in the URL.

import { type ReactNode, type FormEvent, useEffect, useId, useState } from 'react'
import { Link, useParams, useSearchParams } from 'wouter'
import type { Receipt } from '../../credits/ledger/receipt.ts'
import type {
  KeyListView,
  KeyView,
  LiveCallView,
  RefusalView,
  RequestDetailView,
  RequestRowView,
} from '../../http/console/answers.ts'
import { csvLine } from '../../text/text.ts'
import { addressOf, call, refresh, useData, useKeys, usePages } from '../api/call.ts'
import {
  ago,
  count,
  countOf,
  decimal,
  equal,
  exact,
  milliseconds,
  moment,
  sumOf,
  t,
  times,
  usd,
  usdShort,
} from '../strings/text.ts'
import {
  Back,
  Badge,
  Button,
  Copy,
  Download,
  Empty,
  ErrorCode,
  Fact,
  Note,
  PageHead,
  saveFile,
  Section,
  TextLink,
  textOf,
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
import { poolName, poolNames } from './words.tsx'

const filters = ['model', 'key', 'outcome', 'code', 'from', 'to'] as const

const askEveryMs = 4_000

const codes = [
  'insufficient_credits',
  'purchased_credits_required',
  'plan_required',
  'credits_reserved',
  'key_limit_exceeded',
  'budget_exceeded',
  'model_not_allowed',
  'model_not_found',
  'invalid_request',
  'rate_limit_exceeded',
  'upstream_rate_limited',
  'upstream_error',
  'upstream_timeout',
  'client_gone',
] as const

export function Requests() {
  const [query, setQuery] = useSearchParams()
  const [noKey, setNoKey] = useState<string | null>(null)
  const chosen = new URLSearchParams(
    filters.flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])),
  )
  const [list, rows] = usePages<RequestRowView>(['requests', chosen.toString()], 'requests', chosen, {
    // Calls that were refused at once were never in flight. A reader of older pages is left in peace.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : askEveryMs),
  })
  const filter = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const given = filters.flatMap((name) =>
      textOf(form, name) ? [[name, textOf(form, name)!] as const] : [],
    )
    const typed = textOf(form, 'key')
    void (typed === undefined ? Promise.resolve(undefined) : keyCalled(typed)).then((key) => {
      const isUnknown = typed !== undefined && key === undefined
      setNoKey(isUnknown ? typed : null)
      if (!isUnknown) setQuery(given.map(([name, value]) => [name, name === 'key' ? key! : value]))
    })
  }
  return (
    <>
      <PageHead title={t('Requests')}>
        <Button onClick={() => void list.refetch()} busy={list.isRefetching}>
          {t('Refresh')}
        </Button>
        <Download path={`requests.csv?${chosen}`} />
      </PageHead>
      <LiveCalls />
      <form
        key={chosen.toString()}
        onSubmit={filter}
        onChange={(event) => {
          if (event.target instanceof HTMLSelectElement) event.currentTarget.requestSubmit()
        }}
        className="mb-4 grid grid-cols-2 gap-2 lg:grid-cols-4"
        role="search"
      >
        <input
          type="search"
          name="model"
          aria-label={t('Model')}
          placeholder={t('Model, the whole id')}
          defaultValue={query.get('model') ?? ''}
          className="control"
        />
        <KeyFilter chosen={query.get('key') ?? ''} />
        <select
          name="outcome"
          aria-label={t('Outcome')}
          defaultValue={query.get('outcome') ?? ''}
          className="control"
        >
          <option value="">{t('every outcome')}</option>
          <option value="served">{t('served')}</option>
          <option value="failed">{t('failed')}</option>
          <option value="refused">{t('refused')}</option>
          <option value="unserved">{t('failed or refused')}</option>
        </select>
        <select name="code" aria-label={t('Code')} defaultValue={query.get('code') ?? ''} className="control">
          <option value="">{t('every code')}</option>
          {codes.map((code) => (
            <option key={code} value={code}>
              {code}
            </option>
          ))}
        </select>
        <input
          type="date"
          name="from"
          aria-label={t('From')}
          defaultValue={query.get('from') ?? ''}
          className="control"
        />
        <input
          type="date"
          name="to"
          aria-label={t('To')}
          defaultValue={query.get('to') ?? ''}
          className="control"
        />
        <Button type="submit">{t('Filter')}</Button>
      </form>
      {noKey !== null && (
        <div className="mb-4">
          <Note tone="warn" role="status">
            {t('No single key is called {name}: pick one of those that are offered, or type more of it.', {
              name: noKey,
            })}
          </Note>
        </div>
      )}
      <QueryState query={list} rows={8} />
      {list.data && rows.length === 0 && (
        <Empty title={chosen.size === 0 ? t('Nothing has been called yet.') : t('No request matches.')} />
      )}
      {rows.length > 0 && <RequestTable rows={rows} />}
      <Older list={list} />
    </>
  )
}

/** The key that is meant: one that was picked, or the only one with this in its name, id or last characters. */
async function keyCalled(typed: string): Promise<string | undefined> {
  const picked = /\(([\w-]+)\)$/.exec(typed)?.[1]
  const asked = new URLSearchParams({ q: picked ?? typed, limit: '20' })
  const { data } = await call<KeyListView>('GET', `keys?${asked}`)
  const exact = data.find(({ id, name }) => id === picked || id === typed || name === typed)
  return exact?.id ?? (data.length === 1 ? data[0]!.id : undefined)
}

/** What is offered for a key, and stands in the field when it was picked. */
function textOfKey({ id, name }: KeyView): string {
  return `${name} (${id})`
}

const offeredKeys = '20'

/** A key is typed: a list of all would have thousands of entries. */
function KeyFilter({ chosen }: { chosen: string }) {
  const [typed, setTyped] = useState<string | null>(null)
  const [, named] = useKeys('keys', { q: chosen, limit: '1' })
  const [, options] = useKeys('keys', { q: typed ?? '', limit: offeredKeys })
  const current = named.find(({ id }) => id === chosen)
  const id = useId()
  return (
    <div>
      <input
        type="search"
        name="key"
        list={id}
        aria-label={t('Key')}
        placeholder={t('every key')}
        autoComplete="off"
        maxLength={200}
        value={typed ?? (current === undefined ? chosen : textOfKey(current))}
        onChange={(event) => {
          setTyped(event.target.value)
          // Picked from the list, or emptied: nothing more is to be typed.
          const isWhole = options.some((key) => textOfKey(key) === event.target.value)
          if (isWhole || event.target.value === '') event.target.form?.requestSubmit()
        }}
        className="control"
      />
      <datalist id={id}>
        {options.map((key) => (
          <option key={key.id} value={textOfKey(key)}>
            …{key.last4}
          </option>
        ))}
      </datalist>
    </div>
  )
}

// The account's calls in flight, as they go. Nothing is shown while there are none.

/** Tokens a second since the first byte; nothing where it is too early to say. */
function speedOf({
  started_at: at,
  first_byte_ms: first,
  output_tokens: tokens,
  phase,
}: LiveCallView): string {
  const ms = first === null ? 0 : Date.now() - Date.parse(at) - first
  if (phase !== 'streaming' || ms < 1_000 || tokens === null) return ''
  return `, ${t('{count} a second', { count: count(Math.round((tokens * 1_000) / ms)) })}`
}

const phaseNames: Readonly<Record<LiveCallView['phase'], string>> = {
  admitted: 'accepted',
  waiting: 'waiting for the model',
  streaming: 'answering',
  settled: 'charged',
}

function LiveCalls() {
  const [calls, setCalls] = useState<readonly LiveCallView[]>([])
  useEffect(() => {
    const source = new EventSource(addressOf('/console/api/live'))
    let before = 0
    source.addEventListener('calls', ({ data }: MessageEvent<string>) => {
      const { calls: now } = JSON.parse(data) as { calls: readonly LiveCallView[] }
      setCalls(now)
      // Calls that have gone are in the list below.
      if (now.length < before) void refresh('requests')
      before = now.length
    })
    return () => source.close()
  }, [])
  if (calls.length === 0) return null
  return (
    <section className="card mb-4 p-3" aria-label={t('In flight')}>
      <h2 className="mb-1 text-[13px] font-medium text-muted">{t('In flight')}</h2>
      <ul className="grid gap-1">
        {calls.map((call) => (
          <li key={call.id} className="flex flex-wrap items-center gap-x-3">
            <Badge tone={call.phase === 'streaming' ? 'accent' : 'plain'}>{t(phaseNames[call.phase])}</Badge>
            <span className="min-w-0 flex-1 truncate font-mono text-[12.5px]">{call.model}</span>
            <span className="text-muted">{ago(call.started_at)}</span>
            {call.first_byte_ms !== null && (
              <span className="tabular-nums">
                {t('first byte {time}', { time: milliseconds(call.first_byte_ms) })}
              </span>
            )}
            {call.output_tokens !== null && (
              <span className="tabular-nums">
                {countOf(call.output_tokens, '{count} token', '{count} tokens')}
                {speedOf(call)}
              </span>
            )}
            <span className="tabular-nums">{t('reserves {amount}', { amount: usdShort(call.hold) })}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

// One request: what became of it, why it was refused, and its receipt, which adds up.

export function RequestPage() {
  const { id } = useParams<{ id: string }>()
  const query = useData<RequestDetailView>(['request', id], `requests/${encodeURIComponent(id)}`)
  return (
    <>
      <Back href="/requests">{t('Requests')}</Back>
      <QueryState query={query} title={t('Request')} />
      {query.data && <RequestDetails request={query.data} />}
    </>
  )
}

/** What stands `beside` it comes after its figures. */
export function RequestDetails({ request, beside }: { request: RequestDetailView; beside?: ReactNode }) {
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
        {Object.entries(request.tags).map(([name, value]) => (
          <Fact key={name} name={t('Tag {name}', { name })}>
            {value}
          </Fact>
        ))}
      </dl>
      {beside}
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
        columns={[
          t('Item'),
          wideOnly(numeric(t('Quantity'))),
          wideOnly(numeric(t('× rate'))),
          numeric(t('= amount')),
        ]}
      >
        {receipt.lines.map((line, index) => (
          <tr key={index}>
            <td className={firstOnPhones}>
              {line.item}
              {rounds > 1 && (
                <span className="text-muted"> · {t('round {round}', { round: line.round ?? 1 })}</span>
              )}
              <span className="block text-[12.5px] break-words text-muted tabular-nums sm:hidden">
                {count(line.quantity)} × {line.rate}
              </span>
            </td>
            <td className={`num ${notOnPhones}`}>{count(line.quantity)}</td>
            <td className={`num text-muted ${notOnPhones}`}>{line.rate}</td>
            <td className="num">{line.amount}</td>
          </tr>
        ))}
        <SumOfReceipt amount={receipt.total} strong>
          {t('Total')}
        </SumOfReceipt>
        {receipt.absorbed !== '0' && (
          <SumOfReceipt amount={receipt.absorbed}>{t('Paid by the operator')}</SumOfReceipt>
        )}
        {receipt.on_credit !== '0' && (
          <SumOfReceipt amount={receipt.on_credit}>{t('Owed, on the credit line')}</SumOfReceipt>
        )}
        {receipt.drawn.map(({ pool, lot, amount }) => (
          <SumOfReceipt key={lot} amount={amount}>
            {t('Paid from {pool}', { pool: poolName(pool) })}{' '}
            <span className="font-mono text-[12px] break-all text-muted">{lot}</span>
          </SumOfReceipt>
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

interface SumOfReceiptProps {
  readonly amount: string
  readonly strong?: boolean
  readonly children: ReactNode
}

/** A row below the lines of a receipt; its amount stands below theirs, on a phone too. */
function SumOfReceipt({ amount, strong = false, children }: SumOfReceiptProps) {
  return (
    <tr className={strong ? 'font-semibold' : ''}>
      <td className={firstOnPhones}>{children}</td>
      <td className={notOnPhones}>&nbsp;</td>
      <td className={notOnPhones}>&nbsp;</td>
      <td className="num">{amount}</td>
    </tr>
  )
}

function Attempts({ receipt }: { receipt: Receipt }) {
  return (
    <Section title={t('Attempts')}>
      <Table
        label={t('Attempts')}
        columns={[
          t('Provider'),
          t('Outcome'),
          wideOnly(t('Reason')),
          wideOnly(t('Its id')),
          numeric(t('Time')),
        ]}
      >
        {receipt.attempts.map((attempt, index) => (
          <tr key={index}>
            <td className={firstOnPhones}>
              <span className="break-words">{attempt.provider}</span>
              {attempt.reason && (
                <span className="block text-[12.5px] break-words text-muted sm:hidden">{attempt.reason}</span>
              )}
              {attempt.upstream_id && (
                <span className="block font-mono text-[12px] break-all text-muted sm:hidden">
                  {attempt.upstream_id}
                </span>
              )}
            </td>
            <td className="sm:whitespace-nowrap">
              <Badge tone={attempt.code === null ? 'good' : 'warn'}>
                {attempt.status ?? ''} {attempt.code ?? attempt.outcome}
              </Badge>
            </td>
            <td className={`max-w-80 break-words text-muted ${notOnPhones}`}>{attempt.reason ?? '–'}</td>
            <td className={`max-w-48 truncate font-mono text-[12px] text-muted ${notOnPhones}`}>
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

interface RequestTableProps {
  readonly rows: readonly RequestRowView[]
  readonly place?: string
}

/** `place` is where the page of a call is. */
export function RequestTable({ rows, place = '/requests' }: RequestTableProps) {
  return (
    <Table
      label={t('Requests')}
      columns={[
        t('When'),
        wideOnly(t('Model')),
        wideOnly(t('Key')),
        wideOnly(t('Outcome')),
        wideOnly(numeric(t('Tokens'))),
        wideOnly(numeric(t('Time'))),
        numeric(t('Cost')),
      ]}
    >
      {rows.map((row) => (
        <tr key={row.id} className="relative hover:bg-paper">
          <td className={firstOnPhones}>
            <Link href={`${place}/${row.id}`} className={`${wholeRow} sm:whitespace-nowrap`}>
              {moment(row.ended_at)}
            </Link>
            <span className="mt-0.5 flex min-w-0 items-center gap-x-2 sm:hidden">
              <Outcome row={row} />
              <span className="truncate font-mono text-[12px]">{row.model ?? '–'}</span>
            </span>
          </td>
          <td
            className={`max-w-72 truncate font-mono text-[12.5px] ${notOnPhones}`}
            title={row.model ?? undefined}
          >
            {row.model ?? '–'}
          </td>
          <td className={`max-w-40 truncate ${notOnPhones}`}>
            {row.key === null ? t('chat') : (row.key_name ?? row.key)}
          </td>
          <td className={`whitespace-nowrap ${notOnPhones}`}>
            <Outcome row={row} />
          </td>
          <td className={`num ${notOnPhones}`}>
            {count(row.prompt_tokens)} → {count(row.completion_tokens)}
          </td>
          <td className={`num ${notOnPhones}`}>{milliseconds(row.total_ms)}</td>
          <td className="num">
            {usdShort(row.cost)}
            <span className="block text-[12.5px] text-muted sm:hidden">{milliseconds(row.total_ms)}</span>
          </td>
        </tr>
      ))}
    </Table>
  )
}

export function Outcome({ row }: { row: RequestRowView }) {
  if (row.code === null) {
    const plain = row.ending === null || row.ending === 'finished' || row.ending === 'completed'
    return <Badge tone={plain ? 'good' : 'warn'}>{plain ? t('served') : row.ending}</Badge>
  }
  return (
    <Badge tone={row.status >= 500 ? 'bad' : 'warn'}>
      {row.status} {row.code}
    </Badge>
  )
}

// A receipt, added up again in the browser: nothing the gateway has summed is believed.

interface Step {
  readonly says: string
  readonly holds: boolean
}

/** What a receipt claims, each claim computed from the figures it is made of. */
export function addUp(receipt: Receipt): readonly Step[] {
  const lines = receipt.lines.map(({ item, quantity, rate, amount }) => {
    const product = times(exact(String(quantity)), exact(rate))
    return {
      says: `${item}: ${quantity} × ${rate} = ${decimal(product)}`,
      holds: equal(product, exact(amount)),
    }
  })
  const total = sumOf(receipt.lines.map(({ amount }) => amount))
  const charged = sumOf([receipt.charged, receipt.absorbed])
  const drawn = sumOf([...receipt.drawn.map(({ amount }) => amount), receipt.on_credit])
  return [
    ...lines,
    { says: `lines = ${decimal(total)}`, holds: equal(total, exact(receipt.total)) },
    {
      says: `charged + paid by the operator = ${decimal(charged)}`,
      holds: equal(charged, exact(receipt.total)),
    },
    { says: `from credit + owed = ${decimal(drawn)}`, holds: equal(drawn, exact(receipt.charged)) },
  ]
}

// Why a request was refused: the rules that admission goes through, the one that fired, the figures of that moment, and
// the one act that would change it. Other failures have their code and what the gateway knows of them.

function Explanation({ request }: { request: RequestDetailView }) {
  const { refusal, detail, code } = request
  return (
    <Section title={refusal ? t('Why it was refused') : t('Why it failed')}>
      {refusal && <RuleTable refusal={refusal} />}
      {!refusal && (
        <div className="card p-4">
          <p>{messageIn(detail) ?? t('The gateway answered {status}.', { status: request.status })}</p>
          <p className="mt-2">{code !== null && <ErrorCode code={code} className="text-accent" />}</p>
          {detail && <Details detail={detail} />}
        </div>
      )}
    </Section>
  )
}

function RuleTable({ refusal }: { refusal: RefusalView }) {
  return (
    <div className="card p-4">
      <ol className="grid gap-1" aria-label={t('Rules of admission')}>
        {refusal.rules.map(({ id, code, asks, outcome }, index) => (
          <li
            key={id}
            className={`flex flex-wrap items-baseline gap-x-3 rounded px-2 py-1 ${
              outcome === 'fired' ? 'bg-bad-soft font-medium' : outcome === 'passed' ? '' : 'text-muted'
            }`}
          >
            <span className="w-5 tabular-nums">{index + 1}.</span>
            <span className="min-w-0 flex-1">{asks}</span>
            <code className="font-mono text-[12px]">{code}</code>
            <Badge tone={outcome === 'fired' ? 'bad' : outcome === 'passed' ? 'good' : 'plain'}>
              {t(outcomeNames[outcome])}
            </Badge>
          </li>
        ))}
      </ol>
      <Figures figures={refusal.figures} />
      <Act act={refusal.act} figures={refusal.figures} />
    </div>
  )
}

const outcomeNames = { passed: 'passed', fired: 'refused here', not_reached: 'not reached' } as const

function Figures({ figures }: { figures: RefusalView['figures'] }) {
  const { needed, available, held, key_limit_left: left, budget_left: ofGroup, pools } = figures
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    [t('Needed at most'), needed],
    [t('Available'), available],
    [t('Reserved for other calls'), held],
    [t('Left of the key’s limit'), left],
    [t('Left of the budgets'), ofGroup],
  ]
  const known = facts.filter(([, amount]) => amount != null)
  if (known.length === 0 && !pools?.length) return null
  return (
    <div className="mt-4 border-t border-line pt-3">
      <p className="mb-2 text-[12.5px] text-muted">{t('At that moment')}</p>
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
        {known.map(([name, amount]) => (
          <Fact key={name} name={name}>
            <span className="font-medium tabular-nums">{usd(amount!)}</span>
          </Fact>
        ))}
        {pools?.map(({ type, remaining, counted }) => (
          <Fact key={type} name={t(poolNames[type])}>
            <span className={`tabular-nums ${counted ? '' : 'text-muted'}`}>{usd(remaining)}</span>{' '}
            {!counted && <span className="text-[12px] text-muted">{t('does not pay for it')}</span>}
          </Fact>
        ))}
      </dl>
    </div>
  )
}

const actPages: Readonly<Record<RefusalView['act']['kind'], readonly [string, string] | null>> = {
  top_up: ['/credits', 'To the credits'],
  other_model: ['/models', 'Choose another model'],
  raise_key_limit: ['/keys', 'To the keys'],
  raise_budget: null,
  allow_model: ['/keys', 'To the keys'],
  wait: null,
  change_request: null,
  none: null,
}

/** Remedies name a field of the error, whose value the page knows. */
function withTime(text: string, { resets_at: at }: RefusalView['figures']): string {
  return at == null ? text : text.replace('`resets_at`', moment(at))
}

function Act({ act, figures }: Pick<RefusalView, 'act' | 'figures'>) {
  const page = actPages[act.kind]
  return (
    <p className="mt-4 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-md bg-accent-soft px-3 py-2">
      <span className="min-w-0 flex-1">
        <span className="font-medium">{t('What would change it:')}</span> {withTime(act.text, figures)}
      </span>
      {page && <TextLink href={page[0]}>{t(page[1])}</TextLink>}
    </p>
  )
}

function messageIn(detail: RequestDetailView['detail']): string | undefined {
  const message = detail?.['message'] ?? detail?.['reason']
  return typeof message === 'string' ? message : undefined
}

function Details({ detail }: { detail: Readonly<Record<string, unknown>> }) {
  const rest = Object.entries(detail).filter(([name]) => name !== 'message')
  if (rest.length === 0) return null
  return (
    <dl className="mt-3 grid grid-cols-2 gap-3 border-t border-line pt-3 sm:grid-cols-4">
      {rest.map(([name, value]) => (
        <Fact key={name} name={name}>
          <span className="break-words">{typeof value === 'string' ? value : JSON.stringify(value)}</span>
        </Fact>
      ))}
    </dl>
  )
}
