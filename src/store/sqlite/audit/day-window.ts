// Finds the rows of a time span in a table ordered by time except where a clock was set back. Searches the primary
// key: an index on time would cost every call, while this costs an audit milliseconds.

/** Rows by an increasing key, perhaps with gaps. */
export interface Timeline {
  /** The smallest and largest key; null if there are no rows. */
  readonly ends: Window | null
  /** The first row whose key is at least `key`. */
  rowFrom(key: bigint): { readonly key: bigint; readonly at: number } | undefined
}

/** The keys from `first` to `last`, both included. */
export interface Window {
  readonly first: bigint
  readonly last: bigint
}

/** A clock may be set back by this much without missing a row. */
const clockToleranceMs = 3_600_000
/** All rows this close to a boundary are checked, then one per tenth of the distance to the end of the table. */
const nearRows = 64n

/**
 * A window that holds every row with `from` <= at < `until`, and some of its neighbours; null when no row can be one.
 * Where a clock was set back by more than an hour the table turns from before to after a moment several times. The
 * turns are looked for over the whole table, in steps that grow with the distance, so what is missed at worst is a
 * stretch of rows shorter than a tenth of its distance from the window.
 */
export function windowOf(timeline: Timeline, from: number, until: number): Window | null {
  if (!timeline.ends) return null
  const first = firstTurn(timeline, timeline.ends, from - clockToleranceMs)
  const last = lastTurn(timeline, timeline.ends, until + clockToleranceMs) - 1n
  return first <= last ? { first, last } : null
}

/** The first key whose row is at `moment` or later, as far as the probes show. */
function firstTurn(timeline: Timeline, ends: Window, moment: number): bigint {
  let turn = turnWithin(timeline, moment, ends.first, ends.last + 1n)
  for (;;) {
    const stray = distances(turn - ends.first)
      .map((distance) => timeline.rowFrom(turn - distance))
      .find((row) => row && row.key < turn && row.at >= moment)
    if (!stray) return turn
    turn = turnWithin(timeline, moment, ends.first, stray.key)
  }
}

/** One past the last key whose row is earlier than `moment`, as far as the probes show. */
function lastTurn(timeline: Timeline, ends: Window, moment: number): bigint {
  let turn = turnWithin(timeline, moment, ends.first, ends.last + 1n)
  for (;;) {
    const stray = distances(ends.last + 1n - turn)
      .map((distance) => timeline.rowFrom(turn + distance - 1n))
      .find((row) => row && row.at < moment)
    if (!stray) return turn
    turn = turnWithin(timeline, moment, stray.key + 1n, ends.last + 1n)
  }
}

/** A key in [low, high] whose row is at `moment` or later (or is `high`), while the row before it is not. */
function turnWithin(timeline: Timeline, moment: number, low: bigint, high: bigint): bigint {
  while (low < high) {
    const middle = (low + high) / 2n
    const row = timeline.rowFrom(middle)
    if (!row || row.key >= high || row.at >= moment) high = middle
    else low = row.key + 1n
  }
  return low
}

/** Distances up to `furthest`, largest first, so that one step back passes all stray rows. */
function distances(furthest: bigint): bigint[] {
  const all: bigint[] = []
  for (let distance = 1n; distance <= furthest; distance += distance < nearRows ? 1n : distance / 10n) {
    all.push(distance)
  }
  return all.toReversed()
}
