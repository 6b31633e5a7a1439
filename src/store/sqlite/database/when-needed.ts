/**
 * Gives what `make` makes, from its first call on. For the statements of stores that few calls need: preparing them all
 * would take milliseconds of every start, and memory for good.
 */
export function whenNeeded<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}
