// What a forger with the file in hand may do to a ledger, and what an audit says of it.

import type { Database } from 'bun:sqlite'
import { expect } from 'bun:test'

/** The transaction of a charge and its call: what is forged. */
export interface Target {
  readonly tx: number
  readonly call: string
}

/** What is broken, and its first entry. */
interface Finding {
  readonly name: string
  readonly detail: string
}

export interface Forgery {
  readonly what: string
  readonly sql: (target: Target) => string
  readonly found: (target: Target) => Finding
  /** What the audit of a day says of it, where it says it otherwise. */
  readonly foundOnDay: ((target: Target) => Finding) | null
  /** Whether it falls on a day, rather than on what the file says of now. */
  readonly ofDay: boolean
}

const chain = 'the hash chain verifies'
const ending = 'a call ends once: settled with one transaction of its cost, or voided with none'
const sumsOfLots = "a wallet's posted and held are the sums over its lots"

/** Of account `anna`, whose calls by key `key1` are paid from her purchased credit. */
export const forgeries: readonly Forgery[] = [
  {
    what: 'an amount, with its counterpart',
    sql: ({ tx }) => `UPDATE journal SET amount = amount / 2 WHERE tx = ${tx}`,
    found: ({ tx }) => ({ name: chain, detail: `transaction ${tx} leg 0` }),
    foundOnDay: null,
    ofDay: true,
  },
  {
    what: 'a deleted transaction',
    sql: ({ tx }) => `DELETE FROM journal WHERE tx = ${tx}`,
    found: ({ tx }) => ({ name: chain, detail: `transaction ${tx + 1} leg 0` }),
    foundOnDay: null,
    ofDay: true,
  },
  {
    what: 'a lot',
    sql: () => 'UPDATE lot SET remaining = remaining + 1',
    found: () => ({
      name: 'per lot: granted = remaining + consumed + expired + refunded',
      detail: expect.stringMatching(/^lot /),
    }),
    foundOnDay: () => ({ name: sumsOfLots, detail: 'wallet anna:purchased' }),
    ofDay: false,
  },
  {
    what: 'a wallet',
    sql: () => 'UPDATE wallet SET posted = posted + 1',
    found: () => ({
      name: "a wallet's posted − debt is the sum of its journal legs",
      detail: 'wallet wallet:anna:purchased',
    }),
    foundOnDay: () => ({ name: sumsOfLots, detail: 'wallet anna:purchased' }),
    ofDay: false,
  },
  {
    what: 'a hold without a call',
    sql: () => 'UPDATE wallet SET held = 1',
    found: () => ({ name: sumsOfLots, detail: 'wallet anna:purchased' }),
    foundOnDay: null,
    ofDay: false,
  },
  {
    what: 'a charge',
    sql: ({ call }) => `UPDATE call SET cost = 1, charged = 1 WHERE id = '${call}'`,
    found: ({ call }) => ({ name: ending, detail: `call ${call}` }),
    foundOnDay: null,
    ofDay: true,
  },
  {
    what: 'a call that was charged made void',
    sql: ({ call }) => `UPDATE call SET state = 'voided', cost = 0, settle_tx = NULL WHERE id = '${call}'`,
    found: ({ tx }) => ({ name: ending, detail: `transaction ${tx}` }),
    foundOnDay: null,
    ofDay: true,
  },
  {
    what: "a key's spending",
    sql: ({ call }) =>
      `UPDATE key_spend SET spent = 0 WHERE day = (SELECT ended_at / 86400000 * 86400000 FROM call WHERE id = '${call}')`,
    found: () => ({ name: "a key's spending is the sum of its calls", detail: 'key key1' }),
    foundOnDay: null,
    ofDay: true,
  },
  {
    what: 'a lot of another account',
    sql: () => "UPDATE lot SET account = 'berta'",
    found: () => ({
      name: "a call is paid by its own account's pools; an API key's by purchased credit alone",
      detail: 'call a',
    }),
    foundOnDay: null,
    ofDay: false,
  },
]

/** Does to the file what no connection of ours allows. */
export function forge(database: Database, sql: string): void {
  database.run('DROP TRIGGER journal_no_update')
  database.run('DROP TRIGGER journal_no_delete')
  database.run('PRAGMA ignore_check_constraints = ON')
  database.run(sql)
}
