// OAuth for registered servers: authorisation by code with PKCE, and refreshed tokens. The library does the talking;
// what it wants kept is plain JSON, and every address that a server names is reached through the same door.

import type {
  AuthOptions,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { checkUrl } from '../../egress/destination.ts'
import { GatewayError } from '../../errors.ts'
import { Exchange, type McpEgress } from './exchange.ts'
import { faultOf } from './fault.ts'

/** What is kept of an authorisation. */
export interface OAuthKept {
  readonly client?: StoredOAuthClientInformation
  readonly tokens?: StoredOAuthTokens
  /** Which authorisation server they are of: an answer of another one is refused. */
  readonly discovery?: OAuthDiscoveryState
  /** When the tokens were given, milliseconds since 1970. */
  readonly tokensAt?: number
  /** An authorisation that somebody has begun. */
  readonly begun?: {
    readonly state: string
    readonly verifier: string
    /** Where the answer must come back to, as it was registered. */
    readonly redirectUrl: string
    /** Who must bring the answer back. */
    readonly session: string
    readonly at: number
  }
}

interface Told {
  readonly serverUrl: string
  readonly egress: McpEgress
  readonly now: () => number
}

/** How long somebody may take to allow it. */
const longestBegunMs = 10 * 60_000
/** A token that ends so soon is refreshed before it is used. */
const soonMs = 60_000
const longestExchangeMs = 30_000

/**
 * Begins an authorisation: gives where the user's browser has to go, and what to keep until it comes back. Rejects with
 * GatewayError: `url_not_allowed` for an address that may not be reached, `invalid_request` for a server that cannot be
 * authorised so.
 */
export async function beginAuthorization(
  told: Told,
  before: OAuthKept,
  asked: { readonly redirectUrl: string; readonly session: string; readonly state: string },
): Promise<{ readonly url: string; readonly kept: OAuthKept }> {
  const { redirectUrl, session, state } = asked
  // Where it is authorised is found out anew each time.
  const { discovery: _, ...known } = before
  const provider = new Provider(known, redirectUrl, state)
  const outcome = await authorised(told, provider, { forceReauthorization: true })
  const { target, verifier } = provider
  if (outcome !== 'REDIRECT' || target === undefined || verifier === undefined) {
    throw notAuthorised('the server asks for no authorisation')
  }
  const { href } = checkUrl(target.href, { allowHosts: told.egress.allowHosts, param: 'url' })
  const { client, discovery } = provider.kept
  const begun = { state, verifier, redirectUrl, session, at: told.now() }
  return { url: href, kept: { ...(client && { client }), ...(discovery && { discovery }), begun } }
}

/**
 * Ends an authorisation with what the browser has brought back. Rejects with GatewayError `invalid_request` for one that
 * was never begun, by another session, or too long ago, and for a code that the server refuses.
 */
export async function endAuthorization(
  told: Told,
  { begun, ...before }: OAuthKept,
  brought: { readonly state: string; readonly session: string; readonly code: string; readonly iss?: string },
): Promise<OAuthKept> {
  const { state, session, code, iss } = brought
  const isOwn = begun !== undefined && begun.state === state && begun.session === session
  if (!isOwn || told.now() - begun.at > longestBegunMs) {
    throw notAuthorised('no such authorisation has been begun here, or it was too long ago')
  }
  const provider = new Provider(before, begun.redirectUrl, state, begun.verifier)
  const options = { authorizationCode: code, ...(iss === undefined ? {} : { iss }) }
  if ((await authorised(told, provider, options)) !== 'AUTHORIZED')
    throw notAuthorised('the server gave no token')
  return { ...provider.kept, tokensAt: told.now() }
}

/** A token that can be used now, and what to keep where it is another one than before. Rejects with GatewayError. */
export async function freshToken(
  told: Told,
  before: OAuthKept,
): Promise<{ readonly token: string; readonly kept: OAuthKept | undefined }> {
  const { tokens, tokensAt = 0 } = before
  if (!tokens) throw notAuthorised('it has not been authorised yet')
  const { expires_in: seconds } = tokens
  const lasts = seconds === undefined || tokensAt + seconds * 1_000 - soonMs > told.now()
  if (lasts) return { token: tokens.access_token, kept: undefined }
  if (tokens.refresh_token === undefined) throw notAuthorised('its token has expired: authorise it again')
  const provider = new Provider(before, 'http://localhost/', '')
  const outcome = await authorised(told, provider, {})
  const fresh = provider.kept.tokens
  if (outcome !== 'AUTHORIZED' || !fresh) throw notAuthorised('its token has expired: authorise it again')
  return { token: fresh.access_token, kept: { ...provider.kept, tokensAt: told.now() } }
}

async function authorised(
  { serverUrl, egress }: Told,
  provider: Provider,
  options: Partial<AuthOptions>,
): Promise<'AUTHORIZED' | 'REDIRECT'> {
  const { auth } = await import('@modelcontextprotocol/client')
  const exchange = new Exchange(egress)
  const late = setTimeout(() => exchange.abandon(faultOf(new Error('it took too long'))), longestExchangeMs)
  try {
    return await auth(provider, { serverUrl, fetchFn: exchange.fetchFor({ streams: true }), ...options })
  } catch (error) {
    const fault = faultOf(error)
    const refused = exchange.refusal ?? fault.cause
    if (refused instanceof GatewayError && refused.code === 'url_not_allowed') throw refused
    throw notAuthorised(fault.message, error)
  } finally {
    clearTimeout(late)
    await exchange.end(0)
  }
}

function notAuthorised(why: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The MCP server could not be authorised: ${why}.`,
    cause,
  })
}

/** The library's view of what is kept. */
class Provider implements OAuthClientProvider {
  kept: {
    client?: StoredOAuthClientInformation
    tokens?: StoredOAuthTokens
    discovery?: OAuthDiscoveryState
  }
  target: URL | undefined
  verifier: string | undefined
  readonly #redirectUrl: string
  readonly #state: string

  constructor(
    { client, tokens, discovery }: OAuthKept,
    redirectUrl: string,
    state: string,
    verifier?: string,
  ) {
    this.kept = { ...(client && { client }), ...(tokens && { tokens }), ...(discovery && { discovery }) }
    this.#redirectUrl = redirectUrl
    this.#state = state
    this.verifier = verifier
  }

  get redirectUrl(): string {
    return this.#redirectUrl
  }

  get clientMetadata() {
    return {
      client_name: 'Weir',
      redirect_uris: [this.#redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    }
  }

  state(): string {
    return this.#state
  }

  clientInformation(): StoredOAuthClientInformation | undefined {
    return this.kept.client
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.kept.client = client
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.kept.tokens
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    // A server may leave out a refresh token that stays good.
    const { refresh_token } = this.kept.tokens ?? {}
    this.kept.tokens = { ...(refresh_token === undefined ? {} : { refresh_token }), ...tokens }
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.kept.discovery
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.kept.discovery = discovery
  }

  redirectToAuthorization(target: URL): void {
    this.target = target
  }

  saveCodeVerifier(verifier: string): void {
    this.verifier = verifier
  }

  codeVerifier(): string {
    return this.verifier ?? ''
  }

  invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    if (scope === 'all' || scope === 'tokens') delete this.kept.tokens
    if (scope === 'all' || scope === 'client') delete this.kept.client
    if (scope === 'all' || scope === 'discovery') delete this.kept.discovery
  }
}
