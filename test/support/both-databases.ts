// One suite for both databases: SQLite in a folder of its own, PostgreSQL emptied before each store is opened.

import { afterAll, afterEach, beforeAll, describe } from 'bun:test'
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { SQL } from 'bun'
import { openStore } from '../../src/store/open.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from './postgres.ts'
import { tempDir, type TempDir } from './tmp.ts'

/** What is kept on either database. */
type Kept = Awaited<ReturnType<typeof openOnPostgres>>
interface EitherStore extends Kept {
  /** Carries out a statement beside the store, for rows that it cannot make. */
  execute(text: string): Promise<void>
  /** Rows beside the store; numbers in them are to be cast to texts. */
  read(text: string): Promise<readonly unknown[]>
  /** Opens the same database once more, as another process does. */
  beside(): Promise<Kept>
}

/** Opens a store with nothing in it. */
type OpenEither = (clock: () => number) => Promise<EitherStore>

/**
 * Declares the suite twice. What it opens is closed after each test. `name` is also the name of its database on PostgreSQL,
 * with underscores.
 */
export function describeOnBoth(
  name: string,
  suite: (open: OpenEither, database: 'SQLite' | 'PostgreSQL') => void,
): void {
  const opened: Pick<EitherStore, 'close'>[] = []
  const close = async () => {
    for (const store of opened.splice(0)) await store.close()
  }
  describe(`${name}, on SQLite`, () => {
    const folders: TempDir[] = []
    afterEach(async () => {
      await close()
      for (const folder of folders.splice(0)) folder.remove()
    })
    suite(async (clock) => {
      const folder = tempDir('weir-either-')
      folders.push(folder)
      const beside = async () => {
        const store = await openStore(folder.path, { clock })
        opened.push(store)
        return store
      }
      const store = await beside()
      const execute = (text: string) => {
        using database = new Database(join(folder.path, 'weir.db'))
        database.run(text)
        return Promise.resolve()
      }
      const read = (text: string) => {
        using database = new Database(join(folder.path, 'weir.db'), { readonly: true })
        return Promise.resolve(database.query(text).all())
      }
      return { ...store, execute, read, beside }
    }, 'SQLite')
  })
  describeOnPostgres(`${name}, on PostgreSQL`, () => {
    let url: string
    let admin: SQL
    beforeAll(async () => {
      url = await freshDatabase(name.toLowerCase().replaceAll(/[^a-z]+/g, '_'))
      admin = new SQL({ url, max: 1 })
    })
    afterAll(() => admin.close())
    afterEach(close)
    suite(async (clock) => {
      await emptyTables(admin)
      const beside = async () => {
        const store = await openOnPostgres(url, { clock })
        opened.push(store)
        return store
      }
      const store = await beside()
      const execute = async (text: string) => void (await admin.unsafe(text))
      const read = async (text: string) => [...((await admin.unsafe(text)) as readonly unknown[])]
      return { ...store, execute, read, beside }
    }, 'PostgreSQL')
  })
}
