// The order of consumption is told from the journal: what calls held at the same time is no fault, more than that is.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Database } from 'bun:sqlite'
import type { HoldCommand } from '../../../src/credits/ledger/ledger.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { auditFile, consumptionOrder } from '../../../src/store/sqlite/audit/audit.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { day, extensionOf, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { type TempDir, tempDir } from '../../support/tmp.ts'
import { forge } from './forgeries.ts'

let dir: TempDir
let store: Store
let now: number

beforeEach(async () => {
  dir = tempDir('weir-consumption-')
  now = noon
  store = await openStore(dir.path, { clock: () => now++, serveAs: 'test' })
})
afterEach(async () => {
  await store.close()
  dir.remove()
})

const grant = (source: string, amount: string, expiresAt: number | null = null) =>
  store.ledger.grant(grantOf(source, usd(amount), { expiresAt }))
const hold = (call: string, amount: string, more: Partial<HoldCommand> = {}) =>
  store.ledger.hold(holdOf(call, { want: usd(amount), least: usd(amount), ...more }))
const settle = (call: string, cost: string) => store.ledger.settle(settleOf(call, usd(cost)))

/** What breaks the order; with all that the audit says otherwise. */
function broken(): { readonly order: string | null | undefined; readonly others: readonly string[] } {
  const { checks } = auditFile(store.path)
  return {
    order: checks.find(({ name }) => name === consumptionOrder)?.detail,
    others: checks.flatMap(({ name, ok }) => (ok || name === consumptionOrder ? [] : [name])),
  }
}

function forged(sql: string): string | null | undefined {
  const database: Database = openDatabase(dir.path, now)
  forge(database, sql)
  database.close()
  return broken().order
}

const sound = { order: null, others: [] }

describe('an honest history', () => {
  test('of credit that another call held, and returned', async () => {
    await grant('soon', '1', noon + day)
    await grant('late', '5')
    await hold('long', '1')
    await hold('short', '1')
    await settle('short', '1')
    await settle('long', '0.25')
    await hold('next', '2')
    await settle('next', '1')
    expect(broken()).toEqual(sound)
  })

  test('of a call that is still open', async () => {
    await grant('soon', '1', noon + day)
    await grant('late', '5')
    await hold('long', '0.5')
    await hold('short', '1')
    await settle('short', '1')
    expect(broken()).toEqual(sound)
  })

  test('of a hold that grew when earlier credit was free again', async () => {
    await grant('soon', '1', noon + day)
    await grant('late', '5')
    await hold('long', '1')
    await hold('grown', '1')
    await store.ledger.release({ call: 'long', owner: 'here', reason: 'unreachable', attempts: [] })
    expect(await store.ledger.extend(extensionOf('grown', usd(1)))).toBe(usd(1))
    await settle('grown', '1.5')
    expect(broken()).toEqual(sound)
  })

  test('of credit that was granted, and of credit that expired, while the call ran', async () => {
    await grant('over', '1', noon + 1_000)
    await grant('late', '5')
    await hold('before', '0.5')
    now = noon + 2_000
    await hold('call', '1')
    await grant('soon', '1', noon + day)
    await settle('call', '1')
    await settle('before', '0.5')
    expect(broken()).toEqual(sound)
  })

  test('of a loan, which is taken last, and of debt', async () => {
    await store.ledger.setCreditLine('anna', usd(10))
    await grant('first', '1')
    await hold('lent', '3')
    await settle('lent', '2')
    await grant('second', '5')
    await hold('next', '1')
    await settle('next', '1')
    expect(broken()).toEqual(sound)
  })

  test('of free credit and purchased credit in one call', async () => {
    await grant('paid', '5')
    await store.ledger.grant(grantOf('gift', usd('0.5'), { pool: 'welcome' }))
    const app = { key: null, funding: ['subscription', 'welcome', 'purchased'] } as const
    await hold('app', '1', app)
    await settle('app', '0.75')
    await hold('key', '1')
    await settle('key', '0.25')
    expect(broken()).toEqual(sound)
  })
})

describe('a charge that is moved to a lot that was not its turn', () => {
  const lotOf = (source: string) => `(SELECT id FROM lot WHERE source = '${source}')`
  const moved = (call: string, from: string, to: string, amount: bigint) => `
    UPDATE journal SET lot = ${lotOf(to)} WHERE lot = ${lotOf(from)}
      AND tx = (SELECT settle_tx FROM call WHERE id = '${call}');
    UPDATE lot SET remaining = remaining + ${amount} WHERE id = ${lotOf(from)};
    UPDATE lot SET remaining = remaining - ${amount} WHERE id = ${lotOf(to)}`

  test('is found', async () => {
    await grant('soon', '2', noon + day)
    await grant('late', '5')
    for (const call of ['one', 'two', 'three']) {
      await hold(call, '0.5')
      await settle(call, '0.5')
    }
    expect(forged(moved('two', 'soon', 'late', usd('0.5')))).toBe('call two')
  })

  test('is found beside another call that held less', async () => {
    await grant('soon', '2', noon + day)
    await grant('late', '5')
    await hold('long', '0.5')
    await hold('short', '0.5')
    await settle('short', '0.5')
    await settle('long', '0.1')
    // 2 were left to the call, of which 0.5 were held.
    expect(forged(moved('short', 'soon', 'late', usd('0.5')))).toBe('call short')
  })

  test('is found if only calls of others, before it, and after it could have held that credit', async () => {
    await grant('soon', '2', noon + day)
    await grant('late', '5')
    await store.ledger.grant(grantOf('theirs', usd(5), { account: 'berta' }))
    await hold('berta', '2', { account: 'berta' })
    await hold('before', '2')
    await settle('before', '0.1')
    await hold('call', '0.5')
    await settle('call', '0.5')
    await hold('after', '1.4')
    expect(forged(moved('call', 'soon', 'late', usd('0.5')))).toBe('call call')
  })
})
