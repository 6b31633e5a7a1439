// `weir models`

import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { bundledCatalog, type FileChanges, fileChanges } from '../../catalog/bundled/bundled.ts'
import { buildPrice, type CatalogFile, type CatalogRow, type Model, PriceRefused } from '../../catalog/row.ts'
import { modelObject } from '../../catalog/wire.ts'
import { readTextFile } from '../../config/config.ts'
import { formatUsdPerMillion } from '../../credits/money.ts'
import {
  answering,
  Discovery,
  importedCatalogPath,
  liveOf,
  parseCatalogFile,
} from '../../serve/gateway/catalog.ts'
import { plural } from '../../text/text.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { isUsersChoice } from '../gateway-address.ts'
import { catalogFileIn, commandLineOperator, serverIn, withNewStore } from '../with-store.ts'

/**
 * Lists the models that are sold, with the price of the first offer: all, or with --available those that can be called
 * now. At a terminal, the latter are also the default if a provider is configured or a local server runs.
 */
export async function listModels(context: Context, invocation: Invocation): Promise<void> {
  const { config, io, json } = context
  if (invocation.flag('available') && invocation.flag('all'))
    throw usageFault('--available or --all, not both')
  // Servers are asked with their keys: only those that the user chose.
  const asked = Object.entries(config.providers).filter(
    ([id, { base_url: url }]) =>
      url === undefined || isUsersChoice(context, ['providers', id, 'base_url'], url),
  )
  const chosen = { ...config, providers: Object.fromEntries(asked) }
  const found = await new Discovery(() => chosen, config.server.port).scan()
  const live = liveOf(config, found, await catalogFileIn(context))
  const { catalog, providers } = live
  const able = answering(live)
  const isOurs = [...able].some((id) => providers.get(id)?.transport === 'http')
  const bySelf = !json && io.terminal === true && isOurs && !invocation.flag('all')
  const servedBy = invocation.flag('available') || bySelf ? able : undefined
  const [q] = invocation.args
  const models = catalog.list({ servedBy, ...(q === undefined ? {} : { q }) })
  const rows = models.map((model) => {
    const { input, output } = model.offers[0]!.price.rates
    const context_length = model.contextLength?.toLocaleString('en-US') ?? '-'
    const notes = [model.premium ? 'premium' : '', model.flashClass ? 'flash class' : '']
      .filter(Boolean)
      .join(', ')
    return [model.id, formatUsdPerMillion(input), formatUsdPerMillion(output), context_length, notes]
  })
  const heading = ['MODEL', 'INPUT USD/M', 'OUTPUT USD/M', 'CONTEXT', '']
  const which = servedBy ? ' that can be called now (--all lists the whole catalog)' : ''
  const footer = `${plural(models.length, 'model')}${which}, prices of ${catalog.date}`
  print(context, { json: models.map(modelView), text: `${table(heading, rows)}\n${footer}` })
}

/** Prices as in GET /v1/models: decimal strings, US dollars per token, with fees and the rates of longer prompts. */
function modelView(model: Model) {
  return {
    id: model.id,
    name: model.name,
    owned_by: model.ownedBy,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    architecture: { input_modalities: model.inputModalities, output_modalities: model.outputModalities },
    pricing: modelObject(model).pricing,
    supported_parameters: model.supportedParameters,
    access: model.premium ? 'premium' : 'open',
    flash_class: model.flashClass,
    price_source: model.priceSource,
    price_date: model.priceDate,
    deprecation: model.deprecation ?? null,
  }
}

// `weir catalog diff|import|export FILE`

/** Differences between a catalog file and the catalog in use, by model. */
export async function diffCatalog(context: Context, invocation: Invocation): Promise<void> {
  const { path, file } = readCatalog(context, invocation)
  const changes = fileChanges(await catalogFileIn(context), file)
  print(context, { json: { file: path, ...changes }, text: renderChanges(changes) })
}

/**
 * Replaces the catalog with a file, or with the bundled one again. Refused as a whole if one of its prices cannot be charged
 * exactly, or a model is in it twice: nobody could say at which price it is sold.
 */
export async function importCatalog(context: Context, invocation: Invocation): Promise<void> {
  const isBundled = invocation.flag('bundled')
  if (isBundled === invocation.args.length > 0) throw usageFault('a file or --bundled, one of the two')
  const file = isBundled ? bundledCatalog() : soundCatalog(context, invocation)
  const changes = fileChanges(await catalogFileIn(context), file)
  const { target, when } = await putCatalog(context, isBundled ? null : file)
  const text = `${renderChanges(changes)}\n${plural(file.models.length, 'model')}, prices of ${file.date}: ${when}`
  print(context, { json: { file: target, date: file.date, models: file.models.length, ...changes }, text })
}

/** Where several gateways share a database it is for all of them; null is the bundled one. */
async function putCatalog(
  context: Context,
  file: CatalogFile | null,
): Promise<{ readonly target: string; readonly when: string }> {
  const { config, io } = context
  const server = serverIn(context)
  if (server !== undefined) {
    const at = io.clock()
    const after = file && { date: file.date, models: file.models.length }
    const act = {
      at,
      operator: commandLineOperator(),
      what: 'catalog.import',
      subject: 'catalog',
      before: null,
      after,
    }
    await withNewStore(context, ({ catalogs }) => catalogs!.append(file && JSON.stringify(file), act))
    return { target: server, when: 'in use at every gateway within a second' }
  }
  const target = importedCatalogPath(config.data_dir)
  const when = 'in use from the next start on'
  if (file === null) rmSync(target, { force: true })
  else {
    mkdirSync(config.data_dir, { recursive: true, mode: 0o700 })
    writeFileSync(`${target}.new`, `${JSON.stringify(file)}\n`)
    // A rename replaces the old file atomically: a start meanwhile reads one or the other.
    renameSync(`${target}.new`, target)
  }
  return { target, when }
}

function soundCatalog(context: Context, invocation: Invocation): CatalogFile {
  const { path, file } = readCatalog(context, invocation)
  const ids = new Set<string>()
  const twice = new Set<string>()
  for (const { id } of file.models) (ids.has(id) ? twice : ids).add(id)
  if (twice.size > 0)
    throw new CommandFailure(`${path} has models twice: ${[...twice].slice(0, 10).join(', ')}`)
  const faults = file.models.flatMap(priceFaults)
  if (faults.length > 0) {
    throw new CommandFailure(
      `${path} has prices that cannot be charged exactly:\n${faults.slice(0, 10).join('\n')}`,
    )
  }
  return file
}

/** Writes the catalog in use to a file, `-` for standard output. */
export async function exportCatalog(context: Context, invocation: Invocation): Promise<void> {
  const file = await catalogFileIn(context)
  const text = `${JSON.stringify(file, null, 1)}\n`
  const [target = '-'] = invocation.args
  if (target === '-') {
    context.io.out(text)
    return
  }
  const path = resolve(context.io.cwd, target)
  writeFileSync(path, text)
  print(context, {
    json: { file: path, date: file.date, models: file.models.length },
    text: `wrote ${plural(file.models.length, 'model')}, prices of ${file.date}, to ${path}`,
  })
}

function readCatalog(context: Context, invocation: Invocation): { path: string; file: CatalogFile } {
  const path = resolve(context.io.cwd, invocation.args[0] ?? '')
  const text = readTextFile(path)
  if (text === undefined) throw new CommandFailure(`there is no file ${path}`)
  return { path, file: parseCatalogFile(path, text) }
}

function renderChanges({ added, removed, changed }: FileChanges): string {
  const lines = [
    ...added.map((id) => `+ ${id}`),
    ...removed.map((id) => `- ${id}`),
    ...changed.flatMap(({ id, fields }) =>
      Object.entries(fields).map(
        ([name, { from, to }]) => `~ ${id} ${name}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`,
      ),
    ),
  ]
  return lines.length === 0 ? 'no difference' : lines.join('\n')
}

function priceFaults(row: CatalogRow): string[] {
  const stated = [...(row.later_prices ?? []), ...(row.offers ?? [])].map(({ price }) => price)
  const prices = [row.price, ...stated].filter((price) => price !== undefined)
  try {
    for (const price of prices) buildPrice(price)
    return []
  } catch (thrown) {
    if (thrown instanceof PriceRefused) return [`  ${row.id}: ${thrown.message}`]
    throw thrown
  }
}
