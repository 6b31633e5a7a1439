// The members of a group and its budget, as operators and the admins of the group see them.

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { GroupView, MemberView, Page } from '../../http/console/answers.ts'
import { call } from '../api/call.ts'
import { elevate } from '../session/credentials.tsx'
import { t, usd } from '../strings/text.ts'
import { ActForm, Button, Choice, Dialog, Empty, Section, TextField, textOf } from '../ui/kit.tsx'
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

const windowNames: Readonly<Record<GroupView['budget_window'], string>> = {
  day: '{limit} a day',
  week: '{limit} a week',
  month: '{limit} a month',
  none: '{limit} in all',
}

/** A budget with a bar of how much of it is spent. */
export function Budget({
  limit,
  spent,
  window,
}: {
  limit: string | null
  spent: string
  window: GroupView['budget_window']
}) {
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
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const list = useInfiniteQuery({
    queryKey: [known, 'members', path],
    queryFn: ({ pageParam }) =>
      call<Page<MemberView>>(
        'GET',
        pageParam === null ? `${path}/members` : `${path}/members?cursor=${encodeURIComponent(pageParam)}`,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
  })
  const rows = list.data?.pages.flatMap((page) => page.data) ?? []
  const close = () => setOpen(null)
  const onDone = async () => {
    await client.invalidateQueries({ queryKey: [known] })
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
                    <Button
                      small
                      look="quiet"
                      aria-label={t('Change {name}', { name: member.email })}
                      onClick={() => setOpen({ kind: 'change', member })}
                    >
                      {t('Change')}
                    </Button>
                    <Button
                      small
                      look="danger"
                      aria-label={t('Remove {name}', { name: member.email })}
                      onClick={() => setOpen({ kind: 'remove', member })}
                    >
                      {t('Remove')}
                    </Button>
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

/** Adds a member, or changes one. */
function MemberForm({
  path,
  existing,
  onDone,
  onClose,
}: {
  path: string
  existing?: MemberView
  onDone: () => Promise<void>
  onClose: () => void
}) {
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
