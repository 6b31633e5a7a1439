// The sweep: ends the calls whose process died, books the credit whose time is over and forgets what is kept for a time
// only, a few times a minute.

import type { LedgerCommands, LedgerUpkeep } from './ledger.ts'

/** How many calls were ended, accounts lost credit, and records were forgotten. */
export interface Swept {
  readonly recovered: number
  readonly expired: number
  readonly forgotten: number
}

export interface Sweep {
  /** Does one round now. Rejects when the store cannot be written; the next round tries again. */
  run(): Promise<Swept>
  stop(): void
}

/**
 * Starts sweeping every `everyMs`. Rounds never overlap; one that fails is reported to `failed` and does not stop the
 * next. Nothing runs before the first interval is over: start-up recovers by itself.
 */
export function startSweep(parts: {
  readonly ledger: Pick<LedgerCommands, 'recover'> & Pick<LedgerUpkeep, 'expire'>
  /** What forgets its own, and says how much of it: idempotency keys, stored responses. */
  readonly forgetful: readonly { sweep(now: number): Promise<number> }[]
  /** Writes the head of the ledger's hash chain beside the database. */
  readonly anchor: () => void
  readonly clock: () => number
  readonly everyMs: number
  readonly failed: (error: unknown) => void
}): Sweep {
  let running: ReturnType<Sweep['run']> | undefined
  async function round(): Promise<Swept> {
    const now = parts.clock()
    const recovered = await parts.ledger.recover(now)
    const expired = await parts.ledger.expire(now)
    let forgotten = 0
    for (const records of parts.forgetful) forgotten += await records.sweep(now)
    parts.anchor()
    return { recovered, expired, forgotten }
  }
  function run() {
    running ??= round().finally(() => (running = undefined))
    return running
  }
  const timer = setInterval(() => void run().catch(parts.failed), parts.everyMs)
  timer.unref()
  return { run, stop: () => clearInterval(timer) }
}
