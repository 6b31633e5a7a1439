// A history that was cut short is found: the head of the hash chain is kept outside of the database.

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { usd } from '../../../src/credits/money.ts'
import { acceptHistory, backUp, restore } from '../../../src/store/backup.ts'
import { openStore, type Store, StoreOpenError } from '../../../src/store/open.ts'
import { Anchors, readAnchors } from '../../../src/store/sqlite/database/sqlite.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const opened: Store[] = []
let dir: TempDir
let notices: string[] = []
let logged: number[] = []

async function open(serveAs?: string, dataDir = dir.join('data')): Promise<Store> {
  const store = await openStore(dataDir, {
    clock: () => noon,
    notice: (message, facts) => void notices.push(`${message}: ${JSON.stringify(facts)}`),
    anchored: ({ transaction }) => void logged.push(transaction),
    ...(serveAs === undefined ? {} : { serveAs }),
  })
  opened.push(store)
  return store
}

async function close(store: Store): Promise<void> {
  opened.splice(opened.indexOf(store), 1)
  await store.close()
}

beforeEach(() => {
  dir = tempDir('weir-anchors-')
  notices = []
  logged = []
})
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  dir.remove()
})

const file = (name: string) => dir.join('data', name)
const anchors = () => readAnchors(file('ledger.anchors'))
const broken = async (store: Store) =>
  (await store.ledger.audit()).checks.flatMap(({ ok, name, detail }) => (ok ? [] : [`${name}: ${detail}`]))
const anchored = 'the history is the one that was anchored outside the database'

async function charge({ ledger }: Store, call: string, cost = usd(1)): Promise<void> {
  await ledger.hold(holdOf(call))
  await ledger.settle(settleOf(call, cost))
}

/** A server that has charged `a`, then is killed after charging `b`; its write-ahead log is thrown away. */
async function cutShort(): Promise<void> {
  const store = await open('server')
  await store.ledger.grant(grantOf('g', usd(10)))
  await charge(store, 'a')
  const outsider = new Database(file('weir.db'))
  outsider.run('PRAGMA wal_checkpoint(TRUNCATE)')
  copyFileSync(file('weir.db'), dir.join('older.db'))
  await charge(store, 'b')
  await charge(store, 'c')
  store.anchor()
  outsider.close()
  await close(store)
  copyFileSync(dir.join('older.db'), file('weir.db'))
  for (const end of ['-wal', '-shm']) rmSync(file(`weir.db${end}`), { force: true })
}

describe('the head of the chain', () => {
  test('is anchored by the sweep and at the end of a process, once, readable by its owner alone, and logged', async () => {
    const server = await open('server')
    await server.ledger.grant(grantOf('g', usd(10)))
    expect(anchors()).toEqual([])
    server.anchor()
    server.anchor()
    await charge(server, 'a')
    const command = await open()
    await command.ledger.grant(grantOf('h', usd(1)))
    await close(command)
    const reader = await open()
    await reader.ledger.balance('anna')
    await close(reader)
    const { headHash } = await server.ledger.audit()
    await charge(server, 'b')
    await close(server)
    const at = new Date(noon).toISOString()
    expect(anchors()).toMatchObject([1, 3, 4].map((tx) => ({ kind: 'head', tx, at })))
    expect(anchors()[1]!.hash).toBe(headHash)
    expect(logged).toEqual([1, 3, 4])
    expect(statSync(file('ledger.anchors')).mode & 0o777).toBe(0o600)
    await close(await open('next'))
    expect(anchors()).toHaveLength(4)
  })

  test('is anchored after so many commits, at most once a second', () => {
    const written: number[] = []
    const path = dir.join('anchors')
    const heads = new Anchors(
      path,
      () => noon,
      ({ tx }) => void written.push(tx),
    )
    for (let tx = 1; tx <= 1000; tx++) heads.onCommitted({ tx, hash: new Uint8Array(32) })
    expect(written).toEqual([256])
    expect(readAnchors(path)).toMatchObject([{ tx: 256 }])
    expect(heads.behind).toBe(true)
  })

  test('is kept in a file that does not grow for ever, from which no replacement is lost', async () => {
    await close(await open('server'))
    const line = (tx: number, kind: string) =>
      `${JSON.stringify({ at: 'then', kind, tx, hash: '0'.repeat(64) })}\n`
    writeFileSync(dir.join('anchors'), line(1, 'restored') + line(2, 'head').repeat(50_000))
    const heads = new Anchors(
      dir.join('anchors'),
      () => noon,
      () => undefined,
    )
    heads.write({ tx: 3, hash: new Uint8Array(32) })
    expect(readAnchors(dir.join('anchors'))).toHaveLength(50_002)
    heads.allowThinning()
    heads.write({ tx: 4, hash: new Uint8Array(32) })
    const left = readAnchors(dir.join('anchors'))
    expect(left).toHaveLength(1_001)
    expect([left[0], left.at(-1)]).toMatchObject([{ kind: 'restored' }, { tx: 4 }])
  })

  test('a line that was cut off, or that cannot be written, stops nothing', async () => {
    const server = await open('server')
    await server.ledger.grant(grantOf('g', usd(10)))
    server.anchor()
    appendFileSync(file('ledger.anchors'), '{"at":"2026-1')
    expect(await broken(server)).toEqual([])
    await close(server)
    rmSync(file('ledger.anchors'))
    const next = await open('next')
    await charge(next, 'a')
    expect(await broken(next)).toEqual([])
  })
})

describe('a history that was cut short', () => {
  test('is found by the audit, told at the start, and stays found whatever is booked after it', async () => {
    await cutShort()
    const store = await open('next')
    const missing = `transaction 4, which was the last one at ${new Date(noon).toISOString()}, is not in the journal`
    expect(await broken(store)).toEqual([`${anchored}: ${missing}`])
    expect(notices).toEqual([expect.stringContaining(missing)])
    for (const call of ['d', 'e', 'f', 'g']) await charge(store, call, usd('0.5'))
    store.anchor()
    expect(await broken(store)).toEqual([
      `${anchored}: ${missing.replace('not in the journal', 'another one now')}`,
    ])
    expect((await store.ledger.audit()).replaced).toEqual([])
  })

  test('is accepted with a reason, which the audit tells from then on; what comes after is guarded again', async () => {
    await cutShort()
    expect(acceptHistory(dir.join('data'), 'the disk was lost', noon + 5)).toContain('transaction 4')
    expect(acceptHistory(dir.join('data'), 'again', noon + 6)).toBeNull()
    const store = await open('next')
    expect(notices).toEqual([])
    expect(await store.ledger.audit()).toMatchObject({
      ok: true,
      replaced: [
        { at: new Date(noon + 5).toISOString(), kind: 'accepted', tx: 2, note: 'the disk was lost' },
      ],
    })
    await charge(store, 'd')
    await close(store)
    copyFileSync(dir.join('older.db'), file('weir.db'))
    expect(await broken(await open())).toEqual([expect.stringContaining('transaction 3')])
  })

  test('by a restore is no alarm: the restore says so itself', async () => {
    const store = await open('server')
    await store.ledger.grant(grantOf('g', usd(10)))
    await charge(store, 'a')
    backUp(dir.join('data'), dir.join('monday.db'))
    await charge(store, 'b')
    await close(store)
    restore(dir.join('monday.db'), dir.join('data'), { existing: 'replace', now: noon + 7 })
    const restored = await open('next')
    expect(notices).toEqual([])
    await charge(restored, 'c')
    restored.anchor()
    expect(await restored.ledger.audit()).toMatchObject({
      ok: true,
      replaced: [{ kind: 'restored', tx: 2, note: 'monday.db' }],
    })
    // A backup proves itself where there are no anchors.
    expect(backUp(dir.join('data'), dir.join('tuesday.db')).broken).toBeNull()
  })

  test.each([
    ['gone', () => rmSync(file('weir.db'))],
    ['empty', () => writeFileSync(file('weir.db'), '')],
  ])('to nothing: a database that is %s is not begun anew in silence', async (_, spoil) => {
    const store = await open('server')
    await store.ledger.grant(grantOf('g', usd(10)))
    backUp(dir.join('data'), dir.join('backup'))
    await close(store)
    spoil()
    for (const serveAs of ['next', undefined]) {
      await expect(open(serveAs)).rejects.toThrow(StoreOpenError)
      await expect(open(serveAs)).rejects.toThrow('had 1 transactions')
      await expect(open(serveAs)).rejects.toThrow('to begin anew, move that file away')
      await expect(open(serveAs)).rejects.toThrow(`weir restore FILE --force --data-dir ${dir.join('data')}`)
    }
    expect(existsSync(file('weir.db')) ? readFileSync(file('weir.db')).length : 0).toBe(0)
    restore(dir.join('backup'), dir.join('data'), { existing: 'replace', now: noon })
    expect(await broken(await open('next'))).toEqual([])
  })
})
