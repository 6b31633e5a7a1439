// The model object of GET /v1/models: OpenAI's four keys first, then ours; prices in USD per token.

import { createHash } from 'node:crypto'
import type { z } from 'zod'
import type { TokenBucket } from '../../conversation/usage.ts'
import { formatUsd } from '../../credits/money.ts'
import { fundingOf } from '../../credits/pool.ts'
import type { Price, Rates } from '../../credits/price.ts'
import type { Model } from '../model.ts'
import type { modelListSchema, modelObjectSchema, ratesSchema } from './models-schema.ts'

export type ModelObject = z.infer<typeof modelObjectSchema>

/** The model for clients, with the price of its first offer. */
export function modelObject(model: Model): ModelObject {
  const price = model.offers[0]!.price
  const context = model.contextLength ?? null
  return {
    id: model.id,
    object: 'model',
    created: createdOf(model),
    owned_by: model.ownedBy,
    name: model.name,
    description: model.description === '' ? describe(model) : model.description,
    context_length: context,
    context_window: context,
    max_model_len: context,
    max_output_tokens: model.maxOutputTokens ?? null,
    architecture: {
      input_modalities: [...model.inputModalities],
      output_modalities: [...model.outputModalities],
    },
    pricing: pricingOf(price),
    supported_parameters: [...model.supportedParameters],
    access: model.premium ? 'premium' : 'open',
    flash_class: model.flashClass,
    pools: [...fundingOf('app', model.flashClass)],
    price_source: model.priceSource,
    price_date: model.priceDate,
    deprecation:
      model.deprecation === undefined
        ? null
        : { retires_on: model.deprecation.retiresOn, successor: model.deprecation.successor ?? null },
  }
}

export function modelList(models: readonly Model[]): z.infer<typeof modelListSchema> {
  return { object: 'list', data: models.map(modelObject) }
}

/** The JSON of each model: lists are asked for more often than a model changes. */
const texts = new WeakMap<Model, string>()

/** The JSON of `modelList`. */
export function modelListText(models: readonly Model[]): string {
  const data = models.map((model) => {
    const known = texts.get(model) ?? JSON.stringify(modelObject(model))
    texts.set(model, known)
    return known
  })
  return `{"object":"list","data":[${data.join(',')}]}`
}

function pricingOf(price: Price): ModelObject['pricing'] {
  const search = price.perCall.web_search
  return {
    ...ratesOf(price.rates),
    ...(price.perRequest === 0n ? {} : { request: formatUsd(price.perRequest) }),
    web_search: search === undefined ? null : formatUsd(search),
    tiers: price.tiers.map((tier) => ({
      above_prompt_tokens: tier.abovePromptTokens,
      ...ratesOf(tier.rates),
    })),
  }
}

/** Seconds since 1970 of a model's release, or else of its price: clients that sort by time expect a value. */
export function createdOf({ created, priceDate }: Pick<Model, 'created' | 'priceDate'>): number {
  return created > 0 ? created : Date.parse(`${priceDate}T00:00:00Z`) / 1000
}

/** Rates that are equal to their default are left out. */
const special: readonly [keyof z.infer<typeof ratesSchema>, TokenBucket, TokenBucket][] = [
  ['internal_reasoning', 'reasoning', 'output'],
  ['input_audio', 'inputAudio', 'input'],
  ['output_audio', 'outputAudio', 'output'],
  ['input_image', 'inputImage', 'input'],
  ['output_image', 'outputImage', 'output'],
]

function ratesOf(rates: Rates): z.infer<typeof ratesSchema> {
  const apart = special.filter(([, bucket, usual]) => rates[bucket] !== rates[usual])
  return {
    prompt: formatUsd(rates.input),
    completion: formatUsd(rates.output),
    input_cache_read: formatUsd(rates.cacheRead),
    input_cache_write: formatUsd(rates.cacheWrite5m),
    input_cache_write_1h: formatUsd(rates.cacheWrite1h),
    ...Object.fromEntries(apart.map(([name, bucket]) => [name, formatUsd(rates[bucket])])),
  }
}

function describe(model: Model): string {
  const reads = model.inputModalities.join(', ')
  const writes = model.outputModalities.join(', ')
  const context =
    model.contextLength === undefined ? '' : ` within ${model.contextLength.toLocaleString('en-US')} tokens`
  return `${model.name} by ${model.ownedBy}: ${reads} in, ${writes} out${context}${model.reasoning ? '; reasons before it answers' : ''}.`
}

/** A strong entity tag of a body. */
export function etagOf(body: string): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
}

/** Whether an If-None-Match header names this tag: then 304 is the answer. Weak and listed tags count, and `*`. */
export function etagMatches(ifNoneMatch: string | null | undefined, etag: string): boolean {
  if (!ifNoneMatch) return false
  return ifNoneMatch.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}
