// Connecting: which certificate is believed, what the server is told before it has shown one, and what needs no session.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Connection, ConnectionLost } from '../../../src/store/postgres/connection.ts'
import type { DatabaseServer } from '../../../src/store/store.ts'
import { authority, describeOnPostgres, freshDatabase } from '../../support/postgres.ts'

const ca = readFileSync(authority, 'utf8')
const another = readFileSync(authority.replace('authority', 'localhost'), 'utf8')

async function connected<T>(server: DatabaseServer, act: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = new Connection(server, { deadlineMs: 5_000, settings: ['statement_timeout = 4321'] })
  try {
    await connection.open()
    return await act(connection)
  } finally {
    await connection.close()
  }
}

describeOnPostgres('the certificate of the server', () => {
  let byName: string
  let byAddress: string
  beforeAll(async () => {
    byAddress = await freshDatabase('certificates')
    byName = byAddress.replace('127.0.0.1', 'localhost')
  })

  const isEncrypted = (server: DatabaseServer) =>
    connected(server, async (connection) => {
      const [row] = await connection.send<{ ssl: boolean }>(
        'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
      )
      return row?.ssl
    })

  test('is believed for the name it is for, of the authority that is named', async () => {
    expect(await isEncrypted({ url: `${byName}?sslmode=verify-full`, ca })).toBe(true)
    expect(await isEncrypted({ url: `${byAddress}?sslmode=verify-ca`, ca })).toBe(true)
  })

  test.each([
    ['for another name', () => ({ url: `${byAddress}?sslmode=verify-full`, ca })],
    ['of an authority that nobody knows', () => ({ url: `${byName}?sslmode=verify-full` })],
    [
      'of another authority than the one named',
      () => ({ url: `${byAddress}?sslmode=verify-ca`, ca: another }),
    ],
  ])('%s it is refused', async (_, server) => {
    await expect(isEncrypted(server())).rejects.toThrow(ConnectionLost)
  })

  test('through a pooler nothing is set for the session and nothing is prepared', async () => {
    const facts = (prepare: boolean) =>
      connected({ url: byAddress, prepare }, async (connection) => {
        await connection.send('SELECT $1::text AS name', ['a'])
        const [row] = await connection.send<{ timeout: string; statements: bigint }>(
          `SELECT current_setting('statement_timeout') AS timeout, count(*) AS statements FROM pg_prepared_statements
           WHERE statement LIKE '%::text AS name%' AND name <> ''`,
        )
        return row
      })
    expect(await facts(false)).toEqual({ timeout: '0', statements: 0n })
    expect(await facts(true)).toEqual({ timeout: '4321ms', statements: 1n })
  })
})

describe('a server without TLS', () => {
  const heard: string[] = []
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket, bytes) {
        heard.push(bytes.toString('latin1'))
        socket.write('N')
      },
    },
  })
  afterAll(() => server.stop(true))

  test('is told neither user nor password where its certificate is to be verified', async () => {
    const url = `postgres://weir:hunter22@127.0.0.1:${server.port}/weir?sslmode=verify-full`
    await expect(connected({ url, ca }, () => Promise.resolve())).rejects.toThrow(ConnectionLost)
    expect(heard.join()).not.toContain('weir')
  })
})

describeOnPostgres('rows that are copied in', () => {
  let url: string
  beforeAll(async () => {
    url = await freshDatabase('copied_in')
  })
  const there = (connection: Connection) =>
    connection.send("SELECT name, at, value FROM upkeep WHERE name LIKE 'copied%' ORDER BY name")

  test.each([true, false])('are there, or none is (prepared: %p)', (prepare) =>
    connected({ url, prepare }, async (connection) => {
      const text = 'COPY upkeep (name, at, value) FROM STDIN'
      await connection.run('BEGIN')
      await connection.copyIn(text, ['copied 1\t1\ta', '\n', 'copied 2\t2\tb\n'])
      expect(await there(connection)).toEqual([
        { name: 'copied 1', at: 1n, value: 'a' },
        { name: 'copied 2', at: 2n, value: 'b' },
      ])
      await expect(connection.copyIn(text, ['copied 3\t3\tc\n', 'copied 4\tnever\td\n'])).rejects.toThrow(
        'never',
      )
      await connection.run('ROLLBACK')
      expect(await there(connection)).toHaveLength(0)
    }),
  )

  test('are given up when the connection is lost', async () => {
    const other = new Connection(url, { deadlineMs: 5_000 })
    await other.open()
    const lost = connected({ url }, async (connection) => {
      const [self] = await connection.send<{ pid: bigint }>('SELECT pg_backend_pid()::bigint AS pid')
      function* endless() {
        for (let n = 0; ; n++) {
          if (n === 10) void other.send('SELECT pg_terminate_backend(($1::bigint)::int)', [self!.pid])
          yield `copied ${n}\t1\ta\n`.padStart(10_000)
        }
      }
      await connection.copyIn('COPY upkeep (name, at, value) FROM STDIN', endless())
    })
    await expect(lost).rejects.toThrow(ConnectionLost)
    expect(await there(other)).toHaveLength(0)
    await other.close()
  })
})
