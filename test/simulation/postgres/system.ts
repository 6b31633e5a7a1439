// The code under simulation: the ledger on PostgreSQL, or a copy of it with a fault planted.

import { join } from 'node:path'
import type { ConnectionLost } from '../../../src/store/postgres/connection.ts'
import type { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import type { Peers } from '../../../src/store/postgres/peers.ts'

export interface System {
  readonly PostgresLedger: typeof PostgresLedger
  readonly Peers: typeof Peers
  readonly ConnectionLost: typeof ConnectionLost
}

/** Imports the ledger below a folder that is laid out like the repository. */
export async function systemIn(root: string): Promise<System> {
  const [ledger, peers, connection] = (await Promise.all(
    ['ledger', 'peers', 'connection'].map((name) => import(join(root, 'src/store/postgres', `${name}.ts`))),
  )) as [Pick<System, 'PostgresLedger'>, Pick<System, 'Peers'>, Pick<System, 'ConnectionLost'>]
  return {
    PostgresLedger: ledger.PostgresLedger,
    Peers: peers.Peers,
    ConnectionLost: connection.ConnectionLost,
  }
}
