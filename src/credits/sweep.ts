// The sweep: ends the calls whose process died and books the credit whose time is over, a few times a minute.

import type { LedgerStore, LedgerUpkeep } from './ledger.ts'

export interface Sweep {
  /** Does one round now. Rejects when the store cannot be written; the next round tries again. */
  run(): Promise<{ readonly recovered: number; readonly expired: number }>
  stop(): void
}

/**
 * Starts sweeping every `everyMs`. Rounds never overlap; one that fails is told to `failed` and does not stop the
 * next. Nothing runs before the first interval is over: start-up recovers by itself.
 */
export function startSweep(parts: {
  readonly ledger: Pick<LedgerStore, 'recover'> & Pick<LedgerUpkeep, 'expire'>
  readonly clock: () => number
  readonly everyMs: number
  readonly failed: (error: unknown) => void
}): Sweep {
  let running: ReturnType<Sweep['run']> | undefined
  async function round() {
    const now = parts.clock()
    const recovered = await parts.ledger.recover(now)
    return { recovered, expired: await parts.ledger.expire(now) }
  }
  function run() {
    running ??= round().finally(() => (running = undefined))
    return running
  }
  const timer = setInterval(() => run().catch(parts.failed), parts.everyMs)
  timer.unref()
  return { run, stop: () => clearInterval(timer) }
}
