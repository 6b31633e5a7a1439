// A database that cannot be written is in the log, with the system's own words: the clients' errors do not say why.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import { grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir } from '../../support/tmp.ts'

interface Notice {
  readonly message: string
  readonly facts: Readonly<Record<string, unknown>>
}

test('an outage is reported with its reason, once however often it is tried again', async () => {
  using dir = tempDir('weir-outage-')
  const notices: Notice[] = []
  const store = await openStore(dir.path, {
    clock: () => noon,
    serveAs: 'server',
    notice: (message, facts) => void notices.push({ message, facts }),
  })
  await store.ledger.grant(grantOf('g', usd(10)))
  await store.ledger.hold(holdOf('a', { owner: 'server' }))
  const lock = new Database(join(dir.path, 'weir.db'))
  lock.run('BEGIN IMMEDIATE')
  const settled = store.ledger.settle(settleOf('a', usd(1), { owner: 'server' }))
  await expect(store.ledger.hold(holdOf('b'))).rejects.toMatchObject({ code: 'store_unavailable' })
  await expect(store.ledger.hold(holdOf('c'))).rejects.toMatchObject({ code: 'store_unavailable' })
  lock.close()
  await settled
  await store.close()
  expect(notices).toEqual([
    {
      message: expect.stringContaining('cannot be written'),
      facts: { error: expect.objectContaining({ code: 'SQLITE_BUSY' }) },
    },
  ])
}, 10_000)
