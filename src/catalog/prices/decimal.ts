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
