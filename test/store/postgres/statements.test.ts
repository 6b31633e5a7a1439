// What several processes have booked of one account is one statement, and one day to be proven, whoever wrote which line.

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import type { StatementEntry } from '../../../src/credits/ledger/monthly.ts'
import { usd } from '../../../src/credits/money.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

const today = noon - day / 2

describeOnPostgres('the bookings of several processes', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('bookings')
    admin = new SQL({ url, max: 1 })
  })
  beforeEach(() => emptyTables(admin))
  afterAll(() => admin.close())

  async function twoProcesses() {
    const clocks = [noon, noon + 500]
    // One after the other: the first has the first chain.
    const stores: Awaited<ReturnType<typeof openOnPostgres>>[] = []
    for (const n of clocks.keys())
      stores.push(await openOnPostgres(url, { clock: () => clocks[n]!, owner: `process ${n}` }))
    const [one, two] = stores as [(typeof stores)[0], (typeof stores)[0]]
    const charge = async (n: number, call: string) => {
      const { ledger } = stores[n]!
      await ledger.hold(holdOf(call))
      await ledger.settle(settleOf(call, usd('0.25')))
    }
    await one.ledger.grant(grantOf('g', usd(9)))
    for (let round = 0; round < 6; round++) {
      await charge(round % 2, `c${round}`)
      clocks[round % 2]! += 100
    }
    return { one, two, charge, clocks, close: () => Promise.all(stores.map((store) => store.close())) }
  }

  test('stand in the order in which they changed the account, on every page', async () => {
    const { two, close } = await twoProcesses()
    const entries: StatementEntry[] = []
    for (let before: number | null | undefined; before !== null;) {
      const page = await two.statements.page('anna', 2, before)
      entries.push(...page.entries)
      before = page.next
    }
    expect(entries.map(({ call }) => call)).toEqual(['c5', 'c4', 'c3', 'c2', 'c1', 'c0', null])
    // The first process is half a second behind; no booking is earlier than the one before it.
    expect(entries.map(({ at }) => at)).toEqual(entries.map(({ at }) => at).toSorted((a, b) => b - a))
    expect(new Set(entries.map(({ tx }) => tx)).size).toBe(7)
    expect((await two.reports.history('anna')).at(-1)).toMatchObject({ call: 'c5', balance: usd('7.5') })
    await close()
  })

  test('are proven by the day, chain by chain, each from the hash before it to the entry after it', async () => {
    const { one, clocks, charge, close } = await twoProcesses()
    clocks[0] = clocks[1] = noon + day
    await charge(0, 'late')
    const first = await one.ledger.auditDay(today)
    expect(first.checks.filter(({ ok }) => !ok)).toEqual([])
    expect(first).toMatchObject({ ok: true, journalEntries: 14, calls: 6 })
    expect(
      first.journal.map(({ firstTransaction, lastTransaction }) => [firstTransaction, lastTransaction]),
    ).toEqual([
      [1, 4],
      [1, 3],
    ])
    const next = await one.ledger.auditDay(today + day)
    expect(next).toMatchObject({ ok: true, journalEntries: 2, calls: 1 })
    expect(next.journal[0]).toMatchObject({ chain: 1, givenHash: first.journal[0]!.headHash })
    expect(await one.ledger.auditDay(today - day)).toMatchObject({ ok: true, journal: [], calls: 0 })

    const broken = async (at: number) => (await one.ledger.auditDay(at)).checks.filter(({ ok }) => !ok)
    const forge = (text: string) =>
      admin
        .unsafe(`SET session_replication_role = replica; ${text}; SET session_replication_role = DEFAULT`)
        .simple()
    await forge('UPDATE journal SET amount = 2 * amount WHERE chain = 1 AND tx = 5')
    expect(await broken(today)).toEqual([])
    expect(await broken(today + day)).toContainEqual({
      name: 'the hash chains verify',
      ok: false,
      detail: 'transaction 1.5',
    })
    await forge('DELETE FROM journal WHERE chain = 2 AND tx = 2')
    expect((await broken(today)).map(({ detail }) => detail)).toEqual(
      expect.arrayContaining(['transaction 2.3', 'call c3']),
    )
    await close()
  })
})
