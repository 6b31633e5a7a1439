// All accounts, and the invitation of new ones.

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { Link, useParams, useSearchParams } from 'wouter'
import type {
  AccountDetailView,
  AccountEntryView,
  AccountView,
  LinkView,
  OperatorRequestView,
} from '../../http/admin/answers.ts'
import type { TopUpOfOperatorView } from '../../http/payments/answers.ts'
import type { CreditsView, KeyView, OpenSessionView, Page } from '../../http/console/answers.ts'
import { call, CallError, faultIn, newId, refresh, useAnswer, useData, useKeys } from '../api/call.ts'
import { DeleteAccount, Invite, MonthlyCredit, ShownLink } from './account-acts.tsx'
import { DuplicatesIn, KeyChecks } from './support.tsx'
import { around, timeOf } from './requests.tsx'
import { KeyLimit, KeyName, KeySearch, KeyState, PauseButton } from '../pages/key-row.tsx'
import { Statements, TopUpTable } from '../pages/payments.tsx'
import { RequestTable } from '../pages/requests.tsx'
import { Access, SessionEntry } from '../pages/settings.tsx'
import { poolNames } from '../pages/words.tsx'
import { elevate } from '../session/signed-out.tsx'
import { moment, t, usd, usdShort } from '../strings/text.ts'
import {
  ActForm,
  Back,
  Badge,
  Button,
  Choice,
  Dialog,
  Empty,
  Fact,
  Failure,
  Note,
  PageHead,
  RevokeButton,
  Section,
  Select,
  TextField,
  TextLink,
  textOf,
  Time,
  TimeIn,
  Usd,
  useAct,
} from '../ui/kit.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  Older,
  QueryState,
  rightAligned,
  sortable,
  Table,
  wholeRow,
  wideOnly,
} from '../ui/table.tsx'

type Sort = 'opened' | 'email' | 'balance' | 'spent' | 'used'

/** Those that begin with the most; an address begins at the front of the alphabet. */
const firstOrder = (sort: Sort) => (sort === 'email' ? 'asc' : 'desc')

const accountStates = [
  ['active', 'active'],
  ['suspended', 'suspended'],
  ['unverified', 'not verified'],
] as const

export function Accounts() {
  const [query, setQuery] = useSearchParams()
  const [inviting, setInviting] = useState(false)
  const q = query.get('q') ?? ''
  const state = query.get('state') ?? ''
  const sort = (query.get('sort') ?? 'opened') as Sort
  const order = query.get('order') === 'asc' ? 'asc' : query.has('order') ? 'desc' : firstOrder(sort)
  const change = (changes: Readonly<Record<string, string>>) =>
    setQuery(
      Object.entries({
        q,
        state,
        sort: query.get('sort') ?? '',
        order: query.get('order') ?? '',
        ...changes,
      }).filter(([, value]) => value !== ''),
      { replace: true },
    )
  const list = useInfiniteQuery({
    queryKey: ['admin', 'accounts', q, state, sort, order],
    queryFn: ({ pageParam, signal }) => {
      const asked = new URLSearchParams({ sort, order })
      if (q !== '') asked.set('q', q)
      if (state !== '') asked.set('state', state)
      if (pageParam !== null) asked.set('cursor', pageParam)
      return call<Page<AccountEntryView>>('GET', `admin/accounts?${asked}`, undefined, { signal })
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor,
    placeholderData: keepPreviousData,
  })
  const rows = list.data?.pages.flatMap((page) => page.data) ?? []
  const by = (name: Sort) => ({
    order: sort === name ? (order as 'asc' | 'desc') : undefined,
    onSort: () =>
      change({ sort: name, order: sort === name ? (order === 'asc' ? 'desc' : 'asc') : firstOrder(name) }),
  })
  return (
    <>
      <PageHead title={t('Accounts')}>
        <Button look="primary" onClick={() => setInviting(true)}>
          {t('Invite')}
        </Button>
      </PageHead>
      <div className="mb-4 flex flex-wrap gap-2">
        <input
          type="search"
          aria-label={t('Search accounts')}
          placeholder={t('Address or id')}
          value={q}
          onChange={(event) => change({ q: event.target.value })}
          className="control max-w-md flex-[1_1_12rem]"
        />
        <Select
          label={t('State')}
          value={state}
          onPick={(picked) => change({ state: picked })}
          options={[
            ['', t('every state')],
            ...accountStates.map(([value, name]) => [value, t(name)] as const),
          ]}
          className="control w-auto"
        />
      </div>
      <QueryState query={list} />
      {list.data && rows.length === 0 && <Empty title={t('No account matches.')} />}
      {rows.length > 0 && (
        <Table
          label={t('Accounts')}
          columns={[
            sortable(t('E-mail'), by('email')),
            wideOnly(t('State')),
            sortable(numeric(t('Balance')), by('balance')),
            wideOnly(sortable(numeric(t('This month')), by('spent'))),
            wideOnly(sortable(t('Last call'), by('used'))),
            wideOnly(sortable(t('Opened'), by('opened'))),
          ]}
        >
          {rows.map((account) => (
            <AccountRow key={account.id} account={account} />
          ))}
        </Table>
      )}
      <Older list={list} action={t('More')} />
      {inviting && (
        <Invite
          onClose={() => {
            setInviting(false)
            void list.refetch()
          }}
        />
      )}
    </>
  )
}

function AccountRow({ account }: { account: AccountEntryView }) {
  return (
    <tr className="relative hover:bg-paper">
      <td className={`sm:max-w-72 ${firstOnPhones}`}>
        <Link
          href={`/operator/accounts/${account.id}`}
          className={`${wholeRow} block truncate`}
          title={account.email}
        >
          {account.email}
        </Link>
        <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
          <AccountState account={account} />
          <TimeIn sentence={t('last call {time}')} at={account.last_call_at} />
        </span>
      </td>
      <td className={`${notOnPhones} whitespace-nowrap`}>
        <AccountState account={account} />{' '}
        {account.role === 'operator' && <Badge tone="accent">{t('operator')}</Badge>}
      </td>
      <td className="num">
        <Usd amount={account.balance_usd} short />
        <span className="block text-[12.5px] text-muted sm:hidden">
          {t('{amount} this month', { amount: usdShort(account.spent_usd) })}
        </span>
      </td>
      <td className={`num ${notOnPhones}`}>
        <Usd amount={account.spent_usd} short />
      </td>
      <td className={notOnPhones}>
        <Time at={account.last_call_at} none={t('never')} />
      </td>
      <td className={notOnPhones}>
        <Time at={account.created_at} />
      </td>
    </tr>
  )
}

function AccountState({ account }: { account: AccountView }) {
  if (account.suspended) return <Badge tone="bad">{t('suspended')}</Badge>
  return account.email_verified ? (
    <Badge tone="good">{t('active')}</Badge>
  ) : (
    <Badge tone="warn">{t('not verified')}</Badge>
  )
}

// One account, for operators.

export function AccountPage() {
  const { id } = useParams<{ id: string }>()
  const query = useData<AccountDetailView>(
    ['admin', 'account', id],
    `admin/accounts/${encodeURIComponent(id)}`,
  )
  return (
    <>
      <Back href="/operator/accounts">{t('Accounts')}</Back>
      <QueryState query={query} title={t('Account')} />
      {query.data && <Whole account={query.data} />}
    </>
  )
}

function Whole({ account }: { account: AccountDetailView }) {
  const { error, busy, act } = useAct()
  const [link, setLink] = useState<LinkView | null>(null)
  const path = `admin/accounts/${encodeURIComponent(account.id)}`
  const [query] = useSearchParams()
  const key = query.get('key')
  const [promoting, setPromoting] = useState(false)
  const onChanged = () => refresh('admin')
  const change = (verb: string, body: object) =>
    act(async () => {
      await elevate(() => call('POST', `${path}/${verb}`, body))
      await onChanged()
    })
  const promote = async () => {
    const made = await elevate(() =>
      call<{ link: LinkView | null }>('POST', `${path}/role`, { role: 'operator' }),
    )
    setPromoting(false)
    setLink(made.link)
    await onChanged()
  }
  const makeLink = () =>
    act(async () => setLink(await elevate(() => call<LinkView>('POST', `${path}/link`, {}))))
  return (
    <>
      <PageHead title={account.email}>
        <AccountState account={account} />
      </PageHead>
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact mono name={t('Id')}>
          {account.id}
        </Fact>
        <Fact name={t('Role')}>{t(account.role)}</Fact>
        <Fact name={t('Opened')}>{moment(account.created_at)}</Fact>
        <Fact name={t('Used in total')}>{usd(account.credits.total_used)}</Fact>
        {account.credits.pools.map(({ type, remaining }) => (
          <Fact key={type} name={t(poolNames[type])}>
            <span className="tabular-nums">{usd(remaining)}</span>
          </Fact>
        ))}
      </dl>
      {error !== null && (
        <div className="mt-4">
          <Failure error={error} />
        </div>
      )}
      <div className="mt-4 flex flex-wrap gap-2">
        {account.suspended ? (
          <Button busy={busy} onClick={() => void change('resume', {})}>
            {t('Serve its calls again')}
          </Button>
        ) : (
          <Button look="danger" busy={busy} onClick={() => void change('suspend', {})}>
            {t('Suspend')}
          </Button>
        )}
        {account.role === 'operator' ? (
          <Button busy={busy} onClick={() => void change('role', { role: 'user' })}>
            {t('Make it a user')}
          </Button>
        ) : (
          <Button busy={busy} onClick={() => setPromoting(true)}>
            {t('Make it an operator')}
          </Button>
        )}
        <Button busy={busy} onClick={() => void makeLink()}>
          {t('Make a sign-in link')}
        </Button>
        <Link
          href={`/operator/accounts/${encodeURIComponent(account.id)}/statements`}
          className="inline-flex h-9 items-center px-2 text-accent underline"
        >
          {t('Statements')}
        </Link>
      </div>
      {key !== null && <KeyChecks path={`${path}/keys/${encodeURIComponent(key)}`} />}
      <DuplicatesIn account={account.id} at={timeOf(query)} />
      <LatestCalls account={account.id} />
      <LatestPayments account={account.id} />
      <AccountKeys key={key} account={account.id} path={path} />
      <Grant path={path} />
      <CreditLine path={path} credits={account.credits} />
      <MonthlyCredit path={path} amount={account.monthly_credit_usd} />
      <AccountSessions path={path} />
      <Access counts={account.access} whose="another" />
      <DeleteAccount path={path} email={account.email} />
      {promoting && (
        <Dialog title={t('Make it an operator')} onClose={() => setPromoting(false)}>
          <ActForm onSubmit={promote} action={t('Make it an operator')}>
            <p>
              {t(
                '{email} signs in anew, by a link that you get. Its password, passkeys, single sign-on and sessions end, because somebody else may have made them; its API keys stay.',
                { email: account.email },
              )}
            </p>
          </ActForm>
        </Dialog>
      )}
      {link && (
        <Dialog
          title={t('A link for {email}', { email: account.email })}
          onClose={() => setLink(null)}
          firm
          wide
        >
          <ShownLink link={link} onClose={() => setLink(null)} />
        </Dialog>
      )}
    </>
  )
}

function Grant({ path }: { path: string }) {
  const { error, busy, act } = useAct()
  // If the answer was lost, the same grant is sent again with this id and booked once.
  const [id, setId] = useState(() => newId())
  const [done, setDone] = useState<{ amount: string; granted: boolean } | null>(null)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const given = new FormData(form)
    const until = textOf(given, 'expires_at')
    const note = textOf(given, 'note')
    const amount = textOf(given, 'usd') ?? ''
    const body = {
      pool: textOf(given, 'pool'),
      usd: amount,
      id,
      ...(until === undefined ? {} : { expires_at: `${until}T23:59:59Z` }),
      ...(note === undefined ? {} : { note }),
    }
    void act(async () => {
      try {
        const { granted } = await elevate(() => call<{ granted: boolean }>('POST', `${path}/grant`, body))
        setDone({ amount, granted })
      } catch (thrown) {
        // The id stands for a grant whose answer was lost. What the form has now is another one.
        if (isConflict(thrown)) {
          setId(newId())
          void refresh('admin')
        }
        throw thrown
      }
      setId(newId())
      form.reset()
      await refresh('admin')
    })
  }
  return (
    <Section title={t('Grant credit')}>
      <form onSubmit={submit} className="card grid gap-3.5 p-4 sm:grid-cols-2 lg:grid-cols-4">
        <TextField
          label={t('US dollars')}
          name="usd"
          inputMode="decimal"
          pattern="\d{1,7}(\.\d{1,12})?"
          required
        />
        <Choice
          label={t('Pool')}
          name="pool"
          // Daily credit is granted by the gateway alone.
          options={Object.entries(poolNames)
            .filter(([pool]) => pool !== 'daily')
            .map(([pool, name]) => [pool, t(name)])}
        />
        <TextField
          label={t('Expires')}
          name="expires_at"
          type="date"
          hint={t('Empty: as long as its pool lasts.')}
        />
        <TextField label={t('Note')} name="note" maxLength={500} />
        <div className="grid gap-2 sm:col-span-2 lg:col-span-4">
          {error !== null && <Failure error={error} />}
          {isConflict(error) && (
            <Note tone="warn" role="status">
              {t(
                'An earlier grant of this form was booked, though its answer was lost. Press again only if this one is to be booked as well.',
              )}
            </Note>
          )}
          {done && error === null && (
            <Note tone="good" role="status">
              {done.granted
                ? t('{amount} granted.', { amount: usd(done.amount) })
                : t('{amount} was granted before: the earlier answer was lost, and nothing is added now.', {
                    amount: usd(done.amount),
                  })}
            </Note>
          )}
          <div>
            <Button type="submit" busy={busy}>
              {t('Grant')}
            </Button>
          </div>
        </div>
      </form>
    </Section>
  )
}

function isConflict(thrown: unknown): boolean {
  return thrown instanceof CallError && thrown.fault.code === 'idempotency_conflict'
}

// The keys and sessions of an account, which an operator can end.

/** A list below the account's path, with a function that removes an entry and rejects if that is refused. */
function useEntries<Entry extends { readonly id: string }>(path: string) {
  const { data, error, isPending, refetch } = useData<readonly Entry[]>(['admin', path], path)
  const remove = async ({ id }: Entry) => {
    await call('DELETE', `${path}/${encodeURIComponent(id)}`)
    await refetch()
  }
  const state = (
    <>
      <QueryState query={{ error, isPending, refetch }} rows={1} />
    </>
  )
  return { rows: data ?? [], isPending, remove, state }
}

/** What somebody writes about first: calls of late, those of a key that a search has led to alone. */
function LatestCalls({ account }: { account: string }) {
  const [query] = useSearchParams()
  const [key, at] = [query.get('key'), timeOf(query)]
  const asked = new URLSearchParams({
    account,
    ...(key === null ? {} : { key }),
    ...(at === null ? {} : around(at)),
  })
  const list = useAnswer<Page<OperatorRequestView>>(
    ['admin', 'requests', 'latest', asked.toString()],
    `admin/requests?${asked}&limit=${at === null ? 8 : 50}`,
  )
  const from = new URLSearchParams({ account, by: 'key' })
  return (
    <Section
      title={
        at !== null
          ? t('Calls about {time}', { time: moment(at) })
          : key === null
            ? t('Latest calls')
            : t('Latest calls with the key')
      }
      side={
        <span className="flex gap-4">
          <TextLink href={`/operator/requests?${asked}`}>{t('All of them')}</TextLink>
          <TextLink href={`/operator/usage?${from}`}>{t('Usage')}</TextLink>
          <TextLink href={`/operator/acts?${new URLSearchParams({ subject: account })}`}>
            {t('Audit log')}
          </TextLink>
        </span>
      }
    >
      <QueryState query={list} rows={2} />
      {list.data?.data.length === 0 && <p className="text-muted">{t('None.')}</p>}
      {list.data && list.data.data.length > 0 && (
        <RequestTable rows={list.data.data} place="/operator/requests" />
      )}
    </Section>
  )
}

function LatestPayments({ account }: { account: string }) {
  const list = useAnswer<Page<TopUpOfOperatorView>>(
    ['admin', 'top-ups', 'latest', account],
    `admin/top-ups?${new URLSearchParams({ account })}&limit=5`,
  )
  const rows = list.data?.data ?? []
  if (rows.length === 0) return null
  return (
    <Section
      title={t('Latest payments')}
      side={
        <TextLink href={`/operator/payments?${new URLSearchParams({ account })}`}>
          {t('All of them')}
        </TextLink>
      }
    >
      <TopUpTable
        label={t('Latest payments')}
        rows={rows}
        address={({ id }) => `/operator/payments/${id}`}
        receipt={({ receipt }) => receipt}
      />
    </Section>
  )
}

function AccountKeys({ account, path }: { account: string; path: string }) {
  const [query] = useSearchParams()
  const [q, setQ] = useState(query.get('key') ?? '')
  const [list, rows] = useKeys(`${path}/keys`, { q })
  const remove = async ({ id }: KeyView) => {
    await call('DELETE', `${path}/keys/${encodeURIComponent(id)}`)
    await list.refetch()
  }
  return (
    <Section title={t('Keys')}>
      {(q !== '' || list.hasNextPage) && <KeySearch q={q} onChange={setQ} />}
      <QueryState query={list} rows={1} />
      {list.data && rows.length === 0 && (
        <p className="text-muted">{q === '' ? t('None.') : t('No key matches.')}</p>
      )}
      {rows.length > 0 && (
        <Table
          label={t('Keys')}
          columns={[
            t('Key'),
            wideOnly(t('Limit')),
            wideOnly(t('Last used')),
            wideOnly(t('State')),
            rightAligned(t('Actions')),
          ]}
        >
          {rows.map((key) => (
            <tr key={key.id} className={key.state === 'active' ? '' : 'text-muted'}>
              <td className={`sm:min-w-40 ${firstOnPhones}`}>
                <KeyName
                  keyRow={key}
                  href={`/operator/accounts/${encodeURIComponent(account)}?${new URLSearchParams({ key: key.id })}`}
                />
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <KeyState keyRow={key} />
                  <Time at={key.last_used_at} none={t('never')} />
                </span>
              </td>
              <td className={`${notOnPhones} whitespace-nowrap`}>
                <KeyLimit keyRow={key} />
              </td>
              <td className={notOnPhones}>
                <Time at={key.last_used_at} none={t('never')} />
              </td>
              <td className={`${notOnPhones} whitespace-nowrap`}>
                <KeyState keyRow={key} />
              </td>
              <td>
                <div className="flex justify-end gap-1 max-sm:grid max-sm:w-max">
                  <PauseButton keyRow={key} path={`${path}/keys`} operator onDone={() => list.refetch()} />
                  {(key.state === 'active' || key.state === 'paused') && (
                    <RevokeButton
                      name={key.name}
                      consequence={t(
                        'Calls with …{last4} are refused from then on, and nothing brings the key back.',
                        { last4: key.last4 },
                      )}
                      revoke={() => remove(key)}
                    />
                  )}
                </div>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Older list={list} />
    </Section>
  )
}

function AccountSessions({ path }: { path: string }) {
  const { rows, isPending, remove, state } = useEntries<OpenSessionView>(`${path}/sessions`)
  const { error, busy, act } = useAct()
  return (
    <Section title={t('Sessions')}>
      {state}
      {error !== null && <Failure error={error} />}
      {!isPending && rows.length === 0 && <p className="text-muted">{t('None.')}</p>}
      {rows.length > 0 && (
        <ul className="card divide-y divide-line">
          {rows.map((session) => (
            <SessionEntry
              key={session.id}
              session={session}
              busy={busy}
              onEnd={() => void act(() => remove(session))}
            />
          ))}
        </ul>
      )}
    </Section>
  )
}

// How much an account may owe.

type Kind = 'none' | 'limited' | 'unlimited'

function CreditLine({ path, credits }: { path: string; credits: CreditsView }) {
  const { error, busy, act } = useAct()
  const { credit_line: line, debt } = credits
  const [kind, setKind] = useState<Kind>(line === null ? 'none' : line === 'unlimited' ? line : 'limited')
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const amount = textOf(new FormData(event.currentTarget), 'credit_line') ?? ''
    const wanted = kind === 'none' ? null : kind === 'unlimited' ? kind : amount
    void act(async () => {
      await elevate(() => call('POST', `${path}/credit-line`, { credit_line: wanted }))
      await refresh('admin')
    })
  }
  const fault = error === null ? undefined : faultIn(error)
  const ofField = fault?.param === 'credit_line'
  return (
    <Section title={t('Credit line')}>
      <form onSubmit={submit} className="card grid gap-3.5 p-4 sm:grid-cols-2 lg:grid-cols-4">
        <p className="text-muted sm:col-span-2 lg:col-span-4">
          {line === null
            ? t('Its API calls need purchased credit. It owes {debt}.', { debt: usd(debt) })
            : line === 'unlimited'
              ? t('It may owe without limit, and owes {debt}; the next top-up pays that first.', {
                  debt: usd(debt),
                })
              : t('It may owe up to {line}, and owes {debt}; the next top-up pays that first.', {
                  line: usd(line),
                  debt: usd(debt),
                })}
        </p>
        <Choice
          label={t('It may owe')}
          value={kind}
          onChange={(event) => setKind(event.target.value as Kind)}
          options={[
            ['none', t('nothing')],
            ['limited', t('up to an amount')],
            ['unlimited', t('without limit')],
          ]}
        />
        {kind === 'limited' && (
          <TextField
            label={t('At most, US dollars')}
            name="credit_line"
            inputMode="decimal"
            required
            pattern="\d{1,7}(\.\d{1,12})?"
            defaultValue={line === null || line === 'unlimited' ? '' : line}
            error={ofField ? fault.message : undefined}
          />
        )}
        <div className="grid gap-2 sm:col-span-2 lg:col-span-4">
          {error !== null && !ofField && <Failure error={error} />}
          <div>
            <Button type="submit" busy={busy}>
              {t('Set the line')}
            </Button>
          </div>
        </div>
      </form>
    </Section>
  )
}

// The statements of any account, for operators.

export function AccountStatement() {
  const { id } = useParams<{ id: string }>()
  const account = `admin/accounts/${encodeURIComponent(id)}`
  const { data } = useData<AccountDetailView>(['admin', 'account', id], account)
  const page = `/operator/accounts/${encodeURIComponent(id)}`
  return (
    <Statements
      path={`${account}/statements`}
      page={`${page}/statements`}
      back={{ href: page, name: data?.email ?? t('Account') }}
      since={data?.created_at}
    />
  )
}
