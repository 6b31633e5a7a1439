// Merges two sources' models of a provider into catalog rows; if they differ, a person must decide.

import { z } from 'zod'
import { formatUsdPerMillion, parseUsdPerMillion } from '../../../credits/money.ts'
import {
  buildPrice,
  type CatalogRow,
  type modalities,
  PriceRefused,
  type PriceSpec,
  rateFieldNames,
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
