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
 * Starts a sweep every `everyMs`. Rounds never overlap; a failed one is reported to `onFailure` and the next still runs.
 * The first runs after one interval: start-up does its own recovery.
 */
export function startSweep(parts: {
  readonly ledger: Pick<LedgerCommands, 'recover'> & Pick<LedgerUpkeep, 'expire'>
  /** Stores that delete their own expired records and return how many. */
  readonly forgetful: readonly { sweep(now: number): Promise<number> }[]
  /** Whether this process does what one of many does for all; the calls of dead processes are everybody's business. */
  readonly leads: () => boolean
  /** Writes the head of the ledger's hash chain next to the database. */
  readonly anchor: () => void
  readonly clock: () => number
  readonly everyMs: number
  readonly onFailure: (error: unknown) => void
}): Sweep {
  let stopped = false
  // What fails in every round must not keep the rest from ever being done.
  const stepsOf = async (steps: readonly (() => Promise<number>)[]) => {
    const done: number[] = []
    const failures: unknown[] = []
    for (const work of steps) {
      try {
        done.push(stopped ? 0 : await work())
      } catch (error) {
        done.push(0)
        failures.push(error)
      }
    }
    return { done, failures }
  }
  const forAll = (work: () => Promise<number>) => (parts.leads() ? work() : Promise.resolve(0))
  const money = single(async () => {
    const now = parts.clock()
    const swept = await stepsOf([
      () => parts.ledger.recover(now),
      () => forAll(() => parts.ledger.expire(now)),
    ])
    if (!stopped) parts.anchor()
    return swept
  })
  // Beside it: a backlog of records takes minutes, and calls whose process died do not wait for it.
  const records = single(() => {
    const now = parts.clock()
    return stepsOf(parts.forgetful.map((kind) => () => forAll(() => kind.sweep(now))))
  })
  const firstOf = (failures: readonly unknown[]) => {
    if (failures.length > 0) throw failures[0]
  }
  let isRunning = false
  const run = single(async (): Promise<Swept> => {
    isRunning = true
    try {
      const [{ done, failures }, forgotten] = [await money(), await records()]
      firstOf([...failures, ...forgotten.failures])
      const [recovered = 0, expired = 0] = done
      return { recovered, expired, forgotten: forgotten.done.reduce((sum, gone) => sum + gone, 0) }
    } finally {
      isRunning = false
    }
  })
  // The step of a round that is stopped may find the store closed: what it left, the next start does.
  const onFailure = (error: unknown) => stopped || parts.onFailure(error)
  const tick = async () => {
    if (isRunning) firstOf((await money()).failures)
    else await run()
  }
  const timer = setInterval(() => void tick().catch(onFailure), parts.everyMs)
  timer.unref()
  const stop = () => {
    stopped = true
    clearInterval(timer)
  }
  return { run, stop }
}

/** Work that never overlaps: who asks while it runs waits for that round. */
function single<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => (running ??= work().finally(() => (running = undefined)))
}
