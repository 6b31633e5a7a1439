// Whether the database looks up the rows that the ledger asks for: a plan that reads a large table whole makes every call
// wait, and says so only here.

import type { Connection } from './connection.ts'
import { textOfAll } from './group.ts'
import { budgetsText, correctionsText, keysText, lotsText, sourcesText, walletsText } from './load.ts'
import { lockBudgets, lockWallets } from './transactions.ts'

/** What is no larger is read in no time, bytes. */
const smallSize = 1024 * 1024

const loads = [walletsText, keysText, budgetsText, sourcesText, correctionsText, lotsText]

/**
 * What an operator has to do about tables that the ledger's statements read whole, by plans for any values, as the ledger
 * has them; nothing where there are none. `settings` are those of its session; none where the role has to have them.
 */
export async function findTableScans(
  connection: Connection,
  settings: readonly string[],
): Promise<readonly string[]> {
  const found = new Set<string>()
  const generic = 'plan_cache_mode = force_generic_plan'
  await connection.run(['BEGIN', ...[...settings, generic].map((each) => `SET LOCAL ${each}`)].join('; '))
  try {
    for (const text of [...loads, lockWallets, lockBudgets, textOfAll()])
      for (const table of await tablesReadWhole(connection, text)) found.add(table)
  } finally {
    await connection.run('ROLLBACK')
  }
  if (found.size === 0) return []
  const large = await connection.send<{
    readonly name: string
    readonly size: bigint
    readonly vacuum: string
  }>(
    `SELECT relname AS name, pg_relation_size(oid) AS size, current_setting('autovacuum') AS vacuum FROM pg_class
     WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND pg_relation_size(oid) > $1
       AND relname IN (SELECT value FROM json_array_elements_text($2::text::json)) ORDER BY relname`,
    [BigInt(smallSize), JSON.stringify([...found])],
  )
  return large.map(({ name, size, vacuum }) => {
    const always = vacuum === 'off' ? ', and set autovacuum = on' : ''
    return `the ledger would read all of ${name} (${Math.ceil(Number(size) / smallSize)} MB) for every call: ANALYZE ${name}${always}`
  })
}

/** A node of a plan as EXPLAIN writes it. */
interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}

async function tablesReadWhole(connection: Connection, text: string): Promise<readonly string[]> {
  const places = new Set(text.match(/\$\d+/g))
  await connection.run(`PREPARE asked AS ${text}`)
  // The number of values decides nothing: a generic plan is made for any.
  const values = [...places].map(() => 'NULL').join(', ')
  const [row] = await connection.send<{ readonly 'QUERY PLAN': string | readonly { readonly Plan: Node }[] }>(
    `EXPLAIN (FORMAT JSON) EXECUTE asked(${values})`,
  )
  await connection.run('DEALLOCATE asked')
  const said = row!['QUERY PLAN']
  const [plan] = typeof said === 'string' ? (JSON.parse(said) as readonly { readonly Plan: Node }[]) : said
  return readWholeIn(plan!.Plan)
}

/** Also by an index in its order, when nothing is looked up in it. */
function readWholeIn(node: Node): readonly string[] {
  const below = (node.Plans ?? []).flatMap(readWholeIn)
  const table = node['Relation Name']
  const isScan = /^(Seq|Index|Index Only) Scan$/.test(node['Node Type'])
  return isScan && table !== undefined && node['Index Cond'] === undefined ? [table, ...below] : below
}
