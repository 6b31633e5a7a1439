// Models that their provider answers with another model, and bills as that: the sources keep the former price.

import { z } from 'zod'
import type { CatalogRow } from '../../row.ts'

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
export type BilledAs = z.infer<typeof billedAsSchema>[number]

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
