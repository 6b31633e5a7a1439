// Thought signatures by a key of their tool call, for clients that drop them. Kept in memory at once, in the database soon
// after, for a limited time.

import type { Awaitable } from '../../async/async.ts'
import { LRUCache } from 'lru-cache'
import { AlreadyThere, sql, type Tables, type Work } from './work.ts'

const cachedSignatures = 5_000
const largestSignature = 256 * 1024
const waitingSignatures = 1_000

export interface SignatureParts {
  readonly tables: Tables
  readonly clock: () => number
  /** How long each is kept, milliseconds. */
  readonly livesMs: number
  /** Called when there is something to write, where no commit takes it along. */
  readonly onWaiting?: () => void
}

interface Waiting {
  readonly signature: string
  readonly expiresAt: number
}

export class SqlSignatures {
  readonly #parts: SignatureParts
  readonly #cache = new LRUCache<string, string>({
    max: cachedSignatures,
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: (text) => text.length + 1,
  })
  readonly #waiting = new Map<string, Waiting>()
  #writing: readonly (readonly [key: string, Waiting])[] = []

  constructor(parts: SignatureParts) {
    this.#parts = parts
  }

  /** Stores the signature of a tool call. Absurdly long ones are not stored. */
  remember(key: string, signature: string): void {
    if (signature.length > largestSignature) return
    this.#cache.set(key, signature)
    if (this.#waiting.size >= waitingSignatures) return
    const { clock, livesMs, onWaiting } = this.#parts
    this.#waiting.set(key, { signature, expiresAt: clock() + livesMs })
    onWaiting?.()
  }

  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(key: string): Awaitable<string | undefined> {
    return this.#cache.get(key) ?? this.#readStored(key)
  }

  async #readStored(key: string): Promise<string | undefined> {
    const { tables, clock } = this.#parts
    try {
      const row = await tables.do(() => find.first(key, clock()))
      if (row !== undefined) this.#cache.set(key, row.signature)
      return row?.signature
    } catch {
      return undefined
    }
  }

  get waiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Writes what waits; `onWritten` is called when that has been committed. */
  *write(): Work<void> {
    if (this.#waiting.size === 0) return
    this.#writing = [...this.#waiting]
    for (const [key, { signature, expiresAt }] of this.#writing) {
      try {
        yield* insert.run(key, signature, expiresAt)
      } catch (error) {
        // One that the database refuses must not undo what else is in the transaction.
        if (!(error instanceof AlreadyThere)) throw error
      }
    }
  }

  onWritten(): void {
    for (const [key, written] of this.#writing)
      if (this.#waiting.get(key) === written) this.#waiting.delete(key)
    this.#writing = []
  }
}

const insert = sql(
  `INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)
   ON CONFLICT (tool_call) DO UPDATE SET signature = excluded.signature, expires_at = excluded.expires_at`,
)
const find = sql<{ readonly signature: string }>(
  'SELECT signature FROM signature WHERE tool_call = ? AND expires_at > ?',
)
