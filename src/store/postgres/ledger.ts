// The ledger on PostgreSQL: the commands of ledger-core.ts in the groups of one process, and reads of what all processes
// have committed.

import type {
  AuditReport,
  Balance,
  CallRecord,
  CountedBudget,
  DayAudit,
  KeySpend,
  LedgerStore,
  LedgerUpkeep,
  Totals,
} from '../../credits/ledger/ledger.ts'
import { monthlyPrefix } from '../../credits/calendar.ts'
import { balanceOf, emptyWallet, loanPrefix } from '../../credits/wallet.ts'
import { CommitQueue, endPatienceMs } from '../commits/commit-queue.ts'
import type { StoreFigures } from '../../observe/call-log.ts'
import { type GroupLimits, type QueueEvents, unavailable } from '../commits/durability.ts'
import type { SpillFile } from '../commits/spill.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  abandonedAmong,
  type ClockParts,
  LedgerClock,
  LedgerCore,
  type Lives,
  type SpillRecord,
} from '../ledger-core.ts'
import { endedRecordOf, openRecordOf } from '../ledger-rows.ts'
import type { Row } from '../schema.ts'
import type { DatabaseServer } from '../store.ts'
import { sql } from '../sql/work.ts'
import { auditAll, auditDay } from './audit.ts'
import {
  Connection,
  ConnectionLost,
  isOutage,
  type ConnectionOptions,
  type LedgerConnection,
  lookupsOnly,
  withoutNul,
} from './connection.ts'
import { GroupDraft } from './draft.ts'
import { isAt } from './group.ts'
import { type KnownWallet, KnownWallets, loadBudgets, loadKeys, loadWallets, spendSince } from './wallets.ts'
import { PostgresTransactions } from './transactions.ts'

/** The last calls with an id that a provider gave. */
export const callsByUpstreamId = sql<{ readonly seq: bigint }>(
  'SELECT seq FROM call WHERE upstream_id = ? LIMIT 10',
)

/** How long the end of this process waits for the outcome of a group that the database has not answered. */
const closePatienceMs = 5_000
const lastTryMs = 1_000

export interface PostgresLedgerParts extends QueueEvents, Lives {
  /** `postgres://…`; the tables are there (migrate). */
  readonly server: string | DatabaseServer
  /** The name of this process, used once. */
  readonly owner: string
  readonly time: ClockParts
  readonly limits: GroupLimits
  /** Whether it has a chain from the beginning, as whoever holds credit for calls must; else its first write begins one. */
  readonly chain?: 'with-first-write'
  readonly onBegun?: () => Promise<void>
  /** Called with the owners of open calls, before it is asked which of them are dead. */
  readonly lookFor?: (owners: ReadonlySet<string>) => Promise<void>
  /** Work that has to be durable before the end of a call that is given now, which never rejects; undefined where there is none. */
  readonly before?: () => Promise<unknown> | undefined
  /** How long the end of a call waits for that before its caller gets an error, milliseconds; it is kept all the same. */
  readonly patienceMs?: number
  /** The longest that a statement may take, milliseconds: then the connection counts as lost. */
  readonly deadlineMs: number
  /** Makes its connections, which are PostgreSQL's where it is left out. */
  readonly connect?: ((options: ConnectionOptions) => LedgerConnection) | undefined
}

type Parts = ReturnType<typeof partsOf>

/** How long the answer to a probe is waited for, milliseconds. */
const probeMs = 1_000

async function isAnswered(probe: Promise<void>): Promise<boolean> {
  const late = Promise.withResolvers<false>()
  const timer = setTimeout(() => late.resolve(false), probeMs)
  try {
    return await Promise.race([probe.then(() => true), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

export class PostgresLedger extends LedgerCore<KnownWallet> implements LedgerStore, LedgerUpkeep {
  readonly #parts: Parts
  #lastWriteCheck = Number.NEGATIVE_INFINITY
  #probing: Promise<void> | undefined

  /** Connects. Throws ConnectionLost when the server cannot be reached. */
  static async open(given: PostgresLedgerParts): Promise<PostgresLedger> {
    const parts = partsOf(given)
    await Promise.all([parts.reads.open(), parts.transactions.open()])
    if (given.chain === undefined) await parts.transactions.begin()
    return new PostgresLedger(parts)
  }

  private constructor(parts: Parts) {
    const { given, wallets, draft, time, group } = parts
    super({
      wallets,
      writes: draft,
      time,
      commands: {
        admit: (need, run) => group.admit(need, run),
        decide: (need, haste, run) => group.decide(need, haste, run),
        conclude(need, run, record) {
          const before = given.before?.()
          if (!before) return group.conclude(need, run, record)
          return patiently(given.patienceMs ?? endPatienceMs, group.conclude(need, run, record, before))
        },
      },
      written: group,
      isDead: given.isDead,
      isRunning: given.isRunning,
      expiring: (now) => read(parts, () => findExpiring(parts.reads, now)),
      abandoned: (now) => read(parts, () => findAbandoned(parts, now)),
    })
    this.#parts = parts
  }

  /**
   * Takes up what dead processes have left in these spill files, of which the first is this one's own from now on. What
   * cannot be carried out is said to `refused`. Resolves when all else is in the database, or waits for it in the file.
   */
  async takeOver(
    spills: readonly SpillFile[],
    refused: (spill: SpillFile, record: SpillRecord, error: unknown) => void,
  ): Promise<void> {
    const [own] = spills
    const left = spills.map((spill) => [spill, spill.read() as SpillRecord[]] as const)
    if (own) this.#parts.group.spillTo(own)
    for (const [spill, records] of left) {
      let isWritten = true
      const taken = records.map((record) =>
        this.queue(record).catch((error: unknown) => {
          if (error instanceof GatewayError && error.code === 'store_unavailable') isWritten = false
          else refused(spill, record, error)
        }),
      )
      await Promise.all(taken)
      if (records.length > 0 && isWritten) spill.clear()
    }
  }

  now(): number {
    return this.#parts.time.now()
  }

  balance(account: string): Promise<Balance> {
    const { reads, time } = this.#parts
    return read(this.#parts, async () => {
      const [loaded] = await loadWallets(reads, [account], [])
      return balanceOf(loaded?.wallet ?? emptyWallet(account), time.now())
    })
  }

  keySpend(key: string, windowStart: number): Promise<KeySpend> {
    return read(this.#parts, async () => {
      const figures = await loadKeys(this.#parts.reads, [key])
      return spendSince(figures.get(key)!, windowStart)
    })
  }

  budgetSpend(budgets: readonly CountedBudget[]): Promise<readonly KeySpend[]> {
    return read(this.#parts, async () => {
      const asked = budgets.map(({ scope, windowStart: window }) => ({ scope, window }))
      const found = await loadBudgets(this.#parts.reads, asked)
      return asked.map(({ scope, window }) => {
        const { spent, held } = found.find((budget) => budget.scope === scope && budget.window === window)!
        return { spent, held }
      })
    })
  }

  totals(account: string): Promise<Totals> {
    return read(this.#parts, async () => {
      // Sums as texts: a lifetime of top-ups may exceed what an integer holds.
      const [row] = await this.#parts.reads.send<{ readonly purchased: string; readonly used: string }>(
        `SELECT coalesce(sum(granted) FILTER (WHERE pool = 'purchased'), 0)::text AS purchased,
           (coalesce(sum(granted::numeric - remaining - expired - refunded), 0)
             + coalesce((SELECT spent FROM credit_line WHERE account = $1), 0))::text AS used
         FROM lot WHERE account = $1 AND id NOT LIKE $2`,
        [account, `${loanPrefix.replaceAll('_', String.raw`\_`)}%`],
      )
      return { purchased: BigInt(row!.purchased), used: BigInt(row!.used) }
    })
  }

  hasMonthly(account: string, until: number): Promise<boolean> {
    return read(this.#parts, async () => {
      const found = await this.#parts.reads.send(
        `SELECT id FROM lot WHERE account = $1 AND pool = 'purchased' AND expires_at = $2 AND source LIKE '${monthlyPrefix}%'
         LIMIT 1`,
        [account, until],
      )
      return found.length > 0
    })
  }

  call(account: string, id: string): Promise<CallRecord | undefined> {
    return read(this.#parts, () => recordOf(this.#parts.reads, account, id))
  }

  recordPrice(version: string, model: string, price: string): void {
    this.#parts.draft.notePrice(version, model, price)
  }

  audit(): Promise<AuditReport> {
    return auditAll(this.#parts.given.server)
  }

  auditDay(day: number): Promise<DayAudit> {
    return auditDay(this.#parts.given.server, day)
  }

  /** A server that does not answer for a second is none that can be written: whoever asks has a deadline, too. */
  async writable(): Promise<boolean> {
    const { group, transactions, time } = this.#parts
    const now = performance.now()
    if (this.#probing === undefined && now - this.#lastWriteCheck > 1000) {
      this.#lastWriteCheck = now
      this.#probing = group.probe(() => transactions.touch()).finally(() => (this.#probing = undefined))
    }
    if (this.#probing && !(await isAnswered(this.#probing))) return false
    return group.writable && !time.tooFarBehind
  }

  /** What waits for a commit, and how long commits have taken. */
  get commits(): Pick<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs'> {
    const { group } = this.#parts
    return { ...group.times, commandsWaiting: group.waiting }
  }

  /** Writes what is queued; a group whose outcome the database does not tell is given up after five seconds. */
  async close(): Promise<void> {
    const { group, transactions, reads, writer } = this.#parts
    // Where it was away before, one more try is enough: whoever stops this process kills it after some seconds.
    const patienceMs = group.writable ? closePatienceMs : lastTryMs
    const patience = setTimeout(() => {
      transactions.stop()
      void writer.close()
    }, patienceMs)
    try {
      await group.close()
    } finally {
      clearTimeout(patience)
      await Promise.all([reads.close(), writer.close()])
    }
  }
}

/** Rejects with `store_unavailable` when it takes longer than that; it goes on. */
async function patiently<T>(ms: number, done: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(unavailable(undefined)), ms)
  try {
    return await Promise.race([done, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function partsOf(given: PostgresLedgerParts) {
  const options = { settings: lookupsOnly, deadlineMs: given.deadlineMs }
  const { connect = (of: ConnectionOptions): LedgerConnection => new Connection(given.server, of) } = given
  const writer = connect(options)
  const reads = connect(options)
  const wallets = new KnownWallets()
  const time = new LedgerClock(given.time, () => wallets.latest)
  const draft = new GroupDraft(wallets, given.time.clock)
  const transactions = new PostgresTransactions({
    connection: writer,
    wallets,
    draft,
    time,
    owner: given.owner,
    onBegun: given.onBegun,
  })
  const group = new CommitQueue(transactions, given.limits, given)
  return { given, writer, reads, wallets, time, draft, transactions, group }
}

/** Reads, and once more on a new connection where the old one is lost. Throws `store_unavailable` where that fails. */
async function read<T>({ reads }: Parts, act: () => Promise<T>): Promise<T> {
  const { session } = reads
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof ConnectionLost)) throw isOutage(error) ? unavailable(error) : error
  }
  try {
    await reads.renewFrom(session)
    return await act()
  } catch (error) {
    throw isOutage(error) ? unavailable(error) : error
  }
}

async function findExpiring(reads: LedgerConnection, now: number): Promise<readonly string[]> {
  const rows = await reads.send<{ readonly account: string }>(
    'SELECT account FROM lot WHERE live = 1 AND expires_at <= $1 AND remaining > pinned',
    [BigInt(now)],
  )
  // Not distinct in SQL: the planner would read an index by account, and so all lots that have something left.
  return [...new Set(rows.map(({ account }) => account))]
}

async function findAbandoned({ reads, given }: Parts, now: number) {
  const rows = await reads.send<Row<'openCall', 'id' | 'account' | 'owner' | 'lease_until'>>(
    'SELECT id, account, owner, lease_until FROM open_call ORDER BY opened_at, id',
  )
  await given.lookFor?.(new Set(rows.map(({ owner }) => owner)))
  return abandonedAmong(rows, given, now)
}

/** The account has paid for the call, or its person has made it. */
const isOf = `(account = $2 OR (in_group IS NOT NULL AND in_group::json ->> 'person' = $2))`

/** By our id, or by the id the provider gave its answer. */
async function recordOf(
  reads: LedgerConnection,
  account: string,
  id: string,
): Promise<CallRecord | undefined> {
  // A client names what it likes, also what no text of PostgreSQL can be.
  const values = [withoutNul(id), account]
  const [open] = await reads.send<Row<'openCall'>>(
    `SELECT * FROM open_call WHERE id = $1 AND ${isOf}`,
    values,
  )
  if (open) return openRecordOf(open)
  type Ended = Row<'call'> & { readonly settle_chain: bigint | null }
  // The rows of the id first, whatever their order: else the newest calls would be read until one has it.
  const [ended] = await reads.send<Ended>(
    `WITH found AS MATERIALIZED (SELECT * FROM call WHERE id = $1 UNION ALL SELECT * FROM call WHERE upstream_id = $1)
     SELECT * FROM found WHERE ${isOf} ORDER BY (id = $1) DESC, seq DESC LIMIT 1`,
    values,
  )
  if (!ended) return undefined
  const drawn = await reads.send<CallRecord['drawn'][number]>(
    `SELECT journal.lot, lot.pool, -journal.amount AS amount FROM journal
       JOIN lot ON ${isAt('lot.id', 'journal.lot')}
     WHERE journal.chain = $1 AND journal.tx = $2 ORDER BY journal.leg`,
    [ended.settle_chain, ended.settle_tx],
  )
  return endedRecordOf(ended, [...drawn])
}
