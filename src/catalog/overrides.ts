// Models from the configuration and from local servers, as catalog rows.

import { z } from 'zod'
import { effortWords } from './efforts.ts'
import { freePrice, priceSpecSchema, type PriceSpec } from './prices/price-spec.ts'
import { modalities, type CatalogRow } from './row.ts'

/** A price in weir.yaml: USD per million tokens as strings, or `free`. `audio` and `image` set input and output. */
const priceSchema = z
  .lazy(() =>
    z.union([z.literal('free'), spec()], {
      error: 'give at least input and output as strings of USD per million tokens, or the word free',
    }),
  )
  .transform((written): PriceSpec => {
    if (written === 'free') return freePrice
    const { audio, image, ...spec } = written
    return {
      ...(audio === undefined ? {} : { input_audio: audio, output_audio: audio }),
      ...(image === undefined ? {} : { input_image: image, output_image: image }),
      ...spec,
    }
  })

function spec() {
  const { cache_read: shorthand } = priceSpecSchema.unwrap().shape
  return priceSpecSchema.unwrap().extend({ audio: shorthand, image: shorthand })
}

const offerSchema = z.lazy(() =>
  z.strictObject({
    provider: z.string().min(1).describe('A provider of this configuration or of the registry.'),
    upstream: z.string().min(1).describe('The name that this provider knows the model by.'),
    price: priceSchema.optional().describe("What this provider charges; the model's price when absent."),
  }),
)

/**
 * An entry of `models:` in weir.yaml. It adds a model or overrides fields of one in the catalog. A price is replaced as
 * a whole, since a mixture of two prices would be wrong, and so are those of the catalog's offers: what the operator
 * states is what is charged.
 */
export const modelOverrideSchema = z.lazy(() =>
  z.strictObject({
    id: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*\/\S+$/, 'a model id has the form provider/model_name')
      .describe('The id that clients send: provider/model_name.'),
    upstream: z
      .string()
      .min(1)
      .optional()
      .describe('The name the provider knows; the part after the first slash.'),
    name: z.string().min(1).optional().describe('A name for people.'),
    description: z.string().optional().describe('One line on what it is good for.'),
    owned_by: z.string().min(1).optional().describe('Who made it.'),
    price: priceSchema
      .optional()
      .describe(
        "USD per million tokens as decimal strings, or the word free; the catalog's offers cost this, too.",
      ),
    context_length: z.int().positive().optional().describe('Tokens of prompt and output together.'),
    max_output_tokens: z.int().positive().optional().describe('The most it writes in one answer.'),
    input_modalities: z.array(z.enum(modalities)).min(1).optional().describe('What it reads; text.'),
    output_modalities: z.array(z.enum(modalities)).min(1).optional().describe('What it writes; text.'),
    supported_parameters: z.array(z.string()).optional().describe('The request parameters it honours.'),
    reasoning: z.boolean().optional().describe('Whether it reasons before it answers.'),
    efforts: z
      .array(z.enum(effortWords))
      .optional()
      .describe('The reasoning efforts it takes; an empty list where it cannot be told how hard to reason.'),
    premium: z
      .boolean()
      .optional()
      .describe('Open only to accounts with purchased credit; else the price decides.'),
    retires_on: z.iso.date().optional().describe('The last day on which the provider serves it.'),
    successor: z.string().optional().describe('The id to use afterwards.'),
    offers: z.array(offerSchema).min(1).optional().describe('Who serves it, in order of preference.'),
  }),
)

export type ModelOverride = z.infer<typeof modelOverrideSchema>

/**
 * The row of an override, with the bundled row if there is one. A retired model is available again if it is in the
 * configuration: the operator knows of a server that still has it.
 */
export function overridden(row: CatalogRow | undefined, override: ModelOverride, today: string): CatalogRow {
  const { input_modalities, output_modalities, supported_parameters, price, ...same } = override
  const { retires_on: _retiresOn, successor: _successor, later_prices: later, offers, ...kept } = row ?? {}
  return {
    source: 'configuration',
    date: today,
    ...kept,
    ...(later === undefined || price !== undefined ? {} : { later_prices: later }),
    ...(offers === undefined ? {} : { offers: offers.map((offer) => overriddenOffer(offer, override)) }),
    ...same,
    ...(input_modalities === undefined ? {} : { input: input_modalities }),
    ...(output_modalities === undefined ? {} : { output: output_modalities }),
    ...(supported_parameters === undefined ? {} : { parameters: supported_parameters }),
    ...(price === undefined ? {} : { price, source: 'configuration', date: today }),
  }
}

type Offer = NonNullable<CatalogRow['offers']>[number]

/**
 * An offer of the catalog under an override that has none: the operator's price is charged whoever serves the model, and
 * the operator's name for it is that of the provider in its id.
 */
function overriddenOffer({ price, ...offer }: Offer, override: ModelOverride): Offer {
  const isOwn = override.id.startsWith(`${offer.provider}/`)
  return {
    ...offer,
    ...(isOwn && override.upstream !== undefined ? { upstream: override.upstream } : {}),
    // Without a price of its own, an offer is at the model's.
    ...(price === undefined || override.price !== undefined ? {} : { price }),
  }
}
