// Accounts and their keys, and the interface of the store that keeps them.

import type { Awaitable } from '../awaitable.ts'
import type { ApiKey } from './api-key.ts'
import type { Session } from './session.ts'

/** The account that the first run creates: the operator's own. */
export const ownerEmail = 'owner@localhost'

export interface Account {
  readonly id: string
  readonly email: string
  readonly createdAt: number
  readonly suspended: boolean
  readonly role: Role
  /** When the address was proven, or vouched for by an operator; null until then. */
  readonly verifiedAt: number | null
}

/** Operators may change what belongs to others, users only what is their own. */
export type Role = 'user' | 'operator'

/** The fields of a new account besides its address. */
export interface NewAccount {
  /** `user` when left out. */
  readonly role?: Role
  /** Defaults to now: whoever creates the account vouches for its address. */
  readonly verifiedAt?: number | null
  /** The hash of its password; none when left out. */
  readonly password?: string
}

export interface AccountQuery {
  readonly limit: number
  /** Only accounts opened after the one with this id. */
  readonly after?: string | undefined
  /** Only accounts whose address or id contains this text, in lower case. */
  readonly q?: string | undefined
}

export interface AccountPage {
  readonly accounts: readonly Account[]
  /** The `after` of the next page; null at the end. */
  readonly next: string | null
}

export interface AccountCount {
  readonly accounts: number
  /** Of those. */
  readonly suspended: number
}

/**
 * After this time, milliseconds, no process uses an account, a key or a session as it was before another process changed
 * it: a worker caches them for 50 ms, the ledger's process for 5, and that looks for changes every 50, which end running
 * calls.
 */
export const heardWithinMs = 150

export interface KeyQuery {
  readonly account: string
  readonly limit: number
  /** Only keys made before the one with this id. */
  readonly after?: string | undefined
  /** Only keys whose name, id or last characters contain this text, in lower case. */
  readonly q?: string | undefined
  /** `current`: those that have not ended, and those revoked since `endedAfter`. */
  readonly state: 'current' | 'all'
  readonly now: number
  readonly endedAfter: number
}

export interface KeyPage {
  /** The newest first. */
  readonly keys: readonly ApiKey[]
  /** The `after` of the next page; null at the end. */
  readonly next: string | null
  /** Keys between them that were left out because they have ended. */
  readonly hidden: number
}

export interface AccountStore {
  /** Throws GatewayError `invalid_request` when the address is taken. */
  createAccount(email: string, more?: NewAccount): Awaitable<Account>
  /** By id or by e-mail address. */
  findAccount(idOrEmail: string): Awaitable<Account | undefined>
  /** Deleted accounts are not among them. */
  listAccounts(): Awaitable<readonly Account[]>
  /** A page of accounts in order of creation. Throws GatewayError `invalid_request` for an unknown `after`. */
  pageAccounts(query: AccountQuery): Promise<AccountPage>
  /** How many there are. */
  countAccounts(): Promise<AccountCount>
  /** False if there is a key with its id. */
  insertKey(key: ApiKey): Awaitable<boolean>
  /**
   * Inserts a key that replaces another: both share one spending limit, including what was spent. False if that one
   * has a successor already.
   */
  insertSuccessor(key: ApiKey, replaces: string): Awaitable<boolean>
  /** Changes the name and limits of a key; mode and secret stay. */
  changeKey(key: ApiKey): Awaitable<void>
  /** When the last call made with a key ended; null if there was none. */
  keyUsedAt(id: string): Awaitable<number | null>
  findKey(id: string): Awaitable<ApiKey | undefined>
  listKeys(account: string): Awaitable<readonly ApiKey[]>
  /** A page of an account's keys. Throws GatewayError `invalid_request` for an unknown `after`. */
  pageKeys(query: KeyQuery): Promise<KeyPage>
  /** How many keys of an account work, counted up to `most`. */
  countActiveKeys(account: string, now: number, most: number): Awaitable<number>
  /** Effective at once here, after `heardWithinMs` in every other process. False if there is no such key. */
  revokeKey(id: string, at: number): Awaitable<boolean>
  /** Changes the expiry of a key, for a rotation with overlap. */
  expireKey(id: string, at: number): Awaitable<boolean>
  /** Refuses the account's calls; takes effect like a revocation. False for an unknown or deleted account. */
  suspend(id: string): Awaitable<boolean>
  resume(id: string): Awaitable<boolean>
  insertSession(session: Session): Awaitable<void>
  findSession(id: string): Awaitable<Session | undefined>
  listSessions(account: string): Awaitable<readonly Session[]>
  /** Effective at once here, after `heardWithinMs` in every other process. False if there is no such session. */
  revokeSession(id: string, at: number): Awaitable<boolean>
}
