// No statement of the ledger reads a whole table, or a whole index, whether the tables are empty or full: what the server
// counts of rows that it has read tells, of every statement that was really sent.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import type { HoldCommand } from '../../../src/credits/ledger/ledger.ts'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import { day, extensionOf, grantOf, holdOf, noon, servedBySim, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'

/** Rows of each large table, when they are full. */
const rows = 20_000
/** What a run of the commands below may read of one table: a look at the whole of it is several times as much. */
const most = 2_000

const fill = [
  `INSERT INTO wallet_head SELECT 'full' || n, 1, 0 FROM n`,
  `INSERT INTO wallet SELECT 'full' || n, 'purchased', 10, 0, 0, 1 FROM n`,
  `INSERT INTO lot SELECT 'lot' || n, 'full' || n, 'purchased', 10, 10, 0, 0, 0, 0, NULL, 'source' || n, 1 FROM n`,
  `INSERT INTO credit_line SELECT 'full' || n, 0, 0, 0 FROM n`,
  `INSERT INTO correction SELECT 'id' || n, 'full' || n, 'adjust', -10, 0, 0, 'lot' || n FROM n`,
  `INSERT INTO open_call SELECT 'open' || n, 'full' || n, 'key' || n, 0, '[]', 'purchased', 'm', 'p', NULL, NULL, NULL, 'x', 0, 0, NULL, NULL FROM n`,
  `INSERT INTO call (id, account, key, state, hold, funding, model, price_version, owner, opened_at, ended_at, ending, cost, charged, absorbed, estimated, upstream_id)
   SELECT 'call' || n, 'full' || n, 'key' || n, 'voided', 0, 'purchased', 'm', 'p', 'x', 0, 0, 'x', 0, 0, 0, 0, 'upstream' || n FROM n`,
  `INSERT INTO journal SELECT 999, NULL, n, leg, 'grant', 'grant', NULL, CASE leg WHEN 0 THEN 1 ELSE -1 END, 0, '\\x', '\\x' FROM n, generate_series(0, 1) AS leg`,
  `INSERT INTO key_spend SELECT 'key' || n, 0, 0 FROM n`,
  `INSERT INTO budget_spend (scope, "window", spent, held, version) SELECT 'scope' || n, 0, 0, 0, 0 FROM n`,
  `INSERT INTO usage_day SELECT 'full' || n, 0, '', 'm', 0, 0, 0, 0, 0, 0 FROM n`,
  `INSERT INTO price_version SELECT 'p' || n, 'm', '{}', 0 FROM n`,
]

describeOnPostgres('the plans of the ledger', () => {
  let url: string
  let admin: SQL
  let opened = 0
  beforeAll(async () => {
    url = await freshDatabase('ledger_plans')
    admin = new SQL({ url, max: 1 })
  })
  afterAll(() => admin.close())

  const open = () =>
    PostgresLedger.open({
      server: url,
      owner: `process ${opened++}`,
      time: { clock: () => noon, backMs: 60_000, stepped: () => undefined },
      limits: defaultGroupLimits,
      deadlineMs: 5_000,
      isDead: () => false,
      isRunning: () => true,
    })

  /** Every command and every read, and two processes that overtake each other until they lock. */
  async function use(ledger: PostgresLedger, name: string): Promise<void> {
    const account = `account ${name}`
    const key = `key ${name}`
    const budgets = [{ scope: `scope ${name}`, limit: usd(90), windowStart: 0, windowEnd: null }]
    const of: Partial<HoldCommand> = {
      account,
      key,
      keyLimit: { limit: usd(90), windowStart: 0 },
      inGroup: { group: 'team', person: account, budgets },
      tags: '{"team":"search"}',
    }
    const operator = { id: 'otto', note: null }
    const { lot } = await ledger.grant(grantOf(`source ${name}`, usd(50), { account, operator }))
    await ledger.grant(grantOf(`day ${name}`, usd(1), { account, pool: 'daily', expiresAt: noon + day }))
    ledger.recordPrice(`price ${name}`, 'm', '{}')
    await ledger.setCreditLine(account, usd(5))
    const call = (n: number) => `call ${name} ${n}`
    for (const n of [1, 2]) await ledger.hold(holdOf(call(n), of))
    await ledger.extend(extensionOf(call(1), usd(1)))
    const progress = { usage: settleOf('', 0n).usage, cost: 1n, leaseUntil: noon + day }
    await ledger.checkpoint({ call: call(1), owner: 'here', ...progress })
    const failed = { ...servedBySim.attempts[0]!, outcome: 'failed' as const }
    const served = {
      ...servedBySim,
      upstreamId: `upstream ${name}`,
      attempts: [failed, ...servedBySim.attempts],
    }
    await ledger.settle(settleOf(call(1), usd(1), { served }))
    await ledger.release({ call: call(2), owner: 'here', reason: 'unreachable', attempts: [failed] })
    await ledger.settle(settleOf('nobody knows', usd(1)))
    await ledger.refund({ id: `refund ${name}`, account, lot, amount: usd(3) })
    await ledger.adjust({
      id: `adjust ${name}`,
      account,
      pool: 'purchased',
      amount: usd(1),
      operator: 'otto',
    })
    await ledger.expire(noon)
    await ledger.balance(account)
    await ledger.keySpend(key, 0)
    await ledger.budgetSpend(budgets)
    await ledger.totals(account)
    for (const id of [call(1), call(2), `upstream ${name}`, 'nobody knows']) await ledger.call(account, id)
    const other = await open()
    for (let n = 10; n < 22; n++) await (n % 2 ? ledger : other).hold(holdOf(call(n), of))
    for (let n = 10; n < 22; n++) await (n % 2 ? other : ledger).settle(settleOf(call(n), usd('0.1')))
    await other.close()
  }

  /** How much has been read of each table since the last time, by scans of it all and by lookups. */
  async function readSince(last: ReadonlyMap<string, { scans: number; read: number }>) {
    await admin.unsafe('SELECT pg_stat_force_next_flush()')
    // A session counts what it has read when it ends.
    for (let others = 1; others > 0;) {
      const [row] = await admin.unsafe(
        `SELECT count(*)::int AS others FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
           AND backend_type = 'client backend'`,
      )
      others = (row as { others: number }).others
    }
    const found: { name: string; scans: number; read: number }[] = await admin.unsafe(
      `SELECT t.relname AS name, t.seq_scan::int AS scans, coalesce(sum(i.idx_tup_read), 0)::int AS read
       FROM pg_stat_user_tables AS t LEFT JOIN pg_stat_user_indexes AS i USING (relid)
       WHERE t.relname NOT IN ('chain', 'migration') GROUP BY t.relname, t.seq_scan`,
    )
    const counts = new Map(found.map(({ name, scans, read }) => [name, { scans, read }]))
    const since = [...counts].map(([name, { scans, read }]) => {
      const before = last.get(name) ?? { scans: 0, read: 0 }
      return { name, scans: scans - before.scans, read: read - before.read }
    })
    return { counts, tooMuch: since.filter(({ scans, read }) => scans > 0 || read > most) }
  }

  test('look rows up, in empty tables and in full ones, also with plans that were made while they were empty or small', async () => {
    const { counts: before } = await readSince(new Map())
    const early = await open()
    await use(early, 'early')
    const ofEmpty = await open()
    await use(ofEmpty, 'empty')
    await ofEmpty.close()
    await early.close()
    const empty = await readSince(before)
    expect(empty.tooMuch).toEqual([])

    const warm = await open()
    await use(warm, 'warm')
    // What is known of the tables from now on is how small they are: such plans are kept while the tables grow.
    await admin.unsafe('ANALYZE')
    const small = await open()
    await use(small, 'small')
    for (const statement of fill) {
      const [insert, select] = statement.split(/(?<=[^(]) ?SELECT /, 2)
      await admin.unsafe(
        `WITH n AS (SELECT n FROM generate_series(1, ${rows}) AS n) ${insert} SELECT ${select}`,
      )
    }
    await use(warm, 'with the plans of then')
    await warm.close()
    await use(small, 'with the plans of small tables')
    await small.close()
    const grown = await readSince(empty.counts)
    expect(grown.tooMuch).toEqual([])
    const fresh = await open()
    await use(fresh, 'with new plans')
    await fresh.close()
    await admin.unsafe('ANALYZE')
    const analyzed = await open()
    await use(analyzed, 'with what ANALYZE knows')
    await analyzed.close()
    expect((await readSince(grown.counts)).tooMuch).toEqual([])
  })
})
