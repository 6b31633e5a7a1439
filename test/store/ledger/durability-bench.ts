// A ledger on a disk that syncs its log when the test says so, or at once.

import type { Database } from 'bun:sqlite'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits } from '../../../src/store/commits/commit-queue.ts'
import { openDatabase } from '../../../src/store/sqlite/database/connection.ts'
import { SqliteLedger } from '../../../src/store/sqlite/ledger/ledger-store.ts'
import { UsageDays } from '../../../src/store/sqlite/calls/usage-days.ts'
import { grantOf, noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

/** A disk that has synced the log when the test says so. */
class SlowDisk {
  syncs = 0
  #waiting: PromiseWithResolvers<void>[] = []

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

/** A disk that has synced the log when it is asked on the same thread, in its time. */
class QuickDisk extends SlowDisk {
  syncsNow = 0
  takesMs = 0
  fails: Error | undefined
  /** Called when the thread waits for it. */
  waitedFor: () => void = () => undefined

  syncNow(): void {
    this.waitedFor()
    if (this.fails) throw this.fails
    this.syncsNow++
    const until = performance.now() + this.takesMs
    while (performance.now() < until);
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

interface Bench<Disk> {
  readonly disk: Disk
  readonly ledger: SqliteLedger
  readonly database: Database
  readonly dataDir: string
  /** Transactions that were anchored. */
  readonly anchored: number[]
  readonly lost: unknown[]
}

/** A ledger with ten dollars for anna, all of it durable. */
export async function bench(): Promise<Bench<SlowDisk>> {
  const made = benchOn(new SlowDisk())
  const granted = made.ledger.grant(grantOf('g', usd(10)))
  await made.disk.end()
  await granted
  return made
}

/** The same on a disk that is quick. */
export async function quickBench(): Promise<Bench<QuickDisk>> {
  const made = benchOn(new QuickDisk())
  await made.ledger.grant(grantOf('g', usd(10)))
  return made
}

function benchOn<Disk extends SlowDisk>(disk: Disk): Bench<Disk> {
  const dir = tempDir('weir-durability-')
  dirs.push(dir)
  const database = openDatabase(dir.path, noon)
  databases.push(database)
  const anchored: number[] = []
  const lost: unknown[] = []
  const ledger = new SqliteLedger({
    database,
    path: dir.join('weir.db'),
    time: { clock: () => noon, backMs: 0, stepped: () => undefined },
    limits: defaultGroupLimits,
    usage: new UsageDays(database),
    bufferedRows: [],
    isDead: () => false,
    committed: ({ tx }) => anchored.push(tx),
    log: disk,
    lost: (error) => lost.push(error),
  })
  return { disk, ledger, database, dataDir: dir.path, anchored, lost }
}

export const releaseOf = (call: string) => ({ call, owner: 'here', reason: 'x', attempts: [] })

/** What a promise has come to. */
export function seen<T>(promise: Promise<T>): { value: T | undefined } {
  const box = { value: undefined as T | undefined }
  void promise.then((value) => (box.value = value))
  return box
}
