// G2: the server is killed in the middle of its work; its ledger and the provider's bill still agree.

import { expect, test } from 'bun:test'
import { checkpoint, killAgainAndAgain } from './kill.ts'

test('G2: killed 25 times with 50 calls in flight it loses no acknowledged charge, doubles none and keeps no hold', async () => {
  const report = await killAgainAndAgain({ kills: 25, lanes: 50, seed: 7, pauseMs: 400 })
  expect(report.broken).toEqual([])
  // How much is done between two kills is the machine's affair; that something is done and cut off each time is not.
  expect(report.acknowledged).toBeGreaterThan(report.kills)
  expect(report.killedStreams).toBeGreaterThan(report.kills)
  // A stream that is killed is short of at most one checkpoint, in the mean: words come in bursts on a busy machine.
  expect(report.meanUnchargedWords).toBeLessThan(checkpoint.tokens)
}, 180_000)
