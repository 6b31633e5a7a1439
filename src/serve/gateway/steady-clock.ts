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
