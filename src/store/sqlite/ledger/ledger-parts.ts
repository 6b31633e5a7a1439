// What the ledger on SQLite is made of.

import type { Database } from 'bun:sqlite'
import type { GroupLimits, QueueEvents } from '../../commits/group.ts'
import type { UsageDays } from '../calls/usage-days.ts'
import type { Head } from '../audit/anchors.ts'
import type { LedgerClockParts } from './ledger-clock.ts'
import type { LogSync } from '../database/log-sync.ts'

/** Rows that are written with the next group: in its transaction, forgotten only after its commit. */
export interface BufferedRows {
  write(): void
  onCommitted(): void
}

export interface LedgerParts extends QueueEvents {
  readonly database: Database
  readonly path: string
  readonly time: LedgerClockParts
  readonly limits: GroupLimits
  /** What ended calls add to their days. */
  readonly usage: UsageDays
  /** Rows of other tables that are written with the next group's commit. */
  readonly bufferedRows: readonly BufferedRows[]
  /** Whether a process is dead for certain, whatever its leases say. */
  readonly isDead: (owner: string) => boolean
  /** Whether a call runs for certain in a process that is not dead, whatever its lease says. */
  readonly isRunning: (call: string) => boolean
  /** Called with the head of the journal when a commit is durable. */
  readonly committed: (head: Head) => void
  /** What takes the log to the disk on another thread; where it is left out every commit waits for its own sync. */
  readonly log?: Pick<LogSync, 'sync'> | undefined
}
