// "I was charged twice": calls that may be one request, beside each other, with what each was charged and from where.

import { Link } from 'wouter'
import type {
  DuplicateCallView,
  DuplicatesView,
  KeyChecksView,
  KeyCheckView,
} from '../../http/admin/answers.ts'
import { useAnswer, useData } from '../api/call.ts'
import { Outcome } from '../pages/requests.tsx'
import { poolName } from '../pages/words.tsx'
import { count, countOf, milliseconds, moment, t, usd } from '../strings/text.ts'
import { Badge, ErrorCode, Note, Section, Time } from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, QueryState, Table, wholeRow, wideOnly } from '../ui/table.tsx'

type DuplicateSet = DuplicatesView['data'][number]

const verdicts: Readonly<Record<DuplicateSet['verdict'], string>> = {
  one_call: 'It is one call, charged once.',
  not_charged: 'Nothing was charged for any of them.',
  charged_once: 'Only one of them was charged.',
  sent_again: 'The same request was sent again, under another Idempotency-Key, and charged again.',
  look_alike:
    'They may be one request that was sent again: without an Idempotency-Key on each nobody can know. Each was charged.',
  different: 'They are different requests, each charged for itself.',
}

const differences: Readonly<Record<DuplicateSet['differ'][number], string>> = {
  account: 'account',
  key: 'key',
  model: 'model',
  prompt_tokens: 'length of the prompt',
  body: 'content',
}

function useDuplicates(asked: URLSearchParams) {
  return useAnswer<DuplicatesView>(['admin', 'duplicates', asked.toString()], `admin/duplicates?${asked}`)
}

/** Of the calls with these ids; of one alone, with those that look like it. */
export function DuplicatesOf({ ids }: { ids: readonly string[] }) {
  const query = useDuplicates(new URLSearchParams({ ids: ids.join(',') }))
  const [set] = query.data?.data ?? []
  const missing = query.data?.missing ?? []
  return (
    <Section title={ids.length === 1 ? t('Charged twice?') : t('Beside each other')}>
      <QueryState query={query} rows={1} />
      {missing.length > 0 && (
        <p className="mb-2 break-all text-muted">
          {t('No call is called {ids}.', { ids: missing.join(', ') })}
        </p>
      )}
      {query.data && !set && (
        <p className="text-muted">
          {t(
            'No other call of its key looks like it: same model and length of the prompt, within ten minutes.',
          )}
        </p>
      )}
      {set && <SetOfCalls set={set} />}
    </Section>
  )
}

/** Of the last calls of an account, or of those about a time. */
export function DuplicatesIn({ account, at }: { account: string; at: string | null }) {
  const query = useDuplicates(new URLSearchParams({ account, ...(at === null ? {} : { at }) }))
  const found = query.data
  // What is not there takes one line; the calls below are what most operators have come for.
  if (found?.data.length === 0)
    return (
      <p className="mt-7 text-muted">
        {countOf(
          found.looked,
          'No call that was charged twice: {count} was looked at.',
          'No two of {count} calls look like one request that was charged twice.',
        )}
      </p>
    )
  return (
    <Section title={t('Charged twice?')}>
      <QueryState query={query} rows={1} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        {found?.data.map((set) => (
          <SetOfCalls key={set.calls[0]!.id} set={set} />
        ))}
      </div>
    </Section>
  )
}

function SetOfCalls({ set: { verdict, differ, calls, count: all } }: { set: DuplicateSet }) {
  const isDouble = verdict === 'sent_again' || verdict === 'look_alike'
  const names = differ.map((each) => t(differences[each]))
  return (
    <div>
      <div className="mb-2">
        <Note tone={isDouble ? 'warn' : 'good'} role="status">
          {t(verdicts[verdict])}
          {names.length > 0 && ` ${t('They differ in: {names}.', { names: names.join(', ') })}`}
        </Note>
      </div>
      <Table
        label={t('Calls beside each other')}
        columns={[
          t('Began'),
          wideOnly(t('Outcome')),
          wideOnly(t('Key')),
          wideOnly(t('Model')),
          wideOnly(numeric(t('Tokens'))),
          wideOnly(t('Idempotency-Key')),
          numeric(t('Charged')),
        ]}
      >
        {calls.map((each, index) => (
          <tr key={each.id} className="relative hover:bg-paper">
            <td className={firstOnPhones}>
              <Link href={`/operator/requests/${each.id}`} className={`${wholeRow} sm:whitespace-nowrap`}>
                {moment(each.started_at)}
              </Link>
              <span className="block text-[12.5px] text-muted">{whenOf(each, calls[index - 1])}</span>
              <span className="block font-mono text-[12px] break-all text-muted">{each.id}</span>
              <span className="mt-0.5 flex min-w-0 items-center gap-x-2 sm:hidden">
                <Outcome row={each} />
                <span className="truncate font-mono text-[12px]">{each.model ?? '–'}</span>
              </span>
            </td>
            <td className={`whitespace-nowrap ${notOnPhones}`}>
              <Outcome row={each} />
            </td>
            <td className={`max-w-40 truncate ${notOnPhones}`}>
              {each.key === null ? t('chat') : (each.key_name ?? each.key)}
            </td>
            <td className={`max-w-56 truncate font-mono text-[12.5px] ${notOnPhones}`}>
              {each.model ?? '–'}
            </td>
            <td className={`num whitespace-nowrap ${notOnPhones}`}>
              {count(each.prompt_tokens)} → {count(each.completion_tokens)}
            </td>
            <td className={`max-w-40 truncate font-mono text-[12px] ${notOnPhones}`}>
              {each.idempotency_key ?? '–'}
            </td>
            <td className="num">
              {usd(each.charged)}
              {payersOf(each).map((text) => (
                <span key={text} className="block text-[12.5px] whitespace-nowrap text-muted">
                  {text}
                </span>
              ))}
            </td>
          </tr>
        ))}
      </Table>
      {all > calls.length && (
        <p className="mt-2 text-[12.5px] text-muted">
          {t('The first {shown} of {all}.', { shown: count(calls.length), all: count(all) })}
        </p>
      )}
    </div>
  )
}

/** How long it took; of one that follows another also how long after the end of that it began. */
function whenOf(each: DuplicateCallView, before: DuplicateCallView | undefined): string {
  const took = t('took {time}', { time: milliseconds(each.total_ms) })
  if (before === undefined) return took
  const apart = Date.parse(each.started_at) - Date.parse(before.ended_at)
  const time = milliseconds(Math.abs(apart))
  const after =
    apart < 0
      ? t('{time} before the end of the one above', { time })
      : t('{time} after the end of the one above', { time })
  return `${took}, ${after}`
}

/** From which pools it was paid, each once: a pool may have given several lots. */
function payersOf({ drawn, on_credit: owed, paid_by: payer, account }: DuplicateCallView): readonly string[] {
  const pools = [...new Set(drawn.map(({ pool }) => poolName(pool)))]
  return [
    ...pools.map((pool) => t('from {pool}', { pool })),
    ...(owed === '0' ? [] : [t('on the credit line')]),
    ...(payer === null || payer === account ? [] : [t('by the group')]),
  ]
}

// "My key does not work": what refuses calls with a key now, and what refused them of late.

/** `path`: of the key, such as `admin/accounts/…/keys/…`. */
export function KeyChecks({ path }: { path: string }) {
  const query = useData<KeyChecksView>(['admin', path, 'checks'], `${path}/checks`)
  const faults = query.data?.checks.filter(({ code }) => code !== null) ?? []
  return (
    <Section title={t('Does the key work?')}>
      <QueryState query={query} rows={3} />
      {query.data && (
        <>
          <Note tone={faults.length === 0 ? 'good' : 'bad'} role="status">
            {faults.length === 0
              ? t('Nothing refuses all of its calls now.')
              : t('Its calls are refused: {codes}.', {
                  codes: [...new Set(faults.map(({ code }) => code))].join(', '),
                })}
          </Note>
          <ul className="card mt-3 divide-y divide-line" aria-label={t('What a call with it meets')}>
            {query.data.checks.map((each) => (
              <Check key={`${each.id} ${each.name}`} check={each} />
            ))}
          </ul>
          <Refusals rows={query.data.refusals} />
        </>
      )}
    </Section>
  )
}

function Check({ check }: { check: KeyCheckView }) {
  const { code, remedy } = check
  return (
    <li className={`px-3 py-2 ${code === null ? '' : 'bg-bad-soft'}`}>
      <p className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <span className="min-w-0 flex-1 break-words">{sentenceOf(check)}</span>
        {code === null ? (
          <Badge tone="good">{t('passed')}</Badge>
        ) : (
          <ErrorCode code={code} className="text-[12px] text-bad" />
        )}
      </p>
      {remedy !== null && <p className="mt-0.5 text-[12.5px]">{remedy}</p>}
    </li>
  )
}

const whoNames: Readonly<Record<NonNullable<KeyCheckView['by']>, string>> = {
  owner: 'its owner',
  operator: 'an operator',
  leak: 'a report that it has leaked',
  networks: 'its use from many networks',
}

function sentenceOf({ id, code, name, by, at, limit, spent, reserved, names }: KeyCheckView): string {
  const time = at === null ? '' : moment(at)
  const who = by === null ? '' : t(whoNames[by])
  const figures = { spent: usd(spent ?? '0'), limit: usd(limit ?? '0'), reserved: usd(reserved ?? '0') }
  const again = at === null ? '' : ` ${t('It begins anew on {time}.', { time })}`
  const group = name ?? ''
  switch (id) {
    case 'key':
      if (code === 'api_key_revoked') return t('The key was revoked by {who}, {time}.', { who, time })
      if (code === 'api_key_paused') return t('The key is paused since {time}, by {who}.', { who, time })
      if (code === 'api_key_expired') return t('The key expired, {time}.', { time })
      return at === null ? t('The key is active.') : t('The key is active until {time}.', { time })
    case 'account':
      return code === null ? t('The account is active.') : t('The account is suspended.')
    case 'group':
      return t('The key is of the group {group}, which is gone or which its owner has left.', { group })
    case 'budget':
      return `${t('Budget of the group {group}: {spent} of {limit} spent, {reserved} reserved.', { group, ...figures })}${again}`
    case 'member_budget':
      return `${t('Budget of this member of {group}: {spent} of {limit} spent, {reserved} reserved.', { group, ...figures })}${again}`
    case 'limit':
      return `${t('Limit of the key: {spent} of {limit} spent, {reserved} reserved.', figures)}${again}`
    case 'credit':
      return name === null
        ? t('Purchased credit of the account: {limit}, of which {reserved} is reserved.', figures)
        : t('Credit of the group {group}: {limit}, of which {reserved} is reserved.', { group, ...figures })
    case 'models':
      return name === null
        ? t('It may use these models alone: {names}.', { names: listOf(names) })
        : t('In the group {group} these models alone: {names}.', { group, names: listOf(names) })
    case 'networks':
      return t('It works from these networks alone: {names}.', { names: listOf(names) })
    default:
      return id satisfies never
  }
}

function listOf(names: KeyCheckView['names']): string {
  return names === null || names.length === 0 ? t('none') : names.join(', ')
}

function Refusals({ rows }: { rows: KeyChecksView['refusals'] }) {
  if (rows.length === 0)
    return <p className="mt-3 text-muted">{t('No call with it was refused or failed in the last week.')}</p>
  return (
    <div className="mt-3">
      <Table
        label={t('Refused or failed in the last week')}
        columns={[
          t('Refused or failed in the last week'),
          numeric(t('Calls')),
          wideOnly(t('Last model')),
          wideOnly(t('Last')),
        ]}
      >
        {rows.map((row) => (
          <tr key={row.code} className="relative hover:bg-paper">
            <td className={firstOnPhones}>
              <Link href={`/operator/requests/${row.last_id}`} className={wholeRow}>
                {row.status} {row.code}
              </Link>
              <span className="block text-[12.5px] text-muted sm:hidden">
                <Time at={row.last_at} />
                <span className="block truncate font-mono text-[12px]">{row.model ?? '–'}</span>
              </span>
            </td>
            <td className="num">{count(row.calls)}</td>
            <td className={`max-w-56 truncate font-mono text-[12.5px] ${notOnPhones}`}>{row.model ?? '–'}</td>
            <td className={notOnPhones}>
              <Time at={row.last_at} />
            </td>
          </tr>
        ))}
      </Table>
    </div>
  )
}
