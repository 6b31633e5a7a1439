// The gateway's own catalog format: every fact of every model, rates as decimal strings, nothing rounded.

import { z } from 'zod'
import type { Model } from '../model.ts'
import { rowSchema } from '../row.ts'
import { parseFile, rowOf, type Exported, type Imported } from './format.ts'

const fileSchema = z.object({
  format: z.literal('weir-catalog'),
  version: z.literal(1),
  date: z.iso.date(),
  models: z.array(rowSchema),
})

/** The models as one JSON text, one line each. Importing it gives the same models with the same price versions. */
export function exportOwn(models: readonly Model[], date: string): Exported {
  const lines = models.map((model) => JSON.stringify(rowOf(model)))
  const text = `{"format":"weir-catalog","version":1,"date":${JSON.stringify(date)},"models":[\n${lines.join(',\n')}\n]}\n`
  return { text, left: [] }
}

/** Throws CatalogFileInvalid for an invalid file, also if one of its prices cannot be charged exactly. */
export function importOwn(text: string): Imported {
  return { rows: parseFile(text, fileSchema).models, refused: [] }
}
