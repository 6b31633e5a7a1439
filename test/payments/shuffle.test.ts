// G6: messages that come twice, out of order, late and forged, with refunds and disputes among them.

import { expect, test } from 'bun:test'
import { shuffled } from './shuffle.ts'

test("G6: in 300 orders of messages the books are the processor's own, to the picodollar", async () => {
  const report = await shuffled({ from: 0, ways: 300 })
  expect(report.broken).toEqual([])
  expect(report.ways).toBe(300)
  // An order in which nothing happens proves nothing.
  expect(report.credited).toBeGreaterThan(300)
  expect(report.forged).toBeGreaterThan(100)
  expect(report.messages).toBeGreaterThan(5_000)
}, 60_000)
