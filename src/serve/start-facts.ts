// The facts for the start-up banner, from the configuration and the local servers that were found.

import type { Config } from '../config.ts'
import { providers as rows } from '../providers/registry.ts'
import { version } from '../version.ts'
import {
  baseUrlOf,
  consoleOrigin,
  listenAddress,
  type OwnerKey,
  type ProviderFact,
  type StartFacts,
} from './banner.ts'
import { answering, type Live } from './gateway/live.ts'

/** The facts of a start; `port` is the actual port. */
export function startFacts(
  config: Config,
  port: number,
  live: Live,
  owner: OwnerKey | undefined,
): Omit<StartFacts, 'dataDir' | 'configFile'> {
  const baseUrl = baseUrlOf(config.server.host, port)
  const local = localChats(live)
  return {
    version,
    listen: listenAddress(config.server.host, port),
    baseUrl,
    console: `${config.server.public_url ?? consoleOrigin(config.server.host, port)}/console`,
    docs: baseUrl.replace(/\/v1$/, '/docs'),
    providers: providerFacts(config, live),
    available: live.catalog.count(answering(live)),
    local,
    catalog: { date: live.catalog.date, models: live.catalog.count() },
    tryModel: local[0] ?? 'sim/echo',
    owner,
  }
}

/** Chat models of the local servers that were found. */
function localChats({ catalog, servers }: Live): string[] {
  return servers
    .filter(({ models }) => models.length > 0)
    .flatMap(({ id }) => catalog.list({ provider: id }))
    .filter(({ outputModalities }) => outputModalities.includes('text'))
    .map(({ id }) => id)
}

function providerFacts(config: Config, { providers, servers }: Live): ProviderFact[] {
  const found = new Map(servers.map((server) => [server.id, server.models.length]))
  const ids = [...new Set([...providers.keys(), ...rows.filter(needsKey).map(({ id }) => id)])]
  return ids.map((id): ProviderFact => {
    const provider = providers.get(id)
    const models = found.get(id)
    if (config.providers[id]?.disabled) return { id, standing: 'disabled' }
    if (provider?.transport === 'builtin') return { id, standing: 'builtin' }
    if (models !== undefined) return { id, standing: models > 0 ? 'found' : 'not-found', models }
    if (provider?.keys[0] === undefined && provider !== undefined) return { id, standing: 'found' }
    return { id, standing: provider ? 'key' : 'no-key' }
  })
}

function needsKey(row: (typeof rows)[number]): boolean {
  return row.auth.kind !== 'none' && !row.local
}
