// The code under simulation: the real ledger, or a copy of it with a fault planted.

import { join } from 'node:path'
import type { auditFile } from '../../src/store/sqlite/audit/audit.ts'
import type { openDatabase } from '../../src/store/sqlite/database/connection.ts'
import type { SqliteLedger } from '../../src/store/sqlite/ledger/ledger-store.ts'

export interface System {
  readonly openDatabase: typeof openDatabase
  readonly SqliteLedger: typeof SqliteLedger
  readonly auditFile: typeof auditFile
}

/** Imports the ledger below a folder that is laid out like the repository. */
export async function systemIn(root: string): Promise<System> {
  const [connection, store, audit] = (await Promise.all(
    ['database/connection', 'ledger/ledger-store', 'audit/audit'].map(
      (name) => import(join(root, 'src/store/sqlite', `${name}.ts`)),
    ),
  )) as [Pick<System, 'openDatabase'>, Pick<System, 'SqliteLedger'>, Pick<System, 'auditFile'>]
  return { ...connection, ...store, ...audit }
}
