// What is kept of how people sign in. Results may be awaited: not every database answers at once.

import type { Awaitable } from '../../awaitable.ts'
import type { Account, Role } from '../account.ts'
import type { Session } from '../session.ts'
import type { Ticket, TicketKind } from './ticket.ts'

export interface Passkey {
  /** The credential id, base64url. */
  readonly id: string
  readonly account: string
  /** COSE. */
  readonly publicKey: Uint8Array<ArrayBuffer>
  /** Of signatures, as the authenticator counts them; 0 where it does not. */
  readonly counter: number
  readonly transports: readonly string[]
  readonly name: string
  /** Whether it is kept in more places than one device. */
  readonly backedUp: boolean
  readonly createdAt: number
  readonly lastUsedAt: number | null
}

/** An account as an OIDC issuer knows it. */
export interface Identity {
  readonly issuer: string
  readonly subject: string
}

export interface IdentityStore {
  /** The hash of an account's password; null without one. */
  passwordOf(account: string): Awaitable<string | null>
  /** Sets the password's hash and ends every session of the account. */
  setPassword(account: string, hash: string, at: number): Awaitable<void>
  /** The address is proven; one that was proven before stays so since then. */
  verifyEmail(account: string, at: number): Awaitable<void>
  setRole(account: string, role: Role): Awaitable<void>
  /**
   * Removes every way into an account: password, passkeys, identities, sessions and keys. Used when an address is
   * proven by somebody who may not have opened the account.
   */
  lockOut(account: string, at: number): Awaitable<void>
  /**
   * Like `lockOut`, and deletes the account: its address is free again and its conversations are deleted. Its ledger
   * entries stay.
   */
  deleteAccount(account: string, at: number): Awaitable<void>

  /** The session has been used: it was last seen `at` and now ends at `expiresAt`. */
  touchSession(id: string, at: number, expiresAt: number): Awaitable<void>
  elevateSession(id: string, until: number): Awaitable<void>
  /** Ends the sessions of an account, all but `except`. */
  endSessions(account: string, at: number, except?: string): Awaitable<void>
  /** Sessions that are neither ended nor expired, last used first. */
  openSessions(account: string, now: number): Awaitable<readonly Session[]>

  insertTicket(ticket: Ticket): Awaitable<void>
  /** A ticket that could be used now, and stays as it is. */
  findTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined>
  /** Uses a ticket up, if it is there, of this kind, in time and unused: of any number of callers one gets it. */
  useTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined>
  /** Makes the tickets of a kind that an account has useless: a newer one takes their place. */
  dropTickets(account: string, kind: TicketKind): Awaitable<void>

  /** False when the credential is registered already. */
  insertPasskey(passkey: Passkey): Awaitable<boolean>
  findPasskey(id: string): Awaitable<Passkey | undefined>
  listPasskeys(account: string): Awaitable<readonly Passkey[]>
  /** A signature was accepted; false when another with this counter came first, or the passkey is gone. */
  usedPasskey(id: string, before: number, counter: number, at: number): Awaitable<boolean>
  renamePasskey(account: string, id: string, name: string): Awaitable<boolean>
  deletePasskey(account: string, id: string): Awaitable<boolean>

  findIdentity(identity: Identity): Awaitable<Account | undefined>
  /** False when the identity is linked already, to whatever account. */
  linkIdentity(identity: Identity, account: string, at: number): Awaitable<boolean>
}

/** One thing that an operator did. */
export interface Act {
  readonly at: number
  /** The id of the operator's account, or `cli:<system user>`. */
  readonly operator: string
  /** Such as `account.suspend`. */
  readonly what: string
  /** What it was done to: an id. */
  readonly subject: string
  /** The state before and after as JSON values; null if there is none. */
  readonly before: unknown
  readonly after: unknown
}

export interface LoggedAct extends Act {
  /** Counts up: the order in which acts were recorded. */
  readonly seq: number
}

/** What operators did. Acts are only ever added. */
export interface ActLog {
  record(act: Act): Awaitable<void>
  /** The newest first, those with a smaller `seq` than `before`. */
  page(limit: number, before?: number): Awaitable<readonly LoggedAct[]>
}
