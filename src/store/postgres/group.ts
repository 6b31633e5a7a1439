// What a group of commands writes, as one statement. It is guarded: by the row of the writing process in `chain`, by the
// versions of the wallets and budgets that were decided from, and by the ids of new calls. Where a guard fails nothing is
// written, and the answer says which.

import { costColumns } from '../sql/usage-figures.ts'
import { sql, type Statement, type Value } from '../sql/work.ts'
import { type LedgerConnection, withoutNul } from './connection.ts'

type Cell = string | number | bigint | null
type Cells = Readonly<Record<string, Cell>>

/** Rows of one table: how they reach the statement, and what it does with them. */
interface Part {
  /** Names and types, as in `id text, amount bigint`. */
  readonly columns: string
  /** The statement; `rows` stands for the rows of the group, each with these columns. */
  readonly write: string
  /** Whether each row must find one to change. */
  readonly changes?: true
}

const given = 'FROM rows AS given, ok WHERE ok.yes'

// A plan that is made while a table is small may read all of it, or of an index in its order, and filter; and it is kept
// while the table grows. These make it look rows up, whatever the planner takes the table for.

/** The rows of a SELECT for each row before it. */
export const lookUp = (select: string) => `CROSS JOIN LATERAL (${select} OFFSET 0)`

/** That a column with an index is this value, in a join: by `=` alone two tables could be read side by side. */
export const isAt = (column: string, value: string) => `${column} = ANY (ARRAY[${value}])`

function namesIn(columns: string): readonly string[] {
  return columns.split(',').map((column) => column.trim().split(' ')[0]!)
}

/** Inserts rows with these columns. `otherwise` is what follows, such as an ON CONFLICT. */
function insertInto(table: string, columns: string, otherwise = ''): Part {
  return {
    columns,
    write: `INSERT INTO ${table} (${namesIn(columns).join(', ')}) SELECT given.* ${given} ${otherwise}`,
  }
}

const figures = `calls bigint, errors bigint, input_tokens bigint, output_tokens bigint, cost bigint, charged bigint,
  timed bigint, ms bigint`

/** Adds figures to the rows of a table that sums them, in the order of its key: two groups never wait for each other. */
function addTo(table: string, key: string, besides = { columns: '', sets: '' }): Part {
  const names = namesIn(key).join(', ')
  const sums = namesIn(figures).map((name) => `${name} = ${table}.${name} + excluded.${name}`)
  const onConflict = `ON CONFLICT (${names}) DO UPDATE SET ${sums.join(', ')}${besides.sets}`
  return insertInto(table, `${key}, ${figures}${besides.columns}`, `ORDER BY ${names} ${onConflict}`)
}

/** Adds the cost of a day that was given to the month's. */
function addCost(name: string): string {
  const before = `usage_month.${name}`
  return `, ${name} = CASE WHEN excluded.${name} IS NULL THEN ${before} ELSE coalesce(${before}, 0) + excluded.${name} END`
}

/** Changes one row for each, found by its id. */
function update(table: string, columns: string): Part {
  const sets = namesIn(columns)
    .slice(1)
    .map((name) => `${name} = given.${name}`)
  const write = `UPDATE ${table} SET ${sets.join(', ')} ${given} AND ${isAt(`${table}.id`, 'given.id')} RETURNING 1`
  return { columns, write, changes: true }
}

const parts = {
  newLots: insertInto(
    'lot',
    `id text, account text, pool text, granted bigint, remaining bigint, pinned bigint, expired bigint, refunded bigint,
     granted_at bigint, expires_at bigint, source text, live bigint`,
  ),
  lots: update(
    'lot',
    'id text, remaining bigint, pinned bigint, expired bigint, refunded bigint, live bigint',
  ),
  pools: insertInto(
    'wallet',
    'account text, pool text, posted bigint, held bigint, debt bigint, version bigint',
    `ON CONFLICT (account, pool) DO UPDATE SET posted = excluded.posted, held = excluded.held, debt = excluded.debt,
     version = wallet.version + 1`,
  ),
  opening: insertInto(
    'open_call',
    `id text, account text, key text, hold bigint, pins text, funding text, model text, price_version text, key_limit bigint,
     key_window bigint, owner text, lease_until bigint, opened_at bigint, progress text, tags text, in_group text`,
  ),
  kept: update('open_call', 'id text, hold bigint, pins text, lease_until bigint, progress text'),
  closed: {
    columns: 'id text',
    write: `DELETE FROM open_call USING rows AS given, ok WHERE ok.yes AND ${isAt('open_call.id', 'given.id')} RETURNING 1`,
    changes: true,
  },
  ended: insertInto(
    'call',
    `id text, account text, key text, state text, hold bigint, funding text, model text, price_version text, owner text,
     opened_at bigint, ended_at bigint, ending text, cost bigint, charged bigint, absorbed bigint, estimated bigint,
     upstream_id text, receipt text, in_group text, settle_chain bigint, settle_tx bigint, tags text`,
  ),
  attempts: insertInto(
    'attempt',
    'call text, n bigint, provider text, upstream_id text, state text, code text, est_cost bigint',
  ),
  journal: insertInto(
    'journal',
    `chain bigint, version bigint, tx bigint, leg bigint, kind text, account text, lot text, amount bigint, at bigint,
     prev_hash bytea, hash bytea`,
  ),
  keyDays: insertInto(
    'key_spend',
    'key text, day bigint, spent bigint',
    'ORDER BY key, day ON CONFLICT (key, day) DO UPDATE SET spent = key_spend.spent + excluded.spent',
  ),
  usageDays: addTo('usage_day', 'account text, day bigint, key text, model text'),
  usageMonths: addTo('usage_month', 'month bigint, account text, key text, model text', {
    columns: `, days bigint${costColumns.map((name) => `, ${name} bigint`).join('')}`,
    sets: `, days = usage_month.days | excluded.days${costColumns.map(addCost).join('')}`,
  }),
  usageTotals: addTo('usage_total', 'day bigint, channel text, model text, chain bigint'),
  usageProviders: addTo(
    'usage_provider',
    'day bigint, provider text, channel text, model text, chain bigint',
  ),
  usageTags: addTo('usage_tag', 'account text, tag text, day bigint, value text, key text, model text'),
  usageTagTotals: addTo(
    'usage_tag_total',
    'tag text, day bigint, value text, channel text, model text, chain bigint',
  ),
  lines: insertInto(
    'credit_line',
    'account text, most bigint, at bigint',
    'ON CONFLICT (account) DO UPDATE SET most = excluded.most, at = excluded.at',
  ),
  spentOnLines: {
    columns: 'account text, amount bigint',
    write: `UPDATE credit_line SET spent = spent + given.amount ${given} AND ${isAt('credit_line.account', 'given.account')}`,
  },
  corrections: insertInto(
    'correction',
    'id text, account text, kind text, taken bigint, debt bigint, at bigint, lot text',
  ),
  acts: insertInto('act', 'at bigint, operator text, what text, subject text, after text'),
  prices: insertInto(
    'price_version',
    'version text, model text, price text, recorded_at bigint',
    'ON CONFLICT (version) DO NOTHING',
  ),
  requests: insertInto(
    'request_log',
    `request_id text, at bigint, account text, key text, model text, provider text, stream bigint, status bigint, code text,
     ending text, prompt_tokens bigint, completion_tokens bigint, cost bigint, attempts bigint, first_byte_ms bigint,
     total_ms bigint, detail text, contents text, tags text`,
  ),
} satisfies Record<string, Part>

export type PartName = keyof typeof parts
const names = Object.keys(parts) as PartName[]
/** The number of the first parameter that a part is given in. */
const firstOfParts = 10

/** The statement for groups with rows in certain parts, by their bits. */
const texts = new Map<number, string>()

/** Texts of a list compare as those of the tables do: otherwise a lookup would read the whole table. */
function bytewise(columns: string): string {
  return columns.replaceAll(/\btext\b/g, 'text COLLATE "C"')
}

/** One part of a statement, whose rows are in the parameter. */
function writeOf(name: PartName, parameter: string): string {
  const { columns, write }: Part = parts[name]
  const rows = `json_to_recordset(${parameter}::text::json) AS given (${bytewise(columns)})`
  return `w_${name} AS (${write.replace('rows AS given', rows)})`
}

/**
 * A statement for rows that no ledger depends on, with the parts in the order of a group's: two statements that add to
 * the same sums never wait for each other in a circle. `first` is what has to be done before any row is written.
 */
export function writeOnly(names: readonly PartName[], first: string): Statement<never> {
  const writes = names.map((name, at) => writeOf(name, `?${at + 1}`))
  return sql(`WITH ok AS MATERIALIZED (SELECT (${first}) IS NOT NULL AS yes), ${writes.join(', ')} SELECT 1`)
}

/** The statement of a group that has rows for all parts. */
export function textOfAll(): string {
  return textOf(2 ** names.length - 1)
}

function textOf(mask: number): string {
  const known = texts.get(mask)
  if (known !== undefined) return known
  const writes: string[] = []
  const complete: string[] = []
  let parameter = firstOfParts
  for (const [at, name] of names.entries()) {
    if (!(mask & (1 << at))) continue
    writes.push(writeOf(name, `$${parameter}`))
    const { changes }: Part = parts[name]
    if (changes)
      complete.push(`(SELECT count(*) FROM w_${name}) = json_array_length($${parameter}::text::json)`)
    parameter++
  }
  // Dividing by zero undoes the statement: what a guard has let through finds all its rows, or nothing is as it seems.
  const whole = complete.length === 0 ? '1' : `1 / (CASE WHEN ${complete.join(' AND ')} THEN 1 ELSE 0 END)`
  const text = `WITH told AS MATERIALIZED (
      SELECT * FROM json_to_recordset($4::text::json) AS t (${bytewise('account text, version bigint, next bigint')})),
    locked AS MATERIALIZED (
      SELECT head.account FROM told
        JOIN wallet_head AS head ON ${isAt('head.account', 'told.account')} AND head.version = told.version
      ORDER BY told.account FOR UPDATE OF head),
    told_budgets AS MATERIALIZED (
      SELECT * FROM json_to_recordset($5::text::json)
        AS t (${bytewise('scope text, "window" bigint, version bigint, spent bigint, held bigint')})),
    locked_budgets AS MATERIALIZED (
      SELECT b.scope, b."window" FROM told_budgets AS told JOIN budget_spend AS b
        ON ${isAt('b.scope', 'told.scope')} AND b."window" = told."window" AND b.version = told.version
      WHERE (SELECT count(*) FROM locked) >= 0 ORDER BY told.scope, told."window" FOR UPDATE OF b),
    mine AS MATERIALIZED (
      SELECT id FROM chain WHERE id = $1 AND epoch = $2 AND batch = $3 AND NOT starts_with(owner, 'over:') FOR UPDATE),
    fresh AS (SELECT value COLLATE "C" AS id FROM json_array_elements_text($9::text::json)),
    used AS MATERIALIZED (
      SELECT fresh.id FROM fresh ${lookUp('SELECT id FROM call WHERE call.id = fresh.id')} AS ended
      UNION ALL SELECT fresh.id FROM fresh ${lookUp('SELECT id FROM open_call WHERE open_call.id = fresh.id')} AS opened),
    ok AS MATERIALIZED (
      SELECT (SELECT count(*) FROM locked) = (SELECT count(*) FROM told)
        AND (SELECT count(*) FROM locked_budgets) = (SELECT count(*) FROM told_budgets)
        AND EXISTS (SELECT 1 FROM mine) AND NOT EXISTS (SELECT 1 FROM used) AS yes),
    heads AS (
      UPDATE wallet_head SET version = told.next, at = greatest(wallet_head.at, $8)
      FROM told, ok WHERE ok.yes AND ${isAt('wallet_head.account', 'told.account')}),
    budgets AS (
      UPDATE budget_spend AS b SET version = told.version + 1, spent = told.spent, held = told.held
      FROM told_budgets AS told, ok WHERE ok.yes AND ${isAt('b.scope', 'told.scope')} AND b."window" = told."window"),
    ${writes.map((write) => `${write},\n    `).join('')}moved AS (
      UPDATE chain SET batch = batch + 1, tx = $6, head = decode($7, 'hex'), at = greatest(at, $8) FROM ok WHERE ok.yes AND id = $1)
    SELECT ok.yes, EXISTS (SELECT 1 FROM mine) AS mine, (SELECT json_agg(account)::text FROM locked) AS locked,
      (SELECT json_agg("window" || ' ' || scope)::text FROM locked_budgets) AS budgets,
      (SELECT json_agg(id)::text FROM used) AS used, CASE WHEN ok.yes THEN ${whole} END AS whole FROM ok`
  texts.set(mask, text)
  return text
}

/** The end of what this process has written, and how often its chain was taken. */
export interface Chain {
  readonly id: bigint
  readonly epoch: bigint
  readonly batch: bigint
  /** The number of its last transaction, and the hash of its last line. */
  readonly tx: number
  readonly head: Uint8Array
}

/** A wallet that was decided from, with the version that it has then. */
export interface ToldWallet {
  readonly account: string
  readonly version: bigint
  readonly next: bigint
}

/** A budget in the window that begins then, milliseconds since 1970. */
export interface BudgetKey {
  readonly scope: string
  readonly window: number
}

/** A budget that was decided from, with its figures from then on. */
export interface ToldBudget extends BudgetKey {
  readonly version: bigint
  readonly spent: bigint
  readonly held: bigint
}

export interface Told {
  readonly wallets: readonly ToldWallet[]
  readonly budgets: readonly ToldBudget[]
}

export type Written =
  | { readonly kind: 'written' }
  /** Others have changed these since; budgets by `nameOfBudget`. */
  | { readonly kind: 'stale'; readonly accounts: readonly string[]; readonly budgets: readonly string[] }
  /** These ids were used before. */
  | { readonly kind: 'used'; readonly calls: readonly string[] }
  /** The chain is not as this process has left it. */
  | { readonly kind: 'not-mine' }

export function nameOfBudget({ scope, window }: BudgetKey): string {
  return `${window} ${scope}`
}

interface Answer {
  readonly yes: boolean
  readonly mine: boolean
  readonly locked: string | null
  readonly budgets: string | null
  readonly used: string | null
}

/** The rows of one group. */
export class GroupRows {
  readonly #rows = new Map<PartName, Cells[]>()

  add(part: PartName, row: Cells): void {
    const rows = this.#rows.get(part)
    if (rows) rows.push(row)
    else this.#rows.set(part, [row])
  }

  /** The rows of one part as JSON. */
  textOf(part: PartName): string {
    return jsonOf(this.#rows.get(part) ?? [])
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0
  }

  /**
   * Sends the statement now. `next`: the chain as it stands after this group. `at`: the ledger's time. `opening`: ids of
   * calls that must not have been used.
   */
  async send(
    connection: LedgerConnection,
    chain: Chain,
    told: Told,
    next: Pick<Chain, 'tx' | 'head'>,
    at: number,
    opening: readonly string[],
  ): Promise<Written> {
    let mask = 0
    const rows: string[] = []
    for (const [place, name] of names.entries()) {
      const ofPart = this.#rows.get(name)
      if (!ofPart) continue
      mask |= 1 << place
      rows.push(jsonOf(ofPart))
    }
    const values: Value[] = [
      chain.id,
      chain.epoch,
      chain.batch,
      jsonOf(told.wallets),
      jsonOf(told.budgets),
      BigInt(next.tx),
      next.head.toHex(),
      BigInt(at),
      JSON.stringify(opening),
      ...rows,
    ]
    const [answer] = await connection.send<Answer>(textOf(mask), values)
    return writtenBy(answer!, told)
  }
}

function writtenBy({ yes, mine, locked, budgets, used }: Answer, told: Told): Written {
  if (yes) return { kind: 'written' }
  if (!mine) return { kind: 'not-mine' }
  if (used !== null) return { kind: 'used', calls: JSON.parse(used) as string[] }
  const current = new Set(JSON.parse(locked ?? '[]') as string[])
  const currentBudgets = new Set(JSON.parse(budgets ?? '[]') as string[])
  return {
    kind: 'stale',
    accounts: told.wallets.map(({ account }) => account).filter((account) => !current.has(account)),
    budgets: told.budgets.map(nameOfBudget).filter((name) => !currentBudgets.has(name)),
  }
}

/** Rows whose values are cells. */
function jsonOf(rows: readonly object[]): string {
  const given = rows.map((row) => withoutBigints(row as Cells))
  const text = JSON.stringify(given)
  // PostgreSQL knows no NUL in a text, and no half of a pair; a provider's id may have either.
  const hasOdd = text.includes(String.raw`\u0000`) || text.includes(String.raw`\ud`)
  return hasOdd ? JSON.stringify(given.map(withoutOddTexts)) : text
}

/** An integer of any size may be a text: PostgreSQL reads it digit by digit either way. All rows in one JSON.stringify take a third of the time. */
function withoutBigints(row: Cells): Record<string, string | number | null> {
  const plain: Record<string, string | number | null> = {}
  for (const name in row) {
    const cell = row[name]!
    if (typeof cell !== 'bigint') plain[name] = cell
    else plain[name] = cell >= leastNumber && cell <= mostNumber ? Number(cell) : String(cell)
  }
  return plain
}

const mostNumber = BigInt(Number.MAX_SAFE_INTEGER)
const leastNumber = -mostNumber

function withoutOddTexts(row: Readonly<Record<string, string | number | null>>): typeof row {
  const clean = (cell: string) => withoutNul(cell.toWellFormed())
  return Object.fromEntries(
    Object.entries(row).map(([name, cell]) => [name, typeof cell === 'string' ? clean(cell) : cell]),
  )
}
