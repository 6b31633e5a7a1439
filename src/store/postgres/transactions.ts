// The groups of a process on PostgreSQL, one at a time: loaded, decided in memory, written as one guarded statement. What
// the connection does not answer is fenced before anything else is decided.

import type { CommitFault, NeededRows, Transactions } from '../commits/durability.ts'
import type { LedgerClock } from '../ledger-core.ts'
import { genesis } from '../ledger-rows.ts'
import { ConnectionLost, databaseNow, isOutage, type LedgerConnection, stateOf } from './connection.ts'
import type { GroupDraft, Drafted } from './draft.ts'
import { type Chain, isAt, lookUp, nameOfBudget, type Written } from './group.ts'
import type { KnownWallets } from './wallets.ts'

/** How often a group is decided again; a group that locks its wallets first can only fail for what it did not know. */
const mostTries = 10
/** After so many failed guesses a group locks what it reads. */
const triesUnlocked = 2
/** How often guesses fail lately, beyond which groups lock at once: a group that fails costs more than the lock. */
const staleEnough = 0.25
/** How much of that the last group makes. */
const lastGroupPart = 0.1
const reconnectMs = 100
/** A connection that is lost so soon is opened again for the same group; whoever has waited longer gets an error. */
const quickLossMs = 1_000
/** How long a process counts as alive after a sign of life, milliseconds. */
export const heartbeatMs = 10_000

/** The database stands before what it has acknowledged: a server took over that did not have it all. */
export class HistoryLost extends Error {}

/** Others were always there first. */
class Overtaken extends Error {}

/** Somebody has taken this process for dead and its chain with it. */
export class Fenced extends Error {}

/** The server's word that nothing was written: deadlock, lock timeout, an id or a source that another has used first. */
const raced: ReadonlySet<string> = new Set(['40P01', '40001', '55P03', '23505'])

export interface TransactionParts {
  readonly connection: LedgerConnection
  readonly wallets: KnownWallets
  readonly draft: GroupDraft
  readonly time: LedgerClock
  /** The name of this process in `chain`. */
  readonly owner: string
  /** Called when this process has its row in `chain`, before anything is written. */
  readonly onBegun?: (() => Promise<void>) | undefined
}

export class PostgresTransactions implements Transactions {
  readonly #parts: TransactionParts
  #chain: Chain | undefined
  /** Whether the connection is open and the chain is ours, as far as is known. */
  #up = false
  /** A group whose outcome nobody has found out: this process must not decide anything more. */
  #inDoubt = false
  #stopping = false
  #touched = false
  #staleness = 0

  constructor(parts: TransactionParts) {
    this.#parts = parts
  }

  /** Connects. Throws ConnectionLost when the server cannot be reached. */
  async open(): Promise<void> {
    const { connection, wallets } = this.#parts
    await connection.open()
    const [row] = await connection.send<{ readonly at: bigint }>(
      'SELECT coalesce(max(at), 0) AS at FROM chain',
    )
    wallets.beginAt(Number(row!.at))
  }

  /** Begins a chain of this process's own: before its first group, or when others are to know of it. */
  async begin(): Promise<void> {
    const { connection, owner, onBegun } = this.#parts
    if (!connection.isOpen) await connection.renew()
    // There is a row where the answer to the first try was lost.
    const [row] = await connection.send<{ readonly id: bigint; readonly epoch: bigint }>(
      `INSERT INTO chain (owner, epoch, batch, tx, head, at, heartbeat_until)
       SELECT $1, 1, 0, 0, decode($2, 'hex'), coalesce(max(at), 0), ${databaseNow} + ${heartbeatMs} FROM chain
       ON CONFLICT (owner) DO UPDATE SET epoch = chain.epoch + 1 RETURNING id, epoch`,
      [owner, genesis.toHex()],
    )
    await onBegun?.()
    this.#chain = { id: row!.id, epoch: row!.epoch, batch: 0n, tx: 0, head: genesis }
    this.#up = true
  }

  async commit<T>(needs: readonly NeededRows[], run: () => T): Promise<T> {
    const began = performance.now()
    try {
      return await this.#tryToCommit(needs, run)
    } catch (error) {
      // An idle connection may have been cut long ago, which shows with the next statement.
      const isQuick = performance.now() - began < quickLossMs
      if (!(error instanceof ConnectionLost) || !isQuick || this.#inDoubt || this.#stopping) throw error
      return await this.#tryToCommit(needs, run)
    } finally {
      this.#touched = false
    }
  }

  async #tryToCommit<T>(needs: readonly NeededRows[], run: () => T): Promise<T> {
    try {
      if (this.#inDoubt) throw new ConnectionLost('the outcome of a group is not known')
      if (!this.#chain) await this.begin()
      else if (!this.#up) await this.#returnToChain()
      return await this.#commit(needs, run)
    } catch (error) {
      this.#parts.wallets.undo()
      // Also where it was lost before anything was sent: else nobody would connect again.
      if (error instanceof ConnectionLost) {
        this.forget()
        this.#up = false
      }
      throw error
    }
  }

  async #commit<T>(needs: readonly NeededRows[], run: () => T): Promise<T> {
    const { connection, wallets, draft, time } = this.#parts
    const began = performance.now()
    for (let tries = 0; tries < mostTries; tries++) {
      const locks = tries >= triesUnlocked || this.#staleness > staleEnough
      if (!locks) await wallets.load(connection, needs)
      else if (!(await this.#lock(needs))) continue
      time.forget()
      draft.begin(this.#chain!)
      let value: T
      try {
        value = run()
      } catch (error) {
        if (locks) await connection.send('ROLLBACK')
        throw error
      }
      const doubtful = wallets.doubtful(began)
      if (doubtful.accounts.length + doubtful.budgets.length > 0) {
        if (locks) await connection.send('ROLLBACK')
        wallets.undo(doubtful)
        continue
      }
      const drafted = draft.finish()
      if (drafted.isEmpty && !this.#touched) {
        if (locks) await connection.send('ROLLBACK')
        wallets.undo()
        return value
      }
      const written = await this.#write(drafted, locks)
      if (written.kind === 'written') {
        if (!locks) this.#staleness *= 1 - lastGroupPart
        return value
      }
      await this.#learn(written)
    }
    throw new Overtaken(`a group was decided ${mostTries} times`)
  }

  /** Forgets what a refused group has shown to be old, or throws where the chain is not ours any more. */
  async #learn(written: Exclude<Written, { kind: 'written' }>): Promise<void> {
    const { wallets, draft } = this.#parts
    // A fence of our own, whose answer never came, may have arrived behind the next one.
    if (written.kind === 'not-mine') await this.#returnToChain()
    else if (written.kind === 'used') draft.refuseCalls(written.calls)
    else this.#staleness = this.#staleness * (1 - lastGroupPart) + lastGroupPart
    wallets.undo(written.kind === 'stale' ? written : undefined)
  }

  /**
   * The slower way, in two round trips: wallets and budgets are locked before they are read, so that nobody can come in
   * between. What is sent together is answered together. False when the locks could not be had.
   */
  async #lock(needs: readonly NeededRows[]): Promise<boolean> {
    const { connection, wallets } = this.#parts
    const known = wallets.accountsOf(needs)
    const budgets = wallets.budgetsOf(needs)
    const calls = JSON.stringify(needs.flatMap(({ call }) => call ?? []))
    wallets.undo({ accounts: [...known.keys()], budgets: budgets.map(nameOfBudget) })
    try {
      await Promise.all([
        connection.send('BEGIN'),
        connection.send(lockWallets, [JSON.stringify([...known.keys()]), calls]),
        connection.send(lockBudgets, [JSON.stringify(budgets), calls]),
        wallets.load(connection, needs),
      ])
    } catch (error) {
      if (error instanceof ConnectionLost) throw error
      await connection.send('ROLLBACK')
      if (raced.has(stateOf(error))) return false
      throw error
    }
    const moved = [...known].some(
      ([account, version]) => version !== undefined && wallets.versionOf(account) !== version,
    )
    this.#staleness = this.#staleness * (1 - lastGroupPart) + (moved ? lastGroupPart : 0)
    return true
  }

  async #write(drafted: Drafted, locked: boolean): Promise<Written> {
    const { connection, time } = this.#parts
    const at = time.now()
    for (let inTransaction = locked; ; inTransaction = false) {
      try {
        const { rows, told, next, fresh } = drafted
        const heads = this.#addHeads()
        const sent = rows.send(connection, this.#chain!, told, next, at, fresh)
        const [written] = await (inTransaction
          ? Promise.all([sent, heads, connection.send('COMMIT')])
          : // The group counts by itself: whoever was in the way of these rows has made them.
            Promise.all([sent, heads.catch(unlessRaced)]))
        if (written.kind === 'written') this.#onWritten(drafted)
        return written
      } catch (error) {
        if (raced.has(stateOf(error))) return allStale(drafted)
        if (!(error instanceof ConnectionLost)) throw error
        if (await this.#wasCommitted()) {
          this.#onWritten(drafted)
          return { kind: 'written' }
        }
      }
    }
  }

  /** Rows to be locked, for accounts and budgets that have had nothing yet. */
  async #addHeads(): Promise<void> {
    const { connection, wallets } = this.#parts
    const { accounts, budgets } = wallets.headless()
    await Promise.all([
      accounts.length > 0 && connection.send(addWallets, [JSON.stringify(accounts)]),
      budgets.length > 0 && connection.send(addBudgets, [JSON.stringify(budgets)]),
    ])
  }

  #onWritten({ next }: Drafted): void {
    const chain = this.#chain!
    this.#chain = { ...chain, ...next, batch: chain.batch + 1n }
    this.#parts.wallets.onCommitted()
    this.#parts.draft.onCommitted()
  }

  /**
   * Whether the group that was under way when the connection was lost is in the database. It waits for the database, for as
   * long as that takes: nothing else can be decided before. Throws when the process stops meanwhile.
   */
  async #wasCommitted(): Promise<boolean> {
    const before = this.#chain!.batch
    this.#inDoubt = true
    for (;;) {
      try {
        const batch = await this.#takeChain()
        if (batch > before + 1n) throw new Fenced(`chain ${this.#chain!.id} was written by another process`)
        this.#inDoubt = false
        return batch > before
      } catch (error) {
        if (!isOutage(error) || this.#stopping) throw error
        await Bun.sleep(reconnectMs)
      }
    }
  }

  /** After a loss between groups, or where somebody has fenced the chain. Throws where it is not as this process has left it. */
  async #returnToChain(): Promise<void> {
    const batch = await this.#takeChain()
    if (batch !== this.#chain!.batch)
      throw new Fenced(`chain ${this.#chain!.id} was written by another process`)
    this.#up = true
  }

  /**
   * Connects anew and fences what was sent before, wherever it still is: by a write, since what is only read may be of a
   * commit that a replica does not have yet. Gives the number of groups that the chain has.
   */
  async #takeChain(): Promise<bigint> {
    const { connection, owner } = this.#parts
    const chain = this.#chain!
    await connection.renew()
    const [row] = await connection.send<{
      readonly owner: string
      readonly epoch: bigint
      readonly batch: bigint
    }>('UPDATE chain SET epoch = epoch + 1 WHERE id = $1 RETURNING owner, epoch, batch', [chain.id])
    if (!row || row.batch < chain.batch)
      throw new HistoryLost(`the chain stands at ${row?.batch ?? 'no batch'}, not at ${chain.batch}`)
    if (row.owner !== owner) throw new Fenced(`chain ${chain.id} was taken by another process`)
    this.#chain = { ...chain, epoch: row.epoch }
    return row.batch
  }

  /** The group under way is written though it may be empty: it counts the chain on. */
  touch(): void {
    this.#touched = true
  }

  /** Both of the first two are final: what this process says from now on may not be true, and it has to end. */
  faultOf(error: unknown): CommitFault {
    if (error instanceof HistoryLost || error instanceof Fenced) return 'lost'
    if (error instanceof Overtaken) return 'busy'
    return isOutage(error) ? 'outage' : 'bug'
  }

  forget(): void {
    this.#parts.wallets.forget()
  }

  /** Does not wait for the database any longer where the outcome of a group is not known. */
  stop(): void {
    this.#stopping = true
  }

  close(): void {
    this.stop()
  }
}

function unlessRaced(error: unknown): void {
  if (!raced.has(stateOf(error))) throw error
}

function allStale({ told }: Drafted): Written {
  const { wallets, budgets } = told
  return {
    kind: 'stale',
    accounts: wallets.map(({ account }) => account),
    budgets: budgets.map(nameOfBudget),
  }
}

const names = '(SELECT value COLLATE "C" AS name FROM json_array_elements_text($1::text::json))'
const budgetList = 'json_to_recordset($1::text::json) AS asked (scope text COLLATE "C", "window" bigint)'

// All that the group will lock, in one order: also what is only known through the calls that it names. Whoever took a lock
// of these later could wait for somebody who waits for it.
const openCalls = `(SELECT one.* FROM json_array_elements_text($2::text::json) AS calls (id)
  ${lookUp('SELECT * FROM open_call WHERE open_call.id = calls.id COLLATE "C"')} AS one)`
export const lockWallets = `WITH wanted AS MATERIALIZED (
    SELECT name AS account FROM ${names} AS accounts UNION SELECT account FROM ${openCalls} AS open
    UNION SELECT (in_group::json ->> 'person') COLLATE "C" FROM ${openCalls} AS open WHERE in_group IS NOT NULL)
  SELECT head.account FROM wanted JOIN wallet_head AS head ON ${isAt('head.account', 'wanted.account')}
  ORDER BY wanted.account FOR UPDATE OF head`
export const lockBudgets = `WITH wanted AS MATERIALIZED (
    SELECT scope, "window" FROM ${budgetList}
    UNION SELECT (budget.value ->> 0) COLLATE "C", (budget.value ->> 1)::bigint
      FROM ${openCalls} AS open, json_array_elements(open.in_group::json -> 'budgets') AS budget)
  SELECT b.scope FROM wanted JOIN budget_spend AS b ON ${isAt('b.scope', 'wanted.scope')} AND b."window" = wanted."window"
  ORDER BY wanted.scope, wanted."window" FOR UPDATE OF b`
const addWallets = `INSERT INTO wallet_head (account, version, at) SELECT name, 0, 0 FROM ${names} AS accounts
  ORDER BY name ON CONFLICT DO NOTHING`
const addBudgets = `INSERT INTO budget_spend (scope, "window", spent, held, version) SELECT scope, "window", 0, 0, 0
  FROM ${budgetList} ORDER BY scope, "window" ON CONFLICT DO NOTHING`
