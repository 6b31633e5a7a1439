import type { Price } from '../../credits/price.ts'

const written = new WeakMap<Price, string>()

/**
 * A price as canonical JSON, amounts in whole picodollars: the permanent record behind a price version. Cached per
 * price object, because every call needs it.
 */
export function priceRecord(price: Price): string {
  const known = written.get(price)
  if (known !== undefined) return known
  const record = JSON.stringify(price, (_, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
  written.set(price, record)
  return record
}
