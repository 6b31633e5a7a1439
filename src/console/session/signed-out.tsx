// What can be done without an account: sign in, create one, follow a link, ask for a new password.

import { type FormEvent, type ReactNode, useEffect, useState } from 'react'
import { Link, Route, Switch, useLocation } from 'wouter'
import type { SessionView } from '../../http/console/answers.ts'
import { addressOf, call, CallError, faultIn, takeSession, useSession } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { BrandLinks, Button, Dialog, Failure, Logo, Note, TextLink, TextField, useAct } from '../ui/kit.tsx'

// Passkeys by the browser's own functions: what the gateway asks for, and what the authenticator answers, as JSON.

/** Has a passkey sign a challenge of the gateway. Rejects when the person closes the browser's dialog. */
async function passkeyProof(): Promise<object> {
  const options = await call<PublicKeyCredentialRequestOptionsJSON>('POST', 'passkeys/challenge', {})
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  return jsonOf(await navigator.credentials.get({ publicKey }))
}

/** Has the authenticator make a passkey for this account. */
export async function newPasskey(): Promise<object> {
  const options = await call<PublicKeyCredentialCreationOptionsJSON>('POST', 'passkeys/options', {})
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  return jsonOf(await navigator.credentials.create({ publicKey }))
}

/** Whether this browser, at this address, can make passkeys. */
export function canUsePasskeys(): boolean {
  return (
    typeof PublicKeyCredential !== 'undefined' &&
    typeof PublicKeyCredential.parseCreationOptionsFromJSON === 'function'
  )
}

function jsonOf(credential: Credential | null): object {
  if (!(credential instanceof PublicKeyCredential)) throw new Error(t('The browser gave no passkey.'))
  return credential.toJSON() as object
}

const minPassword = 10
const maxPassword = 128

export function PasswordField({ label = t('Password') }: { label?: string }) {
  return (
    <TextField
      label={label}
      name="password"
      type="password"
      autoComplete="new-password"
      minLength={minPassword}
      maxLength={maxPassword}
      required
      hint={t('At least {least} characters. A few words in a row are good.', { least: minPassword })}
    />
  )
}

// Acts that need a recent proof of identity: if the gateway requires it, this dialog gets it and the act is repeated.

let ask: (() => Promise<boolean>) | undefined

/** Runs an act, after a fresh sign-in if it needs one. Throws the refusal if the user cancels. */
export async function elevate<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof CallError) || error.fault.code !== 'elevation_required' || !ask) throw error
    if (!(await ask())) throw error
    return act()
  }
}

/** Rendered once, in the shell. */
export function ElevationDialog() {
  const [pending, setPending] = useState<((proven: boolean) => void) | null>(null)
  const { data: session } = useSession()
  const [error, setError] = useState<unknown>(null)
  ask = () =>
    new Promise((resolve) => {
      setError(null)
      setPending(() => resolve)
    })
  if (!pending || !session?.account) return null
  const byPassword = session.account.has_password && session.methods.includes('password')
  const byPasskey = session.account.passkeys > 0 && session.methods.includes('passkey')
  const finish = (proven: boolean) => {
    pending(proven)
    setPending(null)
  }
  const prove = async (proof: () => Promise<object>) => {
    try {
      takeSession(await call<SessionView>('POST', 'elevate', await proof()))
      finish(true)
    } catch (thrown) {
      setError(thrown)
    }
  }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = String(new FormData(event.currentTarget).get('password'))
    void prove(() => Promise.resolve({ password }))
  }
  return (
    <Dialog title={t('Confirm that it is you')} onClose={() => finish(false)}>
      <div className="grid gap-3">
        <p className="text-muted">{t('This needs proof that it is you, not older than ten minutes.')}</p>
        {byPassword && (
          <form onSubmit={submit} className="grid gap-3">
            <input type="hidden" autoComplete="username" value={session.account.email} readOnly />
            <TextField
              label={t('Password')}
              name="password"
              type="password"
              autoComplete="current-password"
              required
              autoFocus
            />
            <Button type="submit" look="primary">
              {t('Confirm')}
            </Button>
          </form>
        )}
        {byPasskey && (
          <Button onClick={() => void prove(async () => ({ passkey: await passkeyProof() }))}>
            {t('Use a passkey')}
          </Button>
        )}
        {!byPassword && !byPasskey && <p>{t('Sign out and in again, then repeat it.')}</p>}
        {error !== null && <Failure error={error} />}
      </div>
    </Dialog>
  )
}

export function SignedOut({ session }: { session: SessionView }) {
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-sm flex-col justify-center px-5 py-10">
      <BrandHead session={session} />
      <Switch>
        <Route path="/create-account">
          <CreateAccount session={session} />
        </Route>
        <Route path="/reset">
          <Reset session={session} />
        </Route>
        <Route>
          <SignIn session={session} target="_self" />
          <OtherWays session={session} />
        </Route>
      </Switch>
      <BrandLinks brand={session.brand} />
    </main>
  )
}

function BrandHead({ session: { brand } }: { session: SessionView }) {
  return (
    <div className="mb-6 flex items-center gap-2.5">
      <Logo src={brand.logo} />
      <span className="text-lg font-semibold tracking-tight">{brand.name}</span>
    </div>
  )
}

/** Over the pages of a session that has ended by itself. */
export function SignInAgain({ session }: { session: SessionView }) {
  const { error, busy, act } = useAct()
  const look = () => act(async () => takeSession(await call<SessionView>('GET', 'session')))
  return (
    <Dialog title={t('Your session has ended')} onClose={() => undefined} firm>
      <p className="mb-4">
        {t(
          'Sign in again: what you have typed is kept, unless you leave this page. A link may be opened in another tab.',
        )}
      </p>
      <SignIn session={session} target="_blank" />
      <p className="mt-4 px-1 text-right">
        <a
          href={addressOf('/console/reset')}
          target="_blank"
          rel="noreferrer"
          className="text-accent underline"
        >
          {t('Forgot your password?')}
        </a>
      </p>
      <div className="mt-4 grid gap-3">
        {error !== null && <Failure error={error} />}
        <Button busy={busy} onClick={() => void look()}>
          {t('I have signed in in another tab')}
        </Button>
      </div>
    </Dialog>
  )
}

function OtherWays({ session }: { session: SessionView }) {
  return (
    <p className="mt-4 flex flex-wrap justify-between gap-x-4 gap-y-2 px-1">
      {session.sign_up === 'open' ? (
        <TextLink href="/create-account">{t('Create an account')}</TextLink>
      ) : (
        <span className="text-muted">{t('New accounts are by invitation.')}</span>
      )}
      {session.methods.includes('password') && (
        <TextLink href="/reset">{t('Forgot your password?')}</TextLink>
      )}
    </p>
  )
}

interface SignInProps {
  readonly session: SessionView
  /** Where the single sign-on opens. */
  readonly target: '_self' | '_blank'
}

function SignIn({ session, target }: SignInProps) {
  const { error, busy, act } = useAct()
  const oidc = session.methods.find((method) => method.startsWith('oidc:'))
  const refused = /^#error=([\w-]+)/.exec(location.hash)?.[1]
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    void act(async () => takeSession(await call<SessionView>('POST', 'sign-in', credentialsIn(form))))
  }
  const withPasskey = () =>
    act(async () => {
      takeSession(await call<SessionView>('POST', 'passkeys/sign-in', { response: await passkeyProof() }))
    })
  return (
    <Panel title={t('Sign in')}>
      <form onSubmit={submit} className="grid gap-3.5">
        {refused && (
          <Note tone="bad">{t('Signing in with the other service failed: {code}.', { code: refused })}</Note>
        )}
        {session.methods.includes('password') && (
          <>
            <TextField
              label={t('E-mail')}
              name="email"
              type="email"
              autoComplete="username webauthn"
              required
              autoFocus
            />
            <TextField
              label={t('Password')}
              name="password"
              type="password"
              autoComplete="current-password"
              required
            />
          </>
        )}
        {error !== null && <Failure error={error} />}
        {session.methods.includes('password') && (
          <Button type="submit" look="primary" busy={busy}>
            {t('Sign in')}
          </Button>
        )}
        {session.methods.includes('passkey') && canUsePasskeys() && (
          <Button disabled={busy} onClick={() => void withPasskey()}>
            {t('Sign in with a passkey')}
          </Button>
        )}
        {oidc && (
          <a
            className="inline-flex h-9 items-center justify-center rounded-md border border-line-strong font-medium hover:bg-paper"
            href={addressOf('/console/api/oidc/start')}
            target={target}
          >
            {t('Sign in with {label}', { label: oidc.slice('oidc:'.length) })}
          </a>
        )}
      </form>
    </Panel>
  )
}

function credentialsIn(form: FormData) {
  return { email: String(form.get('email')).trim(), password: String(form.get('password')) }
}

function CreateAccount({ session }: { session: SessionView }) {
  const { error, busy, act } = useAct()
  const [waiting, setWaiting] = useState<string | null>(null)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const credentials = credentialsIn(new FormData(event.currentTarget))
    void act(async () => {
      const { mail } = await call<{ mail: boolean }>('POST', 'sign-up', credentials)
      try {
        takeSession(await call<SessionView>('POST', 'sign-in', credentials))
      } catch (thrown) {
        // The gateway never discloses whether the address had an account already.
        if (faultIn(thrown).code !== 'wrong_credentials') throw thrown
        setWaiting(mail ? 'mail' : 'known')
      }
    })
  }
  if (session.sign_up !== 'open')
    return <Panel title={t('Create an account')}>{t('New accounts are by invitation.')}</Panel>
  return (
    <>
      <Panel title={t('Create an account')}>
        {waiting === null ? (
          <form onSubmit={submit} className="grid gap-3.5">
            <TextField
              label={t('E-mail')}
              name="email"
              type="email"
              autoComplete="username"
              required
              autoFocus
            />
            <PasswordField />
            {error !== null && <Failure error={error} />}
            <Button type="submit" look="primary" busy={busy}>
              {t('Create the account')}
            </Button>
          </form>
        ) : (
          <Note tone="accent" role="status">
            {waiting === 'mail'
              ? t('Check your e-mail: it says how to go on.')
              : t(
                  'If the address is new, its account has been created: sign in with the password you chose.',
                )}
          </Note>
        )}
      </Panel>
      <BackToSignIn />
    </>
  )
}

function BackToSignIn() {
  return (
    <p className="mt-4 px-1">
      <TextLink href="/">{t('Back to the sign-in')}</TextLink>
    </p>
  )
}

/** Asks for a link, or, with the secret of one in the address, for the new password. */
function Reset({ session }: { session: SessionView }) {
  const { error, busy, act } = useAct()
  const [asked, setAsked] = useState(false)
  const [token] = useState(takeSecret)
  const [, navigate] = useLocation()
  const ask = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const email = String(new FormData(event.currentTarget).get('email')).trim()
    void act(async () => {
      await call('POST', 'reset', { email })
      setAsked(true)
    })
  }
  const confirm = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = String(new FormData(event.currentTarget).get('password'))
    void act(async () => {
      takeSession(await call<SessionView>('POST', 'reset/confirm', { token, password }))
      // Shows what else acts for the account.
      navigate('/settings', { replace: true })
    })
  }
  return (
    <>
      <Panel title={t('New password')}>
        {token !== undefined ? (
          <form onSubmit={confirm} className="grid gap-3.5">
            <PasswordField label={t('New password')} />
            {error !== null && <Failure error={error} />}
            <Button type="submit" look="primary" busy={busy}>
              {t('Set the password')}
            </Button>
          </form>
        ) : asked ? (
          <Note tone="accent" role="status">
            {t('If there is an account with this address, a link is on its way to it.')}
          </Note>
        ) : session.mail ? (
          <form onSubmit={ask} className="grid gap-3.5">
            <TextField
              label={t('E-mail')}
              name="email"
              type="email"
              autoComplete="username"
              required
              autoFocus
            />
            {error !== null && <Failure error={error} />}
            <Button type="submit" look="primary" busy={busy}>
              {t('Send me a link')}
            </Button>
          </form>
        ) : (
          <div className="grid gap-2">
            <p>{t('This gateway sends no mail. Ask its operator for a sign-in link, which is made by')}</p>
            <code className="rounded bg-paper p-2 font-mono text-[12.5px]">
              weir accounts link --account E-MAIL
            </code>
          </div>
        )}
      </Panel>
      <BackToSignIn />
    </>
  )
}

// The pages that links in mails and sign-in links lead to.

const exchanges: Readonly<Record<string, 'link' | 'verify'>> = { '/link': 'link', '/verify': 'verify' }

/** `/console/link#…` and `/console/verify#…`: a sign-in link is exchanged once, whether or not somebody is signed in. */
export function TicketPage({ path, session }: { path: string; session: SessionView }) {
  const [token] = useState(takeSecret)
  const [error, setError] = useState<unknown>(null)
  const [isStranger, setStranger] = useState(false)
  const [, navigate] = useLocation()
  useEffect(() => {
    if (token === undefined) return
    const kind = exchanges[path]!
    const exchange = async () => {
      if (kind === 'verify') {
        const { email_verified } = await call<{ email_verified: boolean }>('POST', 'verify', { token })
        if (!email_verified) return setStranger(true)
        takeSession(await call<SessionView>('GET', 'session'))
        navigate('/', { replace: true })
      } else {
        const view = await call<SessionView>('POST', 'link', { token })
        takeSession(view)
        const setsPassword = !view.account?.has_password && view.methods.includes('password')
        navigate(setsPassword ? '/welcome' : '/', { replace: true })
      }
    }
    exchange().catch(setError)
  }, [])
  if (isStranger && error === null) return <Confirm token={token!} />
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-sm flex-col justify-center px-5 py-10">
      <Panel title={t('Your link')}>
        {token === undefined ? (
          <p>{t('This link is incomplete. Open it again exactly as you received it.')}</p>
        ) : error === null ? (
          <p role="status">{t('One moment …')}</p>
        ) : (
          <Failure error={error} />
        )}
        {(token === undefined || error !== null) && (
          <p className="mt-3">
            <TextLink href="/">{session.account ? t('To the overview') : t('Sign in')}</TextLink>
          </p>
        )}
      </Panel>
    </main>
  )
}

/** For whoever is not signed in to the account whose address is confirmed: somebody else may have opened it. */
function Confirm({ token }: { token: string }) {
  const own = useAct()
  const taking = useAct()
  const [, navigate] = useLocation()
  const confirm = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const credentials = { email: String(form.get('email')).trim(), password: String(form.get('current')) }
    void own.act(async () => {
      await call<SessionView>('POST', 'sign-in', credentials)
      await call('POST', 'verify', { token })
      takeSession(await call<SessionView>('GET', 'session'))
      navigate('/', { replace: true })
    })
  }
  const takeOver = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = String(new FormData(event.currentTarget).get('password'))
    void taking.act(async () => {
      takeSession(await call<SessionView>('POST', 'reset/confirm', { token, password }))
      navigate('/settings', { replace: true })
    })
  }
  return (
    <main className="mx-auto grid min-h-dvh w-full max-w-sm content-center gap-4 px-5 py-10">
      <Panel title={t('Confirm your address')}>
        <p className="mb-4 text-muted">{t('If you opened the account, sign in to confirm its address.')}</p>
        <form onSubmit={confirm} className="grid gap-3.5">
          <TextField label={t('E-mail')} name="email" type="email" autoComplete="username" required />
          <TextField
            label={t('Password')}
            name="current"
            type="password"
            autoComplete="current-password"
            required
          />
          {own.error !== null && <Failure error={own.error} />}
          <Button type="submit" look="primary" busy={own.busy}>
            {t('Sign in')}
          </Button>
        </form>
      </Panel>
      <Panel title={t('It was not you?')}>
        <p className="mb-4 text-muted">
          {t(
            'Somebody opened an account with your address. Set a password of your own: whatever they left in the account ends.',
          )}
        </p>
        <form onSubmit={takeOver} className="grid gap-3.5">
          <PasswordField label={t('New password')} />
          {taking.error !== null && <Failure error={taking.error} />}
          <Button type="submit" busy={taking.busy}>
            {t('Set the password')}
          </Button>
        </form>
      </Panel>
    </main>
  )
}

/** After an invitation or a link to an account without a password: a way to come back. */
export function Welcome({ session }: { session: SessionView }) {
  const { error, busy, act } = useAct()
  const [, navigate] = useLocation()
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = String(new FormData(event.currentTarget).get('password'))
    void act(async () => {
      takeSession(await call<SessionView>('POST', 'password', { password }))
      navigate('/', { replace: true })
    })
  }
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-sm flex-col justify-center px-5 py-10">
      <BrandHead session={session} />
      <Panel title={t('Welcome')}>
        <p className="mb-4 text-muted">
          {t('You are signed in as {email}. Choose a password, so that you can come back without a link.', {
            email: session.account?.email ?? '',
          })}
        </p>
        <form onSubmit={submit} className="grid gap-3.5">
          <PasswordField />
          {error !== null && <Failure error={error} />}
          <Button type="submit" look="primary" busy={busy}>
            {t('Set the password')}
          </Button>
          <Link href="/settings" className="text-center text-accent underline">
            {t('Use a passkey instead')}
          </Link>
          <Link href="/" className="text-center text-accent underline">
            {t('Not now')}
          </Link>
        </form>
      </Panel>
      <BrandLinks brand={session.brand} />
    </main>
  )
}

function Panel({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="card p-5">
      <h1 className="mb-4 text-base font-semibold">{title}</h1>
      {children}
    </div>
  )
}

/** The secret after the `#`, removed from the address at once, so that history and screenshots do not keep it. */
function takeSecret(): string | undefined {
  const secret = location.hash.slice(1)
  if (secret === '' || secret.includes('=')) return undefined
  history.replaceState(history.state, '', location.pathname)
  return secret
}
