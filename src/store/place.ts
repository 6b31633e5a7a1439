// Where a store is kept, by the configuration: in the data directory, or on a server of PostgreSQL beside which the directory
// has what is this machine's own.

import { readdirSync } from 'node:fs'
import { defaultClockBackMs } from './ledger-core.ts'
import { SpillFile } from './commits/spill.ts'
import {
  garbageMessage,
  hasStore,
  lockFor,
  openStore,
  refusedMessage,
  requireClock,
  type StoreOptions,
} from './open.ts'
import { unusable } from './sqlite/database/sqlite.ts'
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
  const lock = serves && options.beside === undefined ? lockFor(dataDir, options) : undefined
  let spills: readonly SpillFile[] = []
  const copies = new Map<SpillFile, string>()
  const leave = () => {
    for (const spill of spills) spill.close()
    lock?.release()
  }
  try {
    const { makeReady } = await import('./postgres/migrate.ts')
    const { isNew, ledgerTime } = await makeReady(server, { clock, serves, notice })
    if (serves) requireClock(ledgerTime - clock(), clockBackMs)
    if (isNew && hasStore(dataDir)) notice?.(unusedMessage, { data_dir: dataDir })
    const { openOnPostgres } = await import('./postgres/open.ts')
    if (serves) spills = spillsOf(dataDir, options)
    const store = await openOnPostgres(server, {
      ...options,
      owner,
      spills,
      refused: (spill, { kind, command }, error) => {
        const file = copies.get(spill) ?? spill.copyAside()
        copies.set(spill, file)
        notice?.(refusedMessage, { kind, call: command.call, file, error })
      },
      succeeds: options.beside?.succeeds,
    })
    for (const { movedAside } of spills) if (movedAside) notice?.(garbageMessage, { file: movedAside })
    return {
      ...store,
      async close() {
        try {
          await store.close()
        } finally {
          leave()
        }
      },
    }
  } catch (error) {
    leave()
    const { unusableServer } = await import('./postgres/server.ts')
    throw unusableServer(server, error)
  }
}

/**
 * Where the ends of calls go while the server is away: a file for each process of the data directory, first its own. The
 * first process takes up those of numbers that there are no more, and every one that of its predecessor.
 */
function spillsOf(dataDir: string, { beside, clock }: StoreOptions): readonly SpillFile[] {
  const { number, processes } = beside ?? { number: 1, processes: 1 }
  const left = readdirSync(dataDir)
    .map((name) => Number(/^settles\.(\d+)\.spill$/.exec(name)?.[1] ?? 0))
    .filter((other) => number === 1 && other > processes)
  const spills: SpillFile[] = []
  try {
    for (const each of [number, ...left])
      spills.push(new SpillFile(dataDir, clock(), { name: `settles.${each}.spill` }))
  } catch (error) {
    for (const spill of spills) spill.close()
    throw unusable(dataDir, error)
  }
  return spills
}
