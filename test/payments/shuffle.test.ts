// G6: messages that come twice, out of order, late and forged, with refunds and disputes among them.

import { expect, test } from 'bun:test'
import { shuffled } from './shuffle.ts'

test("G6: in 120 orders of messages the books are the processor's own, to the picodollar", async () => {
  const report = await shuffled({ from: 0, ways: 120 })
  expect(report.broken).toEqual([])
  expect(report.ways).toBe(120)
  // An order in which nothing happens proves nothing.
  expect(report.credited).toBeGreaterThan(120)
  expect(report.forged).toBeGreaterThan(40)
  expect(report.messages).toBeGreaterThan(2_000)
}, 60_000)
