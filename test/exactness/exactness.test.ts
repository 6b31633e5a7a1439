// G7: what a call is charged is what the provider asks for it.

import { beforeAll, describe, expect, test } from 'bun:test'
import { measureExactness, type ExactnessReport } from './exactness.ts'

describe('G7: of 2,500 mixed calls, streamed and whole, with caches, tools, zeros, gaps and departures', () => {
  let report: ExactnessReport
  beforeAll(async () => {
    report = await measureExactness({ calls: 2_500, lanes: 24, seed: 1 })
  }, 120_000)

  test('every one is booked as it was shown, none beyond its hold, and the audit agrees', () => {
    expect(report.broken).toEqual([])
    expect(report.calls).toBeGreaterThanOrEqual(2_500)
  })

  test('those the provider has counted differ from its bill by nothing', () => {
    expect(report.difference).toBe(0n)
    expect(report.exact).toBeGreaterThan(1_500)
  })

  test('those that had to be estimated differ from it by less than 3 % in the sum', () => {
    expect(Math.abs(report.estimateError)).toBeLessThan(0.03)
  })
})
