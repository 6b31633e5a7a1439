// Idempotency keys. Claims stand in order with the ends of calls, which puts two requests with one key in order.

import type { Awaitable } from '../../async/async.ts'
import type {
  AnsweredCall,
  Claim,
  ClaimCommand,
  ClaimedCall,
  IdempotencyStore,
  KeptAnswer,
  KeyedCall,
} from '../../credits/ledger/ledger.ts'
import type { Row } from '../schema.ts'
import { type OrderedTables, sql, type Work } from './work.ts'

const sweptAtOnce = 100
/** How long a round forgets; the next goes on. */
const roundMs = 10_000
/** How long after the settle another server may take to store the answer, milliseconds. */
const answerArrivesMs = 30_000

export interface ThisProcess {
  /** Whether a process, by its name in holds, is known to have ended. */
  readonly isDead: (owner: string) => Awaitable<boolean>
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Its name in holds. */
  readonly owner: string
}

/** Of the owners of claims, whether they are dead, or who is being asked. */
type Deaths = Map<string, Awaitable<boolean>>

/** Whether the owner of the claim that was found is dead has to be asked first. */
interface Unsure {
  readonly kind: 'unsure'
  readonly owner: string
}

export class SqlIdempotency implements IdempotencyStore {
  readonly #tables: OrderedTables
  readonly #process: ThisProcess
  /** Claimed calls of this process that are not finished. */
  readonly #running = new Set<string>()

  constructor(tables: OrderedTables, process: ThisProcess) {
    this.#tables = tables
    this.#process = process
  }

  async claim(command: ClaimCommand): Promise<Claim> {
    const deaths: Deaths = new Map()
    let hasPut = false
    const onPut = () => {
      hasPut = true
      // Inside the transaction: the next one may claim the same key.
      this.#running.add(command.call)
    }
    let claim: Claim | Unsure | undefined
    try {
      for (;;) {
        claim = await this.#tables.admit(() => this.#claim(command, deaths, onPut))
        if (claim.kind !== 'unsure') return claim
        // No transaction waits for the answer.
        deaths.set(claim.owner, await deaths.get(claim.owner)!)
      }
    } finally {
      if (hasPut && claim?.kind !== 'fresh') this.#running.delete(command.call)
    }
  }

  async keep({ account, key, call }: ClaimedCall, { status, headers, body }: KeptAnswer): Promise<void> {
    await this.#tables.admit(() =>
      idempotency.keep.run(status, JSON.stringify(headers), body, account, key, call),
    )
  }

  async finish({ account, key, call }: ClaimedCall): Promise<void> {
    try {
      await this.#tables.admit(function* () {
        const state = (yield* idempotency.call.first(call))?.state
        if (state === undefined || state === 'voided') yield* idempotency.free.run(account, key, call)
      })
    } finally {
      this.#running.delete(call)
    }
  }

  claimsOf(calls: readonly string[]): Awaitable<readonly KeyedCall[]> {
    return this.#tables.do(function* () {
      const rows = yield* idempotency.ofCalls.all(JSON.stringify(calls))
      return rows.map(({ key, body_hash: bodyHash, call }) => ({ key, bodyHash, call }))
    })
  }

  async sweep(now: number): Promise<number> {
    let swept = 0
    for (const until = performance.now() + roundMs; performance.now() < until;) {
      const gone = await this.#tables.admit(() => idempotency.sweep.run(now, sweptAtOnce))
      swept += gone
      if (gone < sweptAtOnce) break
    }
    return swept
  }

  *#claim(command: ClaimCommand, deaths: Deaths, onPut: () => void): Work<Claim | Unsure> {
    const { account, key, bodyHash, call, expiresAt } = command
    const row = yield* idempotency.find.first(account, key)
    const standing = row ? yield* this.#standingOf(row, deaths) : 'free'
    if (!row || standing === 'free') {
      yield* idempotency.put.run(account, key, bodyHash, call, this.#process.owner, expiresAt)
      onPut()
      return { kind: 'fresh' }
    }
    if (standing === 'unsure') return { kind: 'unsure', owner: row.owner }
    if (Buffer.compare(row.body_hash, bodyHash) !== 0) return { kind: 'conflict' }
    if (standing === 'running') return { kind: 'running' }
    const answer = standing === 'settled' ? keptAnswerOf(row) : undefined
    const of = answer && (yield* idempotency.answered.first(row.call))
    return of ? { kind: 'answered', answer, of } : { kind: 'lost', call: row.call }
  }

  *#standingOf(
    row: ClaimRow,
    deaths: Deaths,
  ): Work<'free' | 'running' | 'settled' | 'recovered' | Unsure['kind']> {
    const now = this.#process.clock()
    const mine = row.owner === this.#process.owner
    if (mine && this.#running.has(row.call)) return 'running'
    // A claim that its process gave up, or that outlived it, has the state of its call.
    const abandoned = mine || this.#isDead(row.owner, deaths)
    if (abandoned === undefined) return 'unsure'
    const call = yield* idempotency.call.first(row.call)
    if (!call) return abandoned ? 'free' : 'running'
    if (call.state === 'voided') return 'free'
    // An open call waits for its settle or for recovery.
    if (call.state === 'open') return 'running'
    // The answer was kept for a settle that never happened; recovery charged something else.
    if (call.ending === 'recovered') return 'recovered'
    if (row.status !== null) return Number(row.expires_at) <= now ? 'free' : 'settled'
    return !abandoned && now < Number(call.ended_at) + answerArrivesMs ? 'running' : 'settled'
  }

  /** undefined where that can only be said later. */
  #isDead(owner: string, deaths: Deaths): boolean | undefined {
    const said = deaths.get(owner) ?? this.#process.isDead(owner)
    if (!(said instanceof Promise)) return said
    // Whoever waits for it has the error.
    said.catch(() => undefined)
    deaths.set(owner, said)
    return undefined
  }
}

function keptAnswerOf({ status, headers, answer }: ClaimRow): KeptAnswer | undefined {
  if (status === null || headers === null || answer === null) return undefined
  return { status: Number(status), headers: JSON.parse(headers) as Record<string, string>, body: answer }
}

type ClaimRow = Row<
  'idempotency',
  'body_hash' | 'call' | 'owner' | 'status' | 'headers' | 'answer' | 'expires_at'
>

const idempotency = {
  find: sql<ClaimRow>(
    `SELECT body_hash, call, owner, status, headers, answer, expires_at FROM idempotency
     WHERE account = ? AND key = ?`,
  ),
  call: sql<{ state: string; ended_at: bigint | null; ending: string | null }>(
    `SELECT state, ended_at, ending FROM call WHERE id = ?1
     UNION ALL SELECT 'open', NULL, NULL FROM open_call WHERE id = ?1`,
  ),
  answered: sql<AnsweredCall>(
    `SELECT call.model AS model, coalesce(api_key.lineage, api_key.id) AS line
     FROM call LEFT JOIN api_key ON api_key.id = call.key WHERE call.id = ?`,
  ),
  put: sql(
    `INSERT INTO idempotency (account, key, body_hash, call, owner, status, headers, answer, expires_at)
     VALUES (?,?,?,?,?,NULL,NULL,NULL,?)
     ON CONFLICT (account, key) DO UPDATE SET body_hash = excluded.body_hash, call = excluded.call,
       owner = excluded.owner, status = NULL, headers = NULL, answer = NULL, expires_at = excluded.expires_at`,
  ),
  keep: sql(
    'UPDATE idempotency SET status = ?, headers = ?, answer = ? WHERE account = ? AND key = ? AND call = ?',
  ),
  ofCalls: sql<Row<'idempotency', 'key' | 'body_hash' | 'call'>>(
    'SELECT key, body_hash, call FROM idempotency WHERE call IN LIST(?)',
  ),
  free: sql('DELETE FROM idempotency WHERE account = ? AND key = ? AND call = ?'),
  // A call may run for longer than its key is kept: without the row a retry would be a second call.
  sweep: sql(
    `DELETE FROM idempotency WHERE (account, key) IN
     (SELECT account, key FROM idempotency WHERE expires_at <= ? AND NOT EXISTS
       (SELECT 1 FROM open_call WHERE open_call.id = idempotency.call) ORDER BY expires_at LIMIT ?)`,
  ),
}
