// "My key does not work": what refuses calls with a key now, and what refused them of late.

import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import type { KeyChecksView, KeyCheckView } from '../../http/admin/answers.ts'
import { addressOf } from '../api/address.ts'
import { call } from '../api/call.ts'
import { count, moment, t, usd } from '../strings/text.ts'
import { Badge, Note, Section, Time } from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, QueryState, Table, wholeRow, wideOnly } from '../ui/table.tsx'

/** `path`: of the key, such as `admin/accounts/…/keys/…`. */
export function KeyChecks({ path }: { path: string }) {
  const query = useQuery({
    queryKey: ['admin', path, 'checks'],
    queryFn: async () => (await call<{ data: KeyChecksView }>('GET', `${path}/checks`)).data,
  })
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
          <a
            href={addressOf(`/docs/errors#${code}`)}
            target="_blank"
            rel="noreferrer"
            className="font-mono text-[12px] text-bad underline"
          >
            {code}
          </a>
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
