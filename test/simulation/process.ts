// One gateway process as the simulation sees it: its connection, its ledger, and a record of what it has committed.

import type { Database, Statement } from 'bun:sqlite'
import type { Head } from '../../src/store/sqlite/database/sqlite.ts'
import type { GroupLimits, SpillTarget } from '../../src/store/commits/durability.ts'
import type { SpillRecord } from '../../src/store/ledger-core.ts'
import { FaultyDatabase } from './faulty-database.ts'
import type { Answer, Carried } from './oracle.ts'
import type { Stage } from './stage.ts'
import type { System } from './system.ts'
import { UsageDays } from '../../src/store/sqlite/ledger/calls.ts'

/** Something that was asked of the ledger. */
export interface Issue {
  /** The command that was carried out when this was the answer; nothing for a sweep that found no work. */
  carried(value: unknown): Carried | null
  /** The answer that a committed transaction has made true. */
  committed: Answer | null
  /** The same, when a power cut could not undo it any more. */
  durable: Answer | null
}

export function issueOf(command: Carried): Issue {
  return { carried: () => command, committed: null, durable: null }
}

export interface Entry {
  readonly issue: Issue
  readonly carried: Carried
  readonly answer: Answer
  /** The ledger's time, and what the clock said. */
  readonly now: number
  readonly clock: number
}

export interface World {
  readonly stage: Stage
  now(): number
  /** The latest time at which a committed command has left anything in the file. */
  readonly bookedTime: number
  readonly clockBackMs: number
  isDead(owner: string, asker: SimulatedProcess): boolean
  /** What a process says is the end of the journal, after a commit. */
  anchored(head: Head): void
  committed(process: SimulatedProcess, entries: readonly Entry[], durably: boolean): void
  /** Resolves when the log of the file is on the disk. */
  sync(): Promise<void>
  /** Whether the next sync of a commit fails. */
  syncFails(): boolean
  /** A process cannot know what the disk has. */
  lost(process: SimulatedProcess): void
}

// Groups are as large as they become: the real limit is one of real time.
const limits: GroupLimits = { max: 64, waitMs: 1e9, decideMs: 1e9, queue: 24, loneSyncMs: 1, soonMs: 2 }

export class SimulatedProcess {
  readonly owner: string
  readonly database: FaultyDatabase
  readonly ledger: InstanceType<System['SqliteLedger']>
  /** What the next call of the ledger is; the group commit is told of it by name. */
  asking: Issue | null = null
  readonly #world: World
  readonly #sql: {
    readonly openCalls: Statement<{ id: string }, []>
    readonly lastExpired: Statement<{ account: string }, []>
  }
  #transaction: Entry[] = []
  /** What the ledger's time must be here: no earlier than what any process has booked, and this one has acted at. */
  #time = 0
  #replaying: readonly Carried[] = []

  constructor(world: World, owner: string, connection: Database) {
    this.owner = owner
    this.#world = world
    const { system, path } = world.stage
    this.database = new FaultyDatabase(connection, {
      began: () => {
        this.#transaction = []
        this.#time = Math.max(this.#time, world.bookedTime)
      },
      committed: (durably) => world.committed(this, this.#transaction.splice(0), durably),
      rolledBack: () => void (this.#transaction = []),
      syncFails: () => world.syncFails(),
    })
    this.ledger = new system.SqliteLedger({
      database: this.database.asDatabase,
      path,
      time: { clock: () => world.now(), backMs: world.clockBackMs, stepped: () => undefined },
      limits,
      usage: new UsageDays(this.database.asDatabase),
      bufferedRows: [],
      isDead: (owner) => world.isDead(owner, this),
      isRunning: () => false,
      committed: (head) => world.anchored(head),
      log: { sync: () => world.sync() },
      lost: () => world.lost(this),
    })
    const database = this.database.asDatabase
    this.#sql = {
      openCalls: database.prepare<{ id: string }, []>('SELECT id FROM open_call'),
      lastExpired: database.prepare<{ account: string }, []>(
        "SELECT account FROM journal WHERE kind = 'expire' AND lot IS NOT NULL ORDER BY tx DESC LIMIT 1",
      ),
    }
    this.#listen()
  }

  get dead(): boolean {
    return this.database.dead
  }

  /** Takes over what a predecessor could not write, as a server does when it starts. */
  succeed(spill: Spill): void {
    const records = spill.records.map(({ record }) => record as SpillRecord)
    this.ledger.group.spillTo(spill)
    if (records.length === 0) return
    this.#replaying = records
    if (this.ledger.replay(records)) spill.clear()
    this.#replaying = []
  }

  /** Every command runs through here, inside its transaction: it is booked with the answer it gave. */
  #listen(): void {
    const { group } = this.ledger
    const [admit, decide, conclude, transaction] = [
      group.admit.bind(group),
      group.decide.bind(group),
      group.conclude.bind(group),
      this.ledger.transaction.bind(this.ledger),
    ]
    const asked = () => {
      if (!this.asking) throw new Error('the ledger was asked by nobody')
      return this.asking
    }
    group.admit = (need, run) => {
      const issue = asked()
      return admit(need, () => this.#booked(issue, run))
    }
    group.decide = (need, haste, run) => {
      const issue = asked()
      return decide(need, haste, () => this.#booked(issue, run))
    }
    group.conclude = (need, run, record) => {
      const issue = this.asking
      if (issue) return conclude(need, () => this.#booked(issue, run), record)
      // What was spilled and could not be replayed at once is carried out for nobody.
      const command = record as Carried
      return conclude(
        need,
        () => {
          this.#acted(command.kind)
          const value = run()
          this.#book(issueOf(command), command, replayed)
          return value
        },
        record,
      )
    }
    this.ledger.transaction = (run) =>
      transaction(() => {
        for (const { kind } of this.#replaying) this.#acted(kind)
        const value = run()
        for (const command of this.#replaying) this.#book(issueOf(command), command, replayed)
        return value
      })
  }

  #booked<T>(issue: Issue, run: () => T): T {
    this.#acted(issue.carried(undefined)?.kind)
    try {
      const value = run()
      const done = issue.carried(value)
      if (done) this.#book(issue, done, { value })
      return value
    } catch (error) {
      const done = issue.carried(undefined)
      if (done && error instanceof Error && error.name === 'GatewayError' && 'code' in error)
        this.#book(issue, done, { error: String(error.code) })
      throw error
    }
  }

  /** A checkpoint has no time of its own. */
  #acted(kind: Carried['kind'] | undefined): void {
    if (kind !== 'checkpoint') this.#time = Math.max(this.#time, this.#world.now())
  }

  #book(issue: Issue, carried: Carried, answer: Answer): void {
    const clock = this.#world.now()
    this.#transaction.push({ issue, carried, answer, now: this.#time, clock })
  }

  /** The calls that are open in the file, as the transaction that is open sees it. */
  openCalls(): Set<string> {
    return new Set(this.#sql.openCalls.all().map(({ id }) => id))
  }

  /** The account whose credit the last expiry took. */
  lastExpired(): string | null {
    return this.#sql.lastExpired.get()?.account.split(':')[1] ?? null
  }

  /** What the transaction that is open has done so far. */
  get uncommitted(): readonly Entry[] {
    return this.#transaction
  }
}

/** The answer of a command from the spill file goes to nobody. */
export const replayed: Answer = { value: 'replayed' }

/** The spill file's memory: it outlives its process, as far as it was synced. */
export class Spill implements SpillTarget {
  records: { readonly record: unknown }[] = []
  #unsynced: { readonly record: unknown }[] = []

  append(record: unknown): void {
    this.#unsynced.push({ record })
  }

  sync(): void {
    this.records.push(...this.#unsynced.splice(0))
  }

  clear(): void {
    this.records = []
    this.#unsynced = []
  }

  crash(): void {
    this.#unsynced = []
  }
}
