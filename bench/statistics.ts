// Figures of several rounds.

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The median and, of several values, the least and the greatest: `0.72 (0.70 to 0.75)`. */
export function spread(values: readonly number[], decimals = 2): string {
  const middle = median(values).toFixed(decimals)
  if (values.length < 2) return middle
  return `${middle} (${Math.min(...values).toFixed(decimals)} to ${Math.max(...values).toFixed(decimals)})`
}
