// Reads @pydantic/genai-prices (MIT): prices with a history, tiers and times of day. Only current ones are used.

import {
  findProvider,
  TieredPrices,
  type ConditionalPrice,
  type MatchLogic,
  type ModelPrice,
} from '@pydantic/genai-prices'
import { z } from 'zod'
import { formatUsd, parseUsd } from '../../../credits/money.ts'
import { decimalOf, type PriceSpec, type RateField, shiftDecimal } from '../../row.ts'
import type { CatalogSource, SourceModel } from './merge.ts'

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
