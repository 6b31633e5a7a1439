// A ledger on a disk that syncs its log when the test says so, or at once.

import type { Database } from 'bun:sqlite'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits, type GroupLimits } from '../../../src/store/commits/durability.ts'
import { openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { SqliteLedger } from '../../../src/store/sqlite/ledger/ledger-store.ts'
import { UsageDays } from '../../../src/store/sqlite/ledger/calls.ts'
import { grantOf, noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

/** A disk that has synced the log when the test says so. */
class SlowDisk {
  syncs = 0
  #waiting: PromiseWithResolvers<void>[] = []
  /** What the sync of the next commit fails with. */
  fails: Error | undefined

  sync(): Promise<void> {
    this.syncs++
    const done = Promise.withResolvers<void>()
    this.#waiting.push(done)
    return done.promise
  }

  /** Whether a sync is under way. */
  get waits(): boolean {
    return this.#waiting.length > 0
  }

  /** Ends the sync under way, and lets its answers be given. */
  async end(): Promise<void> {
    while (this.#waiting.length === 0) await turn()
    this.#waiting.shift()!.resolve()
    await turn()
  }

  async fail(error: Error): Promise<void> {
    while (this.#waiting.length === 0) await turn()
    this.#waiting.shift()!.reject(error)
    await turn()
  }
}

/** Lets everything happen that waits for nothing. */
export async function turn(): Promise<void> {
  for (let n = 0; n < 3; n++) await new Promise((resolve) => setImmediate(resolve))
}

const dirs: TempDir[] = []
const databases: Database[] = []

/** Closes and removes what benches were made of. */
export function removeBenches(): void {
  for (const database of databases.splice(0)) database.close()
  for (const dir of dirs.splice(0)) dir.remove()
}

interface Bench {
  readonly disk: SlowDisk
  readonly ledger: SqliteLedger
  readonly database: Database
  readonly dataDir: string
  /** Transactions that were anchored. */
  readonly anchored: number[]
  readonly lost: unknown[]
}

/** A ledger with ten dollars for anna, all of it durable; each sync is another thread's. */
export async function bench(limits: Partial<GroupLimits> = {}): Promise<Bench> {
  const made = benchWith({ loneSyncMs: 0, ...limits })
  const granted = made.ledger.grant(grantOf('g', usd(10)))
  await made.disk.end()
  await granted
  return made
}

/** The same where the commit of a lone command syncs it, if syncs usually take less than so many milliseconds. */
export async function loneBench(loneSyncMs = 60_000): Promise<Bench> {
  const made = benchWith({ loneSyncMs })
  await synced(made, made.ledger.grant(grantOf('g', usd(10))))
  return made
}

function benchWith(limits: Partial<GroupLimits>): Bench {
  const disk = new SlowDisk()
  const dir = tempDir('weir-durability-')
  dirs.push(dir)
  const database = openDatabase(dir.path, noon)
  databases.push(database)
  failCommits(database, disk)
  const anchored: number[] = []
  const lost: unknown[] = []
  const ledger = new SqliteLedger({
    database,
    path: dir.join('weir.db'),
    time: { clock: () => noon, backMs: 0, stepped: () => undefined },
    // However slow the machine is, what is queued at once is one group.
    limits: { ...defaultGroupLimits, waitMs: 60_000, decideMs: 60_000, ...limits },
    usage: new UsageDays(database),
    bufferedRows: [],
    isDead: () => false,
    isRunning: () => false,
    committed: ({ tx }) => anchored.push(tx),
    log: disk,
    lost: (error) => lost.push(error),
  })
  return { disk, ledger, database, dataDir: dir.path, anchored, lost }
}

/** As SQLite ends a commit whose sync fails: the transaction is undone. */
function failCommits(database: Database, disk: SlowDisk): void {
  const prepare = database.prepare.bind(database)
  database.prepare = ((sql: string) => {
    const statement = prepare(sql)
    if (sql !== 'COMMIT') return statement
    const run = statement.run.bind(statement)
    statement.run = (...values) => {
      const { fails } = disk
      if (!fails) return run(...values)
      disk.fails = undefined
      database.run('ROLLBACK')
      throw fails
    }
    return statement
  }) as Database['prepare']
}

export const releaseOf = (call: string) => ({ call, owner: 'here', reason: 'x', attempts: [] })

/** What a command gives, whoever syncs it. */
export async function synced<T>({ disk }: Pick<Bench, 'disk'>, command: Promise<T>): Promise<T> {
  const answer = seen(command.then((given) => ({ given })))
  while (answer.value === undefined) {
    if (disk.waits) await disk.end()
    await turn()
  }
  return answer.value.given
}

/** What a promise has come to. */
export function seen<T>(promise: Promise<T>): { value: T | undefined } {
  const box = { value: undefined as T | undefined }
  void promise.then((value) => (box.value = value))
  return box
}
