// This installation's catalog: the imported or bundled file, overridden by the configuration, with the models of local
// servers as they come and go. The file is in the data directory, or in the database that several gateways share.

import { join } from 'node:path'
import { bundledCatalog, bundledRows, fileChanges } from '../../catalog/bundled/bundled.ts'
import { buildCatalog, type Catalog, defaultPremiumRule, localModels } from '../../catalog/catalog.ts'
import {
  type CatalogFile,
  catalogFileSchema,
  type CatalogRow,
  freePrice,
  type ModelOverride,
} from '../../catalog/row.ts'
import { type Config, readTextFile } from '../../config/config.ts'
import type { ConfigWarning } from '../../config/read/draft.ts'
import { parseUsdPerMillion } from '../../credits/money.ts'
import { repeat } from '../../async/async.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log.ts'
import type { CatalogFileState } from '../../http/parts.ts'
import {
  type ConfiguredProvider,
  configureProvider,
  configureProviders,
  ignoredParameters,
  type Provider,
} from '../../providers/provider.ts'
import { providerById, providers, providers as rows } from '../../providers/registry.ts'
import type { Gateways, ImportedCatalog, ImportedCatalogs } from '../../store/store.ts'
import { type KnownFacts, type LocalServer, modelsOf } from '../../providers/local-servers.ts'

/** Where `weir catalog import` stores the file that replaces the bundled catalog. */
export function importedCatalogPath(dataDir: string): string {
  return join(dataDir, 'catalog.json')
}

/** The catalog file in use. Throws if an imported one is damaged. */
export function catalogFileInUse(dataDir: string): CatalogFile {
  const path = importedCatalogPath(dataDir)
  const text = readTextFile(path)
  return text === undefined ? bundledCatalog() : parseCatalogFile(path, text)
}

/** The one that gateways share. Yields to calls between steps. Rejects if it is none for this version. */
export async function catalogFileShared({ file }: ImportedCatalog): Promise<CatalogFile> {
  return file === null ? bundledCatalog() : parseInSteps('the imported catalog', file)
}

/** Parses and checks a catalog file. Throws with its first faults. */
export function parseCatalogFile(path: string, text: string): CatalogFile {
  return checkCatalog(path, parseJson(path, text))
}

/** Rows that are checked without a turn for calls: some milliseconds. */
const rowsAtOnce = 50

async function parseInSteps(path: string, text: string): Promise<CatalogFile> {
  const json = parseJson(path, text) as { readonly models?: unknown }
  if (!Array.isArray(json?.models)) return checkCatalog(path, json)
  const { models: all, ...rest } = json as { readonly models: readonly unknown[] }
  const checked = checkCatalog(path, { ...rest, models: [] })
  const models: CatalogFile['models'] = []
  for (let at = 0; at < all.length; at += rowsAtOnce) {
    await Bun.sleep(0)
    const rows = all.slice(at, at + rowsAtOnce)
    models.push(...checkCatalog(path, { ...checked, unpriced: [], models: rows }, at).models)
  }
  return { ...checked, models }
}

function parseJson(path: string, text: string): unknown {
  try {
    // Editors on Windows begin a file with a byte order mark, which RFC 8259 lets a reader ignore.
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (cause) {
    throw new Error(`${path} is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}

/** `from`: the place of its first model in the file. */
function checkCatalog(path: string, json: unknown, from = 0): CatalogFile {
  const parsed = catalogFileSchema.safeParse(json)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.slice(0, 10).map(({ path: at, message }) => {
    const [list, place, ...rest] = at
    const isMoved = list === 'models' && typeof place === 'number'
    return `  ${(isMoved ? [list, place + from, ...rest] : at).join('.')}: ${message}`
  })
  throw new Error(`${path} is not a catalog:\n${faults.join('\n')}`)
}

/** All providers that may serve: the registry's and the operator's own, without disabled ones. */
function providersInService(config: Config): ReadonlySet<string> {
  const named = [...providers.map(({ id }) => id), ...Object.keys(config.providers)]
  return new Set(named.filter((id) => !config.providers[id]?.disabled))
}

/**
 * A configured entry of a server that is free (local, or set by the operator) is free too if neither it nor the
 * catalog has a price, even while the server is not running.
 */
function withLocalPrice(entry: ModelOverride, config: Config, priced: ReadonlySet<string>): ModelOverride {
  if (entry.price !== undefined || entry.offers !== undefined || priced.has(entry.id)) return entry
  const provider = entry.id.slice(0, entry.id.indexOf('/'))
  const free = config.providers[provider]?.price === 'free' || isLocalServer(provider)
  return free ? { ...entry, price: freePrice } : entry
}

/** The simulator's models have prices to try credit with; the operator may give them away. */
function withFreeSimulator(all: readonly CatalogRow[], config: Config): readonly CatalogRow[] {
  if (config.providers['sim']?.price !== 'free') return all
  return all.map((row) => (row.id.startsWith('sim/') ? { ...row, price: freePrice } : row))
}

function hasPrice({ price, offers = [] }: CatalogRow): boolean {
  return price !== undefined || offers.some((offer) => offer.price !== undefined)
}

function isLocalServer(id: string): boolean {
  const row = providerById(id)
  return row !== undefined && row.local && row.transport === 'http'
}

const firstParty: ReadonlySet<string> = new Set(
  providers.filter((provider) => provider.firstParty).map(({ id }) => id),
)

/** Whether an id is offered: it matches one of `offer`, all if there is none, and none of `hide`. */
function offeredBy({ offer, hide }: Config['catalog']): (id: string) => boolean {
  if (offer.length === 0 && hide.length === 0) return () => true
  const known = new Map<string, boolean>()
  return (id) => {
    let is = known.get(id)
    if (is === undefined) {
      is =
        (offer.length === 0 || offer.some((pattern) => matches(pattern, id))) &&
        !hide.some((pattern) => matches(pattern, id))
      // Strangers can ask for any name.
      if (known.size < mostRemembered) known.set(id, is)
    }
    return is
  }
}

const mostRemembered = 10_000

/** A star stands for any text. */
function matches(pattern: string, id: string): boolean {
  if (!pattern.includes('*')) return pattern === id
  const [head = '', ...rest] = pattern.split('*')
  if (!id.startsWith(head)) return false
  let at = head.length
  for (const [index, part] of rest.entries()) {
    if (index === rest.length - 1) return id.length - part.length >= at && id.endsWith(part)
    const found = id.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return true
}

/** Today's date, cached because every call needs it. */
function utcDay(now: () => number): () => string {
  let day = Number.NaN
  let text = ''
  return () => {
    const today = Math.floor(now() / 86_400_000)
    if (today !== day) {
      day = today
      text = new Date(today * 86_400_000).toISOString().slice(0, 10)
    }
    return text
  }
}

/** A configuration's catalog. The bundled catalog and the operator's entries override `local` servers' rows. */
export function catalogInUse(
  config: Config,
  now: () => number,
  local: readonly CatalogRow[] = [],
  file: CatalogFile = catalogFileInUse(config.data_dir),
): Catalog {
  const rows = [...local, ...withFreeSimulator(bundledRows(file), config)]
  const priced = new Set(rows.filter(hasPrice).map(({ id }) => id))
  const outputAtLeast =
    parseUsdPerMillion(config.premium.output_usd_per_million) ?? defaultPremiumRule.outputAtLeast
  return buildCatalog({
    rows,
    unpriced: file.unpriced,
    overrides: config.models.map((entry) => withLocalPrice(entry, config, priced)),
    aliases: config.aliases,
    ...(config.catalog.bare_names ? { firstParty } : {}),
    offered: offeredBy(config.catalog),
    premiumRule: { outputAtLeast },
    providersKnown: providersInService(config),
    ignored: (id, upstream, reasoning) =>
      ignoredParameters(configureProvider(id, providerById(id), config.providers[id]), upstream, reasoning),
    today: utcDay(now),
    date: file.date,
  })
}

// Entries under `models` that cannot be called, with the reason.

/** A warning for each entry that is not sold: it has no price, or its provider does not exist. */
export function unsoldModels(config: Config, catalog: Catalog): ConfigWarning[] {
  const ids = [...new Set(config.models.map(({ id }) => id))]
  return ids.flatMap((id) => {
    try {
      catalog.resolve(id)
      return []
    } catch (thrown) {
      if (!(thrown instanceof GatewayError)) throw thrown
      return [{ name: `models: ${id}`, problem: `cannot be called: ${reasonIn(thrown)}` }]
    }
  })
}

function reasonIn({ message, details }: GatewayError): string {
  const reason = details.metadata?.['reason']
  if (reason === 'it has no price') return 'it has no price (price: free gives it away)'
  return typeof reason === 'string' ? reason : message
}

// Where the prices come from, for operators.

/**
 * The sources of the catalog in use, and what an imported file and the configuration changed of the bundled one.
 * Yields to calls between steps. Rejects if an imported file is damaged.
 */
export async function catalogFileState(
  { data_dir, models }: Config,
  catalogs: Pick<ImportedCatalogs, 'latest'> | undefined,
): Promise<CatalogFileState> {
  const shared = await catalogs?.latest()
  const imported = shared ? shared.file !== null : await Bun.file(importedCatalogPath(data_dir)).exists()
  const bundled = bundledCatalog()
  await Bun.sleep(0)
  const file = !imported ? bundled : shared ? await catalogFileShared(shared) : catalogFileInUse(data_dir)
  await Bun.sleep(0)
  return {
    sources: file.sources.map(({ name, version, date }) => ({ name, version, date })),
    changes: imported ? fileChanges(bundled, file) : null,
    overrides: models,
  }
}

// Finds and watches local inference servers.

/**
 * Looks for inference servers periodically: those of the registry that the operator did not configure, and those that
 * the operator configured as free.
 */
export class Discovery {
  readonly #config: () => Pick<Config, 'providers' | 'local_servers' | 'store'>
  readonly #ownPort: number
  readonly #registry: readonly Provider[]
  readonly #known: KnownFacts = new Map()
  #last: ReadonlyMap<string, LocalServer> = new Map()

  /** `config` gives the settings in force; `ownPort`: where this gateway listens, which is not asked for models. */
  constructor(
    config: () => Pick<Config, 'providers' | 'local_servers' | 'store'>,
    ownPort: number,
    registry: readonly Provider[] = rows,
  ) {
    this.#config = config
    this.#ownPort = ownPort
    this.#registry = registry
  }

  /** Asks all of them at once, each for at most `local_servers.timeout_ms`. A busy server keeps its previous list. */
  async scan(): Promise<readonly LocalServer[]> {
    const asked = [...this.#unnamedProviders(), ...this.#namedProviders()].map(
      async (provider): Promise<LocalServer[]> => {
        const { id, baseUrl } = provider
        const listed = await modelsOf(provider, this.#config().local_servers.timeout_ms, this.#known)
        if (listed.kind === 'models') return [{ id, baseUrl, models: listed.models }]
        const before = this.#last.get(id)
        if (listed.kind === 'busy' && before) return [before]
        return this.#config().providers[id] === undefined ? [] : [{ id, baseUrl, models: [] }]
      },
    )
    const servers = (await Promise.all(asked)).flat()
    this.#last = new Map(servers.map((server) => [server.id, server]))
    return servers
  }

  #unnamedProviders(): readonly Provider[] {
    const { providers } = this.#config()
    if (!discovers(this.#config())) return []
    return this.#registry
      .filter(({ local, transport, baseUrl }) => local && transport === 'http' && baseUrl !== '')
      .filter(({ id }) => providers[id] === undefined)
      .filter(({ baseUrl }) => URL.parse(baseUrl)?.port !== String(this.#ownPort))
  }

  #namedProviders(): readonly ConfiguredProvider[] {
    const configured = configureProviders(this.#registry, this.#config().providers, new Set())
    return [...configured.values()].filter(({ id, transport, local }) => {
      const settings = this.#config().providers[id]
      return settings !== undefined && transport === 'http' && (settings.price === 'free' || local)
    })
  }
}

/** Gateways that share a database have the same models: what runs on one machine is none of theirs, unless the operator says so. */
export function discovers({ local_servers, store }: Pick<Config, 'local_servers' | 'store'>): boolean {
  return local_servers.discover ?? store.url === undefined
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
      replaceLive(live, liveOf(live.config, servers, live.file))
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
  /** The configuration in force. */
  config: Config
  catalog: Catalog
  providers: ReadonlyMap<string, ConfiguredProvider>
  /** Local servers that were found or configured; without models if they do not answer. */
  servers: readonly LocalServer[]
  /** The catalog file of this start, as one that is imported meanwhile is used from the next start on; or the one that gateways share. */
  file: CatalogFile
  /** Of the catalog that gateways share. */
  revision?: number
}

/** What can be called at a start, without local servers. Rejects if the imported catalog is damaged. */
export async function liveAtStart(config: Config, catalogs: ImportedCatalogs | undefined): Promise<Live> {
  if (catalogs === undefined) return liveOf(config, [])
  const shared = await catalogs.latest()
  return { ...liveOf(config, [], await catalogFileShared(shared)), revision: shared.revision }
}

/** Puts the catalog that gateways share in force, if it is another. Resolves with whether it is. Rejects if it is none for this version. */
export async function followCatalog(live: Live, catalogs: ImportedCatalogs): Promise<boolean> {
  if ((await catalogs.revision()) === live.revision) return false
  const shared = await catalogs.latest()
  live.revision = shared.revision
  const file = await catalogFileShared(shared)
  replaceLive(live, liveOf(live.config, live.servers, file))
  return true
}

const marksOfFiles = new WeakMap<CatalogFile, string>()

/** What is sold and at which prices, in short: other prices are another text. */
export function saleMark({ config, file }: Pick<Live, 'config' | 'file'>): string {
  const { models, aliases, catalog, premium, providers: named } = config
  let ofFile = marksOfFiles.get(file)
  if (ofFile === undefined)
    marksOfFiles.set(file, (ofFile = Bun.hash(JSON.stringify([file.models, file.unpriced])).toString(36)))
  const offered = Object.entries(named).map(([id, { disabled, price }]) => ({ id, disabled, price }))
  const sorted = offered.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return Bun.hash(JSON.stringify([ofFile, models, aliases, catalog, premium, sorted])).toString(36)
}

const compareEveryMs = 5_000

/** Tells other gateways what this one sells, and the log where they do not sell the same: once, when it stays so. */
export function keepComparing(
  live: Live,
  gateways: Pick<Gateways, 'tell' | 'list'>,
  log: Pick<Log, 'warn' | 'info'>,
  everyMs: number = compareEveryMs,
): { stop(): void } {
  let told: Catalog | undefined
  let looksApart = 0
  const compare = async () => {
    const { catalog } = live
    if (told !== catalog) await gateways.tell(saleMark(live))
    told = catalog
    const all = (await gateways.list()).filter(({ isSilent, sells }) => !isSilent && sells !== '')
    const apart = Map.groupBy(all, ({ sells }) => sells)
    if (apart.size < 2 && looksApart > 1) log.info('gateways have the same models and prices again')
    looksApart = apart.size < 2 ? 0 : looksApart + 1
    // What is imported comes to one gateway a moment before another.
    if (looksApart === 2)
      log.warn('gateways have different models or prices: their settings or versions differ', {
        gateways: [...apart.values()].map((same) => same.map(({ name }) => name)),
      })
  }
  return repeat(everyMs, compare, () => undefined)
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
    config,
    catalog: catalogInUse(config, Date.now, discovered, file),
    providers: configureProviders(rows, shareOfDeployments(config), new Set(servers.map(({ id }) => id))),
    servers,
    file,
  }
}

/** The providers of a configuration for one of its processes: the limits of deployments are those of all together. */
function shareOfDeployments({ providers, server: { processes } }: Config): Config['providers'] {
  if (processes === 1) return providers
  const share = (limit: number | undefined) => limit && Math.max(1, Math.floor(limit / processes))
  return Object.fromEntries(
    Object.entries(providers).map(([id, provider]) => [
      id,
      {
        ...provider,
        deployments: provider.deployments.map((each) => ({
          ...each,
          requests_per_minute: share(each.requests_per_minute),
          tokens_per_minute: share(each.tokens_per_minute),
          max_in_flight: share(each.max_in_flight),
        })),
      },
    ]),
  )
}

/** How long models are built without a turn for calls, milliseconds. */
const preparedForMs = 5

/**
 * Puts another catalog with its providers in force. Its models are built between calls from then on: the first list of
 * them would hold up everybody otherwise.
 */
export function replaceLive(live: Live, made: Live): void {
  Object.assign(live, made)
  void prepareModels(live)
}

async function prepareModels(live: Live): Promise<void> {
  const { catalog } = live
  let began = performance.now()
  for (const _ of catalog.prepare()) {
    if (performance.now() - began < preparedForMs) continue
    await new Promise<void>((resolve) => void setImmediate(resolve).unref())
    if (live.catalog !== catalog) return
    began = performance.now()
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
    member: (id) => live.catalog.member(id),
    routesTo: (id) => live.catalog.routesTo(id),
    list: (filter) => live.catalog.list(filter),
    prepare: () => live.catalog.prepare(),
    count: (servedBy) => live.catalog.count(servedBy),
  }
}

/** What is made of the configuration in force: anew when another is. */
export function perConfig<Made>(live: Pick<Live, 'config'>, make: (config: Config) => Made): () => Made {
  let of = live.config
  let made = make(of)
  return () => {
    if (of !== live.config) made = make((of = live.config))
    return made
  }
}
