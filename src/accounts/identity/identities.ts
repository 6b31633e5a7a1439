// Accounts, sign-in, and every proof of identity. Independent of HTTP.

import { GatewayError } from '../../errors/errors.ts'
import {
  type Account,
  type AccountStore,
  hashOfKey,
  mintSession,
  type NewcomerAllowances,
  type Role,
  type Session,
} from '../account.ts'
import { accountAddress, type Mail, type Mailer, mails, requireAddress } from './mail.ts'
import type { SignInLimits } from './sign-in-limits.ts'
import {
  type IdentityStore,
  type LinkKind,
  mintTicket,
  newLink,
  type SecretLink,
  type Ticket,
  ticketIdOf,
  type TicketKind,
  useTicket,
} from './identity-store.ts'
import { passwordFault, type Passwords } from './password.ts'

/** How long a proof of identity is valid, milliseconds. */
export const elevationMs = 10 * 60_000

/** How people may sign in, beside the single sign-on. */
export interface SignInWays {
  readonly passwords: boolean
  readonly passkeys: boolean
}

export interface IdentityParts {
  readonly accounts: AccountStore
  readonly identities: IdentityStore
  readonly passwords: Passwords
  readonly attempts: SignInLimits
  readonly ways: SignInWays
  /** undefined without a configured mail server. */
  readonly mailer: Mailer | undefined
  readonly signUp: 'closed' | 'invite' | 'open'
  /** `deny` where addresses are to be proven. */
  readonly unverified: Proving['unverified']
  /** How long a session may be idle, milliseconds. */
  readonly sessionIdleMs: number
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The address of the console, without a trailing slash. */
  readonly consoleUrl: () => string
  /** The account may get its free credit from now on. */
  readonly admitted: (account: Account) => void
  /** Reports a failure in background work. */
  readonly failed: (message: string, error: unknown) => void
}

interface Proving {
  readonly identities: Pick<IdentityStore, 'accessOf' | 'lockOut'>
  readonly unverified: 'allow' | 'deny'
  readonly now: () => number
}

/** A new session and its token, which is shown once. */
export interface OpenedSession {
  readonly account: Account
  readonly session: Session
  readonly text: string
}

/** Where a sign-in comes from, for limits and the list of sessions. */
export interface Visitor {
  /** From `networkOf`. */
  readonly network: string
  readonly userAgent: string | null
}

export class Identities {
  readonly #parts: IdentityParts

  constructor(parts: IdentityParts) {
    this.#parts = parts
  }

  /** Throws `sign_in_closed` unless this gateway lets people in by passwords. */
  requirePasswords(): void {
    if (!this.#parts.ways.passwords) throw new GatewayError('sign_in_closed')
  }

  /** See `vouchFor` and `requireProven`. */
  vouchFor(account: Account): Promise<void> {
    return vouchFor(this.#parts, account)
  }

  requireProven(account: Account): Promise<void> {
    return requireProven(this.#parts, account)
  }

  /** Throws `sign_in_closed` unless links let the account in: operators always, lest nobody gets in. */
  requireLinks(account: Pick<Account, 'role'>): void {
    requireLinks(this.#parts.ways, account)
  }

  /** Which ways of signing in `accounts.sign_in` names. */
  get ways(): SignInWays {
    return this.#parts.ways
  }

  get signUpPolicy(): IdentityParts['signUp'] {
    return this.#parts.signUp
  }

  /** Whether this gateway sends mail. */
  get mails(): boolean {
    return this.#parts.mailer !== undefined
  }

  /**
   * Opens an account, or does nothing if the address has one: neither the answer nor its timing shows which. Throws
   * `sign_up_closed`, `invalid_request` for an invalid address or password, and `rate_limit_exceeded`.
   */
  async signUp(email: string, password: string, visitor: Visitor): Promise<void> {
    const { accounts, identities, attempts, passwords, now, signUp } = this.#parts
    if (signUp !== 'open' || !this.#parts.ways.passwords) throw new GatewayError('sign_up_closed')
    const address = requireAddress(email)
    await requirePassword(password, address)
    await attempts.signUp(visitor.network)
    const hash = await passwords.hash(password, visitor.network)
    if (await accounts.findAccount(address)) {
      // One durable write, like opening an account, so that both take the same time. The ticket is good for nothing.
      await identities.insertTicket(mintTicket('verification', null, now()).ticket)
      this.#mail(() => Promise.resolve(mails.known(address, this.#parts.consoleUrl())), address)
      return
    }
    const account = await this.#createUnlessTaken(address, hash)
    if (!account) return
    this.#parts.admitted(account)
    this.#mail(async () => {
      const { url } = await this.linkFor('verification', account)
      return mails.verification(address, url)
    }, address)
  }

  /**
   * The account that somebody adds to a group. Which addresses have an account is nothing to be tried out: throws
   * `invalid_request` for one that has none, and `rate_limit_exceeded` for too many of them. Throws like `requireProven`.
   */
  async accountToAdd({ id: asker }: Pick<Account, 'id'>, idOrEmail: string): Promise<Account> {
    const { accounts, attempts } = this.#parts
    const found = await accounts.findAccount(idOrEmail)
    if (found) {
      await this.requireProven(found)
      return found
    }
    await attempts.unknownAddress(asker)
    throw new GatewayError('invalid_request', { message: 'There is no such account.', param: 'account' })
  }

  /** With its password in one write: an account without one could not be signed in to, and its address is taken. */
  async #createUnlessTaken(address: string, password: string): Promise<Account | undefined> {
    try {
      return await this.#parts.accounts.createAccount(address, { verifiedAt: null, password })
    } catch (error) {
      // Another request created the same address first.
      if (error instanceof GatewayError && error.code === 'invalid_request') return undefined
      throw error
    }
  }

  /**
   * The account with this address and password. Throws `wrong_credentials` whichever of the two is wrong,
   * `rate_limit_exceeded`, and `account_suspended` only if the password is right.
   */
  async signIn(email: string, password: string, visitor: Visitor): Promise<OpenedSession> {
    this.requirePasswords()
    const account = await this.#parts.accounts.findAccount(accountAddress(email))
    const isAddressed = account?.email === accountAddress(email)
    await this.#prove(isAddressed ? account : undefined, accountAddress(email), password, visitor.network)
    return this.open(account!, visitor)
  }

  /** Throws `wrong_credentials` unless the password is the account's. */
  async #prove(
    account: Account | undefined,
    address: string,
    password: string,
    network: string,
  ): Promise<void> {
    const { attempts, identities, passwords } = this.#parts
    const attempt = await attempts.signIn(address, network)
    let matches: boolean
    try {
      const hash = account ? await identities.passwordOf(account.id) : null
      matches = await passwords.matches(password, hash, network)
    } catch (error) {
      await attempt.undo()
      throw error
    }
    if (!matches) throw new GatewayError('wrong_credentials')
    await attempt.succeed()
  }

  /**
   * Opens a session for somebody who has just proven who they are. Always a new one, so that an id planted before the
   * sign-in is useless. Throws `account_suspended`.
   */
  async open(account: Account, { userAgent }: Visitor): Promise<OpenedSession> {
    const { accounts, now, sessionIdleMs } = this.#parts
    const current = await accounts.findAccount(account.id)
    if (!current || current.suspended) throw new GatewayError('account_suspended')
    const { id, hash, lastFour, text } = mintSession()
    const at = now()
    const session: Session = {
      id,
      account: account.id,
      hash,
      lastFour,
      createdAt: at,
      expiresAt: at + sessionIdleMs,
      revokedAt: null,
      userAgent: userAgent?.slice(0, 300) ?? null,
      seenAt: at,
      idleMs: sessionIdleMs,
      elevatedUntil: at + elevationMs,
    }
    await accounts.insertSession(session)
    return { account: current, session, text }
  }

  /** Renews a session's proof of identity with the password. Throws like `signIn`. */
  async elevate(account: Account, session: Session, password: string, visitor: Visitor): Promise<void> {
    this.requirePasswords()
    await this.#prove(account, account.email, password, visitor.network)
    await this.requireElevated(session)
  }

  /** Renews a session's proof of identity after another proof. */
  async requireElevated(session: Session): Promise<void> {
    await this.#parts.identities.elevateSession(session.id, this.#parts.now() + elevationMs)
  }

  /**
   * Sets a new password; ends every session and opens a new one. Requires the old password, or for an account without
   * one a recent proof of identity. Throws `wrong_credentials`, `elevation_required` and `invalid_request`.
   */
  async changePassword(
    account: Account,
    session: Session,
    wanted: { readonly password: string; readonly current: string | undefined },
    visitor: Visitor,
  ): Promise<OpenedSession> {
    const { identities, passwords, now } = this.#parts
    this.requirePasswords()
    await requirePassword(wanted.password, account.email)
    if ((await identities.passwordOf(account.id)) !== null) {
      if (wanted.current === undefined)
        throw new GatewayError('invalid_request', { message: 'Name the current password.', param: 'current' })
      await this.#prove(account, account.email, wanted.current, visitor.network)
    } else if (!isElevated(session, now())) throw new GatewayError('elevation_required')
    await identities.setPassword(account.id, await passwords.hash(wanted.password, visitor.network), now())
    return this.open(account, visitor)
  }

  /** Sends a reset link if the address has an account; returns before the lookup. */
  requestReset(email: string): void {
    this.requirePasswords()
    const address = accountAddress(email)
    this.#mail(async () => {
      const account = await this.#parts.accounts.findAccount(address)
      if (account?.email !== address || account.suspended) return undefined
      const { url } = await this.linkFor('reset', account)
      return mails.reset(address, url)
    }, address)
  }

  /**
   * Sets a new password with a reset link, or with the link that proves an address for the first time, and signs in. Of
   * an account whose address nobody had proven, nothing goes on. Throws `invalid_ticket`, and like `changePassword`.
   */
  async confirmReset(token: string, password: string, visitor: Visitor): Promise<OpenedSession> {
    const { identities, passwords, now } = this.#parts
    this.requirePasswords()
    const known = (await this.#tryFind(token, 'reset')) ?? (await this.#find(token, 'verification'))
    const account = await this.#accountOf(known)
    if (known.kind === 'verification' && account.verifiedAt !== null) throw new GatewayError('invalid_ticket')
    // Checked before the link is used up, so that a refused password leaves it valid.
    await requirePassword(password, account.email)
    const hash = await passwords.hash(password, visitor.network)
    await this.#use(token, known.kind)
    await this.#confirmVouched(account)
    await identities.setPassword(account.id, hash, now())
    return this.open(account, visitor)
  }

  /**
   * Proves an address with the link that was mailed to it, for whoever is signed in to its account. Anybody else may be
   * its owner whom an impostor's account has been mailed for: false then, and the link stays valid, for a new password by
   * `confirmReset`. Throws `invalid_ticket`.
   */
  async verify(token: string, signedIn: Account | undefined): Promise<boolean> {
    const account = await this.#accountOf(await this.#find(token, 'verification'))
    if (signedIn?.id !== account.id) return false
    await this.#use(token, 'verification')
    await this.#parts.identities.verifyEmail(account.id, this.#parts.now())
    this.#parts.admitted((await this.#parts.accounts.findAccount(account.id))!)
    return true
  }

  /** Signs in with a link or an invitation. Throws `invalid_ticket`, `sign_in_closed` and `account_suspended`. */
  async follow(token: string, visitor: Visitor): Promise<OpenedSession> {
    const ticket = (await this.#tryUse(token, 'link')) ?? (await this.#use(token, 'invitation'))
    const account = await this.#accountOf(ticket)
    this.requireLinks(account)
    await this.#confirmVouched(account)
    return this.open(account, visitor)
  }

  /**
   * An address was proven for the first time, perhaps not by the person who opened the account with it: every earlier
   * way into the account is closed.
   */
  async #confirmVouched(account: Account): Promise<void> {
    if (account.verifiedAt !== null) return
    const { accounts, identities, admitted, now } = this.#parts
    await identities.lockOut(account.id, now())
    await identities.verifyEmail(account.id, now())
    admitted((await accounts.findAccount(account.id))!)
  }

  /** Creates a link for an account, replacing an older one of its kind. An invitation is mailed if possible. */
  async linkFor(kind: LinkKind, account: Account): Promise<SecretLink> {
    const { consoleUrl, identities, now } = this.#parts
    const link = await newLink(identities, {
      kind,
      account: account.id,
      consoleUrl: consoleUrl(),
      now: now(),
    })
    if (kind === 'invitation')
      this.#mail(() => Promise.resolve(mails.invitation(account.email, link.url)), account.email)
    return link
  }

  /** Throws `rate_limit_exceeded` if a network requests too many challenges. */
  async allowChallenge({ network }: Visitor): Promise<void> {
    await this.#parts.attempts.challenge(network)
  }

  /** Ends a session of the account. Throws `not_found` if it does not exist or belongs to another account. */
  async endSession(account: Account, id: string): Promise<void> {
    const { accounts, now } = this.#parts
    const session = await accounts.findSession(id)
    if (session?.account !== account.id || session.revokedAt !== null) throw new GatewayError('not_found')
    await accounts.revokeSession(id, now())
  }

  /** Deletes an account and every way into it; ledger entries stay. Throws `invalid_request` for the last operator. */
  async remove(account: Account): Promise<void> {
    const { identities, now } = this.#parts
    await identities.deleteAccount(account.id, now())
  }

  async #accountOf(ticket: Ticket): Promise<Account> {
    const account =
      ticket.account === null ? undefined : await this.#parts.accounts.findAccount(ticket.account)
    if (!account) throw new GatewayError('invalid_ticket')
    if (account.suspended) throw new GatewayError('account_suspended')
    return account
  }

  async #find(token: string, kind: TicketKind): Promise<Ticket> {
    const ticket = await this.#tryFind(token, kind)
    if (!ticket) throw new GatewayError('invalid_ticket')
    return ticket
  }

  async #tryFind(token: string, kind: TicketKind): Promise<Ticket | undefined> {
    const id = ticketIdOf(token)
    const { identities, now } = this.#parts
    return id === undefined ? undefined : identities.findTicket(id, hashOfKey(token), kind, now())
  }

  async #use(token: string, kind: TicketKind): Promise<Ticket> {
    const ticket = await this.#tryUse(token, kind)
    if (!ticket) throw new GatewayError('invalid_ticket')
    return ticket
  }

  #tryUse(token: string, kind: TicketKind): Promise<Ticket | undefined> {
    return useTicket(this.#parts, token, kind)
  }

  /** Sends a mail in the background: the time it takes would show whether there is an account. */
  #mail(make: () => Promise<Mail | undefined>, address: string): void {
    const { mailer, attempts, failed } = this.#parts
    if (!mailer) return
    const send = async () => {
      const mail = (await attempts.mail(address)) ? await make() : undefined
      if (mail) await mailer.send(mail)
    }
    setImmediate(() => {
      send().catch((error: unknown) => failed('a mail could not be sent', error))
    })
  }
}

/** Whether the session's proof of identity is still valid. */
export function isElevated({ elevatedUntil }: Session, now: number): boolean {
  return elevatedUntil !== null && elevatedUntil > now
}

/** Throws `sign_in_closed` unless links let the account in. */
export function requireLinks({ passwords, passkeys }: SignInWays, { role }: Pick<Account, 'role'>): void {
  if (!passwords && !passkeys && role !== 'operator') throw new GatewayError('sign_in_closed')
}

/** Whether somebody is in the account who has not proven that its address is theirs, where addresses are to be proven. */
async function isUnproven(
  { identities, unverified, now }: Proving,
  { id, role, verifiedAt }: Account,
): Promise<boolean> {
  if (unverified === 'allow' || verifiedAt !== null || role === 'operator') return false
  const { password, passkeys, identities: linked, sessions } = await identities.accessOf(id, now())
  return password + passkeys + linked + sessions > 0
}

/**
 * An operator, or a directory, is about to give something to whoever has the address of the account: somebody who is in it
 * without having proven that, is not from now on, and nothing of theirs works.
 */
export async function vouchFor(proving: Proving, account: Account): Promise<void> {
  if (await isUnproven(proving, account)) await proving.identities.lockOut(account.id, proving.now())
}

/** Throws `invalid_request` for an account that would have to be taken from whoever is in it: that takes an invitation. */
export async function requireProven(proving: Proving, account: Account): Promise<void> {
  if (!(await isUnproven(proving, account))) return
  throw new GatewayError('invalid_request', {
    message:
      'Whoever opened this account has not proven that its address is theirs: they follow the link that was mailed to them, or an operator invites the address.',
    param: 'account',
  })
}

/** Opens the account that an operator invites; the invitation is the only way into it. */
export async function invitedAccount(
  accounts: AccountStore,
  email: string,
  role: Role,
  allowances: NewcomerAllowances,
): Promise<Account> {
  const address = requireAddress(email)
  const there = await accounts.findAccount(address)
  if (there?.verifiedAt === null && there.role === role) return there
  return await accounts.createAccount(address, { role, verifiedAt: null, allowances })
}

async function requirePassword(password: string, email: string): Promise<void> {
  const message = await passwordFault(password, email)
  if (message !== undefined) throw new GatewayError('invalid_request', { message, param: 'password' })
}
