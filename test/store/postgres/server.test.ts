// What an operator is told where a PostgreSQL cannot be used, before anything is kept on it.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import {
  factsOf,
  makeReady,
  planFaultsOf,
  requireUsable,
  type ServerFacts,
} from '../../../src/store/postgres/server.ts'
import { StoreOpenError } from '../../../src/store/store.ts'
import { describeOnPostgres, freshDatabase, withPassword } from '../../support/postgres.ts'

const clock = Date.now

describeOnPostgres('a server of PostgreSQL', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('servers')
    admin = new SQL({ url, max: 1 })
    await admin.unsafe(`CREATE ROLE ${withPassword} LOGIN PASSWORD 'p/w@d'`)
  })
  afterAll(() => admin.close())

  /** The address with other parts. */
  const at = (parts: Partial<Record<'username' | 'password' | 'port' | 'pathname' | 'search', string>>) =>
    Object.assign(new URL(url), parts).href
  const readyAt = (address: string, serves = true) => makeReady({ url: address }, { clock, serves })

  test.each([
    [
      'a wrong password',
      { username: withPassword, password: 'hunter22' },
      'refuses the user or the password',
    ],
    [
      'a database that is not there',
      { pathname: '/nowhere' },
      'has no database "nowhere": make it with CREATE DATABASE nowhere',
    ],
    ['a port where nobody listens', { port: '1' }, 'cannot be reached: is it running'],
    ['a certificate of nobody', { search: '?sslmode=verify-full' }, 'that is not trusted'],
  ] as const)('%s is said, without the password', async (_, parts, message) => {
    const refused = await readyAt(at(parts)).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(StoreOpenError)
    expect(String(refused)).toContain(message)
    expect(String(refused)).toContain('postgres://')
    expect(String(refused)).not.toContain('hunter22')
  })

  test('a user that may not make tables is told what to do', async () => {
    await admin.unsafe('CREATE DATABASE foreign_tables').catch(() => undefined)
    const address = at({
      username: withPassword,
      password: encodeURIComponent('p/w@d'),
      pathname: '/foreign_tables',
    })
    await expect(readyAt(address)).rejects.toThrow('ALTER DATABASE foreign_tables OWNER TO')
  })

  test('texts in another encoding are refused', async () => {
    await admin.unsafe(`CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
    await expect(readyAt(at({ pathname: '/latin' }))).rejects.toThrow('keeps texts as LATIN1')
  })

  test('what it is, is known: version, TLS, what a crash would lose, clocks', async () => {
    const facts = await factsOf({ url }, () => Date.now() + 5_000)
    expect(facts).toMatchObject({
      encoding: 'UTF8',
      encrypted: false,
      losing: ['fsync = off'],
      standby: 'none',
      hasTables: true,
    })
    expect(facts.clockAheadMs).toBeWithin(-6_000, -4_000)
  })

  test('settings that plans need, and a large table that the ledger would read whole, are named', async () => {
    expect(await planFaultsOf({ url })).toEqual([])
    const withoutSettings = [expect.stringContaining('ALTER ROLE weir SET enable_seqscan = off')]
    expect(await planFaultsOf({ url, prepare: false })).toEqual(withoutSettings)
    await admin
      .unsafe(
        `INSERT INTO open_call SELECT 'open' || n, 'a' || n, 'k' || n, 0, '[]', 'purchased', 'm', 'p', NULL, NULL, NULL, 'x', 0, 0, NULL, NULL
           FROM generate_series(1, 15000) AS n;
         DROP INDEX open_call_account`,
      )
      .simple()
    expect(await planFaultsOf({ url })).toEqual([
      expect.stringMatching(
        /^the ledger would read all of open_call \(\d MB\) for every call: ANALYZE open_call, and set autovacuum = on$/,
      ),
    ])
    await admin.unsafe('TRUNCATE open_call')
    expect(await planFaultsOf({ url })).toEqual([])
  })

  test('an old server, and a replica, are none to keep a ledger on', async () => {
    const facts = await factsOf({ url }, clock)
    const require = (other: Partial<ServerFacts>) => () => requireUsable({ url }, { ...facts, ...other })
    expect(require({ version: '14.9' })).toThrow('weir needs 15 or newer')
    expect(require({ isReplica: true })).toThrow('lead to the primary')
  })

  test('a server is told of by who serves, and changed by it alone', async () => {
    const said: unknown[] = []
    const notice = (message: string, facts: object) => said.push({ message, ...facts })
    await makeReady({ url }, { clock, serves: true, notice })
    expect(said).toEqual([expect.objectContaining({ setting: 'fsync = off' })])
    await admin.unsafe(`DELETE FROM migration WHERE name = (SELECT max(name) FROM migration)`)
    await expect(readyAt(url, false)).rejects.toThrow('the tables of an older version')
    await admin.unsafe(
      `INSERT INTO migration (name, applied_at, oldest_program) VALUES ('9999_of_the_future', 0, 9999)`,
    )
    await expect(readyAt(url)).rejects.toThrow(
      'a newer version of weir has changed this database (9999_of_the_future)',
    )
  })
})
