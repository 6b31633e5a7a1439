// A few seconds of the soak (G8): what the long run would find, as far as it does not take an hour.

import { expect, test } from 'bun:test'
import { brokenPromises, slopeOf, soak, type SoakReport } from './soak.ts'

test('under traffic with faults every served call is charged, and its descriptors come back', async () => {
  const report = await soak({
    seconds: 4,
    warmUpSeconds: 1,
    requestsPerSecond: 40,
    openStreams: 10,
    streamSeconds: 1,
    faultsPerMille: 50,
    say: () => undefined,
  })
  expect(brokenPromises(report, false)).toEqual([])
  expect(report.load.left).toBeGreaterThan(0)
}, 60_000)

test('a line through points has their slope', () => {
  expect(slopeOf([0, 1, 2, 3].map((at) => [at, 5 + 2 * at]))).toBeCloseTo(2)
  expect(slopeOf([[1, 4]])).toBe(0)
})

test('each broken promise is named', () => {
  const good: SoakReport = {
    load: { asked: 10, served: 10, refused: 0, broken: 0, left: 0, shed: 0 },
    slopeMb: 0.5,
    firstMb: 100,
    lastMb: 101,
    descriptors: [16, 20],
    logMb: 20,
    healthP99Ms: 10,
    charged: 10,
    audit: true,
  }
  expect(brokenPromises(good, true)).toEqual([])
  const faults: Partial<SoakReport>[] = [
    { audit: false },
    { charged: 9 },
    { descriptors: [16, 30] },
    { logMb: 70 },
    { slopeMb: 2 },
    { healthP99Ms: 80 },
  ]
  for (const fault of faults) expect(brokenPromises({ ...good, ...fault }, true)).toHaveLength(1)
  expect(brokenPromises({ ...good, slopeMb: 2, healthP99Ms: 80 }, false)).toEqual([])
})
