// The account's ways in: password, passkeys, sessions; its language; and its end.

import { QueryState } from '../ui/table.tsx'
import { type FormEvent, useState } from 'react'
import type {
  AccessView,
  IdentityView,
  OpenSessionView,
  PasskeyView,
  SessionView,
} from '../../http/console/answers.ts'
import {
  addressOf,
  call,
  refresh,
  relayedAnswerWithinMs,
  takeSession,
  useData,
  useSession,
} from '../api/call.ts'
import { canUsePasskeys, elevate, newPasskey, PasswordField } from '../session/signed-out.tsx'
import { chooseLanguage, day, language, languages, moment, t } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Dialog,
  Failure,
  Loading,
  Note,
  PageHead,
  RowButton,
  Section,
  TextField,
  TextLink,
  TimeIn,
  useAct,
} from '../ui/kit.tsx'

type Account = NonNullable<SessionView['account']>

export function Settings() {
  const { data: session } = useSession()
  const account = session?.account
  if (!account) return <Loading />
  return (
    <>
      <PageHead title={t('Settings')} about={account.email}>
        {account.email_verified ? (
          <Badge tone="good">{t('verified')}</Badge>
        ) : (
          <Badge tone="warn">{t('not verified')}</Badge>
        )}
      </PageHead>
      <div className="max-w-2xl">
        {session.methods.includes('password') && <Password account={account} />}
        {session.methods.includes('passkey') && <Passkeys />}
        <SingleSignOn session={session} />
        <Sessions />
        <Access counts={account.access} whose="own" />
        <Language />
        <Section title={t('Webhooks')}>
          <p>
            <TextLink href="/settings/webhooks">
              {t('Notify an address of yours when something happens to the account')}
            </TextLink>
          </p>
        </Section>
        <EndOfAccount account={account} />
      </div>
    </>
  )
}

function Password({ account }: { account: Account }) {
  const { error, busy, act } = useAct()
  const [changed, setChanged] = useState(false)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const given = new FormData(form)
    const body = {
      password: String(given.get('password')),
      ...(account.has_password ? { current: String(given.get('current')) } : {}),
    }
    void act(async () => {
      takeSession(await elevate(() => call<SessionView>('POST', 'password', body)))
      form.reset()
      setChanged(true)
    })
  }
  return (
    <Section title={t('Password')}>
      <form onSubmit={submit} className="card grid gap-3.5 p-4 sm:grid-cols-2">
        <input type="hidden" autoComplete="username" value={account.email} readOnly />
        {account.has_password && (
          <TextField
            label={t('Current password')}
            name="current"
            type="password"
            autoComplete="current-password"
            required
          />
        )}
        <PasswordField label={t('New password')} />
        <div className="grid gap-2 sm:col-span-2">
          {error !== null && <Failure error={error} />}
          {changed && error === null && (
            <Note tone="good" role="status">
              {t('The password is changed. All other sessions are ended.')}
            </Note>
          )}
          <div>
            <Button type="submit" busy={busy}>
              {account.has_password ? t('Change the password') : t('Set a password')}
            </Button>
          </div>
        </div>
      </form>
    </Section>
  )
}

function Passkeys() {
  const { data, error, isPending, refetch } = useData<readonly PasskeyView[]>(['passkeys'], 'passkeys')
  const { error: failed, busy, act } = useAct()
  const onChanged = async () => {
    await refetch()
    await refresh('session')
  }
  const add = () =>
    act(async () => {
      const name = `${platformName()}, ${day(new Date().toISOString())}`
      await elevate(async () => call('POST', 'passkeys', { response: await newPasskey(), name }))
      await onChanged()
    })
  const remove = (id: string) =>
    act(async () => {
      await elevate(() => call('DELETE', `passkeys/${encodeURIComponent(id)}`))
      await onChanged()
    })
  return (
    <Section
      title={t('Passkeys')}
      side={
        canUsePasskeys() && (
          <Button small busy={busy} onClick={() => void add()}>
            {t('Add a passkey')}
          </Button>
        )
      }
    >
      <QueryState query={{ error, isPending, refetch }} rows={1} />
      {failed !== null && <Failure error={failed} />}
      <ul className="card divide-y divide-line">
        {data?.length === 0 && (
          <li className="p-4 text-muted">
            {t('None. A passkey signs you in by fingerprint, face or a security key.')}
          </li>
        )}
        {data?.map((passkey) => (
          <li key={passkey.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
            <span className="min-w-0 flex-[1_1_12rem] truncate font-medium">{passkey.name}</span>
            <span className="text-[12.5px] text-muted">
              <TimeIn sentence={t('made {time}')} at={passkey.created_at} /> ·{' '}
              {passkey.last_used_at === null ? (
                t('never used')
              ) : (
                <TimeIn sentence={t('used {time}')} at={passkey.last_used_at} />
              )}
            </span>
            <RowButton
              disabled={busy}
              label={t('Remove {name}', { name: passkey.name })}
              onClick={() => void remove(passkey.id)}
            >
              {t('Remove')}
            </RowButton>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function platformName(): string {
  return /Android|iPhone|iPad|Mac|Windows|Linux/.exec(navigator.userAgent)?.[0] ?? t('Passkey')
}

function Sessions() {
  const { data, error, isPending, refetch } = useData<readonly OpenSessionView[]>(['sessions'], 'sessions')
  const { error: failed, busy, act } = useAct()
  const end = ({ id, current }: OpenSessionView) =>
    act(async () => {
      await call('DELETE', `sessions/${encodeURIComponent(id)}`)
      if (current) location.assign(addressOf('/console'))
      else await refetch()
    })
  return (
    <Section title={t('Sessions')}>
      <QueryState query={{ error, isPending, refetch }} rows={1} />
      {failed !== null && <Failure error={failed} />}
      <ul className="card divide-y divide-line">
        {data?.map((session) => (
          <SessionEntry key={session.id} session={session} busy={busy} onEnd={() => void end(session)} />
        ))}
      </ul>
    </Section>
  )
}

interface SessionEntryProps {
  readonly session: OpenSessionView
  readonly busy: boolean
  readonly onEnd: () => void
}

export function SessionEntry({ session, busy, onEnd }: SessionEntryProps) {
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      <span className="min-w-0 flex-[1_1_12rem] truncate" title={session.user_agent ?? undefined}>
        {browserName(session.user_agent)} {session.current && <Badge tone="accent">{t('this one')}</Badge>}
      </span>
      <span className="text-[12.5px] text-muted">
        <TimeIn sentence={t('begun {time}')} at={session.created_at} /> ·{' '}
        <TimeIn sentence={t('seen {time}')} at={session.seen_at} />
      </span>
      <RowButton
        disabled={busy}
        label={t('End the session begun at {time}', { time: moment(session.created_at) })}
        onClick={onEnd}
      >
        {t('End')}
      </RowButton>
    </li>
  )
}

function browserName(userAgent: string | null): string {
  if (userAgent === null) return t('made on the command line')
  const browser = /(Edg|Firefox|Chrome|Safari)\/[\d.]+/.exec(userAgent)?.[1] ?? userAgent.slice(0, 40)
  const system = /Android|iPhone|iPad|Mac|Windows|Linux/.exec(userAgent)?.[0]
  return [browser === 'Edg' ? 'Edge' : browser, system].filter(Boolean).join(', ')
}

function Language() {
  return (
    <Section title={t('Language')}>
      <select
        aria-label={t('Language')}
        value={language()}
        onChange={(event) => chooseLanguage(event.target.value)}
        className="control max-w-60"
      >
        {languages.map(([code, name]) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </select>
    </Section>
  )
}

function EndOfAccount({ account }: { account: Account }) {
  const [asking, setAsking] = useState(false)
  const remove = async (given: FormData) => {
    const confirm = String(given.get('confirm'))
    takeSession(await elevate(() => call<SessionView>('DELETE', 'account', { confirm })))
  }
  return (
    <Section title={t('Delete the account')}>
      <p className="mb-3 text-muted">
        {t('Its keys are revoked and its sessions ended. What is left of its credit is lost.')}
      </p>
      <Button look="danger" onClick={() => setAsking(true)}>
        {t('Delete the account')}
      </Button>
      {asking && (
        <Dialog title={t('Delete the account')} onClose={() => setAsking(false)}>
          <ActForm onSubmit={remove} action={t('Delete for good')} look="danger">
            <TextField
              label={t('Type {email} to confirm', { email: account.email })}
              name="confirm"
              autoComplete="off"
              required
              pattern={account.email.replace(/[^\w@]/g, String.raw`\$&`)}
            />
          </ActForm>
        </Dialog>
      )}
    </Section>
  )
}

// Settings: the identities of the single sign-on that are linked to the account.

/** Shown where there is a single sign-on. Linking leaves the page, and comes back to it with an error in the hash. */
function SingleSignOn({ session }: { session: SessionView }) {
  const label = session.methods.find((method) => method.startsWith('oidc:'))?.slice('oidc:'.length)
  return label === undefined ? null : <Identities session={session} label={label} />
}

function Identities({ session, label }: { session: SessionView; label: string }) {
  const { data, error, isPending, refetch } = useData<readonly IdentityView[]>(['identities'], 'identities')
  const { error: failed, busy, act } = useAct()
  const refused = /^#error=([\w-]+)/.exec(location.hash)?.[1]
  const link = () =>
    act(async () => {
      const { url } = await elevate(() =>
        call<{ url: string }>('POST', 'identities/link', {}, { withinMs: relayedAnswerWithinMs }),
      )
      location.assign(url)
    })
  const unlink = ({ issuer, subject }: IdentityView) =>
    act(async () => {
      await elevate(() => call('DELETE', 'identities', { issuer, subject }))
      await refetch()
    })
  return (
    <Section
      title={t('Single sign-on')}
      side={
        data?.every((identity) => identity.label === null) && (
          <Button small busy={busy} onClick={() => void link()}>
            {t('Link {label}', { label })}
          </Button>
        )
      }
    >
      {refused !== undefined && failed === null && (
        <div className="mb-2">
          <Note tone="bad" role="alert">
            {t(refusals[refused] ?? 'The single sign-on failed: {code}.', { code: refused })}
          </Note>
        </div>
      )}
      <QueryState query={{ error, isPending, refetch }} rows={1} />
      {failed !== null && <Failure error={failed} />}
      <ul className="card divide-y divide-line">
        {data?.length === 0 && (
          <li className="p-4 text-muted">
            {t('Not linked. Once it is, you can sign in to this account with {label}.', { label })}
          </li>
        )}
        {data?.map((identity) => (
          <Entry
            key={`${identity.issuer} ${identity.subject}`}
            identity={identity}
            busy={busy}
            isOnlyWay={isOnlyWay(session, data, identity)}
            onUnlink={() => void unlink(identity)}
          />
        ))}
      </ul>
    </Section>
  )
}

interface EntryProps {
  readonly identity: IdentityView
  readonly busy: boolean
  readonly isOnlyWay: boolean
  readonly onUnlink: () => void
}

function Entry({ identity, busy, isOnlyWay, onUnlink }: EntryProps) {
  const name = identity.label ?? identity.issuer
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      <span className="min-w-0 flex-[1_1_12rem] truncate" title={identity.subject}>
        <span className="font-medium">{name}</span> <span className="text-muted">{identity.subject}</span>
      </span>
      <span className="text-[12.5px] text-muted">
        <TimeIn sentence={t('linked {time}')} at={identity.linked_at} />
      </span>
      <RowButton disabled={busy || isOnlyWay} label={t('Unlink {name}', { name })} onClick={onUnlink}>
        {t('Unlink')}
      </RowButton>
      {isOnlyWay && (
        <span className="basis-full text-[12.5px] text-muted">
          {t('This is the only way to sign in to the account. Set a password first.')}
        </span>
      )}
    </li>
  )
}

/** As the gateway decides it, which refuses to unlink the only way. */
function isOnlyWay(
  { account, methods }: SessionView,
  all: readonly IdentityView[],
  identity: IdentityView,
): boolean {
  const hasPasskey = methods.includes('passkey') && (account?.passkeys ?? 0) > 0
  const hasOther = all.some((other) => other !== identity && other.label !== null)
  return !account?.has_password && !hasPasskey && !hasOther
}

/** Why a browser came back without a link, by the code of the error. */
const refusals: Readonly<Record<string, string>> = {
  invalid_request: 'This identity is linked to another account. Unlink it there first.',
  invalid_ticket: 'Linking took too long, or was begun in another browser. Try again.',
  overloaded: 'The single sign-on cannot be reached. Try again later.',
  wrong_credentials: 'The single sign-on did not confirm who you are, so nothing was linked.',
}

// What lets somebody into an account or acts for it, counted: what a stranger may have left behind.

const accessNames: Readonly<Record<keyof AccessView, string>> = {
  password: 'Password',
  passkeys: 'Passkeys',
  identities: 'Single sign-on',
  sessions: 'Sessions',
  links: 'Unused sign-in links',
  keys: 'Keys',
  management_keys: 'Management keys',
  webhooks: 'Webhooks',
  mcp_servers: 'MCP servers',
  conversations: 'Conversations',
}

/** Where its owner can end it, beside the settings themselves. */
const pages: Partial<Record<keyof AccessView, string>> = {
  keys: '/keys',
  management_keys: '/operator/keys',
  webhooks: '/settings/webhooks',
  mcp_servers: '/mcp',
  conversations: '/chat',
}

export function Access({ counts, whose }: { counts: AccessView; whose: 'own' | 'another' }) {
  const some = Object.entries(counts).filter(([, count]) => count > 0) as [keyof AccessView, number][]
  return (
    <Section title={t('What acts for the account')}>
      {whose === 'own' && (
        <p className="mb-3 text-muted">
          {t('A new password ends sessions and unused links, and nothing else. Remove what is not yours.')}
        </p>
      )}
      <ul className="card divide-y divide-line">
        {some.map(([kind, count]) => (
          <li key={kind} className="flex justify-between gap-3 px-4 py-2">
            {whose === 'own' && pages[kind] !== undefined ? (
              <TextLink href={pages[kind]}>{t(accessNames[kind])}</TextLink>
            ) : (
              <span>{t(accessNames[kind])}</span>
            )}
            <span className="tabular-nums">{count}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
