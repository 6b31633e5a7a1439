// Processes that write to one ledger: a dead one's calls are ended by another, once; one that only seemed dead writes nothing.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { SQL } from 'bun'
import { issueKey, type KeyRights, unlimited } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { openOnPostgres, type PostgresOptions } from '../../../src/store/postgres/open.ts'
import { Fenced } from '../../../src/store/postgres/transactions.ts'
import { grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

const hasten = { beatMs: 20, graceMs: 0 }

const rights = (account: string): KeyRights => ({
  ...unlimited,
  account,
  name: 'laptop',
  mode: 'live',
  sees: 'own',
  group: null,
})

describeOnPostgres('the processes of one ledger', () => {
  let url: string
  let admin: SQL
  const opened: { close(): Promise<void> }[] = []
  beforeAll(async () => {
    url = await freshDatabase('peers')
    admin = new SQL({ url, max: 1 })
  })
  beforeEach(() => emptyTables(admin))
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close().catch(() => undefined)
  })
  afterAll(() => admin.close())

  async function open(owner: string, options: Partial<PostgresOptions> = {}) {
    const store = await openOnPostgres(url, { clock: () => noon, owner, peers: { graceMs: 0 }, ...options })
    opened.push(store)
    return store
  }

  /** What ten seconds without a sign of life do. */
  const runOut = (owner: string) =>
    admin.unsafe('UPDATE chain SET heartbeat_until = 0 WHERE owner = $1', [owner])

  /** Another process, with the calls `delivered` (0.30 USD so far) and `silent` open. */
  async function startChild(owner: string) {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'peer-child.ts'), url, owner], {
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
    expect((await lines.read()).value).toBe('open\n')
    return { child, lines }
  }

  async function requireEndedOnce(ledger: Awaited<ReturnType<typeof open>>['ledger']): Promise<void> {
    expect(await ledger.call('anna', 'delivered')).toMatchObject({ ending: 'recovered', charged: usd('0.3') })
    expect(await ledger.call('anna', 'silent')).toMatchObject({ released: 'recovered', charged: 0n })
    expect((await ledger.balance('anna')).lots).toMatchObject([{ remaining: usd('9.7'), pinned: 0n }])
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
  }

  test('one that was killed: its calls are ended at their checkpoints, by one of those that try', async () => {
    const one = await open('one')
    await one.ledger.grant(grantOf('g', usd(10)))
    const { child } = await startChild('child')
    child.kill('SIGKILL')
    await child.exited
    expect(await one.ledger.recover(noon + minute)).toBe(0)

    await runOut('child')
    const follower = await open('follower')
    expect([one.leads(), follower.leads()]).toEqual([true, false])
    expect(await follower.ledger.recover(noon + minute)).toBe(0)
    // A leader that does not know yet that it is none any more.
    await admin.unsafe('DELETE FROM leader')
    const successor = await open('successor')
    expect([one.leads(), successor.leads()]).toEqual([true, true])
    const ended = await Promise.all([one, successor].map(({ ledger }) => ledger.recover(noon)))
    expect(ended.reduce((sum, count) => sum + count)).toBe(2)
    await requireEndedOnce(one.ledger)
  })

  test('one that was stopped for too long and wakes up ends without a word to anybody', async () => {
    const one = await open('one')
    await one.ledger.grant(grantOf('g', usd(10)))
    const { child, lines } = await startChild('child')
    child.kill('SIGSTOP')
    await runOut('child')
    expect(await one.ledger.recover(noon)).toBe(2)
    child.kill('SIGCONT')
    await child.stdin.write('settle\n')
    await child.stdin.flush()
    expect((await lines.read()).value).toBe('lost: Fenced\n')
    expect(await child.exited).toBe(1)
    await requireEndedOnce(one.ledger)
  })

  test('one whose chain was taken notices it by itself, though it has nothing to write', async () => {
    const noticed = Promise.withResolvers<unknown>()
    await open('one', { peers: hasten, lost: noticed.resolve })
    await admin.unsafe(`UPDATE chain SET epoch = epoch + 1, owner = 'over:one' WHERE owner = 'one'`)
    expect(await noticed.promise).toBeInstanceOf(Fenced)
  })

  test('calls of one that lives are its own business, whatever their leases say', async () => {
    const running = new Set<string>(['busy'])
    const one = await open('one', { isRunning: (call) => running.has(call) })
    const two = await open('two', { peers: hasten })
    await one.ledger.grant(grantOf('g', usd(10)))
    for (const call of ['busy', 'left', 'late'])
      await one.ledger.hold(
        holdOf(call, { owner: 'one', leaseUntil: call === 'late' ? noon + minute : noon }),
      )
    expect(await two.ledger.recover(noon + 1)).toBe(0)
    expect(await one.ledger.recover(noon + 1)).toBe(1)
    expect(await one.ledger.call('anna', 'left')).toMatchObject({ released: 'recovered' })
    running.clear()
    // It leaves without them: nobody waits for a sign of life of somebody who has said that it is gone.
    await one.close()
    while (!two.leads()) await new Promise((resolve) => setImmediate(resolve))
    expect(await two.ledger.recover(noon + 1)).toBe(2)
  })

  test('after a time without its own signs of life nobody takes others for dead', async () => {
    const one = await open('one', { peers: { beatMs: 20, graceMs: 60_000 } })
    await one.ledger.grant(grantOf('g', usd(10)))
    const two = await open('two')
    await two.ledger.hold(holdOf('c', { owner: 'two' }))
    await runOut('two')
    expect(await one.ledger.recover(noon)).toBe(0)
    expect(await two.ledger.settle(settleOf('c', usd(1), { owner: 'two' }))).toMatchObject({
      kind: 'settled',
    })
  })
  test('one that is told to stop leaves the lead to another at once, however long its calls take', async () => {
    const one = await open('one')
    const two = await open('two', { peers: hasten })
    expect([one.leads(), two.leads()]).toEqual([true, false])
    await one.resign!()
    expect(one.leads()).toBe(false)
    while (!two.leads()) await new Promise((resolve) => setImmediate(resolve))
    await one.ledger.grant(grantOf('g', usd(1)))
  })

  test('a command that writes nothing leaves nothing, and one that writes is over when it ends', async () => {
    const command = async (name: string) => {
      const store = await openOnPostgres(url, { clock: () => noon })
      expect((await store.ledger.balance('anna')).lots).toHaveLength(0)
      if (name === 'grant') await store.ledger.grant(grantOf('g', usd(1), { account: 'bert' }))
      await store.close()
      const rows: { owner: string }[] = await admin.unsafe('SELECT owner FROM chain')
      return rows.map(({ owner }) => owner)
    }
    expect(await command('show')).toEqual([])
    expect(await command('grant')).toEqual([expect.stringMatching(/^over:cli /)])
    expect(await admin.unsafe('SELECT 1 FROM leader')).toHaveLength(0)
  })

  test('a key that one revokes is refused by all within a second, and so is the session of a suspended account', async () => {
    const one = await open('one')
    const others = [await open('two'), await open('three'), await openOnPostgres(url, { clock: () => noon })]
    opened.push(others[2]!)
    const account = await one.accounts.createAccount('anna@example.org')
    const { key } = await issueKey(one.accounts, rights(account.id), noon)
    const isKnown = async () => {
      const found = await Promise.all(others.map(({ accounts }) => accounts.findKey(key.id)))
      return found.map((each) => each?.revokedAt === null)
    }
    expect(await isKnown()).toEqual([true, true, true])
    await one.accounts.revokeKey(key.id, noon)
    const since = performance.now()
    while ((await isKnown()).includes(true)) await new Promise((resolve) => setImmediate(resolve))
    expect(performance.now() - since).toBeLessThan(1_000)

    const suspended = async () =>
      (await Promise.all(others.map(({ accounts }) => accounts.findAccount(account.id)))).map(
        (each) => each!.suspended,
      )
    expect(await suspended()).toEqual([false, false, false])
    await one.accounts.suspend(account.id)
    const then = performance.now()
    while ((await suspended()).includes(false)) await new Promise((resolve) => setImmediate(resolve))
    expect(performance.now() - then).toBeLessThan(1_000)
  })
})
