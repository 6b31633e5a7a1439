// The catalog file and its lines: facts and prices as written, before prices are converted to bigint.

import { z } from 'zod'
import { effortWords } from './efforts.ts'
import { priceSpecSchema, type PriceSpec } from './prices/price-spec.ts'

export const modalities = ['text', 'image', 'audio', 'video', 'file', 'embeddings'] as const

const isoDate = z.iso.date()
const modalityList = z.array(z.enum(modalities)).min(1)

const offerSchema = () =>
  z.strictObject({
    provider: z.string().min(1),
    upstream: z.string().min(1),
    /** The model's own price if absent. */
    price: priceSpecSchema.unwrap().optional(),
  })

/**
 * A model as described by a source, a file or the configuration. What is absent is unknown, except: modalities
 * default to text, `upstream` to the part of the id after the first slash.
 */
const row = () =>
  z.strictObject({
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
    /** Its efforts, instead of those in efforts.json; empty if its effort cannot be set. */
    efforts: z.array(z.enum(effortWords)).optional(),
    /** The name of a set in parameters.ts, or the list itself. */
    parameters: z.union([z.string(), z.array(z.string())]).optional(),
    price: priceSpecSchema.unwrap().optional(),
    /** Prices that replace this one, each from a UTC day on. */
    later_prices: z
      .array(z.strictObject({ from: isoDate, price: priceSpecSchema.unwrap() }))
      .min(1)
      .optional(),
    /** Its offers in order of preference, if its own provider is not the only one. */
    offers: z.array(offerSchema()).min(1).optional(),
    /** Overrides the rule by output price. */
    premium: z.boolean().optional(),
    retires_on: isoDate.optional(),
    successor: z.string().optional(),
    source: z.string(),
    date: isoDate,
  })

export const rowSchema = z.lazy(row)
export type CatalogRow = Readonly<z.infer<typeof rowSchema>>

/** The price of a row on a UTC day: the latest that has begun. */
export function priceOn({ price, later_prices: later = [] }: CatalogRow, day: string): PriceSpec | undefined {
  return later.reduce<{ from: string; price: PriceSpec | undefined }>(
    (latest, next) => (next.from <= day && next.from >= latest.from ? next : latest),
    { from: '', price },
  ).price
}

/** A model in a source that cannot be sold: it has no price, or none that can be charged exactly. */
export const unpricedSchema = z.strictObject({ id: z.string(), reason: z.string() })
export type UnpricedModel = z.infer<typeof unpricedSchema>

export const catalogFileSchema = z.lazy(() =>
  z.strictObject({
    /** The date of the newest source; prices may have changed since. */
    date: isoDate,
    sources: z.array(
      z.strictObject({ name: z.string(), version: z.string(), date: isoDate, license: z.string() }),
    ),
    models: z.array(row()),
    unpriced: z.array(unpricedSchema),
  }),
)

export type CatalogFile = z.infer<typeof catalogFileSchema>
