// The interface of the store for sign-in data. Results may be promises, because not every database answers
// synchronously.

import type { Awaitable } from '../../async/async.ts'
import {
  type Account,
  hashOfKey,
  mintSecret,
  readSecret,
  type Role,
  secretForm,
  type Session,
} from '../account.ts'

export interface Passkey {
  /** The credential id, base64url. */
  readonly id: string
  readonly account: string
  /** COSE. */
  readonly publicKey: Uint8Array<ArrayBuffer>
  /** Number of signatures by the authenticator's count; 0 if it does not count. */
  readonly counter: number
  readonly transports: readonly string[]
  readonly name: string
  /** Whether it is synchronised beyond one device. */
  readonly backedUp: boolean
  readonly createdAt: number
  readonly lastUsedAt: number | null
}

/** An account's identity at an OIDC issuer. */
export interface Identity {
  readonly issuer: string
  readonly subject: string
}

export interface LinkedIdentity extends Identity {
  readonly linkedAt: number
}

/** What an account can be signed in to with, besides its password. */
export interface UsableWays {
  readonly passwords: boolean
  /** Whether this gateway can check passkeys. */
  readonly passkeys: boolean
  /** The issuer of the single sign-on; undefined without one. */
  readonly issuer: string | undefined
}

export interface IdentityStore {
  /** Gives an account another address. Throws GatewayError `invalid_request` where that has an account. */
  changeAddress(account: string, email: string): Awaitable<void>
  /** The hash of an account's password; null without one. */
  passwordOf(account: string): Awaitable<string | null>
  /** Ends what `endedBy` says of a new password. */
  setPassword(account: string, hash: string, at: number): Awaitable<void>
  /** Marks the address as proven; keeps the time of the first proof. */
  verifyEmail(account: string, at: number): Awaitable<void>
  /**
   * For the last operator, too: a command on the machine can appoint another. An account that becomes an operator loses
   * every earlier way in but the identity `proven`: whoever had got into it while it was a user's would act as an
   * operator. See `endedBy`. False if it has the role already.
   */
  setRole(account: string, role: Role, at: number, proven?: Identity): Awaitable<boolean>
  /**
   * Makes an account a user. Throws `invalid_request` for the last operator who is not suspended, also when operators
   * demote, suspend or delete each other in the same moment: nobody could appoint another in the console.
   */
  demote(account: string, at: number): Awaitable<void>
  /** Like `AccountStore.suspend`; throws like `demote`. */
  suspend(account: string): Awaitable<boolean>
  /**
   * Removes everything that lets somebody into an account or acts for it. Used when its address is proven by somebody
   * who may not have opened the account.
   */
  lockOut(account: string, at: number): Awaitable<void>
  /** Like `lockOut`, and frees the address of the account; its ledger entries stay. Throws like `demote`. */
  deleteAccount(account: string, at: number): Awaitable<void>
  /** What lets somebody into an account or acts for it, as it is now. */
  accessOf(account: string, now: number): Awaitable<Access>

  /** Records a use of the session at `at`, after which it ends at `expiresAt`. */
  touchSession(id: string, at: number, expiresAt: number): Awaitable<void>
  elevateSession(id: string, until: number): Awaitable<void>
  /** Ends all sessions of an account except `except`. */
  endSessions(account: string, at: number, except?: string): Awaitable<void>
  /** Sessions that are neither ended nor expired, last used first. */
  openSessions(account: string, now: number): Awaitable<readonly Session[]>

  insertTicket(ticket: Ticket): Awaitable<void>
  /** A valid ticket, without using it up. */
  findTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined>
  /** Uses up a ticket if it is of this kind, valid and unused; of several concurrent callers one gets it. */
  useTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined>
  /** Voids an account's tickets of a kind, because a newer one replaces them. */
  dropTickets(account: string, kind: TicketKind): Awaitable<void>

  /** False if the credential is registered already. */
  insertPasskey(passkey: Passkey): Awaitable<boolean>
  findPasskey(id: string): Awaitable<Passkey | undefined>
  listPasskeys(account: string): Awaitable<readonly Passkey[]>
  /** Records an accepted signature; false if another with this counter came first, or the passkey was removed. */
  usedPasskey(id: string, before: number, counter: number, at: number): Awaitable<boolean>
  renamePasskey(account: string, id: string, name: string): Awaitable<boolean>
  /**
   * False if the account has no such passkey. Throws `invalid_request` if the account could not be signed in to without
   * it, also when several ways in are removed in the same moment.
   */
  deletePasskey(account: string, id: string, usable: UsableWays): Awaitable<boolean>

  findIdentity(identity: Identity): Awaitable<Account | undefined>
  /** False if the identity is linked to an account already. */
  linkIdentity(identity: Identity, account: string, at: number): Awaitable<boolean>
  /** The identities of an account, oldest link first. */
  listIdentities(account: string): Awaitable<readonly LinkedIdentity[]>
  /** Unlinks an identity; false if the account has no such. Throws like `deletePasskey`. */
  unlinkIdentity(identity: Identity, account: string, usable: UsableWays): Awaitable<boolean>
}

/** One thing that an operator did. */
export interface Act {
  readonly at: number
  /** The id of the operator's account, or `cli:<system user>`. */
  readonly operator: string
  /** Such as `account.suspend`. */
  readonly what: string
  /** The id of what it was done to. */
  readonly subject: string
  /** The state before and after as JSON values; null if there is none. */
  readonly before: unknown
  readonly after: unknown
}

export interface LoggedAct extends Act {
  /** Increasing, in the order of recording. */
  readonly seq: number
}

/** The log of operators' acts, append-only. */
export interface ActLog {
  record(act: Act): Awaitable<void>
  /** Acts with a `seq` below `before`, newest first. */
  page(limit: number, before?: number, filter?: ActFilter): Awaitable<readonly LoggedAct[]>
}

/** Only acts that all of these hold of. */
export interface ActFilter {
  /** As it is logged: the id of an account, or `cli:` and a user of the system. */
  readonly operator?: string | undefined
  /** A kind of act such as `key.revoke`, or its beginning: `key`. */
  readonly what?: string | undefined
  readonly subject?: string | undefined
  /** Milliseconds since 1970, half open. */
  readonly from?: number | undefined
  readonly until?: number | undefined
}

// Single-use secrets: `wt-weir-<id>-<secret><checksum>`. Used for links, invitations, resets and the like.

export type TicketKind =
  /** Signs in: printed by the operator's command, or on the first run. */
  | 'link'
  /** Signs in for the first time and proves the address. */
  | 'invitation'
  /** Proves an address by mail. */
  | 'verification'
  /** Sets a new password. */
  | 'reset'
  /** What an authenticator signs. */
  | 'webauthn'
  /** Brings a browser back from an OIDC issuer. */
  | 'oidc'

const minute = 60_000

/** How long each kind is valid, milliseconds. */
export const ticketLife: Readonly<Record<TicketKind, number>> = {
  link: 15 * minute,
  invitation: 7 * 24 * 60 * minute,
  verification: 24 * 60 * minute,
  reset: 60 * minute,
  webauthn: 5 * minute,
  oidc: 10 * minute,
}

export interface Ticket {
  readonly id: string
  /** SHA-256 of the whole text, hex. */
  readonly hash: string
  readonly kind: TicketKind
  /** null if the account is not known yet. */
  readonly account: string | null
  /** Data of the kind: plain text values. */
  readonly data: Readonly<Record<string, string>>
  readonly createdAt: number
  readonly expiresAt: number
}

const form = secretForm('wt-weir', [])

/** A new ticket and its text, which is shown once. `now` in milliseconds since 1970. */
export function mintTicket(
  kind: TicketKind,
  account: string | null,
  now: number,
  data: Ticket['data'] = {},
): { readonly ticket: Ticket; readonly text: string } {
  const { id, text } = mintSecret(form)
  const times = { createdAt: now, expiresAt: now + ticketLife[kind] }
  return { ticket: { id, hash: hashOfKey(text), kind, account, data, ...times }, text }
}

/** The id in a presented text; undefined if it is not a ticket, or mistyped. */
export function ticketIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}

// What lets somebody into an account or acts for it, and what each change of hands ends of it. Whoever was in the account
// before may have left any of these behind.

/** The single list. Everything else with the id of an account is a record of what happened. */
export const accessKinds = [
  'password',
  'passkeys',
  'identities',
  'sessions',
  'links',
  'keys',
  'management_keys',
  'webhooks',
  'mcp_servers',
  'conversations',
] as const

export type AccessKind = (typeof accessKinds)[number]

/** How many there are of each that work now. */
export type Access = Readonly<Record<AccessKind, number>>

/** A change after which somebody who was in the account may be a stranger to it. */
export type ChangeOfHands = 'taken-over' | 'deleted' | 'promoted' | 'demoted' | 'password-set'

/** What of the list ends with each. The rest goes on, and is shown to whoever has made the change. */
export const endedBy: Readonly<Record<ChangeOfHands, readonly AccessKind[]>> = {
  // Its address was proven by somebody who may not have opened it: nothing in it is theirs.
  'taken-over': accessKinds,
  deleted: accessKinds,
  // What signs in would act as an operator. What calls models, or is told of the account, does as before.
  promoted: ['password', 'passkeys', 'identities', 'sessions', 'links', 'management_keys'],
  // They would work again if the account became an operator once more.
  demoted: ['management_keys'],
  // By its owner, who may have lost a device, or somebody's trust: other devices and programs go on.
  'password-set': ['sessions', 'links'],
}

// Links with a secret: sign-in, invitation, verification of an address, new password.

export interface SecretLink {
  /** The secret is in the fragment, which browsers do not send. */
  readonly url: string
  readonly expiresAt: number
}

/** The console page of each kind of link. */
const pages = { link: 'link', invitation: 'link', verification: 'verify', reset: 'reset' } as const
export type LinkKind = keyof typeof pages

/** Creates the ticket of a link, and voids any older one of its kind. `consoleUrl` has no trailing slash. */
export async function newLink(
  identities: Pick<IdentityStore, 'dropTickets' | 'insertTicket'>,
  wanted: {
    readonly kind: LinkKind
    readonly account: string
    readonly consoleUrl: string
    readonly now: number
  },
): Promise<SecretLink> {
  const { kind, account, consoleUrl, now } = wanted
  const { ticket, text } = mintTicket(kind, account, now)
  await identities.dropTickets(account, kind)
  await identities.insertTicket(ticket)
  return { url: `${consoleUrl}/${pages[kind]}#${text}`, expiresAt: ticket.expiresAt }
}

/** Uses up a ticket by its text; undefined if it is unknown, of another kind, expired or used. */
export async function useTicket(
  { identities, now }: { readonly identities: Pick<IdentityStore, 'useTicket'>; readonly now: () => number },
  token: string,
  kind: TicketKind,
): Promise<Ticket | undefined> {
  const id = ticketIdOf(token)
  return id === undefined ? undefined : identities.useTicket(id, hashOfKey(token), kind, now())
}

// What a directory that provisions accounts and groups (SCIM) says of them.

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
