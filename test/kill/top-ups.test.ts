// G6: the server is killed while payers pay: every payment is one credit that its account's webhook is told of, every
// refund is taken once.

import { expect, test } from 'bun:test'
import { paymentFailpoints } from '../../src/credits/ledger/failpoint.ts'
import { killWhilePaying } from './top-ups.ts'

test('G6: killed between proof and credit, credit and answer, and at any moment, each payment is credited once', async () => {
  const points = Object.keys(paymentFailpoints)
  const report = await killWhilePaying({ kills: Math.ceil(1.5 * points.length), payers: 4, seed: 11 })
  expect(report.broken).toEqual([])
  expect(Object.keys(report.reached).toSorted()).toEqual(points.toSorted())
  expect(report.paid).toBeGreaterThan(report.kills)
  expect(report.refunds).toBeGreaterThan(0)
  expect(report.told).toBe(report.paid)
  // Whoever was killed before it noted an answer tells again, under the same id.
  expect(report.toldAgain).toBeGreaterThan(0)
}, 120_000)
