// Finds and watches local inference servers.

import type { Config } from '../../config.ts'
import { configureProviders } from '../../providers/configure.ts'
import { type KnownFacts, type LocalServer, modelsOf } from '../../providers/local-servers.ts'
import type { ConfiguredProvider, Provider } from '../../providers/provider.ts'
import { providers as rows } from '../../providers/registry.ts'
import { type Live, liveOf } from './live.ts'

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
    const asked = [...this.#unnamed(), ...this.#named()].map(async (provider): Promise<LocalServer[]> => {
      const { id, baseUrl } = provider
      const listed = await modelsOf(provider, this.#config.local_servers.timeout_ms, this.#known)
      if (listed.kind === 'models') return [{ id, baseUrl, models: listed.models }]
      const before = this.#last.get(id)
      if (listed.kind === 'busy' && before) return [before]
      return this.#config.providers[id] === undefined ? [] : [{ id, baseUrl, models: [] }]
    })
    const servers = (await Promise.all(asked)).flat()
    this.#last = new Map(servers.map((server) => [server.id, server]))
    return servers
  }

  #unnamed(): readonly Provider[] {
    const { local_servers, providers } = this.#config
    if (!local_servers.discover) return []
    return this.#registry
      .filter(({ local, transport, baseUrl }) => local && transport === 'http' && baseUrl !== '')
      .filter(({ id }) => providers[id] === undefined)
      .filter(({ baseUrl }) => URL.parse(baseUrl)?.port !== String(this.#ownPort))
  }

  #named(): readonly ConfiguredProvider[] {
    const configured = configureProviders(this.#registry, this.#config.providers, new Set())
    return [...configured.values()].filter(({ id, transport, local }) => {
      const settings = this.#config.providers[id]
      return settings !== undefined && transport === 'http' && (settings.price === 'free' || local)
    })
  }
}

export interface Watch {
  stop(): void
}

/**
 * Keeps `live` up to date with the local servers until stopped. `changed` is called when a server appears, disappears
 * or lists other models. Only then is the catalog rebuilt, which takes time and memory.
 */
export function watchServers(
  live: Live,
  discovery: Pick<Discovery, 'scan'>,
  config: Config,
  changed: (change: 'found' | 'lost' | 'changed', server: LocalServer) => void,
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
        if (!known?.models.length && server.models.length > 0) changed('found', server)
        else if (known?.models.length && server.models.length === 0) changed('lost', server)
        else if (!Bun.deepEquals(known, server)) changed('changed', server)
        before.delete(server.id)
      }
      for (const server of before.values()) changed('lost', server)
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
