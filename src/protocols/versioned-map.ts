// A map for the states of pure parsers: writing gives a new map without copying the old one, which stays as it was.

/** What it takes to get from the newer map to an older one: the entry that was written over. */
interface Undo<Key, Value extends NonNullable<unknown>> {
  readonly newer: VersionedMap<Key, Value>
  readonly key: Key
  /** Undefined where there was no such entry. */
  readonly value: Value | undefined
}

/**
 * A map that never changes as far as anybody can see. All versions share the entries of the newest; an older one
 * remembers what it had instead, and takes a copy of its own should anybody look into it. So a chain of writes, each
 * on the result of the one before, costs the same for every write, however many entries there are.
 */
export class VersionedMap<Key, Value extends NonNullable<unknown>> {
  #entries: Map<Key, Value> | undefined
  #undo: Undo<Key, Value> | undefined

  constructor(entries: Map<Key, Value> = new Map()) {
    this.#entries = entries
  }

  get size(): number {
    return this.#own().size
  }

  get(key: Key): Value | undefined {
    return this.#own().get(key)
  }

  has(key: Key): boolean {
    return this.#own().has(key)
  }

  /** In the order in which they were first written. */
  keys(): Iterable<Key> {
    return this.#own().keys()
  }

  values(): Iterable<Value> {
    return this.#own().values()
  }

  /** The map with this entry. */
  with(key: Key, value: Value): VersionedMap<Key, Value> {
    const entries = this.#own()
    const newer = new VersionedMap(entries)
    this.#undo = { newer, key, value: entries.get(key) }
    this.#entries = undefined
    entries.set(key, value)
    return newer
  }

  #own(): Map<Key, Value> {
    return (this.#entries ??= this.#copy())
  }

  #copy(): Map<Key, Value> {
    const undone: Undo<Key, Value>[] = []
    let newest: Map<Key, Value> | undefined
    for (let undo = this.#undo; undo !== undefined; undo = undo.newer.#undo) {
      undone.push(undo)
      newest = undo.newer.#entries
    }
    const entries = new Map(newest)
    for (const { key, value } of undone.toReversed()) {
      if (value === undefined) entries.delete(key)
      else entries.set(key, value)
    }
    this.#undo = undefined
    return entries
  }
}
