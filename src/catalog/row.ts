// One line of the catalog file, and the file as a whole: facts and prices as written, before any bigint is made.

import { z } from 'zod'
import { effortWords } from './efforts.ts'
import { priceSpecSchema } from './prices/price-spec.ts'

export const modalities = ['text', 'image', 'audio', 'video', 'file', 'embeddings'] as const

const isoDate = z.iso.date()
const modalityList = z.array(z.enum(modalities)).min(1)

const offerSchema = z.strictObject({
  provider: z.string().min(1),
  upstream: z.string().min(1),
  /** The model's own price where it is absent. */
  price: priceSpecSchema.optional(),
})

/**
 * A model as a source, a file or the configuration describes it. What is absent is unknown, apart from: text in and text out where no modality is named, the
 * part of the id after the first slash where no upstream is.
 */
export const rowSchema = z.strictObject({
  id: z.string().min(3),
  name: z.string().min(1).optional(),
  description: z.string().optional(),
  upstream: z.string().min(1).optional(),
  owned_by: z.string().min(1).optional(),
  created: z.int().nonnegative().optional(),
  context_length: z.int().positive().optional(),
  max_output_tokens: z.int().positive().optional(),
  input: modalityList.optional(),
  output: modalityList.optional(),
  reasoning: z.boolean().optional(),
  /** The efforts it takes, instead of those in efforts.json; empty if its effort cannot be set. */
  efforts: z.array(z.enum(effortWords)).optional(),
  /** The name of a set in parameters.ts, or the list itself. */
  parameters: z.union([z.string(), z.array(z.string())]).optional(),
  price: priceSpecSchema.optional(),
  /** Who serves it, in order of preference, where that is not its own provider alone. */
  offers: z.array(offerSchema).min(1).optional(),
  /** Said here, it overrules the rule of the output price. */
  premium: z.boolean().optional(),
  retires_on: isoDate.optional(),
  successor: z.string().optional(),
  source: z.string(),
  date: isoDate,
})

export type CatalogRow = Readonly<z.infer<typeof rowSchema>>

/** A model in a source that cannot be sold: it has no price, or not one that can be charged exactly. */
export const unpricedSchema = z.strictObject({ id: z.string(), reason: z.string() })
export type UnpricedModel = z.infer<typeof unpricedSchema>

export const catalogFileSchema = z.strictObject({
  /** The youngest source's date: no price in the file is known to hold after it. */
  date: isoDate,
  sources: z.array(
    z.strictObject({ name: z.string(), version: z.string(), date: isoDate, license: z.string() }),
  ),
  models: z.array(rowSchema),
  unpriced: z.array(unpricedSchema),
})

export type CatalogFile = z.infer<typeof catalogFileSchema>
