// Keys of the admin API: `mk-weir-<id>-<secret><checksum>`, shown once, stored as a hash. They cannot make calls.

import type { Awaitable } from '../awaitable.ts'
import { hashOfKey } from './api-key.ts'
import { mintSecret, readSecret, secretForm } from './secret-text.ts'

export interface ManagementKey {
  /** 12 characters, part of the key: used for lookup, while the comparison uses the hash. */
  readonly id: string
  /** The operator it acts for. */
  readonly account: string
  readonly name: string
  /** SHA-256 of the whole key, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** Address ranges (CIDR) it may be used from; null for any. */
  readonly networks: readonly string[] | null
}

export interface ManagementKeyStore {
  insert(key: ManagementKey): Awaitable<void>
  find(id: string): Awaitable<ManagementKey | undefined>
  /** Of all accounts without an argument. */
  list(account?: string): Awaitable<readonly ManagementKey[]>
  /** Effective at once, in every process. False if there is no such key. */
  revoke(id: string, at: number): Awaitable<boolean>
}

const form = secretForm('mk-weir', [])

export type WantedManagementKey = Pick<ManagementKey, 'account' | 'name' | 'expiresAt' | 'networks'>

/** Stores a new key and returns its text, which is stored nowhere; `now` in milliseconds since 1970. */
export async function issueManagementKey(
  store: Pick<ManagementKeyStore, 'insert'>,
  wanted: WantedManagementKey,
  now: number,
): Promise<{ readonly key: ManagementKey; readonly text: string }> {
  const { account, name, expiresAt, networks } = wanted
  const { id, text } = mintSecret(form)
  const made = { id, hash: hashOfKey(text), lastFour: text.slice(-4), createdAt: now, revokedAt: null }
  const key: ManagementKey = { ...made, account, name, expiresAt, networks }
  await store.insert(key)
  return { key, text }
}

/** The id in a presented key; undefined if it is not a management key, or mistyped. */
export function managementKeyIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}
