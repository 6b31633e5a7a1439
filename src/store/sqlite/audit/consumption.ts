// Checks from the journal that calls took credit in the order of consumption: pool by pool as the call might spend them,
// in each the lot that expires first, then the oldest.

import type { Database } from 'bun:sqlite'
import { loanPrefix } from '../../../credits/wallet.ts'

/**
 * What the journal does not tell is which lots a call held while it ran. So a charge breaks the order only if a lot that
 * came before had more left than all calls together can have held that ran at the same time.
 */
export const consumptionOrder = 'calls take credit pool by pool, of each the lot that expires first'

interface Row {
  readonly tx: bigint
  readonly kind: string
  readonly lot: string
  readonly amount: bigint
  readonly at: bigint
  /** Of the lot where it is granted; null in all other lines. */
  readonly account: string | null
  readonly pool: string
  readonly granted_at: bigint
  readonly expires_at: bigint | null
}

interface LotLeft {
  readonly id: string
  readonly account: string
  readonly pool: string
  readonly grantedAt: number
  readonly expiresAt: number | null
  left: bigint
}

interface Charge {
  readonly tx: bigint
  readonly at: number
  readonly lots: LotLeft[]
}

interface CallRow {
  readonly id: string
  readonly account: string
  readonly funding: string
  readonly hold: bigint
  readonly opened_at: bigint
}

/** The first charge that broke the order, or null. Reads the journal once, and the calls once if there is any doubt. */
export function firstOutOfOrder(database: Database): string | null {
  const suspects = new Suspects(database)
  const lots = new LotsLeft()
  const callOf = database.prepare<CallRow, [bigint]>(
    'SELECT id, account, funding, hold, opened_at FROM call WHERE settle_tx = ?',
  )
  const judge = (charge: Charge | undefined) => {
    if (!charge || !lots.areOthers(charge)) return
    const call = callOf.get(charge.tx)
    const spared = call ? lots.sparedBy(charge, call) : 0n
    if (call && spared > 0n) suspects.add(call, charge.at, spared)
  }
  const lines = database.prepare<Row, []>(
    `SELECT tx, kind, lot, amount, at, lot.account, lot.pool, lot.granted_at, lot.expires_at
     FROM journal LEFT JOIN lot ON amount > 0 AND lot.id = journal.lot
     WHERE journal.lot IS NOT NULL ORDER BY tx, leg`,
  )
  let charge: Charge | undefined
  for (const row of lines.iterate()) {
    if (charge?.tx !== row.tx) {
      judge(charge)
      charge = row.kind === 'settle' ? { tx: row.tx, at: Number(row.at), lots: [] } : undefined
    }
    const lot = lots.book(row)
    if (lot) charge?.lots.push(lot)
  }
  judge(charge)
  return suspects.firstGuilty()
}

/** What is left of each lot, as the journal goes on. */
class LotsLeft {
  readonly #byId = new Map<string, LotLeft>()
  readonly #ofAccount = new Map<string, Set<LotLeft>>()

  /** Books a line. Returns its lot, unless the ledger does not know it. */
  book({ lot: id, amount, account, pool, granted_at, expires_at }: Row): LotLeft | undefined {
    // Credit whose expiry a refund undoes goes in the same transaction.
    if (account !== null && !this.#byId.has(id)) {
      const expiresAt = expires_at === null ? null : Number(expires_at)
      const lot = { id, account, pool, grantedAt: Number(granted_at), expiresAt, left: 0n }
      this.#byId.set(id, lot)
      // Loans are the call's own, which it takes last.
      if (!id.startsWith(loanPrefix)) this.#of(account).add(lot)
    }
    const lot = this.#byId.get(id)
    if (!lot) return undefined
    lot.left += amount
    if (lot.left <= 0n) {
      this.#byId.delete(id)
      this.#ofAccount.get(lot.account)?.delete(lot)
    }
    return lot
  }

  /** Whether the account has any lot but those that pay for this. */
  areOthers({ lots }: Charge): boolean {
    const [first] = lots
    if (!first) return false
    const left = this.#ofAccount.get(first.account)?.size ?? 0
    return left > (lots.length === 1 && first.left > 0n ? 1 : 0)
  }

  /** What is left of lots that the call might have spent before the last one that it took. */
  sparedBy({ at, lots }: Charge, { account, funding, opened_at }: CallRow): bigint {
    const order = funding.split(',')
    const rank = ({ id, pool }: LotLeft) => (id.startsWith(loanPrefix) ? order.length : order.indexOf(pool))
    const before = (a: LotLeft, b: LotLeft) => rank(a) - rank(b) || byExpiryAndAge(a, b)
    const last = lots.reduce((latest, lot) => (before(latest, lot) < 0 ? lot : latest))
    let spared = 0n
    for (const lot of this.#ofAccount.get(account) ?? []) {
      const couldPay =
        rank(lot) >= 0 && lot.grantedAt < Number(opened_at) && (lot.expiresAt === null || lot.expiresAt > at)
      if (couldPay && lot !== last && before(lot, last) < 0) spared += lot.left
    }
    return spared
  }

  #of(account: string): Set<LotLeft> {
    let lots = this.#ofAccount.get(account)
    if (!lots) this.#ofAccount.set(account, (lots = new Set()))
    return lots
  }
}

/** Not that of the ledger: an audit that shared it would find nothing wrong with it. */
function byExpiryAndAge(a: LotLeft, b: LotLeft): number {
  const [end, otherEnd] = [a.expiresAt ?? Number.MAX_SAFE_INTEGER, b.expiresAt ?? Number.MAX_SAFE_INTEGER]
  return end - otherEnd || a.grantedAt - b.grantedAt || (a.id < b.id ? -1 : 1)
}

interface Step {
  readonly account: string
  readonly call: string
  /** 0: a suspect begins; 1: a call ends; 2: a call begins; 3: a suspect ends. */
  readonly kind: bigint
  readonly amount: bigint
}

/** Charges that passed over credit, until it is known what other calls held meanwhile. In a table: they may be many. */
class Suspects {
  readonly #database: Database
  #insert: ReturnType<Database['prepare']> | undefined

  constructor(database: Database) {
    this.#database = database
  }

  add({ id, account, hold, opened_at }: CallRow, endedAt: number, spared: bigint): void {
    if (!this.#insert) {
      this.#database.run(
        'CREATE TEMP TABLE suspect (call TEXT, account TEXT, opened_at INTEGER, ended_at INTEGER, spared INTEGER)',
      )
      this.#insert = this.#database.prepare('INSERT INTO suspect VALUES (?,?,?,?,?)')
    }
    this.#insert.run(id, account, opened_at, endedAt, spared + hold)
  }

  /**
   * The first suspect that passed over more than the calls of its account held that ran at any time between its own
   * beginning and end: those that began before its end, without those that ended before its beginning.
   */
  firstGuilty(): string | null {
    if (!this.#insert) return null
    const accounts = '(SELECT account FROM suspect)'
    const steps = this.#database.prepare<Step, []>(
      `SELECT account, opened_at AS at, 0 AS kind, call, 0 AS amount FROM suspect
       UNION ALL SELECT account, ended_at, 1, id, hold FROM main.call WHERE account IN ${accounts}
       UNION ALL SELECT account, opened_at, 2, id, hold FROM main.call WHERE account IN ${accounts}
       UNION ALL SELECT account, opened_at, 2, id, hold FROM open_call WHERE account IN ${accounts}
       UNION ALL SELECT account, ended_at, 3, call, spared FROM suspect
       ORDER BY account, at, kind`,
    )
    let [of, begun, ended] = ['', 0n, 0n]
    const endedBefore = new Map<string, bigint>()
    for (const { account, call, kind, amount } of steps.iterate()) {
      if (account !== of) [of, begun, ended] = [account, 0n, 0n]
      if (kind === 0n) endedBefore.set(call, ended)
      else if (kind === 1n) ended += amount
      else if (kind === 2n) begun += amount
      else {
        if (amount > begun - (endedBefore.get(call) ?? 0n)) return `call ${call}`
        endedBefore.delete(call)
      }
    }
    return null
  }
}
