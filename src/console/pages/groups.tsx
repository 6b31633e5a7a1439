// The groups that an account is a member of, and those that it administers.

import { useState } from 'react'
import { Link, useParams } from 'wouter'
import type {
  AdministeredGroupView,
  GroupView,
  MemberView,
  OwnGroupView,
} from '../../http/console/answers.ts'
import { call, refresh, useData, useSession, usePages } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { moment, t, usd } from '../strings/text.ts'
import {
  ActForm,
  Button,
  Choice,
  Dialog,
  Empty,
  Fact,
  PageHead,
  RowButton,
  Section,
  TextField,
  TextLink,
  textOf,
} from '../ui/kit.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  rightAligned,
  Table,
  wideOnly,
} from '../ui/table.tsx'

// The members of a group and its budget, as operators and the admins of the group see them.

const windowNames: Readonly<Record<GroupView['budget_window'], string>> = {
  day: '{limit} a day',
  week: '{limit} a week',
  month: '{limit} a month',
  none: '{limit} in all',
}

interface BudgetProps {
  readonly limit: string | null
  readonly spent: string
  readonly window: GroupView['budget_window']
}

/** A budget with a bar of how much of it is spent. */
export function Budget({ limit, spent, window }: BudgetProps) {
  if (limit === null) return <span className="text-muted">{t('none')}</span>
  const part = Number(limit) === 0 ? 1 : Math.min(1, Number(spent) / Number(limit))
  const percent = Math.round(part * 100)
  return (
    <div className="min-w-28">
      <span className="tabular-nums">{t(windowNames[window], { limit: usd(limit) })}</span>
      <div
        role="meter"
        aria-label={t('Spent of the budget')}
        aria-valuenow={percent}
        aria-valuemin={0}
        aria-valuemax={100}
        className="mt-1 h-1.5 rounded bg-line"
      >
        <div
          className={`h-full rounded ${part >= 0.95 ? 'bg-bad' : 'bg-accent'}`}
          style={{ width: `${percent}%` }}
        />
      </div>
    </div>
  )
}

type Open = { readonly kind: 'add' } | { readonly kind: 'change' | 'remove'; readonly member: MemberView }

interface MembersProps {
  /** The group, below the console's API. */
  readonly path: string
  /** Where what has changed is known: in the pages of operators, who also reach accounts, or in those of admins. */
  readonly known: 'admin' | 'groups'
  /** The account that is signed in, whose membership others change. */
  readonly self?: string | undefined
}

export function Members({ path, known, self }: MembersProps) {
  const [open, setOpen] = useState<Open | null>(null)
  const [list, rows] = usePages<MemberView>([known, 'members', path], `${path}/members`)
  const close = () => setOpen(null)
  const onDone = async () => {
    await refresh(known)
    close()
  }
  const add = <Button onClick={() => setOpen({ kind: 'add' })}>{t('Add a member')}</Button>
  return (
    <Section title={t('Members')} side={add}>
      <QueryState query={list} />
      {list.data && rows.length === 0 && <Empty title={t('It has no members.')} />}
      {rows.length > 0 && (
        <Table
          label={t('Members')}
          columns={[
            t('E-mail'),
            wideOnly(t('Role')),
            wideOnly(numeric(t('Budget'))),
            wideOnly(numeric(t('Spent'))),
            rightAligned(t('Act')),
          ]}
        >
          {rows.map((member) => (
            <tr key={member.account}>
              <td className={firstOnPhones}>
                {known === 'admin' ? (
                  <Link
                    href={`/operator/accounts/${member.account}`}
                    className="block truncate text-accent underline"
                    title={member.email}
                  >
                    {member.email}
                  </Link>
                ) : (
                  <span className="block truncate" title={member.email}>
                    {member.email}
                  </span>
                )}
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <span>{t(member.role)}</span>
                  <span className="tabular-nums">
                    {member.limit_usd === null
                      ? t('{amount} spent', { amount: usd(member.spent_usd) })
                      : t('{spent} of {limit}', {
                          spent: usd(member.spent_usd),
                          limit: usd(member.limit_usd),
                        })}
                  </span>
                </span>
              </td>
              <td className={notOnPhones}>{t(member.role)}</td>
              <td className={`num ${notOnPhones}`}>
                {member.limit_usd === null ? t('none') : usd(member.limit_usd)}
              </td>
              <td className={`num ${notOnPhones}`}>{usd(member.spent_usd)}</td>
              <td className="text-right sm:whitespace-nowrap">
                {member.account === self ? (
                  <span className="text-muted">{t('you')}</span>
                ) : (
                  <div className="flex justify-end gap-1 max-sm:grid max-sm:w-max">
                    <RowButton
                      label={t('Change {name}', { name: member.email })}
                      onClick={() => setOpen({ kind: 'change', member })}
                    >
                      {t('Change')}
                    </RowButton>
                    <RowButton
                      look="danger"
                      label={t('Remove {name}', { name: member.email })}
                      onClick={() => setOpen({ kind: 'remove', member })}
                    >
                      {t('Remove')}
                    </RowButton>
                  </div>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Older list={list} action={t('More')} />
      {open?.kind === 'add' && <MemberForm path={path} onDone={onDone} onClose={close} />}
      {open?.kind === 'change' && (
        <MemberForm path={path} existing={open.member} onDone={onDone} onClose={close} />
      )}
      {open?.kind === 'remove' && (
        <Dialog title={t('Remove {name}', { name: open.member.email })} onClose={close}>
          <ActForm
            look="danger"
            action={t('Remove')}
            onSubmit={async () => {
              await call('DELETE', `${path}/members/${encodeURIComponent(open.member.account)}`)
              await onDone()
            }}
          >
            <p>{t('Its keys of the group are refused from then on, and its running calls with them end.')}</p>
          </ActForm>
        </Dialog>
      )}
    </Section>
  )
}

interface MemberFormProps {
  readonly path: string
  readonly existing?: MemberView
  readonly onDone: () => Promise<void>
  readonly onClose: () => void
}

/** Adds a member, or changes one. */
function MemberForm({ path, existing, onDone, onClose }: MemberFormProps) {
  const submit = async (given: FormData) => {
    const body = { role: textOf(given, 'role'), budget_usd: textOf(given, 'budget_usd') ?? null }
    await elevate(() =>
      existing === undefined
        ? call('POST', `${path}/members`, { account: textOf(given, 'account'), ...body })
        : call('PATCH', `${path}/members/${encodeURIComponent(existing.account)}`, body),
    )
    await onDone()
  }
  const title = existing === undefined ? t('Add a member') : t('Change {name}', { name: existing.email })
  return (
    <Dialog title={title} onClose={onClose}>
      <ActForm onSubmit={submit} action={existing === undefined ? t('Add') : t('Save')}>
        {existing === undefined && <TextField label={t('E-mail')} name="account" required autoFocus />}
        <Choice
          label={t('Role')}
          name="role"
          defaultValue={existing?.role ?? 'member'}
          options={[
            ['member', t('member')],
            ['admin', t('admin')],
          ]}
        />
        <TextField
          label={t('Budget, US dollars')}
          name="budget_usd"
          inputMode="decimal"
          hint={t('Empty: as each member.')}
          defaultValue={existing?.budget_usd ?? ''}
        />
      </ActForm>
    </Dialog>
  )
}

export function MyGroups() {
  const groups = useData<readonly OwnGroupView[]>(['groups'], 'groups')
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
  const { data, error, isPending, refetch } = useData<AdministeredGroupView>(['groups', id], path)
  return (
    <>
      <p className="mb-2 text-[13px]">
        <TextLink href="/groups">{t('My groups')}</TextLink>
        {data?.above.toReversed().map((group) => (
          <span key={group.id}>
            {' › '}
            <TextLink href={`/groups/${group.id}`}>{group.name}</TextLink>
          </span>
        ))}
      </p>
      <QueryState query={{ error, isPending, refetch }} />
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
