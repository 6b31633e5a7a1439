// Acts that need a recent proof of identity: if the gateway requires it, this dialog gets it and the act is repeated.

import { type FormEvent, useState } from 'react'
import { call, CallError } from '../api/call.ts'
import { takeSession, useSession } from '../api/queries.ts'
import type { SessionView } from '../api/wire.ts'
import { passkeyProof } from '../session/credentials.tsx'
import { t } from '../strings/text.ts'
import { Button, Failure } from './basics.tsx'
import { Dialog } from './dialog.tsx'
import { TextField } from './form.tsx'

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
        {session.account.has_password && (
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
        {session.account.passkeys > 0 && (
          <Button onClick={() => void prove(async () => ({ passkey: await passkeyProof() }))}>
            {t('Use a passkey')}
          </Button>
        )}
        {!session.account.has_password && session.account.passkeys === 0 && (
          <p>{t('Sign out and in again, then repeat it.')}</p>
        )}
        {error !== null && <Failure error={error} />}
      </div>
    </Dialog>
  )
}
