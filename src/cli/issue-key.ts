// A new API key for an account: minted, kept as a hash, handed over once.

import type { AccountStore } from '../accounts/account.ts'
import { type ApiKey, mintKey } from '../accounts/api-key.ts'

export type KeyRights = Pick<
  ApiKey,
  'account' | 'name' | 'mode' | 'expiresAt' | 'spendLimit' | 'limitWindow' | 'allowedModels'
>

export interface IssuedKey {
  readonly key: ApiKey
  /** The key itself. It is nowhere else. */
  readonly text: string
}

/** Stores a new key with these rights; `now` in milliseconds since 1970. */
export function issueKey(
  accounts: Pick<AccountStore, 'insertKey'>,
  rights: KeyRights,
  now: number,
): IssuedKey {
  const { account, name, mode, expiresAt, spendLimit, limitWindow, allowedModels } = rights
  const { id, hash, lastFour, text } = mintKey(mode)
  const asked = { account, name, mode, expiresAt, spendLimit, limitWindow, allowedModels }
  const key: ApiKey = { id, hash, lastFour, createdAt: now, revokedAt: null, ...asked }
  accounts.insertKey(key)
  return { key, text }
}
