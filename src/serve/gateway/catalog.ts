// This installation's catalog: the imported or bundled file, overridden by the configuration.

import { join } from 'node:path'
import { bundledCatalog, bundledRows } from '../../catalog/bundled/bundled.ts'
import { buildCatalog, type Catalog, defaultPremiumRule } from '../../catalog/catalog.ts'
import {
  type CatalogFile,
  catalogFileSchema,
  type CatalogRow,
  fileChanges,
  type ModelOverride,
} from '../../catalog/row.ts'
import { freePrice } from '../../catalog/prices/price-spec.ts'
import { type Config, readTextFile } from '../../config/config.ts'
import { parseUsdPerMillion } from '../../credits/money.ts'
import type { CatalogFileState } from '../../http/parts.ts'
import { configureProvider, ignoredParameters } from '../../providers/provider.ts'
import { providerById, providers } from '../../providers/registry.ts'

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

/** Parses and checks a catalog file. Throws with its first faults. */
export function parseCatalogFile(path: string, text: string): CatalogFile {
  let json: unknown
  try {
    // Editors on Windows begin a file with a byte order mark, which RFC 8259 lets a reader ignore.
    json = JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (cause) {
    throw new Error(`${path} is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
  const parsed = catalogFileSchema.safeParse(json)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues
    .slice(0, 10)
    .map(({ path: at, message }) => `  ${at.join('.')}: ${message}`)
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

function hasPrice({ price, offers = [] }: CatalogRow): boolean {
  return price !== undefined || offers.some((offer) => offer.price !== undefined)
}

function isLocalServer(id: string): boolean {
  const row = providerById(id)
  return row !== undefined && row.local && row.transport === 'http'
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
  const rows = [...local, ...bundledRows(file)]
  const priced = new Set(rows.filter(hasPrice).map(({ id }) => id))
  const outputAtLeast =
    parseUsdPerMillion(config.premium.output_usd_per_million) ?? defaultPremiumRule.outputAtLeast
  return buildCatalog({
    rows,
    unpriced: file.unpriced,
    overrides: config.models.map((entry) => withLocalPrice(entry, config, priced)),
    premiumRule: { outputAtLeast },
    providersKnown: providersInService(config),
    ignored: (id, upstream, reasoning) =>
      ignoredParameters(configureProvider(id, providerById(id), config.providers[id]), upstream, reasoning),
    today: utcDay(now),
    date: file.date,
  })
}

// Where the prices come from, for operators.

/**
 * The sources of the catalog in use, and what an imported file and the configuration changed of the bundled one.
 * Yields to calls between steps. Rejects if an imported file is damaged.
 */
export async function catalogFileState({ data_dir, models }: Config): Promise<CatalogFileState> {
  const imported = await Bun.file(importedCatalogPath(data_dir)).exists()
  const bundled = bundledCatalog()
  await Bun.sleep(0)
  const file = imported ? catalogFileInUse(data_dir) : bundled
  await Bun.sleep(0)
  return {
    sources: file.sources.map(({ name, version, date }) => ({ name, version, date })),
    changes: imported ? fileChanges(bundled, file) : null,
    overrides: models,
  }
}
