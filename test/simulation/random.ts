// Numbers that look random and are the same for the same seed.

export interface Random {
  /** A whole number from 0 up to, not including, `below`. */
  below(below: number): number
  /** True once in `n` times. */
  oneIn(n: number): boolean
  pick<T>(items: readonly T[]): T
  /** One of the names, each as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name
}

/** A generator of 32 bits of state, stepped by a Weyl sequence and mixed by multiplications. */
export function seeded(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    below,
    oneIn: (n) => below(n) === 0,
    pick(items) {
      const item = items[below(items.length)]
      if (item === undefined) throw new Error('there is nothing to pick from')
      return item
    },
    weighted(weights) {
      const entries = Object.entries(weights) as [keyof typeof weights, number][]
      let at = below(entries.reduce((sum, [, weight]) => sum + weight, 0))
      for (const [name, weight] of entries) {
        at -= weight
        if (at < 0) return name
      }
      throw new Error('the weights are not positive')
    },
  }
}
