// G2: the server is killed in the middle of its work; its ledger and the provider's bill still agree.

import { expect, test } from 'bun:test'
import { checkpoint, killAgainAndAgain } from './kill.ts'

test('G2: killed 25 times with 50 calls in flight it loses no acknowledged charge, doubles none and keeps no hold', async () => {
  const report = await killAgainAndAgain({ kills: 25, lanes: 50, seed: 7, pauseMs: 400 })
  expect(report.broken).toEqual([])
  expect(report.acknowledged).toBeGreaterThan(500)
  expect(report.killedStreams).toBeGreaterThan(100)
  // A stream that is killed is short of at most one checkpoint, in the mean: words come in bursts on a busy machine.
  expect(report.meanUnchargedWords).toBeLessThan(checkpoint.tokens)
}, 180_000)
