// Makes a database as it is after years: two million calls of a hundred thousand keys by default, with their journal,
// receipts, log and usage, so that an audit proves it. Written by SQL with the indexes away, which is twenty times as
// fast as the calls themselves. `bun test/scale/run.ts` measures what reports and lists cost in it.

import type { Database } from 'bun:sqlite'
import { mintKey } from '../../src/accounts/account.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { dayMs, startOfDay } from '../../src/credits/calendar.ts'
import { usd } from '../../src/credits/money.ts'
import { receiptText } from '../../src/store/ledger-rows.ts'
import { openStore } from '../../src/store/open.ts'
import { syncFile } from '../../src/store/upgrade.ts'
import { databasePath, one, openDatabase } from '../../src/store/sqlite/database/sqlite.ts'
import { Journal } from '../../src/store/sqlite/ledger/wallets.ts'
import { grantOf, servedBySim } from '../credits/support.ts'

export interface Scale {
  readonly calls: number
  readonly keys: number
  readonly accounts: number
  /** Keys of the first account: a customer who makes one for each of its own users. */
  readonly keysOfCustomer: number
  /** The calls are spread over the days that end now. */
  readonly days: number
}

export const fullScale: Scale = {
  calls: 2_000_000,
  keys: 100_000,
  accounts: 20_000,
  keysOfCustomer: 5_000,
  days: 30,
}

export interface Filled {
  /** Of the account with the most keys. */
  readonly customer: string
  readonly customerKey: string
  /** The text of one of the customer's keys. */
  readonly customerKeyText: string
  /** A key of another account, which has made few of the calls. */
  readonly rareKey: string
  readonly rareAccount: string
}

/** One call in so many was refused, and is only in the log. */
const refusedEvery = 97
/** One in so many came from the app, without a key. */
const appEvery = 20
const models = 8
/** One call in so many has tags, and one went to another provider. */
const taggedEvery = 10
const rareEvery = 100_000
const tables = ['call', 'request_log', 'usage_day', 'usage_tag', 'key_spend', 'api_key']

/** Fills an empty data directory. */
export async function fill(dataDir: string, scale: Scale, now = Date.now()): Promise<Filled> {
  const accounts = await openAccounts(dataDir, scale, now)
  const customerKey = mintKey('live')
  const database = openDatabase(dataDir, now)
  try {
    // A log beside the file would be written as well as the file.
    database.run('PRAGMA journal_mode = OFF')
    database.run('PRAGMA synchronous = OFF')
    database.run('PRAGMA cache_size = -400000')
    database.run('PRAGMA temp_store = MEMORY')
    database.run('BEGIN IMMEDIATE')
    const indexes = indexesOf(database)
    for (const { name } of indexes) database.run(`DROP INDEX ${name}`)
    makeKeys(database, accounts, scale, now, customerKey)
    makeCalls(database, scale, now)
    writeJournal(database)
    writeRecords(database)
    for (const { sql } of indexes) database.run(sql)
    writeBusiness(database, scale, now)
    database.run('COMMIT')
    database.run('PRAGMA journal_mode = WAL')
  } finally {
    database.close()
  }
  // What the system has not written yet would be what the first commit of a server waits for.
  syncFile(databasePath(dataDir))
  return {
    customer: accounts[0]!,
    customerKey: customerKey.id,
    customerKeyText: customerKey.text,
    rareKey: keyId(scale.keysOfCustomer),
    rareAccount: accounts[1]!,
  }
}

/** The accounts, each with credit. */
async function openAccounts(dataDir: string, { accounts, days }: Scale, now: number): Promise<string[]> {
  const began = startOfDay(now) - (days + 1) * dayMs
  const store = await openStore(dataDir, { clock: () => began })
  try {
    const made = Array.from({ length: accounts }, (_, n) => `acct_${String(n).padStart(18, '0')}`)
    const atOnce = 2_000
    for (let from = 0; from < made.length; from += atOnce)
      await Promise.all(
        made
          .slice(from, from + atOnce)
          .map((account) =>
            store.ledger.grant(grantOf(`grant:${account}`, usd(10_000), { account, expiresAt: 'never' })),
          ),
      )
    return made
  } finally {
    await store.close()
  }
}

function indexesOf(database: Database): readonly { readonly name: string; readonly sql: string }[] {
  return database
    .query<{ name: string; sql: string }, []>(
      `SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL
       AND tbl_name IN (${tables.map((name) => `'${name}'`).join(', ')})`,
    )
    .all()
}

function keyId(n: number): string {
  return `scale${String(n).padStart(9, '0')}`
}

function makeKeys(
  database: Database,
  accounts: readonly string[],
  { keys, keysOfCustomer }: Scale,
  now: number,
  customerKey: ReturnType<typeof mintKey>,
): void {
  const insertAccount = database.prepare(
    `INSERT INTO account (id, email, created_at, suspended, role, email_verified_at) VALUES (?, ?, ?, 0, 'user', ?)`,
  )
  accounts.forEach((id, n) => insertAccount.run(id, `scale${n}@example.org`, now, now))
  database.run(
    `CREATE TEMP TABLE scale_key AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${keys - 1})
     SELECT i AS n, iif(i = 0, '${customerKey.id}', printf('scale%09d', i)) AS id, printf('acct_%018d',
       iif(i < ${keysOfCustomer}, 0, 1 + i % ${accounts.length - 1})) AS account FROM n`,
  )
  database.run('CREATE UNIQUE INDEX temp.scale_key_n ON scale_key (n)')
  database.run(
    `INSERT INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window)
     SELECT id, account, 'program ' || n, 'live', printf('%064d', n), printf('%04d', n % 10000), ${now} - n * 1000, 'total'
     FROM scale_key`,
  )
  database.run("UPDATE api_key SET hash = ?, last_four = ?, sees = 'all' WHERE id = ?", [
    customerKey.hash,
    customerKey.lastFour,
    customerKey.id,
  ])
}

/** A temporary table of what the others are made from. */
function makeCalls(database: Database, { calls, keys, accounts, days }: Scale, now: number): void {
  const began = startOfDay(now) - (days - 1) * dayMs
  const every = Math.max(1, Math.floor((now - 1 - began) / calls))
  const tx = Number(one(database, 'SELECT max(tx) FROM journal'))
  database.run(
    `CREATE TEMP TABLE made AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${calls - 1})
     SELECT i, printf('req_%032x', i) AS id, scale_key.account, iif(i % ${appEvery} = 0, NULL, scale_key.id) AS key,
       'sim/model-' || (i % ${models}) AS model, ${began} + i * ${every} AS at, 1000000 * (1 + i % 1000) AS cost
     FROM n JOIN scale_key ON scale_key.n = (i * 7919) % ${keys}`,
  )
  if (accounts >= keys) throw new Error('there are fewer keys than accounts')
  const receipt = receiptText(
    {
      usage: { ...noUsage, input: 20, output: 80 },
      lines: [{ item: 'output', quantity: 1, rate: 0n, amount: 0n }],
      served: servedBySim,
      overLimit: false,
    },
    [],
    { model: 'sim/echo', priceVersion: servedBySim.priceVersion },
  )!
  const written = receipt.replaceAll('"0"', `"' || cost || '"`)
  database.run(
    `INSERT INTO call (id, account, key, state, hold, funding, model, price_version, owner, opened_at, ended_at, ending,
       cost, charged, absorbed, estimated, upstream_id, receipt, settle_tx)
     SELECT id, account, key, 'settled', cost, 'purchased', model, '${servedBySim.priceVersion}', 'scale', at, at, 'finished',
       cost, cost, 0, 0, 'up_' || i, '${written}', ${tx} + i + 1 FROM made ORDER BY i`,
  )
}

/** A transaction for each call, in the chain. */
function writeJournal(database: Database): void {
  const journal = new Journal(database)
  const lots = new Map(
    database
      .query<{ id: string; account: string }, []>('SELECT id, account FROM lot')
      .all()
      .map(({ id, account }) => [account, id]),
  )
  const calls = database.prepare<{ account: string; cost: bigint; at: bigint }, [number, number]>(
    'SELECT account, cost, at FROM made WHERE i >= ? ORDER BY i LIMIT ?',
  )
  database.run('CREATE UNIQUE INDEX temp.made_i ON made (i)')
  const atOnce = 10_000
  for (let from = 0; ; from += atOnce) {
    const rows = calls.all(from, atOnce)
    for (const { account, cost, at } of rows) {
      const legs = [
        { account: `wallet:${account}:purchased`, lot: lots.get(account)!, amount: -cost },
        { account: 'provider:sim', lot: null, amount: cost },
      ]
      journal.append('settle', legs, Number(at))
    }
    journal.write()
    if (rows.length < atOnce) return
  }
}

/** Of each account so many payments, messages about them, and acts of operators; a group for so many accounts. */
const perAccount = 5
const membersOfGroup = 10
const groupTotal = ({ accounts }: Scale) => Math.ceil(accounts / membersOfGroup)

/**
 * What operators page through besides calls: payments of the simulator, which stand for no credit, messages about them,
 * vouchers that nobody has, acts, and groups with their members.
 */
export function writeBusiness(database: Database, scale: Scale, now: number): void {
  const { accounts } = scale
  const numbers = (count: number) =>
    `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})`
  const account = `printf('acct_%018d', (i * 37) % ${accounts})`
  const made = `${now} - i * 600000`
  database.run(
    `INSERT INTO usage_provider
     SELECT at - at % ${dayMs}, provider, iif(key IS NULL, 'app', 'api'), model, count(*), 0, sum(prompt_tokens),
       sum(completion_tokens), sum(cost), sum(cost), 0, 0
     FROM request_log WHERE provider IS NOT NULL GROUP BY 1, 2, 3, 4`,
  )
  database.run(
    `INSERT INTO top_up (id, account, processor, test, reference, amount, currency, rate, rate_as_of, rate_source, credit,
       state, payment_id, method, refunded, problem, created_at, expires_at, paid_at, credited_at)
     ${numbers(accounts * perAccount)}
     SELECT printf('topup_%024x', i), ${account}, 'sim', 1, printf('ref_%d', i), 50000, 'INR', 83000000, '2026-11-01', 'fixed',
       6000000000000, iif(i % 20 = 1, 'failed', 'credited'), iif(i % 20 = 1, NULL, printf('pay_%d', i)), NULL, 0,
       iif(i % 20000 = 1, 'amount_differs', NULL), ${made}, ${made} + 86400000, iif(i % 20 = 1, NULL, ${made} + 60000),
       iif(i % 20 = 1, NULL, ${made} + 61000) FROM n ORDER BY i DESC`,
  )
  database.run(
    `INSERT INTO payment_event (processor, id, type, at, hash, outcome, top_up, reference, payment_id, news)
     ${numbers(accounts * perAccount)}
     SELECT 'sim', printf('evt_%d', i), 'payment', ${made} + 60500, printf('%064d', i), 'applied', printf('topup_%024x', i),
       printf('ref_%d', i), printf('pay_%d', i), '{"kind":"failed"}' FROM n ORDER BY i`,
  )
  database.run(
    `INSERT INTO voucher (id, hash, amount, note, created_at) ${numbers(accounts)}
     SELECT printf('vch_%018d', i), printf('%064d', i), 5000000000000, 'conference', ${made} FROM n ORDER BY i`,
  )
  database.run(
    `INSERT INTO act (at, operator, what, subject, before, after) ${numbers(accounts * perAccount)}
     SELECT ${now} - (${accounts * perAccount} - i) * 600000, iif(i % 1000 = 0, 'cli:root', printf('acct_%018d', i % 7)),
       iif(i % 20000 = 1, 'voucher.create', 'account.suspend'), ${account}, '{"suspended":false}', '{"suspended":true}'
     FROM n ORDER BY i`,
  )
  database.run(
    `INSERT INTO account_group (id, name, parent, budget, window, timezone, member_budget, warn_at, created_at)
     ${numbers(groupTotal(scale))}
     SELECT ${groupId('i')}, 'Team ' || i, iif(i % 10 = 0, NULL, ${groupId('i - i % 10')}), 100000000000000, 'month', 'UTC', NULL, '[0.8]',
       ${now} - 1 FROM n ORDER BY i`,
  )
  database.run(
    `INSERT INTO group_member (group_id, account, role, joined_at) ${numbers(accounts)}
     SELECT ${groupId(`i / ${membersOfGroup}`)}, printf('acct_%018d', i), iif(i % ${membersOfGroup} = 0, 'admin', 'member'), ${now} - 1
     FROM n`,
  )
}

const groupId = (number: string) => `printf('grp_%018d', ${number})`

/** What is added up from the calls, and the log, which has refusals besides. */
function writeRecords(database: Database): void {
  for (const table of ['lot', 'wallet'])
    database.run(
      `UPDATE ${table} SET ${table === 'lot' ? 'remaining = remaining' : 'posted = posted'} - spent.cost
       FROM (SELECT account, sum(cost) AS cost FROM made GROUP BY account) AS spent WHERE ${table}.account = spent.account`,
    )
  database.run(
    `INSERT INTO key_spend (key, day, spent) SELECT key, at - at % ${dayMs}, sum(cost) FROM made
     WHERE key IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2`,
  )
  database.run(
    `INSERT INTO usage_day (account, day, key, model, calls, errors, input_tokens, output_tokens, cost, charged)
     SELECT account, at - at % ${dayMs}, coalesce(key, ''), model, count(*) + sum(i % ${refusedEvery} = 0), sum(i % ${refusedEvery} = 0),
       20 * count(*), 80 * count(*), sum(cost), sum(cost)
     FROM made GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
  )
  database.run(
    `INSERT INTO usage_total SELECT day, iif(key = '', 'app', 'api'), model, sum(calls), sum(errors), sum(input_tokens),
       sum(output_tokens), sum(cost), sum(charged), 0, 0 FROM usage_day GROUP BY 1, 2, 3`,
  )
  const month = "unixepoch(day / 1000, 'unixepoch', 'start of month') * 1000"
  const costsOfDays = Array.from(
    { length: 31 },
    (_, day) => `sum(CASE (day - ${month}) / ${dayMs} WHEN ${day} THEN cost END)`,
  )
  database.run(
    `INSERT INTO usage_month SELECT ${month}, account, key, model, sum(DISTINCT 1 << ((day - ${month}) / ${dayMs})), sum(calls),
       sum(errors), sum(input_tokens), sum(output_tokens), sum(cost), sum(charged), 0, 0, ${costsOfDays.join(', ')}
       FROM usage_day GROUP BY 1, 2, 3, 4`,
  )
  for (const [tag, value] of [
    ['team', `'t' || (i % 7)`],
    ['user', `'u' || (i % 50000)`],
  ])
    database.run(
      `INSERT INTO usage_tag (account, tag, day, value, key, model, calls, errors, input_tokens, output_tokens, cost, charged)
       SELECT account, '${tag}', at - at % ${dayMs}, ${value}, coalesce(key, ''), model, count(*), 0, 20 * count(*),
         80 * count(*), sum(cost), sum(cost)
       FROM made WHERE i % ${taggedEvery} = 0 GROUP BY 1, 3, 4, 5, 6 ORDER BY 1, 3, 4, 5, 6`,
    )
  database.run(
    `INSERT INTO usage_tag_total SELECT tag, day, value, iif(key = '', 'app', 'api'), model, sum(calls), sum(errors),
       sum(input_tokens), sum(output_tokens), sum(cost), sum(charged), 0, 0 FROM usage_tag GROUP BY 1, 2, 3, 4, 5`,
  )
  const columns = `request_id, at, account, key, model, provider, stream, status, code, ending, prompt_tokens,
    completion_tokens, cost, attempts, first_byte_ms, total_ms, detail, contents, tags`
  const tags = `iif(i % ${taggedEvery} = 0, '{"team":"t' || (i % 7) || '","user":"u' || (i % 50000) || '"}', NULL)`
  const provider = `iif(i % ${rareEvery} = 1, 'rare', 'sim')`
  database.run(
    `INSERT INTO request_log (${columns})
     SELECT * FROM (SELECT id, at, account, key, model, ${provider}, 0, 200, NULL, 'finished', 20, 80, cost, 1, 3, 9, NULL, NULL, ${tags} FROM made
     UNION ALL SELECT replace(id, 'req_0', 'req_f'), at, account, key, model, NULL, 0, 429, 'rate_limit_exceeded', NULL, 0, 0, 0, 0,
       NULL, 1, '{"limit":60}', NULL, NULL FROM made WHERE i % ${refusedEvery} = 0) ORDER BY at`,
  )
  database.run('DROP TABLE made')
  database.run('DROP TABLE scale_key')
}
