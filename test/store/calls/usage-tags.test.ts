// Usage by tag: the sums of the receipts that have it, exactly, whatever ended the calls and whoever was killed.

import { afterEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import fc from 'fast-check'
import { groupTag, tagsText } from '../../../src/conversation/request.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { usd } from '../../../src/credits/money.ts'
import type { UsageQuery, UsageReport } from '../../../src/observe/call-log.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const dirs: TempDir[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove()
})

const range = { from: noon - 40 * day, until: noon + day }
const report = (store: Store, query: Omit<UsageQuery, 'from' | 'until'>, most = 100): Promise<UsageReport> =>
  store.usage.report({ ...range, ...query }, most)

/** Calls and charges by group. */
function sumsOf({ rows }: UsageReport): Record<string, { calls: number; charged: bigint }> {
  const sums: Record<string, { calls: number; charged: bigint }> = {}
  for (const { group, calls, charged } of rows) {
    const sum = (sums[group] ??= { calls: 0, charged: 0n })
    sum.calls += calls
    sum.charged += charged
  }
  return sums
}

async function csvOf(store: Store, query: Omit<UsageQuery, 'from' | 'until'>): Promise<string[]> {
  let text = ''
  for await (const piece of store.usage.csv({ ...range, ...query })) text += piece
  return text.trimEnd().split('\r\n').slice(1)
}

const tagsOf = fc.dictionary(
  fc.constantFrom('team', 'feature', 'user'),
  fc.constantFrom('a', 'b', 'ü,=%', 'c'),
  {
    maxKeys: 3,
  },
)
const callOf = fc.record({
  tags: tagsOf,
  account: fc.constantFrom('anna', 'berta'),
  key: fc.constantFrom('key1', 'key2', null),
  group: fc.constantFrom(null, null, 'grp_a', 'grp_b'),
  model: fc.constantFrom('sim/echo', 'sim/other'),
  cost: fc.bigInt({ min: 0n, max: usd('0.7') }),
  /** How it ends; a call that is left is ended by whoever comes after the process. */
  end: fc.constantFrom('settled', 'settled', 'released', 'left', 'left after a checkpoint'),
  /** Together with the next ones, in one commit. */
  together: fc.boolean(),
  days: fc.integer({ min: 0, max: 3 }),
})

/** Opens the store that has been begun as the process of this name. */
type OpenAs = (owner: string) => Promise<Store>

/** Whatever calls there were; `begin` makes a store with nothing in it. */
async function expectSums(begin: (clock: () => number) => Promise<OpenAs>, numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(callOf, { minLength: 1, maxLength: 25 }), async (calls) => {
      let now = noon - 2 * day
      const open = await begin(() => now)
      const first = await open('first')
      const { ledger } = first
      for (const account of ['anna', 'berta'])
        await ledger.grant(grantOf(`g:${account}`, usd(100), { account }))
      const running: Promise<unknown>[] = []
      for (const [n, { tags, account, key, group, model, cost, end, together, days }] of calls.entries()) {
        now = Math.max(now, noon - 2 * day + days * day)
        const call = `call${String(n).padStart(3, '0')}`
        const ends = async () => {
          const text = Object.keys(tags).length === 0 ? undefined : tagsText(tags)
          const inGroup = group === null ? null : { group, person: account, budgets: [] }
          const hold = holdOf(call, {
            inGroup,
            account,
            key,
            model,
            tags: text,
            owner: 'first',
            leaseUntil: now + 9 * day,
          })
          await ledger.hold(hold)
          const command = { call, owner: 'first' }
          if (end === 'settled')
            await ledger.settle(settleOf(call, cost, { owner: 'first', most: usd('0.5') }))
          if (end === 'released') await ledger.release({ ...command, reason: 'provider_error', attempts: [] })
          if (end === 'left after a checkpoint')
            await ledger.checkpoint({
              ...command,
              usage: { ...noUsage, input: 3 },
              cost,
              leaseUntil: now + 9 * day,
            })
        }
        running.push(ends())
        if (!together) await Promise.all(running.splice(0))
      }
      await Promise.all(running)
      await first.close()
      // The first process is dead: what it left is ended with its tags.
      const second = await open('second')
      await second.ledger.recover(now)

      const receipts = await Promise.all(
        calls.map(
          async ({ account }, n) => (await second.ledger.call(account, `call${String(n).padStart(3, '0')}`))!,
        ),
      )
      expect(receipts.map(({ tags }) => tags)).toEqual(calls.map(({ tags }) => ({ ...tags })))
      for (const account of [undefined, 'anna'])
        for (const name of ['team', 'feature', 'user', 'nothing', groupTag]) {
          const expected: Record<string, { calls: number; charged: bigint }> = {}
          for (const receipt of receipts) {
            if (account !== undefined && receipt.account !== account) continue
            const sum = (expected[(name === groupTag ? receipt.inGroup?.group : receipt.tags[name]) ?? ''] ??=
              { calls: 0, charged: 0n })
            sum.calls++
            sum.charged += receipt.charged
          }
          const query = { by: 'tag' as const, tagName: name, ...(account === undefined ? {} : { account }) }
          expect(sumsOf(await report(second, query))).toEqual(expected)
          expect(sumsOf(await report(second, { ...query, per: 'month' }))).toEqual(expected)
          const whole = await report(second, { by: 'day', ...(account === undefined ? {} : { account }) })
          expect((await report(second, query)).totals).toEqual(whole.totals)
          // The file has the same rows.
          const { rows } = await report(second, query)
          expect((await csvOf(second, query)).length).toBe(rows.length)
        }
      await second.close()
    }),
    { numRuns },
  )
}

test(
  'usage by tag is the sum of the receipts with the tag, of any calls',
  () =>
    expectSums((clock) => {
      const dir = tempDir('weir-tags-')
      dirs.push(dir)
      return Promise.resolve((owner) => openStore(dir.path, { clock, serveAs: owner }))
    }, 8),
  60_000,
)

describeOnPostgres('usage by tag', () => {
  test('is the same on PostgreSQL', async () => {
    const url = await freshDatabase('usage_by_tag')
    const admin = new SQL({ url, max: 1 })
    let runs = 0
    await expectSums(async (clock) => {
      await emptyTables(admin)
      const run = ++runs
      return (owner) => openOnPostgres(url, { clock, owner: `${owner} ${run}` })
    }, 2)
    await admin.close()
  }, 60_000)
})
