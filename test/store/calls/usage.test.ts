// Usage by day: the ledger's own figures, written in the ledger's own transactions.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { noUsage } from '../../../src/conversation/usage.ts'
import { usd } from '../../../src/credits/money.ts'
import type { UsageGroup, UsageSum } from '../../../src/observe/call-log.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { UsageDays } from '../../../src/store/sqlite/ledger/calls.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const dirs: TempDir[] = []
const stores: Store[] = []
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

function freshDir(): string {
  const dir = tempDir('weir-usage-')
  dirs.push(dir)
  return dir.join('data')
}

async function open(dataDir: string, clock: () => number = () => noon, serveAs?: string): Promise<Store> {
  const store = await openStore(dataDir, { clock, ...(serveAs === undefined ? {} : { serveAs }) })
  stores.push(store)
  return store
}

const today = { from: noon - day / 2, until: noon + day / 2 }

async function usageOf(
  store: Store,
  by: UsageGroup,
  more: { account?: string; key?: string; model?: string } = {},
) {
  return (await store.usage.report({ ...today, by, ...more }, 100)).rows
}

/** What the table of ended calls adds up to, whatever the rollup says. */
function booked(dataDir: string) {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true, safeIntegers: true })
  try {
    return database
      .query<{ calls: bigint; cost: bigint; charged: bigint }, []>(
        'SELECT count(*) AS calls, sum(cost) AS cost, sum(charged) AS charged FROM call',
      )
      .get()!
  } finally {
    database.close()
  }
}

function added(sums: readonly UsageSum[]) {
  return {
    calls: BigInt(sums.reduce((total, { calls }) => total + calls, 0)),
    cost: sums.reduce((total, { cost }) => total + cost, 0n),
    charged: sums.reduce((total, { charged }) => total + charged, 0n),
  }
}

describe('usage by day', () => {
  test('that the database refuses undoes no charge, is logged with its figures, and is added later', async () => {
    const dataDir = freshDir()
    const logged: Record<string, unknown>[] = []
    const store = await openStore(dataDir, {
      clock: () => noon,
      notice: (_, facts) => logged.push({ ...facts }),
    })
    stores.push(store)
    const { ledger } = store
    await ledger.grant(grantOf('g', usd(10)))
    const other = new Database(join(dataDir, 'weir.db'))
    other.run("CREATE TRIGGER refuse BEFORE INSERT ON usage_day BEGIN SELECT RAISE(ABORT, 'refused'); END")
    await ledger.hold(holdOf('c1'))
    expect(await ledger.settle(settleOf('c1', usd('0.25')))).toMatchObject({ charged: usd('0.25') })
    other.run('DROP TRIGGER refuse')
    other.close()
    expect(logged).toEqual([
      expect.objectContaining({ account: 'anna', model: 'sim/echo', cost: '0.25', charged: '0.25' }),
    ])
    expect(await usageOf(store, 'day')).toEqual([])
  })

  test('that was refused is added once, when the database takes it again', () => {
    const database = openDatabase(freshDir(), noon)
    database.run("CREATE TRIGGER refuse BEFORE INSERT ON usage_day BEGIN SELECT RAISE(ABORT, 'refused'); END")
    const refusals: unknown[] = []
    const days = new UsageDays(database, (refused) => refusals.push(refused), 0)
    const of = (cost: bigint) => ({
      account: 'anna',
      at: noon,
      key: null,
      model: 'sim/echo',
      calls: 1,
      errors: 0,
      inputTokens: 1,
      outputTokens: 1,
      cost,
      charged: cost,
      tags: null,
      group: null,
      provider: 'sim',
      timed: 1,
      ms: 40,
    })
    const commit = () => {
      database.run('BEGIN')
      days.write()
      database.run('COMMIT')
      days.onCommitted()
    }
    days.add(of(1n))
    commit()
    // The transaction that would have added it is rolled back: it goes on waiting.
    database.run('DROP TRIGGER refuse')
    database.run('BEGIN')
    days.write()
    database.run('ROLLBACK')
    days.forget()
    days.add(of(2n))
    commit()
    commit()
    const costs = database
      .query<{ calls: bigint; cost: bigint }, []>('SELECT calls, cost FROM usage_day')
      .all()
    expect(costs).toEqual([{ calls: 2n, cost: 3n }])
    expect(refusals).toEqual([of(1n)])
    database.close()
  })

  test('has the calls that a process left open when it died', async () => {
    const dataDir = freshDir()
    const first = await open(dataDir, () => noon, 'first')
    await first.ledger.grant(grantOf('g', usd(10)))
    await first.ledger.hold(holdOf('lost', { owner: 'first' }))
    const usage = { ...noUsage, input: 3, output: 4 }
    const leaseUntil = noon + day
    await first.ledger.checkpoint({ call: 'lost', owner: 'first', usage, cost: usd('0.01'), leaseUntil })
    await stores.pop()!.close()
    const second = await open(dataDir, () => noon, 'second')
    expect(await second.ledger.recover(noon)).toBe(1)
    expect(await usageOf(second, 'day')).toEqual([
      {
        day: today.from,
        group: '',
        label: null,
        calls: 1,
        errors: 0,
        inputTokens: 3,
        outputTokens: 4,
        cost: usd('0.01'),
        charged: usd('0.01'),
        timed: 1,
        ms: 0,
      },
    ])
  })

  test('has the calls of the time before there was a rollup', async () => {
    const dataDir = freshDir()
    mkdirSync(dataDir)
    const fixture = join(import.meta.dir, '../../fixtures/schema/10.db.gz')
    writeFileSync(join(dataDir, 'weir.db'), gunzipSync(readFileSync(fixture)))
    const store = await open(dataDir)
    const sums = await usageOf(store, 'model')
    expect(added(sums)).toEqual(booked(dataDir))
    expect(
      sums.map(({ group, inputTokens, outputTokens }) => ({ group, inputTokens, outputTokens })),
    ).toEqual([{ group: 'sim/echo', inputTokens: 10, outputTokens: 5 }])
  })
})
