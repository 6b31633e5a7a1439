// The column types of the schema for PostgreSQL: the names of ../columns.ts, and the same values in TypeScript. The
// generator of migrations gives every text the collation "C": the order of bytes, as SQLite has it, and one column of
// another collation would turn the lookups of a join into reads of the whole table.

import { type SQL, sql } from 'drizzle-orm'
import { bigint, customType, index, type PgColumn, text, uniqueIndex } from 'drizzle-orm/pg-core'

const bytea = customType<{ data: Uint8Array<ArrayBuffer> }>({ dataType: () => 'bytea' })

export const money = (name: string) => bigint(name, { mode: 'bigint' })
export const whole = (name: string) => bigint(name, { mode: 'bigint' })
export const sequence = (name: string) => bigint(name, { mode: 'bigint' }).generatedAlwaysAsIdentity()
export const time = (name: string) => bigint(name, { mode: 'bigint' })
export const flag = (name: string) => bigint(name, { mode: 'bigint' })
export const string = (name: string) => text(name)
export const json = (name: string) => text(name)
export const bytes = (name: string) => bytea(name)

export const columnOf = (name: string) => sql.raw(`"${name}"`)
/** Not of every lot with something left: the planner would read all of this index to find those of one account. */
export const isEnding = sql`live = 1 and expires_at is not null`
export const flagOf = (condition: SQL) => sql`(case when ${condition} then 1 else 0 end)`
export const beginsOtherwise = (column: string, start: string) =>
  sql.raw(`${column} not like '${start.replaceAll('_', String.raw`\_`)}%'`)
export const blockOfCalls: readonly SQL[] = []

type RowidColumn = { readonly rowid: PgColumn }
type ChainColumn = { readonly chain: PgColumn }

export const shared = {
  /** `version`: of the wallet that the line changes, which orders the lines of an account across chains; null for others. */
  journal: () => ({ chain: whole('chain').notNull(), version: whole('version') }),
  call: () => ({ chain: whole('settle_chain') }),
  /** `held`: by the open calls of the budget. `version`: counts what changes either. */
  budgetSpend: () => ({ held: money('held').notNull(), version: whole('version').notNull() }),
  /** Totals are kept by chain: no process waits for another one's commit to add to the same row. */
  usageTotal: () => ({ chain: whole('chain').notNull() }),
  rowid: () => ({ rowid: sequence('rowid').notNull() }),
  rowidIndex: (name: string, { rowid }: RowidColumn) => [uniqueIndex(name).on(rowid)],
  chain: ({ chain }: ChainColumn) => [chain],
  openCallIndexes: ({ account, key }: { readonly account: PgColumn; readonly key: PgColumn }) => [
    index('open_call_account').on(account),
    index('open_call_key').on(key),
  ],
  journalIndexes: ({ account, version, at }: Record<'account' | 'version' | 'at', PgColumn>) => [
    partialIndex('journal_account', sql`version is not null`, account, version),
    // Lines come in the order of their times, nearly: such an index is small, and costs a line nothing.
    index('journal_at').using('brin', at).with({ autosummarize: true }),
  ],
  callIndexes: ({ endedAt }: { readonly endedAt: PgColumn }) => [
    index('call_ended').using('brin', endedAt).with({ autosummarize: true }),
  ],
}

type Indexed = Parameters<ReturnType<typeof index>['on']>

export const partialIndex = (name: string, where: SQL, ...on: Indexed) =>
  index(name)
    .on(...on)
    .where(where)
export const partialUniqueIndex = (name: string, where: SQL, ...on: Indexed) =>
  uniqueIndex(name)
    .on(...on)
    .where(where)

export { index, uniqueIndex }
export { check, pgTable as table, primaryKey } from 'drizzle-orm/pg-core'
