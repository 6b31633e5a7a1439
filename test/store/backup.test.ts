// A backup is one moment of the database, proven; a restore is all or nothing.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { usd } from '../../src/credits/money.ts'
import { backUp, BackupRefused, restore } from '../../src/store/backup.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { schemaVersion } from '../../src/store/sqlite/database/sqlite.ts'
import { grantOf, holdOf, noon, settleOf } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

const opened: Store[] = []
const dirs: TempDir[] = []

function fresh(): TempDir {
  const dir = tempDir('weir-backup-')
  dirs.push(dir)
  return dir
}

async function open(dataDir: string, serveAs?: string): Promise<Store> {
  const store = await openStore(dataDir, { clock: () => noon, ...(serveAs === undefined ? {} : { serveAs }) })
  opened.push(store)
  return store
}

async function close(store: Store): Promise<void> {
  opened.splice(opened.indexOf(store), 1)
  await store.close()
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

/** A data directory with some history, closed; and a backup of it. */
async function backedUp(): Promise<{ dir: TempDir; dataDir: string; file: string; head: string }> {
  const dir = fresh()
  const dataDir = dir.join('data')
  const store = await open(dataDir)
  await store.ledger.grant(grantOf('g', usd(10)))
  await store.ledger.hold(holdOf('c'))
  await store.ledger.settle(settleOf('c', usd('0.5')))
  await close(store)
  const file = dir.join('weir.backup')
  return { dir, dataDir, file, head: backUp(dataDir, file).headHash }
}

const refusal = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    expect(error).toBeInstanceOf(BackupRefused)
    return (error as Error).message
  }
  return 'not refused'
}

/** Everything in a folder but the lock, which any look at it makes. */
const filesIn = (folder: string) =>
  readdirSync(folder)
    .filter((name) => !name.startsWith('serve.lock'))
    .toSorted()

describe('G17: a backup', () => {
  test('beside a writing server is one moment that holds, and grows no less than the calls before it', async () => {
    const dir = fresh()
    const store = await open(dir.join('data'), 'server')
    const { ledger } = store
    await ledger.grant(grantOf('g', usd(1000)))
    const progress = { calls: 0, done: false }
    const lane = async (name: string) => {
      for (let n = 0; !progress.done; n++) {
        await ledger.hold(holdOf(`${name}${n}`))
        await ledger.settle(settleOf(`${name}${n}`, 1000n))
        progress.calls++
      }
    }
    const lanes = Promise.all(['a', 'b', 'c'].map(lane))
    for (const goal of [20, 40, 60, 80, 100]) {
      while (progress.calls < goal) await new Promise(setImmediate)
      const settled = progress.calls
      const report = backUp(dir.join('data'), dir.join(`${goal}.backup`))
      expect(report).toMatchObject({ broken: null, schema: schemaVersion })
      expect(report.journalEntries).toBeGreaterThanOrEqual(2 + 2 * settled)
    }
    progress.done = true
    await lanes
  }, 20_000)

  test('overwrites nothing, is readable by its owner alone, and leaves nothing beside it', async () => {
    const { dir, dataDir, file } = await backedUp()
    expect(refusal(() => backUp(dataDir, file))).toContain('overwrites nothing')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(filesIn(dir.path)).toEqual(['data', 'weir.backup'])
  })

  test('that is restored is readable by its owner alone, in a folder that others may enter too', async () => {
    const { dir, file } = await backedUp()
    mkdirSync(dir.join('shared'), { mode: 0o755 })
    restore(file, dir.join('shared'), { existing: 'keep', now: noon })
    expect(statSync(dir.join('shared', 'weir.db')).mode & 0o777).toBe(0o600)
  })

  test('needs a database and a folder', async () => {
    const { dir, dataDir } = await backedUp()
    expect(refusal(() => backUp(dir.join('nowhere'), dir.join('x')))).toContain('there is no database')
    expect(refusal(() => backUp(dataDir, dir.join('no', 'folder', 'x')))).toContain('cannot be written')
    expect(existsSync(dir.join('nowhere'))).toBe(false)
  })

  test('of an older schema stays of it, proven all the same, and the original is not migrated', async () => {
    const dir = fresh()
    mkdirSync(dir.join('old'))
    const fixture = readFileSync(join(import.meta.dir, '../fixtures/schema/1.db.gz'))
    writeFileSync(dir.join('old', 'weir.db'), gunzipSync(fixture))
    expect(backUp(dir.join('old'), dir.join('old.backup'))).toMatchObject({ schema: 1, broken: null })
    const database = new Database(dir.join('old', 'weir.db'), { readonly: true })
    expect(database.query('PRAGMA user_version').get()).toEqual({ user_version: 1 })
    database.close()
    expect(
      restore(dir.join('old.backup'), dir.join('new'), { existing: 'keep', now: noon }).broken,
    ).toBeNull()
    const restored = await open(dir.join('new'))
    expect(await restored.accounts.findAccount('anna@example.org')).toBeDefined()
  })

  test('of a forged ledger is written, and says so', async () => {
    const { dir, dataDir } = await backedUp()
    const database = new Database(join(dataDir, 'weir.db'))
    database.run(`UPDATE lot SET remaining = remaining + 1`)
    database.close()
    expect(backUp(dataDir, dir.join('forged')).broken).toContain('lot')
    expect(existsSync(dir.join('forged'))).toBe(true)
    expect(
      refusal(() => restore(dir.join('forged'), dir.join('new'), { existing: 'keep', now: noon })),
    ).toContain('does not hold')
    expect(filesIn(dir.join('new'))).toEqual([])
  })
})

describe('a restore', () => {
  const keep = { existing: 'keep', now: noon } as const
  const replace = { existing: 'replace', now: noon } as const

  test('gives the same head, balance and calls in an empty place', async () => {
    const { dir, file, head } = await backedUp()
    const report = restore(file, dir.join('new'), keep)
    expect(report).toMatchObject({ headHash: head, broken: null, movedAside: null })
    const { ledger } = await open(dir.join('new'))
    expect((await ledger.audit()).headHash).toBe(head)
    expect((await ledger.balance('anna')).lots).toMatchObject([{ remaining: usd('9.5') }])
    expect((await ledger.call('anna', 'c'))?.charged).toBe(usd('0.5'))
    await ledger.grant(grantOf('h', usd(1)))
    expect((await ledger.audit()).ok).toBe(true)
  })

  test('over a database only when told to, and what was there goes aside whole', async () => {
    const { dataDir, file, head } = await backedUp()
    const store = await open(dataDir)
    await store.ledger.grant(grantOf('later', usd(5)))
    const later = (await store.ledger.audit()).headHash
    await close(store)
    expect(refusal(() => restore(file, dataDir, keep))).toContain('--force')
    const { movedAside } = restore(file, dataDir, replace)
    expect(movedAside).toBe(join(dataDir, 'weir.db.before-20261121T120000Z'))
    const restored = await open(dataDir)
    expect((await restored.ledger.audit()).headHash).toBe(head)
    await close(restored)
    expect(restore(movedAside!, join(dirname(dataDir), 'back'), keep).headHash).toBe(later)
    expect(restore(file, dataDir, replace).movedAside).toBe(`${movedAside}-2`)
  })

  test('never under a running server, nor beside another command', async () => {
    const { dataDir, file, head } = await backedUp()
    const server = await open(dataDir, 'server')
    expect(refusal(() => restore(file, dataDir, replace))).toContain('a server runs')
    await close(server)
    const command = await open(dataDir)
    await command.ledger.grant(grantOf('beside', usd(1)))
    expect(refusal(() => restore(file, dataDir, replace))).toContain('another program')
    await command.ledger.grant(grantOf('after', usd(1)))
    expect(await command.ledger.audit()).toMatchObject({ ok: true, journalEntries: 8 })
    await close(command)
    expect(restore(file, dataDir, replace).headHash).toBe(head)
  })

  test('over a database that is damaged, whose log is not read into the new one', async () => {
    const { dataDir, file, head } = await backedUp()
    writeFileSync(join(dataDir, 'weir.db'), 'not a database at all'.repeat(500))
    writeFileSync(join(dataDir, 'weir.db-wal'), 'nor this a log')
    const { movedAside } = restore(file, dataDir, replace)
    expect(readFileSync(movedAside!, 'utf8')).toStartWith('not a database')
    expect(readFileSync(`${movedAside}-wal`, 'utf8')).toStartWith('nor this')
    expect(await (await open(dataDir)).ledger.audit()).toMatchObject({ headHash: head })
  })

  test.each([
    ['a file that is not there', () => undefined, 'there is no file'],
    ['a text', (file: string) => writeFileSync(file, 'hello'.repeat(1000)), 'cannot be copied'],
    ['an empty file', (file: string) => writeFileSync(file, ''), 'not a database of Weir'],
    [
      'a database of another program',
      (file: string) => altered(file, 'PRAGMA application_id = 7'),
      'not a database of Weir',
    ],
    ['a newer schema', (file: string) => altered(file, 'PRAGMA user_version = 999'), 'newer Weir'],
    ['a backup cut in half', (file: string) => cut(file), ''],
  ] as [string, (file: string) => void, string][])('of %s changes nothing', async (_, spoil, reason) => {
    const { dir, dataDir, file, head } = await backedUp()
    const spoilt = dir.join('spoilt')
    if (reason !== 'there is no file') writeFileSync(spoilt, readFileSync(file))
    spoil(spoilt)
    const before = filesIn(dataDir)
    expect(refusal(() => restore(spoilt, dataDir, replace))).toContain(reason)
    expect(filesIn(dataDir)).toEqual(before)
    expect(await (await open(dataDir)).ledger.audit()).toMatchObject({ headHash: head })
  })
})

function altered(file: string, sql: string): void {
  const database = new Database(file)
  database.run(sql)
  database.close()
}

function cut(file: string): void {
  const bytes = readFileSync(file)
  writeFileSync(file, bytes.subarray(0, bytes.length / 2))
}
