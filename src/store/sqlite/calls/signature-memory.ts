// Thought signatures by a key of their tool call, for clients that drop them. Kept in memory at once, in the file soon
// after, for a limited time.

import type { Database, Statement } from 'bun:sqlite'
import { LRUCache } from 'lru-cache'
import type { BufferedRows } from '../ledger/ledger-store.ts'
import { isOutage } from '../database/sqlite.ts'

const cachedSignatures = 5_000
const largestSignature = 256 * 1024
const waitingSignatures = 1_000

export class SqliteSignatures implements BufferedRows {
  readonly #cache = new LRUCache<string, string>({
    max: cachedSignatures,
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: (text) => text.length + 1,
  })
  readonly #waiting = new Map<string, { readonly signature: string; readonly expiresAt: number }>()
  readonly #insert: Statement
  readonly #select: Statement<{ signature: string }, [string, number]>
  readonly #clock: () => number
  readonly #livesMs: number

  /** Each is kept for `livesMs` milliseconds. */
  constructor(database: Database, clock: () => number, livesMs: number) {
    this.#clock = clock
    this.#livesMs = livesMs
    this.#insert = database.prepare(
      `INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)
       ON CONFLICT (tool_call) DO UPDATE SET signature = excluded.signature, expires_at = excluded.expires_at`,
    )
    this.#select = database.prepare('SELECT signature FROM signature WHERE tool_call = ? AND expires_at > ?')
  }

  /** Stores the signature of a tool call. Absurdly long ones are not stored. */
  remember(key: string, signature: string): void {
    if (signature.length > largestSignature) return
    this.#cache.set(key, signature)
    if (this.#waiting.size < waitingSignatures) {
      this.#waiting.set(key, { signature, expiresAt: this.#clock() + this.#livesMs })
    }
  }

  /** undefined if unknown or expired. Never throws: the call can continue without it. */
  recall(key: string): string | undefined {
    const cached = this.#cache.get(key)
    if (cached !== undefined) return cached
    try {
      const stored = this.#select.get(key, this.#clock())?.signature
      if (stored !== undefined) this.#cache.set(key, stored)
      return stored
    } catch {
      return undefined
    }
  }

  get waiting(): boolean {
    return this.#waiting.size > 0
  }

  write(): void {
    for (const [key, { signature, expiresAt }] of this.#waiting) {
      try {
        this.#insert.run(key, signature, expiresAt)
      } catch (error) {
        // A row that the database refuses must not undo the charge in the same transaction.
        if (isOutage(error)) throw error
      }
    }
  }

  onCommitted(): void {
    this.#waiting.clear()
  }
}
