// The rows of the registry with the operator's word applied: keys, addresses, protocols, providers of their own.

import type { IgnorableParameter } from '../protocols/parameters.ts'
import type { ProtocolId } from '../protocols/protocol.ts'
import { outbounds } from '../protocols/registry.ts'
import type { Auth, ConfiguredProvider, Provider, ProviderTimeouts } from './provider.ts'

/** What configuration may say of one provider, by the names it has there. */
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
 * Every provider that can be called: it has an address, and a key where it needs one. A local server counts only
 * when it is configured or was found running (`found`). Custom providers speak `openai-chat` unless configured otherwise.
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

/** The row of one provider, or that of an unknown one, with the operator's word applied; its keys may be none. */
export function configureProvider(
  id: string,
  row: Provider | undefined,
  override: ProviderOverride | undefined,
): ConfiguredProvider {
  const base = row ?? customRow(id)
  const keys = override?.api_key ?? []
  const needsKey = row !== undefined && row.auth.kind !== 'none' && !row.local
  const protocol = override?.protocol ?? base.protocol
  // Quirks and proofs belong to a protocol: under another one they mean nothing.
  const changed = protocol !== base.protocol
  return {
    ...base,
    protocol,
    name: override?.name ?? base.name,
    baseUrl: override?.base_url ?? base.baseUrl,
    headers: { ...base.headers, ...override?.headers },
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

/**
 * The ways in which some models are spoken to: at another address as well (Azure has none of its own, a company's proxy
 * stands before OpenAI), unless `quirks.dialects: false` says that only the row's own protocol is served there. Quirks
 * that the operator sets hold for these models, too.
 */
function dialectsOf({ dialects }: Provider, override: ProviderOverride | undefined): Provider['dialects'] {
  const { dialects: wanted, ...quirks } = override?.quirks ?? {}
  if (wanted === false) return undefined
  return dialects?.map((dialect) => ({ ...dialect, quirks: { ...dialect.quirks, ...quirks } }))
}

/** A provider of one's own carries its key where its protocol expects it. */
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
