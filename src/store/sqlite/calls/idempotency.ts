// Idempotency keys on SQLite. Claims share the ledger's commits, which puts two requests with one key in order.

import type { Database, Statement } from 'bun:sqlite'
import type {
  AnsweredCall,
  Claim,
  ClaimCommand,
  ClaimedCall,
  IdempotencyStore,
  KeptAnswer,
} from '../../../credits/ledger/idempotency.ts'
import type { Lives } from '../../ledger-core.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'
import { whenNeeded } from '../database/sqlite.ts'
import type { Row } from '../../schema.ts'

const sweptAtOnce = 100
/** How long a round forgets; the next goes on. */
const roundMs = 10_000
/** How long after the settle another server may take to store the answer, milliseconds. */
const answerArrivesMs = 30_000

interface ThisProcess extends Pick<Lives, 'isDead'> {
  readonly clock: () => number
  /** Its name in holds. */
  readonly owner: string
}

export class SqliteIdempotency implements IdempotencyStore {
  readonly #ledger: Pick<SqliteLedger, 'admit'>
  readonly #process: ThisProcess
  readonly #sql: () => ReturnType<typeof statements>
  /** Claimed calls of this process that are not finished. */
  readonly #running = new Set<string>()

  constructor(database: Database, ledger: Pick<SqliteLedger, 'admit'>, process: ThisProcess) {
    this.#ledger = ledger
    this.#process = process
    this.#sql = whenNeeded(() => statements(database))
  }

  async claim(command: ClaimCommand): Promise<Claim> {
    try {
      return await this.#ledger.admit(() => this.#claim(command))
    } catch (error) {
      this.#running.delete(command.call)
      throw error
    }
  }

  #claim(command: ClaimCommand): Claim {
    const { account, key, bodyHash, call, expiresAt } = command
    const row = this.#sql().find.get(account, key)
    const standing = row ? this.#standingOf(row) : 'free'
    if (!row || standing === 'free') {
      this.#sql().put.run(account, key, bodyHash, call, this.#process.owner, expiresAt)
      // Inside the transaction: the next command of the group may claim the same key.
      this.#running.add(call)
      return { kind: 'fresh' }
    }
    if (Buffer.compare(row.body_hash, bodyHash) !== 0) return { kind: 'conflict' }
    if (standing === 'running') return { kind: 'running' }
    const answer = standing === 'settled' ? keptAnswerOf(row) : undefined
    const of = answer && this.#sql().answered.get(row.call)
    return of ? { kind: 'answered', answer, of } : { kind: 'lost', call: row.call }
  }

  #standingOf(row: Row<'idempotency'>): 'free' | 'running' | 'settled' | 'recovered' {
    const now = this.#process.clock()
    const mine = row.owner === this.#process.owner
    if (mine && this.#running.has(row.call)) return 'running'
    // A claim that its process gave up, or that outlived it, has the state of its call.
    const abandoned = mine || this.#process.isDead(row.owner)
    const call = this.#sql().call.get(row.call)
    if (!call) return abandoned ? 'free' : 'running'
    if (call.state === 'voided') return 'free'
    // An open call waits for its settle or for recovery.
    if (call.state === 'open') return 'running'
    // The answer was kept for a settle that never happened; recovery charged something else.
    if (call.ending === 'recovered') return 'recovered'
    if (row.status !== null) return Number(row.expires_at) <= now ? 'free' : 'settled'
    return !abandoned && now < Number(call.ended_at) + answerArrivesMs ? 'running' : 'settled'
  }

  async keep({ account, key, call }: ClaimedCall, { status, headers, body }: KeptAnswer): Promise<void> {
    await this.#ledger.admit(() => {
      this.#sql().keep.run(status, JSON.stringify(headers), body, account, key, call)
    })
  }

  async finish({ account, key, call }: ClaimedCall): Promise<void> {
    try {
      await this.#ledger.admit(() => {
        const state = this.#sql().call.get(call)?.state
        if (state === undefined || state === 'voided') this.#sql().free.run(account, key, call)
      })
    } finally {
      this.#running.delete(call)
    }
  }

  async sweep(now: number): Promise<number> {
    let swept = 0
    for (const until = performance.now() + roundMs; performance.now() < until;) {
      const gone = await this.#ledger.admit(() => Number(this.#sql().sweep.run(now, sweptAtOnce).changes))
      swept += gone
      if (gone < sweptAtOnce) break
    }
    return swept
  }
}

function keptAnswerOf({ status, headers, answer }: Row<'idempotency'>): KeptAnswer | undefined {
  if (status === null || headers === null || answer === null) return undefined
  return { status: Number(status), headers: JSON.parse(headers) as Record<string, string>, body: answer }
}

function statements(database: Database) {
  return {
    find: database.prepare<Row<'idempotency'>, [string, string]>(
      `SELECT body_hash, call, owner, status, headers, answer, expires_at FROM idempotency
       WHERE account = ? AND key = ?`,
    ),
    call: database.prepare<{ state: string; ended_at: bigint | null; ending: string | null }, [string]>(
      `SELECT state, ended_at, ending FROM call WHERE id = ?1
       UNION ALL SELECT 'open', NULL, NULL FROM open_call WHERE id = ?1`,
    ),
    answered: database.prepare<AnsweredCall, [string]>(
      `SELECT call.model AS model, coalesce(api_key.lineage, api_key.id) AS line
       FROM call LEFT JOIN api_key ON api_key.id = call.key WHERE call.id = ?`,
    ),
    put: database.prepare(
      `INSERT OR REPLACE INTO idempotency (account, key, body_hash, call, owner, status, headers, answer, expires_at)
       VALUES (?,?,?,?,?,NULL,NULL,NULL,?)`,
    ) as Statement,
    keep: database.prepare(
      `UPDATE idempotency SET status = ?, headers = ?, answer = ? WHERE account = ? AND key = ? AND call = ?`,
    ) as Statement,
    free: database.prepare('DELETE FROM idempotency WHERE account = ? AND key = ? AND call = ?') as Statement,
    // A call may run for longer than its key is kept: without the row a retry would be a second call.
    sweep: database.prepare(
      `DELETE FROM idempotency WHERE (account, key) IN
       (SELECT account, key FROM idempotency WHERE expires_at <= ? AND NOT EXISTS
         (SELECT 1 FROM open_call WHERE open_call.id = idempotency.call) ORDER BY expires_at LIMIT ?)`,
    ) as Statement,
  }
}
