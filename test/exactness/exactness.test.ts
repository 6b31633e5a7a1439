// G7: what a call is charged is what the provider asks for it.

import { beforeAll, describe, expect, test } from 'bun:test'
import { kinds } from './corpus.ts'
import { measureExactness, type ExactnessReport } from './exactness.ts'
import { measureUncounted, type UncountedReport } from './uncounted.ts'

describe('G7: of 1,000 mixed calls, streamed and whole, with caches, tools, zeros, gaps and disconnects', () => {
  let report: ExactnessReport
  beforeAll(async () => {
    report = await measureExactness({ calls: 1_000, lanes: 24, seed: 1 })
  }, 120_000)

  test('every one is booked as it was shown, none beyond its hold, and the audit agrees', () => {
    expect(report.broken).toEqual([])
    expect(report.calls).toBeGreaterThanOrEqual(1_000)
  })

  test('those the provider has counted differ from its bill by nothing', () => {
    expect(report.difference).toBe(0n)
    expect(report.exact).toBeGreaterThan(600)
  })

  test('those that had to be estimated differ from it by less than 3 % in the sum', () => {
    expect(Math.abs(report.estimateError)).toBeLessThan(0.03)
  })
})

describe('G7: of answers that nobody counts, in scripts, code, digits, base64 and emoji', () => {
  let report: UncountedReport
  beforeAll(async () => {
    report = await measureUncounted({ callsOfKind: 8, lanes: 8, seed: 1 })
  }, 120_000)

  test('every one is charged by an estimate', () => {
    expect(report.broken).toEqual([])
    expect(Object.keys(report.kinds).toSorted()).toEqual([...kinds].toSorted())
  })

  test.each(kinds)('the sum for %s is within 5 %% of what was made', (kind) => {
    expect(Math.abs(report.kinds[kind]!.error)).toBeLessThan(0.05)
  })
})
