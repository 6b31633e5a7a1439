// A newer program keeps a copy of an older database before it changes it, says so, and never does it beside a server.

import { afterEach, describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { openStore, StoreOpenError } from '../../src/store/open.ts'
import { one, schemaVersion } from '../../src/store/sqlite/database/sqlite.ts'
import { takeServeLock } from '../../src/store/sqlite/database/serve-lock.ts'
import { upgrade } from '../../src/store/upgrade.ts'
import { run } from '../cli/run.ts'
import { noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

const later = noon + 60_000
const clock = () => later
const dirs: TempDir[] = []
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove()
})

/** A data directory as the program of schema 6 has left it. */
function olderData(name = 'data'): string {
  const dir = tempDir('weir-upgrade-')
  dirs.push(dir)
  mkdirSync(dir.join(name))
  const fixture = join(import.meta.dir, '../fixtures/schema/6.db.gz')
  writeFileSync(dir.join(name, 'weir.db'), gunzipSync(readFileSync(fixture)))
  return dir.join(name)
}

function schemaOf(file: string): number {
  const database = new Database(file, { readonly: true })
  try {
    return Number(one(database, 'PRAGMA user_version'))
  } finally {
    database.close()
  }
}

const copyOf = (dataDir: string) => join(dataDir, 'weir.db.v6.bak')

describe('G16: a database of an older schema', () => {
  test.each(['a server', undefined])(
    'is copied before it is changed, and that is said (by %p)',
    async (serveAs) => {
      const dataDir = olderData()
      const said: unknown[] = []
      const notice = (message: string, facts: object) => said.push([message, facts])
      const store = await openStore(dataDir, { clock, notice, ...(serveAs === undefined ? {} : { serveAs }) })
      expect((await store.ledger.audit()).ok).toBe(true)
      await store.close()
      expect(schemaOf(join(dataDir, 'weir.db'))).toBe(schemaVersion)
      expect(schemaOf(copyOf(dataDir))).toBe(6)
      expect(statSync(copyOf(dataDir)).mode & 0o777).toBe(0o600)
      expect(said).toEqual([
        [expect.stringContaining('a copy'), { from: 6, to: schemaVersion, copy: copyOf(dataDir) }],
      ])
      expect(readdirSync(dataDir).filter((name) => name.includes('unfinished'))).toEqual([])
    },
  )

  test('is not copied again by a command that comes second', () => {
    const dataDir = olderData()
    let isFirst = true
    // Asked before the lock is taken, when another command gets ahead.
    const late = () => {
      if (isFirst) {
        isFirst = false
        upgrade(dataDir, { clock }, false)
      }
      return later
    }
    upgrade(dataDir, { clock: late }, false)
    expect(schemaOf(join(dataDir, 'weir.db'))).toBe(schemaVersion)
    expect(schemaOf(copyOf(dataDir))).toBe(6)
  })

  test('comes back whole from the copy', async () => {
    const dataDir = olderData()
    await (await openStore(dataDir, { clock, serveAs: 'a' })).close()
    const copy = await openStore(dataDir, { clock, serveAs: 'b' })
    const { id } = (await copy.accounts.findAccount('anna@example.org'))!
    const before = await copy.ledger.balance(id)
    await copy.close()
    const restored = tempDir('weir-restored-')
    dirs.push(restored)
    mkdirSync(restored.join('data'))
    writeFileSync(restored.join('data', 'weir.db'), readFileSync(copyOf(dataDir)))
    const store = await openStore(restored.join('data'), { clock, serveAs: 'c' })
    expect(await store.ledger.balance(id)).toEqual(before)
    await store.close()
  })

  test('is left as it was when there is no room for a copy', () => {
    const dataDir = olderData()
    const full = { clock, freeBytes: () => 1_000_000 }
    expect(() => upgrade(dataDir, full, true)).toThrow(StoreOpenError)
    expect(() => upgrade(dataDir, full, true)).toThrow(/needs \d+ MB .* 1 MB are free: make room/)
    expect(schemaOf(join(dataDir, 'weir.db'))).toBe(6)
    expect(existsSync(copyOf(dataDir))).toBe(false)
  })

  test('is not changed by a command beside a server, which must be of that older version', async () => {
    const dataDir = olderData('weir-data')
    const lock = takeServeLock(dataDir, later)
    if (lock.kind !== 'taken') throw new Error('the lock is free')
    const refused = await run({ cwd: join(dataDir, '..'), now: later }, 'accounts', 'list')
    expect(refused).toMatchObject({ code: 1, out: '' })
    expect(refused.err).toContain(`process ${process.pid} serves`)
    expect(refused.err).toContain('older version of Weir (schema 6')
    expect(schemaOf(join(dataDir, 'weir.db'))).toBe(6)
    expect(existsSync(copyOf(dataDir))).toBe(false)

    lock.release()
    const listed = await run({ cwd: join(dataDir, '..'), now: later }, 'accounts', 'list')
    expect(listed.code).toBe(0)
    expect(listed.out).toContain('anna@example.org')
    expect(listed.err).toContain(`copy: ${copyOf(dataDir)}`)
    expect(schemaOf(join(dataDir, 'weir.db'))).toBe(schemaVersion)
  })
})

test('a database that is up to date, and a new one, are not copied; nobody is told anything', async () => {
  const dir = tempDir('weir-upgrade-')
  dirs.push(dir)
  const said: string[] = []
  for (let time = 0; time < 2; time++) {
    await (
      await openStore(dir.join('data'), {
        clock,
        serveAs: 'a',
        notice: (message) => said.push(message),
      })
    ).close()
  }
  expect(readdirSync(dir.join('data')).filter((name) => name.endsWith('.bak'))).toEqual([])
  expect(said).toEqual([])
})
