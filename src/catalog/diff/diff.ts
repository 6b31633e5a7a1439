// What changed between two catalogs, model by model and field by field.

import { formatUsdPerMillion } from '../../credits/money.ts'
import { flattened } from './flatten.ts'
import type { Model } from '../model.ts'
import { canonicalRates } from '../prices/price-spec.ts'

export interface FieldChange {
  readonly field: string
  /** As text; undefined where the side does not have the field. */
  readonly from: string | undefined
  readonly to: string | undefined
}

export interface CatalogDiff {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly { readonly id: string; readonly changes: readonly FieldChange[] }[]
}

/** From the models `a` to the models `b`, sorted by id. Prices are compared as they are charged, in USD per million. */
export function diffCatalogs(a: readonly Model[], b: readonly Model[]): CatalogDiff {
  const before = new Map(a.map((model) => [model.id, model]))
  const after = new Map(b.map((model) => [model.id, model]))
  const ids = [...new Set([...before.keys(), ...after.keys()])].toSorted()
  const changed = ids.flatMap((id) => {
    const [from, to] = [before.get(id), after.get(id)]
    const changes = from && to ? changesBetween(factsOf(from), factsOf(to)) : []
    return changes.length === 0 ? [] : [{ id, changes }]
  })
  return {
    added: ids.filter((id) => !before.has(id)),
    removed: ids.filter((id) => !after.has(id)),
    changed,
  }
}

function changesBetween(from: ReadonlyMap<string, string>, to: ReadonlyMap<string, string>): FieldChange[] {
  const fields = [...new Set([...from.keys(), ...to.keys()])]
  return fields
    .filter((field) => from.get(field) !== to.get(field))
    .map((field) => ({ field, from: from.get(field), to: to.get(field) }))
}

/** The facts that matter to callers and payers; where and when a price was found does not. */
function factsOf(model: Model): Map<string, string> {
  const { priceSource: _source, priceDate: _date, offers, id: _id, ...facts } = model
  const priced = offers.map(({ provider, upstream, price }) => {
    const { version: _version, rates, tiers, ...content } = price
    const listed = tiers.map((tier) => ({ ...tier, rates: canonicalRates(tier.rates) }))
    return { provider, upstream, price: { ...content, rates: canonicalRates(rates), tiers: listed } }
  })
  return flattened({ ...facts, offers: priced }, formatUsdPerMillion)
}
