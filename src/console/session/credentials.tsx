// Passkeys by the browser's own functions: what the gateway asks for, and what the authenticator answers, as JSON.

import { call } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { TextField } from '../ui/form.tsx'

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
