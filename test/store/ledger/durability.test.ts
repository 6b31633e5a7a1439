// What survives: a killed process, a full disk, a locked or forged file, another version.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store, StoreOpenError } from '../../../src/store/open.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { SqliteLedger } from '../../../src/store/sqlite/ledger/ledger-store.ts'
import { SpillFile } from '../../../src/store/commits/spill.ts'
import { grantOf, holdOf, noon, servedBySim, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { forge, forgeries } from './forgeries.ts'
import { UsageDays } from '../../../src/store/sqlite/ledger/calls.ts'
import { processorMs } from '../../support/processor-time.ts'

const opened: Store[] = []
const dirs: TempDir[] = []

function freshDir(): string {
  const dir = tempDir('weir-store-')
  dirs.push(dir)
  return dir.path
}

async function open(dataDir: string, serveAs?: string, clock = () => noon): Promise<Store> {
  const store = await openStore(dataDir, { clock, ...(serveAs === undefined ? {} : { serveAs }) })
  opened.push(store)
  return store
}

/** Another connection, for what only an outsider would do. */
function outsider<T>(dataDir: string, act: (database: Database) => T): T {
  const database = new Database(join(dataDir, 'weir.db'), { safeIntegers: true })
  try {
    return act(database)
  } finally {
    database.close()
  }
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close().catch(() => undefined)
  for (const dir of dirs.splice(0)) dir.remove()
})

const brokenChecks = async (store: Store) => (await store.ledger.audit()).checks.filter((check) => !check.ok)

describe('a killed process', () => {
  test('G2: loses no settle that was acknowledged, and its successor ends its calls at once', async () => {
    const dataDir = freshDir()
    const first = await open(dataDir)
    await first.ledger.grant(grantOf('g', usd(1000)))
    for (let kill = 0; kill < 3; kill++) {
      const child = Bun.spawn(
        [process.execPath, join(import.meta.dir, 'crash-child.ts'), dataDir, `child${kill}`],
        {
          stdout: 'pipe',
        },
      )
      const acknowledged: string[] = []
      for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
        acknowledged.push(...text.split('\n'))
        if (acknowledged.length > 200) child.kill('SIGKILL')
      }
      await child.exited
      const successor = await open(dataDir, `successor${kill}`, Date.now)
      expect(await successor.ledger.recover(Date.now())).toBeGreaterThan(0)
      expect((await successor.ledger.balance('anna')).lots[0]?.pinned).toBe(0n)
      // The last piece of the output may be half a line.
      for (const call of acknowledged.slice(0, -1).filter((line) => line !== '')) {
        expect((await successor.ledger.call('anna', call))?.charged).toBe(700n)
      }
      expect(await brokenChecks(successor)).toEqual([])
      await successor.close()
    }
  }, 30_000)

  test('the calls of a live server are left alone by the command line', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    await server.ledger.hold(holdOf('c', { owner: 'server' }))
    expect(await (await open(dataDir)).ledger.recover(noon)).toBe(0)
    await server.close()
    expect(await (await open(dataDir, 'second')).ledger.recover(noon)).toBe(1)
  })
})

describe('G20: a disk or database that fails', () => {
  const block = (dataDir: string) => {
    const database = new Database(join(dataDir, 'weir.db'))
    database.run('BEGIN IMMEDIATE')
    return { release: () => database.close() }
  }

  test('a lock of another process delays a hold, and refuses nothing', async () => {
    const dataDir = freshDir()
    const { ledger } = await open(dataDir, 'server')
    await ledger.grant(grantOf('g', usd(10)))
    const lock = block(dataDir)
    const hold = ledger.hold(holdOf('c'))
    setTimeout(lock.release, 100)
    expect((await hold).kind).toBe('held')
  })

  test('G20: while it lasts holds answer store_unavailable; settles wait, survive in the spill file and are charged once', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    await server.ledger.hold(holdOf('a', { owner: 'server' }))
    await server.ledger.hold(holdOf('b', { owner: 'server' }))
    const lock = block(dataDir)
    const settled = server.ledger.settle(settleOf('a', usd(1), { owner: 'server' }))
    await expect(server.ledger.hold(holdOf('c'))).rejects.toMatchObject({
      code: 'store_unavailable',
      status: 503,
    })
    expect(await server.ledger.writable()).toBe(false)
    const later = server.ledger.settle(settleOf('b', usd('0.5'), { owner: 'server' }))
    // The spill file has both by now: what a successor would find if this process died here.
    const spilled = await Bun.file(join(dataDir, 'settles.spill')).text()
    expect(spilled).toContain('"call":"a"')
    expect(spilled).toContain('"call":"b"')
    lock.release()
    expect(await settled).toMatchObject({ charged: usd(1) })
    expect(await later).toMatchObject({ charged: usd('0.5') })
    expect(await server.ledger.writable()).toBe(true)
    expect((await server.ledger.hold(holdOf('d'))).kind).toBe('held')
    await server.close()

    // Replaying what was already carried out changes nothing.
    writeFileSync(join(dataDir, 'settles.spill'), spilled)
    const successor = await open(dataDir, 'successor')
    expect((await successor.ledger.totals('anna')).used).toBe(usd('1.5'))
    expect(await brokenChecks(successor)).toEqual([])
  }, 10_000)

  test('a successor carries out the settles that its predecessor could not write', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    await server.ledger.hold(holdOf('a', { owner: 'server' }))
    const lock = block(dataDir)
    const settled = server.ledger
      .settle(settleOf('a', 123_456_789n, { owner: 'server' }))
      .catch((error: unknown) => error)
    await expect(server.ledger.hold(holdOf('c'))).rejects.toMatchObject({ code: 'store_unavailable' })
    await server.close().catch(() => undefined)
    expect(await settled).toMatchObject({ code: 'store_unavailable' })
    lock.release()
    const spill = new SpillFile(dataDir, noon)
    expect(spill.read()).toHaveLength(1)
    spill.close()
    const successor = await open(dataDir, 'successor')
    expect(await successor.ledger.call('anna', 'a')).toMatchObject({
      state: 'settled',
      charged: 123_456_789n,
    })
    expect(await successor.ledger.recover(noon)).toBe(0)
    expect(await brokenChecks(successor)).toEqual([])
  }, 10_000)
})

describe('many at once', () => {
  test('G4: four processes on credit for exactly 500 holds: 500 admitted, never 501', async () => {
    const dataDir = freshDir()
    const store = await open(dataDir)
    await store.ledger.grant(grantOf('g', usd(500)))
    const script = join(import.meta.dir, 'spend-child.ts')
    const children = [1, 2, 3, 4].map((n) =>
      Bun.spawn([process.execPath, script, dataDir, `p${n}`], { stdout: 'pipe' }),
    )
    const admitted = await Promise.all(
      children.map(async (child) => Number(await new Response(child.stdout).text())),
    )
    expect(admitted.reduce((sum, count) => sum + count, 0)).toBe(500)
    expect((await store.ledger.balance('anna')).lots[0]?.pinned).toBe(usd(500))
    expect(await brokenChecks(store)).toEqual([])
  }, 30_000)

  test('a command that the database refuses fails alone; those that shared its group are carried out', async () => {
    const store = await open(freshDir())
    await store.ledger.grant(grantOf('g', usd(10)))
    const nameless = { model: null as unknown as string }
    const results = await Promise.allSettled([
      store.ledger.hold(holdOf('a')),
      store.ledger.hold(holdOf('b', nameless)),
      store.ledger.hold(holdOf('c')),
    ])
    expect(results).toMatchObject([
      { status: 'fulfilled', value: { kind: 'held' } },
      { status: 'rejected', reason: { code: 'internal_error' } },
      { status: 'fulfilled', value: { kind: 'held' } },
    ])
    expect((await store.ledger.balance('anna')).lots[0]?.pinned).toBe(usd(2))
    expect(await brokenChecks(store)).toEqual([])
  })

  test('when too many wait, admissions are refused as overloaded and ends of calls are not', async () => {
    const store = await openStore(freshDir(), { clock: () => noon, group: { queue: 3 } })
    opened.push(store)
    await store.ledger.grant(grantOf('g', usd(10)))
    await store.ledger.hold(holdOf('a'))
    const holds = ['b', 'c', 'd', 'e'].map((call) => store.ledger.hold(holdOf(call)))
    const settled = store.ledger.settle(settleOf('a', usd(1)))
    const answers = await Promise.allSettled(holds)
    expect(answers.filter((answer) => answer.status === 'rejected')).toMatchObject([
      { reason: { code: 'overloaded' } },
    ])
    expect(await settled).toMatchObject({ kind: 'settled' })
  })
})

describe('the spill file', () => {
  test('with a record that cannot be carried out starts a server all the same, and charges the others', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    for (const call of ['a', 'b', 'c']) await server.ledger.hold(holdOf(call, { owner: 'server' }))
    await server.close()
    const spill = new SpillFile(dataDir, noon)
    for (const [call, cost] of [
      ['a', usd(1)],
      ['b', -1n],
      ['c', usd(2)],
    ] as const)
      spill.append({ kind: 'settle', command: settleOf(call, cost, { owner: 'server' }) })
    spill.close()
    const notices: Readonly<Record<string, unknown>>[] = []
    const successor = await openStore(dataDir, {
      clock: () => noon,
      serveAs: 'successor',
      notice: (_message, facts) => notices.push(facts),
    })
    opened.push(successor)
    expect((await successor.ledger.totals('anna')).used).toBe(usd(3))
    expect(notices).toMatchObject([{ kind: 'settle', call: 'b', error: { code: 'internal_error' } }])
    expect(await Bun.file(String(notices[0]!.file)).text()).toContain('"call":"b"')
    expect(await successor.ledger.recover(noon)).toBe(1)
    expect(await brokenChecks(successor)).toEqual([])
  })

  test('leaves half of its room to the ends of calls, however much progress the streams report', () => {
    const dataDir = freshDir()
    const spill = new SpillFile(dataDir, noon, { bytes: 8192 })
    for (let n = 0; n < 100; n++) spill.append({ kind: 'checkpoint', command: { call: `stream${n}` } })
    spill.append({ kind: 'settle', command: settleOf('a', usd(1)) })
    expect(spill.read().at(-1)).toMatchObject({ kind: 'settle', command: { call: 'a' } })
    spill.close()
  })
})

describe('a full disk', () => {
  test('refuses holds as store_unavailable, keeps the settle, and charges it when there is room again', async () => {
    const dataDir = freshDir()
    const database = openDatabase(dataDir, noon)
    const limits = { ...defaultGroupLimits }
    const path = join(dataDir, 'weir.db')
    const parts = {
      database,
      path,
      time: { clock: () => noon, backMs: 0, stepped: () => undefined },
      limits,
      usage: new UsageDays(database),
      bufferedRows: [],
      isDead: () => false,
      isRunning: () => false,
      committed: () => undefined,
    }
    const ledger = new SqliteLedger(parts)
    const spill = new SpillFile(dataDir, noon)
    ledger.group.spillTo(spill)
    await ledger.grant(grantOf('g', usd(10)))
    await ledger.hold(holdOf('a'))
    database.run('PRAGMA max_page_count = 1')
    const fill = (n: number) => ledger.hold(holdOf(`fill${n}`, { want: 0n, least: 0n }))
    const full = await Promise.all(Array.from({ length: 500 }, (_, n) => fill(n))).catch(
      (error: unknown) => error,
    )
    expect(full).toMatchObject({ code: 'store_unavailable' })
    const long = { ...servedBySim, finishReason: 'x'.repeat(20_000) }
    const settled = ledger.settle(settleOf('a', usd(1), { served: long }))
    expect(new SpillFile(dataDir, noon).read()).toMatchObject([
      { kind: 'settle', command: { call: 'a', cost: usd(1) } },
    ])
    await expect(ledger.hold(holdOf('b'))).rejects.toMatchObject({ code: 'store_unavailable' })
    expect(await ledger.writable()).toBe(false)
    database.run('PRAGMA max_page_count = 100000')
    expect(await settled).toMatchObject({ kind: 'settled', charged: usd(1) })
    expect((await ledger.hold(holdOf('b'))).kind).toBe('held')
    expect((await ledger.audit()).ok).toBe(true)
    expect(new SpillFile(dataDir, noon).read()).toEqual([])
    await ledger.close()
    spill.close()
    database.close()
  }, 10_000)
})

describe('a forged file', () => {
  const prepared = async () => {
    const dataDir = freshDir()
    const store = await open(dataDir)
    await store.ledger.grant(grantOf('g', usd(10)))
    for (const call of ['a', 'b', 'c']) {
      await store.ledger.hold(holdOf(call))
      await store.ledger.settle(settleOf(call, usd(1)))
    }
    return { dataDir, store }
  }

  test('the journal refuses changes and deletions', async () => {
    const { dataDir } = await prepared()
    outsider(dataDir, (database) => {
      expect(() => database.run('UPDATE journal SET amount = 1 WHERE tx = 2')).toThrow('insert only')
      expect(() => database.run('DELETE FROM journal')).toThrow('insert only')
    })
  })

  test.each(forgeries.map((forgery) => [forgery.what, forgery] as const))(
    'the audit finds %s and names it',
    async (_what, { sql, found }) => {
      const { dataDir, store } = await prepared()
      const target = { tx: 3, call: 'b' }
      outsider(dataDir, (database) => forge(database, sql(target)))
      const report = await store.ledger.audit()
      const { name, detail } = found(target)
      expect(report.ok).toBe(false)
      expect(report.checks.find((check) => check.name === name)).toEqual({ name, ok: false, detail })
    },
  )

  test('a clean file has a head hash that backup and reopening do not change', async () => {
    const { dataDir, store } = await prepared()
    const { headHash, journalEntries, ok } = await store.ledger.audit()
    expect({ ok, journalEntries }).toEqual({ ok: true, journalEntries: 8 })
    const copyDir = freshDir()
    outsider(dataDir, (database) => database.run(`VACUUM INTO '${join(copyDir, 'weir.db')}'`))
    expect(await (await open(copyDir)).ledger.audit()).toMatchObject({ ok: true, headHash, journalEntries })
  })
})

describe('opening', () => {
  test('every table is STRICT', async () => {
    const dataDir = freshDir()
    await open(dataDir)
    const loose = outsider(dataDir, (database) =>
      database
        .query(
          "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' AND strict = 0",
        )
        .all(),
    )
    expect(loose).toEqual([])
  })

  test('what is kept is readable by its owner alone, the log beside it too', async () => {
    const dataDir = freshDir()
    chmodSync(dataDir, 0o755)
    await open(dataDir)
    const modes = ['weir.db', 'weir.db-wal', 'weir.db-shm'].map((file) => statSync(join(dataDir, file)).mode)
    expect(modes.map((mode) => mode & 0o777)).toEqual([0o600, 0o600, 0o600])
  })

  test('a database of a newer version is refused with the reason', async () => {
    const dataDir = freshDir()
    await (await open(dataDir)).close()
    outsider(dataDir, (database) => database.run('PRAGMA user_version = 999'))
    await expect(open(dataDir)).rejects.toThrow(StoreOpenError)
    await expect(open(dataDir)).rejects.toThrow(/newer Weir/)
  })

  test("another program's database is refused and left alone", async () => {
    const dataDir = freshDir()
    outsider(dataDir, (database) => database.run('CREATE TABLE theirs (a)'))
    await expect(open(dataDir)).rejects.toThrow(/another program/)
    expect(
      outsider(dataDir, (database) => database.query('SELECT name FROM sqlite_schema').all()),
    ).toHaveLength(1)
  })

  test('a data directory that is a file is refused', async () => {
    const path = join(freshDir(), 'file')
    writeFileSync(path, '')
    await expect(open(path)).rejects.toThrow(StoreOpenError)
  })

  test('an up-to-date database opens fast', async () => {
    const dataDir = freshDir()
    await (await open(dataDir, 'first')).close()
    const times: number[] = []
    for (let round = 0; round < 5; round++) {
      const before = processorMs()
      const store = await open(dataDir, `round${round}`)
      times.push(processorMs() - before)
      await store.close()
    }
    expect(Math.min(...times)).toBeLessThan(20)
  })
})
