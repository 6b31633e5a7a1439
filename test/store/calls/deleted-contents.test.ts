// What deleted accounts have left in the request log and among kept answers.

import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import type { RequestLogRow } from '../../../src/observe/call-log.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { day, noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { logRowOf } from './support.ts'

let dir: TempDir
let store: Store
afterEach(async () => {
  await store.close()
  dir.remove()
})

async function reopened(): Promise<Store> {
  store = await openStore(dir.path, { clock: () => noon, serveAs: crypto.randomUUID() })
  return store
}

/** The ids of two accounts in a fresh store. */
async function opened(): Promise<{ anna: string; bert: string }> {
  dir = tempDir('weir-deleted-')
  await reopened()
  const { id: anna } = await store.accounts.createAccount('anna@example.org')
  const { id: bert } = await store.accounts.createAccount('bert@example.org')
  return { anna, bert }
}

function rowOf(account: string, nth: number, more: Partial<RequestLogRow> = {}): RequestLogRow {
  return logRowOf(`${account}-${nth}`, {
    at: noon + nth,
    account,
    cost: 5n,
    detail: '{"message":"you said hello"}',
    contents: '{"request":"hello"}',
    ...more,
  })
}

/** How many rows of the account there are, and how many of them have contents. */
function logOf(account: string): { rows: number; full: number } {
  using database = new Database(`${dir.path}/weir.db`, { readonly: true })
  return database
    .query<{ rows: number; full: number }, [string]>(
      'SELECT count(*) AS rows, count(coalesce(contents, detail)) AS full FROM request_log WHERE account = ?',
    )
    .get(account)!
}

async function logged(...rows: readonly RequestLogRow[]): Promise<void> {
  for (const row of rows) store.requestLog.append(row)
  await store.close()
  await reopened()
}

test('a long log is emptied of contents and keeps its rows; that of others is left alone', async () => {
  const { anna, bert } = await opened()
  await logged(
    ...Array.from({ length: 300 }, (_, nth) => rowOf(anna, nth % 7, { requestId: `anna-${nth}` })),
    rowOf(bert, 1),
  )
  await store.identities.deleteAccount(anna, noon + 10)
  await store.deletedContents.erase(anna, noon + 10)
  expect(logOf(anna)).toEqual({ rows: 300, full: 0 })
  expect(logOf(bert)).toEqual({ rows: 1, full: 1 })
})

test('what a process that died had not erased is erased by the first sweep of the next', async () => {
  const { anna, bert } = await opened()
  await logged(rowOf(anna, 1), rowOf(bert, 1))
  await store.identities.deleteAccount(anna, noon + 10)
  await store.close()
  await reopened()
  expect(await store.deletedContents.sweep(noon + 400 * day)).toBe(1)
  expect(logOf(anna)).toEqual({ rows: 1, full: 0 })
  expect(logOf(bert)).toEqual({ rows: 1, full: 1 })
  expect(await store.deletedContents.sweep(noon + 400 * day)).toBe(0)
})
