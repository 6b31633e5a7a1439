// The `api.json` format of models.dev: providers with their models, prices in USD per million tokens as JSON numbers.

import { z } from 'zod'
import { decimalOf } from '../prices/decimal.ts'
import type { Model } from '../model.ts'
import { buildPrice, PriceRefused, specOf, type PriceSpec } from '../prices/price-spec.ts'
import { modalities, type CatalogRow, type UnpricedModel } from '../row.ts'
import { parseFile, type Exported, type Imported } from './format.ts'

const rateNames = [
  'input',
  'output',
  'cache_read',
  'cache_write',
  'reasoning',
  'input_audio',
  'output_audio',
] as const

const ratesSchema = z.object({
  input: z.number().optional(),
  output: z.number().optional(),
  cache_read: z.number().optional(),
  cache_write: z.number().optional(),
  reasoning: z.number().optional(),
  input_audio: z.number().optional(),
  output_audio: z.number().optional(),
})

const costSchema = ratesSchema.extend({
  tiers: z.array(ratesSchema.extend({ tier: z.object({ type: z.string(), size: z.number() }) })).optional(),
  context_over_200k: ratesSchema.optional(),
})

const modelSchema = z.object({
  id: z.string().min(1),
  name: z.string().optional(),
  reasoning: z.boolean().optional(),
  temperature: z.boolean().optional(),
  tool_call: z.boolean().optional(),
  structured_output: z.boolean().optional(),
  release_date: z.string().optional(),
  last_updated: z.string().optional(),
  modalities: z.object({ input: z.array(z.string()), output: z.array(z.string()) }).optional(),
  limit: z.object({ context: z.number().optional(), output: z.number().optional() }).optional(),
  cost: costSchema.optional(),
})

const fileSchema = z.record(
  z.string(),
  z.object({ id: z.string().optional(), models: z.record(z.string(), modelSchema) }),
)

/** Its provider ids that differ from ours. */
const providerNames: Readonly<Record<string, string>> = {
  google: 'gemini',
  'google-vertex': 'vertex',
  'amazon-bedrock': 'bedrock',
  togetherai: 'together',
  'fireworks-ai': 'fireworks',
  moonshotai: 'moonshot',
}

/** Reads an api.json; `date` is the day it was fetched. Throws CatalogFileInvalid for an invalid file. */
export function importModelsDev(text: string, date: string): Imported {
  const imported: Imported = { rows: [], refused: [] }
  for (const [key, provider] of Object.entries(parseFile(text, fileSchema))) {
    for (const model of Object.values(provider.models)) {
      const id = `${providerNames[key] ?? key}/${model.id}`
      try {
        imported.rows.push(rowFrom(id, model, date))
      } catch (problem) {
        if (!(problem instanceof PriceRefused)) throw problem
        imported.refused.push({ id, reason: problem.message })
      }
    }
  }
  return imported
}

function rowFrom(id: string, model: z.infer<typeof modelSchema>, date: string): CatalogRow {
  const price = priceFrom(model.cost)
  buildPrice(price)
  const created = Date.parse(`${model.release_date ?? ''}T00:00:00Z`) / 1000
  const known = (list: string[] | undefined) => modalities.filter((modality) => list?.includes(modality))
  const [input, output] = [known(model.modalities?.input), known(model.modalities?.output)]
  const [context, longest] = [whole(model.limit?.context), whole(model.limit?.output)]
  return {
    id,
    ...(model.name === undefined ? {} : { name: model.name }),
    ...(Number.isInteger(created) && created > 0 ? { created } : {}),
    ...(context === undefined ? {} : { context_length: context }),
    ...(longest === undefined ? {} : { max_output_tokens: longest }),
    ...(input.length === 0 ? {} : { input }),
    ...(output.length === 0 ? {} : { output }),
    ...(model.reasoning === undefined ? {} : { reasoning: model.reasoning }),
    parameters: [
      'max_tokens',
      'stop',
      'stream',
      ...(model.temperature === false ? [] : ['temperature', 'top_p']),
      ...(model.tool_call === true ? ['tools', 'tool_choice'] : []),
      ...(model.structured_output === true ? ['response_format', 'structured_outputs'] : []),
      ...(model.reasoning === true ? ['reasoning', 'reasoning_effort'] : []),
    ],
    price,
    source: 'models.dev',
    date,
  }
}

function whole(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined
}

function priceFrom(cost: z.infer<typeof costSchema> | undefined): PriceSpec {
  if (cost === undefined) throw new PriceRefused('no price')
  const otherTier = cost.tiers?.find(({ tier }) => tier.type !== 'context')
  if (otherTier) throw new PriceRefused(`its price depends on ${otherTier.tier.type}`)
  // In files with both, they describe the same step; the list has its exact position.
  const over200k = cost.context_over_200k
  const steps =
    cost.tiers?.map((tier) => ({ size: tier.tier.size, rates: tier })) ??
    (over200k === undefined ? [] : [{ size: 200_000, rates: over200k }])
  const base = ratesFrom(cost)
  return {
    ...base,
    ...(steps.length === 0
      ? {}
      : {
          tiers: steps.map(({ size, rates }) => ({
            ...base,
            ...ratesFrom(rates, base),
            above_prompt_tokens: size,
          })),
        }),
  }
}

type Rates = Pick<PriceSpec, 'input' | 'output'> & Partial<PriceSpec>

function ratesFrom(rates: z.infer<typeof ratesSchema>, base?: Rates): Rates {
  const written: Partial<Record<(typeof rateNames)[number], string>> = {}
  for (const name of rateNames) {
    const value = rates[name]
    if (value !== undefined) written[name] = decimalOf(value)
  }
  const [input, output] = [written.input ?? base?.input, written.output ?? base?.output]
  if (input === undefined || output === undefined) {
    throw new PriceRefused(`no ${input === undefined ? 'input' : 'output'} price`)
  }
  return { ...written, input, output }
}

/** Writes an api.json. Models that it cannot express (fees, image rates, several offers) are reported. */
export function exportModelsDev(models: readonly Model[]): Exported {
  const file: Record<string, { id: string; models: Record<string, unknown> }> = {}
  const left: UnpricedModel[] = []
  const names = new Map(Object.entries(providerNames).map(([theirs, ours]) => [ours, theirs]))
  for (const model of models) {
    const slash = model.id.indexOf('/')
    const provider = names.get(model.id.slice(0, slash)) ?? model.id.slice(0, slash)
    const id = model.id.slice(slash + 1)
    const cost = costOf(model)
    if (typeof cost === 'string') {
      left.push({ id: model.id, reason: cost })
      continue
    }
    const entry = (file[provider] ??= { id: provider, models: {} })
    entry.models[id] = {
      id,
      name: model.name,
      reasoning: model.reasoning,
      temperature: model.supportedParameters.includes('temperature'),
      tool_call: model.supportedParameters.includes('tools'),
      structured_output: model.supportedParameters.includes('structured_outputs'),
      ...(model.created === 0
        ? {}
        : { release_date: new Date(model.created * 1000).toISOString().slice(0, 10) }),
      last_updated: model.priceDate,
      modalities: { input: model.inputModalities, output: model.outputModalities },
      limit: { context: model.contextLength, output: model.maxOutputTokens },
      cost,
    }
  }
  return { text: `${JSON.stringify(file, null, 1)}\n`, left }
}

/** The rates of service tiers are left out: the format has no fields for them. */
function costOf(model: Model): object | string {
  const [offer] = model.offers
  if (offer === undefined || model.offers.length > 1) return 'it has several offers'
  const spec = specOf(offer.price)
  if (spec.per_call !== undefined || spec.per_request !== undefined) return 'the format has no fees per call'
  const cards = [spec, ...(spec.tiers ?? [])]
  const differ = (rate: string | undefined, usual: string) => rate !== undefined && rate !== usual
  if (cards.some((card) => differ(card.input_image, card.input) || differ(card.output_image, card.output))) {
    return 'the format has no rates for images'
  }
  if (cards.some((card) => differ(card.cache_read_audio, card.cache_read ?? card.input)))
    return 'the format has one rate for cache reads'
  if (cards.some((card) => card.cache_write_1h !== card.cache_write))
    return 'the format has one rate for cache writes'
  const tiers = spec.tiers?.map((tier) => ({
    ...numbers(tier),
    tier: { type: 'context', size: tier.above_prompt_tokens },
  }))
  return { ...numbers(spec), ...(tiers === undefined ? {} : { tiers }) }
}

function numbers(spec: Partial<PriceSpec>): Record<string, number> {
  const stated = rateNames.filter((name) => spec[name] !== undefined)
  return Object.fromEntries(stated.map((name) => [name, Number(spec[name])]))
}
