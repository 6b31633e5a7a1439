// The SQLite ledger keeps what every ledger store promises.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore, type Store } from '../../../src/store/open.ts'
import { ledgerStoreConformance } from '../../conformance/ledger-store.ts'

ledgerStoreConformance('SQLite', async (clock) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  const opened: Store[] = []
  return {
    async open() {
      const store = await openStore(dataDir, { clock })
      opened.push(store)
      return store.ledger
    },
    async dispose() {
      for (const store of opened) await store.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
})
