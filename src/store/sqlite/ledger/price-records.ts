// The table of prices: a permanent, dated record of each version, durable with the first hold that names it.

import type { Database, Statement } from 'bun:sqlite'

export class PriceRecords {
  readonly #clock: () => number
  readonly #insert: Statement
  readonly #known = new Set<string>()
  #pending: [version: string, model: string, price: string][] = []

  constructor(database: Database, clock: () => number) {
    this.#clock = clock
    this.#insert = database.prepare(
      'INSERT INTO price_version (version, model, price, recorded_at) VALUES (?,?,?,?) ON CONFLICT (version) DO NOTHING',
    )
  }

  /** Notes a version, once; it is written with the next group. */
  note(version: string, model: string, price: string): void {
    if (this.#known.has(version)) return
    this.#known.add(version)
    this.#pending.push([version, model, price])
  }

  write(): void {
    for (const price of this.#pending) this.#insert.run(...price, this.#clock())
  }

  onCommitted(): void {
    this.#pending = []
  }
}
