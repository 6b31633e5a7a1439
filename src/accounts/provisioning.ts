// What a directory that provisions accounts and groups (SCIM) says of them.

import type { Awaitable } from '../async/async.ts'

export type ProvisionedKind = 'user' | 'group'

export interface Provisioned {
  /** Of the account or the group. */
  readonly id: string
  readonly kind: ProvisionedKind
  /** Its name in the directory, in small letters, where that is not the address of the account; null otherwise. */
  readonly userName: string | null
  /** What the directory calls it. */
  readonly externalId: string | null
  /** Everything else, as it was sent. */
  readonly attributes: Readonly<Record<string, unknown>>
  readonly changedAt: number
}

export interface ProvisioningStore {
  /**
   * Changes of one account or group, or of a name that one is to have, one at a time at all gateways together: what `act`
   * has read of it is so until it ends.
   * Rejects with `overloaded` where another one takes long, or `store_unavailable`.
   */
  changeAlone<T>(id: string, act: () => Promise<T>): Promise<T>
  put(row: Provisioned): Awaitable<void>
  find(id: string): Awaitable<Provisioned | undefined>
  /** The account with this name, in small letters. */
  byUserName(userName: string): Awaitable<string | undefined>
  byExternalId(externalId: string, kind: ProvisionedKind): Awaitable<string | undefined>
  remove(id: string): Awaitable<void>
  /** Accounts in the order they were opened, deleted ones left out; `offset` of them are passed over. */
  accounts(offset: number, limit: number): Awaitable<readonly string[]>
}
