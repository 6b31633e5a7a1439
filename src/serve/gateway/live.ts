// What can be called now: the configuration, and the models of local servers as they come and go.

import type { Catalog } from '../../catalog/catalog.ts'
import { localModels } from '../../catalog/local-models.ts'
import type { CatalogFile } from '../../catalog/row.ts'
import type { Config } from '../../config.ts'
import { configureProviders } from '../../providers/configure.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'
import { providers as rows } from '../../providers/registry.ts'
import { catalogFileInUse, catalogInUse } from './catalog-in-use.ts'

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
