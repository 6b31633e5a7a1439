// The code under simulation: the real ledger, or a copy of it with a fault planted.

import { join } from 'node:path'
import type { MonthlySums } from '../../src/credits/ledger/monthly.ts'
import type { auditOf } from '../../src/store/sqlite/audit/audit.ts'
import type { openDatabase, SqliteTables } from '../../src/store/sqlite/database/sqlite.ts'
import type { SqlStatements } from '../../src/store/sql/statements.ts'
import type { bookingsOfSqlite } from '../../src/store/sqlite/audit/bookings.ts'
import type { SqliteLedger } from '../../src/store/sqlite/ledger/ledger-store.ts'
import type { budgetsOf } from '../../src/accounts/group.ts'

export interface System {
  readonly openDatabase: typeof openDatabase
  readonly SqliteLedger: typeof SqliteLedger
  readonly auditOf: typeof auditOf
  readonly SqlStatements: typeof SqlStatements
  readonly bookingsOfSqlite: typeof bookingsOfSqlite
  readonly SqliteTables: typeof SqliteTables
  readonly MonthlySums: typeof MonthlySums
  readonly budgetsOf: typeof budgetsOf
}

/** Imports the ledger below a folder that is laid out like the repository. */
export async function systemIn(root: string): Promise<System> {
  const [database, store, audit, statements, bookings, monthly, groups] = (await Promise.all(
    [
      'store/sqlite/database/sqlite',
      'store/sqlite/ledger/ledger-store',
      'store/sqlite/audit/audit',
      'store/sql/statements',
      'store/sqlite/audit/bookings',
      'credits/ledger/monthly',
      'accounts/group',
    ].map((name) => import(join(root, 'src', `${name}.ts`))),
  )) as [
    Pick<System, 'openDatabase' | 'SqliteTables'>,
    Pick<System, 'SqliteLedger'>,
    Pick<System, 'auditOf'>,
    Pick<System, 'SqlStatements'>,
    Pick<System, 'bookingsOfSqlite'>,
    Pick<System, 'MonthlySums'>,
    Pick<System, 'budgetsOf'>,
  ]
  return { ...database, ...store, ...audit, ...statements, ...bookings, ...monthly, ...groups }
}
