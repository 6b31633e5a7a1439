// Who makes a call, as known after authentication.

import { GatewayError } from '../errors.ts'
import type { Account, AccountStore } from './account.ts'
import { type ApiKey, lineOf } from './api-key.ts'
import type { Session } from './session.ts'

export interface Caller {
  readonly account: Account
  /** null for the app of a signed-in account. */
  readonly key: ApiKey | null
  /** The id of the session that an app call is made in; null for a key's. */
  readonly session: string | null
  readonly channel: 'api' | 'app'
  /** Test keys are answered by the simulator and cost nothing. */
  readonly mode: 'live' | 'test'
}

/** The model of a search without a model's answer. It says nothing of its own, and its searches are what is paid. */
export const searchModel = 'sim/search:free'

/**
 * Whether the caller's key may use this model: its list contains the id, or `<provider>/*`. Every key may search, with
 * any of its models and so without one.
 */
export function mayUse(caller: Caller, modelId: string): boolean {
  const allowed = caller.key?.allowedModels
  if (!allowed || modelId === searchModel) return true
  const provider = modelId.slice(0, modelId.indexOf('/'))
  return allowed.includes(modelId) || allowed.includes(`${provider}/*`) || allowed.includes('*')
}

/** Whose calls, and what was answered to them, may be read: a key is not as wide as its account. */
export interface Viewer {
  readonly account: string
  /** Only those of the keys of this line; undefined for all of the account, those of the app too. */
  readonly line: string | undefined
  /** Only those of test keys; undefined for both. */
  readonly mode: 'test' | undefined
}

export function viewerOf({ account, key }: Pick<Caller, 'account' | 'key'>): Viewer {
  if (key === null) return wholeAccount(account.id)
  if (key.sees === 'own') return { account: account.id, line: lineOf(key), mode: undefined }
  return { account: account.id, line: undefined, mode: key.mode === 'test' ? 'test' : undefined }
}

/** Who is signed in to an account sees all of it. */
export function wholeAccount(account: string): Viewer {
  return { account, line: undefined, mode: undefined }
}

/** Whether a call of the account may be read that was made with `key`; null for one of the app. */
export function sees({ line, mode }: Viewer, key: Pick<ApiKey, 'id' | 'lineage' | 'mode'> | null): boolean {
  if (line !== undefined) return key !== null && lineOf(key) === line
  return mode === undefined || key?.mode === mode
}

/** Where keys, sessions and accounts are looked up. */
export type CallerLookups = Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession'>

/** Why a key is refused now, or undefined. */
export function keyFault(
  { id, account, revokedAt, expiresAt }: ApiKey,
  now: number,
): GatewayError | undefined {
  const credential = { account, key: id }
  if (revokedAt !== null && revokedAt <= now) return new GatewayError('api_key_revoked', { credential })
  if (expiresAt !== null && expiresAt <= now) return new GatewayError('api_key_expired', { credential })
  return undefined
}

/** Why a session is refused now, or undefined. */
export function sessionFault(
  { account, revokedAt, expiresAt }: Session,
  now: number,
): GatewayError | undefined {
  const credential = { account }
  if (revokedAt !== null && revokedAt <= now)
    return new GatewayError('api_key_revoked', { message: 'The session has been ended.', credential })
  if (expiresAt <= now)
    return new GatewayError('api_key_expired', {
      message: 'The session has expired: sign in again.',
      credential,
    })
  return undefined
}
