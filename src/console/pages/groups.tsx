// The groups that an account is a member of, and those that it administers.

import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from 'wouter'
import type { AdministeredGroupView, OwnGroupView } from '../../http/console/answers.ts'
import { call, useSession } from '../api/call.ts'
import { moment, t, usd } from '../strings/text.ts'
import { Empty, Fact, Failure, Loading, PageHead, Section } from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, QueryState, Table, wideOnly } from '../ui/table.tsx'
import { Budget, Members } from './group-members.tsx'

export function MyGroups() {
  const groups = useQuery({
    queryKey: ['groups'],
    queryFn: async () => (await call<{ data: readonly OwnGroupView[] }>('GET', 'groups')).data,
  })
  return (
    <>
      <PageHead
        title={t('My groups')}
        about={t('A key that you make in a group spends within its budgets.')}
      />
      <QueryState query={groups} />
      {groups.data?.length === 0 && <Empty title={t('You are in no group.')} />}
      {groups.data && groups.data.length > 0 && (
        <Table
          label={t('My groups')}
          columns={[
            t('Name'),
            wideOnly(t('Role')),
            numeric(t('Spent by you')),
            wideOnly(numeric(t('Your budget'))),
            wideOnly(t('Begins anew')),
          ]}
        >
          {groups.data.map((group) => (
            <tr key={group.id}>
              <td className={firstOnPhones}>
                {group.role === 'admin' ? (
                  <Link href={`/groups/${group.id}`} className="text-accent underline break-words">
                    {group.name}
                  </Link>
                ) : (
                  <span className="break-words">{group.name}</span>
                )}
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <span>{t(group.role)}</span>
                  {group.resets_at !== null && (
                    <span>{t('anew {time}', { time: moment(group.resets_at) })}</span>
                  )}
                </span>
              </td>
              <td className={notOnPhones}>{t(group.role)}</td>
              <td className="num">
                {usd(group.spent_usd)}
                {group.limit_usd !== null && (
                  <span className="block text-[12.5px] text-muted sm:hidden">
                    {t('of {limit}', { limit: usd(group.limit_usd) })}
                  </span>
                )}
              </td>
              <td className={`num ${notOnPhones}`}>
                {group.limit_usd === null ? t('none') : usd(group.limit_usd)}
              </td>
              <td className={notOnPhones}>
                {group.resets_at === null ? t('never') : moment(group.resets_at)}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}

/** A group for its admins, and for those of the groups that it stands in. */
export function MyGroup() {
  const { id } = useParams<{ id: string }>()
  const { data: session } = useSession()
  const path = `groups/${encodeURIComponent(id)}`
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['groups', id],
    queryFn: async () => (await call<{ data: AdministeredGroupView }>('GET', path)).data,
  })
  return (
    <>
      <p className="mb-2 text-[13px]">
        <Link href="/groups" className="text-accent underline">
          {t('My groups')}
        </Link>
        {data?.above.toReversed().map((group) => (
          <span key={group.id}>
            {' › '}
            <Link href={`/groups/${group.id}`} className="text-accent underline">
              {group.name}
            </Link>
          </span>
        ))}
      </p>
      {isPending && <Loading />}
      {error && <Failure error={error} retry={() => void refetch()} />}
      {data && (
        <>
          <PageHead title={data.name} />
          <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
            <Fact name={t('Budget')}>
              <Budget limit={data.budget_usd} spent={data.spent_usd} window={data.budget_window} />
            </Fact>
            <Fact name={t('Spent')}>{usd(data.spent_usd)}</Fact>
            <Fact name={t('Reserved')}>{usd(data.reserved_usd)}</Fact>
            <Fact name={t('Begins anew')}>
              {data.resets_at === null ? t('never') : moment(data.resets_at)}
            </Fact>
            <Fact name={t('Budget of each member')}>
              {data.member_budget_usd === null ? t('none') : usd(data.member_budget_usd)}
            </Fact>
            <Fact name={t('Credit of its own')}>
              {data.credits === null ? t('none: its members pay') : usd(data.credits.spendable.api)}
            </Fact>
          </dl>
          <Members path={path} known="groups" self={session?.account?.id} />
          {data.below.length > 0 && (
            <Section title={t('Groups in it')}>
              <ul className="card divide-y divide-line">
                {data.below.map((group) => (
                  <li key={group.id} className="px-4 py-2.5">
                    <Link href={`/groups/${group.id}`} className="text-accent underline break-words">
                      {group.name}
                    </Link>
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </>
      )}
    </>
  )
}
