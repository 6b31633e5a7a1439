// How many entries a cache holds.

/** Options of an `LRUCache` of at most `entries`. Its own `max` would allocate the places of all of them at once. */
export function atMost(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 }
}
