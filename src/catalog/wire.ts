// The model object of GET /v1/models: OpenAI's four keys first, then ours; prices in USD per token.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { TokenBucket } from '../conversation/usage.ts'
import { formatUsd, larger, smaller } from '../credits/money.ts'
import { fundingOf, pools } from '../credits/pool.ts'
import type { Price, Rates } from '../credits/price.ts'
import { type ModelRoute, picks } from './route.ts'
import { factorsOf, modalities, type Model } from './row.ts'

type ModelObject = z.infer<typeof modelObjectSchema>

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
    ...(model.route === undefined ? {} : { route: routeObject(model.route, model) }),
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

function routeObject({ pick, members }: ModelRoute, { offers }: Model): z.infer<typeof routeObjectSchema> {
  const range = (bucket: 'input' | 'output') => {
    const rates = offers.map(({ price }) => price.rates[bucket])
    return { from: formatUsd(rates.reduce(smaller)), to: formatUsd(rates.reduce(larger)) }
  }
  return {
    pick,
    members: members.map(({ id, weight }) => ({ id, weight })),
    pricing: { prompt: range('input'), completion: range('output') },
  }
}

/** How a provider has answered of late; absent where it has not. */
export type FiguresOf = (
  provider: string,
) => { readonly successRate: number | null; readonly p50Ms: number | null } | undefined

/** The JSON of each model: lists are asked for more often than a model changes. */
const texts = new WeakMap<Model, string>()

/** The JSON of a list of models, each with its providers. */
export function modelListText(models: readonly Model[], figures: FiguresOf): string {
  return `{"object":"list","data":[${models.map((model) => modelText(model, figures)).join(',')}]}`
}

/** The JSON of a model with its providers. */
export function modelText(model: Model, figures: FiguresOf): string {
  const known = texts.get(model) ?? JSON.stringify(modelObject(model))
  texts.set(model, known)
  return `${known.slice(0, -1)},"providers":${JSON.stringify(providersOf(model, figures))}}`
}

/** Who serves a model, with how each has answered in the last hour. */
export function providersOf({ offers }: Model, figures: FiguresOf): z.infer<typeof servedBySchema> {
  return [...new Set(offers.map(({ provider }) => provider))].map((id) => {
    const { successRate = null, p50Ms = null } = figures(id) ?? {}
    return { id, success_rate: successRate, p50_latency_ms: p50Ms }
  })
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
    ...(Object.keys(price.serviceTiers).length === 0 ? {} : { service_tiers: factorsOf(price) }),
  }
}

/** Seconds since 1970 of a model's release, or else of its price: clients that sort by time expect a value. */
function createdOf({ created, priceDate }: Pick<Model, 'created' | 'priceDate'>): number {
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

// The schemas of model lists, for the API documentation.

const usd = z.string().describe('US dollars per token (per call for fees), an exact decimal string.')

const ratesSchema = z.object({
  prompt: usd,
  completion: usd,
  input_cache_read: usd,
  input_cache_write: usd,
  input_cache_write_1h: usd,
  internal_reasoning: usd.optional().describe('Only where reasoning does not cost what output costs.'),
  input_audio: usd.optional().describe('Only where it does not cost what text costs; so the three below.'),
  output_audio: usd.optional(),
  input_image: usd.optional(),
  output_image: usd.optional(),
})

const tierSchema = ratesSchema.extend({
  above_prompt_tokens: z
    .int()
    .describe('Applies to the whole call when its prompt has more tokens than this.'),
})

const rangeSchema = z.object({ from: usd, to: usd })

const routeObjectSchema = z.object({
  pick: z.enum(picks).describe('What decides which member is asked first.'),
  members: z.array(z.object({ id: z.string(), weight: z.number() })),
  pricing: z.object({ prompt: rangeSchema, completion: rangeSchema }),
})

export const modelObjectSchema = z.object({
  id: z.string().describe('provider/model_name: what to send as `model`.'),
  object: z.literal('model'),
  created: z
    .int()
    .describe('Seconds since 1970 of its release, or of its price where the release is unknown.'),
  owned_by: z.string(),
  name: z.string(),
  description: z.string(),
  context_length: z.int().nullable().describe('Tokens of prompt and output together; null where unknown.'),
  context_window: z.int().nullable().describe('The same figure, for clients that read this name.'),
  max_model_len: z.int().nullable().describe('The same figure, for clients that read this name.'),
  max_output_tokens: z.int().nullable(),
  architecture: z.object({
    input_modalities: z.array(z.enum(modalities)),
    output_modalities: z.array(z.enum(modalities)),
  }),
  pricing: ratesSchema.extend({
    request: usd
      .optional()
      .describe('For the call itself, whatever its tokens; only where there is such a fee.'),
    web_search: usd.nullable().describe('Per search that the provider runs itself; null where it does not.'),
    tiers: z.array(tierSchema),
    service_tiers: z
      .record(z.string(), z.string())
      .optional()
      .describe('What tokens cost where `service_tier` names one of these: their rates times so much.'),
  }),
  route: z
    .lazy(() => routeObjectSchema)
    .optional()
    .describe('Of a virtual model: `pricing` above is that of its dearest member.'),
  supported_parameters: z.array(z.string()),
  access: z
    .enum(['open', 'premium'])
    .describe('premium: needs purchased credit, in the app also a subscription.'),
  flash_class: z
    .boolean()
    .describe(
      'Whether the daily allowance pays for it: at most 0.50 USD per million input tokens, cached ones included, and ' +
        '2.50 USD per million output tokens. Judged for each call; a prompt that reaches a dearer tier is not paid for.',
    ),
  pools: z
    .array(z.enum(pools))
    .describe('The pools that pay for it in the app, in the order they are spent.'),
  price_source: z.string(),
  price_date: z.string().describe('ISO date on which the price was known to hold.'),
  deprecation: z
    .object({ retires_on: z.string(), successor: z.string().nullable() })
    .nullable()
    .describe('The last day it is served, where one is announced.'),
})

export const servedBySchema = z.array(
  z.object({
    id: z.string(),
    success_rate: z
      .number()
      .min(0)
      .max(1)
      .nullable()
      .describe('Of the calls of the last hour, of all its models; null without any.'),
    p50_latency_ms: z
      .number()
      .nullable()
      .describe('The median of the last hour, until the first content of a stream or a whole answer.'),
  }),
)

export const listedModelSchema = modelObjectSchema.extend({
  providers: servedBySchema.describe('Who serves it, and how each has answered in the last hour.'),
})

export const modelListSchema = z.object({ object: z.literal('list'), data: z.array(listedModelSchema) })

// The catalog as Anthropic's Models API lists it, for clients that speak the Messages protocol.

const time = z.string().describe('RFC 3339.')

const anthropicModelSchema = z.lazy(() =>
  z.object({
    id: z.string().describe('provider/model_name: what to send as `model`.'),
    type: z.literal('model'),
    display_name: z.string(),
    created_at: time,
    capabilities: z
      .null()
      .describe('Not told here: `supported_parameters` of the other shape names what a model honours.'),
    lifecycle: z.enum(['active', 'deprecated']),
    deprecated_at: z.null(),
    retires_at: time.nullable(),
    line: z.null(),
    max_input_tokens: z.int().nullable(),
    max_tokens: z.int().nullable(),
  }),
)

const anthropicModelListSchema = z.lazy(() =>
  z.object({
    data: z.array(anthropicModelSchema),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  }),
)

type AnthropicModel = z.infer<typeof anthropicModelSchema>

/** The model for Anthropic's clients. */
export function anthropicModel(model: Model): AnthropicModel {
  const { deprecation } = model
  return {
    id: model.id,
    type: 'model',
    display_name: model.name,
    created_at: new Date(createdOf(model) * 1000).toISOString(),
    capabilities: null,
    lifecycle: deprecation === undefined ? 'active' : 'deprecated',
    deprecated_at: null,
    retires_at: deprecation === undefined ? null : `${deprecation.retiresOn}T00:00:00Z`,
    line: null,
    max_input_tokens: model.contextLength ?? null,
    max_tokens: model.maxOutputTokens ?? null,
  }
}

/** The requested part of the list: at most `limit` models, after or before the model with an id. */
export interface ModelPage {
  readonly limit: number
  readonly afterId: string | undefined
  readonly beforeId: string | undefined
}

/** One page of these models; after an unknown id it begins at the first model. */
export function anthropicModelList(
  models: readonly Model[],
  { limit, afterId, beforeId }: ModelPage,
): z.infer<typeof anthropicModelListSchema> {
  const at = (id: string | undefined) => models.findIndex((model) => model.id === id)
  const before = at(beforeId)
  const from = before < 0 ? at(afterId) + 1 : Math.max(0, before - limit)
  const page = models.slice(from, before < 0 ? from + limit : before)
  return {
    data: page.map(anthropicModel),
    has_more: before < 0 ? from + limit < models.length : from > 0,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  }
}
