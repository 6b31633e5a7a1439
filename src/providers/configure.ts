// Providers of the registry with the operator's configuration applied, and the operator's own providers.

import type { IgnorableParameter } from '../protocols/parameters.ts'
import type { ProtocolId } from '../protocols/protocol.ts'
import { outbounds } from '../protocols/registry.ts'
import type { Auth, ConfiguredProvider, Provider, ProviderTimeouts } from './provider.ts'

/** The settings of one provider, by their names in the configuration. */
export interface ProviderOverride {
  readonly name?: string | undefined
  readonly protocol?: ProtocolId | undefined
  readonly base_url?: string | undefined
  readonly api_key: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Readonly<Record<string, unknown>>
  readonly ignores?: readonly IgnorableParameter[]
  readonly disabled: boolean
  readonly timeouts?: ProviderTimeouts
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
  return {
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
      base.auth.kind === 'none' && keys.length > 0 ? { kind: 'bearer', env: [] } : authFor(base, protocol),
    keys: keys.length > 0 ? keys : needsKey ? [] : [undefined],
    custom: row === undefined,
    timeouts: override?.timeouts ?? {},
  }
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
