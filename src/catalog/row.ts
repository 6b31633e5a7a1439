// The catalog file and its lines: facts and prices as they are written, and the exact rates that the prices become.

import { z } from 'zod'
import { createHash } from 'node:crypto'
import {
  formatUsd,
  formatUsdPerMillion,
  larger,
  parseUsd,
  parseUsdPerMillion,
  type Pico,
} from '../credits/money.ts'
import type { Price, Rates, ServiceTier, Tier, TieredRates } from '../credits/price.ts'
import { GatewayError } from '../errors/errors.ts'
import { type ModelRoute, routeSchema } from './route.ts'
import effortsText from './efforts.json' with { type: 'text' }
import { type TokenBucket, tokenBuckets } from '../conversation/usage.ts'

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
const unpricedSchema = z.strictObject({ id: z.string(), reason: z.string() })
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

// A model that the gateway sells: an id, facts, and the offers that can serve it.

export interface Model {
  /** `<provider>/<model_name>`, split at the first slash. */
  readonly id: string
  readonly name: string
  readonly description: string
  /** Seconds since 1970 of its release; 0 if unknown. */
  readonly created: number
  readonly ownedBy: string
  readonly contextLength: number | undefined
  readonly maxOutputTokens: number | undefined
  readonly inputModalities: readonly Modality[]
  readonly outputModalities: readonly Modality[]
  readonly supportedParameters: readonly string[]
  readonly reasoning: boolean
  /** Open only to accounts with purchased credit. */
  readonly premium: boolean
  /** A chat model whose short plain-text prompts are flash class; for longer ones see `isFlash`. */
  readonly flashClass: boolean
  readonly deprecation: Deprecation | undefined
  readonly priceSource: string
  readonly priceDate: string
  /** In order of preference; never empty. Of a virtual model those of all members, the dearest first. */
  readonly offers: readonly Offer[]
  /** Of a virtual model: which models it stands for. */
  readonly route?: ModelRoute
}

/** A model that is a name in front of others. */
export type VirtualModel = Model & { readonly route: ModelRoute }

/** Models of POST /v1/embeddings have `embeddings` as their only output. */
type Modality = 'text' | 'image' | 'audio' | 'video' | 'file' | 'embeddings'

/** One provider that serves the model, under its own name and price. */
export interface Offer {
  readonly provider: string
  readonly upstream: string
  readonly price: Price
  /** The reasoning efforts that can be set; empty if none can, absent if no source says. */
  readonly efforts?: Efforts | undefined
}

interface Deprecation {
  /** ISO date after which the provider no longer serves it. */
  readonly retiresOn: string
  readonly successor: string | undefined
}

/** Output at this rate or above makes a model premium unless configuration says otherwise: 25 USD per million. */
export const premiumOutputRate: Pico = 25_000_000n

// Model ids: `<provider>/<model_name>`, split at the first slash.

interface ModelId {
  readonly provider: string
  /** May itself contain slashes. */
  readonly name: string
}

/** No model has a longer id; the limit also bounds the search for similar ids. */
export const longestId = 200

// No spaces and no control characters: they come from copying mistakes and would end up in URLs and logs.
const wellFormed = /^([A-Za-z0-9][A-Za-z0-9._-]*)\/([^\s\p{C}]+)$/u

/**
 * Splits an id at its first slash. Throws GatewayError `invalid_model_id` for one without a provider or a name;
 * `nearestTo` gives the ids to suggest (`gpt-4o` → `openai/gpt-4o`).
 */
export function parseModelId(
  text: string,
  nearestTo: (text: string) => readonly string[] = () => [],
): ModelId {
  const match = text.length <= longestId ? wellFormed.exec(text) : null
  if (match) return { provider: match[1]!, name: match[2]! }
  const nearest = nearestTo(text)
  throw new GatewayError('invalid_model_id', {
    message: `${quote(text)} is not a model id of the form provider/model_name.${suggestion(nearest)}`,
    param: 'model',
    metadata: { model: clip(text), nearest },
  })
}

/** ` Did you mean a, b or c?`, or an empty text if no id is similar. */
export function suggestion(nearest: readonly string[]): string {
  if (nearest.length === 0) return ''
  const last = nearest.at(-1)!
  return ` Did you mean ${nearest.length === 1 ? last : `${nearest.slice(0, -1).join(', ')} or ${last}`}?`
}

/** An id from a request, shortened and escaped for a message. */
export function quote(id: string): string {
  return JSON.stringify(clip(id))
}

function clip(id: string): string {
  return id.length <= longestId ? id : `${id.slice(0, longestId)}…`
}

// The reasoning efforts of models, by the names that clients use. efforts.json is made by generate.ts from a source,
// efforts-decided.json holds what no source states.

export const effortWords = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
type EffortWord = (typeof effortWords)[number]

/** Maps the client's effort to the provider's. Empty if the model's effort cannot be set, or it does not reason. */
export type Efforts = Readonly<Partial<Record<EffortWord, string>>>

/** As written in the files: separated by spaces, weakest first; `high=default` if the provider's name differs. */
export function parseEfforts(written: string): Efforts {
  const pairs = written.split(' ').filter((word) => word !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [word, wire = word] = pair.split('=')
      return [word, wire]
    }),
  )
}

let bundled: Readonly<Record<string, string>> | undefined

/** The efforts of a provider's model, by its name there; undefined if no source states them. */
export function effortsOf(provider: string, upstream: string): Efforts | undefined {
  bundled ??= (JSON.parse(String(effortsText)) as { models: Record<string, string> }).models
  const id = `${provider}/${upstream}`
  return Object.hasOwn(bundled, id) ? parseEfforts(bundled[id]!) : undefined
}

// Models from the configuration and from local servers, as catalog rows.

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

const overridesOfferSchema = z.lazy(() =>
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
  z
    .strictObject({
      id: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*(\/\S+)?$/, 'a model id has the form provider/model_name')
        .describe('The id that clients send: provider/model_name; of a route any name, such as fast.'),
      route: routeSchema.optional().describe('Makes it a name in front of other models.'),
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
        .describe(
          'The reasoning efforts it takes; an empty list where it cannot be told how hard to reason.',
        ),
      premium: z
        .boolean()
        .optional()
        .describe('Open only to accounts with purchased credit; else the price decides.'),
      retires_on: z.iso.date().optional().describe('The last day on which the provider serves it.'),
      successor: z.string().optional().describe('The id to use afterwards.'),
      offers: z
        .array(overridesOfferSchema)
        .min(1)
        .optional()
        .describe('Who serves it, in order of preference.'),
    })
    .superRefine((entry, context) => {
      if (entry.route === undefined) {
        if (!entry.id.includes('/'))
          context.addIssue({
            code: 'custom',
            path: ['id'],
            message: 'a model id has the form provider/model_name',
          })
        return
      }
      const ofOwn = Object.keys(entry).filter((name) => !ofRoutes.has(name))
      for (const name of ofOwn)
        context.addIssue({ code: 'custom', path: [name], message: 'is of the models that a route leads to' })
    }),
)

/** What an entry with a `route` may say of itself. */
const ofRoutes: ReadonlySet<string> = new Set(['id', 'route', 'name', 'description', 'owned_by'])

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

type OverridesOffer = NonNullable<CatalogRow['offers']>[number]

/**
 * An offer of the catalog under an override that has none: the operator's price is charged whoever serves the model, and
 * the operator's name for it is that of the provider in its id.
 */
function overriddenOffer({ price, ...offer }: OverridesOffer, override: ModelOverride): OverridesOffer {
  const isOwn = override.id.startsWith(`${offer.provider}/`)
  return {
    ...offer,
    ...(isOwn && override.upstream !== undefined ? { upstream: override.upstream } : {}),
    // Without a price of its own, an offer is at the model's.
    ...(price === undefined || override.price !== undefined ? {} : { price }),
  }
}

// The request parameters that families of models honour: what `supported_parameters` lists, by the name of a set.

const common = ['max_tokens', 'max_completion_tokens', 'stop', 'stream', 'tools', 'tool_choice']
const sampling = ['temperature', 'top_p']
const structured = ['response_format', 'structured_outputs']
const thinking = ['reasoning', 'reasoning_effort']
const openai = [...common, 'parallel_tool_calls', 'seed', 'n', ...structured, 'user', 'metadata', 'store']
const penalties = ['frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs', 'top_logprobs']

const parameterSets: Readonly<Record<string, readonly string[]>> = {
  openai: [...openai, ...sampling, ...penalties],
  'openai-reasoning': [...openai, ...thinking, 'verbosity'],
  'openai-compatible': [
    ...common,
    ...sampling,
    'seed',
    'response_format',
    'frequency_penalty',
    'presence_penalty',
  ],
  'openai-compatible-reasoning': [...common, ...sampling, 'seed', 'response_format', ...thinking],
  anthropic: [...common, 'parallel_tool_calls', ...sampling, 'top_k', ...structured],
  'anthropic-reasoning': [...common, 'parallel_tool_calls', ...sampling, 'top_k', ...structured, ...thinking],
  gemini: [
    ...common,
    ...sampling,
    'top_k',
    'seed',
    'n',
    ...structured,
    'frequency_penalty',
    'presence_penalty',
  ],
  'gemini-reasoning': [...common, ...sampling, 'top_k', 'seed', 'n', ...structured, ...thinking],
  cohere: [
    ...common,
    ...sampling,
    'top_k',
    'seed',
    ...structured,
    'frequency_penalty',
    'presence_penalty',
    'logprobs',
  ],
  bedrock: [...common, ...sampling],
  simulator: [
    ...common,
    ...sampling,
    'top_k',
    'min_p',
    'seed',
    'n',
    'logprobs',
    'top_logprobs',
    'parallel_tool_calls',
    ...structured,
    ...thinking,
    'prompt_cache_key',
  ],
  embeddings: ['input', 'encoding_format', 'dimensions', 'user'],
}

const noSampling = '-no-sampling'

/** The name of the same set without what a model refuses that does not take temperature. */
export function withoutSampling(set: string): string {
  return `${set}${noSampling}`
}

/** The parameters of a set's name, or the list itself. A row without either gets what every server honours. */
export function parametersOf(set: string | readonly string[] | undefined): readonly string[] {
  if (typeof set !== 'string' && set !== undefined) return set
  const name = set ?? 'openai-compatible'
  if (!name.endsWith(noSampling)) return parameterSets[name] ?? []
  const full = parameterSets[name.slice(0, -noSampling.length)] ?? []
  return full.filter((parameter) => ![...sampling, 'top_k'].includes(parameter))
}

// Prices as people write them (USD per million tokens, decimal strings), converted to exact rates and back.

const perMillion = z
  .string('write the price as a string: "0.10"')
  .refine((text) => parseUsdPerMillion(text) !== undefined, {
    error: 'not a price: USD per million tokens, at least 0, a whole number of picodollars per token',
  })

const perCall = z
  .string('write the price as a string: "0.01"')
  .refine((text) => (parseUsd(text) ?? -1n) >= 0n, {
    error: 'not a price: USD for each call, at least 0, at most 12 decimals',
  })

/** The rates of one tier. Only fresh input and output are required; `buildPrice` defines the defaults of the others. */
const rateFields = {
  input: perMillion,
  cache_read: perMillion.optional(),
  cache_read_audio: perMillion.optional(),
  cache_write: perMillion.optional(),
  cache_write_1h: perMillion.optional(),
  output: perMillion,
  reasoning: perMillion.optional(),
  input_audio: perMillion.optional(),
  output_audio: perMillion.optional(),
  input_image: perMillion.optional(),
  output_image: perMillion.optional(),
}

const tierSchema = () => z.strictObject({ above_prompt_tokens: z.int().positive(), ...rateFields })

const factor = z
  .string('write the factor as a string: "0.5"')
  .regex(/^\d{1,3}(\.\d{1,4})?$/, 'not a factor: a decimal number such as "0.5" or "2"')

/** A price in USD per million tokens; `per_call` and `per_request` are USD each. Unknown fields are refused. */
export const priceSpecSchema = z.lazy(() =>
  z.strictObject({
    ...rateFields,
    per_call: z.record(z.string().min(1), perCall).optional(),
    per_request: perCall.optional(),
    /** The fee of a request by its search context (`low`, `medium`, `high`); `per_request` is the highest of them. */
    per_request_by_search_context: z.record(z.string().min(1), perCall).optional(),
    /** What other service tiers cost, as factors of the standard rates: `{ flex: "0.5" }`. */
    service_tiers: z.record(z.string().min(1), factor).optional(),
    tiers: z.array(tierSchema()).max(16).optional(),
  }),
)

export type PriceSpec = z.infer<typeof priceSpecSchema>
type RateSpec = Omit<z.infer<ReturnType<typeof tierSchema>>, 'above_prompt_tokens'>
export type RateField = keyof typeof rateFields
export const rateFieldNames = Object.keys(rateFields) as RateField[]

/** `price: free` in the configuration: every rate is zero on purpose. */
export const freePrice: PriceSpec = { input: '0', output: '0' }

/** Why a price cannot be charged, for people: the field and its value. */
export class PriceRefused extends Error {}

/**
 * The exact price of a spec. Absent rates default to one that is not too low: cache reads and writes cost as much as
 * fresh input, a one-hour write as much as a five-minute write, reasoning as much as output, a request as much as with
 * the most expensive search context. Throws PriceRefused for a rate that is missing, negative, or not a whole number of
 * picodollars per token, and for a fee per request that is below one of its search contexts: holds reserve it. Two tiers
 * that begin at the same length are refused, too.
 */
export function buildPrice(spec: PriceSpec): Price {
  const tiers: Tier[] = (spec.tiers ?? [])
    .map((tier) => ({ abovePromptTokens: tier.above_prompt_tokens, rates: buildRates(tier, spec) }))
    .toSorted((a, b) => a.abovePromptTokens - b.abovePromptTokens)
  const twice = tiers.find((tier, at) => tier.abovePromptTokens === tiers[at + 1]?.abovePromptTokens)
  if (twice) throw new PriceRefused(`two tiers begin above ${twice.abovePromptTokens} prompt tokens`)
  const perCallFees = fees('per_call', spec.per_call)
  const bySearchContext = fees('per_request_by_search_context', spec.per_request_by_search_context)
  const rates = buildRates(spec)
  const free = tokenBuckets.every((bucket) => rates[bucket] === 0n)
  const content = {
    rates,
    tiers,
    perCall: perCallFees,
    perRequest: requestFee(spec.per_request, bySearchContext),
    perRequestBySearchContext: bySearchContext,
    serviceTiers: serviceTiersOf(spec.service_tiers ?? {}, { rates, tiers }),
  }
  return { version: versionOf(content), ...content, unstated: free ? [] : unstatedIn(spec) }
}

/** Generated audio and images need rates of their own, which are many times that of text. */
const soldApart = ['input_audio', 'output_audio', 'output_image'] as const satisfies readonly RateField[]

/** Picodollars per request: never less than with any search context, which is known only when the call has ended. */
function requestFee(written: string | undefined, bySearchContext: Readonly<Record<string, Pico>>): Pico {
  const highest = Object.values(bySearchContext).reduce(larger, 0n)
  if (written === undefined) return highest
  const stated = fee('per_request', written)
  if (stated >= highest) return stated
  throw new PriceRefused(
    `per_request ${written} is less than ${formatUsd(highest)}, the highest of per_request_by_search_context`,
  )
}

function unstatedIn(spec: PriceSpec): TokenBucket[] {
  return soldApart.filter((field) => spec[field] === undefined).map((field) => bucketOf[field])
}

function serviceTiersOf(factors: Readonly<Record<string, string>>, standard: TieredRates) {
  const tiers: Record<string, ServiceTier> = {}
  for (const [name, factor] of Object.entries(factors).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const times = (rates: Rates) => scale(rates, name, factor)
    tiers[name] = {
      factor,
      rates: times(standard.rates),
      tiers: standard.tiers.map((tier) => ({ ...tier, rates: times(tier.rates) })),
    }
  }
  return tiers
}

/** Throws PriceRefused if a rate is not a whole number of picodollars. */
function scale(rates: Rates, name: string, factor: string): Rates {
  const [whole = '0', fraction = ''] = factor.split('.')
  const numerator = BigInt(whole + fraction)
  const denominator = 10n ** BigInt(fraction.length)
  const entries = tokenBuckets.map((bucket) => {
    const product = rates[bucket] * numerator
    if (product % denominator === 0n) return [bucket, product / denominator] as const
    throw new PriceRefused(
      `service_tiers.${name}: ${factor} times the ${bucket} rate is not a whole number of picodollars per token`,
    )
  })
  return { ...rates, ...Object.fromEntries(entries) }
}

/** `base`: the rates of short prompts, for those of a tier. */
function buildRates(spec: RateSpec, base: Partial<RateSpec> = {}): Rates {
  const input = rate('input', spec.input)
  const output = rate('output', spec.output)
  const or = (field: RateField, otherwise: Pico) =>
    spec[field] === undefined ? otherwise : rate(field, spec[field])
  // Audio and images that a tier leaves out are not cheaper with a longer prompt.
  const apart = (field: (typeof soldApart)[number], text: Pico) =>
    or(field, base[field] === undefined ? text : larger(text, rate(field, base[field])))
  const cacheWrite5m = or('cache_write', input)
  const cacheRead = or('cache_read', input)
  const inputAudio = apart('input_audio', input)
  return {
    input,
    cacheRead,
    // A rate for cached text does not mean that cached audio is cheaper.
    cacheReadAudio: or(
      'cache_read_audio',
      (spec.input_audio ?? base.input_audio) === undefined ? cacheRead : inputAudio,
    ),
    cacheWrite5m,
    cacheWrite1h: or('cache_write_1h', cacheWrite5m),
    output,
    reasoning: or('reasoning', output),
    inputAudio,
    outputAudio: apart('output_audio', output),
    inputImage: or('input_image', input),
    outputImage: apart('output_image', output),
  }
}

function rate(field: string, text: string | undefined): Pico {
  const parsed = text === undefined ? undefined : parseUsdPerMillion(text)
  if (parsed !== undefined) return parsed
  throw new PriceRefused(
    text === undefined
      ? `no ${field} price`
      : `${field} ${text} is not a whole number of picodollars per token`,
  )
}

function fees(field: string, written: Readonly<Record<string, string>> = {}): Record<string, Pico> {
  const names = Object.keys(written).toSorted()
  return Object.fromEntries(names.map((name) => [name, fee(`${field}.${name}`, written[name])]))
}

function fee(field: string, text: string | undefined): Pico {
  const parsed = text === undefined ? undefined : parseUsd(text)
  if (parsed !== undefined && parsed >= 0n) return parsed
  throw new PriceRefused(`${field} ${text} is not a whole number of picodollars`)
}

/** The rates that are charged. A price that states the default rate for audio equals one that leaves it out. */
type PriceContent = Omit<Price, 'version' | 'unstated'>

/** The price as canonical JSON text: its hash is the version, and the permanent record keeps it. */
export function canonicalPrice(price: PriceContent): string {
  const plain = {
    rates: canonicalRates(price.rates),
    tiers: price.tiers.map((tier) => ({ ...tier, rates: canonicalRates(tier.rates) })),
    per_call: Object.fromEntries(Object.entries(price.perCall).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    per_request: price.perRequest,
    ...(isEmpty(price.perRequestBySearchContext)
      ? {}
      : { per_request_by_search_context: price.perRequestBySearchContext }),
    ...(isEmpty(price.serviceTiers) ? {} : { service_tiers: factorsOf(price) }),
  }
  return JSON.stringify(plain, (_key, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
}

/** The rate of cached audio was added later: if it equals that of cached text, the price keeps its version. */
function canonicalRates({ cacheReadAudio, ...rates }: Rates): Omit<Rates, 'cacheReadAudio'> {
  return cacheReadAudio === rates.cacheRead ? rates : ({ ...rates, cacheReadAudio } as Rates)
}

/** What the rates are multiplied by at each service tier. */
export function factorsOf({ serviceTiers }: Pick<Price, 'serviceTiers'>): Record<string, string> {
  return Object.fromEntries(Object.entries(serviceTiers).map(([name, { factor }]) => [name, factor]))
}

/** `pv_` and 12 hex digits of a hash of the content: equal prices have the same version. */
function versionOf(content: PriceContent): string {
  return `pv_${createHash('sha256').update(canonicalPrice(content)).digest('hex').slice(0, 12)}`
}

const bucketOf: Readonly<Record<RateField, TokenBucket>> = {
  input: 'input',
  cache_read: 'cacheRead',
  cache_read_audio: 'cacheReadAudio',
  cache_write: 'cacheWrite5m',
  cache_write_1h: 'cacheWrite1h',
  output: 'output',
  reasoning: 'reasoning',
  input_audio: 'inputAudio',
  output_audio: 'outputAudio',
  input_image: 'inputImage',
  output_image: 'outputImage',
}

/** The spec of a price with all of its rates; `buildPrice` makes the same version of it. */
export function specOf(price: Price): PriceSpec {
  const tiers = price.tiers.map((tier) => ({
    above_prompt_tokens: tier.abovePromptTokens,
    ...rateSpecOf(tier.rates, price.unstated),
  }))
  const perCall = feesSpecOf(price.perCall)
  const bySearchContext = feesSpecOf(price.perRequestBySearchContext)
  const factors = factorsOf(price)
  return {
    ...rateSpecOf(price.rates, price.unstated),
    ...(isEmpty(perCall) ? {} : { per_call: perCall }),
    ...(isEmpty(bySearchContext) ? {} : { per_request_by_search_context: bySearchContext }),
    ...(isEmpty(factors) ? {} : { service_tiers: factors }),
    ...(price.perRequest === 0n ? {} : { per_request: formatUsd(price.perRequest) }),
    ...(tiers.length === 0 ? {} : { tiers }),
  }
}

function feesSpecOf(fees: Readonly<Record<string, Pico>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fees).map(([name, amount]) => [name, formatUsd(amount)]))
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0
}

function rateSpecOf(rates: Rates, unstated: Price['unstated']): RateSpec {
  const stated = rateFieldNames.filter((field) => !unstated.includes(bucketOf[field]))
  const all = stated.map((field) => [field, formatUsdPerMillion(rates[bucketOf[field]])] as const)
  return {
    ...Object.fromEntries(all),
    input: formatUsdPerMillion(rates.input),
    output: formatUsdPerMillion(rates.output),
  }
}

// Exact decimals from JSON numbers: a price in a float is read by its digits, not by arithmetic.

const scientific = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i

/**
 * The decimal digits of a JSON number: its shortest representation that reads back the same, without an exponent
 * (`1.5e-7` → `0.00000015`). Undefined for NaN and the infinities.
 */
export function decimalOf(value: number): string | undefined {
  return Number.isFinite(value) ? shiftDecimal(String(value), 0) : undefined
}

/**
 * Moves the point of a decimal string to the right by `places` (to the left if negative): six places turn USD per
 * token into USD per million tokens, exactly. Undefined for other text and for numbers that are too long.
 */
export function shiftDecimal(text: string, places: number): string | undefined {
  const match = scientific.exec(text)
  if (!match) return undefined
  const exponent = Number(match[4] ?? 0) + places
  if (Math.abs(exponent) > 40) return undefined
  const digits = match[2]! + (match[3] ?? '')
  const point = match[2]!.length + exponent
  const padded = digits.padStart(digits.length + Math.max(0, 1 - point), '0').padEnd(point, '0')
  const cut = Math.max(point, 1)
  const whole = padded.slice(0, cut).replace(/^0+(?=\d)/, '')
  const fraction = padded.slice(cut).replace(/0+$/, '')
  const plain = fraction === '' ? whole : `${whole}.${fraction}`
  return match[1] === '-' && plain !== '0' ? `-${plain}` : plain
}

// Flash class: what the daily allowance pays for. Decided for each call, by the rates that can apply to it.

/** At most these, in picodollars per token: 0.50 USD per million input and 2.50 USD per million output tokens. */
const flashLimits: { readonly input: Pico; readonly output: Pico } = {
  input: 500_000n,
  output: 2_500_000n,
}

/** The buckets for tokens of a plain-text call. Cache reads and writes are input as well. */
const textInput = ['input', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h'] as const
const textOutput = ['output', 'reasoning'] as const
const mediaOutput: ReadonlySet<TokenBucket> = new Set(['outputAudio', 'outputImage'])

/**
 * Whether every token of a call of at most `prompt` prompt tokens is within the limits, in every tier that its prompt
 * may reach. `media` are the buckets that the call can use besides text.
 */
export function isFlash(price: Price, prompt: number, media: readonly TokenBucket[] = []): boolean {
  const reached = price.tiers.filter((tier) => prompt > tier.abovePromptTokens)
  return [price.rates, ...reached.map((tier) => tier.rates)].every((rates) => isWithin(rates, media))
}

function isWithin(rates: Rates, media: readonly TokenBucket[]): boolean {
  const input = [...textInput, ...media.filter((bucket) => !mediaOutput.has(bucket))]
  const output = [...textOutput, ...media.filter((bucket) => mediaOutput.has(bucket))]
  return (
    input.every((bucket) => rates[bucket] <= flashLimits.input) &&
    output.every((bucket) => rates[bucket] <= flashLimits.output)
  )
}
