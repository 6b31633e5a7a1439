// Which open calls have lost their process.

import type { Attempt } from '../../credits/ledger.ts'
import type { OpenCallRow } from './call-record.ts'

/** Calls whose lease has ended, and calls of owners that are dead for certain. */
export function recoverable(
  open: readonly Pick<OpenCallRow, 'id' | 'account' | 'owner' | 'lease_until'>[],
  dead: ReadonlySet<string>,
  now: number,
): { readonly call: string; readonly account: string }[] {
  return open
    .filter((row) => Number(row.lease_until) <= now || dead.has(row.owner))
    .map((row) => ({ call: row.id, account: row.account }))
}

/** What is known of the attempts of a call whose process died: that there may have been one. */
export const lostAttempt: Attempt = {
  provider: 'unreconciled',
  outcome: 'failed',
  code: null,
  upstreamId: null,
  ms: 0,
  status: null,
  reason: 'the gateway stopped while the call ran',
}
