// The catalog file and its lines: facts and prices as written, before prices are converted to bigint.

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { Pico } from '../credits/money.ts'
import type { Price } from '../credits/price.ts'
import { GatewayError } from '../errors/errors.ts'
import effortsText from './efforts.json' with { type: 'text' }
import { freePrice, type PriceSpec, priceSpecSchema } from './prices/price-spec.ts'

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
  /** In order of preference; never empty. */
  readonly offers: readonly Offer[]
}

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
    offers: z
      .array(overridesOfferSchema)
      .min(1)
      .optional()
      .describe('Who serves it, in order of preference.'),
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

// How one catalog file differs from another, row by row and field by field, as they are written.

export interface FileChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly { readonly id: string; readonly fields: Readonly<Record<string, FieldChange>> }[]
}

interface FieldChange {
  readonly from: unknown
  readonly to: unknown
}

/** What would change if `to` were used in place of `from`; a row's source and date do not count. */
export function fileChanges(from: CatalogFile, to: CatalogFile): FileChanges {
  const before = new Map(from.models.map((row) => [row.id, row]))
  const after = new Map(to.models.map((row) => [row.id, row]))
  const changed = [...after.values()].flatMap((row) => {
    const old = before.get(row.id)
    const fields = old ? fieldChanges(old, row) : {}
    return Object.keys(fields).length === 0 ? [] : [{ id: row.id, fields }]
  })
  return {
    added: [...after.keys()].filter((id) => !before.has(id)),
    removed: [...before.keys()].filter((id) => !after.has(id)),
    changed,
  }
}

function fieldChanges(from: CatalogRow, to: CatalogRow): Record<string, FieldChange> {
  const old: ReadonlyMap<string, unknown> = new Map(Object.entries(from))
  const young: ReadonlyMap<string, unknown> = new Map(Object.entries(to))
  const names = [...new Set([...old.keys(), ...young.keys()])].filter(
    (name) => name !== 'source' && name !== 'date',
  )
  const different = names.filter((name) => !isDeepStrictEqual(old.get(name), young.get(name)))
  return Object.fromEntries(
    different.map((name) => [name, { from: old.get(name) ?? null, to: young.get(name) ?? null }]),
  )
}
