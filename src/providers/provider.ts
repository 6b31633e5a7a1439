// A provider is a row of data: its address, its credentials, its protocol and the quirks of it.

import type { EmbeddingQuirks, ProtocolId } from '../protocols/protocol.ts'
import { defaultQuirks, type OpenAIChatQuirks } from '../protocols/openai-chat/outbound/quirks.ts'
import type { IgnorableParameter } from '../protocols/openai/parameters.ts'
import { outbounds } from '../protocols/registry.ts'

export interface Provider {
  /** The first part of its model ids. */
  readonly id: string
  readonly name: string
  /** In traces, where that is not its id: the list of opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai. */
  readonly nameInTraces?: string | undefined
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
  /** It answers typed questions under `/decisions`, as OpenAI does. */
  readonly decisions?: true | undefined
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
  /** It makes its models itself, so that their names without a provider are its own. */
  readonly firstParty?: true
  /** What it promises of what it is sent, as far as the operator knows; undefined for nothing. */
  readonly dataPolicy?: DataPolicy | undefined
  /** The model, by its name there, that a test of the provider calls; absent for the cheapest. */
  readonly testModel?: string | undefined
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

/** `no_training`: it does not learn from what it is sent. `zero_retention`: it keeps nothing, so that it cannot. */
type DataPolicy = 'no_training' | 'zero_retention'

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
  /** Whether prompts for its Claude models are marked for the cache where the client has marked nothing. */
  readonly marksCache: boolean
  /** The provider once for each of its deployments, in order; `keys` are those of all. Absent where it has none. */
  readonly deployments?: readonly ConfiguredProvider[]
  /** Which of them it is. */
  readonly deployment?: Deployment
}

/** One address of a provider, or one contract with it. */
export interface Deployment {
  /** The position of its first key among those of all deployments. */
  readonly firstKey: number
  readonly region: string | undefined
  /** Its share of the calls, beside those of the others. */
  readonly weight: number
  /** Undefined where it has none. */
  readonly limits: DeploymentLimits | undefined
}

/** What is kept ahead of a provider's 429, of each deployment. */
export interface DeploymentLimits {
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly inFlight: number | undefined
}

/** Milliseconds; the gateway's defaults apply to what is not set. */
interface ProviderTimeouts {
  readonly connect_ms?: number | undefined
  readonly first_byte_ms?: number | undefined
  readonly first_byte_reasoning_ms?: number | undefined
  readonly first_token_ms?: number | undefined
  readonly gap_ms?: number | undefined
  readonly reasoning_gap_ms?: number | undefined
  readonly total_ms?: number | undefined
}

// Providers of the registry with the operator's configuration applied, and the operator's own providers.

/** The settings of one provider, by their names in the configuration. */
export interface ProviderOverride {
  readonly name?: string | undefined
  readonly protocol?: ProtocolId | undefined
  readonly base_url?: string | undefined
  readonly api_key: readonly string[]
  readonly deployments?: readonly DeploymentSettings[]
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Readonly<Record<string, unknown>>
  readonly ignores?: readonly IgnorableParameter[]
  readonly data_policy?: DataPolicy | undefined
  readonly mark_cache?: boolean
  readonly disabled: boolean
  readonly timeouts?: ProviderTimeouts
}

interface DeploymentSettings {
  readonly base_url?: string | undefined
  readonly api_key: readonly string[]
  readonly region?: string | undefined
  readonly weight: number
  readonly requests_per_minute?: number | undefined
  readonly tokens_per_minute?: number | undefined
  readonly max_in_flight?: number | undefined
}

/**
 * Every provider that can be called: it has an address, and a key if it needs one. A local server must be configured or
 * running (`found`). Custom providers speak `openai-chat` unless configured otherwise.
 */
export function configureProviders(
  rows: readonly Provider[],
  overrides: Readonly<Record<string, ProviderOverride>>,
  found: ReadonlySet<string>,
): Map<string, ConfiguredProvider> {
  const configured = new Map<string, ConfiguredProvider>()
  const known = new Map(rows.map((row) => [row.id, row]))
  for (const id of new Set([...known.keys(), ...Object.keys(overrides)])) {
    const override = overrides[id]
    if (override?.disabled) continue
    const row = known.get(id)
    if (row?.local && row.transport === 'http' && !override && !found.has(id)) continue
    const provider = configureProvider(id, row, override)
    if (provider.baseUrl !== '' && provider.keys.length > 0) configured.set(id, provider)
  }
  return configured
}

/** The row of one provider, known or custom, with the configuration applied; it may have no keys. */
export function configureProvider(
  id: string,
  row: Provider | undefined,
  override: ProviderOverride | undefined,
): ConfiguredProvider {
  const base = row ?? customRow(id)
  const keys = override?.api_key ?? []
  const needsKey = row !== undefined && row.auth.kind !== 'none' && !row.local
  const protocol = override?.protocol ?? base.protocol
  // Quirks and credentials are for the row's protocol and have no meaning in another one.
  const changed = protocol !== base.protocol
  const deployments = override?.deployments ?? []
  const provider: ConfiguredProvider = {
    ...base,
    protocol,
    name: override?.name ?? base.name,
    baseUrl: override?.base_url ?? base.baseUrl,
    headers: { ...base.headers, ...inLowerCase(override?.headers) },
    quirks: { ...(changed ? {} : base.quirks), ...override?.quirks },
    ignores: [...(base.ignores ?? []), ...(override?.ignores ?? [])],
    clientBody: changed ? 'translated' : base.clientBody,
    dialects: changed ? undefined : dialectsOf(base, override),
    auth:
      base.auth.kind === 'none' && (keys.length > 0 || deployments.some(({ api_key }) => api_key.length > 0))
        ? { kind: 'bearer', env: [] }
        : authFor(base, protocol),
    keys: keys.length > 0 ? keys : needsKey ? [] : [undefined],
    custom: row === undefined,
    timeouts: override?.timeouts ?? {},
    marksCache: override?.mark_cache ?? false,
    // What runs in this process, or on this machine, is nobody else's.
    dataPolicy:
      override?.data_policy ??
      base.dataPolicy ??
      (base.local || base.transport === 'builtin' ? 'zero_retention' : undefined),
  }
  return deployments.length === 0 ? provider : withDeployments(provider, deployments)
}

/** The provider with its deployments: what one does not say is as the provider says it. Those without a key are left out. */
function withDeployments(
  provider: ConfiguredProvider,
  settings: readonly DeploymentSettings[],
): ConfiguredProvider {
  const deployments: ConfiguredProvider[] = []
  const keys: (string | undefined)[] = []
  for (const each of settings) {
    const { base_url: baseUrl = provider.baseUrl, api_key: own, region, weight } = each
    const { requests_per_minute: requestsPerMinute, tokens_per_minute: tokensPerMinute } = each
    const { max_in_flight: inFlight } = each
    const ofThis = own.length > 0 ? own : provider.keys
    if (baseUrl === '' || ofThis.length === 0) continue
    const isLimited = (requestsPerMinute ?? tokensPerMinute ?? inFlight) !== undefined
    const limits = isLimited ? { requestsPerMinute, tokensPerMinute, inFlight } : undefined
    deployments.push({
      ...provider,
      baseUrl,
      keys: ofThis,
      deployment: { firstKey: keys.length, region, weight, limits },
    })
    keys.push(...ofThis)
  }
  const [first] = deployments
  if (first === undefined) return provider
  // The first key is of the first address.
  return { ...provider, baseUrl: first.baseUrl, keys, deployments }
}

/** Names as rows write them: a header under two spellings would be sent with both values. */
function inLowerCase(headers: ProviderOverride['headers'] = {}): ProviderOverride['headers'] {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

/**
 * Other protocols of some models. They also apply at a configured address (Azure, a proxy in front of OpenAI), unless
 * `quirks.dialects: false` says that it only serves the row's own protocol. The operator's quirks apply to these
 * models, too.
 */
function dialectsOf({ dialects }: Provider, override: ProviderOverride | undefined): Provider['dialects'] {
  const { dialects: wanted, ...quirks } = override?.quirks ?? {}
  if (wanted === false) return undefined
  return dialects?.map((dialect) => ({ ...dialect, quirks: { ...dialect.quirks, ...quirks } }))
}

/** How a custom provider's key is sent: as its protocol expects it. */
function authFor(base: Provider, protocol: ProtocolId): Auth {
  if (protocol === base.protocol && base.id !== '') return base.auth
  const { auth } = outbounds[protocol]
  return auth.kind === 'aws' ? { ...auth, env: [], parts: [], optional: [] } : { ...auth, env: [] }
}

function customRow(id: string): Provider {
  return {
    id,
    name: id,
    protocol: 'openai-chat',
    baseUrl: '',
    auth: { kind: 'bearer', env: [] },
    quirks: {},
    onDisconnect: 'cancel',
    costFrom: 'rates',
    clientBody: 'translated',
    transport: 'http',
    local: false,
    headers: {},
  }
}

// Parameters of a chat request that a provider's model does not honour, so that the catalog does not list them.

/** By their names in chat completions. `upstream` is the model's name at the provider. */
export function ignoredParameters(
  provider: Provider,
  upstream: string,
  reasoning: boolean,
): ReadonlySet<string> {
  const { protocol, quirks, ignores = [] } = withDialect(provider, upstream)
  const outbound = outbounds[protocol]
  const full = { ...(outbound.defaultQuirks as object), ...quirks }
  const byProtocol = outbound.ignores({ model: upstream, quirks: full, reasoning })
  const ignored = new Set<string>([...byProtocol, ...ignores])
  if (ignored.has('logprobs')) ignored.add('top_logprobs')
  if (ignored.has('reasoning')) ignored.add('reasoning_effort')
  return ignored
}

// A row for a provider that speaks chat completions: defaults are filled in, a row only says what differs.

type OpenAIChatProvider = Provider & { readonly quirks: Partial<OpenAIChatQuirks> }

/** Required of every row: id, name and address. The rest has a default. */
type OpenAIChatRow = Pick<Provider, 'id' | 'name' | 'baseUrl' | 'auth'> &
  Partial<Omit<OpenAIChatProvider, 'protocol'>>

/**
 * A chat-completions provider. Unless the row says otherwise, a disconnect cancels the call, tokens are priced by the
 * catalog, and frames for clients of the same protocol are repaired.
 */
export function openaiCompatible(row: OpenAIChatRow): OpenAIChatProvider {
  return {
    protocol: 'openai-chat',
    onDisconnect: 'cancel',
    costFrom: 'rates',
    clientBody: 'translated',
    transport: 'http',
    local: false,
    headers: {},
    ...row,
    quirks: row.quirks ?? {},
  }
}

/** `Authorization: Bearer` with the key from the first of these environment variables that is set. */
export function bearer(...env: readonly string[]): Auth {
  return { kind: 'bearer', env }
}

export function keyHeader(header: string, ...env: readonly string[]): Auth {
  return { kind: 'header', header, env }
}

/** For providers without a fixed address: the operator sets `providers.<id>.base_url`. */
export const noFixedAddress = ''

/** Fields that are dropped for every provider except OpenAI, plus these. */
export function alsoDrops(...fields: OpenAIChatQuirks['drops']): OpenAIChatQuirks['drops'] {
  return [...defaultQuirks.drops, ...fields]
}
