// Where histories are played: one database file and its connections, emptied before each of them.

import { Database, type Statement } from 'bun:sqlite'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditReport } from '../../src/credits/ledger/ledger.ts'
import { noon } from '../credits/support.ts'
import { Picture } from './picture.ts'
import { StatementCheck } from './statements.ts'
import type { System } from './system.ts'

const processes = 3

export class Stage {
  readonly system: System
  #open: Open
  readonly #tablesWithRows: string
  /** How much of the log is on the disk. */
  #synced = 0

  constructor(system: System) {
    this.system = system
    this.#open = this.#openIn(newDir())
    // The guards of these tables, which have tests of their own, would keep the stage from being cleared.
    for (const table of ['journal', 'act']) this.#reader.run(`DROP TRIGGER ${table}_no_delete`)
    const tables = this.#reader
      .query<{ name: string }, []>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('migration') AND name NOT LIKE 'sqlite_%'",
      )
      .all()
    const withRows = tables.map(
      ({ name }) => `SELECT '${name}' AS name WHERE EXISTS (SELECT 1 FROM "${name}")`,
    )
    this.#tablesWithRows = withRows.join(' UNION ALL ')
  }

  #openIn(dir: string): Open {
    const path = join(dir, 'weir.db')
    const connections = Array.from({ length: processes }, () => this.system.openDatabase(dir, noon))
    const reader = preparingOnce(new Database(path, { safeIntegers: true, strict: true }))
    // The log only grows, so that its length says what a sync has covered.
    for (const connection of [...connections, reader]) connection.run('PRAGMA wal_autocheckpoint = 0')
    const picture = new Picture(reader)
    return { dir, path, connections, reader, picture, statements: new StatementCheck(reader, this.system) }
  }

  get path(): string {
    return this.#open.path
  }

  /** One for each process. */
  get connections(): readonly Database[] {
    return this.#open.connections
  }

  get picture(): Picture {
    return this.#open.picture
  }

  get statements(): StatementCheck {
    return this.#open.statements
  }

  /** Audits the file as it is, with statements that are prepared once: to prepare them is most of an audit's time. */
  audit(): AuditReport {
    const { reader } = this.#open
    reader.run('BEGIN')
    try {
      return this.system.auditOf(reader, [])
    } finally {
      reader.run('ROLLBACK')
    }
  }

  get #reader(): Database {
    return this.#open.reader
  }

  clear(): void {
    this.#reader.run('BEGIN IMMEDIATE')
    // Only those with rows: to delete from an empty table writes its pages all the same.
    for (const { name } of this.#reader.query<{ name: string }, []>(this.#tablesWithRows).all())
      this.#reader.query(`DELETE FROM "${name}"`).run()
    this.#reader.run('COMMIT')
    this.#reader.query('PRAGMA wal_checkpoint(TRUNCATE)').get()
    this.#synced = 0
  }

  /** The length of the log. */
  logBytes(): number {
    return statSync(`${this.path}-wal`).size
  }

  /** The disk has so much of the log; a sync that ends late has less to say than one before it. */
  synced(logBytes: number): void {
    this.#synced = Math.max(this.#synced, logBytes)
  }

  /** Leaves what the disk has: the file, and its log as far as it was synced. No process may be alive. */
  cutPower(): void {
    const before = this.#open
    const dir = newDir()
    copyFileSync(before.path, join(dir, 'weir.db'))
    writeFileSync(join(dir, 'weir.db-wal'), readFileSync(`${before.path}-wal`).subarray(0, this.#synced))
    this.#open = this.#openIn(dir)
    close(before)
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
    close(this.#open)
  }
}

/** A file, and the connections to it. */
interface Open {
  readonly dir: string
  readonly path: string
  readonly connections: readonly Database[]
  readonly reader: Database
  readonly picture: Picture
  readonly statements: StatementCheck
}

/** Gives each statement as it was prepared the first time. */
function preparingOnce(database: Database): Database {
  const prepare = database.prepare.bind(database)
  const prepared = new Map<string, Statement>()
  database.prepare = ((sql: string) =>
    prepared.getOrInsertComputed(sql, () => prepare(sql))) as typeof prepare
  return database
}

function close({ dir, connections, reader }: Open): void {
  for (const connection of [...connections, reader]) connection.close()
  rmSync(dir, { recursive: true, force: true })
}

/** In memory, where there is a file system of it: what a disk does is not the question here. */
function newDir(): string {
  return mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'weir-simulation-'))
}
