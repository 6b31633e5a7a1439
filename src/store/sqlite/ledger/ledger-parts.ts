// What the ledger on SQLite is made of.

import type { Database } from 'bun:sqlite'
import type { GroupLimits } from '../../commit-queue.ts'
import type { UsageDays } from '../calls/usage-days.ts'
import type { Head } from '../audit/anchors.ts'
import type { LedgerClockParts } from './ledger-clock.ts'

/** Rows that are written with the next group: in its transaction, forgotten only after its commit. */
export interface BufferedRows {
  write(): void
  committed(): void
}

export interface LedgerParts {
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
  /** Called after every commit with the head of the journal. */
  readonly committed: (head: Head) => void
}
