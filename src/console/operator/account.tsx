// One account, for operators.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { Link, useParams } from 'wouter'
import { call, CallError } from '../api/call.ts'
import { newId } from '../api/new-id.ts'
import { Access } from '../pages/access.tsx'
import { poolNames } from '../pages/credits/pools.ts'
import { moment, usd } from '../strings/format.ts'
import { t } from '../strings/text.ts'
import { Button, Fact, Failure, Loading, Note, PageHead, Section } from '../ui/basics.tsx'
import { ActForm } from '../ui/act-form.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { elevate } from '../ui/elevate.tsx'
import { Choice, textOf, TextField } from '../ui/form.tsx'
import { useAct } from '../ui/use-act.ts'
import { AccountKeys, AccountSessions } from './account-access.tsx'
import { CreditLine } from './account-credit-line.tsx'
import { AccountState, ShownLink } from './accounts.tsx'
import type { AccountWhole, SignInLink } from './wire.ts'

export function AccountPage() {
  const { id } = useParams<{ id: string }>()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['admin', 'account', id],
    queryFn: async () =>
      (await call<{ data: AccountWhole }>('GET', `admin/accounts/${encodeURIComponent(id)}`)).data,
  })
  return (
    <>
      <p className="mb-2 text-[13px]">
        <Link href="/operator/accounts" className="text-accent underline">
          {t('Accounts')}
        </Link>
      </p>
      {isPending && <Loading />}
      {error && (
        <>
          <PageHead title={t('Account')} />
          <Failure error={error} retry={() => void refetch()} />
        </>
      )}
      {data && <Whole account={data} />}
    </>
  )
}

function Whole({ account }: { account: AccountWhole }) {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const [link, setLink] = useState<SignInLink | null>(null)
  const path = `admin/accounts/${encodeURIComponent(account.id)}`
  const [promoting, setPromoting] = useState(false)
  const onChanged = () => client.invalidateQueries({ queryKey: ['admin'] })
  const change = (verb: string, body: object) =>
    act(async () => {
      await elevate(() => call('POST', `${path}/${verb}`, body))
      await onChanged()
    })
  const promote = async () => {
    const made = await elevate(() =>
      call<{ link: SignInLink | null }>('POST', `${path}/role`, { role: 'operator' }),
    )
    setPromoting(false)
    setLink(made.link)
    await onChanged()
  }
  const makeLink = () =>
    act(async () => setLink(await elevate(() => call<SignInLink>('POST', `${path}/link`, {}))))
  return (
    <>
      <PageHead title={account.email}>
        <AccountState account={account} />
      </PageHead>
      <dl className="card grid grid-cols-2 gap-3 p-4 sm:grid-cols-4">
        <Fact name={t('Id')}>
          <span className="font-mono text-[12.5px]">{account.id}</span>
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
      <Grant path={path} />
      <CreditLine path={path} credits={account.credits} />
      <AccountKeys path={path} />
      <AccountSessions path={path} />
      <Access counts={account.access} whose="another" />
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
  const client = useQueryClient()
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
          void client.invalidateQueries({ queryKey: ['admin'] })
        }
        throw thrown
      }
      setId(newId())
      form.reset()
      await client.invalidateQueries({ queryKey: ['admin'] })
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
          options={(['purchased', 'welcome', 'subscription'] as const).map((pool) => [
            pool,
            t(poolNames[pool]),
          ])}
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
