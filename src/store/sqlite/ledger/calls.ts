// Calls in the file: a row of `open_call` from hold to end, then a permanent row of `call`. Hot commands gather their
// rows and write them at the end of their group.

import type { Database, Statement } from 'bun:sqlite'
import { pass, passAll } from '../../../credits/ledger/failpoint.ts'
import type { CallRecord } from '../../../credits/ledger/ledger.ts'
import type { Pool } from '../../../credits/pool.ts'
import type { CallChange, OpenCall } from '../../../credits/wallet.ts'
import {
  cellsOfEnded,
  cellsOfFailures,
  cellsOfOpen,
  endedRecordOf,
  openRecordOf,
  pinsText,
  progressText,
  usageAddedBy,
  bitOfDay,
  costColumnOf,
  type UsageAdded,
} from '../../ledger-rows.ts'
import type { CallEnd } from '../../ledger-core.ts'
import { BulkInsert } from './wallets.ts'
import type { Row } from '../../schema.ts'
import { sql } from '../../sql/work.ts'
import { isOutage, requireOne, whenNeeded } from '../database/sqlite.ts'
import { groupTag, tagsOf } from '../../../conversation/request.ts'
import { startOfDay, startOfMonth } from '../../../credits/calendar.ts'

/** The last calls with an id that a provider gave. The index is in blocks of calls: see CallTable. */
export const callsByUpstreamId = sql<{ readonly seq: bigint }>(
  `WITH RECURSIVE block (n) AS (SELECT max(seq) >> 9 FROM call UNION ALL SELECT n - 1 FROM block WHERE n > 0),
   found (seq) AS (SELECT (SELECT max(seq) FROM call WHERE call.seq >> 9 = n AND upstream_id = ?1) FROM block)
   SELECT seq FROM found WHERE seq IS NOT NULL LIMIT 10`,
)

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
    // In the order of the cells of ledger-rows.ts.
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
    const { open } = ended
    // A call that was opened in this very group never becomes a row of `open_call`.
    if (!this.#group.opening.delete(open.call)) {
      this.#group.kept.delete(open.call)
      this.#group.closed.push(open)
    }
    this.#group.endedIds.add(open.call)
    this.#ended.add(Object.values(cellsOfEnded(account, ended, end)))
    this.#usage.add(usageAddedBy(account, ended, end))
    if (end.ending === 'recovered') pass('recovery-written', open.call)
    for (const failure of cellsOfFailures(open.call, end.attempts))
      this.#sql.attempt.run(...Object.values(failure))
  }

  /** Writes what the group has done so far. */
  write(): void {
    for (const { account, open } of this.#group.opening.values())
      this.#opened.add(Object.values(cellsOfOpen(account, open)))
    this.#opened.write()
    passAll('hold-written', this.#group.opening)
    for (const open of this.#group.kept.values()) {
      const progress = progressText(open)
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
      'INSERT INTO attempt (call, n, provider, upstream_id, state, code, est_cost) VALUES (?,?,?,?,?,?,?)',
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

// Usage per day and month. A call's figures are written in the transaction that ends it, so they always agree with the
// ledger.

/** How many refused additions are kept for another try; the rest are only logged. */
const mostKept = 1_000
/** How long until the next try, milliseconds. */
const patienceMs = 60_000

/** A row of an account's day, of a tag of it, or of the whole installation's day. */
type Table = 'usage_day' | 'usage_month' | 'usage_total' | 'usage_provider' | OfTag
type OfTag = 'usage_tag' | 'usage_tag_total'

/** What calls with one tag add to a day. */
type UsageOfTag = UsageAdded & { readonly tag: string; readonly value: string }

interface Refused {
  readonly table: Table
  readonly added: UsageAdded | UsageOfTag
  readonly error: unknown
}

/**
 * Adds usage within a transaction of the caller, to the days of the account and to those of the whole installation.
 * What the database refuses must not undo the charge in the same transaction: it is passed to `refused` for the log,
 * and tried again with a later commit.
 */
export class UsageDays {
  readonly #upserts: Readonly<Record<Exclude<Table, OfTag | 'usage_month'>, Statement>>
  /** Of a month, by the column of the day: few are ever needed. */
  readonly #ofMonth = new Map<string, Statement>()
  readonly #prepareOfMonth: (cost: string) => Statement
  readonly #ofTag: () => Readonly<Record<OfTag, Statement>>
  readonly #onRefused: (added: UsageAdded, error: unknown) => void
  readonly #retryMs: number
  #added: Writable<UsageAdded>[] = []
  #ofTags: Writable<UsageOfTag>[] = []
  /** In the transaction under way: what was refused for the first time, and what is in at last. */
  #refused: Refused[] = []
  #done = new Set<Refused>()
  /** Refused earlier. */
  #kept: Refused[] = []
  #triedAt = Number.NEGATIVE_INFINITY

  constructor(
    database: Database,
    refused: (added: UsageAdded, error: unknown) => void = () => undefined,
    retryMs = patienceMs,
  ) {
    this.#onRefused = refused
    this.#retryMs = retryMs
    const sums = `ON CONFLICT DO UPDATE SET calls = calls + ?1, errors = errors + ?2, input_tokens = input_tokens + ?3,
       output_tokens = output_tokens + ?4, cost = cost + ?5, charged = charged + ?6, timed = timed + ?7, ms = ms + ?8`
    const figures = 'calls, errors, input_tokens, output_tokens, cost, charged, timed, ms'
    const given = '?1,?2,?3,?4,?5,?6,?7,?8'
    this.#upserts = {
      usage_day: database.prepare(
        `INSERT INTO usage_day (${figures}, day, key, model, account) VALUES (${given},?9,?10,?11,?12) ${sums}`,
      ),
      usage_total: database.prepare(
        `INSERT INTO usage_total (${figures}, day, channel, model) VALUES (${given},?9,?10,?11) ${sums}`,
      ),
      usage_provider: database.prepare(
        `INSERT INTO usage_provider (${figures}, day, channel, model, provider) VALUES (${given},?9,?10,?11,?12) ${sums}`,
      ),
    }
    this.#prepareOfMonth = (cost) =>
      database.prepare(
        `INSERT INTO usage_month (${figures}, month, days, key, model, account, ${cost})
         VALUES (${given},?9,?10,?11,?12,?13,?5)
         ${sums}, days = days | ?10, ${cost} = coalesce(${cost}, 0) + ?5`,
      )
    this.#ofTag = whenNeeded(() => ({
      usage_tag: database.prepare(
        `INSERT INTO usage_tag (${figures}, day, key, model, tag, value, account)
         VALUES (${given},?9,?10,?11,?12,?13,?14) ${sums}`,
      ),
      usage_tag_total: database.prepare(
        `INSERT INTO usage_tag_total (${figures}, day, channel, model, tag, value)
         VALUES (${given},?9,?10,?11,?12,?13) ${sums}`,
      ),
    }))
  }

  /** The object is kept, and what comes next for the same row is added to it. */
  add(added: UsageAdded): void {
    if (added.tags !== null)
      for (const [tag, value] of Object.entries(tagsOf(added.tags)))
        this.#ofTags.push({ ...added, tag, value })
    if (added.group !== null) this.#ofTags.push({ ...added, tag: groupTag, value: added.group })
    const last = this.#added.at(-1)
    if (last !== undefined && isSameRow(last, added)) addTo(last, added)
    else this.#added.push(added)
  }

  /** May run several times in one transaction. */
  write(): void {
    const written: UsageAdded[] = []
    for (const added of this.#added.length > 1 ? together(this.#added, rowOfDay) : this.#added)
      if (this.#tryAdd('usage_day', added)) written.push(added)
    this.#added = []
    if (this.#ofTags.length > 0) {
      for (const added of together(this.#ofTags, rowOfTag)) {
        this.#tryAdd('usage_tag', added)
        this.#tryAdd('usage_tag_total', added)
      }
      this.#ofTags = []
    }
    if (this.#kept.length > 0 && performance.now() - this.#triedAt >= this.#retryMs) this.#retry(written)
    for (const added of copiesOf(written, rowOfMonth)) this.#tryAdd('usage_month', added)
    for (const added of copiesOf(written, rowOfTotal)) this.#tryAdd('usage_total', added)
    for (const added of copiesOf(written, rowOfProvider))
      if (added.provider !== '') this.#tryAdd('usage_provider', added)
  }

  onCommitted(): void {
    if (this.#done.size > 0) this.#kept = this.#kept.filter((kept) => !this.#done.has(kept))
    this.#done = new Set()
    for (const refused of this.#refused.splice(0)) {
      if (this.#kept.length === 0) this.#triedAt = performance.now()
      if (this.#kept.length < mostKept) this.#kept.push(refused)
      this.#onRefused(refused.added, refused.error)
    }
  }

  /** Forgets what has not been written: those who added it will do so again. */
  forget(): void {
    this.#added = []
    this.#ofTags = []
    this.#refused = []
    this.#done = new Set()
  }

  #retry(written: UsageAdded[]): void {
    this.#triedAt = performance.now()
    for (const kept of this.#kept) {
      if (this.#refusal(kept.table, kept.added) !== undefined) continue
      this.#done.add(kept)
      if (kept.table === 'usage_day') written.push(kept.added)
    }
  }

  #monthOf(at: number): Statement {
    const cost = costColumnOf(at)
    let statement = this.#ofMonth.get(cost)
    if (statement === undefined) this.#ofMonth.set(cost, (statement = this.#prepareOfMonth(cost)))
    return statement
  }

  /** Whether it is in. */
  #tryAdd(table: Table, added: UsageAdded | UsageOfTag): boolean {
    const error = this.#refusal(table, added)
    if (error !== undefined) this.#refused.push({ table, added, error })
    return error === undefined
  }

  /** Why the database refuses it; undefined where it is in. Throws when the database cannot be written at all. */
  #refusal(table: Table, added: UsageAdded | UsageOfTag): unknown {
    const { account, at, key, model, calls, errors, cost, charged, provider, timed, ms } = added
    const [input, output] = [Math.round(added.inputTokens), Math.round(added.outputTokens)]
    const day = startOfDay(at)
    const channel = key === null ? 'app' : 'api'
    const figures = [calls, errors, input, output, cost, charged, timed, Math.round(ms)] as const
    try {
      if ('tag' in added) {
        const { tag, value } = added
        const { usage_tag, usage_tag_total } = this.#ofTag()
        if (table === 'usage_tag') usage_tag.run(...figures, day, key ?? '', model, tag, value, account)
        else usage_tag_total.run(...figures, day, channel, model, tag, value)
        return undefined
      }
      const { usage_day, usage_total, usage_provider } = this.#upserts
      if (table === 'usage_day') usage_day.run(...figures, day, key ?? '', model, account)
      else if (table === 'usage_total') usage_total.run(...figures, day, channel, model)
      else if (table === 'usage_provider') usage_provider.run(...figures, day, channel, model, provider)
      else this.#monthOf(at).run(...figures, startOfMonth(at), bitOfDay(at), key ?? '', model, account)
      return undefined
    } catch (thrown) {
      if (isOutage(thrown)) throw thrown
      return thrown
    }
  }
}

/** What several calls add to one row, added up: calls that end together are often of one key and model. */
function together<Added extends UsageAdded>(
  added: readonly Writable<Added>[],
  rowOf: (added: Added) => string,
): Iterable<Added> {
  const rows = new Map<string, Writable<Added>>()
  for (const one of added) {
    const name = rowOf(one)
    const row = rows.get(name)
    if (row === undefined) rows.set(name, one)
    else addTo(row, one)
  }
  return rows.values()
}

/** What one table takes of them, apart from what the others do. */
function copiesOf(
  written: readonly UsageAdded[],
  rowOf: (added: UsageAdded) => string,
): Iterable<UsageAdded> {
  return written.length > 1 ? together(written.map(copyOf), rowOf) : written
}

// Of one row of `usage_day`, and of one provider.
function rowOfDay({ account, at, key, model, provider }: UsageAdded): string {
  return `${account} ${startOfDay(at)} ${key ?? ''} ${provider} ${model}`
}

/** With the day: a row of the month has a bit for each. */
function rowOfMonth({ account, at, key, model }: UsageAdded): string {
  return `${account} ${startOfDay(at)} ${key ?? ''} ${model}`
}

function rowOfTag(added: UsageOfTag): string {
  return JSON.stringify([rowOfDay(added), added.tag, added.value])
}

function rowOfTotal({ at, key, model }: UsageAdded): string {
  return `${startOfDay(at)} ${key === null ? 'app' : 'api'} ${model}`
}

function rowOfProvider(added: UsageAdded): string {
  return `${added.provider} ${rowOfTotal(added)}`
}

function copyOf(added: UsageAdded): Writable<UsageAdded> {
  return { ...added }
}

function isSameRow(one: UsageAdded, other: UsageAdded): boolean {
  return (
    one.key === other.key &&
    one.model === other.model &&
    one.account === other.account &&
    one.provider === other.provider &&
    startOfDay(one.at) === startOfDay(other.at)
  )
}

function addTo(row: Writable<UsageAdded>, one: UsageAdded): void {
  row.calls += one.calls
  row.errors += one.errors
  row.inputTokens += one.inputTokens
  row.outputTokens += one.outputTokens
  row.cost += one.cost
  row.charged += one.charged
  row.timed += one.timed
  row.ms += one.ms
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
