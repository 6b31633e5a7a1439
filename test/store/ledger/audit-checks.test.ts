// Each invariant of the ledger, broken by hand in the file: the audit has a check for it, and that check says so.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { closeSync, cpSync, openSync, writeSync } from 'node:fs'
import { openStore } from '../../../src/store/open.ts'
import {
  anchoredHistory,
  auditFile,
  checks,
  consumptionOrder,
} from '../../../src/store/sqlite/audit/audit.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { day, noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { forge } from './forgeries.ts'
import { fillSoundLedger } from './sound-ledger.ts'

let home: TempDir
let number = 0

const sound = 'the file is sound'

beforeAll(async () => {
  home = tempDir('weir-audit-checks-')
  const clock = { now: noon }
  const store = await openStore(home.join('sound'), { clock: () => clock.now, serveAs: 'test' })
  await fillSoundLedger(store, clock)
  await store.close()
})
afterAll(() => home.remove())

const purchased = `(SELECT id FROM lot WHERE account = 'anna' AND source = 'payment:razorpay:pay_1')`
const free = (pool: string) => `(SELECT id FROM lot WHERE account = 'anna' AND pool = '${pool}')`
const later = `(SELECT id FROM lot WHERE source = 'later')`
/** The table again, without what its columns promise. */
const unbound = (table: string) =>
  `CREATE TABLE plain AS SELECT * FROM ${table}; DROP TABLE ${table}; ALTER TABLE plain RENAME TO ${table}`
const keyRow = (key: string, call: string, body: string) =>
  `INSERT INTO idempotency (account, key, body_hash, call, owner, expires_at)
   VALUES ('anna', '${key}', x'${body}', '${call}', '', ${noon + day})`
/** Credit out of nothing, in the journal, the lot and the wallet alike. */
const forgedCredit = (source: string) => `
  INSERT INTO journal SELECT max(tx) + 1, 0, 'grant', 'grant', NULL, -5, ${noon}, x'00', x'00' FROM journal;
  INSERT INTO journal SELECT max(tx), 1, 'grant', 'wallet:berta:purchased', 'lot_forged', 5, ${noon}, x'00', x'00' FROM journal;
  INSERT INTO lot (id, account, pool, granted, remaining, pinned, expired, refunded, granted_at, source, live)
    VALUES ('lot_forged', 'berta', 'purchased', 5, 5, 0, 0, 0, ${noon + 1}, '${source}', 1);
  UPDATE wallet SET posted = posted + 5 WHERE account = 'berta'`
const forgedNote = (id: string, kind = 'adjust') =>
  `INSERT INTO correction (id, account, kind, taken, debt, at) VALUES ('${id}', 'berta', '${kind}', -5, 0, ${noon + 1})`
const forgedAdjustment = (id: string) => `${forgedCredit(`adjust:${id}`)}; ${forgedNote(id)}`
const settled = `(SELECT settle_tx FROM call WHERE id = 'ended')`

/** By the check that must find it; that of the file has a test of its own. Other checks may find it too. */
const broken: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'no credit is below zero, and no more is held than there is': {
    'a hold of more than there is': `UPDATE open_call SET hold = hold + 100000000000000,
      pins = json_array(json_array(${purchased}, hold + 100000000000000));
      UPDATE lot SET pinned = pinned + 100000000000000 WHERE id = ${purchased};
      UPDATE wallet SET held = held + 100000000000000 WHERE account = 'anna' AND pool = 'purchased'`,
    'a negative debt': "UPDATE wallet SET debt = -1 WHERE account = 'berta'",
    'a lot below zero': "UPDATE lot SET remaining = -1 WHERE account = 'berta'",
    'a spent lot with a rest': "UPDATE lot SET live = 0 WHERE account = 'berta'",
  },
  'the hash chain verifies': {
    'a time': `UPDATE journal SET at = at + 1 WHERE tx = ${settled}`,
    'a lot': `UPDATE journal SET lot = ${free('daily')} WHERE tx = ${settled} AND lot IS NOT NULL`,
  },
  [anchoredHistory]: {
    'an end cut off': 'DELETE FROM journal WHERE tx >= (SELECT max(tx) FROM journal)',
    'another end': 'UPDATE journal SET hash = zeroblob(32) WHERE tx = (SELECT max(tx) FROM journal)',
  },
  "every transaction's legs sum to zero": {
    'one leg': `UPDATE journal SET amount = amount + 1 WHERE tx = ${settled} AND leg = 0`,
    'a missing leg': `DELETE FROM journal WHERE tx = ${settled} AND leg = 1`,
    'a sum beyond 64 bits': `UPDATE journal SET amount = 9223372036854775807 WHERE tx = ${settled}`,
  },
  'transactions and legs are numbered without gaps': {
    'a missing transaction': `DELETE FROM journal WHERE tx = ${settled}`,
    'a missing leg': 'DELETE FROM journal WHERE tx = 1 AND leg = 0',
  },
  "a wallet's posted − debt is the sum of its journal legs": {
    posted: "UPDATE wallet SET posted = posted + 1 WHERE account = 'berta'",
    debt: "UPDATE wallet SET debt = 1 WHERE account = 'berta'",
    'a wallet that is gone': "DELETE FROM wallet WHERE account = 'berta'",
    'a wallet without a journal':
      "INSERT INTO wallet (account, pool, posted, held, debt, version) VALUES ('carla', 'purchased', 1, 0, 0, 0)",
  },
  "a wallet's posted and held are the sums over its lots": {
    held: "UPDATE wallet SET held = held + 1 WHERE account = 'anna' AND pool = 'purchased'",
    'both sides of a debt': "UPDATE wallet SET posted = posted + 1, debt = debt + 1 WHERE account = 'berta'",
    'a lot that is gone': "DELETE FROM lot WHERE account = 'berta'",
    'a lot that counts as spent': "UPDATE lot SET live = 0 WHERE account = 'berta'",
  },
  'what lots have pinned is what open calls hold': {
    'a pin without a call': "DELETE FROM open_call WHERE id = 'open'",
    'a hold': "UPDATE open_call SET hold = hold + 1 WHERE id = 'open'",
    'a pin of a lot': "UPDATE lot SET pinned = 1 WHERE account = 'berta'",
  },
  'an open call holds credit of its own account and pools alone': {
    'a call of another account': "UPDATE open_call SET account = 'berta'",
    'a pool that it may not spend': "UPDATE open_call SET funding = 'daily'",
    'free credit for a key': `UPDATE open_call SET key = 'k', funding = 'welcome',
      pins = json_array(json_array(${free('welcome')}, hold))`,
    'a lot that there is not': `UPDATE open_call SET pins = json_array(json_array('lot_none', hold))`,
  },
  'a call is open or has ended, never both': {
    'an ended call that is open': "UPDATE open_call SET id = 'ended'",
  },
  'per lot: granted = remaining + consumed + expired + refunded': {
    remaining: `UPDATE lot SET remaining = remaining - 1 WHERE id = ${purchased}`,
    granted: `UPDATE lot SET granted = granted + 1 WHERE id = ${purchased}`,
    'an expiry that was none': `UPDATE lot SET expired = 1, remaining = remaining - 1 WHERE id = ${purchased}`,
    'a refund that was none': `UPDATE lot SET refunded = refunded + 1, remaining = remaining - 1 WHERE id = ${purchased}`,
    'a lot without a grant': `INSERT INTO lot SELECT 'lot_new', account, pool, granted, remaining, pinned, expired,
      refunded, granted_at, expires_at, 'new', live FROM lot WHERE account = 'berta'`,
  },
  'no lot is consumed after its expiry unless pinned before': {
    'an expiry before the call': `UPDATE lot SET expires_at = granted_at - 1 WHERE id = ${purchased}`,
  },
  "a call is paid by its own account's pools; an API key's by purchased credit alone": {
    'a call of another account': "UPDATE call SET account = 'berta' WHERE id = 'ended'",
    'a pool that it might not spend': "UPDATE call SET funding = 'daily' WHERE id = 'ended'",
    'free credit for a key': `UPDATE lot SET pool = 'welcome' WHERE id = ${purchased}`,
  },
  'a call ends once: settled with one transaction of its cost, or voided with none': {
    'a cost': "UPDATE call SET cost = cost + 1, absorbed = absorbed + 1 WHERE id = 'ended'",
    'a charge': "UPDATE call SET charged = charged - 1, absorbed = absorbed + 1 WHERE id = 'ended'",
    'a transaction of no call': "DELETE FROM call WHERE id = 'ended'",
    'a transaction of a void call':
      "UPDATE call SET state = 'voided', cost = 0, charged = 0 WHERE id = 'ended'",
    'a settled call without a transaction': "UPDATE call SET settle_tx = NULL WHERE id = 'ended'",
  },
  "a key's spending is the sum of its calls": {
    spending: 'UPDATE key_spend SET spent = spent - 1',
    'a row that is gone': 'DELETE FROM key_spend',
    'the key of a call': "UPDATE call SET key = 'another' WHERE id = 'ended'",
  },
  "a budget's spending is the sum of the calls that were held on it": {
    spending: "UPDATE budget_spend SET spent = spent - 1 WHERE scope = 'grp_lab'",
    'a row that is gone': "DELETE FROM budget_spend WHERE scope = 'grp_lab/anna'",
    'another window': "UPDATE budget_spend SET window = 1 WHERE scope = 'grp_lab'",
    'a call that was held on none': "UPDATE call SET in_group = NULL WHERE id = 'grouped'",
    'a budget of no call': "INSERT INTO budget_spend VALUES ('grp_none', 0, 1)",
  },
  'a call of a group names it, its person, and no budget twice': {
    'no person': "UPDATE call SET in_group = json_remove(in_group, '$.person') WHERE id = 'grouped'",
    'no key': "UPDATE call SET key = NULL WHERE id = 'grouped'",
  },
  'one Idempotency-Key is one call of its account': {
    'a key of whoever paid for a call of a group': `INSERT INTO idempotency (account, key, body_hash, call, expires_at)
      VALUES ('berta', 'k', x'00', 'grouped', ${noon + day})`,
    'a key of another account': `INSERT INTO idempotency (account, key, body_hash, call, expires_at)
      VALUES ('berta', 'k', x'00', 'ended', ${noon + day})`,
  },
  'one payment is one credit': {
    'another amount': 'UPDATE top_up SET credit = credit + 1',
    'a lot of another payment': "UPDATE top_up SET payment_id = 'pay_2'",
    'a credit without a top-up': 'DELETE FROM top_up',
    'a lot that there is not': "UPDATE top_up SET lot = 'lot_none'",
  },
  'a call may spend pools in the order of spending alone': {
    'an ended call': "UPDATE call SET funding = 'purchased,welcome' WHERE id = 'ended'",
    'an open call': "UPDATE open_call SET funding = 'welcome,daily,purchased'",
    'no pool': "UPDATE call SET funding = '' WHERE id = 'ended'",
  },
  [consumptionOrder]: {
    'a charge of the lot that ends later': `UPDATE journal SET lot = ${later} WHERE tx = ${settled} AND lot IS NOT NULL;
      UPDATE lot SET remaining = remaining + 100000000000 WHERE id = ${purchased};
      UPDATE lot SET remaining = remaining - 100000000000 WHERE id = ${later}`,
    'purchased credit where a call might spend free credit':
      "UPDATE call SET key = NULL, funding = 'daily,subscription,welcome,purchased' WHERE id = 'ended'",
  },
  'every id, source and Idempotency-Key is used once': {
    'two bodies of one key': `${unbound('idempotency')}; ${keyRow('k', 'ended', '00')}; ${keyRow('k', 'other', '01')}`,
    'two keys of one call': `DROP INDEX idempotency_call; ${keyRow('k', 'ended', '00')}; ${keyRow('l', 'ended', '00')}`,
    'a source that granted twice': `DROP INDEX lot_source; ${forgedCredit('payment:razorpay:pay_1')}`,
    'a transaction of two calls': `DROP INDEX call_settle_tx; INSERT INTO call (seq, id, account, state, hold, funding, model,
      price_version, owner, opened_at, ended_at, ending, cost, charged, absorbed, estimated, settle_tx)
      SELECT seq + 100, 'copy', account, state, hold, funding, model, price_version, owner, opened_at, ended_at, ending,
      cost, charged, absorbed, estimated, settle_tx FROM call WHERE id = 'ended'`,
    'a correction made twice': `${unbound('correction')};
      INSERT INTO correction SELECT * FROM correction WHERE id = 'adjust:anna:up'`,
    'two top-ups of one key': `DROP INDEX top_up_idempotency; UPDATE top_up SET idempotency_key = 'k';
      CREATE TEMP TABLE other AS SELECT * FROM top_up; UPDATE other SET id = 'topup_2', payment_id = NULL, paid_at = NULL,
      credited_at = NULL, lot = NULL, reference = NULL, receipt_year = NULL, receipt_number = NULL, refunded = 0; INSERT INTO top_up SELECT * FROM other`,
  },
  'every adjustment and grant of an operator is noted, and was asked for': {
    'credit without a note': forgedCredit('adjust:x'),
    'credit under the note of a refund': `${forgedCredit('adjust:x')}; ${forgedNote('x', 'refund')}`,
    'a note without its credit': forgedNote('adjust:berta:x'),
    'a note of another amount': "UPDATE correction SET taken = taken - 1 WHERE id = 'adjust:anna:up'",
    'a note of another account': "UPDATE correction SET account = 'berta' WHERE id = 'adjust:anna:up'",
    'more taken than noted': "UPDATE correction SET taken = taken - 1 WHERE id = 'adjust:anna:down'",
    'a note of taking that is gone': "DELETE FROM correction WHERE id = 'adjust:anna:down'",
    'a refund that never failed': forgedAdjustment('refund:razorpay:x:failed'),
    'a grant that no operator made': forgedCredit('operator:x'),
    'a plan that no operator granted': `INSERT INTO subscription (period, source, subscription, account, product, starts_at,
      ends_at, state, amount, created_at, updated_at) VALUES ('subscription:weir.plan:by-hand-x:2026-11-20T12:00:00.000Z',
      'weir.plan', 'by-hand-x', 'anna', 'basic', ${noon}, ${noon + day}, 'active', 1, ${noon}, ${noon})`,
    'the grant of another lot': "UPDATE lot SET id = 'lot_new' WHERE source = 'operator:gift'",
    'an adjustment that no operator asked for': forgedAdjustment('adjust:berta:x'),
    'an adjustment under an id of no kind': forgedAdjustment('x'),
    'the failed refund of another': forgedAdjustment('refund:razorpay:r2:failed:x'),
    'another sum of a failed refund':
      "UPDATE payment_reversal SET credit = credit - 1 WHERE id = 'r2:failed'",
    'a dispute that there is not': forgedAdjustment('dispute:razorpay:x:back'),
    'a dispute that goes on': "UPDATE payment_reversal SET kind = 'open' WHERE id = 'd1'",
    'more than was withheld': "UPDATE payment_reversal SET held = held - 1 WHERE id = 'd1'",
    'a subscription that there is not': forgedAdjustment('subscription:play:x:returned'),
    'a subscription whose money went back': "UPDATE subscription SET state = 'refunded'",
    'more than was taken of a subscription': 'UPDATE subscription SET taken_back = taken_back - 1',
  },
  'every refund is noted under its id': {
    'a note that is gone': 'DELETE FROM correction',
    'another amount': 'UPDATE correction SET taken = taken - 1',
    'another account': "UPDATE correction SET account = 'berta'",
    'a note without a refund': `INSERT INTO correction (id, account, kind, taken, debt, at, lot)
      VALUES ('x', 'berta', 'refund', 1, 0, ${noon}, NULL)`,
  },
  'a payment is refunded by what its refunds and lost disputes say': {
    'another sum': 'UPDATE top_up SET refunded = refunded - 1',
    'a refund that is gone': 'DELETE FROM payment_reversal',
    'a refund that failed': "UPDATE payment_reversal SET kind = 'failed'",
  },
  'one allowance for each account and UTC day, one welcome for each account': {
    'a second allowance': `UPDATE lot SET source = 'daily:anna:2026-11-22' WHERE id = ${free('daily')}`,
    'the allowance of another': `UPDATE lot SET source = 'daily:berta:2026-11-21' WHERE id = ${free('daily')}`,
    'an allowance that lasts': `UPDATE lot SET expires_at = expires_at + 1 WHERE id = ${free('daily')}`,
    'the welcome of another': `UPDATE lot SET source = 'welcome:berta' WHERE id = ${free('welcome')}`,
  },
}

/** The names of the checks that fail after this was done to a copy of the file. */
function foundAfter(sql: string | undefined): string[] {
  const copy = home.join(`copy${++number}`)
  cpSync(home.join('sound'), copy, { recursive: true })
  if (sql !== undefined) {
    const database = openDatabase(copy, noon)
    forge(database, sql)
    database.close()
  }
  return auditFile(`${copy}/weir.db`).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))
}

test('a sound ledger passes', () => {
  expect(foundAfter(undefined)).toEqual([])
})

test('every check is broken here', () => {
  const others = [sound, 'the hash chain verifies', anchoredHistory, consumptionOrder]
  const all = [...others, ...checks.map(({ name }) => name)]
  expect([sound, ...Object.keys(broken)].toSorted()).toEqual(all.toSorted())
})

test('a damaged page is found, though no check reads it', () => {
  const copy = home.join('damaged')
  cpSync(home.join('sound'), copy, { recursive: true })
  const database = openDatabase(copy, noon)
  const { root } = database
    .prepare<{ root: bigint }, []>("SELECT rootpage AS root FROM sqlite_master WHERE name = 'voucher'")
    .get()!
  const { page_size: size } = database.prepare<{ page_size: bigint }, []>('PRAGMA page_size').get()!
  database.run('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
  const file = openSync(`${copy}/weir.db`, 'r+')
  writeSync(file, Uint8Array.of(0xff), 0, 1, Number((root - 1n) * size))
  closeSync(file)
  expect(auditFile(`${copy}/weir.db`).checks.flatMap(({ name, ok }) => (ok ? [] : [name]))).toEqual([sound])
})

for (const [check, ways] of Object.entries(broken))
  describe(`"${check}" finds`, () => {
    test.each(Object.entries(ways))('%s', (_, sql) => {
      expect(foundAfter(sql)).toContain(check)
    })
  })
