// Where histories are played: one database file and its connections, emptied before each of them.

import { Database } from 'bun:sqlite'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noon } from '../credits/support.ts'
import { Picture } from './picture.ts'
import { StatementCheck } from './statements.ts'
import type { System } from './system.ts'

const processes = 3

export class Stage {
  readonly system: System
  readonly path: string
  /** One for each process. */
  readonly connections: readonly Database[]
  readonly picture: Picture
  readonly statements: StatementCheck
  readonly #dir: string
  readonly #reader: Database
  readonly #tables: readonly string[]

  constructor(system: System) {
    this.system = system
    // Memory where there is a file system of it: what a disk does is not the question here.
    this.#dir = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'weir-simulation-'))
    this.path = join(this.#dir, 'weir.db')
    this.connections = Array.from({ length: processes }, () => system.openDatabase(this.#dir, noon))
    this.#reader = new Database(this.path, { safeIntegers: true, strict: true })
    // The journal's own guard, which has its own test, would keep the stage from being cleared.
    this.#reader.run('DROP TRIGGER journal_no_delete')
    this.#tables = this.#reader
      .query<{ name: string }, []>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('migration') AND name NOT LIKE 'sqlite_%'",
      )
      .all()
      .map(({ name }) => name)
    this.picture = new Picture(this.#reader)
    this.statements = new StatementCheck(this.#reader, system)
  }

  clear(): void {
    this.#reader.run('BEGIN IMMEDIATE')
    for (const table of this.#tables) this.#reader.query(`DELETE FROM "${table}"`).run()
    this.#reader.run('COMMIT')
  }

  /** What the command line does, in a process of its own, when it replaces a key. */
  rotate(account: string, key: string, successor: string): void {
    const insert = this.#reader.query(
      `INSERT OR IGNORE INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window, lineage)
       VALUES (?1, ?2, '', 'live', '', '', 0, 'day', (SELECT coalesce(lineage, id) FROM api_key WHERE id = ?3))`,
    )
    this.#reader.run('BEGIN IMMEDIATE')
    insert.run(key, account, null)
    insert.run(successor, account, key)
    this.#reader.run('COMMIT')
  }

  close(): void {
    for (const connection of [...this.connections, this.#reader]) connection.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}
