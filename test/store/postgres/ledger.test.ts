// The ledger on PostgreSQL keeps what every ledger store promises.

import { afterAll, beforeAll } from 'bun:test'
import { SQL } from 'bun'
import { actsBookedNote } from '../../../src/store/postgres/audit.ts'
import { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { ledgerStoreConformance } from '../../conformance/ledger-store.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

describeOnPostgres('the ledger', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('ledger')
    admin = new SQL({ url, max: 1 })
  })
  afterAll(() => admin.close())

  ledgerStoreConformance('PostgreSQL', async (clock) => {
    await emptyTables(admin)
    // The ledger alone notes no acts of operators.
    await admin`INSERT INTO upkeep (name, at, value) VALUES (${actsBookedNote}, ${clock()}, '{}')`
    const opened: PostgresLedger[] = []
    return {
      async open() {
        const ledger = await PostgresLedger.open({
          server: url,
          owner: `process ${opened.length}`,
          time: { clock, backMs: 60_000, stepped: () => undefined },
          limits: defaultGroupLimits,
          deadlineMs: 5_000,
          isDead: () => false,
          isRunning: () => false,
        })
        opened.push(ledger)
        return ledger
      },
      async dispose() {
        for (const ledger of opened) await ledger.close()
      },
    }
  })
})
