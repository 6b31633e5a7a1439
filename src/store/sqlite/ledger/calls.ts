// Calls in the file: a row of `open_call` from hold to end, then a permanent row of `call`. Hot commands gather their
// rows and write them at the end of their group.

import type { Database, Statement } from 'bun:sqlite'
import { pass, passAll } from '../../../credits/ledger/failpoint.ts'
import type { CallRecord } from '../../../credits/ledger/ledger.ts'
import type { Pool } from '../../../credits/pool.ts'
import type { CallChange, OpenCall } from '../../../credits/wallet.ts'
import {
  checkpointText,
  endedRecordOf,
  groupText,
  openRecordOf,
  pinsText,
  receiptText,
  usageAddedBy,
} from '../../ledger-rows.ts'
import type { CallEnd } from '../../ledger-core.ts'
import { BulkInsert } from './journal.ts'
import type { Row } from '../../schema.ts'
import { requireOne } from '../database/sqlite.ts'
import type { UsageDays } from './usage-days.ts'

/** Made anew for each group: a map whose entries come and go would keep old calls alive, see ShortLivedMap. */
function nothing() {
  return {
    opening: new Map<string, { readonly account: string; open: OpenCall }>(),
    kept: new Map<string, OpenCall>(),
    closed: [] as OpenCall[],
    endedIds: new Set<string>(),
  }
}

export class CallTable {
  readonly #sql: ReturnType<typeof statements>
  readonly #opened: BulkInsert
  readonly #ended: BulkInsert
  readonly #usage: UsageDays
  /** What is not in the file yet. */
  #group = nothing()
  /** No call has had an id above this one; undefined if that must be read from the file. */
  #newest: string | undefined

  constructor(database: Database, usage: UsageDays) {
    this.#sql = statements(database)
    this.#usage = usage
    this.#opened = new BulkInsert(
      database,
      'open_call',
      'id, account, key, hold, pins, funding, model, price_version, key_limit, key_window, owner, lease_until, opened_at, progress, tags, in_group',
    )
    this.#ended = new BulkInsert(
      database,
      'call',
      'id, account, key, state, hold, funding, model, price_version, owner, opened_at, ended_at, ending, cost, charged, absorbed, estimated, upstream_id, receipt, in_group, settle_tx, tags',
    )
  }

  open(account: string, open: OpenCall): boolean {
    const id = open.call
    if (this.#group.opening.has(id) || this.#group.endedIds.has(id) || this.#isUsed(id)) return false
    this.#group.opening.set(id, { account, open })
    return true
  }

  /** Ids grow with time: one above all that were ever used is new, and the tables need not be asked for it. */
  #isUsed(id: string): boolean {
    this.#newest ??= this.#sql.newest.get()!.id
    if (id <= this.#newest) return this.#sql.used.get(id) !== null
    this.#newest = id
    return false
  }

  keep(open: OpenCall): void {
    const opening = this.#group.opening.get(open.call)
    if (opening) opening.open = open
    else this.#group.kept.set(open.call, open)
  }

  end(account: string, ended: Extract<CallChange, { kind: 'ended' }>, end: CallEnd): void {
    const { open, state, cost, charged, absorbed } = ended
    // A call that was opened in this very group never becomes a row of `open_call`.
    if (!this.#group.opening.delete(open.call)) {
      this.#group.kept.delete(open.call)
      this.#group.closed.push(open)
    }
    this.#group.endedIds.add(open.call)
    this.#ended.add([
      open.call,
      account,
      open.key,
      state,
      open.hold,
      open.funding.join(','),
      open.model,
      open.priceVersion,
      open.owner,
      open.openedAt,
      end.at,
      end.ending,
      cost,
      charged,
      absorbed,
      end.receipt?.estimated ? 1 : 0,
      end.receipt?.served?.upstreamId ?? null,
      receiptText(end.receipt, end.attempts, open.priceVersion),
      groupText(open.inGroup),
      end.tx,
      open.tags,
    ])
    this.#usage.add(usageAddedBy(account, ended, end))
    if (end.ending === 'recovered') pass('recovery-written', open.call)
    for (let n = 0; n < end.attempts.length; n++) {
      const attempt = end.attempts[n]!
      if (attempt.outcome === 'served') continue
      const attemptState = attempt.provider === 'unreconciled' ? 'unreconciled' : 'failed'
      this.#sql.attempt.run(open.call, n, attempt.provider, attempt.upstreamId, attemptState, attempt.code)
    }
  }

  /** Writes what the group has done so far. */
  write(): void {
    for (const { account, open } of this.#group.opening.values()) this.#opened.add(rowOf(account, open))
    this.#opened.write()
    passAll('hold-written', this.#group.opening)
    for (const open of this.#group.kept.values()) {
      const progress = open.checkpoint === null ? null : checkpointText(open.checkpoint)
      const { call, owner, hold, leaseUntil } = open
      requireOne(
        this.#sql.update.run(hold, pinsText(open.pins), leaseUntil, progress, call, owner).changes,
        'call',
      )
    }
    passAll('checkpoint-written', this.#group.kept)
    // The owner fences: a call that another has ended in the meantime undoes the group.
    for (const { call, owner } of this.#group.closed)
      requireOne(this.#sql.close.run(call, owner).changes, 'call')
    this.#ended.write()
    this.#usage.write()
    passAll('end-written', this.#group.endedIds)
    this.#group = nothing()
  }

  /** Another process may have opened calls. */
  forgetNewest(): void {
    this.#newest = undefined
  }

  /** Forgets what has not been written. */
  forget(): void {
    this.forgetNewest()
    this.#opened.forget()
    this.#ended.forget()
    this.#usage.forget()
    this.#group = nothing()
  }

  listOpen(): Pick<Row<'openCall'>, 'id' | 'account' | 'owner' | 'lease_until'>[] {
    return this.#sql.open.all()
  }

  /** By our id, or by the id the provider gave its answer. */
  record(account: string, id: string): CallRecord | undefined {
    const open = this.#sql.openById.get(id, account)
    if (open) return openRecordOf(open)
    const row = this.#sql.byId.get(id, account) ?? this.#sql.byUpstreamId.get(id, account)
    if (!row) return undefined
    const drawn = row.settle_tx === null ? [] : this.#sql.drawn.all(row.settle_tx)
    return endedRecordOf(
      row,
      drawn.map(({ lot, pool, amount }) => ({ lot, pool, amount })),
    )
  }
}

function rowOf(account: string, open: OpenCall) {
  return [
    open.call,
    account,
    open.key,
    open.hold,
    pinsText(open.pins),
    open.funding.join(','),
    open.model,
    open.priceVersion,
    open.keyLimit?.limit ?? null,
    open.keyLimit?.windowStart ?? null,
    open.owner,
    open.leaseUntil,
    open.openedAt,
    open.checkpoint === null ? null : checkpointText(open.checkpoint),
    open.tags,
    groupText(open.inGroup),
  ] as const
}

/** SQL: the account has paid for the call, or its person has made it. */
const isOf = (account: string) =>
  `(account = ${account} OR (in_group IS NOT NULL AND in_group ->> '$.person' = ${account}))`

function statements(database: Database) {
  return {
    used: database.prepare<{ used: bigint }, [string]>(
      `SELECT 1 AS used FROM call WHERE id = ?1 UNION ALL SELECT 1 FROM open_call WHERE id = ?1`,
    ),
    newest: database.prepare<{ id: string }, []>(
      `SELECT max(coalesce((SELECT max(id) FROM call), ''), coalesce((SELECT max(id) FROM open_call), '')) AS id`,
    ),
    update: database.prepare(
      `UPDATE open_call SET hold = ?, pins = ?, lease_until = ?, progress = ? WHERE id = ? AND owner = ?`,
    ) as Statement,
    close: database.prepare('DELETE FROM open_call WHERE id = ? AND owner = ?') as Statement,
    attempt: database.prepare(
      'INSERT INTO attempt (call, n, provider, upstream_id, state, code, est_cost) VALUES (?,?,?,?,?,?,0)',
    ) as Statement,
    open: database.prepare<Pick<Row<'openCall'>, 'id' | 'account' | 'owner' | 'lease_until'>, []>(
      'SELECT id, account, owner, lease_until FROM open_call ORDER BY opened_at, id',
    ),
    openById: database.prepare<Row<'openCall'>, [string, string]>(
      `SELECT * FROM open_call WHERE id = ?1 AND ${isOf('?2')}`,
    ),
    byId: database.prepare<Row<'call'>, [string, string]>(
      `SELECT * FROM call WHERE id = ?1 AND ${isOf('?2')}`,
    ),
    // The index is in blocks of calls, and each block is asked, the newest first: 10 ms for the oldest id in three million.
    byUpstreamId: database.prepare<Row<'call'>, [string, string]>(
      `WITH RECURSIVE block (n) AS (
         SELECT max(seq) >> 9 FROM call UNION ALL SELECT n - 1 FROM block WHERE n > 0 ORDER BY 1 DESC),
       newest (seq) AS (
         SELECT (SELECT max(seq) FROM call WHERE call.seq >> 9 = n AND upstream_id = ?1 AND ${isOf('?2')}) FROM block)
       SELECT * FROM call WHERE seq = (SELECT seq FROM newest WHERE seq IS NOT NULL LIMIT 1)`,
    ),
    drawn: database.prepare<{ lot: string; pool: Pool; amount: bigint }, [bigint]>(
      `SELECT journal.lot, lot.pool, -journal.amount AS amount FROM journal JOIN lot ON lot.id = journal.lot
       WHERE journal.tx = ? ORDER BY journal.leg`,
    ),
  }
}

// The table of prices: a permanent, dated record of each version, durable with the first hold that names it.

export class PriceRecords {
  readonly #clock: () => number
  readonly #insert: Statement
  readonly #known = new Set<string>()
  #pending: [version: string, model: string, price: string][] = []

  constructor(database: Database, clock: () => number) {
    this.#clock = clock
    this.#insert = database.prepare(
      'INSERT INTO price_version (version, model, price, recorded_at) VALUES (?,?,?,?) ON CONFLICT (version) DO NOTHING',
    )
  }

  /** Notes a version, once; it is written with the next group. */
  note(version: string, model: string, price: string): void {
    if (this.#known.has(version)) return
    this.#known.add(version)
    this.#pending.push([version, model, price])
  }

  write(): void {
    for (const price of this.#pending) this.#insert.run(...price, this.#clock())
  }

  onCommitted(): void {
    this.#pending = []
  }
}
