// One process serves a data directory; what lies in its files' place is named and kept; half a database is refused.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { usd } from '../../src/credits/money.ts'
import { backUp, restore } from '../../src/store/backup.ts'
import { openStore, type Store, StoreOpenError } from '../../src/store/open.ts'
import { missingPages } from '../../src/store/commits/durability.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

const opened: Store[] = []
const dirs: TempDir[] = []
let notices: { message: string; file: string }[] = []

function freshDir(): string {
  const dir = tempDir('weir-serve-')
  dirs.push(dir)
  return dir.path
}

async function open(dataDir: string, serveAs?: string): Promise<Store> {
  const notice = (message: string, facts: Readonly<Record<string, unknown>>) =>
    void notices.push({ message, file: String(facts['file']) })
  const store = await openStore(dataDir, { clock: () => noon, notice, ...(serveAs ? { serveAs } : {}) })
  opened.push(store)
  return store
}

async function close(store: Store): Promise<void> {
  opened.splice(opened.indexOf(store), 1)
  await store.close()
}

afterEach(async () => {
  notices = []
  for (const store of opened.splice(0)) await store.close().catch(() => undefined)
  for (const dir of dirs.splice(0)) dir.remove()
})

describe('one process serves a data directory', () => {
  test('a second one is refused with the process that does; commands work beside it', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    await server.ledger.hold(holdOf('c', { owner: 'server' }))
    await expect(open(dataDir, 'second')).rejects.toThrow(StoreOpenError)
    await expect(open(dataDir, 'second')).rejects.toThrow(`process ${process.pid} serves ${dataDir} already`)
    const command = await open(dataDir)
    await command.ledger.grant(grantOf('h', usd(1)))
    expect(await command.ledger.recover(noon)).toBe(0)
    expect((await server.ledger.balance('anna')).lots).toHaveLength(2)
    await close(server)
    const next = await open(dataDir, 'next')
    expect(await next.ledger.recover(noon)).toBe(1)
  })

  test('a start that fails leaves the directory free', async () => {
    const dataDir = freshDir()
    writeFileSync(join(dataDir, 'weir.db'), 'nothing of ours'.repeat(1000))
    await expect(open(dataDir, 'first')).rejects.toThrow('is damaged')
    await expect(open(dataDir, 'second')).rejects.toThrow('is damaged')
  })

  test('whoever served before is dead: its calls end at the start, whatever their leases, and its keys are free', async () => {
    const dataDir = freshDir()
    const command = await open(dataDir)
    await command.ledger.grant(grantOf('g', usd(10)))
    // As a server that had no lock has left them: its name stands nowhere but in its calls and keys.
    const claim = { account: 'anna', key: 'k', bodyHash: new Uint8Array(32), expiresAt: noon + day }
    await command.ledger.hold(holdOf('held', { owner: 'unregistered', leaseUntil: noon + day }))
    const outsider = new Database(join(dataDir, 'weir.db'))
    outsider.run(
      "INSERT INTO idempotency (account, key, body_hash, call, owner, expires_at) VALUES ('anna', 'k', ?, 'gone', 'unregistered', ?)",
      [claim.bodyHash, noon + day],
    )
    outsider.close()
    const server = await open(dataDir, 'server')
    expect(await server.ledger.recover(noon)).toBe(1)
    expect((await server.ledger.balance('anna')).lots[0]?.pinned).toBe(0n)
    expect(await server.idempotency.claim({ ...claim, call: 'again' })).toEqual({ kind: 'fresh' })
  })
})

describe('garbage in the place of', () => {
  const garbage = 'this is no file of Weir'.repeat(100)

  test.each([
    ['serve.lock', (path: string) => writeFileSync(path, garbage)],
    ['serve.lock', (path: string) => writeFileSync(path, 'x')],
    ['serve.lock', (path: string) => mkdirSync(path)],
    ['settles.spill', (path: string) => writeFileSync(path, garbage)],
    ['settles.spill', (path: string) => mkdirSync(path)],
  ])('%s is named, kept aside, and the server starts', async (name, spoil) => {
    const dataDir = freshDir()
    await (await open(dataDir)).ledger.grant(grantOf('g', usd(10)))
    const path = join(dataDir, name)
    spoil(path)
    const before = statSync(path).isDirectory() ? null : readFileSync(path)
    const server = await open(dataDir, 'server')
    expect(notices).toMatchObject([{ message: expect.stringContaining(name) }])
    const aside = notices[0]!.file
    expect(aside).toStartWith(`${path}.damaged-20261121T120000`)
    if (before === null) expect(statSync(aside).isDirectory()).toBe(true)
    else expect(readFileSync(aside).subarray(0, before.length).equals(before)).toBe(true)
    await expect(open(dataDir, 'second')).rejects.toThrow('already')
    await server.ledger.hold(holdOf('c', { owner: 'server' }))
    await close(server)
    notices = []
    expect(await (await open(dataDir, 'next')).ledger.recover(noon)).toBe(1)
    expect(notices).toEqual([])
  })

  test('the lock of a directory keeps no restore out', async () => {
    const dataDir = freshDir()
    const store = await open(dataDir)
    await store.ledger.grant(grantOf('g', usd(10)))
    const file = join(freshDir(), 'backup')
    backUp(dataDir, file)
    await close(store)
    writeFileSync(join(dataDir, 'serve.lock'), garbage)
    expect(restore(file, dataDir, { existing: 'replace', now: noon }).broken).toBeNull()
  })

  test('the rest of a spill file loses none of the ends of calls before it', async () => {
    const dataDir = freshDir()
    const server = await open(dataDir, 'server')
    await server.ledger.grant(grantOf('g', usd(10)))
    await server.ledger.hold(holdOf('a', { owner: 'server' }))
    const lock = new Database(join(dataDir, 'weir.db'))
    lock.run('BEGIN IMMEDIATE')
    const settled = server.ledger.settle(settleOf('a', usd(1), { owner: 'server' })).catch(() => undefined)
    await expect(server.ledger.hold(holdOf('c'))).rejects.toMatchObject({ code: 'store_unavailable' })
    await close(server).catch(() => undefined)
    await settled
    lock.close()
    const path = join(dataDir, 'settles.spill')
    const text = readFileSync(path, 'latin1')
    const end = text.indexOf('\0')
    writeFileSync(path, `${text.slice(0, end)}${'0'.repeat(8)}garbage${text.slice(end + 15)}`, 'latin1')
    notices = []
    const next = await open(dataDir, 'next')
    expect(await next.ledger.call('anna', 'a')).toMatchObject({ state: 'settled', charged: usd(1) })
    expect(notices).toMatchObject([{ message: expect.stringContaining('settles.spill') }])
    expect(existsSync(notices[0]!.file)).toBe(true)
  }, 15_000)
})

describe('a database whose file was cut short', () => {
  async function filled(): Promise<string> {
    const dataDir = freshDir()
    const store = await open(dataDir)
    await store.ledger.grant(grantOf('g', usd(10)))
    for (let n = 0; n < 300; n++) await store.ledger.hold(holdOf(`c${n}`, { want: 1n, least: 1n }))
    await close(store)
    return dataDir
  }

  test.each([
    ['by a page', (bytes: number) => bytes - 4096],
    ['by a byte', (bytes: number) => bytes - 1],
    ['to one page', () => 4096],
    ['within its header', () => 50],
  ])('%s is refused with the command that restores, and left as it is', async (_, left) => {
    const dataDir = await filled()
    const path = join(dataDir, 'weir.db')
    truncateSync(path, left(statSync(path).size))
    const before = readFileSync(path)
    await expect(open(dataDir, 'server')).rejects.toThrow(StoreOpenError)
    await expect(open(dataDir, 'server')).rejects.toThrow(`weir restore FILE --force --data-dir ${dataDir}`)
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('is whole while the end of it is still in the log', async () => {
    const dataDir = await filled()
    const store = await open(dataDir)
    const database = new Database(join(dataDir, 'weir.db'))
    database.run('PRAGMA wal_autocheckpoint = 0')
    for (let n = 0; n < 300; n++) await store.ledger.hold(holdOf(`d${n}`, { want: 1n, least: 1n }))
    // The header says how large it has become before the pages are there, as within a checkpoint.
    expect(missingPages(join(dataDir, 'weir.db'))).toBe(0)
    const path = join(freshDir(), 'weir.db')
    for (const end of ['', '-wal']) writeFileSync(path + end, readFileSync(join(dataDir, `weir.db${end}`)))
    database.close()
    expect(missingPages(path)).toBe(0)
    truncateSync(`${path}-wal`, 32)
    expect(missingPages(path)).toBe(0)
    truncateSync(path, statSync(path).size - 8192)
    expect(missingPages(path)).toBe(2)
  })
})
