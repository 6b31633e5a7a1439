// Single sign-on by OpenID Connect: the browser is sent to the issuer and returns with a code, which is exchanged for
// an identity. The library is loaded, and the issuer contacted, with the first sign-in, so that a dead issuer does not
// prevent a start.

import type { Configuration, IDToken } from 'openid-client'
import { GatewayError } from '../../errors/errors.ts'
import type { Account, AccountStore, NewcomerAllowances, Role } from '../account.ts'
import type { GroupRole, GroupStore, Member } from '../group.ts'
import { accountAddress, isAddress } from './mail.ts'
import { type ActLog, type Identity, type IdentityStore, mintTicket, useTicket } from './identity-store.ts'

export interface OidcSettings {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly label: string
  /** What the issuer is asked for, beside `openid`. */
  readonly scopes: readonly string[]
  /** Whether addresses count as verified where the issuer does not say whether they are. */
  readonly assumeVerified: boolean
  /** Only verified addresses of these domains may open an account; all if empty. */
  readonly allowedDomains: readonly string[]
  readonly autoCreate: boolean
  /** `claim=value`, the claim by its name or its path; undefined if the issuer does not decide who is an operator. */
  readonly operatorClaim: string | undefined
  /** undefined if the issuer does not decide who is in which group. */
  readonly groups: OidcGroups | undefined
  /** Whether there is no other way to sign in. */
  readonly isAlone: boolean
}

/** Which groups people are in by what the issuer says of them. */
export interface OidcGroups {
  /** By its name or its path. */
  readonly claim: string
  readonly map: readonly {
    readonly value: string
    readonly group: string
    /** In the group; undefined for whichever role a member has. */
    readonly role: GroupRole | undefined
  }[]
}

export interface OidcParts {
  readonly settings: OidcSettings
  readonly accounts: AccountStore
  readonly identities: IdentityStore
  readonly acts: ActLog
  readonly groups: GroupStore
  /** Whether a directory has opened the account, or says something of it. */
  readonly isProvisioned: (account: string) => Promise<boolean>
  /** What accounts get that it opens. */
  readonly newcomers: NewcomerAllowances
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The redirect URI registered with the issuer. */
  readonly redirectUri: () => string
  /** Sends a request to the issuer. */
  readonly send: (address: string, options: RequestInit) => Promise<Response>
  /** Notes for the operator. */
  readonly note: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

/** Why a sign-in was refused, for the operator: what the issuer did not say, or which setting decided. */
export class SignOnRefusal extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'SignOnRefusal'
  }
}

/** Claims of one source. */
type Claims = Readonly<Record<string, unknown>>

/** What the issuer says of somebody: in the ID token, and at the UserInfo endpoint where that was asked. */
interface Person {
  readonly idToken: IDToken
  readonly userInfo: Claims | undefined
  /** False where UserInfo would have been asked and cannot be read: what is missing may stand there. */
  readonly isWhole: boolean
}

/** Timeout per request to the issuer. */
const timeoutSeconds = 10

export class Oidc {
  readonly #parts: OidcParts
  #issuer: Promise<Configuration> | undefined

  constructor(parts: OidcParts) {
    this.#parts = parts
  }

  get label(): string {
    return this.#parts.settings.label
  }

  get issuer(): string {
    return this.#parts.settings.issuer
  }

  /** Whether tokens of this issuer are those of the configured one, which may be written with a slash at its end. */
  isIssuer(issuer: string): boolean {
    const bare = (text: string) => text.replace(/\/$/, '')
    return bare(issuer) === bare(this.issuer)
  }

  /**
   * The address to send a browser to, and the state that it must bring back. `linkTo` is the account to link the
   * identity to; without one it signs in. Throws `overloaded` if the issuer cannot be reached.
   */
  async begin(linkTo: string | null): Promise<{ readonly url: string; readonly state: string }> {
    const { identities, now, redirectUri } = this.#parts
    const client = await import('openid-client')
    const issuer = await this.#configuration()
    const [verifier, nonce] = [client.randomPKCECodeVerifier(), client.randomNonce()]
    const { ticket, text: state } = mintTicket('oidc', linkTo, now(), { verifier, nonce })
    await identities.insertTicket(ticket)
    const url = client.buildAuthorizationUrl(issuer, {
      redirect_uri: redirectUri(),
      scope: scopesOf(this.#parts.settings).join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    })
    return { url: url.href, state }
  }

  /**
   * The account of a browser that returns with this query, and whether its identity was linked to that account now.
   * `state` is from the browser's cookie, `signedIn` the account of its session. Throws `invalid_ticket` for an unknown, used or expired state, `wrong_credentials` for a code that
   * the issuer rejects, `overloaded` if it cannot be reached, `identity_not_linked` and `sign_up_closed`.
   */
  async finish(
    query: URLSearchParams,
    state: string | undefined,
    signedIn: Account | undefined,
  ): Promise<{ readonly account: Account; readonly linked: boolean }> {
    const ticket =
      state === undefined || query.get('state') !== state
        ? undefined
        : await useTicket(this.#parts, state, 'oidc')
    if (!ticket || (ticket.account !== null && ticket.account !== signedIn?.id))
      throw new GatewayError('invalid_ticket')
    const { idToken, accessToken } = await this.#exchange(query, state!, ticket.data)
    const identity = { issuer: idToken.iss, subject: idToken.sub }
    const linked = ticket.account !== null
    const known = linked ? signedIn! : await this.#parts.identities.findIdentity(identity)
    const person = await this.#complete(idToken, accessToken, known)
    const account = linked
      ? await this.#link(identity, signedIn!)
      : (known ?? (await this.#openAccount(identity, person)))
    await this.#applyGroups(account, person)
    return { account: await this.#withRole(account, identity, person), linked }
  }

  /**
   * The claims, with those of UserInfo where the ID token lacks one that matters now: issuers may put them there alone
   * (OpenID Connect Core 5.4). Throws `wrong_credentials` if UserInfo is of another subject. Where it cannot be had, an
   * account that is known signs in with what the ID token says.
   */
  async #complete(idToken: IDToken, accessToken: string, known: Account | undefined): Promise<Person> {
    const { operatorClaim, groups } = this.#parts.settings
    const wanted = [
      ...(groups === undefined ? [] : [groups.claim]),
      ...(known ? [] : ['email', 'email_verified']),
      ...(operatorClaim === undefined || known?.role === 'operator' ? [] : [claimIn(operatorClaim).name]),
    ]
    if (wanted.every((name) => valueAt(idToken, name) !== undefined))
      return { idToken, userInfo: undefined, isWhole: true }
    const issuer = await this.#configuration()
    if (issuer.serverMetadata().userinfo_endpoint === undefined)
      return { idToken, userInfo: undefined, isWhole: true }
    const { fetchUserInfo } = await import('openid-client')
    try {
      const userInfo = await fetchUserInfo(issuer, accessToken, idToken.sub)
      return { idToken, userInfo, isWhole: true }
    } catch (error) {
      if (ofAnother.has(codeOf(error) ?? ''))
        throw refuse('wrong_credentials', 'UserInfo is not of the subject of the ID token')
      if (!known && isUnavailable(error)) throw unreachable(error)
      this.#parts.note('UserInfo of the single sign-on cannot be read', { missing: wanted, error })
      return { idToken, userInfo: undefined, isWhole: false }
    }
  }

  async #exchange(
    query: URLSearchParams,
    expectedState: string,
    { verifier, nonce }: Readonly<Record<string, string>>,
  ): Promise<{ readonly idToken: IDToken; readonly accessToken: string }> {
    const client = await import('openid-client')
    const issuer = await this.#configuration()
    const back = new URL(this.#parts.redirectUri())
    back.search = query.toString()
    const checks = {
      pkceCodeVerifier: verifier!,
      expectedNonce: nonce!,
      expectedState,
      idTokenExpected: true,
    }
    try {
      const tokens = await client.authorizationCodeGrant(issuer, back, checks)
      const idToken = tokens.claims()
      if (idToken) return { idToken, accessToken: tokens.access_token }
    } catch (cause) {
      throw isUnavailable(cause) ? unreachable(cause) : new GatewayError('wrong_credentials', { cause })
    }
    throw new GatewayError('wrong_credentials')
  }

  /** Only a signed-in account can be linked: an address at the issuer does not prove who owns the account. */
  async #link(identity: Identity, account: Account): Promise<Account> {
    const { identities, now } = this.#parts
    if (await identities.linkIdentity(identity, account.id, now())) return account
    if ((await identities.findIdentity(identity))?.id === account.id) return account
    throw new GatewayError('invalid_request', { message: 'This identity belongs to another account.' })
  }

  async #openAccount(identity: Identity, person: Person): Promise<Account> {
    const { accounts, identities, newcomers, now, settings } = this.#parts
    const email = provenAddress(person, settings)
    const there = await accounts.findAccount(email)
    if (there !== undefined && (await this.#awaitsOwner(there))) return this.#link(identity, there)
    if (there !== undefined)
      throw refuse('identity_not_linked', 'an account has this address and is not linked to this identity')
    const account = await accounts.createAccount(email, { allowances: newcomers })
    await identities.linkIdentity(identity, account.id, now())
    return account
  }

  /**
   * Whether an account was opened ahead for whoever the issuer says has its address: by a directory, or where there is no
   * other way to sign in; and nobody has ever been let in. Operators are let in by links.
   */
  async #awaitsOwner({ id, role }: Account): Promise<boolean> {
    const { identities, now, settings } = this.#parts
    if (role === 'operator' || !(settings.isAlone || (await this.#parts.isProvisioned(id)))) return false
    const { password, passkeys, identities: linked, sessions } = await identities.accessOf(id, now())
    return password + passkeys + linked + sessions === 0
  }

  /**
   * Makes the account a member of the groups that its claim names, and of no others of the map. Nothing is changed where
   * the claim could not be had.
   */
  async #applyGroups({ id: account }: Account, person: Person): Promise<void> {
    const { groups, note, now, settings } = this.#parts
    if (settings.groups === undefined) return
    const { claim, map } = settings.groups
    const said = valueOf(person, claim)
    if (said === undefined && !person.isWhole) return
    const values = new Set((Array.isArray(said) ? said : [said]).map(String))
    for (const group of new Set(map.map((entry) => entry.group))) {
      const entries = map.filter((entry) => entry.group === group)
      const own = entries.filter(({ value }) => values.has(value))
      const before = await groups.findMember(group, account)
      if (own.length === 0) {
        if (before && (await groups.removeMember(group, account)))
          await this.#recordMembership('group.remove_member', group, before, null)
        continue
      }
      if (!(await groups.findGroup(group))) {
        note('a group of accounts.oidc.groups.map is not there', { group })
        continue
      }
      const role = roleIn(entries, own, before?.role)
      const member = { group, account, role, budget: before?.budget ?? null, joinedAt: now() }
      if (before === undefined) {
        if (await groups.insertMember(member))
          await this.#recordMembership('group.add_member', group, null, member)
      } else if (before.role !== role) {
        const changed = await groups.changeMember(group, account, { role })
        if (changed) await this.#recordMembership('group.change_member', group, changed.before, changed.after)
      }
    }
  }

  async #recordMembership(what: string, group: string, before: Member | null, after: Member | null) {
    const { acts, now, settings } = this.#parts
    const rowOf = (member: Member | null) => member && { account: member.account, role: member.role }
    const act = { at: now(), operator: `oidc:${settings.issuer}`, what, subject: group }
    await acts.record({ ...act, before: rowOf(before), after: rowOf(after) })
  }

  /** Applies the issuer's operator claim on sign-in; only an act of an operator takes the role away. */
  async #withRole(account: Account, identity: Identity, person: Person): Promise<Account> {
    const { accounts, acts, identities, note, now, settings } = this.#parts
    if (account.role === 'operator' || settings.operatorClaim === undefined) return account
    const { name, value } = claimIn(settings.operatorClaim)
    const claim = valueOf(person, name)
    if (claim === undefined)
      note('a single sign-on makes no operator', {
        account: account.id,
        missing: `${name} (${placesSearched(person)})`,
      })
    if (Array.isArray(claim) ? !claim.includes(value) : claim !== value) return account
    const [before, after] = ['user', 'operator'].map((role) => ({ role: role as Role }))
    const act = { at: now(), operator: `oidc:${settings.issuer}`, what: 'account.role', subject: account.id }
    await acts.record({ ...act, before, after })
    await identities.setRole(account.id, 'operator', now(), identity)
    return (await accounts.findAccount(account.id))!
  }

  async #configuration(): Promise<Configuration> {
    this.#issuer ??= this.#discover()
    try {
      return await this.#issuer
    } catch (cause) {
      this.#issuer = undefined
      throw unreachable(cause)
    }
  }

  async #discover(): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#parts.settings
    const { allowInsecureRequests, customFetch, discovery, None } = await import('openid-client')
    const url = new URL(issuer)
    // The configuration allows http: only for an issuer on this machine.
    const execute = url.protocol === 'http:' ? [allowInsecureRequests] : []
    const authentication = clientSecret === undefined ? None() : undefined
    return discovery(url, clientId, clientSecret, authentication, {
      execute,
      timeout: timeoutSeconds,
      [customFetch]: this.#parts.send,
    })
  }
}

/** What the library says when the issuer has not decided: no answer in time, or one with another status or form. */
const undecided = new Set(['OAUTH_TIMEOUT', 'OAUTH_RESPONSE_IS_NOT_CONFORM'])

/** What the library says of a UserInfo that is of another subject, or of none. */
const ofAnother = new Set(['OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED', 'OAUTH_INVALID_RESPONSE'])

/** The library's errors have codes of its own; those of the network do not. */
function isUnavailable(cause: unknown): boolean {
  const code = codeOf(cause)
  return code === undefined || !code.startsWith('OAUTH_') || undecided.has(code)
}

function codeOf(cause: unknown): string | undefined {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined
}

function unreachable(cause: unknown): GatewayError {
  const message = 'The single sign-on cannot be reached.'
  return new GatewayError('overloaded', { message, cause, retryAfterMs: 5_000 })
}

function refuse(
  code: 'sign_up_closed' | 'identity_not_linked' | 'wrong_credentials',
  reason: string,
): GatewayError {
  return new GatewayError(code, { cause: new SignOnRefusal(reason) })
}

// ---- Claims ----------------------------------------------------------------------------------------------------

function scopesOf({ scopes }: OidcSettings): readonly string[] {
  return [...new Set(['openid', ...scopes])]
}

/**
 * The address of a new account. Throws `sign_up_closed` with the reason. The address and its proof are of one source:
 * what UserInfo calls verified is the address that it names itself.
 */
function provenAddress(person: Person, settings: OidcSettings): string {
  if (!settings.autoCreate) throw refuse('sign_up_closed', 'accounts.oidc.auto_create is off')
  const { idToken, userInfo } = person
  const written = valueOf(person, 'email')
  const lacks = (what: string) =>
    `${what} (${placesSearched(person)}, scopes ${scopesOf(settings).join(' ')})`
  if (typeof written !== 'string') throw refuse('sign_up_closed', lacks('there is no claim email'))
  const email = accountAddress(written)
  if (!isAddress(email)) throw refuse('sign_up_closed', 'the claim email is not an address')
  const proof = [idToken, userInfo].find(
    (claims) =>
      typeof claims?.['email'] === 'string' &&
      accountAddress(claims['email']) === email &&
      claims['email_verified'] !== undefined,
  )?.['email_verified']
  if (proof === undefined && !settings.assumeVerified)
    throw refuse(
      'sign_up_closed',
      `${lacks('there is no claim email_verified')}; accounts.oidc.assume_verified takes such addresses as verified`,
    )
  // Some issuers write it as text.
  if (proof !== undefined && proof !== true && !(typeof proof === 'string' && /^true$/i.test(proof)))
    throw refuse('sign_up_closed', 'email_verified is not true')
  const domain = email.slice(email.lastIndexOf('@') + 1)
  if (settings.allowedDomains.length > 0 && !settings.allowedDomains.includes(domain))
    throw refuse('sign_up_closed', `the domain ${domain} is not among accounts.oidc.allowed_domains`)
  return email
}

function placesSearched({ userInfo }: Person): string {
  return userInfo === undefined ? 'in the ID token; UserInfo was not had' : 'in the ID token or UserInfo'
}

function claimIn(written: string): { readonly name: string; readonly value: string } {
  const at = written.indexOf('=')
  return { name: written.slice(0, at), value: written.slice(at + 1) }
}

/** The role that the claim gives; where the map names none for the group, the one that the member has. */
function roleIn(
  entries: OidcGroups['map'],
  own: OidcGroups['map'],
  before: GroupRole | undefined,
): GroupRole {
  if (own.some(({ role }) => role === 'admin')) return 'admin'
  const isNamed = entries.some(({ role }) => role !== undefined)
  return isNamed ? 'member' : (before ?? 'member')
}

/** What the ID token says takes precedence. */
function valueOf({ idToken, userInfo }: Person, name: string): unknown {
  return valueAt(idToken, name) ?? (userInfo && valueAt(userInfo, name))
}

/** A claim by its name, which may have dots itself (`https://example.org/roles`), or by its path: `realm_access.roles`. */
function valueAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name] ?? undefined
  let value: unknown = claims
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Claims)[part]
  }
  return value ?? undefined
}
