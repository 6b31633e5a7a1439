// Parts of a ledger's process for tests that need only some of them.

import { InFlight } from '../../../src/chat/in-flight.ts'
import { Probes } from '../../../src/chat/routing/health.ts'
import { Limiter, type RequestLimits } from '../../../src/http/intake/paid/limits.ts'
import type { Shared } from '../../../src/serve/gateway/gateway.ts'

export const noLimits: RequestLimits = {
  inFlight: 1_000,
  inFlightPerAccount: 1_000,
  keyRequestsPerMinute: 0,
  keyTokensPerMinute: 0,
  accountRequestsPerMinute: 0,
}

/** What all workers share, where nobody uses it but for the limits given. */
export function sharedOf(limits: RequestLimits, inFlight = new InFlight(), clock = Date.now): Shared {
  const unused = () => {
    throw new Error('not part of this test')
  }
  return {
    limiter: new Limiter(() => limits, inFlight, clock),
    probes: new Probes(clock),
    ended: {
      append: unused,
      appendRefused: unused,
      appendTurnedAway: unused,
      countRefusal: unused,
      countLoopDelay: unused,
    },
    freeCredit: { ensure: unused },
    leaks: { onUsed: unused },
    monthlyCredit: { ensure: unused },
    mcp: { registered: unused, noteRefusal: unused },
    lastHour: unused,
  }
}

export const noShared = sharedOf(noLimits)
