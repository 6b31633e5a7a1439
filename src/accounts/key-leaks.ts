// A key that leaks is frozen: reported by whoever has found it, or used from more networks in an hour than a setting
// allows. A frozen key is paused, so it is refused at once through every door; its owner is told, and replaces or resumes
// it.

import { LRUCache } from 'lru-cache'
import { atMost, type Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'
import {
  type Account,
  type AccountStore,
  type ApiKey,
  hashOfKey,
  idFor,
  lifeState,
  matches,
  mintSecret,
  readKey,
  readSecret,
  secretForm,
} from './account.ts'
import type { ActLog } from './identity/identity-store.ts'
import { type Mailer, mails } from './identity/mail.ts'
import { networkOf, type SharedSightings, WindowLimit } from './identity/sign-in-limits.ts'

// Keys of the admin API: `mk-weir-<id>-<secret><checksum>`, shown once, stored as a hash. They cannot make calls.

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

/** Why a key was frozen, as its pause says. */
type Cause = 'leak' | 'networks'

type Sightings = Pick<SharedSightings, 'see' | 'forgetSeen'>

interface LeakParts {
  readonly accounts: Pick<AccountStore, 'findKey' | 'findAccount' | 'pauseOwnKey'>
  readonly managementKeys: Pick<ManagementKeyStore, 'find' | 'revoke'>
  readonly acts: Pick<ActLog, 'record'>
  /** Tells the webhooks of its account. */
  readonly onFrozen: (key: ApiKey, cause: Cause, at: number) => Awaitable<void>
  /** Undefined without a mail server. */
  readonly mailer: () => Mailer | undefined
  readonly consoleUrl: () => string
  /** From how many networks a key may be used in an hour; 0 for any number. */
  readonly mostNetworks: () => number
  /** Where keys were seen by all gateways; undefined where there is only this one. */
  readonly sightings?: Sightings | undefined
  readonly log: { warn(message: string, fields: Readonly<Record<string, unknown>>): void }
  /** Milliseconds since 1970. */
  readonly now: () => number
}

const [minuteMs, hourMs] = [60_000, 3_600_000] as const
/** Reports of one network, and of all, in a minute. */
const reportsPerNetwork = 20
const reportsPerMinute = 300
/** Keys whose networks are remembered; those beyond that were used least lately begin anew. */
const mostKeys = 10_000
/** Who freezes, in the log of acts. */
const actor = 'weir'

export class KeyLeaks {
  readonly #parts: LeakParts
  readonly #networks = new KeyNetworks()
  readonly #toldOf = new LRUCache<string, true>(atMost(mostKeys))
  readonly #ofNetwork: WindowLimit
  readonly #ofAll: WindowLimit

  constructor(parts: LeakParts) {
    this.#parts = parts
    this.#ofNetwork = new WindowLimit(reportsPerNetwork, minuteMs, parts.now)
    this.#ofAll = new WindowLimit(reportsPerMinute, minuteMs, parts.now)
  }

  /**
   * Takes the report of a key that was found. It says nothing of the key, and takes as long for any text: what is to be
   * done is done afterwards. Throws `rate_limit_exceeded`.
   */
  onReport(text: string, address: string): void {
    const retryAfterMs = this.#ofNetwork.take(networkOf(address)) || this.#ofAll.take('')
    if (retryAfterMs > 0) {
      const message = 'Too many keys were reported: wait a moment.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
    }
    setImmediate(() => {
      this.#onFound(text).catch((error: unknown) =>
        this.#parts.log.warn('a key that was reported could not be frozen', { error }),
      )
    })
  }

  /** A key was used from a network: see `KeyUse`. */
  onUsed(key: string, network: string): void {
    const { mostNetworks, now, log, sightings } = this.#parts
    const most = mostNetworks()
    if (most === 0) return
    const onFailure = (error: unknown) =>
      log.warn('a key that was used from many networks could not be frozen', { key, error })
    if (sightings !== undefined) this.#onSeen(sightings, key, network, most).catch(onFailure)
    else if (this.#networks.isBeyond(key, network, most, now()))
      this.#freeze(key, 'networks').catch(onFailure)
  }

  async #onSeen(sightings: Sightings, key: string, network: string, most: number): Promise<void> {
    const now = this.#parts.now()
    if ((await sightings.see(key, network, now, now - hourMs)) <= most) return
    await this.#freeze(key, 'networks')
    await sightings.forgetSeen(key)
  }

  async #onFound(text: string): Promise<void> {
    const managementKey = managementKeyIdOf(text)
    if (managementKey !== undefined) return this.#revokeManagementKey(managementKey, text)
    const read = readKey(text)
    if (read.kind === 'malformed') return
    const key = await this.#parts.accounts.findKey(read.id)
    // Only who has the whole key has found it.
    if (key && matches(key, text)) await this.#freeze(key.id, 'leak')
  }

  async #freeze(id: string, cause: Cause): Promise<void> {
    const { accounts, now } = this.#parts
    const key = await accounts.findKey(id)
    if (!key || lifeState(key, now()) !== 'active' || isFrozen(key)) return
    // What an operator has paused stays theirs to resume: that it was found is told once.
    if (key.paused?.by === 'operator') {
      if (this.#toldOf.has(id)) return
      this.#toldOf.set(id, true)
    } else await accounts.pauseOwnKey(id, { at: now(), by: cause })
    const before = { key: id, name: key.name, paused_by: key.paused?.by ?? null }
    await this.#record('key.freeze', key.account, before, { ...before, paused_by: cause })
    try {
      await this.#parts.onFrozen(key, cause, now())
    } catch (error) {
      this.#parts.log.warn('the webhooks of a frozen key could not be told', { key: id, error })
    }
    await this.#tellOwner(key.account, (account, url) => mails.frozen(account.email, url, key, cause))
  }

  /** There is no pause for these: whoever has lost one makes another. */
  async #revokeManagementKey(id: string, text: string): Promise<void> {
    const { managementKeys, now } = this.#parts
    const key = await managementKeys.find(id)
    if (!key || !matches(key, text) || lifeState(key, now()) !== 'active') return
    await managementKeys.revoke(id, now())
    await this.#record('management_key.revoke', key.account, { key: id, name: key.name }, null)
    await this.#tellOwner(key.account, (account, url) => mails.managementKeyRevoked(account.email, url, key))
  }

  #record(what: string, subject: string, before: unknown, after: unknown): void | Promise<void> {
    return this.#parts.acts.record({ at: this.#parts.now(), operator: actor, what, subject, before, after })
  }

  async #tellOwner(id: string, mail: (account: Account, url: string) => Parameters<Mailer['send']>[0]) {
    const { accounts, mailer, consoleUrl, log } = this.#parts
    const sender = mailer()
    const account = await accounts.findAccount(id)
    if (sender === undefined || !account) return
    try {
      await sender.send(mail(account, consoleUrl()))
    } catch (error) {
      log.warn('the owner of a frozen key could not be told by mail', { account: id, error })
    }
  }
}

/** Whether a key is paused because it has leaked, or seems to have. */
export function isFrozen({ paused }: Pick<ApiKey, 'paused'>): boolean {
  return paused?.by === 'leak' || paused?.by === 'networks'
}

/** From which networks keys were used within the last hour. */
export class KeyNetworks {
  readonly #seen = new LRUCache<string, Map<string, number>>(atMost(mostKeys))

  /** Notes a use. True if the key was used from more than `most` networks within an hour: then it begins anew. */
  isBeyond(key: string, network: string, most: number, now: number): boolean {
    let networks = this.#seen.get(key)
    if (networks === undefined) this.#seen.set(key, (networks = new Map()))
    networks.set(network, now)
    if (networks.size <= most) return false
    for (const [name, at] of networks) if (now - at > hourMs) networks.delete(name)
    if (networks.size <= most) return false
    this.#seen.delete(key)
    return true
  }
}

/** The networks of one process's requests, each told on once in a while. */
export class KeyUse {
  readonly #tell: (key: string, network: string) => void
  readonly #told: LRUCache<string, true>

  /** `tell` is given a key and a network of it, again after ten minutes at the earliest. */
  constructor(tell: (key: string, network: string) => void) {
    this.#tell = tell
    this.#told = new LRUCache({ ...atMost(2 * mostKeys), ttl: 10 * minuteMs })
  }

  /** A key that names its networks is used from nowhere else: it is not watched. */
  note({ id, networks }: Pick<ApiKey, 'id' | 'networks'>, address: string): void {
    if (networks !== null) return
    const network = networkOf(address, keyBits)
    const name = `${id} ${network}`
    if (this.#told.has(name)) return
    this.#told.set(name, true)
    this.#tell(id, network)
  }
}

/** The prefix of an IPv6 network: what one customer gets. */
const keyBits = 48
