// Passkeys by the browser's own functions: what the gateway asks for, and what the authenticator answers, as JSON.

import { type FormEvent, useState } from 'react'
import type { SessionView } from '../../http/console/answers.ts'
import { call, CallError, takeSession, useSession } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { Button, Dialog, Failure, TextField } from '../ui/kit.tsx'

/** Has a passkey sign a challenge of the gateway. Rejects when the person closes the browser's dialog. */
export async function passkeyProof(): Promise<object> {
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
