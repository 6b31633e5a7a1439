// Hears from the database when any process has changed accounts, keys, sessions or groups. Silence is only worth something
// while this is known to hear: each process asks the database now and then to say a word to all, and believes the silence
// between the words. A pooler that keeps no session for a listener, or a connection that has died unnoticed, says none.

import { SQL } from 'bun'
import type { DatabaseServer } from '../store.ts'
import { addressOf, type Connection } from './connection.ts'

/** The channel that the triggers of the tables speak on. */
const channel = 'weir_accounts'
/** A payload that is no table's name. */
const word = 'here'
/** Between two words, of whichever process, milliseconds. */
const wordEveryMs = 250
/** How long after a word the silence is believed, milliseconds: with a poll of 250 ms after it, less than a second. */
const provenMs = 600
const retryMs = 250
/** Bun has been seen not to close a pool that is connecting. */
const closeMs = 500

export interface ListenerParts {
  readonly server: string | DatabaseServer
  /** Called with what has changed, by its table and, of a single row, its id; with nothing where anything may have, while nobody listened. */
  readonly onChange: (row?: string) => void
  /** Asks the database for a word, on a connection that others share. May reject. */
  readonly say: (text: string, values: readonly string[]) => ReturnType<Connection['send']>
}

export class Listener {
  readonly #parts: ListenerParts
  #sql: SQL | undefined
  #heardAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setInterval> | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #closing = false

  constructor(parts: ListenerParts) {
    this.#parts = parts
  }

  /** Begins to listen, in the background: until it hears, and where it cannot, `isProven` is false. */
  open(): void {
    void this.#listen()
    this.#timer = setInterval(() => this.#ask(), wordEveryMs)
    this.#timer.unref()
  }

  /** Whether a change of a moment ago would have been heard. */
  get isProven(): boolean {
    return performance.now() - this.#heardAt < provenMs
  }

  async #listen(): Promise<void> {
    const sql: SQL = new SQL({
      ...addressOf(this.#parts.server),
      max: 1,
      idleTimeout: 0,
      maxLifetime: 0,
      onclose: () => this.#onLost(sql),
    })
    this.#sql = sql
    try {
      await sql.listen(channel, this.#onWord, () => {
        this.#parts.onChange()
        this.#ask()
      })
    } catch {
      this.#onLost(sql)
    }
  }

  /** Bun would connect again by itself, and print each try that fails. */
  #onLost(sql: SQL): void {
    if (this.#sql !== sql || this.#closing) return
    this.#sql = undefined
    this.#heardAt = Number.NEGATIVE_INFINITY
    void close(sql)
    this.#retry = setTimeout(() => void this.#listen(), retryMs)
    this.#retry.unref()
  }

  readonly #onWord = (said: string): void => {
    this.#heardAt = performance.now()
    if (said !== word) this.#parts.onChange(said)
  }

  /** One word is enough for all processes. */
  #ask(): void {
    if (performance.now() - this.#heardAt < wordEveryMs / 2) return
    // Where it fails, nothing is heard.
    this.#parts.say('SELECT pg_notify($1, $2)', [channel, word]).catch(() => undefined)
  }

  async close(): Promise<void> {
    this.#closing = true
    clearInterval(this.#timer)
    clearTimeout(this.#retry)
    if (this.#sql) await close(this.#sql)
  }
}

async function close(sql: SQL): Promise<void> {
  await Promise.race([sql.close({ timeout: 0 }), Bun.sleep(closeMs)]).catch(() => undefined)
}
