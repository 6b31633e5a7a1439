// The stored state of an OAuth authorisation, and the MCP library's view of it.

import type {
  OAuthClientInformationContext,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import type { Challenge } from './exchange.ts'

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

export class StoredClient implements OAuthClientProvider {
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
