// The rows of a span of time are found without reading the table, whatever the clock has done.

import { describe, expect, test } from 'bun:test'
import { type Timeline, windowOf } from '../../../src/store/sqlite/audit/audit-day.ts'

const hour = 3_600_000
const day = 24 * hour

/** Rows with these times under keys that count up from 1 by `stride`, and how many were looked at. */
function timelineOf(times: readonly number[], stride = 1): Timeline & { looks: number } {
  const keyOf = (at: number) => BigInt(1 + at * stride)
  return {
    looks: 0,
    ends: times.length === 0 ? null : { first: keyOf(0), last: keyOf(times.length - 1) },
    rowFrom(key) {
      this.looks++
      const at = Math.max(0, Math.ceil((Number(key) - 1) / stride))
      return at < times.length ? { key: keyOf(at), at: times[at]! } : undefined
    },
  }
}

/** How many rows of the span the window leaves out. */
function missedBy(times: readonly number[], from: number, until: number, stride = 1): number {
  const window = windowOf(timelineOf(times, stride), from, until)
  const inside = (at: number) => {
    const key = BigInt(1 + at * stride)
    return window !== null && key >= window.first && key <= window.last
  }
  return times.filter((time, at) => time >= from && time < until && !inside(at)).length
}

/** The same numbers in [0, 1) each time. */
function seeded(seed: number): () => number {
  return () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
}

describe('the window of a day', () => {
  test('has the rows of the day and, beside them, those of an hour at most', () => {
    const times = Array.from({ length: 100 * 240 }, (_, n) => (n * day) / 240)
    const window = windowOf(timelineOf(times), 50 * day, 51 * day)
    expect(window).toEqual({ first: BigInt(1 + 50 * 240 - 10), last: BigInt(51 * 240 + 10) })
  })

  test('is found in ten million rows with hundreds of looks', () => {
    const table = timelineOf([])
    const huge: Timeline = {
      ends: { first: 1n, last: 10_000_000n },
      rowFrom: (key) => (table.looks++, { key: key < 1n ? 1n : key, at: Number(key) * 8_640 }),
    }
    expect(windowOf(huge, 500 * day, 501 * day)).toEqual({ first: 4_999_584n, last: 5_010_416n })
    expect(table.looks).toBeLessThan(1_000)
  })

  test.each([
    ['no row at all', []],
    ['rows before it alone', [1, 2, 3]],
    ['rows after it alone', [30 * day, 31 * day]],
  ])('with %s there is none', (_what, times) => {
    expect(windowOf(timelineOf(times), 10 * day, 11 * day)).toBeNull()
  })

  test('misses nothing while the clock goes back by up to an hour, with gaps in the numbers or without', () => {
    const random = seeded(7)
    for (let round = 0; round < 300; round++) {
      let latest = 0
      const times = Array.from({ length: 400 }, () => {
        latest += random() * random() * 2 * hour
        return latest - random() * hour
      })
      const from = random() * latest
      expect({ round, missed: missedBy(times, from, from + day, 1 + (round % 3)) }).toEqual({
        round,
        missed: 0,
      })
    }
  })

  test.each([2, 5, 30, 100])('misses nothing after the clock went back by %d hours', (hours) => {
    // A call a minute; half-way the clock is put right.
    const times = Array.from({ length: 40 * 1440 }, (_, n) => n * 60_000 + (n < 20 * 1440 ? hours * hour : 0))
    for (let from = 0; from < 40 * day; from += 7 * hour) {
      expect({ from, missed: missedBy(times, from, from + day) }).toEqual({ from, missed: 0 })
    }
  })

  test('one row with a forged time hides no other, wherever the search meets it', () => {
    const honest = Array.from({ length: 2_000 }, (_, n) => n * hour)
    for (let forged = 0; forged < honest.length; forged += 3) {
      const times = honest.with(forged, forged % 2 ? 0 : 9_999 * day)
      expect({ forged, missed: missedBy(times, 40 * day, 41 * day) }).toEqual({ forged, missed: 0 })
    }
  })
})
