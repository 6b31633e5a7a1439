// Merges two sources' models of a provider into catalog rows; if they differ, a person must decide.

import {
  type ConditionalPrice,
  findProvider,
  type MatchLogic,
  type ModelPrice,
  TieredPrices,
} from '@pydantic/genai-prices'
import { z } from 'zod'
import { formatUsd, formatUsdPerMillion, parseUsd, parseUsdPerMillion } from '../../../credits/money.ts'
import {
  buildPrice,
  type CatalogRow,
  decimalOf,
  effortWords,
  type modalities,
  PriceRefused,
  type PriceSpec,
  type RateField,
  rateFieldNames,
  shiftDecimal,
  type UnpricedModel,
  withoutSampling,
} from '../../row.ts'
import { type CoveredProvider, notForChat } from './providers.ts'

/** A decided disagreement. It is valid only as long as both sources state what it quotes. */
const acknowledgedSchema = z.strictObject({
  model: z.string(),
  /** For each field that differs, the values of genai-prices and of pi. */
  differs: z.record(z.string(), z.tuple([z.string(), z.string()])),
  take: z.enum(['genai-prices', 'pi']),
  on: z.iso.date(),
  why: z.string().min(10),
})
export const acknowledgementsSchema = z.array(acknowledgedSchema)
export type Acknowledged = z.infer<typeof acknowledgedSchema>

interface Lifecycle {
  readonly retires_on: string
  readonly successor?: string
}

export interface Merged {
  readonly rows: CatalogRow[]
  readonly unpriced: UnpricedModel[]
  /** Disagreements that are not acknowledged, or have changed since: the generation must fail. */
  readonly open: Pick<Acknowledged, 'model' | 'differs'>[]
  /** The models whose acknowledgement was needed. */
  readonly used: string[]
}

interface Pair {
  readonly name: string
  readonly genai: SourceModel | undefined
  readonly pi: SourceModel | undefined
}

/** The rows of one provider, in the order of their ids. Ids are compared exactly, never by prefix or pattern. */
export async function mergeProvider(
  provider: CoveredProvider,
  sources: { genai: CatalogSource; pi: CatalogSource },
  acknowledged: readonly Acknowledged[],
  lifecycle: Readonly<Record<string, Lifecycle>>,
): Promise<Merged> {
  const merged: Merged = { rows: [], unpriced: [], open: [], used: [] }
  const genaiModels = await sources.genai.models(provider.genai)
  const pairs = pairUp(
    provider,
    genaiModels.map((model) => ({ ...model, price: withBoundaries(model.price, provider.tierBoundaries) })),
    await sources.pi.models(provider.pi),
  )
  for (const pair of pairs) {
    const id = `${provider.id}/${pair.name}`
    const differs = pair.genai && pair.pi ? differences(pair.genai.price, pair.pi.price) : {}
    const decision = acknowledged.find((entry) => entry.model === id)
    if (Object.keys(differs).length > 0) {
      if (!decision || !Bun.deepEquals(decision.differs, differs)) {
        merged.open.push({ model: id, differs })
        continue
      }
      merged.used.push(id)
    }
    const taken = Object.keys(differs).length > 0 ? decision?.take : undefined
    const refusal = provider.reportsCost ? undefined : refusalOf(pair, taken)
    const price = refusal === undefined ? sellable(priceOf(pair, provider, taken)) : refusal
    if (typeof price === 'string') merged.unpriced.push({ id, reason: price })
    else {
      const row = rowOf(id, pair, provider, price, sources, taken, lifecycle[id])
      merged.rows.push({ ...row, ...(taken === 'pi' ? {} : laterPrices(pair, provider)) })
    }
  }
  return merged
}

function withBoundaries(
  price: SourceModel['price'],
  boundaries: CoveredProvider['tierBoundaries'] = {},
): SourceModel['price'] {
  const { tiers } = price
  if (!tiers) return price
  return {
    ...price,
    tiers: tiers.map((tier) => ({
      ...tier,
      above_prompt_tokens: boundaries[tier.above_prompt_tokens] ?? tier.above_prompt_tokens,
    })),
  }
}

function pairUp(
  provider: CoveredProvider,
  genai: readonly SourceModel[],
  pi: readonly SourceModel[],
): Pair[] {
  const byName = new Map<string, SourceModel>()
  for (const model of genai) for (const name of model.names.slice(1)) byName.set(name, model)
  for (const model of genai) byName.set(model.names[0]!, model)
  const listed = new Map(pi.map((model) => [model.names[0]!, model]))
  const names = new Set(listed.keys())
  if (provider.sellsGenaiOnly)
    for (const [name, model] of byName) if (isSold(provider, name, model)) names.add(name)
  return [...names]
    .filter((name) => !name.endsWith(':batch') && !notForChat.test(name))
    .toSorted()
    .map((name) => ({ name, genai: byName.get(name), pi: listed.get(name) }))
}

// Of the other names of a model only dated ones and `-latest` are ids for certain; the rest are spellings seen in logs.
const dated = /-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest)$/

function isSold(provider: CoveredProvider, name: string, model: SourceModel): boolean {
  if (model.withdrawn || provider.skip?.test(name)) return false
  if (name === model.names[0]) return true
  // gpt-5-1-2025-11-13 is how some clients write gpt-5.1-2025-11-13; the provider does not know it.
  const dottedTwin = model.names.some((other) => other !== name && other.replaceAll('.', '-') === name)
  return dated.test(name) && !dottedTwin
}

/** Fields with different values in both, as [genai-prices, pi]. */
function differences(genai: Partial<PriceSpec>, pi: Partial<PriceSpec>): Record<string, [string, string]> {
  const differs: Record<string, [string, string]> = {}
  for (const field of rateFieldNames) {
    const [a, b] = [genai[field], pi[field]]
    if (a === undefined || b === undefined || parseUsdPerMillion(a) === parseUsdPerMillion(b)) continue
    differs[field] = [a, b]
  }
  const [a, b] = [tiersText(genai.tiers), tiersText(pi.tiers)]
  const both = genai.input !== undefined && pi.input !== undefined
  if (both && a !== b) differs.tiers = [a, b]
  return differs
}

/** Tiers in one line, to be compared and read: `>200000: 2.5/15`. */
function tiersText(tiers: PriceSpec['tiers']): string {
  const texts = (tiers ?? []).map((tier) => `>${tier.above_prompt_tokens}: ${tier.input}/${tier.output}`)
  return texts.length === 0 ? 'none' : texts.join(', ')
}

function refusalOf({ genai, pi }: Pair, taken: Acknowledged['take'] | undefined): string | undefined {
  return pi === undefined || taken === 'genai-prices' ? genai?.refusal : undefined
}

/** Field by field if the sources agree; otherwise all from one, so as not to mix an old and a new price. */
function priceOf(
  pair: Pair,
  provider: CoveredProvider,
  taken: Acknowledged['take'] | undefined,
): Partial<PriceSpec> {
  const { genai, pi, name } = pair
  const fees = withSearchFee(name, provider, genai === undefined ? provider.fees : genai.price.per_call)
  const perCall = fees === undefined ? {} : { per_call: fees }
  const stated =
    taken === 'pi'
      ? { ...pi?.price, ...perCall }
      : taken === 'genai-prices'
        ? { ...genai?.price, ...perCall }
        : { ...pi?.price, ...genai?.price, ...perCall }
  if (name.endsWith(':free') && stated.input === undefined) return { ...stated, input: '0', output: '0' }
  if (isEmbedding(name)) return { ...stated, output: stated.output ?? '0' }
  const complete = provider.doubleHourWrite?.test(name) ? withHourWrite(stated) : stated
  const factors = provider.serviceTiers.filter(({ models }) => models.test(name)).map((rule) => rule.factors)
  return {
    ...(provider.audioAtTextRate?.test(name) ? withAudioAtTextRate(complete) : complete),
    ...(factors.length === 0
      ? {}
      : { service_tiers: Object.assign({}, ...factors) as Record<string, string> }),
    ...provider.requestFees?.[name],
  }
}

/** The prices that genai-prices announces: with the fees of the provider, but without rates of the price they replace. */
function laterPrices({ name, genai }: Pair, provider: CoveredProvider): Pick<CatalogRow, 'later_prices'> {
  const later = (genai?.laterPrices ?? []).flatMap(({ from, price: announced }) => {
    const alone = { name, genai: { ...genai!, price: announced }, pi: undefined }
    const price = sellable(priceOf(alone, provider, undefined))
    return typeof price === 'string' ? [] : [{ from, price }]
  })
  return later.length === 0 ? {} : { later_prices: later }
}

function withSearchFee(
  name: string,
  { searchFees }: CoveredProvider,
  stated: PriceSpec['per_call'],
): PriceSpec['per_call'] {
  const fee = searchFees.find(({ models }) => models.test(name))?.usd
  return fee === undefined || stated?.['web_search'] !== undefined ? stated : { ...stated, web_search: fee }
}

function withAudioAtTextRate(stated: Partial<PriceSpec>): Partial<PriceSpec> {
  if (stated.input_audio !== undefined || stated.input === undefined) return stated
  const tiers = stated.tiers?.map((tier) => ({ ...tier, input_audio: tier.input }))
  return { ...stated, input_audio: stated.input, ...(tiers === undefined ? {} : { tiers }) }
}

function withHourWrite(stated: Partial<PriceSpec>): Partial<PriceSpec> {
  const tiers = stated.tiers?.map((tier) => ({ ...tier, ...hourWrite(tier) }))
  return { ...stated, ...hourWrite(stated), ...(tiers === undefined ? {} : { tiers }) }
}

function hourWrite(rates: Partial<PriceSpec>): Partial<Pick<PriceSpec, 'cache_write_1h'>> {
  const perToken = rates.input === undefined ? undefined : parseUsdPerMillion(rates.input)
  if (perToken === undefined || rates.cache_write_1h !== undefined) return {}
  return { cache_write_1h: formatUsdPerMillion(perToken * 2n) }
}

/** The price if it can be charged exactly, otherwise the reason why it cannot. */
function sellable(stated: Partial<PriceSpec>): PriceSpec | string {
  if (stated.input === undefined || stated.output === undefined) {
    return stated.input === undefined && stated.output === undefined
      ? 'no source states a price'
      : 'half a price'
  }
  const spec = { ...stated, input: stated.input, output: stated.output }
  try {
    buildPrice(spec)
    return spec
  } catch (problem) {
    if (problem instanceof PriceRefused) return problem.message
    throw problem
  }
}

function isEmbedding(name: string): boolean {
  return /(^|[-/.])embed/.test(name)
}

function rowOf(
  id: string,
  pair: Pair,
  provider: CoveredProvider,
  price: PriceSpec,
  sources: { genai: CatalogSource; pi: CatalogSource },
  taken: Acknowledged['take'] | undefined,
  lifecycle: Lifecycle | undefined,
): CatalogRow {
  const { genai, pi, name } = pair
  const embedding = isEmbedding(name)
  const reasoning = pi?.reasoning ?? /^o[134](-|$)|(?<!non-)reason|thinking|magistral/.test(name)
  const set = embedding ? 'embeddings' : reasoning ? provider.reasoningParameters : provider.parameters
  // Audio needs a rate of its own, except if the provider reports the cost with each answer.
  const audio = price.input_audio !== undefined || (provider.reportsCost && /audio|voxtral/.test(name))
  const input = [...(pi?.input ?? ['text' as const]), ...(audio ? ['audio' as const] : [])]
  const context = pi?.contextLength ?? genai?.contextLength
  const created = releaseOf(name)
  const fromPi = pi?.price.input !== undefined && taken !== 'genai-prices'
  const fromGenai = genai?.price.input !== undefined && taken !== 'pi'
  return {
    id,
    name: pi?.name ?? genai?.name ?? name,
    ...(created === undefined ? {} : { created }),
    ...(context === undefined ? {} : { context_length: context }),
    ...(pi?.maxOutputTokens === undefined ? {} : { max_output_tokens: pi.maxOutputTokens }),
    ...(input.length === 1 ? {} : { input }),
    ...(embedding
      ? { output: ['embeddings'] }
      : price.output_audio !== undefined
        ? { output: ['text', 'audio'] }
        : {}),
    ...(reasoning ? { reasoning } : {}),
    parameters: pi?.temperature === false ? withoutSampling(set) : set,
    price,
    ...lifecycle,
    source: fromGenai && fromPi ? 'genai-prices, pi' : fromPi ? 'pi' : 'genai-prices',
    date: fromPi ? sources.pi.date : sources.genai.date,
  }
}

/** The release date in a name (gpt-4o-2024-08-06, claude-haiku-4-5-20251001), in seconds since 1970. */
function releaseOf(name: string): number | undefined {
  const match = /(20[2-3]\d)-?([01]\d)-?([0-3]\d)(?!\d)/.exec(name)
  const time = match ? Date.parse(`${match[1]}-${match[2]}-${match[3]}T00:00:00Z`) : Number.NaN
  return Number.isNaN(time) ? undefined : time / 1000
}

// The common format of the catalog's sources: exact ids, facts and a price, nothing guessed.

type Modality = (typeof modalities)[number]

export interface SourceModel {
  /** The exact names that the source gives this one model; the first is its id. */
  readonly names: readonly string[]
  readonly name: string | undefined
  readonly contextLength: number | undefined
  readonly maxOutputTokens: number | undefined
  readonly input: readonly Modality[] | undefined
  readonly output: readonly Modality[] | undefined
  readonly reasoning: boolean | undefined
  /** From a level of reasoning (`off`, `low`…) to the provider's name for it; null if the model does not have it. */
  readonly levels?: Readonly<Record<string, string | null>> | undefined
  /** False if the model refuses temperature and similar parameters. */
  readonly temperature: boolean | undefined
  /** Only what the source states: a rate that is absent is unknown, not zero. */
  readonly price: Partial<PriceSpec>
  /** Prices that the source announces for a later day. */
  readonly laterPrices?: readonly { readonly from: string; readonly price: Partial<PriceSpec> }[]
  /** Whether the provider no longer serves it, according to the source. */
  readonly withdrawn: boolean
  /** Why its price cannot be charged (it changes with the hour, it counts pages). */
  readonly refusal: string | undefined
}

export interface CatalogSource {
  readonly name: string
  readonly version: string
  /** When its facts were collected or published. */
  readonly date: string
  readonly license: string
  /** The models of one provider, by the source's name for it; empty if it has none. */
  models(provider: string): Promise<readonly SourceModel[]>
}

// Models that their provider answers with another model, and bills as that: the sources keep the former price.

export const billedAsSchema = z.array(
  z.strictObject({
    model: z.string(),
    billed_as: z.string(),
    /** The first UTC day. */
    from: z.iso.date(),
    why: z.string().min(10),
    source: z.url(),
  }),
)
type BilledAs = z.infer<typeof billedAsSchema>[number]

/**
 * The rows with the prices of the models that they are billed as, from the day on. Throws if one of the models is not
 * sold, or if the source has caught up: then the entry has to go.
 */
export function withBilledAs(rows: readonly CatalogRow[], decided: readonly BilledAs[]): CatalogRow[] {
  const byId = new Map(rows.map((row) => [row.id, row]))
  const isPriced = (id: string) => {
    const row = byId.get(id)
    if (row?.price === undefined) throw new Error(`billed-as.json: ${id} is not sold`)
    return { ...row, price: row.price }
  }
  for (const { model, billed_as, from } of decided) {
    const [row, target] = [isPriced(model), isPriced(billed_as)]
    const { price, later_prices: later = [] } = target
    const begun = later.filter((each) => each.from <= from).at(-1)?.price ?? price
    if (Bun.deepEquals(row.price, begun))
      throw new Error(`billed-as.json: the sources have the price of ${billed_as} for ${model}; remove it`)
    const before = (row.later_prices ?? []).filter((each) => each.from < from)
    const after = later.filter((each) => each.from > from)
    byId.set(model, { ...row, later_prices: [...before, { from, price: begun }, ...after] })
  }
  return [...byId.values()]
}

// Reads the model JSON of @earendil-works/pi-ai (MIT): limits, modalities and prices. Its runtime is never imported.
//
// The package brings an AWS SDK and more, so it is not a dependency. To generate, fetch only its archive:
//   npm pack @earendil-works/pi-ai@1.4.0 && tar -xzf earendil-works-pi-ai-1.4.0.tgz
//   bun run catalog:generate --pi ./package        (then remove both)
// Without --pi the script looks in node_modules/@earendil-works/pi-ai.

const costSchema = z.object({
  input: z.number(),
  output: z.number(),
  cacheRead: z.number(),
  cacheWrite: z.number(),
})

const modelSchema = z.object({
  type: z.string(),
  id: z.string(),
  name: z.string(),
  api: z.string(),
  reasoning: z.boolean().optional(),
  input: z.array(z.enum(['text', 'image'])),
  cost: costSchema.extend({ tiers: z.array(costSchema.extend({ inputTokensAbove: z.number() })).optional() }),
  contextWindow: z.number().optional(),
  maxTokens: z.number().optional(),
  /** From a level to the provider's name for it; null if the model does not have the level. */
  thinkingLevelMap: z.record(z.string(), z.string().nullable()).optional(),
  compat: z.object({ supportsTemperature: z.boolean().optional() }).optional(),
})

const fileSchema = z.record(z.string(), z.record(z.string(), modelSchema.or(z.object({ type: z.string() }))))

/** The source in an unpacked package folder. If it is missing, throws with the command to run. */
export async function pi(folder: string): Promise<CatalogSource> {
  const manifest = Bun.file(`${folder}/package.json`)
  if (!(await manifest.exists())) {
    throw new Error(
      `no @earendil-works/pi-ai in ${folder}; ${import.meta.file} says how to fetch its archive`,
    )
  }
  const { version } = z.object({ version: z.string() }).parse(await manifest.json())
  const data = `${folder}/dist/providers/data`
  const { generatedAt } = z
    .object({ generatedAt: z.string() })
    .parse(await Bun.file(`${data}/.manifest.json`).json())
  return {
    name: '@earendil-works/pi-ai',
    version,
    date: generatedAt.slice(0, 10),
    license: 'MIT',
    async models(provider) {
      const file = Bun.file(`${data}/${provider}.json`)
      if (provider === '' || !(await file.exists())) return []
      return Object.values(fileSchema.parse(await file.json()))
        .flatMap((models) => Object.values(models))
        .filter((model) => model.type === 'chat')
        .map((model) => modelFrom(modelSchema.parse(model)))
    },
  }
}

function modelFrom(model: z.infer<typeof modelSchema>): SourceModel {
  const { tiers, ...base } = model.cost
  const rates = specFromPi(base)
  return {
    names: [model.id],
    name: model.name,
    contextLength: positive(model.contextWindow),
    maxOutputTokens: positive(model.maxTokens),
    input: model.input,
    output: ['text'],
    reasoning: model.reasoning,
    levels: model.thinkingLevelMap,
    temperature: model.compat?.supportsTemperature,
    price: {
      ...rates,
      ...(tiers === undefined || tiers.length === 0
        ? {}
        : {
            tiers: tiers.map((tier) => ({
              input: '',
              output: '',
              ...specFromPi(tier),
              above_prompt_tokens: tier.inputTokensAbove,
            })),
          }),
    },
    withdrawn: false,
    refusal: undefined,
  }
}

/**
 * USD per million tokens. In the source, 0 means unknown, so zeros are left out; so are cache writes that cost less
 * than fresh input, which are a surcharge for storage, not the price of the token.
 */
function specFromPi(cost: z.infer<typeof costSchema>): Partial<PriceSpec> {
  const stated: Partial<Record<RateField, string>> = {}
  const state = (field: RateField, value: number) => {
    if (value > 0) stated[field] = decimalOf(value)
  }
  state('input', cost.input)
  state('output', cost.output)
  state('cache_read', cost.cacheRead)
  if (cost.cacheWrite >= cost.input) state('cache_write', cost.cacheWrite)
  return stated
}

function positive(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined
}

// Makes the table of efforts: from the source, for other names of the same model, and from decisions.

export const decidedSchema = z.array(
  z.strictObject({
    /** A regular expression over model ids. */
    models: z.string(),
    efforts: z.string(),
    why: z.string().min(10),
    source: z.url(),
  }),
)
type Decided = z.infer<typeof decidedSchema>[number]

/** Routers that choose the nearest effort themselves; of their models it only matters whether they reason. */
const routers: ReadonlySet<string> = new Set(['openrouter', 'vercel'])
/** Their protocols tell models apart by family: see `traitsOf` and `familyOf` there. */
const byFamily: ReadonlySet<string> = new Set(['anthropic', 'gemini', 'vertex', 'bedrock', 'cohere'])
/** They serve another provider's models. */
const sameModels: Readonly<Record<string, string>> = { azure: 'openai' }
/** A name with a date at its end is a version of the model. */
const versionDate = /-\d{4}-\d{2}-\d{2}$/

/** A source's map of levels in the file's notation; undefined if a level would have to be guessed. */
export function effortsIn({ reasoning, levels }: SourceModel): string | undefined {
  if (reasoning === false) return ''
  const complete = (['minimal', 'low', 'medium', 'high'] as const).every(
    (level) => levels?.[level] !== undefined,
  )
  if (!complete) return undefined
  const words = effortWords.flatMap((word): string[] => {
    const wire = levels?.[word === 'none' ? 'off' : word]
    if (wire == null) return []
    return [wire === word ? word : `${word}=${wire}`]
  })
  return words.join(' ')
}

/** The efforts of these rows by id; `stated` by provider and by name there. */
export function effortTable(
  rows: readonly CatalogRow[],
  stated: ReadonlyMap<string, string>,
  decided: readonly Decided[],
): Record<string, string> {
  const table: Record<string, string> = {}
  for (const { id } of rows) {
    const efforts =
      decided.find(({ models }) => new RegExp(models).test(id))?.efforts ?? statedFor(id, stated)
    if (efforts === undefined || byFamily.has(providerOf(id))) continue
    if (routers.has(providerOf(id)) && efforts !== '') continue
    table[id] = efforts
  }
  return table
}

function statedFor(id: string, stated: ReadonlyMap<string, string>): string | undefined {
  const provider = providerOf(id)
  const twin = sameModels[provider]
  const names = [id, ...(twin === undefined ? [] : [id.replace(provider, twin)])]
  for (const name of names) {
    const efforts = stated.get(name) ?? stated.get(name.replace(versionDate, ''))
    if (efforts !== undefined) return efforts
  }
  return undefined
}

function providerOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}

// Reads @pydantic/genai-prices (MIT): prices with a history, tiers and times of day. Only current ones are used.

/** When the pinned version was published; the package itself has no date. */
const published: Readonly<Record<string, string>> = { '0.1.8': '2026-09-23' }

/**
 * The source at a date: each model with its price at that date. Throws if the publication date of the installed version
 * is unknown, so that no price gets a wrong date.
 */
export async function genaiPrices(on: string): Promise<CatalogSource> {
  // The package does not export its manifest, so the file is read.
  const manifest = Bun.file(`${import.meta.dir}/../../../../node_modules/@pydantic/genai-prices/package.json`)
  const { version } = z.object({ version: z.string() }).parse(await manifest.json())
  const date = published[version]
  if (date === undefined)
    throw new Error(`say in ${import.meta.file} when @pydantic/genai-prices ${version} was published`)
  return {
    name: '@pydantic/genai-prices',
    version,
    date,
    license: 'MIT',
    async models(provider) {
      const found = provider === '' ? undefined : findProvider({ providerId: provider })
      if (found?.id !== provider) return []
      return found.models.map((model): SourceModel => {
        const { price, refusal } = inForce(model.prices, on)
        const spec =
          price === undefined ? { price: {}, refusal: 'its price is not in force yet' } : specFrom(price)
        return {
          names: [...new Set([model.id, ...exactNames(model.match)])],
          name: model.name,
          contextLength: model.context_window,
          maxOutputTokens: undefined,
          input: undefined,
          output: undefined,
          reasoning: undefined,
          temperature: undefined,
          price: spec.price,
          laterPrices: laterPricesOf(model.prices, on),
          withdrawn: model.deprecated === true,
          refusal: refusal ?? spec.refusal,
        }
      })
    },
  }
}

/** The names that the source matches exactly. Its prefixes and patterns would also match unknown models. */
function exactNames(match: MatchLogic): string[] {
  if ('equals' in match) return [match.equals]
  if ('or' in match) return match.or.flatMap(exactNames)
  return []
}

function inForce(prices: ConditionalPrice[] | ModelPrice, on: string) {
  if (!Array.isArray(prices)) return { price: prices, refusal: undefined }
  const dated = prices.filter(({ constraint }) => constraint?.type !== 'time_of_date')
  const begun = dated.filter(({ constraint }) => constraint === undefined || startOf(constraint) <= on)
  const price = begun
    .toSorted((a, b) => (startOf(a.constraint) < startOf(b.constraint) ? -1 : 1))
    .at(-1)?.prices
  const refusal = dated.length === prices.length ? undefined : 'its price depends on the hour of the day'
  return { price, refusal }
}

/** The prices that begin after a day, without those that hold at some hours only. */
function laterPricesOf(prices: ConditionalPrice[] | ModelPrice, on: string): SourceModel['laterPrices'] {
  if (!Array.isArray(prices)) return []
  return prices
    .filter(({ constraint }) => startOf(constraint) > on)
    .map(({ constraint, prices: price }) => ({ from: startOf(constraint), price: specFrom(price).price }))
    .toSorted((a, b) => (a.from < b.from ? -1 : 1))
}

function startOf(constraint: ConditionalPrice['constraint']): string {
  return constraint?.type === 'start_date' ? constraint.start_date : ''
}

/** `*_mtok` is USD per million tokens, `*_kcount` USD per thousand calls. */
const rateOf: Readonly<Record<string, RateField>> = {
  input_mtok: 'input',
  cache_read_mtok: 'cache_read',
  cache_audio_read_mtok: 'cache_read_audio',
  cache_write_mtok: 'cache_write',
  cache_write_1h_mtok: 'cache_write_1h',
  output_mtok: 'output',
  output_reasoning_mtok: 'reasoning',
  input_audio_mtok: 'input_audio',
  output_audio_mtok: 'output_audio',
  input_image_mtok: 'input_image',
  output_image_mtok: 'output_image',
}
const feeOf: Readonly<Record<string, string>> = {
  web_searches_kcount: 'web_search',
  storage_searches_kcount: 'file_search',
}
/** A cached image token is billed as cached text. */
const ignored = new Set(['cache_image_read_mtok', 'input_video_mtok', 'output_video_mtok'])

function specFrom(price: ModelPrice): { price: Partial<PriceSpec>; refusal: string | undefined } {
  const base: Partial<Record<RateField, string>> = {}
  const tiers = new Map<number, Partial<Record<RateField, string>>>()
  const fees: Record<string, string> = {}
  let refusal: string | undefined
  let perRequest: string | undefined
  for (const [key, value] of Object.entries(price)) {
    if (value === undefined || ignored.has(key)) continue
    const field = rateOf[key]
    const amount = value instanceof TieredPrices || typeof value === 'object' ? value.base : value
    if (field !== undefined) base[field] = decimalOf(amount)
    else if (feeOf[key] !== undefined) fees[feeOf[key]] = perThousand(amount)
    else if (key === 'requests_kcount') perRequest = perThousand(amount)
    else refusal = `it is billed by ${key}`
    if (field === undefined || typeof value !== 'object') continue
    for (const tier of value.tiers)
      tiers.set(tier.start, { ...tiers.get(tier.start), [field]: decimalOf(tier.price) })
  }
  const spec = {
    ...base,
    ...(Object.keys(fees).length === 0 ? {} : { per_call: fees }),
    ...(perRequest === undefined ? {} : { per_request: perRequest }),
    ...(tiers.size === 0 ? {} : { tiers: tiersFrom(base, tiers) }),
  }
  return { price: spec, refusal }
}

/** A rate that a tier does not state is the same as in the tier below. */
function tiersFrom(
  base: Partial<Record<RateField, string>>,
  tiers: ReadonlyMap<number, object>,
): PriceSpec['tiers'] {
  let below = base
  return [...tiers]
    .toSorted(([a], [b]) => a - b)
    .map(([start, named]) => {
      below = { ...below, ...named }
      return { input: '', output: '', ...below, above_prompt_tokens: start }
    })
}

function perThousand(amount: number): string {
  const each = shiftDecimal(String(amount), -3) ?? ''
  const parsed = parseUsd(each)
  return parsed === undefined ? each : formatUsd(parsed)
}
