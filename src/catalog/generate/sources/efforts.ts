// Makes the table of efforts: from the source, for other names of the same model, and from decisions.

import { z } from 'zod'
import { effortWords } from '../../efforts.ts'
import type { CatalogRow } from '../../row.ts'
import type { SourceModel } from './source.ts'

export const decidedSchema = z.array(
  z.strictObject({
    /** A regular expression over model ids. */
    models: z.string(),
    efforts: z.string(),
    why: z.string().min(10),
    source: z.url(),
  }),
)
export type Decided = z.infer<typeof decidedSchema>[number]

/** Routers that choose the nearest effort themselves; of their models it only matters whether they reason. */
const routers: ReadonlySet<string> = new Set(['openrouter', 'vercel'])
/** Their protocols tell models apart by family: see `traitsOf` and `familyOf` there. */
const byFamily: ReadonlySet<string> = new Set(['anthropic', 'gemini', 'vertex', 'bedrock', 'cohere'])
/** They serve another provider's models. */
const sameModels: Readonly<Record<string, string>> = { azure: 'openai' }
/** A name with a date at its end is a version of the model. */
const versionDate = /-\d{4}-\d{2}-\d{2}$/

/** A source's map of levels in the file's notation; undefined if a level would have to be guessed. */
export function effortsIn({ reasoning, levels }: SourceModel): string | undefined {
  if (reasoning === false) return ''
  const complete = (['minimal', 'low', 'medium', 'high'] as const).every(
    (level) => levels?.[level] !== undefined,
  )
  if (!complete) return undefined
  const words = effortWords.flatMap((word): string[] => {
    const wire = levels?.[word === 'none' ? 'off' : word]
    if (wire == null) return []
    return [wire === word ? word : `${word}=${wire}`]
  })
  return words.join(' ')
}

/** The efforts of these rows by id; `stated` by provider and by name there. */
export function effortTable(
  rows: readonly CatalogRow[],
  stated: ReadonlyMap<string, string>,
  decided: readonly Decided[],
): Record<string, string> {
  const table: Record<string, string> = {}
  for (const { id } of rows) {
    const efforts =
      decided.find(({ models }) => new RegExp(models).test(id))?.efforts ?? statedFor(id, stated)
    if (efforts === undefined || byFamily.has(providerOf(id))) continue
    if (routers.has(providerOf(id)) && efforts !== '') continue
    table[id] = efforts
  }
  return table
}

function statedFor(id: string, stated: ReadonlyMap<string, string>): string | undefined {
  const provider = providerOf(id)
  const twin = sameModels[provider]
  const names = [id, ...(twin === undefined ? [] : [id.replace(provider, twin)])]
  for (const name of names) {
    const efforts = stated.get(name) ?? stated.get(name.replace(versionDate, ''))
    if (efforts !== undefined) return efforts
  }
  return undefined
}

function providerOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}
