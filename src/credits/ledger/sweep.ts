// The sweep, a few times a minute: ends calls whose process died, expires credit, and deletes records past their
// retention.

import type { LedgerCommands, LedgerUpkeep } from './ledger.ts'

/** How many calls were ended, accounts lost credit, and records were deleted. */
export interface Swept {
  readonly recovered: number
  readonly expired: number
  readonly forgotten: number
}

export interface Sweep {
  /** Runs one round, all of it. Rejects with the first failure; the next round tries again. */
  run(): Promise<Swept>
  /** No round begins any more, and one under way ends with the step it is in. */
  stop(): void
}

/**
 * Starts a sweep every `everyMs`. Rounds never overlap; a failed one is reported to `failed` and the next still runs.
 * The first runs after one interval: start-up does its own recovery.
 */
export function startSweep(parts: {
  readonly ledger: Pick<LedgerCommands, 'recover'> & Pick<LedgerUpkeep, 'expire'>
  /** Stores that delete their own expired records and return how many. */
  readonly forgetful: readonly { sweep(now: number): Promise<number> }[]
  /** Writes the head of the ledger's hash chain next to the database. */
  readonly anchor: () => void
  readonly clock: () => number
  readonly everyMs: number
  readonly failed: (error: unknown) => void
}): Sweep {
  let running: ReturnType<Sweep['run']> | undefined
  let stopped = false
  async function round(): Promise<Swept> {
    const now = parts.clock()
    const failures: unknown[] = []
    // What fails in every round must not keep the rest from ever being done.
    const step = async (work: () => Promise<number>) => {
      if (stopped) return 0
      try {
        return await work()
      } catch (error) {
        failures.push(error)
        return 0
      }
    }
    const recovered = await step(() => parts.ledger.recover(now))
    const expired = await step(() => parts.ledger.expire(now))
    let forgotten = 0
    for (const records of parts.forgetful) forgotten += await step(() => records.sweep(now))
    if (!stopped) parts.anchor()
    if (failures.length > 0) throw failures[0]
    return { recovered, expired, forgotten }
  }
  function run() {
    running ??= round().finally(() => (running = undefined))
    return running
  }
  // The step of a round that is stopped may find the store closed: what it left, the next start does.
  const failed = (error: unknown) => stopped || parts.failed(error)
  const timer = setInterval(() => void run().catch(failed), parts.everyMs)
  timer.unref()
  const stop = () => {
    stopped = true
    clearInterval(timer)
  }
  return { run, stop }
}
