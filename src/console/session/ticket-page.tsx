// The pages that links in mails and sign-in links lead to.

import { type FormEvent, useEffect, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { call } from '../api/call.ts'
import { takeSession } from '../api/queries.ts'
import type { SessionView } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Button, Failure } from '../ui/basics.tsx'
import { useAct } from '../ui/use-act.ts'
import { takeSecret } from './link-secret.ts'
import { Panel } from './panel.tsx'
import { PasswordField } from './password-field.tsx'

const exchanges: Readonly<Record<string, 'link' | 'verify'>> = { '/link': 'link', '/verify': 'verify' }

/** `/console/link#…` and `/console/verify#…`: the secret is exchanged once, whether or not somebody is signed in. */
export function TicketPage({ path, session }: { path: string; session: SessionView }) {
  const [token] = useState(takeSecret)
  const [error, setError] = useState<unknown>(null)
  const [, navigate] = useLocation()
  useEffect(() => {
    if (token === undefined) return
    const kind = exchanges[path]!
    const exchange = async () => {
      if (kind === 'verify') {
        await call('POST', 'verify', { token })
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
