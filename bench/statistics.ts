// Figures of several rounds.

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The median and, of several values, the least and the greatest: `0.72 (0.70 to 0.75)`. */
export function spread(values: readonly number[]): string {
  const middle = median(values).toFixed(2)
  if (values.length < 2) return middle
  return `${middle} (${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`
}
