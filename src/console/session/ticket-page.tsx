// The pages that links in mails and sign-in links lead to.

import { type FormEvent, useEffect, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { call } from '../api/call.ts'
import { takeSession } from '../api/queries.ts'
import type { SessionView } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Button, Failure } from '../ui/basics.tsx'
import { TextField } from '../ui/form.tsx'
import { useAct } from '../ui/use-act.ts'
import { takeSecret } from './link-secret.ts'
import { Panel } from './panel.tsx'
import { PasswordField } from './password-field.tsx'

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
        navigate(view.account?.has_password ? '/' : '/welcome', { replace: true })
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
            <Link href="/" className="text-accent underline">
              {session.account ? t('To the overview') : t('Sign in')}
            </Link>
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
    </main>
  )
}
