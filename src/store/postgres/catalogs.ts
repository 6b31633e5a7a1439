// The catalog that operators have imported, for all gateways of a database.

import type { Act } from '../../accounts/identity/identity-store.ts'
import { recordAct } from '../sql/records.ts'
import { sql, type Tables } from '../sql/work.ts'
import type { ImportedCatalog, ImportedCatalogs } from '../store.ts'

/** Files that are kept: each has some hundred kilobytes. */
const mostKept = 10

export class PostgresCatalogs implements ImportedCatalogs {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async revision(): Promise<number> {
    const row = await this.#tables.do(() => catalogs.revision.first())
    return Number(row!.revision)
  }

  async latest(): Promise<ImportedCatalog> {
    const row = await this.#tables.do(() => catalogs.latest.first())
    return row ? { revision: Number(row.revision), file: row.file } : { revision: 0, file: null }
  }

  async append(file: string | null, act: Act): Promise<number> {
    return this.#tables.together(function* () {
      const revision = Number((yield* catalogs.revision.first())!.revision) + 1
      yield* catalogs.insert.run(revision, act.at, file)
      yield* catalogs.forget.run(revision - mostKept)
      yield* recordAct(act)
      return revision
    })
  }
}

const catalogs = {
  revision: sql<{ revision: bigint }>('SELECT coalesce(max(revision), 0) AS revision FROM imported_catalog'),
  latest: sql<{ revision: bigint; file: string | null }>(
    'SELECT revision, file FROM imported_catalog ORDER BY revision DESC LIMIT 1',
  ),
  insert: sql('INSERT INTO imported_catalog (revision, at, file) VALUES (?,?,?)'),
  forget: sql('DELETE FROM imported_catalog WHERE revision <= ?'),
}
