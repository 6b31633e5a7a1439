// Takes the write-ahead log to the disk, for commits that have left that to somebody else.

import { accessSync, closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

const syncFile = promisify(fdatasync)

/**
 * The log of a database, through a descriptor of its own. SQLite takes no locks on that file, so closing the descriptor
 * drops none. While a connection is open SQLite neither removes the log nor makes another one; a restart of the log
 * and `journal_size_limit` write and truncate the same file.
 *
 * SQLite sees to the rest with `synchronous = NORMAL`: a checkpoint syncs the log before it writes to the database, and
 * the database before the log may be written from its beginning again; a log that begins again has its header synced.
 */
export class LogSync {
  readonly #path: string
  #opened: number | undefined

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`
  }

  /** Resolves when what has been written to the log so far is on the disk. Rejects if that is not certain. One at a time. */
  async sync(): Promise<void> {
    await syncFile(this.#descriptor())
  }

  /** Throws when somebody has removed the log: what is written to it would be gone with this process. */
  #descriptor(): number {
    // Not `stat`: of a file that is asked for its times Linux (6.13) notes the exact one of the next write, and on a file
    // system without a journal each sync then writes the inode, too.
    accessSync(this.#path)
    if (this.#opened !== undefined) return this.#opened
    this.#opened = openSync(this.#path, 'r+')
    // The name of a new file is durable with its directory.
    const directory = openSync(dirname(this.#path), 'r')
    fsyncSync(directory)
    closeSync(directory)
    return this.#opened
  }

  /** To be called when no sync is under way. */
  close(): void {
    if (this.#opened !== undefined) closeSync(this.#opened)
    this.#opened = undefined
  }
}
