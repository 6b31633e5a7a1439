// LiteLLM's `model_prices_and_context_window.json`: one flat object per model, prices in USD per token as floats.
//
// The floats are read by their shortest digits (1.5e-07 is exactly 0.00000015), never multiplied.

import { z } from 'zod'
import { decimalOf, shiftDecimal } from '../prices/decimal.ts'
import type { Model } from '../model.ts'
import {
  buildPrice,
  PriceRefused,
  specOf,
  type PriceSpec,
  type RateField,
  type RateSpec,
} from '../prices/price-spec.ts'
import type { CatalogRow, UnpricedModel } from '../row.ts'
import { parseFile, type Exported, type Imported } from './format.ts'

const entrySchema = z.looseObject({
  litellm_provider: z.string(),
  mode: z.string().optional(),
  max_input_tokens: z.number().optional(),
  max_output_tokens: z.number().optional(),
  supports_vision: z.boolean().optional(),
  supports_audio_input: z.boolean().optional(),
  supports_audio_output: z.boolean().optional(),
  supports_reasoning: z.boolean().optional(),
  supports_function_calling: z.boolean().optional(),
  supports_response_schema: z.boolean().optional(),
  deprecation_date: z.string().optional(),
  search_context_cost_per_query: z.record(z.string(), z.number()).optional(),
})
type Entry = z.infer<typeof entrySchema>

/** The price field of each rate; tiers append `_above_<n>k_tokens`. */
const fieldOf: Readonly<Record<RateField, string>> = {
  input: 'input_cost_per_token',
  cache_read: 'cache_read_input_token_cost',
  cache_read_audio: 'cache_read_input_audio_token_cost',
  cache_write: 'cache_creation_input_token_cost',
  cache_write_1h: 'cache_creation_input_token_cost_above_1hr',
  output: 'output_cost_per_token',
  reasoning: 'output_cost_per_reasoning_token',
  input_audio: 'input_cost_per_audio_token',
  output_audio: 'output_cost_per_audio_token',
  input_image: 'input_cost_per_image_token',
  output_image: 'output_cost_per_image_token',
}
const fields = Object.entries(fieldOf) as [RateField, string][]
const tierField = /^input_cost_per_token_above_(\d+)k_tokens$/

/** Its provider ids that differ from ours. */
const providerNames: Readonly<Record<string, string>> = {
  bedrock_converse: 'bedrock',
  'vertex_ai-language-models': 'vertex',
  together_ai: 'together',
  fireworks_ai: 'fireworks',
  cohere_chat: 'cohere',
}

/** Modes that the gateway serves. */
const modes = new Set(['chat', 'responses', 'embedding'])

/** Reads the file; `date` is the day it was fetched. Throws CatalogFileInvalid for an invalid file. */
export function importLiteLlm(text: string, date: string): Imported {
  const imported: Imported = { rows: [], refused: [] }
  for (const [key, json] of Object.entries(parseFile(text, z.record(z.string(), z.unknown())))) {
    if (key === 'sample_spec') continue
    const parsed = entrySchema.safeParse(json)
    if (!parsed.success) {
      imported.refused.push({ id: key, reason: 'it is not a model entry' })
      continue
    }
    const entry = parsed.data
    if (!modes.has(entry.mode ?? 'chat')) continue
    const theirs = entry.litellm_provider
    const name = key.startsWith(`${theirs}/`) ? key.slice(theirs.length + 1) : key
    const id = `${providerNames[theirs] ?? theirs}/${name}`
    try {
      imported.rows.push(rowFrom(id, entry, date))
    } catch (problem) {
      if (!(problem instanceof PriceRefused)) throw problem
      imported.refused.push({ id, reason: problem.message })
    }
  }
  return imported
}

function rowFrom(id: string, entry: Entry, date: string): CatalogRow {
  const embedding = entry.mode === 'embedding'
  const price = priceFrom(entry, embedding)
  buildPrice(price)
  const retires = z.iso.date().safeParse(entry.deprecation_date)
  const [context, longest] = [whole(entry.max_input_tokens), whole(entry.max_output_tokens)]
  return {
    id,
    ...(context === undefined ? {} : { context_length: context }),
    ...(longest === undefined ? {} : { max_output_tokens: longest }),
    input: [
      'text',
      ...(entry.supports_vision === true ? ['image' as const] : []),
      ...(entry.supports_audio_input === true ? ['audio' as const] : []),
    ],
    output: embedding
      ? ['embeddings']
      : ['text', ...(entry.supports_audio_output === true ? ['audio' as const] : [])],
    reasoning: entry.supports_reasoning === true,
    parameters: embedding
      ? 'embeddings'
      : [
          'max_tokens',
          'stop',
          'stream',
          'temperature',
          'top_p',
          ...(entry.supports_function_calling === true ? ['tools', 'tool_choice'] : []),
          ...(entry.supports_response_schema === true ? ['response_format', 'structured_outputs'] : []),
          ...(entry.supports_reasoning === true ? ['reasoning', 'reasoning_effort'] : []),
        ],
    price,
    ...(retires.success ? { retires_on: retires.data } : {}),
    source: 'litellm',
    date,
  }
}

function whole(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined
}

function priceFrom(entry: Entry, embedding: boolean): PriceSpec {
  const base = ratesFrom(entry, '', embedding ? { output: '0' } : {})
  const tiers = Object.keys(entry)
    .map((key) => tierField.exec(key)?.[1])
    .filter((thousands) => thousands !== undefined)
    .map((thousands) => ({
      ...ratesFrom(entry, `_above_${thousands}k_tokens`, base),
      above_prompt_tokens: Number(thousands) * 1000,
    }))
  const searches = Object.values(entry.search_context_cost_per_query ?? {})
  const search = searches.length === 0 ? undefined : decimalOf(Math.max(...searches))
  return {
    ...base,
    ...(search === undefined ? {} : { per_call: { web_search: search } }),
    ...(tiers.length === 0 ? {} : { tiers }),
  }
}

function ratesFrom(entry: Entry, suffix: string, base: Partial<RateSpec>): RateSpec {
  const written: Partial<RateSpec> = { ...base }
  for (const [rate, field] of fields) {
    const value = entry[`${field}${suffix}`]
    if (typeof value !== 'number') continue
    written[rate] = shiftDecimal(String(value), 6) ?? String(value)
  }
  const { input, output } = written
  if (input === undefined || output === undefined) {
    throw new PriceRefused(`no ${input === undefined ? 'input' : 'output'} price`)
  }
  return { ...written, input, output }
}

/** Writes the file. Models that it cannot express (other fees than search, odd tiers, several offers) are reported. */
export function exportLiteLlm(models: readonly Model[]): Exported {
  const file: Record<string, unknown> = {}
  const left: UnpricedModel[] = []
  const names = new Map(Object.entries(providerNames).map(([theirs, ours]) => [ours, theirs]))
  for (const model of models) {
    const slash = model.id.indexOf('/')
    const provider = names.get(model.id.slice(0, slash)) ?? model.id.slice(0, slash)
    const prices = pricesOf(model)
    if (typeof prices === 'string') {
      left.push({ id: model.id, reason: prices })
      continue
    }
    const has = (parameter: string) => model.supportedParameters.includes(parameter)
    file[`${provider}/${model.id.slice(slash + 1)}`] = {
      litellm_provider: provider,
      mode: model.outputModalities.includes('embeddings') ? 'embedding' : 'chat',
      max_input_tokens: model.contextLength,
      max_output_tokens: model.maxOutputTokens,
      ...prices,
      supports_vision: model.inputModalities.includes('image'),
      supports_audio_input: model.inputModalities.includes('audio'),
      supports_audio_output: model.outputModalities.includes('audio'),
      supports_reasoning: model.reasoning,
      supports_function_calling: has('tools'),
      supports_response_schema: has('structured_outputs'),
      ...(model.deprecation === undefined ? {} : { deprecation_date: model.deprecation.retiresOn }),
    }
  }
  return { text: `${JSON.stringify(file, null, 1)}\n`, left }
}

/** The rates of service tiers are left out: the format has fields for only two of them, under its own names. */
function pricesOf(model: Model): Record<string, unknown> | string {
  const [offer] = model.offers
  if (offer === undefined || model.offers.length > 1) return 'it has several offers'
  const spec = specOf(offer.price)
  const { web_search: search, ...otherFees } = spec.per_call ?? {}
  if (spec.per_request !== undefined || Object.keys(otherFees).length > 0) return 'the format has no such fee'
  const odd = spec.tiers?.find((tier) => tier.above_prompt_tokens % 1000 !== 0)
  if (odd) return `the format counts tiers in thousands, not above ${odd.above_prompt_tokens}`
  const prices: Record<string, unknown> = numbers(spec, '')
  for (const tier of spec.tiers ?? [])
    Object.assign(prices, numbers(tier, `_above_${tier.above_prompt_tokens / 1000}k_tokens`))
  if (search !== undefined)
    prices.search_context_cost_per_query = { search_context_size_medium: Number(search) }
  return prices
}

function numbers(spec: RateSpec, suffix: string): Record<string, number> {
  return Object.fromEntries(
    fields.flatMap(([rate, field]) => {
      const written = spec[rate]
      return written === undefined ? [] : [[`${field}${suffix}`, Number(shiftDecimal(written, -6))]]
    }),
  )
}
