// The sweep: ends the calls whose process died, books the credit whose time is over and forgets old idempotency keys,
// a few times a minute.

import type { IdempotencyStore } from './idempotency.ts'
import type { LedgerStore, LedgerUpkeep } from './ledger.ts'

/** How many calls were ended, accounts lost credit, and keys were forgotten. */
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
 * Starts sweeping every `everyMs`. Rounds never overlap; one that fails is told to `failed` and does not stop the
 * next. Nothing runs before the first interval is over: start-up recovers by itself.
 */
export function startSweep(parts: {
  readonly ledger: Pick<LedgerStore, 'recover'> & Pick<LedgerUpkeep, 'expire'>
  readonly idempotency: Pick<IdempotencyStore, 'sweep'>
  readonly clock: () => number
  readonly everyMs: number
  readonly failed: (error: unknown) => void
}): Sweep {
  let running: ReturnType<Sweep['run']> | undefined
  async function round(): Promise<Swept> {
    const now = parts.clock()
    const recovered = await parts.ledger.recover(now)
    const expired = await parts.ledger.expire(now)
    return { recovered, expired, forgotten: await parts.idempotency.sweep(now) }
  }
  function run() {
    running ??= round().finally(() => (running = undefined))
    return running
  }
  const timer = setInterval(() => run().catch(parts.failed), parts.everyMs)
  timer.unref()
  return { run, stop: () => clearInterval(timer) }
}
