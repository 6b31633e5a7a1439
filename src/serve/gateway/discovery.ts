// Finds and watches local inference servers.

import type { Catalog } from '../../catalog/catalog.ts'
import { localModels } from '../../catalog/local-models.ts'
import type { CatalogFile } from '../../catalog/row.ts'
import type { Config } from '../../config/config.ts'
import { type KnownFacts, type LocalServer, modelsOf } from '../../providers/local-servers.ts'
import { type ConfiguredProvider, configureProviders, type Provider } from '../../providers/provider.ts'
import { providers as rows } from '../../providers/registry.ts'
import { catalogFileInUse, catalogInUse } from './catalog.ts'

/**
 * Looks for inference servers periodically: those of the registry that the operator did not configure, and those that
 * the operator configured as free.
 */
export class Discovery {
  readonly #config: Config
  readonly #ownPort: number
  readonly #registry: readonly Provider[]
  readonly #known: KnownFacts = new Map()
  #last: ReadonlyMap<string, LocalServer> = new Map()

  /** `ownPort`: where this gateway listens, which is not asked for models. */
  constructor(config: Config, ownPort: number, registry: readonly Provider[] = rows) {
    this.#config = config
    this.#ownPort = ownPort
    this.#registry = registry
  }

  /** Asks all of them at once, each for at most `local_servers.timeout_ms`. A busy server keeps its previous list. */
  async scan(): Promise<readonly LocalServer[]> {
    const asked = [...this.#unnamedProviders(), ...this.#namedProviders()].map(
      async (provider): Promise<LocalServer[]> => {
        const { id, baseUrl } = provider
        const listed = await modelsOf(provider, this.#config.local_servers.timeout_ms, this.#known)
        if (listed.kind === 'models') return [{ id, baseUrl, models: listed.models }]
        const before = this.#last.get(id)
        if (listed.kind === 'busy' && before) return [before]
        return this.#config.providers[id] === undefined ? [] : [{ id, baseUrl, models: [] }]
      },
    )
    const servers = (await Promise.all(asked)).flat()
    this.#last = new Map(servers.map((server) => [server.id, server]))
    return servers
  }

  #unnamedProviders(): readonly Provider[] {
    const { local_servers, providers } = this.#config
    if (!local_servers.discover) return []
    return this.#registry
      .filter(({ local, transport, baseUrl }) => local && transport === 'http' && baseUrl !== '')
      .filter(({ id }) => providers[id] === undefined)
      .filter(({ baseUrl }) => URL.parse(baseUrl)?.port !== String(this.#ownPort))
  }

  #namedProviders(): readonly ConfiguredProvider[] {
    const configured = configureProviders(this.#registry, this.#config.providers, new Set())
    return [...configured.values()].filter(({ id, transport, local }) => {
      const settings = this.#config.providers[id]
      return settings !== undefined && transport === 'http' && (settings.price === 'free' || local)
    })
  }
}

interface Watch {
  stop(): void
}

/**
 * Keeps `live` up to date with the local servers until stopped. `onChange` is called when a server appears, disappears
 * or lists other models. Only then is the catalog rebuilt, which takes time and memory.
 */
export function watchServers(
  live: Live,
  discovery: Pick<Discovery, 'scan'>,
  config: Config,
  onChange: (change: 'found' | 'lost' | 'changed', server: LocalServer) => void,
): Watch {
  let stopped = false
  let timer: ReturnType<typeof setTimeout>
  const look = async () => {
    const before = new Map(live.servers.map((server) => [server.id, server]))
    const servers = await discovery.scan()
    if (stopped) return
    if (!Bun.deepEquals(servers, live.servers)) {
      Object.assign(live, liveOf(config, servers, live.file))
      for (const server of servers) {
        const known = before.get(server.id)
        if (!known?.models.length && server.models.length > 0) onChange('found', server)
        else if (known?.models.length && server.models.length === 0) onChange('lost', server)
        else if (!Bun.deepEquals(known, server)) onChange('changed', server)
        before.delete(server.id)
      }
      for (const server of before.values()) onChange('lost', server)
    }
    again()
  }
  const again = () => {
    timer = setTimeout(() => void look(), config.local_servers.every_ms)
    timer.unref()
  }
  again()
  return {
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

// What can be called now: the configuration, and the models of local servers as they come and go.

export interface Live {
  catalog: Catalog
  providers: ReadonlyMap<string, ConfiguredProvider>
  /** Local servers that were found or configured; without models if they do not answer. */
  servers: readonly LocalServer[]
  /** The catalog file of this start: one that is imported meanwhile is used from the next start on. */
  readonly file: CatalogFile
}

/**
 * The catalog and providers for a configuration and these servers. Without `file` the one in use is read, which throws
 * if an imported catalog is damaged.
 */
export function liveOf(
  config: Config,
  servers: readonly LocalServer[],
  file: CatalogFile = catalogFileInUse(config.data_dir),
): Live {
  const today = new Date().toISOString().slice(0, 10)
  const discovered = servers.flatMap(({ id, models }) => localModels(id, models, today))
  return {
    catalog: catalogInUse(config, Date.now, discovered, file),
    providers: configureProviders(rows, config.providers, new Set(servers.map(({ id }) => id))),
    servers,
    file,
  }
}

/** The providers that can answer now: those with an address and a key, and running local servers. */
export function answering({ providers, servers }: Live): ReadonlySet<string> {
  const silent = new Set(servers.filter(({ models }) => models.length === 0).map(({ id }) => id))
  return new Set([...providers.keys()].filter((id) => !silent.has(id)))
}

/** The current catalog: `live` is replaced when servers come and go. */
export function liveCatalog(live: Live): Catalog {
  return {
    get date() {
      return live.catalog.date
    },
    get unpriced() {
      return live.catalog.unpriced
    },
    resolve: (id) => live.catalog.resolve(id),
    find: (id) => live.catalog.find(id),
    list: (filter) => live.catalog.list(filter),
    count: (servedBy) => live.catalog.count(servedBy),
  }
}
