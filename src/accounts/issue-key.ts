// Issues API keys: generates them and stores their hash.

import type { AccountStore } from './account.ts'
import { type ApiKey, lineOf, mintKey, type MintedKey } from './api-key.ts'
import { idFor } from './secret-text.ts'

export type KeyRights = Pick<
  ApiKey,
  | 'account'
  | 'name'
  | 'mode'
  | 'sees'
  | 'expiresAt'
  | 'spendLimit'
  | 'limitWindow'
  | 'allowedModels'
  | 'requestsPerMinute'
  | 'tokensPerMinute'
  | 'networks'
>

export type KeyLimits = Omit<KeyRights, 'account' | 'name' | 'mode' | 'sees'>

/** No limits: the default of a new key. */
export const unlimited: KeyLimits = {
  expiresAt: null,
  spendLimit: null,
  limitWindow: 'total',
  allowedModels: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  networks: null,
}

export interface IssuedKey {
  readonly key: ApiKey
  /** The text of the key, which is stored nowhere. */
  readonly text: string
}

/** Stores a new key with these rights; `now` in milliseconds since 1970. */
export async function issueKey(
  accounts: Pick<AccountStore, 'insertKey'>,
  rights: KeyRights,
  now: number,
): Promise<IssuedKey> {
  const issued = newKey(rights, now, null, mintKey(rights.mode))
  if (!(await accounts.insertKey(issued.key))) throw new Error('two keys have the same random id')
  return issued
}

/** Stores a new key under the id of the request for it. undefined if that request has made a key already. */
export async function issueKeyOnce(
  accounts: Pick<AccountStore, 'insertKey'>,
  rights: KeyRights,
  now: number,
  request: string,
): Promise<IssuedKey | undefined> {
  const issued = newKey(rights, now, null, mintKey(rights.mode, keyIdOf(rights.account, request)))
  return (await accounts.insertKey(issued.key)) ? issued : undefined
}

/** The id of the key that a request of an account makes: the primary key of its table lets it be made once. */
export function keyIdOf(account: string, request: string): string {
  return idFor(JSON.stringify([account, request]))
}

/**
 * Stores a key with the rights of the one it replaces, including what was spent of its limit. undefined if that one
 * has been replaced already.
 */
export async function issueSuccessor(
  accounts: Pick<AccountStore, 'insertSuccessor'>,
  replaced: ApiKey,
  now: number,
): Promise<IssuedKey | undefined> {
  const issued = newKey(replaced, now, lineOf(replaced), mintKey(replaced.mode))
  return (await accounts.insertSuccessor(issued.key, replaced.id)) ? issued : undefined
}

function newKey(rights: KeyRights, now: number, lineage: string | null, minted: MintedKey): IssuedKey {
  const { account, name, mode, sees, expiresAt, spendLimit, limitWindow, allowedModels } = rights
  const { requestsPerMinute, tokensPerMinute, networks } = rights
  const { id, hash, lastFour, text } = minted
  const limits = { spendLimit, limitWindow, allowedModels, requestsPerMinute, tokensPerMinute, networks }
  const asked = { account, name, mode, sees, expiresAt, ...limits }
  const born = { id, hash, lastFour, createdAt: now, revokedAt: null, lineage, replacedBy: null }
  const key: ApiKey = { ...born, ...asked }
  return { key, text }
}
