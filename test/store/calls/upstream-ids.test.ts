// Calls by the id that their provider gave the answer: the index is in blocks, and the reader must not notice.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { openStore } from '../../../src/store/open.ts'
import { noon } from '../../credits/support.ts'
import { tempDir } from '../../support/tmp.ts'

test('a call is found by its provider’s id wherever it lies, the newest when an id was given twice', async () => {
  using dir = tempDir('weir-upstream-ids-')
  const store = await openStore(dir.path, { clock: () => noon })
  const database = new Database(join(dir.path, 'weir.db'))
  // Four blocks of calls; one id comes back again and again.
  database.run(`
    INSERT INTO call (id, account, state, hold, funding, model, price_version, owner, opened_at, ended_at, ending,
      cost, charged, absorbed, estimated, upstream_id)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 16000)
    SELECT 'call' || n, iif(n % 2, 'anna', 'berta'), 'voided', 0, 'purchased', 'm', 'v', 'here', n, n, 'x', 0, 0, 0, 0,
      iif(n % 100 = 1, 'reused', 'up' || n) FROM n`)
  database.close()
  for (const n of [3, 4095, 4097, 9999, 15_999])
    expect((await store.ledger.call('anna', `up${n}`))?.call).toBe(`call${n}`)
  expect((await store.ledger.call('anna', 'reused'))?.call).toBe('call15901')
  expect(await store.ledger.call('berta', 'up3')).toBeUndefined()
  expect(await store.ledger.call('anna', 'up0')).toBeUndefined()
  await store.close()
})
