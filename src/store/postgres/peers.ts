// The processes that write to one ledger, as they know of each other. Each shows signs of life, by the database's clock. One
// of them, the leader, does what is to be done once, and finds the dead: whoever shows no sign of life any more has its chain
// taken by a write, so that nothing it has sent or may yet send counts, and only then is it dead and are its calls ended.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { version } from '../../version.ts'
import { uncaught } from '../commits/durability.ts'
import type { Lives } from '../ledger-core.ts'
import { sql, type Work } from '../sql/work.ts'
import type { DatabaseServer } from '../store.ts'
import {
  Connection,
  ConnectionLost,
  type ConnectionOptions,
  databaseNow,
  type LedgerConnection,
  ledgerDeadlineMs,
  lookupsOnly,
  stateOf,
} from './connection.ts'
import { Fenced, heartbeatMs } from './transactions.ts'

export interface PeersParts {
  readonly server: string | DatabaseServer
  /** The name of this process in `chain`, which has its row. */
  readonly owner: string
  /** Whether it may lead: a command that ends in a moment does not. */
  readonly serves: boolean
  /** Whether a call is in flight in this process. */
  readonly isRunning: (call: string) => boolean
  /** Called once when another process has taken this one for dead: it has to end. */
  readonly lost?: ((error: unknown) => void) | undefined
  readonly times?: Partial<LifeTimes> | undefined
  /** Makes its connection, which is PostgreSQL's where it is left out. */
  readonly connect?: ((options: ConnectionOptions) => LedgerConnection) | undefined
}

/** Milliseconds. */
interface LifeTimes {
  /** Between two signs of life. */
  readonly beatMs: number
  /** How long a process has shown its own without a gap before it says of others that they show none. */
  readonly graceMs: number
}

const usualTimes: LifeTimes = { beatMs: 2_000, graceMs: heartbeatMs }
/** How long a sign of life that is under way is waited for when the process leaves, milliseconds. */
const leavePatienceMs = 1_000
/** What the owner of a chain is called when it is over, before its name. */
const over = 'over:'

const chainOf = sql<{ readonly id: bigint }>('SELECT id FROM chain WHERE owner = ?')

/** Whether a process writes nothing more: its chain has been taken, or closed by itself. */
export function* hasEnded(owner: string): Work<boolean> {
  return (yield* chainOf.first(owner)) === undefined
}

interface Beat {
  readonly lives: boolean
  readonly leads: boolean
  /** Whether the last sign of life had not run out. */
  readonly unbroken: boolean
}

export class Peers implements Lives {
  readonly #parts: PeersParts
  readonly #times: LifeTimes
  readonly #connection: LedgerConnection
  /** Names are used once: whoever is dead stays so. */
  readonly #dead = new Set<string>()
  #leads = false
  #beatAt = Number.NEGATIVE_INFINITY
  /** Since when there has been no gap between signs of life. */
  #unbrokenSince = performance.now()
  #beating: Promise<void> | undefined
  #timer: ReturnType<typeof setInterval> | undefined
  #isLost = false
  #serves: boolean

  constructor(parts: PeersParts) {
    this.#parts = parts
    this.#serves = parts.serves
    this.#times = { ...usualTimes, ...parts.times }
    const options = { settings: lookupsOnly, deadlineMs: ledgerDeadlineMs }
    this.#connection = parts.connect?.(options) ?? new Connection(parts.server, options)
  }

  /** Throws ConnectionLost when the server cannot be reached. */
  async open(): Promise<void> {
    await this.#connection.renew()
    await this.#connection.send('UPDATE chain SET program = $2, migrations = $3 WHERE owner = $1', [
      this.#parts.owner,
      version,
      BigInt(migrations.length),
    ])
    await this.#beat()
    clearInterval(this.#timer)
    this.#timer = setInterval(() => void this.#beatAgain(), this.#times.beatMs)
    this.#timer.unref()
  }

  /** Whether this process does what is to be done once. For a moment two may think so of themselves. */
  readonly leads = (): boolean => this.#leads && performance.now() - this.#beatAt < heartbeatMs

  readonly isDead = (owner: string): boolean => this.#dead.has(owner)

  /** What runs in another process that is not dead is that one's business, whatever became of the lease. */
  readonly isRunning = (call: string, owner: string): boolean =>
    owner === this.#parts.owner ? this.#parts.isRunning(call) : !this.#dead.has(owner)

  /**
   * Finds out which of these owners are dead, for isDead. Whoever does not lead leaves that to the leader. After a time in
   * which this process could not show its own signs of life nobody else may have been able to: they get time to show them.
   */
  readonly lookFor = async (owners: ReadonlySet<string>): Promise<void> => {
    if (!this.leads()) return
    const asked = [...owners].filter((owner) => owner !== this.#parts.owner && !this.#dead.has(owner))
    try {
      if (performance.now() - this.#unbrokenSince >= this.#times.graceMs) await this.#takeChains()
      if (asked.length === 0) return
      const rows = await this.#connection.send<{ readonly owner: string }>(
        `SELECT asked.owner FROM (SELECT value COLLATE "C" AS owner FROM json_array_elements_text($1::text::json)) AS asked
         WHERE NOT EXISTS (SELECT 1 FROM chain WHERE chain.owner = asked.owner)`,
        [JSON.stringify(asked)],
      )
      for (const { owner } of rows) this.#dead.add(owner)
    } catch (error) {
      // The next round tries again.
      if (!(error instanceof ConnectionLost) && stateOf(error) === '') throw error
    }
  }

  async #takeChains(): Promise<void> {
    await this.#connection.send(
      `UPDATE chain SET epoch = epoch + 1, owner = '${over}' || owner
       WHERE heartbeat_until < ${databaseNow} AND owner <> $1 AND NOT starts_with(owner, '${over}')`,
      [this.#parts.owner],
    )
  }

  #beatAgain(): Promise<void> {
    return (this.#beating ??= this.#tryToBeat().finally(() => (this.#beating = undefined)))
  }

  async #tryToBeat(): Promise<void> {
    try {
      if (!this.#connection.isOpen) await this.#connection.renewFrom(undefined)
      await this.#beat()
    } catch (error) {
      if (error instanceof ConnectionLost) {
        // One that is being opened may be there for the next.
        if (this.#connection.isOpen) await this.#connection.close()
      }
      // What the server refuses for a moment, such as a lock that it waited for, is tried again with the next beat.
      else if (stateOf(error) === '') throw error
    }
  }

  async #beat(): Promise<void> {
    const { owner } = this.#parts
    const sentAt = performance.now()
    const [beat] = await this.#connection.send<Beat>(beatText, [
      owner,
      BigInt(heartbeatMs),
      this.#serves ? 1n : 0n,
    ])
    const { lives, leads, unbroken } = beat!
    if (!lives) return this.#lose()
    if (!unbroken) this.#unbrokenSince = performance.now()
    this.#beatAt = sentAt
    this.#leads = leads
  }

  #lose(): void {
    clearInterval(this.#timer)
    this.#leads = false
    if (this.#isLost) return
    this.#isLost = true
    const { lost = uncaught, owner } = this.#parts
    lost(new Fenced(`${owner} was taken for dead by another process`))
  }

  /** A statement on this connection; rejects while that is lost. */
  readonly send = (text: string, values: readonly string[]): ReturnType<Connection['send']> =>
    this.#connection.send(text, values)

  /** Before it ends, which may take its calls a long time: another one leads from its next sign of life on. */
  readonly resign = async (): Promise<void> => {
    this.#serves = false
    this.#leads = false
    await this.#beating
    this.#leads = false
    try {
      await this.#connection.send('DELETE FROM leader WHERE owner = $1', [this.#parts.owner])
    } catch {
      // Then it is over when it runs out.
    }
  }

  /** Says of a process that it is dead, to be called by whoever has seen it exit: its calls are ended without a wait. */
  async bury(owner: string): Promise<void> {
    await this.#end(owner)
  }

  async #end(owner: string): Promise<void> {
    await this.#connection.send(
      `UPDATE chain SET epoch = epoch + 1, owner = '${over}' || owner WHERE owner = $1`,
      [owner],
    )
    await this.#connection.send('DELETE FROM leader WHERE owner = $1', [owner])
  }

  /** Leaves: whatever this process has left open is ended by the others at once. To be called when it writes nothing more. */
  async close(): Promise<void> {
    // It has never written.
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    await Promise.race([this.#beating, Bun.sleep(leavePatienceMs)])
    try {
      if (!this.#connection.isOpen) await this.#connection.renewFrom(undefined)
      await this.#end(this.#parts.owner)
    } catch (error) {
      // It is found out when its signs of life have run out.
      if (!(error instanceof ConnectionLost) && stateOf(error) === '') throw error
    } finally {
      await this.#connection.close()
    }
  }
}

const beatText = `WITH now AS MATERIALIZED (SELECT ${databaseNow} AS at),
    before AS MATERIALIZED (SELECT heartbeat_until FROM chain WHERE owner = $1),
    beaten AS (UPDATE chain SET heartbeat_until = now.at + $2 FROM now WHERE owner = $1 RETURNING chain.id),
    led AS (
      INSERT INTO leader (duty, owner, until) SELECT 'upkeep', $1, now.at + $2 FROM beaten, now WHERE $3::bigint = 1
      ON CONFLICT (duty) DO UPDATE SET owner = excluded.owner, until = excluded.until
        WHERE leader.owner = excluded.owner OR leader.until < excluded.until - $2 RETURNING 1)
  SELECT EXISTS (SELECT 1 FROM beaten) AS lives, EXISTS (SELECT 1 FROM led) AS leads,
    EXISTS (SELECT 1 FROM before, now WHERE heartbeat_until >= now.at) AS unbroken`
