// Accounts and their keys as the rest of the gateway sees them, and the store that keeps them.

import type { ApiKey } from './api-key.ts'
import type { Session } from './session.ts'

/** The account that the first run creates: the operator's own. */
export const ownerEmail = 'owner@localhost'

export interface Account {
  readonly id: string
  readonly email: string
  readonly createdAt: number
  readonly suspended: boolean
}

export interface AccountStore {
  /** Throws GatewayError `invalid_request` when the address is taken. */
  createAccount(email: string): Account
  /** By id or by e-mail address. */
  findAccount(idOrEmail: string): Account | undefined
  listAccounts(): readonly Account[]
  insertKey(key: ApiKey): void
  /** The same for a key that replaces another: both share one spending limit, and what was spent counts on. */
  insertSuccessor(key: ApiKey, replaces: string): void
  findKey(id: string): ApiKey | undefined
  listKeys(account: string): readonly ApiKey[]
  /** Effective at once here, within a second in every other process. False when there is no such key. */
  revokeKey(id: string, at: number): boolean
  /** Moves the expiry of a key (rotation with overlap). */
  expireKey(id: string, at: number): boolean
  /** Refuses the account's calls, or serves them again; effective like a revocation. False for an unknown account. */
  suspend(id: string): boolean
  resume(id: string): boolean
  insertSession(session: Session): void
  findSession(id: string): Session | undefined
  listSessions(account: string): readonly Session[]
  /** Effective at once here, within a second in every other process. False when there is no such session. */
  revokeSession(id: string, at: number): boolean
}
