// Which processes have served a data directory, and which open calls have lost theirs.

import type { Database } from 'bun:sqlite'
import type { OpenCallRow } from '../../call-record.ts'
import { isAbandoned } from '../../ledger-core.ts'
import type { LedgerParts } from './ledger-parts.ts'

/** Calls that their owners have left: see isAbandoned. */
export function recoverable(
  open: readonly Pick<OpenCallRow, 'id' | 'account' | 'owner' | 'lease_until'>[],
  lives: Pick<LedgerParts, 'isDead' | 'isRunning'>,
  now: number,
): { readonly call: string; readonly account: string }[] {
  return open
    .map(({ id: call, account, owner, lease_until }) => ({
      call,
      account,
      owner,
      leaseUntil: Number(lease_until),
    }))
    .filter((each) => isAbandoned(each, lives, now))
}

/** Notes that this process serves the data directory. */
export function register(database: Database, owner: string, now: number): void {
  const insert = database.prepare(
    'INSERT INTO server (owner, started_at) VALUES (?, ?) ON CONFLICT (owner) DO NOTHING',
  )
  insert.run(owner, now)
  insert.finalize()
}
