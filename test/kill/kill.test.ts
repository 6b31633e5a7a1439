// G2: the server is killed in the middle of its work; its ledger and the provider's bill still agree.

import { expect, test } from 'bun:test'
import { killAgainAndAgain } from './kill.ts'
import { everyFailpoint } from './trials.ts'

test('G2: killed at every failpoint and at random, with 50 calls in flight, it loses no acknowledged charge, doubles none and keeps no hold', async () => {
  const report = await killAgainAndAgain({
    kills: Math.ceil(1.5 * everyFailpoint.length),
    lanes: 50,
    seed: 7,
    pauseMs: 250,
  })
  // A failpoint that was not reached is among what is broken.
  expect(report.broken).toEqual([])
  expect(report.causes.filter(({ kills }) => kills === 0)).toEqual([])
  // How much is done between two kills is the machine's affair; that something is done and cut off each time is not.
  expect(report.acknowledged).toBeGreaterThan(report.kills)
  expect(report.cutStreams).toBeGreaterThan(report.kills)
  // Tools of both kinds were cut off, and what they had used was charged.
  expect(report.gauged).toBeGreaterThan(0)
  expect(report.searches.charged).toBeGreaterThan(0)
  // Clients that asked again with their Idempotency-Key had an answer that was kept.
  expect(report.replayed).toBeGreaterThan(0)
  // A stream that is killed is short of at most one checkpoint and one on its way to the disk, in the mean: words come
  // in bursts on a busy machine.
  expect(report.meanUnchargedWords).toBeLessThan(report.allowedWords)
}, 180_000)
