// What lasts for a time must not last longer because the clock of the machine was set back.

import { expect, test } from 'bun:test'
import { faultsToOpen, Health } from '../../src/chat/routing/health.ts'
import { steadyClock } from '../../src/async/async.ts'
import { candidateOf, faultOf, stillClock } from '../chat/support.ts'

const hour = 3_600_000

test('a provider that is out is tried again in time', async () => {
  const [wall, machine] = [stillClock(), stillClock()]
  const health = new Health(steadyClock(wall, machine))
  const [limited, broken] = [candidateOf('limited'), candidateOf('broken')]
  health.onFailed(limited, faultOf('rate-limited', { retryAfterMs: 30_000 }), 'acct')
  for (let at = 0; at < faultsToOpen; at++) health.onFailed(broken, faultOf('broken'), 'acct')
  expect(health.report(limited.provider, 'acct').coolUntil).toBe(wall() + 30_000)
  wall.pass(-hour)
  machine.pass(60_000)
  expect(health.isDue(limited, 'acct')).toBe(true)
  expect(health.probe(broken)).toBe(true)
})
