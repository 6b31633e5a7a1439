// Passkeys: registered by a signed-in account, then used to sign in without name or password. The WebAuthn library is
// loaded with the first use.

import ipaddr from 'ipaddr.js'
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { GatewayError } from '../../errors/errors.ts'
import type { Account, AccountStore } from '../account.ts'
import {
  type IdentityStore,
  mintTicket,
  type Passkey,
  type Ticket,
  ticketLife,
  useTicket,
} from './identity-store.ts'

export interface PasskeyParts {
  readonly accounts: AccountStore
  readonly identities: IdentityStore
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Whether `accounts.sign_in` names them. */
  readonly allowed: boolean
  /** The gateway's address in browsers: passkeys belong to its host name. */
  readonly url: () => string
  readonly origins: () => ReadonlySet<string>
}

const load = () => import('@simplewebauthn/server')

/** Limit per account. */
const mostPasskeys = 50

export class Passkeys {
  readonly #parts: PasskeyParts

  constructor(parts: PasskeyParts) {
    this.#parts = parts
  }

  /** Browsers support passkeys only for host names, not IP addresses. */
  get available(): boolean {
    return this.#parts.allowed && !ipaddr.isValid(this.#host().replace(/^\[|\]$/g, ''))
  }

  #host(): string {
    return new URL(this.#parts.url()).hostname
  }

  /** What a browser needs to register a passkey of the account. */
  async creationOptions(account: Account): Promise<PublicKeyCredentialCreationOptionsJSON> {
    const { identities } = this.#parts
    const known = await identities.listPasskeys(account.id)
    if (known.length >= mostPasskeys) throw invalid(`An account has at most ${mostPasskeys} passkeys.`)
    const { generateRegistrationOptions } = await load()
    return generateRegistrationOptions({
      rpName: 'Weir',
      rpID: this.#requireName(),
      userName: account.email,
      userID: new TextEncoder().encode(account.id),
      challenge: await this.#challenge('register', account.id),
      timeout: ticketLife.webauthn,
      attestationType: 'none',
      excludeCredentials: known.map(({ id }) => ({ id })),
      // It replaces name and password, so it must be discoverable and verify its user.
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    })
  }

  /** Stores the passkey that a browser created. Throws `invalid_request`. */
  async register(account: Account, response: unknown, name: string): Promise<Passkey> {
    const { identities, now, origins } = this.#parts
    const { verifyRegistrationResponse } = await load()
    const { registrationInfo } = await answerOf(
      () =>
        verifyRegistrationResponse({
          response: response as RegistrationResponseJSON,
          expectedChallenge: (challenge) => this.#answers(challenge, 'register', account.id),
          expectedOrigin: [...origins()],
          expectedRPID: this.#requireName(),
        }),
      () => invalid('This is no passkey that was asked for a moment ago.', 'response'),
    )
    if (!registrationInfo) throw invalid('The passkey could not be verified.', 'response')
    const { credential, credentialBackedUp } = registrationInfo
    const passkey: Passkey = {
      id: credential.id,
      account: account.id,
      publicKey: credential.publicKey,
      counter: credential.counter,
      transports: credential.transports ?? [],
      name,
      backedUp: credentialBackedUp,
      createdAt: now(),
      lastUsedAt: null,
    }
    if (!(await identities.insertPasskey(passkey)))
      throw invalid('This passkey is registered already.', 'response')
    return passkey
  }

  /** What a browser needs to find a passkey. */
  async requestOptions(): Promise<PublicKeyCredentialRequestOptionsJSON> {
    const { generateAuthenticationOptions } = await load()
    return generateAuthenticationOptions({
      rpID: this.#requireName(),
      challenge: await this.#challenge('prove', null),
      timeout: ticketLife.webauthn,
      userVerification: 'required',
    })
  }

  /** The account whose passkey signed our challenge. Throws `wrong_credentials`. */
  async prove(response: unknown): Promise<Account> {
    const { accounts, identities, now, origins } = this.#parts
    const signed = response as AuthenticationResponseJSON
    const passkey = typeof signed.id === 'string' ? await identities.findPasskey(signed.id) : undefined
    const account = passkey && (await accounts.findAccount(passkey.account))
    if (!passkey || !account) throw new GatewayError('wrong_credentials')
    const { verifyAuthenticationResponse } = await load()
    const { verified, authenticationInfo } = await answerOf(
      () =>
        verifyAuthenticationResponse({
          response: signed,
          expectedChallenge: (challenge) => this.#answers(challenge, 'prove', null),
          expectedOrigin: [...origins()],
          expectedRPID: this.#requireName(),
          credential: { id: passkey.id, publicKey: passkey.publicKey, counter: passkey.counter },
        }),
      (cause) => new GatewayError('wrong_credentials', { cause }),
    )
    const { newCounter } = authenticationInfo
    if (!verified || !(await identities.usedPasskey(passkey.id, passkey.counter, newCounter, now())))
      throw new GatewayError('wrong_credentials')
    return account
  }

  /** The challenge is a ticket: it comes back with the response, and works once. */
  async #challenge(act: 'register' | 'prove', account: string | null): Promise<string> {
    const { identities, now } = this.#parts
    const { ticket, text } = mintTicket('webauthn', account, now(), { act })
    await identities.insertTicket(ticket)
    return text
  }

  async #answers(challenge: string, act: string, account: string | null): Promise<boolean> {
    const text = Buffer.from(challenge, 'base64url').toString()
    const ticket: Ticket | undefined = await useTicket(this.#parts, text, 'webauthn')
    return ticket !== undefined && ticket.data['act'] === act && ticket.account === account
  }

  #requireName(): string {
    if (this.available) return this.#host()
    throw invalid('Passkeys need a host name: set server.public_url, or open the console by its name.')
  }
}

/** Runs the library on a response: its errors are the client's fault, ours are passed on. */
async function answerOf<T>(verify: () => Promise<T>, refusal: (cause: unknown) => GatewayError): Promise<T> {
  try {
    return await verify()
  } catch (cause) {
    throw cause instanceof GatewayError ? cause : refusal(cause)
  }
}

function invalid(message: string, param?: string): GatewayError {
  return new GatewayError('invalid_request', { message, ...(param === undefined ? {} : { param }) })
}
