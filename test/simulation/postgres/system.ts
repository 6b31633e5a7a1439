// The code under simulation: the ledger on PostgreSQL, or a copy of it with a fault planted.

import { join } from 'node:path'
import type { budgetsOf } from '../../../src/accounts/group.ts'
import type { ConnectionLost } from '../../../src/store/postgres/connection.ts'
import type { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import type { Peers } from '../../../src/store/postgres/peers.ts'

export interface System {
  readonly PostgresLedger: typeof PostgresLedger
  readonly Peers: typeof Peers
  readonly ConnectionLost: typeof ConnectionLost
  readonly budgetsOf: typeof budgetsOf
}

/** Imports the ledger below a folder that is laid out like the repository. */
export async function systemIn(root: string): Promise<System> {
  const [ledger, peers, connection, groups] = (await Promise.all(
    ['store/postgres/ledger', 'store/postgres/peers', 'store/postgres/connection', 'accounts/group'].map(
      (name) => import(join(root, 'src', `${name}.ts`)),
    ),
  )) as [
    Pick<System, 'PostgresLedger'>,
    Pick<System, 'Peers'>,
    Pick<System, 'ConnectionLost'>,
    Pick<System, 'budgetsOf'>,
  ]
  return {
    PostgresLedger: ledger.PostgresLedger,
    Peers: peers.Peers,
    ConnectionLost: connection.ConnectionLost,
    budgetsOf: groups.budgetsOf,
  }
}
