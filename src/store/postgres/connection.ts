// One connection to PostgreSQL. Statements go out in the order in which they are given, together where nobody waits in
// between, and each is waited for only so long.

import { type ReservedSQL, SQL } from 'bun'
import type { DatabaseServer } from '../store.ts'
import type { Value } from '../sql/work.ts'

/** How long a statement of the ledger may take: a server that hangs would leave it pending for ever. */
export const ledgerDeadlineMs = 5_000
/** Milliseconds since 1970, of the one clock that all processes have. */
export const databaseNow = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)'

/** How long somebody who could be refused waits for a connection. */
const renewPatienceMs = 1_000
/** A pool with a reserved client has been seen never to close. */
const closeMs = 500

/** No text of PostgreSQL has a NUL: the sign for what cannot be read stands for one. */
export function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text
}

/** No answer came, or none can come: whether the statement was carried out is not known. */
export class ConnectionLost extends Error {}

export interface ConnectionOptions {
  /** Of the session, such as `enable_seqscan = off`. */
  readonly settings?: readonly string[]
  /** The longest that a statement may take, milliseconds. */
  readonly deadlineMs: number
}

/** A process that is stopped between two statements would keep from all others what it has locked. */
export const idleTransaction = 'idle_in_transaction_session_timeout = 2000'

/** What the ledger's statements need: plans that were made while a table was small must not read all of it later. */
export const lookupsOnly: readonly string[] = [
  'enable_seqscan = off',
  'enable_hashjoin = off',
  'enable_mergejoin = off',
  'plan_cache_mode = force_generic_plan',
  'jit = off',
  `statement_timeout = ${ledgerDeadlineMs}`,
  'lock_timeout = 4000',
  idleTransaction,
]

/** What the ledger needs of a connection. */
export type LedgerConnection = Pick<
  Connection,
  'open' | 'renew' | 'renewFrom' | 'session' | 'send' | 'isOpen' | 'close'
>

export class Connection {
  readonly #server: string | DatabaseServer
  readonly #settings: readonly string[]
  readonly #deadlineMs: number
  #pool: SQL | undefined
  #client: ReservedSQL | undefined
  #isCut = false
  #renewing: Promise<void> | undefined
  #renewingSince = 0
  #last: { cancel(): unknown } | undefined

  constructor(server: string | DatabaseServer, { settings = [], deadlineMs }: ConnectionOptions) {
    this.#server = server
    this.#settings = settings
    this.#deadlineMs = deadlineMs
  }

  /** Throws ConnectionLost when the server cannot be reached. */
  async open(): Promise<void> {
    const address = addressOf(this.#server)
    const pool = new SQL({
      ...address,
      max: 1,
      // Otherwise integers of 8 bytes come as texts.
      bigint: true,
      connectionTimeout: this.#deadlineMs / 1000,
      idleTimeout: 0,
      maxLifetime: 0,
      onclose: () => {
        if (this.#pool === pool) this.#isCut = true
      },
    })
    this.#pool = pool
    this.#isCut = false
    try {
      const client = await this.#within(pool.reserve())
      if (this.#pool !== pool) {
        // Closed meanwhile.
        void client.release()
        throw new ConnectionLost('the connection is not wanted any more')
      }
      this.#client = client
    } catch (error) {
      // A certificate or a password that is refused now may be in order after the next failover.
      throw error instanceof ConnectionLost
        ? error
        : new ConnectionLost('the connection was refused', { cause: error })
    }
    // A pooler would give them to whoever gets the connection next.
    if (address.prepare && this.#settings.length > 0)
      await this.run(this.#settings.map((each) => `SET ${each}`).join('; '))
  }

  /**
   * Sends a statement now, whether or not the promise is awaited: rows as objects, integers as bigint. Rejects with
   * ConnectionLost where no answer has come, else with what the server says (`stateOf`).
   */
  send<Row>(text: string, values: readonly Value[] = []): Promise<readonly Row[]> {
    const client = this.#client
    if (!client) return Promise.reject(new ConnectionLost('not connected'))
    // Queries are lazy: without `execute` they would go out in the order in which they are awaited.
    const query = client.unsafe<Row[]>(text, [...values])
    this.#last = query
    return this.#within(query.execute())
  }

  /** Asks the server to give up the statement that was sent last. The connection is of no use after it: a late request meets the next one. */
  cancel(): void {
    this.#last?.cancel()
  }

  /** The same for a write: how many rows it has written. */
  async write(text: string, values: readonly Value[]): Promise<number> {
    const rows = await this.send<unknown>(text, values)
    return Number((rows as unknown as { readonly count: number }).count)
  }

  /**
   * Sends the rows of a table as `COPY … FROM STDIN` reads them, piece by piece: each piece is asked for when the one before
   * is on its way. Rejects with what the server says, which takes no row of them then.
   */
  async copyIn(text: string, pieces: Iterable<string>): Promise<void> {
    const client = this.#client
    if (!client) throw new ConnectionLost('not connected')
    const writer = client.unsafe(text).writable().getWriter()
    for (const piece of pieces) await this.#within(writer.write(piece))
    await this.#within(writer.close())
  }

  /** Ends a transaction. False where the server has given it up before. */
  async commit(): Promise<boolean> {
    const done = await this.send<unknown>('COMMIT')
    return (done as unknown as { readonly command: string }).command === 'COMMIT'
  }

  get isOpen(): boolean {
    return this.#client !== undefined
  }

  /** Whether the server's end was not seen to close either: nothing has to be sent to find out. */
  get isAlive(): boolean {
    return this.isOpen && !this.#isCut
  }

  /** Several statements without values, in one transaction of their own unless they say otherwise. */
  async run(text: string): Promise<void> {
    const client = this.#client
    if (!client) throw new ConnectionLost('not connected')
    await this.#within(client.unsafe(text).simple().execute())
  }

  async #within<T>(answer: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(new ConnectionLost('no answer')), this.#deadlineMs)
    try {
      return await Promise.race([answer, late.promise])
    } catch (error) {
      throw isLoss(error) ? new ConnectionLost('the connection was lost', { cause: error }) : error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Begins anew: what was sent before may still be carried out, and nobody will hear of it. */
  async renew(): Promise<void> {
    void this.close()
    await this.open()
  }

  /** What is open now. */
  get session(): unknown {
    return this.#client
  }

  /**
   * Begins anew where nobody has since that one was open. Those who have lost it together share the new one. Throws
   * ConnectionLost when that takes long: a proxy without a server behind it lets everybody wait. It goes on for whoever
   * comes later.
   */
  async renewFrom(session: unknown): Promise<void> {
    if (!this.#renewing) {
      if (this.#client !== session) return
      this.#renewingSince = performance.now()
      this.#renewing = this.renew().finally(() => (this.#renewing = undefined))
    }
    const restMs = this.#renewingSince + renewPatienceMs - performance.now()
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(new ConnectionLost('no connection yet')), Math.max(0, restMs))
    try {
      await Promise.race([this.#renewing, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }

  async close(): Promise<void> {
    const pool = this.#pool
    const client = this.#client
    this.#pool = undefined
    this.#client = undefined
    // While a client is reserved, closing the pool leaves the connection open.
    await Promise.resolve(client?.release()).catch(() => undefined)
    await Promise.race([pool?.close({ timeout: 0 }), Bun.sleep(closeMs)]).catch(() => undefined)
  }
}

/** How Bun is told of a server. The mode of TLS is in its address; without authorities those of the system are asked. */
export function addressOf(server: string | DatabaseServer) {
  const { url, ca, prepare = true } = typeof server === 'string' ? { url: server } : server
  return { url, ...(ca === undefined ? {} : { tls: { ca } }), prepare }
}

/** The SQLSTATE of an error of the server; empty for any other. */
export function stateOf(error: unknown): string {
  return error instanceof SQL.PostgresError ? String(error.errno ?? '') : ''
}

/**
 * The server cannot do now what it does else: it has no room or no memory, is being stopped, has waited for a lock, or may
 * not. Nothing is wrong with what it was asked.
 */
const unable = /^(08|25|40|53|55|57|58|42501)/

/** Whether the database is as good as away: what it was asked may be asked again later. */
export function isOutage(error: unknown): boolean {
  return error instanceof ConnectionLost || unable.test(stateOf(error))
}

/** Whether no later statement on the connection can be answered either. */
function isLoss(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true
  // 08: connection; 57P0x: the server is ending; 25006: it only reads, as a replica does; 53300: too many connections; 25P03: a transaction stood still.
  if (/^(08|57P0|25006|25P03|53300)/.test(stateOf(error))) return true
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return /^ERR_POSTGRES_(CONNECTION|IDLE|LIFETIME)/.test(code) || unreachable.has(code)
}

const unreachable: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'FailedToOpenSocket',
])
