// The bundled catalog, and how another file differs from it. The text is parsed on demand, so that nothing is parsed
// twice at the start.

import { isDeepStrictEqual } from 'node:util'
import { type CatalogFile, type CatalogRow, freePrice, type PriceSpec } from '../row.ts'
import catalogText from './catalog.json' with { type: 'text' }

/** The committed catalog as it is; test/catalog checks every line of it against its schema. */
export function bundledCatalog(): CatalogFile {
  return JSON.parse(String(catalogText)) as CatalogFile
}

/** All rows without configuration: the catalog's and the simulator's. */
export function bundledRows(file: CatalogFile): readonly CatalogRow[] {
  return [...simModels, ...file.models]
}

// The models of the `sim` provider, which answers inside this process: for trying the gateway and for tests.

// Within the limits of flash class, so that every pool can pay for them.
const flash: PriceSpec = {
  input: '0.50',
  cache_read: '0.05',
  cache_write: '0.50',
  output: '2.00',
  input_audio: '0.50',
}

const models: readonly (Pick<CatalogRow, 'id' | 'name' | 'description'> & Partial<CatalogRow>)[] = [
  { id: 'sim/echo', name: 'Echo', description: 'Repeats the last message of the user.' },
  { id: 'sim/tools', name: 'Tools', description: 'Calls the tools that the request offers.' },
  {
    id: 'sim/search:free',
    name: 'Search',
    description:
      'Calls the tools that the request offers and costs nothing itself: a web search and no more.',
    price: freePrice,
  },
  { id: 'sim/json', name: 'JSON', description: 'Answers with JSON that fits the requested schema.' },
  { id: 'sim/reason', name: 'Reason', description: 'Reasons before it answers.', reasoning: true },
  { id: 'sim/long', name: 'Long', description: 'Writes until the limit of the request.' },
  { id: 'sim/slow', name: 'Slow', description: 'Takes its time before and between tokens.' },
  { id: 'sim/error-429', name: 'Error 429', description: 'Always limits the rate.' },
  { id: 'sim/error-500', name: 'Error 500', description: 'Always fails.' },
  { id: 'sim/cut', name: 'Cut', description: 'Breaks off in the middle of its answer.' },
  { id: 'sim/hang', name: 'Hang', description: 'Never answers.' },
  {
    id: 'sim/embed',
    name: 'Embed',
    description: 'Turns texts into vectors of length one, the same for the same text.',
    context_length: 8_192,
    input: ['text'],
    output: ['embeddings'],
    parameters: 'embeddings',
    price: { input: '0.02', output: '0' },
    max_output_tokens: undefined,
  },
  {
    id: 'sim/premium',
    name: 'Premium',
    description: 'Echo at the price of a premium model, with a higher rate above 200,000 prompt tokens.',
    price: {
      input: '5.00',
      cache_read: '0.50',
      cache_write: '6.25',
      cache_write_1h: '10.00',
      output: '30.00',
      tiers: [
        {
          above_prompt_tokens: 200_000,
          input: '10.00',
          cache_read: '1.00',
          cache_write: '12.50',
          cache_write_1h: '20.00',
          output: '45.00',
        },
      ],
    },
  },
]

export const simModels: readonly CatalogRow[] = models.map((model) => ({
  owned_by: 'weir',
  context_length: 1_000_000,
  max_output_tokens: 65_536,
  input: ['text', 'image'],
  parameters: 'simulator',
  price: flash,
  source: 'simulator',
  date: '2026-11-01',
  ...model,
}))

// How one catalog file differs from another, row by row and field by field, as they are written.

export interface FileChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly { readonly id: string; readonly fields: Readonly<Record<string, FieldChange>> }[]
}

interface FieldChange {
  readonly from: unknown
  readonly to: unknown
}

/** What would change if `to` were used in place of `from`; a row's source and date do not count. */
export function fileChanges(from: CatalogFile, to: CatalogFile): FileChanges {
  const before = new Map(from.models.map((row) => [row.id, row]))
  const after = new Map(to.models.map((row) => [row.id, row]))
  const changed = [...after.values()].flatMap((row) => {
    const old = before.get(row.id)
    const fields = old ? fieldChanges(old, row) : {}
    return Object.keys(fields).length === 0 ? [] : [{ id: row.id, fields }]
  })
  return {
    added: [...after.keys()].filter((id) => !before.has(id)),
    removed: [...before.keys()].filter((id) => !after.has(id)),
    changed,
  }
}

function fieldChanges(from: CatalogRow, to: CatalogRow): Record<string, FieldChange> {
  const old: ReadonlyMap<string, unknown> = new Map(Object.entries(from))
  const young: ReadonlyMap<string, unknown> = new Map(Object.entries(to))
  const names = [...new Set([...old.keys(), ...young.keys()])].filter(
    (name) => name !== 'source' && name !== 'date',
  )
  const different = names.filter((name) => !isDeepStrictEqual(old.get(name), young.get(name)))
  return Object.fromEntries(
    different.map((name) => [name, { from: old.get(name) ?? null, to: young.get(name) ?? null }]),
  )
}
