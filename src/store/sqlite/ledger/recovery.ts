// Which processes have served a data directory, and which open calls have lost theirs.

import type { Database } from 'bun:sqlite'
import type { OpenCallRow } from '../../call-record.ts'

/** Calls whose lease has ended, and calls of owners that are dead for certain. */
export function recoverable(
  open: readonly Pick<OpenCallRow, 'id' | 'account' | 'owner' | 'lease_until'>[],
  isDead: (owner: string) => boolean,
  now: number,
): { readonly call: string; readonly account: string }[] {
  return open
    .filter((row) => Number(row.lease_until) <= now || isDead(row.owner))
    .map((row) => ({ call: row.id, account: row.account }))
}

/** Notes that this process serves the data directory. */
export function register(database: Database, owner: string, now: number): void {
  const insert = database.prepare(
    'INSERT INTO server (owner, started_at) VALUES (?, ?) ON CONFLICT (owner) DO NOTHING',
  )
  insert.run(owner, now)
  insert.finalize()
}
