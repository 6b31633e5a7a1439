// A provider is a row of data: where, with which credential, with which quirks of a protocol it shares.

import type { EmbeddingQuirks } from '../protocols/embeddings/embeddings.ts'
import type { IgnorableParameter } from '../protocols/parameters.ts'
import type { ProtocolId } from '../protocols/protocol.ts'

export interface Provider {
  /** The first part of its model ids. */
  readonly id: string
  readonly name: string
  readonly protocol: ProtocolId
  /** Up to and including the version segment; the protocol appends the rest. */
  readonly baseUrl: string
  /**
   * The address by the region that the environment names: `{region}` stands for the first of these variables that is
   * set. A region is no address: other programs' addresses cannot slip in.
   */
  readonly regional?: { readonly template: string; readonly env: readonly string[] }
  readonly auth: Auth
  /** What deviates from the protocol's `defaultQuirks`. */
  readonly quirks: Readonly<Record<string, unknown>>
  /** Parameters that it takes and ignores, whatever its protocol says: they are left out and named to the client. */
  readonly ignores?: readonly IgnorableParameter[] | undefined
  /** What deviates from `defaultEmbeddingQuirks`. */
  readonly embeddings?: Partial<EmbeddingQuirks> | undefined
  /**
   * What to do when the client leaves a stream: `cancel` aborts the provider and charges what was delivered,
   * `drain` reads on for the exact usage, `free` aborts and charges nothing.
   */
  readonly onDisconnect: 'cancel' | 'drain' | 'free'
  /** `rates`: tokens times catalog rates. `reported`: the provider's own `usage.cost` is the price. */
  readonly costFrom: 'rates' | 'reported'
  /**
   * The body of a client that speaks the provider's own protocol: `forwarded` as it is where the protocol knows how
   * (recordings must prove that the answers are what its clients expect), or `translated` as any other.
   */
  readonly clientBody: 'forwarded' | 'translated'
  /** `builtin` is answered inside this process, over the same path. */
  readonly transport: 'http' | 'builtin'
  /** A server that may run on this machine: asked now and then whether it answers, free of charge by default. */
  readonly local: boolean
  /** Where it lists its models with more facts than under its protocol's path; from the root of its address. */
  readonly modelList?: string | undefined
  /** Fixed headers the provider needs. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Models that are spoken to in another way than the rest: OpenAI's and xAI's that reason give their reasoning back,
   * and take it between tool calls, only in another protocol.
   */
  readonly dialects?: readonly Dialect[] | undefined
}

/** How some models of a provider are spoken to, in place of what their row says. */
export interface Dialect extends Pick<Provider, 'protocol' | 'quirks' | 'clientBody'> {
  /** Which models, by their names at the provider. */
  readonly models: RegExp
}

const inDialect = new WeakMap<Provider, Map<Dialect, Provider>>()

/** The provider as the model of this name (the provider's own) is spoken to; the same object each time. */
export function spokenTo<P extends Provider>(provider: P, upstream: string): P {
  if (provider.dialects === undefined) return provider
  const dialect = provider.dialects.find(({ models }) => models.test(upstream))
  if (!dialect) return provider
  let known = inDialect.get(provider)
  if (!known) inDialect.set(provider, (known = new Map()))
  let spoken = known.get(dialect)
  if (!spoken) {
    const { protocol, quirks, clientBody } = dialect
    known.set(dialect, (spoken = { ...provider, protocol, quirks, clientBody }))
  }
  return spoken as P
}

export type Auth =
  /** `Authorization: Bearer <key>`. */
  | { readonly kind: 'bearer'; readonly env: readonly string[] }
  | { readonly kind: 'header'; readonly header: string; readonly env: readonly string[] }
  /**
   * Amazon: a key of access key id, secret and perhaps session token, joined by colons, signs each request; any other
   * is a bearer key. `parts` name the variables of such a key, `optional` what may follow them.
   */
  | {
      readonly kind: 'aws'
      readonly env: readonly string[]
      readonly service: string
      readonly parts: readonly string[]
      readonly optional: readonly string[]
    }
  /**
   * Google: the JSON of a service account's key is exchanged for tokens of this scope; any other key is such a token.
   * `files` name the variables that hold the path of that JSON.
   */
  | {
      readonly kind: 'google'
      readonly env: readonly string[]
      readonly scope: string
      readonly files: readonly string[]
    }
  | { readonly kind: 'none' }

/** A provider ready to be called: the row, the operator's overrides applied, its keys in order. */
export interface ConfiguredProvider extends Provider {
  /** One entry per key; a single `undefined` where the provider needs none. Empty: not usable. */
  readonly keys: readonly (string | undefined)[]
  readonly custom: boolean
  /** What the operator says of it instead of the general deadlines, by the names they have in configuration. */
  readonly timeouts: ProviderTimeouts
}

/** Milliseconds; the gateway's defaults apply to what is not set. */
export interface ProviderTimeouts {
  readonly connect_ms?: number | undefined
  readonly first_byte_ms?: number | undefined
  readonly first_byte_reasoning_ms?: number | undefined
  readonly gap_ms?: number | undefined
  readonly total_ms?: number | undefined
}
