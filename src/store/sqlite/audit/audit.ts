// Audits the ledger from its file alone: checks every invariant with a query and recomputes every hash. Reads a
// snapshot on a connection of its own, so it works beside a running server. audit-day.ts audits one day.

import { type Check, checksOfBoth, grantedLots } from '../../audits.ts'
import type { Database } from 'bun:sqlite'
import type { AuditReport } from '../../../credits/ledger/ledger.ts'
import { loanPrefix } from '../../../credits/wallet.ts'
import {
  type Anchor,
  anchorsBeside,
  missingAnchor,
  readAnchors,
  readingFrom,
  replacements,
} from '../database/sqlite.ts'
import { genesis, hashOf } from '../../ledger-rows.ts'
import type { Row } from '../../schema.ts'

/** Sums the two halves separately: SQLite's SUM throws beyond 2^63, which a forged file could cause. */
const halves = (column: string) => `sum(${column} >> 32) AS hi, sum(${column} & 4294967295) AS lo`
const whole = (hi: string, lo: string) => `(${hi} + (${lo} >> 32)) AS hi, (${lo} & 4294967295) AS lo`

/** The next three checks differ between the whole journal and one day. `before`: the preceding transaction. */
const numbering = (before: string) => `SELECT 'transaction ' || tx || ' leg ' || leg AS broken FROM
            (SELECT tx, leg, lag(tx, 1, ${before}) OVER win AS before, lag(leg, 1, -1) OVER win AS leg_before
             FROM journal WINDOW win AS (ORDER BY tx, leg))
          WHERE NOT ((tx = before AND leg = leg_before + 1) OR (tx = before + 1 AND leg = 0))`

const pins = (pinnedLots: string) => `WITH pins AS (
            SELECT open_call.id AS call, json_extract(pin.value, '$[0]') AS lot, json_extract(pin.value, '$[1]') AS amount
            FROM open_call, json_each(open_call.pins) AS pin)
          SELECT 'lot ' || lot AS broken FROM (
            SELECT lot, sum(amount) AS difference FROM (
              SELECT lot, amount FROM pins UNION ALL SELECT id, -pinned FROM ${pinnedLots}
            ) GROUP BY lot) WHERE difference <> 0
          UNION ALL
          SELECT 'call ' || id FROM open_call
            WHERE hold <> coalesce((SELECT sum(amount) FROM pins WHERE pins.call = open_call.id), 0)`

const keySpending = (calls: string) => `SELECT 'key ' || key AS broken FROM (
            SELECT key, ${whole('sum(hi)', 'sum(lo)')} FROM (
              SELECT key, spent >> 32 AS hi, spent & 4294967295 AS lo FROM key_spend
              UNION ALL
              SELECT key, -charged >> 32, -charged & 4294967295 FROM ${calls} WHERE state = 'settled' AND key IS NOT NULL
            ) GROUP BY key)
          WHERE hi <> 0 OR lo <> 0`

/** Every refund has its row, which keeps it from being booked twice, and every row its transactions. */
const unnotedRefunds = `SELECT name AS broken FROM (
            SELECT name, ${whole('sum(hi)', 'sum(lo)')} FROM (
              SELECT 'wallet:' || account || ':purchased' AS name, (taken + debt) >> 32 AS hi, (taken + debt) & 4294967295 AS lo
              FROM correction WHERE kind = 'refund'
              UNION ALL
              SELECT account, amount >> 32, amount & 4294967295 FROM journal
              WHERE kind = 'refund' AND amount < 0 AND account GLOB 'wallet:*'
            ) GROUP BY name)
          WHERE hi <> 0 OR lo <> 0 ORDER BY name`

/** As reversals.ts has it: a failed refund leaves the sum, and all together take no more than was paid. */
const misrefunded = `SELECT 'top-up ' || id AS broken FROM (
            SELECT top_up.id, top_up.amount, top_up.refunded,
              sum(iif(kind = 'refund', reversal.amount, 0)) - sum(iif(kind = 'failed', reversal.amount, 0)) AS standing,
              sum(iif(kind = 'lost', reversal.amount, 0)) AS lost
            FROM top_up LEFT JOIN payment_reversal AS reversal ON reversal.top_up = top_up.id GROUP BY top_up.id)
          WHERE refunded <> min(amount, lost + max(0, standing))`

const misgranted = `(source GLOB 'daily:*' AND (pool <> 'daily' OR expires_at % 86400000 <> 0
              OR source <> 'daily:' || account || ':' || strftime('%Y-%m-%d', expires_at / 1000 - 1, 'unixepoch')))
            OR (source GLOB 'welcome:*' AND source <> 'welcome:' || account)`

/** The schema since which what operators grant and adjust is in the log of acts as soon as it is in the ledger. */
export const actsBooked = '0020_failed_refunds'

const both = checksOfBoth({
  charges: 'call.settle_tx = journal.tx',
  settle: 'settle_tx',
  startsWith: (text, start) => `${text} GLOB '${start}*'`,
  position: (text, part) => `instr(${text}, ${part})`,
  withoutLast: (text, count) => `substr(${text}, 1, length(${text}) - ${count})`,
  beforeColon: (text) => `substr(${text}, 1, instr(${text}, ':') - 1)`,
  json: (column) => column,
  elementsOf: (column, member) => `json_each(${column}, '$.${member}')`,
  actsBookedAt: `(SELECT applied_at FROM migration WHERE name = '${actsBooked}')`,
})

/** What adjustments took, by their notes and by the journal. Notes of older versions do not tell the amount. */
const misnoted = `SELECT 'account ' || account AS broken FROM (
            SELECT account, ${whole('sum(hi)', 'sum(lo)')} FROM (
              SELECT account, taken >> 32 AS hi, taken & 4294967295 AS lo FROM correction WHERE kind = 'adjust' AND taken > 0
              UNION ALL
              SELECT lot.account, amount >> 32, amount & 4294967295 FROM journal JOIN lot ON lot.id = journal.lot
              WHERE journal.kind = 'adjust'
            ) GROUP BY account)
          WHERE (hi <> 0 OR lo <> 0)
            AND account NOT IN (SELECT account FROM correction WHERE kind = 'adjust' AND taken = 0)`

/** Who made a call: with a key of a group, another may have paid. */
const personOf = "iif(call.in_group IS NULL, call.account, call.in_group ->> '$.person')"

export const checks: readonly Check[] = [
  {
    name: "every transaction's legs sum to zero",
    sql: `SELECT 'transaction ' || tx AS broken FROM
            (SELECT tx, ${whole('hi', 'lo')} FROM (SELECT tx, ${halves('amount')} FROM journal GROUP BY tx))
          WHERE hi <> 0 OR lo <> 0 ORDER BY tx`,
  },
  {
    name: 'transactions and legs are numbered without gaps',
    sql: numbering('0'),
    ofDay: numbering(
      '(SELECT coalesce(max(tx), 0) FROM main.journal WHERE tx < (SELECT min(tx) FROM journal))',
    ),
  },
  {
    name: "a wallet's posted − debt is the sum of its journal legs",
    sql: `SELECT 'wallet ' || name AS broken FROM (
            SELECT name, ${whole('sum(hi)', 'sum(lo)')} FROM (
              SELECT account AS name, amount >> 32 AS hi, amount & 4294967295 AS lo FROM journal WHERE account GLOB 'wallet:*'
              UNION ALL
              SELECT 'wallet:' || account || ':' || pool, (debt - posted) >> 32, (debt - posted) & 4294967295 FROM wallet
            ) GROUP BY name)
          WHERE hi <> 0 OR lo <> 0 ORDER BY name`,
    ofDay: null,
  },
  both.sumsOfLots,
  both.overdrawn,
  {
    name: 'what lots have pinned is what open calls hold',
    sql: pins('lot WHERE pinned <> 0'),
    // Spent lots are kept permanently; only those with a remainder are indexed.
    ofDay: pins('lot WHERE live = 1 AND pinned <> 0'),
  },
  {
    name: 'an open call holds credit of its own account and pools alone',
    sql: `SELECT 'call ' || open_call.id AS broken FROM open_call, json_each(open_call.pins) AS pin
          LEFT JOIN lot ON lot.id = json_extract(pin.value, '$[0]')
          WHERE lot.id IS NULL OR lot.account <> open_call.account
            OR instr(',' || open_call.funding || ',', ',' || lot.pool || ',') = 0
            OR (open_call.key IS NOT NULL AND lot.pool <> 'purchased')`,
  },
  {
    name: 'a call is open or has ended, never both',
    sql: `SELECT 'call ' || ended.id AS broken FROM open_call CROSS JOIN main.call AS ended ON ended.id = open_call.id`,
  },
  both.parts,
  both.expiry,
  both.pools,
  both.order,
  {
    name: 'a call ends once: settled with one transaction of its cost, or voided with none',
    sql: `SELECT 'call ' || id AS broken FROM call LEFT JOIN (
            SELECT tx, -sum(iif(lot IS NOT NULL, amount, 0)) AS charged,
              -sum(iif(account = 'absorbed', amount, 0)) AS absorbed, sum(iif(account GLOB 'provider:*', amount, 0)) AS cost
            FROM journal WHERE kind = 'settle' GROUP BY tx) AS paid ON paid.tx = call.settle_tx
          WHERE (state = 'settled' AND (call.cost IS NULL OR call.cost <> coalesce(paid.cost, 0)
              OR call.charged <> coalesce(paid.charged, 0) OR call.absorbed <> coalesce(paid.absorbed, 0)))
            OR (state <> 'settled' AND settle_tx IS NOT NULL)
          UNION ALL
          SELECT 'transaction ' || tx FROM journal WHERE kind = 'settle' AND leg = 0
            AND tx NOT IN (SELECT settle_tx FROM call WHERE settle_tx IS NOT NULL)`,
  },
  {
    name: "a key's spending is the sum of its calls",
    sql: keySpending('call'),
    ofDay: keySpending('(SELECT call.* FROM call, day WHERE ended_at >= day.start AND ended_at < day.next)'),
  },
  {
    // Over the windows that a call was held in, wherever its person or its group is moved afterwards.
    name: "a budget's spending is the sum of the calls that were held on it",
    sql: `SELECT 'budget ' || scope AS broken FROM (
            SELECT scope, start, ${whole('sum(hi)', 'sum(lo)')} FROM (
              SELECT scope, window AS start, spent >> 32 AS hi, spent & 4294967295 AS lo FROM budget_spend
              UNION ALL
              SELECT budget.value ->> 0, budget.value ->> 1, -charged >> 32, -charged & 4294967295
              FROM call, json_each(call.in_group, '$.budgets') AS budget
              WHERE in_group IS NOT NULL AND state = 'settled'
            ) GROUP BY scope, start)
          WHERE hi <> 0 OR lo <> 0`,
    ofDay: null,
  },
  both.groups,
  {
    name: 'one Idempotency-Key is one call of its account',
    sql: `SELECT 'key ' || idempotency.key AS broken FROM idempotency JOIN call ON call.id = idempotency.call
          WHERE ${personOf} <> idempotency.account`,
    ofDay: `SELECT 'key ' || idempotency.key AS broken FROM call CROSS JOIN idempotency ON idempotency.call = call.id
          WHERE ${personOf} <> idempotency.account`,
  },
  both.payments,
  { ...both.adjustments, sql: `${both.adjustments.sql} UNION ALL ${misnoted}` },
  both.repeated,
  { name: 'every refund is noted under its id', sql: unnotedRefunds, ofDay: null },
  {
    name: 'a payment is refunded by what its refunds and lost disputes say',
    sql: misrefunded,
    ofDay: null,
  },
  {
    name: 'one allowance for each account and UTC day, one welcome for each account',
    sql: `SELECT 'lot ' || id AS broken FROM lot WHERE ${misgranted}`,
    ofDay: `SELECT 'lot ' || id AS broken FROM lot WHERE id IN (${grantedLots}) AND (${misgranted})`,
  },
]

export const anchoredHistory = 'the history is the one that was anchored outside the database'

/** Audits the ledger in one file and the anchors beside it. Throws only if the file cannot be read. */
export function auditFile(path: string): AuditReport {
  const anchors = readAnchors(anchorsBeside(path))
  return readingFrom(path, (database) => {
    database.run('BEGIN')
    return auditOf(database, anchors)
  })
}

/** Audits what one transaction of a connection sees, against the anchors. Throws only if it cannot be read. */
export function auditOf(database: Database, anchors: readonly Anchor[]): AuditReport {
  const chain = chainOf(database, genesis)
  const found = checks.map(({ name, sql }) => result(name, firstBroken(database, sql)))
  const damage = database.prepare<{ quick_check: string }, []>('PRAGMA quick_check(1)').get()?.quick_check
  const all = [
    result('the file is sound', damage === 'ok' ? null : (damage ?? 'no answer')),
    result('the hash chain verifies', chain.broken),
    result(anchoredHistory, missingAnchor(database, anchors)),
    ...found,
    result(
      consumptionOrder,
      runCheck(() => firstOutOfOrder(database)),
    ),
  ]
  return {
    ok: all.every((check) => check.ok),
    journalEntries: chain.entries,
    headHash: Buffer.from(chain.head).toString('hex'),
    checks: all,
    replaced: replacements(anchors),
  }
}

export function result(name: string, detail: string | null): AuditReport['checks'][number] {
  return { name, ok: detail === null, detail }
}

/** The first violation, or null. */
export function firstBroken(database: Database, sql: string): string | null {
  return runCheck(() => database.prepare<{ broken: string }, []>(`${sql} LIMIT 1`).get()?.broken ?? null)
}

function runCheck(check: () => string | null): string | null {
  try {
    return check()
  } catch (error) {
    // A forged figure can overflow a sum, which is a finding too.
    return `the check could not be computed: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Recomputes the hashes of `journal`, starting from the one before its first line, until one does not match. */
export function chainOf(
  database: Database,
  before: Uint8Array,
): { entries: number; head: Uint8Array; broken: string | null } {
  let head = before
  let entries = 0
  const rows = database.prepare<Row<'journal'>, []>(
    'SELECT tx, leg, kind, account, lot, amount, at, prev_hash, hash FROM journal ORDER BY tx, leg',
  )
  for (const row of rows.iterate()) {
    const expected = hashOf(head, row)
    if (Buffer.compare(row.prev_hash, head) !== 0 || Buffer.compare(row.hash, expected) !== 0) {
      return { entries, head, broken: `transaction ${row.tx} leg ${row.leg}` }
    }
    head = row.hash
    entries++
  }
  return { entries, head, broken: null }
}

// Checks from the journal that calls took credit in the order of consumption: pool by pool as the call might spend them,
// in each the lot that expires first, then the oldest.

/**
 * What the journal does not tell is which lots a call held while it ran. So a charge breaks the order only if a lot that
 * came before had more left than all calls together can have held that ran at the same time.
 */
export const consumptionOrder = 'calls take credit pool by pool, of each the lot that expires first'

interface GrantedOrTaken {
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

type ChargedCall = Row<'call', 'id' | 'account' | 'funding' | 'hold' | 'opened_at'>

/** The first charge that broke the order, or null. Reads the journal once, and the calls once if there is any doubt. */
function firstOutOfOrder(database: Database): string | null {
  const suspects = new Suspects(database)
  const lots = new LotsLeft()
  const callOf = database.prepare<ChargedCall, [bigint]>(
    'SELECT id, account, funding, hold, opened_at FROM call WHERE settle_tx = ?',
  )
  const judge = (charge: Charge | undefined) => {
    if (!charge || !lots.areOthers(charge)) return
    const call = callOf.get(charge.tx)
    const spared = call ? lots.sparedBy(charge, call) : 0n
    if (call && spared > 0n) suspects.add(call, charge.at, spared)
  }
  const lines = database.prepare<GrantedOrTaken, []>(
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
  book({ lot: id, amount, account, pool, granted_at, expires_at }: GrantedOrTaken): LotLeft | undefined {
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
  sparedBy({ at, lots }: Charge, { account, funding, opened_at }: ChargedCall): bigint {
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

  add({ id, account, hold, opened_at }: ChargedCall, endedAt: number, spared: bigint): void {
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
