// What the file says, read by a connection of its own and held against the oracle.

import type { Database } from 'bun:sqlite'
import { holdOf, sum, type Oracle, type OracleLot } from './oracle.ts'

interface LotRow {
  readonly id: string
  readonly pool: string
  readonly granted: bigint
  readonly remaining: bigint
  readonly pinned: bigint
  readonly expired: bigint
  readonly refunded: bigint
}

interface PoolRow {
  readonly pool: string
  readonly posted: bigint
  readonly held: bigint
  readonly debt: bigint
}

interface CallRow {
  readonly id: string
  readonly state: string
  readonly hold: bigint
  readonly cost: bigint | null
  readonly charged: bigint | null
  readonly settle_tx: bigint | null
}

type Tell = (why: string) => void

export class Picture {
  readonly #sql: ReturnType<typeof statements>

  constructor(database: Database) {
    this.#sql = statements(database)
  }

  lotOf(source: string): string {
    return this.#sql.lotOf.get(source)?.id ?? ''
  }

  /** Of the last line of a transaction; empty when there is none. */
  hashOf(tx: number): string {
    return this.#sql.hashOf.get(tx)?.hash.toHex() ?? ''
  }

  /** One account: every lot, every pool, every open call. */
  compare(oracle: Oracle, account: string, tell: Tell): void {
    const lots = oracle.lots.filter((lot) => lot.account === account)
    const rows = this.#sql.lots.all(account)
    if (rows.length !== lots.length) tell(`${account} has ${rows.length} lots, not ${lots.length}`)
    for (const row of rows) {
      const lot = lots.find((other) => other.id === row.id)
      const wrong = lot === undefined ? 'is unknown' : differenceOf(row, lot)
      if (wrong) tell(`the lot ${row.id} of ${account} ${wrong}`)
    }
    let debt = 0n
    for (const row of this.#sql.pools.all(account)) {
      const own = lots.filter((lot) => lot.pool === row.pool)
      const posted = sum(own.map((lot) => lot.remaining))
      const held = sum(own.map((lot) => lot.pinned))
      debt += row.debt
      if (row.posted !== posted || row.held !== held)
        tell(`${account}:${row.pool} has ${row.posted} and holds ${row.held}, not ${posted} and ${held}`)
    }
    if (debt !== oracle.debtOf(account)) tell(`${account} owes ${debt}, not ${oracle.debtOf(account)}`)
    const open = [...oracle.calls.values()].filter(
      (call) => call.account === account && call.state === 'open',
    )
    const openRows = this.#sql.openCalls.all(account)
    if (openRows.length !== open.length)
      tell(`${account} has ${openRows.length} open calls, not ${open.length}`)
    for (const call of open) {
      const row = openRows.find(({ id }) => id === call.id)
      if (row?.hold !== holdOf(call)) tell(`the call ${call.id} holds ${row?.hold}, not ${holdOf(call)}`)
    }
  }

  /** Every account, every call that ever was with what it drew from which lot, every key. */
  compareAll(oracle: Oracle, tell: Tell): void {
    for (const account of new Set(oracle.lots.map((lot) => lot.account))) this.compare(oracle, account, tell)
    const rows = this.#sql.calls.all()
    if (rows.length !== oracle.calls.size) tell(`there are ${rows.length} calls, not ${oracle.calls.size}`)
    for (const row of rows) {
      const call = oracle.calls.get(row.id)
      if (call?.state !== row.state) tell(`the call ${row.id} is ${row.state}, not ${call?.state}`)
      if (!call || row.state === 'open') continue
      if (row.cost !== call.cost || row.charged !== call.charged)
        tell(
          `the call ${row.id} cost ${row.cost} and charged ${row.charged}, not ${call.cost}, ${call.charged}`,
        )
      const drawn = row.settle_tx === null ? [] : this.#sql.drawn.all(row.settle_tx)
      if (!Bun.deepEquals(drawn, call.drawn)) tell(`the call ${row.id} drew on other lots than it should`)
    }
    for (const { key, spent } of this.#sql.keys.all()) {
      const charged = [...oracle.calls.values()]
        .filter((call) => call.key === key)
        .map((call) => call.charged)
      if (spent !== sum(charged)) tell(`the key ${key} has spent ${spent}, not ${sum(charged)}`)
    }
    const budgets = new Map<string, bigint>()
    for (const { inGroup, charged } of oracle.calls.values()) {
      for (const { scope, windowStart } of inGroup?.budgets ?? []) {
        const name = `${scope} ${windowStart}`
        budgets.set(name, (budgets.get(name) ?? 0n) + charged)
      }
    }
    const kept = new Map(this.#sql.budgets.all().map(({ name, spent }) => [name, spent]))
    for (const [name, charged] of budgets) {
      const spent = kept.get(name) ?? 0n
      if (spent !== charged) tell(`of the budget ${name} is spent ${spent}, not ${charged}`)
    }
    for (const name of kept.keys()) if (!budgets.has(name)) tell(`no call was held on the budget ${name}`)
  }
}

function differenceOf(row: LotRow, lot: OracleLot): string | null {
  const names = ['pool', 'granted', 'remaining', 'pinned', 'expired', 'refunded'] as const
  const name = names.find((field) => row[field] !== lot[field])
  return name === undefined ? null : `has ${name} ${row[name]}, not ${lot[name]}`
}

function statements(database: Database) {
  return {
    hashOf: database.prepare<{ hash: Uint8Array }, [number]>(
      'SELECT hash FROM journal WHERE tx = ? ORDER BY leg DESC LIMIT 1',
    ),
    lotOf: database.prepare<{ id: string }, [string]>('SELECT id FROM lot WHERE source = ?'),
    lots: database.prepare<LotRow, [string]>(
      'SELECT id, pool, granted, remaining, pinned, expired, refunded FROM lot WHERE account = ?',
    ),
    pools: database.prepare<PoolRow, [string]>(
      'SELECT pool, posted, held, debt FROM wallet WHERE account = ?',
    ),
    openCalls: database.prepare<{ id: string; hold: bigint }, [string]>(
      'SELECT id, hold FROM open_call WHERE account = ?',
    ),
    calls: database.prepare<CallRow, []>(
      `SELECT id, state, hold, cost, charged, settle_tx FROM call
       UNION ALL SELECT id, 'open', hold, NULL, NULL, NULL FROM open_call`,
    ),
    drawn: database.prepare<{ lot: string; amount: bigint }, [bigint]>(
      'SELECT lot, -amount AS amount FROM journal WHERE tx = ? AND lot IS NOT NULL ORDER BY leg',
    ),
    budgets: database.prepare<{ name: string; spent: bigint }, []>(
      "SELECT scope || ' ' || window AS name, spent FROM budget_spend",
    ),
    keys: database.prepare<{ key: string; spent: bigint }, []>(
      'SELECT key, sum(spent) AS spent FROM key_spend GROUP BY key',
    ),
  }
}
