// Groups of accounts, for operators: made, changed, their members, budgets and credit.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import type { GroupDetailView, GroupView, Page } from '../../http/console/answers.ts'
import type { GroupStatementView } from '../../http/payments/answers.ts'
import { addressOf, call, newId, refresh, useData, usePages } from '../api/call.ts'
import { Budget, Members } from '../pages/groups.tsx'
import { elevate } from '../session/signed-out.tsx'
import { countOf, moment, monthName, t, usd } from '../strings/text.ts'
import {
  ActForm,
  Button,
  Choice,
  Dialog,
  Empty,
  Fact,
  PageHead,
  Section,
  TextLink,
  TextField,
  textOf,
} from '../ui/kit.tsx'
import { firstOnPhones, notOnPhones, numeric, Older, QueryState, Table, wideOnly } from '../ui/table.tsx'

export function Groups() {
  const [making, setMaking] = useState(false)
  const [list, rows] = usePages<GroupView>(['admin', 'groups'], 'admin/groups')
  const names = new Map(rows.map(({ id, name }) => [id, name]))
  return (
    <>
      <PageHead title={t('Groups')} about={t('Teams, projects and customers, and what they may spend.')}>
        <Button look="primary" onClick={() => setMaking(true)}>
          {t('Make a group')}
        </Button>
      </PageHead>
      <QueryState query={list} />
      {list.data && rows.length === 0 && (
        <Empty title={t('There are no groups.')}>
          <p>{t('Keys that members make in a group spend within its budgets.')}</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          label={t('Groups')}
          columns={[
            t('Name'),
            wideOnly(t('Stands in')),
            wideOnly(t('Budget')),
            numeric(t('Spent')),
            wideOnly(numeric(t('Reserved'))),
          ]}
        >
          {rows.map((group) => (
            <tr key={group.id}>
              <td className={firstOnPhones}>
                <Link href={`/operator/groups/${group.id}`} className="text-accent underline break-words">
                  {group.name}
                </Link>
                {group.parent !== null && (
                  <span className="block text-[12.5px] break-words text-muted sm:hidden">
                    {t('in {group}', { group: names.get(group.parent) ?? group.parent })}
                  </span>
                )}
              </td>
              <td className={notOnPhones}>
                {group.parent === null ? '–' : (names.get(group.parent) ?? group.parent)}
              </td>
              <td className={notOnPhones}>
                <Budget limit={group.budget_usd} spent={group.spent_usd} window={group.budget_window} />
              </td>
              <td className="num">
                {usd(group.spent_usd)}
                {group.budget_usd !== null && (
                  <span className="block text-[12.5px] text-muted sm:hidden">
                    {t('of {limit}', { limit: usd(group.budget_usd) })}
                  </span>
                )}
              </td>
              <td className={`num ${notOnPhones}`}>{usd(group.reserved_usd)}</td>
            </tr>
          ))}
        </Table>
      )}
      <Older list={list} action={t('More')} />
      {making && <GroupForm groups={rows} onClose={() => setMaking(false)} />}
    </>
  )
}

interface GroupFormProps {
  readonly existing?: GroupView
  readonly groups: readonly GroupView[]
  readonly onClose: () => void
}

/** Makes a group, or changes one. */
function GroupForm({ existing, groups, onClose }: GroupFormProps) {
  const submit = async (given: FormData) => {
    const body = {
      name: textOf(given, 'name'),
      parent: textOf(given, 'parent') ?? null,
      budget_usd: textOf(given, 'budget_usd') ?? null,
      budget_window: textOf(given, 'budget_window'),
      member_budget_usd: textOf(given, 'member_budget_usd') ?? null,
      timezone: textOf(given, 'timezone') ?? 'UTC',
    }
    const path = existing === undefined ? 'admin/groups' : `admin/groups/${existing.id}`
    await elevate(() => call(existing === undefined ? 'POST' : 'PATCH', path, body))
    await refresh('admin')
    onClose()
  }
  const others = groups.filter(({ id }) => id !== existing?.id)
  return (
    <Dialog
      title={existing === undefined ? t('Make a group') : t('Change {name}', { name: existing.name })}
      onClose={onClose}
    >
      <ActForm onSubmit={submit} action={existing === undefined ? t('Make the group') : t('Save')}>
        <TextField
          label={t('Name')}
          name="name"
          required
          maxLength={100}
          defaultValue={existing?.name}
          autoFocus
        />
        <Choice
          label={t('Stands in')}
          name="parent"
          defaultValue={existing?.parent ?? ''}
          options={[['', t('no other group')], ...others.map(({ id, name }) => [id, name] as const)]}
        />
        <TextField
          label={t('Budget, US dollars')}
          name="budget_usd"
          inputMode="decimal"
          hint={t('Of the group and all groups in it; empty: none.')}
          defaultValue={existing?.budget_usd ?? ''}
        />
        <TextField
          label={t('Budget of each member, US dollars')}
          name="member_budget_usd"
          inputMode="decimal"
          hint={t('Empty: none.')}
          defaultValue={existing?.member_budget_usd ?? ''}
        />
        <Choice
          label={t('Begins anew')}
          name="budget_window"
          defaultValue={existing?.budget_window ?? 'month'}
          options={[
            ['day', t('each day')],
            ['week', t('each week')],
            ['month', t('each month')],
            ['none', t('never')],
          ]}
        />
        <TextField
          label={t('Time zone')}
          name="timezone"
          placeholder="Asia/Kolkata"
          defaultValue={existing?.timezone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone}
        />
      </ActForm>
    </Dialog>
  )
}

// One group.

export function GroupPage() {
  const { id } = useParams<{ id: string }>()
  const { data, error, isPending, refetch } = useData<GroupDetailView>(
    ['admin', 'group', id],
    `admin/groups/${encodeURIComponent(id)}`,
  )
  return (
    <>
      <p className="mb-2 text-[13px]">
        <TextLink href="/operator/groups">{t('Groups')}</TextLink>
        {data?.above.toReversed().map((group) => (
          <span key={group.id}>
            {' › '}
            <TextLink href={`/operator/groups/${group.id}`}>{group.name}</TextLink>
          </span>
        ))}
      </p>
      <QueryState query={{ error, isPending, refetch }} />
      {data && <WholeGroup group={data} />}
    </>
  )
}

type Open = 'change' | 'grant' | 'delete' | null

function WholeGroup({ group }: { group: GroupDetailView }) {
  const [, navigate] = useLocation()
  const [open, setOpen] = useState<Open>(null)
  const [grant] = useState(() => newId())
  const path = `admin/groups/${encodeURIComponent(group.id)}`
  const groups = useQuery({
    queryKey: ['admin', 'groups', 'choice'],
    queryFn: async () => (await call<Page<GroupView>>('GET', 'admin/groups?limit=200')).data,
    enabled: open === 'change',
  })
  const close = () => setOpen(null)
  const onChanged = async () => {
    await refresh('admin')
    close()
  }
  return (
    <>
      <PageHead title={group.name} />
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact name={t('Budget')}>
          <Budget limit={group.budget_usd} spent={group.spent_usd} window={group.budget_window} />
        </Fact>
        <Fact name={t('Spent')}>{usd(group.spent_usd)}</Fact>
        <Fact name={t('Reserved')}>{usd(group.reserved_usd)}</Fact>
        <Fact name={t('Begins anew')}>{group.resets_at === null ? t('never') : moment(group.resets_at)}</Fact>
        <Fact name={t('Budget of each member')}>
          {group.member_budget_usd === null ? t('none') : usd(group.member_budget_usd)}
        </Fact>
        <Fact name={t('Time zone')}>{group.timezone}</Fact>
        <Fact name={t('Credit of its own')}>
          {group.credits === null ? t('none: its members pay') : usd(group.credits.spendable.api)}
        </Fact>
        <Fact mono name={t('Id')}>
          {group.id}
        </Fact>
      </dl>
      <div className="mt-4 flex flex-wrap gap-2">
        <Button onClick={() => setOpen('change')}>{t('Change')}</Button>
        <Button onClick={() => setOpen('grant')}>{t('Grant credit')}</Button>
        <Button look="danger" onClick={() => setOpen('delete')}>
          {t('Delete')}
        </Button>
      </div>
      <Members path={path} known="admin" />
      <GroupStatement path={path} />
      {open === 'change' && groups.data && (
        <GroupForm existing={group} groups={groups.data} onClose={close} />
      )}
      {open === 'grant' && (
        <Dialog title={t('Grant credit')} onClose={close}>
          <ActForm
            action={t('Grant')}
            onSubmit={async (given) => {
              const body = { usd: textOf(given, 'usd'), id: grant }
              await elevate(() => call('POST', `${path}/grants`, body))
              await onChanged()
            }}
          >
            <p>{t('From its first credit on, the group pays for its keys, and its members do not.')}</p>
            <TextField label={t('Amount, US dollars')} name="usd" inputMode="decimal" required autoFocus />
          </ActForm>
        </Dialog>
      )}
      {open === 'delete' && (
        <Dialog title={t('Delete {name}', { name: group.name })} onClose={close}>
          <ActForm
            look="danger"
            action={t('Delete')}
            onSubmit={async () => {
              await call('DELETE', path)
              await refresh('admin')
              navigate('/operator/groups')
            }}
          >
            <p>{t('Its keys are refused from then on, and its members leave it. Its receipts stay.')}</p>
          </ActForm>
        </Dialog>
      )}
    </>
  )
}

// The statement of a month of a group: who has spent what in it.

/** How many months back can be chosen. */
const months = 12

function GroupStatement({ path }: { path: string }) {
  const [month, setMonth] = useState(() => monthsBack()[0]!)
  const at = `${path}/statements/${month}`
  const query = useData<GroupStatementView>(['admin', 'group-statement', path, month], at)
  return (
    <Section title={t('Statement')}>
      <div className="mb-3 flex flex-wrap items-end gap-3">
        <div className="min-w-48">
          <Choice
            label={t('Month')}
            value={month}
            options={monthsBack().map((name) => [name, monthName(name)])}
            onChange={(event) => setMonth(event.target.value)}
          />
        </div>
        <a
          className="inline-flex h-9 items-center rounded-md border border-line-strong bg-panel px-3.5 font-medium hover:bg-paper"
          href={addressOf(`/console/api/${at}/spending.csv`)}
          download
        >
          {t('By day and person as CSV')}
        </a>
      </div>
      <QueryState query={query} />
      {query.data && <Spending statement={query.data} />}
    </Section>
  )
}

function Spending({ statement: { spent, people, credit } }: { statement: GroupStatementView }) {
  if (spent.calls === 0) return <Empty title={t('No calls in this month.')} />
  return (
    <>
      <p className="mb-3">
        {countOf(spent.calls, '{count} call', '{count} calls')}, {usd(spent.charged_usd)}
        {credit !== null && (
          <>
            {' · '}
            {t('credit of the group: {opening} before, {closing} after', {
              opening: usd(credit.opening.balance),
              closing: usd(credit.closing.balance),
            })}
          </>
        )}
      </p>
      <Table label={t('Statement')} columns={[t('Person'), numeric(t('Calls')), numeric(t('Cost'))]}>
        {people.map(({ id, label, calls, charged_usd: charged }) => (
          <tr key={id}>
            <td className={`break-words ${firstOnPhones}`}>{label ?? id ?? t('all others')}</td>
            <td className="num">{calls}</td>
            <td className="num">{usd(charged)}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** This month first. */
function monthsBack(): readonly string[] {
  const now = new Date()
  return Array.from({ length: months }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  )
}
