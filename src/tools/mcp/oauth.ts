// OAuth for registered servers: authorisation codes with PKCE, and token refresh. The library speaks the protocol, its
// state is stored as JSON, and every address that a server names is reached through the egress guard.

import type {
  AuthOptions,
  OAuthClientInformationContext,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { checkUrl } from '../../egress/destination.ts'
import { GatewayError } from '../../errors/errors.ts'
import { type Challenge, Exchange, faultOf, McpConnection, type McpEgress, McpFault } from './connection.ts'

interface Authorized {
  readonly serverUrl: string
  readonly egress: McpEgress
  readonly now: () => number
}

/** How long a person may take to approve. */
const longestBegunMs = 10 * 60_000
/** A token that expires this soon is refreshed before use. */
const soonMs = 60_000
const longestExchangeMs = 30_000
const longestProbeMs = 10_000

/**
 * Begins an authorisation: gives where the user's browser has to go, and what to keep until it comes back, beside what
 * is kept already. `headers` are what the server is sent with every request, without a token. Rejects with GatewayError: `url_not_allowed` for an
 * address that may not be reached, `invalid_request` for a server that cannot be authorised so.
 */
export async function beginAuthorization(
  server: Authorized & { readonly headers: Headers },
  before: OAuthKept,
  asked: {
    readonly redirectUrl: string
    readonly session: string
    readonly state: string
    readonly clientMetadataUrl?: string | undefined
  },
): Promise<{ readonly url: string; readonly kept: Pick<OAuthKept, 'given' | 'begun'> }> {
  const { redirectUrl, session, state } = asked
  const wanted = await wantedOf(server, before)
  // The authorisation server is discovered anew each time.
  const { discovery: _, begun: _begun, ...known } = before
  const client = new StoredClient(known, asked)
  const outcome = await authorise(server, client, { forceReauthorization: true, ...wanted })
  const { target, verifier } = client
  if (outcome !== 'REDIRECT' || target === undefined || verifier === undefined) {
    throw notAuthorised('the server asks for no authorisation')
  }
  const { href } = checkUrl(target.href, { allowHosts: server.egress.allowHosts, param: 'url' })
  const { given, client: registered, discovery } = client.kept
  const begun = {
    state,
    verifier,
    redirectUrl,
    session,
    at: server.now(),
    ...(registered && { client: registered }),
    ...(discovery && { discovery }),
  }
  return { url: href, kept: { ...(given && { given }), begun } }
}

/**
 * Completes an authorisation with the browser's answer. Rejects with GatewayError `invalid_request` for one that was
 * not begun, by another session or too long ago, and for a code that the server refuses.
 */
export async function endAuthorization(
  server: Authorized,
  { begun, given }: OAuthKept,
  callback: {
    readonly state: string
    readonly session: string
    readonly code: string
    readonly iss?: string
  },
): Promise<OAuthKept> {
  const { state, session, code, iss } = callback
  const isOwn = begun !== undefined && begun.state === state && begun.session === session
  if (!isOwn || server.now() - begun.at > longestBegunMs) {
    throw notAuthorised('no such authorisation has been begun here, or it was too long ago')
  }
  const client = new StoredClient({ ...begun, ...(given && { given }) }, begun)
  const options = { authorizationCode: code, ...(iss === undefined ? {} : { iss }) }
  if ((await authorise(server, client, options)) !== 'AUTHORIZED')
    throw notAuthorised('the server gave no token')
  return { ...client.kept, tokensAt: server.now() }
}

/** A valid token, and the new state but for a begun authorisation if it changed. Rejects with GatewayError. */
export async function freshToken(
  server: Authorized,
  before: OAuthKept,
): Promise<{ readonly token: string; readonly kept: OAuthKept | undefined }> {
  const { tokens, challenge } = before
  if (!tokens) throw notAuthorised('it has not been authorised yet')
  if (!needsRefresh(before, server.now())) return { token: tokens.access_token, kept: undefined }
  if (tokens.refresh_token === undefined) throw notAuthorised('its token has expired: authorise it again')
  const client = new StoredClient(before, { redirectUrl: 'http://localhost/', state: '' })
  const outcome = await authorise(server, client, {})
  const fresh = client.kept.tokens
  if (outcome !== 'AUTHORIZED' || !fresh) throw notAuthorised('its token has expired: authorise it again')
  // A refresh does not extend the scope: what was missing is still missing.
  const lacking = challenge?.status === 403 ? { challenge } : {}
  const kept = { ...client.kept, tokensAt: server.now(), ...lacking }
  return { token: fresh.access_token, kept }
}

/** Whether the token has ended or is about to, at `now`. */
export function needsRefresh({ tokens, tokensAt = 0, challenge }: OAuthKept, now: number): boolean {
  const { expires_in: seconds, refresh_token: next } = tokens ?? {}
  // Not every server says how long its tokens last; some just refuse them one day.
  if (challenge?.status === 401 && next !== undefined) return true
  return seconds !== undefined && tokensAt + seconds * 1_000 - soonMs <= now
}

/** The server's own requirements: it refuses a request without a token, and says how to get one. */
async function wantedOf(
  { serverUrl, egress, headers }: Authorized & { readonly headers: Headers },
  { tokens, challenge: lacking }: OAuthKept,
): Promise<Partial<AuthOptions>> {
  const { computeScopeUnion, extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client')
  const first = await challengeOf({ url: serverUrl, headers }, egress)
  const read = ({ status, header }: Challenge) =>
    extractWWWAuthenticateParams(new Response(null, { status, headers: { 'www-authenticate': header } }))
  const asked = first && read(first)
  const missing = lacking && lacking.status === 403 ? read(lacking) : undefined
  const scope = missing
    ? computeScopeUnion(asked?.scope, tokens?.scope, missing.scope)
    : computeScopeUnion(asked?.scope)
  const resourceMetadataUrl = asked?.resourceMetadataUrl ?? missing?.resourceMetadataUrl
  return {
    ...(scope !== undefined && { scope }),
    ...(resourceMetadataUrl && { resourceMetadataUrl }),
  }
}

async function challengeOf(
  server: { readonly url: string; readonly headers: Headers },
  egress: McpEgress,
): Promise<Challenge | undefined> {
  let challenge: Challenge | undefined
  const onChallenge = (of: Challenge) => {
    challenge ??= of
  }
  const signal = AbortSignal.timeout(longestProbeMs)
  let connection: McpConnection | undefined
  try {
    connection = await McpConnection.open({ ...server, refused: onChallenge }, egress, signal)
    // Some let anybody connect.
    await connection.listTools(signal)
  } catch (error) {
    // A server that does not answer at all is reported by the next request to it.
    if (!(error instanceof McpFault) && !signal.aborted) throw error
  } finally {
    await connection?.close()
  }
  return challenge
}

async function authorise(
  { serverUrl, egress }: Authorized,
  client: StoredClient,
  options: Partial<AuthOptions>,
): Promise<'AUTHORIZED' | 'REDIRECT'> {
  const { auth } = await import('@modelcontextprotocol/client')
  const exchange = new Exchange(egress)
  const send = exchange.fetchFor({ streams: true })
  const late = setTimeout(() => exchange.abandon(faultOf(new Error('it took too long'))), longestExchangeMs)
  try {
    const fetchFn: typeof send = async (url, init) => withoutDetails(await send(url, init), init)
    return await auth(client, { serverUrl, fetchFn, ...options })
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

/** The library logs refused token requests, which may repeat the token: only the code is kept. */
async function withoutDetails(response: Response, init: RequestInit | undefined): Promise<Response> {
  if (response.ok || init?.method !== 'POST') return response
  const { status } = response
  const text = await response.text()
  const code = /"error"\s*:\s*"(\w{1,64})"/.exec(text)?.[1] ?? 'server_error'
  return Response.json({ error: code, error_description: `HTTP ${status}, ${code}` }, { status })
}

function notAuthorised(why: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The MCP server could not be authorised: ${why}.`,
    cause,
  })
}

// The stored state of an OAuth authorisation, and the MCP library's view of it.

/** A client as registered with an authorisation server. */
type OAuthClient = StoredOAuthClientInformation

/** The stored state of an authorisation, as JSON. */
export interface OAuthKept {
  /** The client that the account registered itself; no other is registered then. */
  readonly given?: OAuthClient
  readonly client?: OAuthClient
  readonly tokens?: StoredOAuthTokens
  /** The authorisation server that they belong to: an answer of another is refused. */
  readonly discovery?: OAuthDiscoveryState
  /** When the tokens were issued, milliseconds since 1970. */
  readonly tokensAt?: number
  /** How the server has refused the tokens since. */
  readonly challenge?: Challenge
  /** A started authorisation. The fields above are kept until it has succeeded. */
  readonly begun?: {
    readonly state: string
    readonly verifier: string
    /** The registered redirect address. */
    readonly redirectUrl: string
    /** Who must bring the answer back. */
    readonly session: string
    readonly at: number
    readonly client?: OAuthClient
    readonly discovery?: OAuthDiscoveryState
  }
}

interface Written {
  given?: OAuthClient
  client?: OAuthClient
  tokens?: StoredOAuthTokens
  discovery?: OAuthDiscoveryState
}

interface Flow {
  readonly redirectUrl: string
  readonly state: string
  readonly verifier?: string | undefined
  /** The address of a document that describes this client, for servers that accept it as an id (SEP-991). */
  readonly clientMetadataUrl?: string | undefined
}

/** Describes this client to authorisation servers: for registration (RFC 7591), and as a document. */
export function clientMetadata(redirectUrl: string) {
  return {
    client_name: 'Weir',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  }
}

class StoredClient implements OAuthClientProvider {
  kept: Written
  target: URL | undefined
  verifier: string | undefined
  readonly clientMetadataUrl?: string
  readonly #flow: Flow

  constructor({ given, client, tokens, discovery }: OAuthKept, flow: Flow) {
    this.kept = {
      ...(given && { given }),
      ...(client && { client }),
      ...(tokens && { tokens }),
      ...(discovery && { discovery }),
    }
    this.#flow = flow
    this.verifier = flow.verifier
    if (flow.clientMetadataUrl !== undefined) this.clientMetadataUrl = flow.clientMetadataUrl
  }

  get redirectUrl(): string {
    return this.#flow.redirectUrl
  }

  get clientMetadata() {
    return clientMetadata(this.redirectUrl)
  }

  state(): string {
    return this.#flow.state
  }

  clientInformation(context?: OAuthClientInformationContext): OAuthClient | undefined {
    const { given, client } = this.kept
    // Its secret may only be used with the authorisation server that it was first used with.
    const isOfAnother =
      given?.issuer !== undefined && context !== undefined && given.issuer !== context.issuer
    return given && !isOfAnother ? given : client
  }

  saveClientInformation(client: OAuthClient): void {
    if (client.client_id === this.kept.given?.client_id) this.kept.given = client
    else this.kept.client = client
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.kept.tokens
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    // A server may omit a refresh token that stays valid.
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
