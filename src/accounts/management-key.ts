// Keys of the admin API: `mk-weir-<id>-<secret><checksum>`, shown once, stored as a hash. They cannot make calls.

import type { Awaitable } from '../async/async.ts'
import { hashOfKey, idFor, mintSecret, readSecret, secretForm } from './account.ts'

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
  /** What it opens: the admin API, or provisioning alone. */
  readonly scope: ManagementScope
}

export type ManagementScope = 'admin' | 'scim'

export interface ManagementKeyStore {
  /** False if there is a key with its id. */
  insert(key: ManagementKey): Awaitable<boolean>
  find(id: string): Awaitable<ManagementKey | undefined>
  /** Of all accounts without an argument. */
  list(account?: string): Awaitable<readonly ManagementKey[]>
  /** Effective at once, in every process. False if there is no such key. */
  revoke(id: string, at: number): Awaitable<boolean>
  /** Deletes a key that one command made for itself. */
  remove(id: string): Awaitable<void>
}

const form = secretForm('mk-weir', [])

export type WantedManagementKey = Pick<ManagementKey, 'account' | 'name' | 'expiresAt' | 'networks' | 'scope'>

export interface IssuedManagementKey {
  readonly key: ManagementKey
  /** The key itself, which is stored nowhere. */
  readonly text: string
}

/** Stores a new key; `now` in milliseconds since 1970. */
export async function issueManagementKey(
  store: Pick<ManagementKeyStore, 'insert'>,
  wanted: WantedManagementKey,
  now: number,
): Promise<IssuedManagementKey> {
  const issued = newKey(wanted, now, mintSecret(form))
  if (!(await store.insert(issued.key))) throw new Error('two management keys have the same random id')
  return issued
}

/** Stores a new key under the id of the request for it. undefined if that request has made a key already. */
export async function issueManagementKeyOnce(
  store: Pick<ManagementKeyStore, 'insert'>,
  wanted: WantedManagementKey,
  now: number,
  request: string,
): Promise<IssuedManagementKey | undefined> {
  const id = requestedKeyId(wanted.account, request)
  const issued = newKey(wanted, now, mintSecret(form, undefined, id))
  return (await store.insert(issued.key)) ? issued : undefined
}

/**
 * The id of the management key that a request of an operator makes: the primary key of its table lets it be made once.
 * It is not that of an API key for the same request, since `weir keys revoke` takes the ids of both.
 */
export function requestedKeyId(account: string, request: string): string {
  return idFor(JSON.stringify(['management', account, request]))
}

function newKey(
  { account, name, expiresAt, networks, scope }: WantedManagementKey,
  now: number,
  { id, text }: ReturnType<typeof mintSecret>,
): IssuedManagementKey {
  const made = { id, hash: hashOfKey(text), lastFour: text.slice(-4), createdAt: now, revokedAt: null }
  return { key: { ...made, account, name, expiresAt, networks, scope }, text }
}

/** The id in a presented key; undefined if it is not a management key, or mistyped. */
export function managementKeyIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}
