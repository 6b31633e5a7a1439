// The request log in the file: rows ride with the money's commits, and are read in pages that look at a bounded number.

import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import type { RequestQuery } from '../../../src/observe/call-log.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { openDatabase, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { SqlRequestReader } from '../../../src/store/sql/request-reader.ts'
import { grantOf, holdOf, noon } from '../../credits/support.ts'
import { until } from '../../chat/lab.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { processorMs } from '../../support/processor-time.ts'
import { logRowOf } from './support.ts'

const dirs: TempDir[] = []
const stores: Store[] = []
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

function freshDir(): string {
  const dir = tempDir('weir-requests-')
  dirs.push(dir)
  return dir.join('data')
}

async function open(dataDir = freshDir()): Promise<Store> {
  const store = await openStore(dataDir, { clock: () => noon })
  stores.push(store)
  return store
}

test('a store closes although another process has the database locked', async () => {
  const dataDir = freshDir()
  const { requestLog, close } = await openStore(dataDir, { clock: () => noon, serveAs: 'server' })
  requestLog.append(logRowOf('r1'))
  const other = new Database(`${dataDir}/weir.db`)
  other.run('BEGIN IMMEDIATE')
  await close()
  other.close()
  // The row is lost, as it would be on a full disk.
  expect((await open(dataDir)).requests.find('r1')).toBeUndefined()
})

describeOnBoth('rows of the log', (open, database) => {
  test('are written soon and come back whole, by id only to their account', async () => {
    const { ledger, requestLog, requests } = await open(() => noon)
    await ledger.grant(grantOf('g', usd(1)))
    const detail = JSON.stringify({ available: '0.1' })
    requestLog.append(logRowOf('r1'))
    requestLog.append(logRowOf('r2', { account: 'berta', code: 'overloaded', detail, firstByteMs: 1.6 }))
    await ledger.hold(holdOf('c'))
    // Each commit would write the pages of four indexes for them.
    if (database === 'SQLite') expect(await requests.find('r1', 'anna')).toBeUndefined()
    await until(
      () => requests.find('r1', 'anna'),
      (found) => found !== undefined,
    )
    expect(await requests.find('r1', 'anna')).toMatchObject(logRowOf('r1'))
    expect(await requests.find('r2')).toMatchObject({ account: 'berta', detail, firstByteMs: 2 })
    expect(await requests.find('r2', 'anna')).toBeUndefined()
  })
})

test('enough rows ride on the next commit', async () => {
  const { ledger, requestLog, requests } = await open()
  await ledger.grant(grantOf('g', usd(1)))
  for (let n = 0; n < 128; n++) requestLog.append(logRowOf(`r${n}`))
  await ledger.hold(holdOf('c'))
  expect((await requests.page({ limit: 200 })).rows).toHaveLength(128)
})

test.each([
  ['the first', 0],
  ['one in the middle', 17],
  ['the last', 127],
])('%s of many that the database refuses is left out alone', async (_, place) => {
  for (const broken of [
    { cost: 'broken' as unknown as bigint },
    { cost: 2n ** 64n },
    { model: null as unknown as string },
  ]) {
    const { ledger, requestLog, requests } = await open()
    await ledger.grant(grantOf('g', usd(1)))
    for (let n = 0; n < 128; n++)
      requestLog.append(logRowOf(`r${n}`, { at: noon + n, ...(n === place ? broken : {}) }))
    await ledger.hold(holdOf('c'))
    expect(requestLog.dropped).toBe(1)
    const { rows } = await requests.page({ limit: 200 })
    const written = Array.from({ length: 128 }, (_row, n) => `r${127 - n}`).filter((id) => id !== `r${place}`)
    expect(rows.map(({ requestId }) => requestId)).toEqual(written)
  }
})

/** 60 rows, three of each moment; every sixth failed, every fourth is of another model, every second of another key. */
async function filled(perStep: number, steps?: number) {
  const dataDir = freshDir()
  const store = await openStore(dataDir, { clock: () => noon })
  for (let n = 0; n < 60; n++) {
    store.requestLog.append(
      logRowOf(`r${n}`, {
        at: noon + Math.floor(n / 3),
        key: n % 20 === 7 ? null : n % 2 === 0 ? 'even' : 'odd',
        model: n % 4 === 0 ? 'sim/pattern' : 'sim/echo',
        code: n % 6 === 0 ? 'overloaded' : null,
        account: n === 59 ? 'berta' : 'anna',
      }),
    )
  }
  await store.close()
  const database = openDatabase(dataDir, noon)
  const reader = new SqlRequestReader(new SqliteTables(database), undefined, perStep, steps)
  const all = async (query: Omit<RequestQuery, 'limit' | 'after'>, limit = 7) => {
    const ids: string[] = []
    let pages = 0
    for (let after: RequestQuery['after']; ; pages++) {
      const page = await reader.page({ ...query, limit, ...(after ? { after } : {}) })
      ids.push(...page.rows.map(({ requestId }) => requestId))
      if (page.next === null) return { ids, pages: pages + 1 }
      after = page.next
    }
  }
  return { all, close: () => database.close() }
}

const newestFirst = (wanted: (n: number) => boolean) =>
  Array.from({ length: 60 }, (_, at) => 59 - at)
    .filter(wanted)
    .map((n) => `r${n}`)

test.each<[string, Omit<RequestQuery, 'limit' | 'after'>, (n: number) => boolean]>([
  ['everything', {}, () => true],
  ['an account', { account: 'anna' }, (n) => n !== 59],
  ['another account', { account: 'berta' }, (n) => n === 59],
  ['nobody', { account: 'nobody' }, () => false],
  ['a key', { account: 'anna', key: 'odd' }, (n) => n % 2 === 1 && n % 20 !== 7 && n !== 59],
  ['a model', { model: 'sim/pattern' }, (n) => n % 4 === 0],
  ['a code of one account', { account: 'anna', code: 'overloaded' }, (n) => n % 6 === 0],
  ['a code of all', { code: 'overloaded', key: 'even' }, (n) => n % 6 === 0],
  ['a key and a model', { account: 'anna', key: 'even', model: 'sim/echo' }, (n) => n % 4 === 2],
  ['a key, a model and a code', { key: 'even', model: 'sim/echo', code: 'overloaded' }, (n) => n % 12 === 6],
  ['a key of another account', { account: 'berta', key: 'even' }, () => false],
  [
    'a code and a model of one account',
    { account: 'anna', code: 'overloaded', model: 'sim/pattern' },
    (n) => n % 12 === 0,
  ],
  ['calls of the app', { channel: 'app' }, (n) => n % 20 === 7],
  ['calls with keys of one account', { account: 'anna', channel: 'api' }, (n) => n % 20 !== 7 && n !== 59],
  ['a time', { from: noon + 3, until: noon + 5 }, (n) => n >= 9 && n < 15],
])('%s is found page by page, nothing twice and nothing left out', async (_, query, wanted) => {
  for (const [perStep, steps] of [
    [1, 1],
    [5, 2],
    [2_000, undefined],
  ] as const) {
    const { all, close } = await filled(perStep, steps)
    expect((await all(query)).ids).toEqual(newestFirst(wanted))
    close()
  }
})

test('a page looks at no more rows than it may, and says where to go on when it found none', async () => {
  const { all, close } = await filled(2, 6)
  expect(await all({ account: 'anna', model: 'sim/none' })).toEqual({ ids: [], pages: 5 })
  close()
})

test('many rows are paged, filtered and found within the time that the loop has', async () => {
  const dataDir = freshDir()
  const database = openDatabase(dataDir, noon)
  database.run(
    `INSERT INTO request_log (request_id, at, account, key, model, provider, stream, status, code, ending,
       prompt_tokens, completion_tokens, cost, attempts, first_byte_ms, total_ms)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
     SELECT 'r' || i, ${noon} + i, 'anna', 'k' || (i % 3), 'sim/echo', 'sim', 0, 200,
       CASE WHEN i % 20000 = 0 THEN 'overloaded' END, 'finished', 1, 1, 1, 1, 1, 1 FROM n`,
  )
  const reader = new SqlRequestReader(new SqliteTables(database))
  const queries: Omit<RequestQuery, 'limit'>[] = [
    { account: 'anna' },
    { account: 'anna', code: 'overloaded' },
    { account: 'anna', model: 'sim/none' },
    { account: 'anna', key: 'k1', until: noon + 100_000 },
  ]
  // However fast the machine is: a page costs less than to read all of the rows once.
  const everyRow = database.prepare('SELECT * FROM request_log')
  const cost = async (act: () => unknown) => {
    await act()
    const before = processorMs()
    await act()
    return processorMs() - before
  }
  const whole = await cost(() => everyRow.all())
  for (const query of queries) {
    const page = await cost(() => reader.page({ ...query, limit: 50 }))
    expect(page).toBeLessThan(whole)
  }
  everyRow.finalize()
  expect((await reader.page({ account: 'anna', code: 'overloaded', limit: 50 })).rows).toHaveLength(10)
  expect((await reader.find('r77777', 'anna'))?.at).toBe(noon + 77_777)
  database.close()
})
