// Where a store is kept, by the configuration: in the data directory, or on a server of PostgreSQL beside which the directory
// has what is this machine's own.

import { defaultClockBackMs } from './ledger-core.ts'
import { hasStore, lockFor, openStore, requireClock, type StoreOptions } from './open.ts'
import type { DatabaseServer, Store } from './store.ts'

const unusedMessage =
  'the database on PostgreSQL was empty, and the one in the data directory is not used: weir ledger move copies it'

interface StorePlace {
  readonly dataDir: string
  /** Left out: SQLite in the data directory. */
  readonly server?: DatabaseServer | undefined
}

/** Whether there is a store that a command could open. Throws StoreOpenError where that cannot be looked at. */
export async function hasStoreIn({ dataDir, server }: StorePlace, clock: () => number): Promise<boolean> {
  if (server === undefined) return hasStore(dataDir)
  const { factsOf } = await import('./postgres/server.ts')
  return (await factsOf(server, clock)).hasTables
}

/** Opens a store, and makes it where there is none. Throws StoreOpenError with what an operator can do. */
export async function openStoreIn({ dataDir, server }: StorePlace, options: StoreOptions): Promise<Store> {
  return server === undefined ? openStore(dataDir, options) : openOnServer(dataDir, server, options)
}

async function openOnServer(dataDir: string, server: DatabaseServer, options: StoreOptions): Promise<Store> {
  const { serveAs: owner, clock, notice, clockBackMs = defaultClockBackMs } = options
  const serves = owner !== undefined
  const lock = serves && options.isLocked !== true ? lockFor(dataDir, options) : undefined
  try {
    const { makeReady } = await import('./postgres/migrate.ts')
    const { isNew, ledgerTime } = await makeReady(server, { clock, serves, notice })
    if (serves) requireClock(ledgerTime - clock(), clockBackMs)
    if (isNew && hasStore(dataDir)) notice?.(unusedMessage, { data_dir: dataDir })
    const { openOnPostgres } = await import('./postgres/open.ts')
    const store = await openOnPostgres(server, { ...options, owner })
    return {
      ...store,
      async close() {
        try {
          await store.close()
        } finally {
          lock?.release()
        }
      },
    }
  } catch (error) {
    lock?.release()
    const { unusableServer } = await import('./postgres/server.ts')
    throw unusableServer(server, error)
  }
}
