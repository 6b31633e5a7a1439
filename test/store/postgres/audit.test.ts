// Each invariant of the ledger, broken by hand in the tables of PostgreSQL: the audit has a check for it, and that check says so.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { checks as checksOfSqlite } from '../../../src/store/sqlite/audit/audit.ts'
import { auditOf } from '../../../src/store/postgres/audit.ts'
import { Connection } from '../../../src/store/postgres/connection.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { day, noon } from '../../credits/support.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'
import { fillSoundLedger } from '../ledger/sound-ledger.ts'

const settled = `(SELECT settle_tx FROM call WHERE id = 'ended')`
const purchased = `(SELECT id FROM lot WHERE source = 'payment:razorpay:pay_1')`
const free = (pool: string) => `(SELECT id FROM lot WHERE account = 'anna' AND pool = '${pool}')`
const keyRow = (account: string, key: string, call: string) =>
  `INSERT INTO idempotency (account, key, body_hash, call, owner, expires_at) VALUES ('${account}', '${key}', '\\x00', '${call}', '', ${noon + day})`
/** Credit out of nothing, in the journal, the lot and the wallet alike. */
const forgedCredit = (source: string) => `
  INSERT INTO journal (chain, tx, leg, kind, account, lot, amount, at, prev_hash, hash)
    SELECT 1, (SELECT max(tx) + 1 FROM journal), legs.leg, 'grant', CASE legs.leg WHEN 0 THEN 'grant' ELSE 'wallet:berta:purchased' END,
      CASE legs.leg WHEN 1 THEN 'lot_forged' END, legs.leg * 10 - 5, ${noon}, '\\x', '\\x' FROM generate_series(0, 1) AS legs (leg);
  INSERT INTO lot (id, account, pool, granted, remaining, pinned, expired, refunded, granted_at, source, live)
    VALUES ('lot_forged', 'berta', 'purchased', 5, 5, 0, 0, 0, ${noon + 1}, '${source}', 1);
  UPDATE wallet SET posted = posted + 5 WHERE account = 'berta'`
const forgedNote = (id: string, kind = 'adjust') =>
  `INSERT INTO correction (id, account, kind, taken, debt, at) VALUES ('${id}', 'berta', '${kind}', -5, 0, ${noon + 1})`
const forgedAdjustment = (id: string) => `${forgedCredit(`adjust:${id}`)}; ${forgedNote(id)}`

/** By the check that must find it. Other checks may find it too. */
const broken: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "every transaction's legs sum to zero": {
    'one leg': `UPDATE journal SET amount = amount + 1 WHERE tx = ${settled} AND leg = 0`,
  },
  'transactions and legs are numbered without gaps': {
    'a missing transaction': `DELETE FROM journal WHERE tx = ${settled}`,
    'an end cut off': 'DELETE FROM journal WHERE tx = (SELECT max(tx) FROM journal)',
  },
  "a wallet's posted − debt is the sum of its journal legs": {
    'a wallet that is gone': "DELETE FROM wallet WHERE account = 'berta'",
  },
  "a wallet's posted and held are the sums over its lots": {
    'both sides of a debt': "UPDATE wallet SET posted = posted + 1, debt = debt + 1 WHERE account = 'berta'",
  },
  'no credit is below zero, and no more is held than there is': {
    'a negative debt': "UPDATE wallet SET debt = -1 WHERE account = 'berta'",
    'a lot below zero': "UPDATE lot SET remaining = -1 WHERE account = 'berta'",
    'a spent lot with a rest': "UPDATE lot SET live = 0 WHERE account = 'berta'",
  },
  'what lots have pinned is what open calls hold': {
    'a pin without a call': "DELETE FROM open_call WHERE id = 'open'",
    'a hold': "UPDATE open_call SET hold = hold + 1 WHERE id = 'open'",
  },
  'an open call holds credit of its own account and pools alone': {
    'a call of another account': "UPDATE open_call SET account = 'berta'",
    'free credit for a key': `UPDATE open_call SET funding = 'welcome', pins = json_build_array(json_build_array(${free('welcome')}, hold))::text`,
  },
  'a call is open or has ended, never both': {
    'an ended call that is open': "UPDATE open_call SET id = 'ended'",
  },
  'per lot: granted = remaining + consumed + expired + refunded': {
    granted: `UPDATE lot SET granted = granted + 1 WHERE id = ${purchased}`,
  },
  'no lot is consumed after its expiry unless pinned before': {
    'an expiry before the call': `UPDATE lot SET expires_at = granted_at - 1 WHERE id = ${purchased}`,
  },
  "a call is paid by its own account's pools; an API key's by purchased credit alone": {
    'a pool that it might not spend': "UPDATE call SET funding = 'daily' WHERE id = 'ended'",
  },
  'a call may spend pools in the order of spending alone': {
    'an ended call': "UPDATE call SET funding = 'purchased,welcome' WHERE id = 'ended'",
    'an open call': "UPDATE open_call SET funding = 'welcome,daily,purchased'",
    'no pool': "UPDATE call SET funding = '' WHERE id = 'ended'",
  },
  'a call ends once: settled with one transaction of its cost, or voided with none': {
    'a cost': "UPDATE call SET cost = cost + 1, absorbed = absorbed + 1 WHERE id = 'ended'",
    'a transaction of no call': "DELETE FROM call WHERE id = 'ended'",
  },
  "a key's spending is the sum of its calls": {
    spending: 'UPDATE key_spend SET spent = spent - 1',
  },
  "a budget's spending is the sum of the calls that were held on it": {
    spending: "UPDATE budget_spend SET spent = spent - 1 WHERE scope = 'grp_lab'",
  },
  'a call of a group names it, its person, and no budget twice': {
    'no person': `UPDATE call SET in_group = (in_group::jsonb - 'person')::text WHERE id = 'grouped'`,
    'no key': "UPDATE call SET key = NULL WHERE id = 'grouped'",
    'one budget twice': `UPDATE call SET in_group = jsonb_set(in_group::jsonb, '{budgets,0}', in_group::jsonb -> 'budgets' -> 1)::text WHERE id = 'grouped'`,
    'what is no JSON': "UPDATE call SET in_group = '{' WHERE id = 'grouped'",
  },
  'one Idempotency-Key is one call of its account': {
    'a key of whoever paid for a call of a group': keyRow('berta', 'k', 'grouped'),
    'a key of another account': keyRow('berta', 'k', 'ended'),
  },
  'one payment is one credit': {
    'another amount': 'UPDATE top_up SET credit = credit + 1',
    'a lot of another payment': "UPDATE top_up SET payment_id = 'pay_2'",
    'a credit without a top-up': 'DELETE FROM top_up',
    'a lot that there is not': "UPDATE top_up SET lot = 'lot_none'",
  },
  'every adjustment and grant of an operator is noted, and was asked for': {
    'credit without a note': forgedCredit('adjust:x'),
    'credit under the note of a refund': `${forgedCredit('adjust:x')}; ${forgedNote('x', 'refund')}`,
    'a note without its credit': forgedNote('adjust:berta:x'),
    'a note of another amount': "UPDATE correction SET taken = taken - 1 WHERE id = 'adjust:anna:up'",
    'more taken than noted': "UPDATE correction SET taken = taken - 1 WHERE id = 'adjust:anna:down'",
    'a note of taking that is gone': "DELETE FROM correction WHERE id = 'adjust:anna:down'",
    'a refund that never failed': forgedAdjustment('refund:razorpay:x:failed'),
    'a grant that no operator made': forgedCredit('operator:x'),
    'a plan that no operator granted': `INSERT INTO subscription (period, source, subscription, account, product, starts_at,
      ends_at, state, amount, created_at, updated_at) VALUES ('subscription:weir.plan:by-hand-x:2026-11-20T12:00:00.000Z',
      'weir.plan', 'by-hand-x', 'anna', 'basic', ${noon}, ${noon + day}, 'active', 1, ${noon}, ${noon})`,
    'the grant of another lot': "UPDATE lot SET id = 'lot_new' WHERE source = 'operator:gift'",
    'an adjustment under an id of no kind': forgedAdjustment('x'),
    'another sum of a failed refund':
      "UPDATE payment_reversal SET credit = credit - 1 WHERE id = 'r2:failed'",
    'a dispute that there is not': forgedAdjustment('dispute:razorpay:x:back'),
    'a dispute that goes on': "UPDATE payment_reversal SET kind = 'open' WHERE id = 'd1'",
    'a subscription that there is not': forgedAdjustment('subscription:play:x:returned'),
    'more than was taken of a subscription': 'UPDATE subscription SET taken_back = taken_back - 1',
  },
  'every id, source and Idempotency-Key is used once': {
    'two keys of one call': `DROP INDEX idempotency_call; ${keyRow('anna', 'k', 'ended')}; ${keyRow('anna', 'l', 'ended')}`,
    'a source that granted twice': `DROP INDEX lot_source; ${forgedCredit('payment:razorpay:pay_1')}`,
    'a correction made twice': `ALTER TABLE correction DROP CONSTRAINT correction_pkey;
      INSERT INTO correction SELECT * FROM correction WHERE id = 'adjust:anna:up'`,
  },
  'every refund is noted under its id': {
    'a note that is gone': 'DELETE FROM correction',
    'a note without a refund': `INSERT INTO correction (id, account, kind, taken, debt, at) VALUES ('x', 'berta', 'refund', 1, 0, ${noon})`,
  },
  'a payment is refunded by what its refunds and lost disputes say': {
    'another sum': 'UPDATE top_up SET refunded = refunded - 1',
    'a refund that is gone': 'DELETE FROM payment_reversal',
  },
  'one allowance for each account and UTC day, one welcome for each account': {
    'a second allowance': `UPDATE lot SET source = 'daily:anna:2026-11-22' WHERE id = ${free('daily')}`,
    'an allowance that lasts': `UPDATE lot SET expires_at = expires_at + 1 WHERE id = ${free('daily')}`,
    'the welcome of another': `UPDATE lot SET source = 'welcome:berta' WHERE id = ${free('welcome')}`,
  },
}

describeOnPostgres('the audit of PostgreSQL', () => {
  let connection: Connection
  beforeAll(async () => {
    const url = await freshDatabase('audit_checks')
    const clock = { now: noon }
    const store = await openOnPostgres(url, { clock: () => clock.now, owner: 'test' })
    await fillSoundLedger(store, clock)
    expect((await store.ledger.auditDay(noon - (noon % day))).checks.filter(({ ok }) => !ok)).toEqual([])
    await store.close()
    connection = new Connection(url, { deadlineMs: 10_000 })
    await connection.open()
    // Without what the tables forbid.
    const rows = await connection.send<{ drop: string }>(
      `SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS drop FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0`,
    )
    await connection.run(rows.map(({ drop }) => drop).join('; '))
  })
  afterAll(() => connection.close())

  /** The names of the checks that fail after this was done. */
  async function foundAfter(sql: string): Promise<string[]> {
    await connection.run('BEGIN; SET LOCAL session_replication_role = replica')
    try {
      await connection.run(sql)
      return (await auditOf(connection)).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))
    } finally {
      await connection.run('ROLLBACK')
    }
  }

  test('a sound ledger passes', async () => {
    expect(await foundAfter('SELECT 1')).toEqual([])
  })

  test('has every check that the audit of SQLite has', async () => {
    await connection.run('BEGIN')
    const here = (await auditOf(connection)).checks.map(({ name }) => name)
    await connection.run('ROLLBACK')
    expect(checksOfSqlite.map(({ name }) => name).filter((name) => !here.includes(name))).toEqual([])
    expect(Object.keys(broken).toSorted()).toEqual(checksOfSqlite.map(({ name }) => name).toSorted())
  })

  for (const [check, ways] of Object.entries(broken))
    describe(`"${check}" finds`, () => {
      test.each(Object.entries(ways))('%s', async (_, sql) => {
        expect(await foundAfter(sql)).toContain(check)
      })
    })
})
