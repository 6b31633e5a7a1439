// A price as the permanent record its version names: canonical JSON, amounts as whole picodollars.

import type { Price } from '../../credits/price.ts'

const written = new WeakMap<Price, string>()

/** The record of a price; made once per price object, as every call asks for it. */
export function priceRecord(price: Price): string {
  const known = written.get(price)
  if (known !== undefined) return known
  const record = JSON.stringify(price, (_, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
  written.set(price, record)
  return record
}
