// A process that migrates a database and stops for ever before the n-th statement of the migration: to be killed there.

import { Database } from 'bun:sqlite'
import { writeSync } from 'node:fs'
import { databasePath, migrate } from '../../src/store/sqlite/database/sqlite.ts'

const [dataDir, stopBefore] = process.argv.slice(2)

class StallingDatabase extends Database {
  #statements = 0

  override run(...args: Parameters<Database['run']>): ReturnType<Database['run']> {
    if (++this.#statements > Number(stopBefore)) {
      writeSync(1, 'stalled\n')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    }
    return super.run(...args)
  }
}

const path = databasePath(dataDir!)
const plain = new Database(path)
plain.run('PRAGMA journal_mode = WAL')
plain.close()
migrate(new StallingDatabase(path, { readwrite: true, safeIntegers: true, strict: true }), 0)
