// "I was charged twice": calls that may be one request, beside each other, with what each was charged and from where.

import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import type { DuplicateCallView, DuplicatesView } from '../../http/admin/answers.ts'
import { call } from '../api/call.ts'
import { Outcome } from '../pages/requests.tsx'
import { poolName } from '../pages/words.tsx'
import { count, countOf, milliseconds, moment, t, usd } from '../strings/text.ts'
import { Note, Section } from '../ui/kit.tsx'
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
  return useQuery({
    queryKey: ['admin', 'duplicates', asked.toString()],
    queryFn: () => call<DuplicatesView>('GET', `admin/duplicates?${asked}`),
  })
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
