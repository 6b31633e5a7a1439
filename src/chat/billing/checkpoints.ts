// Records what a call with several rounds has cost so far, so that a crash between rounds loses nothing.

import { pass } from '../../credits/ledger/failpoint.ts'
import type { CheckpointCommand, LedgerStore } from '../../credits/ledger/ledger.ts'
import type { Log } from '../../observe/log.ts'
import { type ChatLimits, leaseUntil } from '../limits.ts'

interface CheckpointParts {
  readonly ledger: Pick<LedgerStore, 'checkpoint'>
  readonly owner: string
  readonly limits: ChatLimits
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** How long the end of a round may wait for a commit, milliseconds, so that what follows soon shares it. */
const soonMs = 20

export class Checkpoints {
  readonly #parts: CheckpointParts
  readonly #call: string
  readonly #progress: () => Pick<CheckpointCommand, 'usage' | 'cost'>
  #timer: Timer | undefined

  /** `progress` is called when a checkpoint is written. */
  constructor(
    parts: CheckpointParts,
    call: string,
    progress: () => Pick<CheckpointCommand, 'usage' | 'cost'>,
  ) {
    this.#parts = parts
    this.#call = call
    this.#progress = progress
  }

  /** Schedules a checkpoint within `soonMs`: a slow tool does not delay it. */
  soon(): void {
    this.#timer ??= setTimeout(() => this.#write(), soonMs)
  }

  /** Queues the waiting checkpoint now. */
  flush(): void {
    if (this.#timer !== undefined) this.#write()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #write(): void {
    this.stop()
    const { ledger, owner, limits, log, now } = this.#parts
    const call = this.#call
    pass('checkpoint-queued', call)
    ledger
      .checkpoint({ call, owner, ...this.#progress(), leaseUntil: leaseUntil(limits, now()) })
      .then(() => pass('checkpoint-committed', call))
      .catch((cause: unknown) => log.warn('a checkpoint was not written', { cause }))
  }
}
