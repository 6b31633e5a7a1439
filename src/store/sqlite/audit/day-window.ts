// Finds the rows of a span of time in a table that is in the order of time, but for what a clock has stepped back.
// By a search over the primary key: an index on the time would cost every call, and this costs an audit milliseconds.

/** Rows by a key that counts up, perhaps with gaps. */
export interface Timeline {
  /** The least and the greatest key; null when there is no row. */
  readonly ends: Window | null
  /** The first row whose key is `key` or greater. */
  rowFrom(key: bigint): { readonly key: bigint; readonly at: number } | undefined
}

/** From the key `first` to the key `last`, both included. */
export interface Window {
  readonly first: bigint
  readonly last: bigint
}

/** A clock may have been set back by this much without any row being missed. */
const clockToleranceMs = 3_600_000
/** Every row this near to a boundary is looked at, and then one in each tenth of the way to the end of the table. */
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

/** The key from which on rows are at `moment` or later, and before which no probe finds one. */
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

/** The key before which rows are earlier than `moment`, and from which on no probe finds one. */
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

/** A key in [low, high] whose row is at `moment` or later (or it is `high`), while the row before it is not. */
function turnWithin(timeline: Timeline, moment: number, low: bigint, high: bigint): bigint {
  while (low < high) {
    const middle = (low + high) / 2n
    const row = timeline.rowFrom(middle)
    if (!row || row.key >= high || row.at >= moment) high = middle
    else low = row.key + 1n
  }
  return low
}

/** Up to `furthest`, the furthest first, so that one step back passes everything that strays. */
function distances(furthest: bigint): bigint[] {
  const all: bigint[] = []
  for (let distance = 1n; distance <= furthest; distance += distance < nearRows ? 1n : distance / 10n) {
    all.push(distance)
  }
  return all.toReversed()
}
