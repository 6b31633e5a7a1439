// Accounts, their API keys and sessions, and their secrets.

import { createCipheriv, createDecipheriv, createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'
import { type Changed, leftGroup, type GroupStanding } from './group.ts'

// The form of bearer secrets: `<prefix>-<kind>-<id>-<secret><checksum>`; some forms have no kind.

interface SecretForm {
  readonly prefix: string
  readonly hasKind: boolean
  /** Matches texts of this form. */
  readonly pattern: RegExp
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const idLength = 12
/** 33 characters of 62 are 196 bits. */
const secretLength = 33
const checksumLength = 6

/** `kinds` is empty for a form without kinds. */
export function secretForm(prefix: string, kinds: readonly string[]): SecretForm {
  const hasKind = kinds.length > 0
  const kind = hasKind ? `(?:${kinds.join('|')})-` : ''
  const characters = '[0-9A-Za-z]'
  const secret = `${characters}{${secretLength + checksumLength}}`
  const pattern = new RegExp(`^${prefix}-${kind}${characters}{${idLength}}-${secret}$`)
  return { prefix, hasKind, pattern }
}

/** Generates a secret from the system's random source, and its id for lookups unless it is given. */
export function mintSecret(
  form: SecretForm,
  kind?: string,
  id: string = randomText(idLength),
): { readonly id: string; readonly text: string } {
  const body = [form.prefix, ...(kind === undefined ? [] : [kind]), id, randomText(secretLength)].join('-')
  return { id, text: body + checksumOf(body) }
}

/** The id of a secret that is made once for this text: the same text has the same id. */
export function idFor(text: string): string {
  let rest = BigInt(`0x${Bun.SHA256.hash(text, 'hex')}`)
  let id = ''
  while (id.length < idLength) {
    id += alphabet[Number(rest % 62n)]!
    rest /= 62n
  }
  return id
}

/** The kind and id in a presented text, or why it is invalid: another `form`, or a mistyped `checksum`. */
export function readSecret(
  form: SecretForm,
  text: string,
): { readonly kind: string | undefined; readonly id: string } | 'form' | 'checksum' {
  // Every call reads one: the ends of its parts are known, and groups of the pattern would be copies of all of them.
  if (!form.pattern.test(text)) return 'form'
  if (!endsWithChecksum(text)) return 'checksum'
  const idEnd = text.length - 1 - secretLength - checksumLength
  const idStart = idEnd - idLength
  const kind = form.hasKind ? text.slice(form.prefix.length + 1, idStart - 1) : undefined
  return { kind, id: text.slice(idStart, idEnd) }
}

/** CRC-32 in base 62, six digits, for secret scanners. */
function checksumOf(body: string): string {
  let rest = Bun.hash.crc32(body)
  let digits = ''
  for (let at = 0; at < checksumLength; at++) {
    digits = alphabet[rest % 62]! + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Whether the last six characters are the checksum of those before. */
function endsWithChecksum(text: string): boolean {
  const bodyLength = text.length - checksumLength
  let rest = Bun.hash.crc32(text.slice(0, bodyLength))
  for (let at = text.length - 1; at >= bodyLength; at--) {
    if (text[at] !== alphabet[rest % 62]) return false
    rest = Math.floor(rest / 62)
  }
  return true
}

/** How the keys of this gateway begin, mistyped ones too. */
const anySecret = new RegExp(`\\b(?:sk|ws|mk)-weir(?:-[a-z]+)?-([0-9A-Za-z]{${idLength}})-`)

/** The public id of a key in the headers of a request; undefined without one. */
export function publicIdIn(headers: Headers): string | undefined {
  for (const name of ['authorization', 'x-api-key', 'x-goog-api-key']) {
    const id = publicIdOf(headers.get(name) ?? '')
    if (id !== undefined) return id
  }
  return undefined
}

/** The public id in the text of a key; undefined for another text. */
export function publicIdOf(text: string): string | undefined {
  return anySecret.exec(text.slice(0, 200))?.[1]
}

/** Unbiased random characters: bytes beyond the last multiple of 62 are discarded. */
function randomText(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length))
      if (byte < 248 && text.length < length) text += alphabet[byte % 62]!
  }
  return text
}

// API keys: `sk-weir-<live|test>-<id>-<secret><checksum>`. The secret is shown once; only its hash is stored.

export type KeyMode = 'live' | 'test'

/** `own`: those of its own line. `all`: all of the account, for a test key all of test keys. */
type KeySight = 'own' | 'all'

export interface ApiKey {
  /** 12 characters, part of the key: used for lookup, while the comparison uses the hash. */
  readonly id: string
  readonly account: string
  readonly name: string
  readonly mode: KeyMode
  /** The group that it was made in; null for a key of the account alone. */
  readonly group: string | null
  /** SHA-256 of the whole key, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** Since when it is refused, until it is resumed, and who paused it; null while it is not paused. */
  readonly paused: KeyPause | null
  /** The most the key may spend per window, picodollars; null without a limit of its own. */
  readonly spendLimit: bigint | null
  readonly limitWindow: LimitWindow
  /** Model ids or `provider/*` patterns; null allows every model. */
  readonly allowedModels: readonly string[] | null
  /** The key's own limits; null for the gateway's. */
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  /** Address ranges (CIDR) it may be used from; null for any. */
  readonly networks: readonly string[] | null
  /** How old an answer may be that is given again to its requests, seconds, where they say nothing; null for none. */
  readonly cacheTtl: number | null
  /** Whose calls and responses it may read. */
  readonly sees: KeySight
  /** The id of the first key of its rotations, whose limits they share; null for a key that replaced none. */
  readonly lineage: string | null
  /** The id of the key that replaced it. */
  readonly replacedBy: string | null
}

/**
 * What an operator has paused its owner does not resume. `leak`: the key was reported as found by others; `networks`: it was
 * used from more networks than `keys.freeze_after_networks` allows.
 */
export interface KeyPause {
  readonly at: number
  readonly by: 'owner' | 'operator' | 'leak' | 'networks'
}

/** The name that its limits are counted by, which is the same for a key and its successors. */
export function lineOf({ id, lineage }: Pick<ApiKey, 'id' | 'lineage'>): string {
  return lineage ?? id
}

export type LimitWindow = 'day' | 'week' | 'month' | 'total'

type LifeState = 'active' | 'expired' | 'revoked'

/** Whether a key, a session or a management key has ended at `now`, milliseconds since 1970. */
export function lifeState(of: Pick<ApiKey, 'revokedAt' | 'expiresAt'>, now: number): LifeState {
  if (of.revokedAt !== null && of.revokedAt <= now) return 'revoked'
  return of.expiresAt !== null && of.expiresAt <= now ? 'expired' : 'active'
}

/** Whether an API key works at `now`, milliseconds since 1970. */
export function keyState(
  key: Pick<ApiKey, 'revokedAt' | 'expiresAt' | 'paused'>,
  now: number,
): LifeState | 'paused' {
  const life = lifeState(key, now)
  return life === 'active' && key.paused !== null ? 'paused' : life
}

const form = secretForm('sk-weir', ['live', 'test'])

interface MintedKey extends Pick<ApiKey, 'id' | 'mode' | 'hash' | 'lastFour'> {
  /** The text of the key: shown once, never stored. */
  readonly text: string
}

/** Generates a key from the system's random source, but for its id if that is given. */
export function mintKey(mode: KeyMode, given?: string): MintedKey {
  const { id, text } = mintSecret(form, mode, given)
  return { id, mode, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

type ReadKey =
  | { readonly kind: 'key'; readonly id: string; readonly mode: KeyMode }
  /** Not a key of ours, or one with a wrong checksum: a typing error. */
  | { readonly kind: 'malformed'; readonly reason: 'form' | 'checksum' }

/** Parses a presented key. The checksum detects a mistyped one without a database lookup. */
export function readKey(text: string): ReadKey {
  const read = readSecret(form, text)
  if (typeof read === 'string') return { kind: 'malformed', reason: read }
  return { kind: 'key', id: read.id, mode: read.kind === 'test' ? 'test' : 'live' }
}

const hashBytes = 32
// Every call compares two hashes, and nothing waits in between.
const stored = Buffer.alloc(hashBytes)
const presented = Buffer.alloc(hashBytes)

/** Whether the text is this key, in constant time. */
export function matches({ hash }: Pick<ApiKey, 'hash'>, text: string): boolean {
  if (hash.length !== 2 * hashBytes || stored.write(hash, 'hex') !== hashBytes) return false
  Bun.SHA256.hash(text, presented)
  return timingSafeEqual(stored, presented)
}

export function hashOfKey(text: string): string {
  return Bun.SHA256.hash(text, 'hex')
}

// The window of a key's spending limit: UTC days, weeks from Monday, calendar months, or unlimited.

/** The start of the window that contains `now`, milliseconds since 1970. */
export function windowStart(window: LimitWindow, now: number): number {
  const day = new Date(now)
  day.setUTCHours(0, 0, 0, 0)
  switch (window) {
    case 'day':
      return day.getTime()
    case 'week':
      return day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7))
    case 'month':
      return day.setUTCDate(1)
    case 'total':
      return 0
    default:
      return window satisfies never
  }
}

/** The end of the window that contains `now`, milliseconds since 1970; null for a limit that never resets. */
export function windowEnd(window: LimitWindow, now: number): number | null {
  if (window === 'total') return null
  const start = new Date(windowStart(window, now))
  if (window === 'day') return start.setUTCDate(start.getUTCDate() + 1)
  if (window === 'week') return start.setUTCDate(start.getUTCDate() + 7)
  return start.setUTCMonth(start.getUTCMonth() + 1)
}

// Issues API keys: generates them and stores their hash.

export type KeyRights = Pick<
  ApiKey,
  | 'account'
  | 'name'
  | 'mode'
  | 'group'
  | 'sees'
  | 'expiresAt'
  | 'spendLimit'
  | 'limitWindow'
  | 'allowedModels'
  | 'requestsPerMinute'
  | 'tokensPerMinute'
  | 'networks'
  | 'cacheTtl'
>

export type KeyLimits = Omit<KeyRights, 'account' | 'name' | 'mode' | 'group' | 'sees'>

/** No limits: the default of a new key. */
export const unlimited: KeyLimits = {
  expiresAt: null,
  spendLimit: null,
  limitWindow: 'total',
  allowedModels: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  networks: null,
  cacheTtl: null,
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
 * Replaces a key by one with the same rights, including what was spent of its limit; the old one works on for the
 * overlap, and if it would expire sooner, until then. undefined if it has been replaced already.
 */
export async function replaceKey(
  accounts: Pick<AccountStore, 'insertSuccessor' | 'revokeKey' | 'expireKey'>,
  old: ApiKey,
  overlapMs: number,
  now: number,
): Promise<{ readonly issued: IssuedKey; readonly ends: number } | undefined> {
  const issued = newKey(old, now, lineOf(old), mintKey(old.mode))
  if (!(await accounts.insertSuccessor(issued.key, old.id))) return undefined
  const ends = Math.min(now + overlapMs, old.expiresAt ?? Number.POSITIVE_INFINITY)
  if (overlapMs === 0) await accounts.revokeKey(old.id, now)
  else await accounts.expireKey(old.id, ends)
  return { issued, ends }
}

function newKey(rights: KeyRights, now: number, lineage: string | null, minted: MintedKey): IssuedKey {
  const { account, name, mode, group, sees, expiresAt, spendLimit, limitWindow, allowedModels } = rights
  const { requestsPerMinute, tokensPerMinute, networks, cacheTtl } = rights
  const { id, hash, lastFour, text } = minted
  const limits = { spendLimit, limitWindow, allowedModels, requestsPerMinute, tokensPerMinute, networks }
  const asked = { account, name, mode, group, sees, expiresAt, ...limits, cacheTtl }
  const born = {
    id,
    hash,
    lastFour,
    createdAt: now,
    revokedAt: null,
    paused: null,
    lineage,
    replacedBy: null,
  }
  const key: ApiKey = { ...born, ...asked }
  return { key, text }
}

// Accounts and their keys, and the interface of the store that keeps them.

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
  /** Purchased credit that it has each month, picodollars; zero for none. */
  readonly monthlyCredit: bigint
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
  /** Nothing when left out. */
  readonly allowances?: NewcomerAllowances
}

/** What an account gets whose address an operator or the single sign-on vouches for, in one write with it. */
export interface NewcomerAllowances {
  /** Purchased credit of each month, picodollars; zero for none. */
  readonly monthlyCredit: bigint
  /** How much it may owe, picodollars. */
  readonly creditLine: bigint
  /** The group that it becomes a member of, if there is such a group. */
  readonly group: string | undefined
}

/** What a list of accounts is sorted by. */
export const accountSorts = ['opened', 'email', 'balance', 'spent', 'used'] as const
export type AccountSort = (typeof accountSorts)[number]

export const accountStates = ['active', 'suspended', 'unverified'] as const

export interface AccountQuery {
  readonly limit: number
  /** The `next` of the page before. */
  readonly after?: string | undefined
  /** Only accounts whose address or id contains this text, in lower case. */
  readonly q?: string | undefined
  readonly state?: (typeof accountStates)[number] | undefined
  readonly sort: AccountSort
  readonly order: 'asc' | 'desc'
  /** Milliseconds since 1970. */
  readonly now: number
}

/** An account in a list of operators. */
export interface AccountEntry extends Account {
  /** Purchased credit, less what is owed, picodollars. */
  readonly balance: bigint
  /** What its calls were charged in this calendar month, UTC. */
  readonly spent: bigint
  /** When its last call ended, or was refused; the day of it where the request log holds it no more. Null for never. */
  readonly usedAt: number | null
}

export interface AccountPage {
  readonly accounts: readonly AccountEntry[]
  /** The `after` of the next page; null at the end. */
  readonly next: string | null
}

export interface AccountDirectory {
  /** Long lists are made beside the calls, and end with their signal. Throws `invalid_request` for an unknown `after`. */
  page(query: AccountQuery, signal?: AbortSignal): Promise<AccountPage>
}

export interface AccountCount {
  readonly accounts: number
  /** Of those. */
  readonly suspended: number
}

/**
 * How long a server on this machine may go on using an account, a key or a session as it was before a command changed it,
 * milliseconds. It looks for changes every 50 ms, and ends the calls of what was revoked.
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
  /** How many there are. */
  countAccounts(): Promise<AccountCount>
  /** False if there is a key with its id. */
  insertKey(key: ApiKey): Awaitable<boolean>
  /**
   * Inserts a key that replaces another: both share one spending limit, including what was spent. False if that one
   * has a successor already, or if it was revoked or paused meanwhile, by whoever may.
   */
  insertSuccessor(key: ApiKey, replaces: string): Awaitable<boolean>
  /**
   * Changes the name and the limits that are named, and nothing else, whoever changes the rest meanwhile. Undefined if there
   * is no such key.
   */
  changeKey(
    id: string,
    changes: Partial<KeyLimits & Pick<ApiKey, 'name'>>,
  ): Awaitable<Changed<ApiKey> | undefined>
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
  /** Pauses a key, or with null resumes it; takes effect like a revocation. False if there is no such key. */
  pauseKey(id: string, pause: KeyPause | null): Awaitable<boolean>
  /** The same for whoever is no operator. False as well for a key that an operator has paused meanwhile: that stays. */
  pauseOwnKey(id: string, pause: KeyPause | null): Awaitable<boolean>
  /** Changes the expiry of a key, for a rotation with overlap. */
  expireKey(id: string, at: number): Awaitable<boolean>
  /** Sets what the account has each month, picodollars; takes effect like a revocation. */
  setMonthlyCredit(id: string, amount: bigint): Awaitable<void>
  /** Refuses the account's calls; takes effect like a revocation. False for an unknown or deleted account. */
  suspend(id: string): Awaitable<boolean>
  resume(id: string): Awaitable<boolean>
  insertSession(session: Session): Awaitable<void>
  findSession(id: string): Awaitable<Session | undefined>
  listSessions(account: string): Awaitable<readonly Session[]>
  /** Effective at once here, after `heardWithinMs` in every other process. False if there is no such session. */
  revokeSession(id: string, at: number): Awaitable<boolean>
  /** How a member of a group calls with a key of it; undefined for whoever is none, or for a group that is gone. */
  findStanding(group: string, account: string): Awaitable<GroupStanding | undefined>
}

// Who makes a call, as known after authentication.

export interface Caller {
  readonly account: Account
  /** null for the app of a signed-in account. */
  readonly key: ApiKey | null
  /** Of a key that was made in a group; null for any other. */
  readonly standing: GroupStanding | null
  /** The id of the session that an app call is made in; null for a key's. */
  readonly session: string | null
  readonly channel: 'api' | 'app'
  /** Test keys are answered by the simulator and cost nothing. */
  readonly mode: 'live' | 'test'
}

/** The model of a search without a model's answer. It says nothing of its own, and its searches are what is paid. */
export const searchModel = 'sim/search:free'

/**
 * Whether the caller may use this model: the list of its key, and that of each group that the key stands in, contain the
 * id, or `<provider>/*`. Every key may search, with any of its models and so without one.
 */
export function mayUse({ key, standing }: Pick<Caller, 'key' | 'standing'>, modelId: string): boolean {
  if (!allows(key?.allowedModels ?? null, modelId)) return false
  return standing === null || standing.levels.every(({ allowedModels }) => allows(allowedModels, modelId))
}

/** Whether a list of ids and of patterns `<provider>/*` has a model; null has all. */
export function allows(models: readonly string[] | null, modelId: string): boolean {
  if (models === null || modelId === searchModel) return true
  const provider = modelId.slice(0, modelId.indexOf('/'))
  return models.includes(modelId) || models.includes(`${provider}/*`) || models.includes('*')
}

/** The caller of a route: of each list that names the route itself, all models. */
export function throughRoute(caller: Caller, route: string): Caller {
  if (!isLimited(caller)) return caller
  const open = (models: readonly string[] | null) => (allows(models, route) ? null : models)
  const { key, standing } = caller
  return {
    ...caller,
    key: key && { ...key, allowedModels: open(key.allowedModels) },
    standing: standing && {
      ...standing,
      levels: standing.levels.map((level) => ({ ...level, allowedModels: open(level.allowedModels) })),
    },
  }
}

/** Whose credit pays for the caller's calls: the account's own, or that of its key's group. */
export function payerOf({ account, standing }: Pick<Caller, 'account' | 'standing'>): string {
  return standing?.payer ?? account.id
}

/** Whether the caller's calls spend credit that the account has each month. */
export function hasMonthly({ account, mode, standing }: Caller): boolean {
  return account.monthlyCredit > 0n && mode === 'live' && !account.suspended && standing?.payer == null
}

/** The standing of a key in its group. Rejects with `api_key_revoked` where it has none any more. */
export async function standingOf(
  accounts: Pick<AccountStore, 'findStanding'>,
  key: ApiKey | null,
): Promise<GroupStanding | null> {
  if (key === null || key.group === null) return null
  const standing = await accounts.findStanding(key.group, key.account)
  if (standing === undefined) throw leftGroup(key)
  return standing
}

/** Whether models are named that the caller may use, and no others. */
export function isLimited({ key, standing }: Pick<Caller, 'key' | 'standing'>): boolean {
  return (
    key?.allowedModels != null ||
    standing?.levels.some(({ allowedModels }) => allowedModels !== null) === true
  )
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
export type CallerLookups = Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession' | 'findStanding'>

/** Why a key is refused now, or undefined. */
export function keyFault(
  { id, account, revokedAt, expiresAt, paused }: ApiKey,
  now: number,
): GatewayError | undefined {
  const credential = { account, key: id }
  if (revokedAt !== null && revokedAt <= now) return new GatewayError('api_key_revoked', { credential })
  if (expiresAt !== null && expiresAt <= now) return new GatewayError('api_key_expired', { credential })
  if (paused !== null) {
    const message = pausedBecause[paused.by]
    return new GatewayError(
      'api_key_paused',
      message === undefined ? { credential } : { message, credential },
    )
  }
  return undefined
}

const pausedBecause: Readonly<Partial<Record<KeyPause['by'], string>>> = {
  leak: 'This key is frozen: it was reported as leaked. Its owner replaces it, or resumes it in the console.',
  networks:
    'This key is frozen: it was used from too many networks within an hour. Its owner replaces it, or resumes it in the console.',
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

// Sessions of the app: `ws-weir-<id>-<secret><checksum>`, shown once, stored as a hash, valid until they end.

export interface Session {
  /** 12 characters, part of the token: used for lookup, while the comparison uses the hash. */
  readonly id: string
  readonly account: string
  /** SHA-256 of the whole token, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly revokedAt: number | null
  /** The browser's user agent; null for a session created on the command line. */
  readonly userAgent: string | null
  /** When it was last used, to the hour; null if never. */
  readonly seenAt: number | null
  /** How long it may be idle, milliseconds; null if it ends at `expiresAt` in any case. */
  readonly idleMs: number | null
  /** Until when its latest proof of identity is valid. */
  readonly elevatedUntil: number | null
}

const sessionForm = secretForm('ws-weir', [])

interface MintedSession extends Pick<Session, 'id' | 'hash' | 'lastFour'> {
  /** The text of the token: shown once, never stored. */
  readonly text: string
}

/** Generates a token from the system's random source. */
export function mintSession(): MintedSession {
  const { id, text } = mintSecret(sessionForm)
  return { id, text, hash: hashOfKey(text), lastFour: text.slice(-4) }
}

/** The id in a presented token; undefined if it is not a session token, or mistyped. */
export function sessionIdOf(text: string): string | undefined {
  const read = readSecret(sessionForm, text)
  return typeof read === 'string' ? undefined : read.id
}

// Encrypts secrets of accounts at rest: AES-256-GCM under the operator's master key, bound to their row.

export interface Sealer {
  /** `context` names the row; the secret cannot be opened in any other. */
  seal(text: string, context: string): Uint8Array
  /** undefined if it was sealed with a key that has been removed, for another row, or not by us. */
  open(sealed: Uint8Array, context: string): string | undefined
}

const format = 1
const idBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + idBytes + nonceBytes

interface MasterKey {
  readonly id: Buffer
  readonly key: Buffer
}

/** The first key seals; all of them open, so that keys can be rotated. Takes at least one. */
export function sealer(masterKeys: readonly string[]): Sealer {
  const keys = masterKeys.map(masterKey)
  const [first] = keys
  if (!first) throw new Error('there is no master key')
  return {
    seal(text, context) {
      const nonce = randomBytes(nonceBytes)
      const head = Buffer.concat([Buffer.of(format), first.id, nonce])
      const cipher = createCipheriv('aes-256-gcm', first.key, nonce)
      cipher.setAAD(boundTo(head, context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([head, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      if (bytes.length < headBytes + tagBytes || bytes[0] !== format) return undefined
      const head = bytes.subarray(0, headBytes)
      const known = keys.find(({ id }) => id.equals(head.subarray(1, 1 + idBytes)))
      if (!known) return undefined
      const decipher = createDecipheriv('aes-256-gcm', known.key, head.subarray(1 + idBytes))
      decipher.setAAD(boundTo(head, context))
      decipher.setAuthTag(bytes.subarray(headBytes, headBytes + tagBytes))
      try {
        return (
          decipher.update(bytes.subarray(headBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8')
        )
      } catch {
        return undefined
      }
    },
  }
}

function masterKey(text: string): MasterKey {
  const key = digest(`weir master key\0${text}`)
  return { key, id: digest(key).subarray(0, idBytes) }
}

function boundTo(head: Buffer, context: string): Buffer {
  return Buffer.concat([head, Buffer.from(context, 'utf8')])
}

function digest(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest()
}
