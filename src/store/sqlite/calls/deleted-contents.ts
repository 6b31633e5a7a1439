// Erases what deleted accounts have asked and were answered. What was counted and charged stays.

import type { Database } from 'bun:sqlite'
import type { ResponseStore } from '../../../responses/response-store.ts'
import { reading } from '../database/outage.ts'
import { whenNeeded } from '../database/when-needed.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'

/** Rows of the request log that are read, and written if they have contents, at once; these may be large. */
const rowsAtOnce = 64
const answersAtOnce = 32
/** How long an account is looked at again after its deletion: no call that was in flight runs for longer. */
const watchedMs = 86_400_000
/** How far the clock may have been set back meanwhile. */
const clockBackMs = 3_600_000

type Group = Pick<SqliteLedger, 'admit'>

export class DeletedContents {
  readonly #responses: Pick<ResponseStore, 'forgetAccount'>
  readonly #group: Group
  readonly #sql: () => ReturnType<typeof statements>
  /** When each account was deleted whose calls may still be ending; undefined before the first sweep. */
  #watched: Map<string, number> | undefined

  constructor(database: Database, group: Group, responses: Pick<ResponseStore, 'forgetAccount'>) {
    this.#responses = responses
    this.#group = group
    this.#sql = whenNeeded(() => statements(database))
  }

  /** Erases the contents of an account that was deleted at `deletedAt`; the sweep erases those that come later. */
  async erase(account: string, deletedAt: number): Promise<void> {
    this.#watched?.set(account, deletedAt)
    await this.#erase(account, 0)
  }

  /**
   * Erases what calls in flight have left since their account was deleted; at first, what anything has left of any
   * deleted account. Resolves with the number of accounts that had something.
   */
  async sweep(now: number): Promise<number> {
    const isFirst = this.#watched === undefined
    const watched = (this.#watched ??= new Map(
      reading(() => this.#sql().deleted.all()).map(({ id, at }) => [id, Number(at)]),
    ))
    let erased = 0
    for (const [account, deletedAt] of watched) {
      if (await this.#erase(account, isFirst ? 0 : deletedAt - clockBackMs)) erased++
      if (deletedAt <= now - watchedMs) watched.delete(account)
    }
    return erased
  }

  /** Whether there was anything, in rows of the log from `since` on. */
  async #erase(account: string, since: number): Promise<boolean> {
    let found = false
    if (reading(() => this.#sql().response.get(account)) !== null) {
      found = true
      await this.#responses.forgetAccount(account)
    }
    while (reading(() => this.#sql().answer.get(account)) !== null) {
      found = true
      await this.#group.admit(() => this.#sql().eraseAnswers.run(account, answersAtOnce))
    }
    return (await this.#eraseLog(account, since)) || found
  }

  async #eraseLog(account: string, since: number): Promise<boolean> {
    let found = false
    let [at, seq] = [BigInt(since), -1n]
    for (;;) {
      const rows = reading(() => this.#sql().rows.all(account, at, seq, rowsAtOnce))
      const full = rows.filter(({ full }) => full !== 0n)
      if (full.length > 0) {
        found = true
        await this.#group.admit(() => {
          for (const row of full) this.#sql().eraseRow.run(row.seq)
        })
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < rowsAtOnce) return found
      ;({ at, seq } = last)
      // Calls go on while the log of a busy account is read.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

function statements(database: Database) {
  return {
    deleted: database.prepare<{ id: string; at: bigint }, []>(
      'SELECT id, deleted_at AS at FROM account WHERE deleted_at IS NOT NULL',
    ),
    response: database.prepare<{ 1: bigint }, [string]>('SELECT 1 FROM response WHERE account = ? LIMIT 1'),
    answer: database.prepare<{ 1: bigint }, [string]>(
      'SELECT 1 FROM idempotency WHERE account = ? AND answer IS NOT NULL LIMIT 1',
    ),
    eraseAnswers: database.prepare(
      `UPDATE idempotency SET answer = NULL WHERE (account, key) IN
       (SELECT account, key FROM idempotency WHERE account = ? AND answer IS NOT NULL LIMIT ?)`,
    ),
    rows: database.prepare<
      { at: bigint; seq: bigint; full: bigint },
      [string, bigint | number, bigint, number]
    >(
      `SELECT at, seq, contents IS NOT NULL OR detail IS NOT NULL AS full FROM request_log
       WHERE account = ?1 AND at >= ?2 AND (at > ?2 OR seq > ?3) ORDER BY at, seq LIMIT ?4`,
    ),
    // What a provider said of a fault may quote what it was asked.
    eraseRow: database.prepare('UPDATE request_log SET contents = NULL, detail = NULL WHERE seq = ?'),
  }
}
