// What all catalog file formats have in common.

import { z } from 'zod'
import { specOf } from '../prices/price-spec.ts'
import type { Model } from '../model.ts'
import type { CatalogRow, UnpricedModel } from '../row.ts'

export interface Imported {
  readonly rows: CatalogRow[]
  /** Models of the file that cannot be sold, with the reason. */
  readonly refused: UnpricedModel[]
}

export interface Exported {
  readonly text: string
  /** Models that the format cannot express exactly, with the reason; they are left out of the text. */
  readonly left: UnpricedModel[]
}

/** A file does not have the expected format. `message` names the first fault. */
export class CatalogFileInvalid extends Error {}

/** Parses JSON and checks its shape. Throws CatalogFileInvalid with the path of the first problem. */
export function parseFile<T>(text: string, schema: z.ZodType<T>): T {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    throw new CatalogFileInvalid('the file is not JSON', { cause })
  }
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  throw new CatalogFileInvalid(`${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'wrong shape'}`)
}

/** The row that builds this model again, with every rate written out. */
export function rowOf(model: Model): CatalogRow {
  const [first] = model.offers
  const name = model.id.slice(model.id.indexOf('/') + 1)
  const plain =
    model.offers.length === 1 &&
    first?.provider === model.id.slice(0, model.id.indexOf('/')) &&
    first.upstream === name
  return {
    id: model.id,
    name: model.name,
    ...(model.description === '' ? {} : { description: model.description }),
    owned_by: model.ownedBy,
    ...(model.created === 0 ? {} : { created: model.created }),
    ...(model.contextLength === undefined ? {} : { context_length: model.contextLength }),
    ...(model.maxOutputTokens === undefined ? {} : { max_output_tokens: model.maxOutputTokens }),
    input: [...model.inputModalities],
    output: [...model.outputModalities],
    reasoning: model.reasoning,
    parameters: [...model.supportedParameters],
    ...(first === undefined ? {} : { price: specOf(first.price) }),
    ...(plain
      ? {}
      : {
          offers: model.offers.map(({ provider, upstream, price }) => ({
            provider,
            upstream,
            price: specOf(price),
          })),
        }),
    premium: model.premium,
    ...(model.deprecation === undefined ? {} : { retires_on: model.deprecation.retiresOn }),
    ...(model.deprecation?.successor === undefined ? {} : { successor: model.deprecation.successor }),
    source: model.priceSource,
    date: model.priceDate,
  }
}
