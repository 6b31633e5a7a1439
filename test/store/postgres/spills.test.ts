// Ends of calls that a process could not write to PostgreSQL: they are in a file of its number, and whoever comes next charges
// them.

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { SpillFile } from '../../../src/store/commits/spill.ts'
import { openStoreIn } from '../../../src/store/open.ts'
import { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'
import { tempDir } from '../../support/tmp.ts'

describeOnPostgres('ends of calls that wait for PostgreSQL', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('spills')
    admin = new SQL({ url, max: 1 })
  })
  beforeEach(() => emptyTables(admin))
  afterAll(() => admin.close())

  test('are charged by the first process where those of their number are no more, each once', async () => {
    using home = tempDir('weir-spills-')
    const place = { dataDir: home.path, server: { url } }
    const beside = (number: number) => ({ number, processes: 3, succeeds: undefined })
    const notices: object[] = []
    const notice = (_: string, facts: object) => void notices.push(facts)
    const third = await openStoreIn(place, { clock: () => noon, serveAs: 'third', beside: beside(3) })
    await third.ledger.grant(grantOf('g', usd(10)))
    for (const call of ['a', 'b']) await third.ledger.hold(holdOf(call, { owner: 'third' }))
    const file = new SpillFile(home.path, noon, { name: 'settles.3.spill' })
    const settled = { kind: 'settle', command: settleOf('a', usd('0.7'), { owner: 'third' }) }
    for (const record of [settled, settled]) file.append(record)
    file.append({
      kind: 'settle',
      command: { ...settleOf('b', usd('0.1'), { owner: 'third' }), usage: null },
    })
    file.close()

    const second = await openStoreIn(place, { clock: () => noon, serveAs: 'second', beside: beside(2) })
    expect(await second.ledger.call('anna', 'a')).toMatchObject({ state: 'open' })
    const alone = await openStoreIn(place, { clock: () => noon, serveAs: 'alone', notice })
    expect(await alone.ledger.call('anna', 'a')).toMatchObject({ state: 'settled', charged: usd('0.7') })
    expect((await alone.ledger.totals('anna')).used).toBe(usd('0.7'))
    // What makes no sense is kept aside, and its call is left to recovery.
    expect(await alone.ledger.call('anna', 'b')).toMatchObject({ state: 'open' })
    expect(notices.at(-1)).toMatchObject({
      kind: 'settle',
      call: 'b',
      file: expect.stringContaining('settles.3'),
    })
    const left = new SpillFile(home.path, noon, { name: 'settles.3.spill' })
    expect(left.read()).toEqual([])
    left.close()
    for (const store of [third, second, alone]) await store.close()
  })

  test('are in the file as well while they stand behind other work, and no longer once they are written', async () => {
    using home = tempDir('weir-spills-')
    const work = Promise.withResolvers<void>()
    let isBehind = false
    const ledger = await PostgresLedger.open({
      server: url,
      owner: 'process',
      time: { clock: () => noon, backMs: 60_000, stepped: () => undefined },
      limits: defaultGroupLimits,
      deadlineMs: 5_000,
      isDead: () => false,
      isRunning: () => true,
      before: () => (isBehind ? work.promise : undefined),
    })
    const spill = new SpillFile(home.path, noon)
    await ledger.takeOver([spill], () => undefined)
    await ledger.grant(grantOf('g', usd(10)))
    await ledger.hold(holdOf('a', { owner: 'process' }))
    isBehind = true
    const settled = ledger.settle(settleOf('a', usd(1), { owner: 'process' }))
    const records = () => {
      const read = new SpillFile(home.path, noon)
      const found = read.read()
      read.close()
      return found
    }
    while (records().length === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(records()).toMatchObject([{ kind: 'settle', command: { call: 'a' } }])
    work.resolve()
    expect(await settled).toMatchObject({ charged: usd(1) })
    expect(records()).toEqual([])
    await ledger.close()
    spill.close()
  })
})
