// `weir ledger audit` for one day: what it prints, what it takes, and how it ends.

import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openStore } from '../../src/store/open.ts'
import { usd } from '../../src/credits/money.ts'
import { grantOf, holdOf, settleOf } from '../credits/support.ts'
import { type TempDir, tempDir } from '../support/tmp.ts'
import { json, type Machine, moment, run } from './run.ts'

const day = 86_400_000

let home: TempDir
let machine: Machine

/** One call yesterday, two today, at noon. */
beforeAll(async () => {
  home = tempDir('weir-cli-ledger-')
  machine = { cwd: home.path }
  let now = moment - day
  const store = await openStore(join(home.path, 'weir-data'), { clock: () => now })
  await store.ledger.grant(grantOf('g', usd(10)))
  for (const call of ['a', 'b', 'c']) {
    await store.ledger.hold(holdOf(call))
    await store.ledger.settle(settleOf(call, usd(1)))
    now = moment
  }
  await store.close()
})
afterAll(() => home.remove())

test('a day is audited by its date, as today and as yesterday', async () => {
  const today = await json(machine, 'ledger', 'audit', '--day', '2026-11-21')
  expect(today).toMatchObject({
    ok: true,
    day: '2026-11-21',
    over: false,
    first_transaction: 3,
    last_transaction: 4,
    journal_entries: 4,
    calls: 2,
    given_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    head_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    not_checked: expect.arrayContaining(['the hash chain before and after the day']),
  })
  expect(await json(machine, 'ledger', 'audit', '--day', 'today')).toEqual(today)
  expect(await json(machine, 'ledger', 'audit', '--day', 'yesterday')).toMatchObject({
    ok: true,
    day: '2026-11-20',
    over: true,
    calls: 1,
    head_hash: Object(today).given_hash,
  })
})

test('in words it names what it covers, what it takes as given and what it does not check', async () => {
  const { code, out } = await run(machine, 'ledger', 'audit', '--day', '2026-11-20')
  expect(code).toBe(0)
  expect(out).toContain('2026-11-20 (UTC): 4 journal entries, transactions 1 to 2, 1 call ended\n')
  expect(out).toMatch(/from hash 0{64}, taken as given, to head [0-9a-f]{64}\n/)
  expect(out).toContain('ok    the hash chain verifies\n')
  expect(out).toContain('not checked for a day (weir ledger audit checks it all):\n')
})

test('a day before the first entry is sound and says that it is empty', async () => {
  const { code, out } = await run(machine, 'ledger', 'audit', '--day', '2020-01-01')
  expect({ code, heading: out.split('\n')[0] }).toEqual({
    code: 0,
    heading: '2020-01-01 (UTC): no journal entries, 0 calls ended',
  })
})

test.each([
  ['2026-02-30', 'takes a UTC date such as 2027-01-31, today or yesterday, not "2026-02-30"'],
  ['2026-11-21T12:00', 'takes a UTC date such as 2027-01-31, today or yesterday, not "2026-11-21T12:00"'],
  ['tomorrow', 'takes a UTC date such as 2027-01-31, today or yesterday, not "tomorrow"'],
  ['2026-11-22', '2026-11-22 has not begun'],
])('--day %s is a usage fault', async (text, message) => {
  expect(await run(machine, 'ledger', 'audit', '--day', text)).toEqual({
    code: 2,
    out: '',
    err: `weir: --day ${message}\n`,
  })
})

test('a broken day fails with its first broken entry; the other days stay sound', async () => {
  const database = new Database(join(home.path, 'weir-data', 'weir.db'))
  database.run("UPDATE call SET cost = 1, charged = 1 WHERE id = 'b'")
  database.close()
  expect(await run(machine, 'ledger', 'audit', '--day', 'today')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^weir: 2026-11-21 does not hold: a call ends once: .*: call b\n$/),
  })
  expect(await run(machine, 'ledger', 'audit', '--day', 'today', '--json')).toMatchObject({
    code: 1,
    out: expect.stringContaining('"ok":false'),
  })
  expect((await run(machine, 'ledger', 'audit', '--day', 'yesterday')).code).toBe(0)
})
