// What a store answers at once where it can (SQLite, in this process), and later where it must (across a network); and
// work that is waited for only so long.

export type Awaitable<T> = T | Promise<T>

/**
 * Resolves when `work` has settled, either way, or `ms` milliseconds have passed. Never rejects. A process that has
 * nothing else to do does not stay for the rest of the time.
 */
export async function settledWithin(ms: number, work: Promise<unknown> | undefined): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, ms)
  await Promise.race([work, late.promise]).catch(() => undefined)
  clearTimeout(timer)
}

/**
 * Does something every `everyMs` milliseconds until it is stopped, and never twice at a time: a round that lasts longer
 * is waited for. What it rejects with goes to `onFailure`, and the next round tries again. Keeps no process alive.
 */
export function repeat(
  everyMs: number,
  act: () => Promise<unknown>,
  onFailure: (error: unknown) => void,
): { stop(): void } {
  let isRunning = false
  const timer = setInterval(() => {
    if (isRunning) return
    isRunning = true
    act()
      .catch(onFailure)
      .finally(() => (isRunning = false))
  }, everyMs)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}

// A clock for how long something lasts.

/**
 * Milliseconds since 1970, as `clock` has them now, which run on evenly from here. The clock of a machine may be set
 * back, and what lasts until a moment of it (a provider that is out, a cached row) would last for hours.
 */
export function steadyClock(
  clock: () => number,
  elapsed: () => number = () => performance.now(),
): () => number {
  const began = clock() - elapsed()
  return () => began + elapsed()
}

// A map and a set for what comes and goes with every call.
//
// JavaScriptCore's Map and Set keep what has been deleted from them: as entries come and go, they move to new tables, and
// an old table goes on to refer to its entries and to the next table. One that has survived a garbage collection keeps
// all later ones alive, with all calls that were ever in them, until the next collection of the whole heap.

/** What is in a `ShortLivedSet` knows its place there; -1 while it is in none. It can be in one at a time. */
export interface Placed {
  place: number
}

/** Members in no particular order. Adding one that is in it, and deleting one that is not, does nothing. */
export class ShortLivedSet<T extends Placed> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  add(member: T): void {
    if (member.place < 0) member.place = this.#members.push(member) - 1
  }

  /** Whether it was in the set. */
  delete(member: T): boolean {
    const { place } = member
    if (place < 0) return false
    member.place = -1
    const last = this.#members.pop()!
    if (last === member) return true
    this.#members[place] = last
    last.place = place
    return true
  }

  /** Members as they are now: they may be deleted and added meanwhile. */
  values(): readonly T[] {
    return [...this.#members]
  }
}

/** A map whose deleted entries keep no more of the heap than their keys. */
export class ShortLivedMap<K, V> {
  readonly #entries = new Map<K, { value: V | undefined }>()

  get size(): number {
    return this.#entries.size
  }

  has(key: K): boolean {
    return this.#entries.has(key)
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)?.value
  }

  set(key: K, value: V): void {
    const entry = this.#entries.get(key)
    if (entry) entry.value = value
    else this.#entries.set(key, { value })
  }

  /** The value that was in the map. */
  take(key: K): V | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return undefined
    this.#entries.delete(key)
    const { value } = entry
    entry.value = undefined
    return value
  }

  /** In order of arrival, as they are now. */
  keys(): readonly K[] {
    return [...this.#entries.keys()]
  }

  /** In order of arrival, as they are now. */
  values(): readonly V[] {
    return [...this.#entries.values()].map(({ value }) => value as V)
  }
}

/** Options of an `LRUCache` of at most `entries`. Its own `max` would allocate the places of all of them at once. */
export function atMost(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 }
}
