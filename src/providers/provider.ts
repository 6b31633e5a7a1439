// A provider is a row of data: its address, its credentials, its protocol and the quirks of it.

import type { EmbeddingQuirks } from '../protocols/embeddings/embeddings.ts'
import type { IgnorableParameter } from '../protocols/parameters.ts'
import type { ProtocolId } from '../protocols/protocol.ts'
import { outbounds } from '../protocols/registry.ts'

export interface Provider {
  /** The first part of its model ids. */
  readonly id: string
  readonly name: string
  readonly protocol: ProtocolId
  /** Up to and including the version segment; the protocol appends the rest. */
  readonly baseUrl: string
  /**
   * The address for a region: `{region}` is replaced by the first of these environment variables that is set. Only
   * valid region names are accepted, so that no other address can come from the environment.
   */
  readonly regional?: { readonly template: string; readonly env: readonly string[] }
  readonly auth: Auth
  /** Deviations from the protocol's `defaultQuirks`. */
  readonly quirks: Readonly<Record<string, unknown>>
  /** Parameters that it accepts and ignores: they are not sent, and the client gets a warning. */
  readonly ignores?: readonly IgnorableParameter[] | undefined
  /** Deviations from `defaultEmbeddingQuirks`. */
  readonly embeddings?: Partial<EmbeddingQuirks> | undefined
  /**
   * What to do when the client disconnects from a stream: `cancel` aborts the provider's request and charges what was
   * delivered, `drain` reads on for the exact usage, `free` aborts and charges nothing.
   */
  readonly onDisconnect: 'cancel' | 'drain' | 'free'
  /** `rates`: tokens times catalog rates. `reported`: the provider's own `usage.cost` is the price. */
  readonly costFrom: 'rates' | 'reported'
  /**
   * The body of a client that speaks the provider's own protocol: `forwarded` unchanged if the protocol supports that
   * (recordings must prove that the answers are what its clients expect), or `translated` like any other.
   */
  readonly clientBody: 'forwarded' | 'translated'
  /** `builtin` is answered inside this process, on the same code path. */
  readonly transport: 'http' | 'builtin'
  /** A server that may run on this machine: probed regularly, free of charge by default. */
  readonly local: boolean
  /** Path of a list of its models with more facts than its protocol's list, from the root of its address. */
  readonly modelList?: string | undefined
  /** Fixed headers the provider needs. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Models with another protocol than the rest: OpenAI's and xAI's reasoning models return their reasoning, and accept
   * it between tool calls, only in the Responses protocol.
   */
  readonly dialects?: readonly Dialect[] | undefined
}

/** The protocol of some models of a provider, instead of that of their row. */
export interface Dialect extends Pick<Provider, 'protocol' | 'quirks' | 'clientBody'> {
  /** Matches the names of these models at the provider. */
  readonly models: RegExp
}

const inDialect = new WeakMap<Provider, Map<Dialect, Provider>>()

/** The provider with the protocol for this model, by its name at the provider; always the same object. */
export function withDialect<P extends Provider>(provider: P, upstream: string): P {
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

/** The lowest output token limit that the provider takes; 0 if it takes any. */
export function leastOutputTokens({ protocol, quirks }: Pick<Provider, 'protocol' | 'quirks'>): number {
  return outbounds[protocol].leastOutputTokens?.(quirks) ?? 0
}

export type Auth =
  /** `Authorization: Bearer <key>`. */
  | { readonly kind: 'bearer'; readonly env: readonly string[] }
  | { readonly kind: 'header'; readonly header: string; readonly env: readonly string[] }
  /**
   * Amazon: an access key id, a secret and perhaps a session token, joined by colons, sign each request; any other key
   * is a bearer key. `parts` are the variables with these, `optional` those that may follow.
   */
  | {
      readonly kind: 'aws'
      readonly env: readonly string[]
      readonly service: string
      readonly parts: readonly string[]
      readonly optional: readonly string[]
    }
  /**
   * Google: the JSON of a service account's key is exchanged for tokens of this scope; any other key is a token.
   * `files` are the variables with the path of that JSON.
   */
  | {
      readonly kind: 'google'
      readonly env: readonly string[]
      readonly scope: string
      readonly files: readonly string[]
    }
  | { readonly kind: 'none' }

/** A provider ready to be called: its row with the operator's overrides, and its keys in order. */
export interface ConfiguredProvider extends Provider {
  /** One entry per key; a single `undefined` if the provider needs none. Empty: not usable. */
  readonly keys: readonly (string | undefined)[]
  readonly custom: boolean
  /** Its own deadlines instead of the general ones, by their names in the configuration. */
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
