// Lists that only grow, for the states of stream parsers: adding to one costs the same however long it is, and whoever
// still holds the shorter list sees no change.

interface Shared<T> {
  readonly items: T[]
  /** Where each item first stands; made when somebody first asks. */
  places: Map<T, number> | undefined
}

/** An immutable list. Lists that grew from each other share one array, of which each sees its own length. */
export class Grown<T> {
  readonly length: number
  readonly #shared: Shared<T> | undefined

  private constructor(length: number, shared: Shared<T> | undefined) {
    this.length = length
    this.#shared = shared
  }

  static empty<T>(): Grown<T> {
    return new Grown<T>(0, undefined)
  }

  /** This list with one more item. Constant time, except where a list grows a second time: that one is copied. */
  plus(item: T): Grown<T> {
    const { length } = this
    const known = this.#shared
    const shared = known?.items.length === length ? known : { items: [...this.items()], places: undefined }
    shared.items.push(item)
    if (shared.places !== undefined && !shared.places.has(item)) shared.places.set(item, length)
    return new Grown(length + 1, shared)
  }

  /** This list with another item in one place, as a copy. */
  with(index: number, item: T): Grown<T> {
    return new Grown(this.length, { items: this.items().with(index, item), places: undefined })
  }

  at(index: number): T | undefined {
    return index < this.length ? this.#shared?.items[index] : undefined
  }

  /** Whether the item is in the list, in constant time. */
  has(item: T): boolean {
    const shared = this.#shared
    if (shared === undefined) return false
    shared.places ??= placesOf(shared.items)
    return (shared.places.get(item) ?? this.length) < this.length
  }

  /** Where the item last stands, or -1; fast for what was added lately. */
  lastIndexOf(item: T): number {
    return this.length === 0 ? -1 : (this.#shared?.items.lastIndexOf(item, this.length - 1) ?? -1)
  }

  /** The items as an array of their own. */
  items(): T[] {
    return this.#shared?.items.slice(0, this.length) ?? []
  }
}

function placesOf<T>(items: readonly T[]): Map<T, number> {
  const places = new Map<T, number>()
  for (const [place, item] of items.entries()) if (!places.has(item)) places.set(item, place)
  return places
}
