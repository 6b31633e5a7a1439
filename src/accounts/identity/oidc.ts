// Single sign-on by OpenID Connect: the browser is sent to the issuer and returns with a code, which is exchanged for
// an identity. The library is loaded, and the issuer contacted, with the first sign-in, so that a dead issuer does not
// prevent a start.

import type { Configuration, IDToken } from 'openid-client'
import { GatewayError } from '../../errors.ts'
import type { Account, AccountStore, Role } from '../account.ts'
import { accountAddress, isAddress } from './address.ts'
import { useTicket } from './secret-link.ts'
import type { ActLog, Identity, IdentityStore } from './identity-store.ts'
import { mintTicket } from './ticket.ts'

export interface OidcSettings {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly label: string
  /** Only verified addresses of these domains may open an account; all if empty. */
  readonly allowedDomains: readonly string[]
  readonly autoCreate: boolean
  /** `claim=value`; undefined if the issuer does not decide who is an operator. */
  readonly operatorClaim: string | undefined
}

export interface OidcParts {
  readonly settings: OidcSettings
  readonly accounts: AccountStore
  readonly identities: IdentityStore
  readonly acts: ActLog
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The redirect URI registered with the issuer. */
  readonly redirectUri: () => string
  /** Sends a request to the issuer. */
  readonly send: (address: string, options: RequestInit) => Promise<Response>
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
    const issuer = await this.#discovered()
    const [verifier, nonce] = [client.randomPKCECodeVerifier(), client.randomNonce()]
    const { ticket, text: state } = mintTicket('oidc', linkTo, now(), { verifier, nonce })
    await identities.insertTicket(ticket)
    const url = client.buildAuthorizationUrl(issuer, {
      redirect_uri: redirectUri(),
      scope: 'openid email profile',
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
    const claims = await this.#exchanged(query, state!, ticket.data)
    const identity = { issuer: claims.iss, subject: claims.sub }
    const linked = ticket.account !== null
    const account = linked
      ? await this.#linked(identity, signedIn!)
      : ((await this.#parts.identities.findIdentity(identity)) ?? (await this.#opened(identity, claims)))
    return { account: await this.#withRole(account, identity, claims), linked }
  }

  async #exchanged(
    query: URLSearchParams,
    expectedState: string,
    { verifier, nonce }: Readonly<Record<string, string>>,
  ): Promise<IDToken> {
    const client = await import('openid-client')
    const issuer = await this.#discovered()
    const back = new URL(this.#parts.redirectUri())
    back.search = query.toString()
    const checks = {
      pkceCodeVerifier: verifier!,
      expectedNonce: nonce!,
      expectedState,
      idTokenExpected: true,
    }
    try {
      const claims = (await client.authorizationCodeGrant(issuer, back, checks)).claims()
      if (claims) return claims
    } catch (cause) {
      throw isUnavailable(cause) ? unreachable(cause) : new GatewayError('wrong_credentials', { cause })
    }
    throw new GatewayError('wrong_credentials')
  }

  /** Only a signed-in account can be linked: an address at the issuer does not prove who owns the account. */
  async #linked(identity: Identity, account: Account): Promise<Account> {
    const { identities, now } = this.#parts
    if (await identities.linkIdentity(identity, account.id, now())) return account
    if ((await identities.findIdentity(identity))?.id === account.id) return account
    throw new GatewayError('invalid_request', { message: 'This identity belongs to another account.' })
  }

  async #opened(identity: Identity, claims: IDToken): Promise<Account> {
    const { accounts, identities, now, settings } = this.#parts
    const email = typeof claims['email'] === 'string' ? accountAddress(claims['email']) : ''
    const domain = email.slice(email.lastIndexOf('@') + 1)
    const allowed = settings.allowedDomains.length === 0 || settings.allowedDomains.includes(domain)
    if (!settings.autoCreate || claims['email_verified'] !== true || !isAddress(email) || !allowed)
      throw new GatewayError('sign_up_closed')
    if (await accounts.findAccount(email)) throw new GatewayError('identity_not_linked')
    const account = await accounts.createAccount(email)
    await identities.linkIdentity(identity, account.id, now())
    return account
  }

  /** Applies the issuer's operator claim on sign-in; only an act of an operator takes the role away. */
  async #withRole(account: Account, identity: Identity, claims: IDToken): Promise<Account> {
    const { accounts, acts, identities, now, settings } = this.#parts
    if (account.role === 'operator' || !hasClaim(claims, settings.operatorClaim)) return account
    const [before, after] = ['user', 'operator'].map((role) => ({ role: role as Role }))
    const act = { at: now(), operator: `oidc:${settings.issuer}`, what: 'account.role', subject: account.id }
    await acts.record({ ...act, before, after })
    await identities.setRole(account.id, 'operator', now(), identity)
    return (await accounts.findAccount(account.id))!
  }

  async #discovered(): Promise<Configuration> {
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

/** The library's errors have codes of its own; those of the network do not. */
function isUnavailable(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
  return typeof code !== 'string' || !code.startsWith('OAUTH_') || undecided.has(code)
}

function unreachable(cause: unknown): GatewayError {
  const message = 'The single sign-on cannot be reached.'
  return new GatewayError('overloaded', { message, cause, retryAfterMs: 5_000 })
}

function hasClaim(claims: IDToken, wanted: string | undefined): boolean {
  if (wanted === undefined) return false
  const at = wanted.indexOf('=')
  const [name, value] = [wanted.slice(0, at), wanted.slice(at + 1)]
  const claim: unknown = claims[name]
  return Array.isArray(claim) ? claim.includes(value) : claim === value
}
