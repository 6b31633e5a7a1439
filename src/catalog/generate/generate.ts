// `bun run catalog:generate [--pi FOLDER]`: writes catalog.json and efforts.json from their sources. For developers; it
// is not in the executable. Fails, and writes nothing, if a disagreement about a price is not in acknowledged.json.

import { parseArgs } from 'node:util'
import { z } from 'zod'
import { type CatalogFile, catalogFileSchema } from '../row.ts'
import {
  acknowledgementsSchema,
  billedAsSchema,
  type CatalogSource,
  decidedSchema,
  effortsIn,
  effortTable,
  genaiPrices,
  type Merged,
  mergeProvider,
  pi,
  withBilledAs,
} from './sources/merge.ts'
import { coveredProviders } from './sources/providers.ts'

const here = import.meta.dir
const lifecycleSchema = z.record(
  z.string(),
  z.strictObject({ retires_on: z.iso.date(), successor: z.string().optional() }),
)

async function generate(piFolder: string): Promise<boolean> {
  const piSource = await pi(piFolder)
  const sources = { genai: await genaiPrices(piSource.date), pi: piSource }
  const acknowledged = acknowledgementsSchema.parse(await Bun.file(`${here}/acknowledged.json`).json())
  const lifecycle = lifecycleSchema.parse(await Bun.file(`${here}/lifecycle.json`).json())
  const billedAs = billedAsSchema.parse(await Bun.file(`${here}/billed-as.json`).json())
  const all: Merged[] = []
  for (const provider of coveredProviders)
    all.push(await mergeProvider(provider, sources, acknowledged, lifecycle))

  const open = all.flatMap((merged) => merged.open)
  const used = new Set(all.flatMap((merged) => merged.used))
  const idle = acknowledged.filter(({ model }) => !used.has(model))
  for (const { model, differs } of open) console.error(JSON.stringify({ model, differs }))
  for (const { model } of idle)
    console.error(`${model}: acknowledged, but the sources agree or have changed; remove it`)
  if (open.length > 0 || idle.length > 0) {
    console.error(`${open.length} open disagreements, ${idle.length} idle acknowledgements: nothing written`)
    return false
  }

  const listed = Object.values(sources).map(({ name, version, date, license }) => ({
    name,
    version,
    date,
    license,
  }))
  const file: CatalogFile = {
    date:
      listed
        .map(({ date }) => date)
        .toSorted()
        .at(-1) ?? '',
    sources: listed,
    models: withBilledAs(
      all.flatMap((merged) => merged.rows),
      billedAs,
    ),
    unpriced: all.flatMap((merged) => merged.unpriced),
  }
  await Bun.write(`${here}/../bundled/catalog.json`, print(catalogFileSchema.parse(file)))
  await Bun.write(`${here}/../efforts.json`, await efforts(piSource, file))
  console.error(`${file.models.length} models, ${file.unpriced.length} unpriced, as of ${file.date}`)
  return true
}

/** The table of efforts, one line per model. */
async function efforts(piSource: CatalogSource, file: CatalogFile): Promise<string> {
  const stated = new Map<string, string>()
  for (const { id, pi: name } of coveredProviders) {
    for (const model of await piSource.models(name)) {
      const words = effortsIn(model)
      if (words !== undefined) stated.set(`${id}/${model.names[0]!}`, words)
    }
  }
  const decided = decidedSchema.parse(await Bun.file(`${here}/efforts-decided.json`).json())
  const table = Object.entries(effortTable(file.models, stated, decided)).toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  )
  const lines = table.map(([id, words]) => `${JSON.stringify(id)}:${JSON.stringify(words)}`)
  const { name, version, date } = piSource
  const sources = [{ name, version, date }, { name: 'efforts-decided.json' }]
  return `{"sources":${JSON.stringify(sources)},\n"models":{\n${lines.join(',\n')}\n}}\n`
}

/** One line per model, so that a changed price changes one line. */
function print(file: CatalogFile): string {
  const lines = (list: readonly unknown[]) => `[\n${list.map((item) => JSON.stringify(item)).join(',\n')}\n]`
  const head = `"date":${JSON.stringify(file.date)},\n"sources":${lines(file.sources)},`
  return `{${head}\n"models":${lines(file.models)},\n"unpriced":${lines(file.unpriced)}}\n`
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { pi: { type: 'string' } } })
  try {
    const written = await generate(values.pi ?? `${here}/../../../node_modules/@earendil-works/pi-ai`)
    process.exitCode = written ? 0 : 1
  } catch (problem) {
    console.error(problem instanceof Error ? problem.message : problem)
    process.exitCode = 1
  }
}
