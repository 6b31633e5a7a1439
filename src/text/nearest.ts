// The closest of a few names to a mistyped one.

/** The name among `candidates` that `typed` most likely meant; undefined when none is close. */
export function nearest(typed: string, candidates: readonly string[]): string | undefined {
  const wanted = typed.toLowerCase()
  const begun = candidates.filter((candidate) => candidate.toLowerCase().startsWith(`${wanted}_`))
  if (begun.length === 1) return begun[0]
  const allowed = Math.max(1, Math.floor(wanted.length / 3))
  let best: string | undefined
  let least = allowed + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - wanted.length) > allowed) continue
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance < least) [best, least] = [candidate, distance]
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
export function editDistance(a: string, b: string): number {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(above[column]! + 1, current[column - 1]! + 1, above[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, before[column - 2]! + 1)
      current.push(cost)
    }
    ;[before, above] = [above, current]
  }
  return above[b.length]!
}
