// Work is done alike on both databases: in order, whole or not at all, and as if alone.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { openDatabase, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { AlreadyThere, sql, type Tables, type Work } from '../../../src/store/sql/work.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

interface Signature {
  readonly signature: string
  readonly expires_at: bigint
}
const insert = sql('INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)')
const find = sql<Signature>('SELECT signature, expires_at FROM signature WHERE tool_call = ?')
const among = sql<{ tool_call: string }>(
  'SELECT tool_call FROM signature WHERE expires_at = ?2 AND tool_call IN LIST(?1) ORDER BY tool_call',
)
const numbered = sql<{ tool_call: string; first: bigint }>(
  `SELECT tool_call, CAST(FLAG(tool_call = '1') AS bigint) AS first FROM signature WHERE expires_at IN NUMBERS(?)
   ORDER BY tool_call`,
)
const change = sql('UPDATE signature SET expires_at = ? WHERE tool_call = ?')
const pause = sql('SELECT pg_sleep(0.1)')
const hang = sql('SELECT pg_sleep(60)')
const remove = sql<{ tool_call: string }>('DELETE FROM signature WHERE expires_at > ? RETURNING tool_call')

function suite(tables: () => Tables): void {
  test('rows, one row, and the number of rows written', async () => {
    const found = await tables().do(function* () {
      yield* insert.run('a', 'x', 2 ** 53 - 1)
      yield* insert.run('b', 'y', 7)
      return [
        yield* find.first('a'),
        yield* find.first('c'),
        yield* change.run(8, 'b'),
        yield* change.run(8, 'c'),
        yield* among.all(JSON.stringify(['b', 'c', "'"]), 8),
        yield* remove.all(8),
      ]
    })
    expect(found).toEqual([
      { signature: 'x', expires_at: 2n ** 53n - 1n },
      undefined,
      1,
      0,
      [{ tool_call: 'b' }],
      [{ tool_call: 'a' }],
    ])
  })

  test('a transaction that throws has done nothing, and one is refused by its key', async () => {
    const twice = () =>
      tables().together(function* () {
        yield* insert.run('a', 'x', 1)
        yield* insert.run('a', 'y', 1)
      })
    expect(await caught(twice)).toBeInstanceOf(AlreadyThere)
    expect(await tables().do(() => find.first('a'))).toBeUndefined()
    // The next one finds the connection as it was.
    await tables().together(() => insert.run('a', 'z', 1))
    expect(await tables().do(() => find.first('a'))).toMatchObject({ signature: 'z' })
  })

  test('what is read and then written is as if nobody else had been there', async () => {
    await tables().do(() => insert.run('count', '', 0))
    await Promise.all(
      Array.from({ length: 12 }, () =>
        tables().together(function* (): Work<void> {
          const { expires_at } = (yield* find.first('count'))!
          yield* change.run(expires_at + 1n, 'count')
        }),
      ),
    )
    expect((await tables().do(() => find.first('count')))?.expires_at).toBe(12n)
  })

  test('one of some numbers is found, and a condition is a flag', async () => {
    await tables().withoutWaiting(function* () {
      for (const n of [1, 2, 3]) yield* insert.run(`${n}`, '', 2 ** 40 + n)
    })
    const numbers = JSON.stringify([2 ** 40 + 1, 2 ** 40 + 3, 7])
    expect(await tables().do(() => numbered.all(numbers))).toEqual([
      { tool_call: '1', first: 1n },
      { tool_call: '3', first: 0n },
    ])
  })

  test('pieces come in between statements, which read what was written meanwhile', async () => {
    const read = tables().pieces(function* () {
      for (let n = 0; n < 3; n++) yield `${(yield* find.first('a'))?.signature} `
    })
    let text = ''
    for await (const piece of read) {
      text += piece
      if (text.length < 12) await tables().do(() => insert.run('a', 'x', 1))
    }
    expect(text).toBe('undefined x x ')
  })
}

async function caught(act: () => unknown): Promise<unknown> {
  try {
    return await act()
  } catch (error) {
    return error
  }
}

describe('work on SQLite', () => {
  let tables: SqliteTables
  let dir: TempDir
  beforeEach(() => {
    dir = tempDir('weir-work-')
    tables = new SqliteTables(openDatabase(dir.path, 0))
  })
  afterEach(() => {
    tables.database.close()
    dir.remove()
  })
  suite(() => tables)
})

describeOnPostgres('work on PostgreSQL', () => {
  let admin: SQL
  let tables: PostgresTables
  beforeAll(async () => {
    const url = await freshDatabase('work')
    admin = new SQL({ url, max: 1 })
    tables = new PostgresTables({ server: url })
    await tables.open()
  })
  afterEach(() => emptyTables(admin))
  afterAll(async () => {
    await tables.close()
    await admin.close()
  })
  suite(() => tables)

  test('a transaction that goes on after a refusal is not taken for done', async () => {
    const goesOn = () =>
      tables.together(function* () {
        yield* insert.run('a', 'x', 1)
        try {
          yield* insert.run('a', 'y', 1)
        } catch {
          return 'done'
        }
        return 'never'
      })
    expect(await caught(goesOn)).toBeInstanceOf(Error)
    expect(await tables.do(() => find.first('a'))).toBeUndefined()
  })

  test('reads are of one moment, whatever is written meanwhile', async () => {
    const [before, after] = await tables.reads(function* () {
      const first = yield* find.first('a')
      // The next answer comes after this one was written.
      void tables.do(() => insert.run('a', 'x', 1))
      yield* pause.all()
      return [first, yield* find.first('a')]
    })
    expect([before, after]).toEqual([undefined, undefined])
    expect(await tables.do(() => find.first('a'))).toMatchObject({ signature: 'x' })
  })

  const others = 'FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
  const count = async (which: string) => {
    const [row] = await admin.unsafe(`SELECT count(*)::int AS n ${which}`)
    return row.n as number
  }
  const hanging = `${others} AND query LIKE 'SELECT pg_sleep(60)%' AND state = 'active'`

  test('a connection that is lost meanwhile is told as such, and is there again for the next', async () => {
    const running = Promise.all(Array.from({ length: 4 }, () => caught(() => tables.do(() => hang.all()))))
    while ((await count(hanging)) < 4);
    await admin.unsafe(`SELECT pg_terminate_backend(pid) ${others}`)
    for (const error of await running) expect(error).toMatchObject({ code: 'store_unavailable' })
    expect(await tables.do(() => find.first('a'))).toBeUndefined()
  })

  test('connections that were cut while nobody used them are made again before anything is sent', async () => {
    await Promise.all(Array.from({ length: 4 }, () => tables.do(() => pause.all())))
    await admin.unsafe(`SELECT pg_terminate_backend(pid) ${others}`)
    while ((await count(others)) > 0);
    // What the server has said to them on their way out has arrived before this.
    await admin.unsafe('SELECT 1')
    const all = await Promise.all(Array.from({ length: 4 }, () => tables.do(() => find.first('a'))))
    expect(all).toEqual([undefined, undefined, undefined, undefined])
  })

  test('reads end with their signal, and leave the connection to others', async () => {
    const left = new AbortController()
    const reason = new Error('gone')
    const running = Promise.all(
      Array.from({ length: 4 }, () => caught(() => tables.reads(() => hang.all(), left.signal))),
    )
    while ((await count(hanging)) < 4);
    left.abort(reason)
    expect(await running).toEqual([reason, reason, reason, reason])
    expect(await tables.do(() => find.first('a'))).toBeUndefined()
    expect(await count(hanging)).toBe(0)
  })
})
