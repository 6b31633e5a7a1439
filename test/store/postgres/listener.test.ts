// What others change of accounts, keys, sessions and groups is noticed in a moment, and in less than a second where
// nobody hears of it.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { Connection, ledgerDeadlineMs } from '../../../src/store/postgres/connection.ts'
import { Listener, PostgresTables } from '../../../src/store/postgres/tables.ts'
import { SqlAccounts } from '../../../src/store/sql/account-store.ts'
import { SqlGroups } from '../../../src/store/sql/group-store.ts'
import type { Changes } from '../../../src/store/sql/work.ts'
import { CutProxy } from '../../support/cut-proxy.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

/** However late a word is on a machine that is busy. */
const alwaysProven = { isProven: true }

const rows = `INSERT INTO account (id, email, created_at, suspended) VALUES ('a', 'a@example.org', 0, 0);
  INSERT INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window) VALUES ('k', 'a', '', 'live', '', '', 0, 'month');
  INSERT INTO session (id, account, hash, last_four, created_at, expires_at) VALUES ('s', 'a', '', '', 0, 0);
  INSERT INTO account_group (id, name, "window", timezone, warn_at, created_at) VALUES ('g', '', 'day', 'UTC', '[]', 0);
  INSERT INTO group_member (group_id, account, role, joined_at) VALUES ('g', 'a', 'member', 0)`

describeOnPostgres('changes by other processes', () => {
  let url: string
  let admin: SQL
  let proxy: CutProxy
  let tables: PostgresTables
  let listener: Listener
  let connection: Connection
  let changes: (string | undefined)[]
  beforeAll(async () => {
    url = await freshDatabase('listener')
    admin = new SQL({ url, max: 1 })
    connection = new Connection(url, { deadlineMs: ledgerDeadlineMs })
    await connection.open()
  })
  beforeEach(async () => {
    await emptyTables(admin)
    await admin.unsafe(rows).simple()
    proxy = new CutProxy(Number(new URL(url).port))
    const through = new URL(url)
    through.port = String(proxy.port)
    tables = new PostgresTables({ server: url, connections: 1 })
    await tables.open()
    changes = []
    listener = new Listener({
      server: through.href,
      onChange: (row) => {
        changes.push(row)
        tables.noteChange(row)
      },
      say: (text, values) => connection.send(text, values),
    })
    tables.trust(listener)
    listener.open()
    await until(() => listener.isProven)
    tables.changedElsewhere()
  })
  afterEach(async () => {
    await listener.close()
    await tables.close()
    proxy.stop()
  })
  afterAll(async () => {
    await connection.close()
    await admin.close()
  })

  /** What was told of last. */
  let told: Changes
  const isTold = () => (told = tables.changedElsewhere()) !== 'nothing'

  /** How long it took, milliseconds. */
  async function until(isSo: () => boolean): Promise<number> {
    const since = performance.now()
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
    return performance.now() - since
  }

  test.each([
    ['a suspended account', `UPDATE account SET suspended = 1`, 'account a'],
    ['a revoked key', `UPDATE api_key SET revoked_at = 1`, 'api_key k'],
    ['a session that was ended', `UPDATE session SET revoked_at = 1`, 'session s'],
    ['a budget', `UPDATE account_group SET budget = 1`, 'account_group'],
    ['a member who left', `DELETE FROM group_member`, 'group_member'],
  ])('%s is told of at once, and nothing else', async (_what, change, row) => {
    tables.trust(alwaysProven)
    expect(tables.changedElsewhere()).toBe('nothing')
    await admin.unsafe(change)
    expect(await until(isTold)).toBeLessThan(1_000)
    expect(told).toEqual(new Set([row]))
    expect(tables.changedElsewhere()).toBe('nothing')
  })

  test('only the account, the key or the session that has changed is read again', async () => {
    await admin
      .unsafe(
        `INSERT INTO account (id, email, created_at, suspended) VALUES ('b', 'b@example.org', 0, 0);
         INSERT INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window) VALUES ('l', 'b', '', 'live', '', '', 0, 'month');
         INSERT INTO session (id, account, hash, last_four, created_at, expires_at) VALUES ('t', 'b', '', '', 0, 0)`,
      )
      .simple()
    await until(isTold)
    tables.trust(alwaysProven)
    let events = 0
    const accounts = new SqlAccounts(tables, () => 0, { onRotated() {}, onChanged: () => events++ })
    const readAll = (names: readonly string[]) =>
      names.map((name) => [
        accounts.findAccount(name),
        accounts.findKey(name === 'a' ? 'k' : 'l'),
        accounts.findSession(name === 'a' ? 's' : 't'),
      ])
    const isInMemory = (read: unknown) => !(read instanceof Promise)
    await Promise.all(readAll(['a', 'b']).flat())
    await accounts.findAccount('a@example.org')
    expect(readAll(['a', 'b']).flat().every(isInMemory)).toBe(true)
    for (const [change, seen] of [
      ['UPDATE account SET suspended = 1', async () => (await accounts.findAccount('a'))?.suspended],
      ['UPDATE api_key SET revoked_at = 1', async () => (await accounts.findKey('k'))?.revokedAt === 1],
      // What the use of a session writes.
      [
        'UPDATE session SET seen_at = 1, expires_at = 2',
        async () => (await accounts.findSession('s'))?.expiresAt === 2,
      ],
    ] as const) {
      const before = events
      await admin.unsafe(`${change} WHERE ${change.includes('account') ? 'id' : 'account'} = 'a'`)
      while (!(await seen())) {
        expect(readAll(['b'])[0]!.every(isInMemory)).toBe(true)
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect(events).toBe(before + 1)
    }
    expect(await accounts.findAccount('a@example.org')).toMatchObject({ suspended: true })
    expect(readAll(['b'])[0]!.every(isInMemory)).toBe(true)
  })

  test('a group that has got credit, with which it pays from now on, is told of', async () => {
    const writing = new PostgresTables({ server: url, connections: 1 })
    await writing.open()
    try {
      tables.trust(alwaysProven)
      expect(tables.changedElsewhere()).toBe('nothing')
      await new SqlGroups(writing, () => undefined).onCredited('g')
      expect(await until(isTold)).toBeLessThan(1_000)
    } finally {
      await writing.close()
    }
  })

  test('the use of a key or a session is not told of, nor a new one', async () => {
    changes = []
    await admin.unsafe('UPDATE api_key SET used_at = 1')
    await admin.unsafe('UPDATE session SET seen_at = 1')
    await admin.unsafe(
      `INSERT INTO session (id, account, hash, last_four, created_at, expires_at) VALUES ('t', 'a', '', '', 0, 0)`,
    )
    await admin.unsafe('UPDATE api_key SET revoked_at = 1')
    await until(() => changes.length > 0)
    expect(changes).toEqual(['api_key k'])
  })

  test('every column of a key or a session that decides anything is told of', async () => {
    const silent: { name: string }[] = await admin.unsafe(
      `SELECT table_name || ' ' || column_name AS name FROM information_schema.columns WHERE table_name IN ('api_key', 'session')
       EXCEPT SELECT event_object_table || ' ' || event_object_column FROM information_schema.triggered_update_columns ORDER BY 1`,
    )
    const never = ['id', 'created_at', 'last_four']
    const decides = silent.filter(({ name }) => !never.includes(name.split(' ')[1]!))
    // A new column belongs into the trigger, unless every call writes it.
    expect(decides.map(({ name }) => name)).toEqual([
      'api_key rowid',
      'api_key used_at',
      'session seen_at',
      'session user_agent',
    ])
  })

  test('a listener that is cut off is not believed any more, and says when it is back that anything may have changed', async () => {
    changes = []
    proxy.cut()
    await until(() => !listener.isProven)
    await admin.unsafe('UPDATE api_key SET revoked_at = 1')
    expect(await until(isTold)).toBeLessThan(1_000)
    expect(told).toBe('everything')
    await until(() => listener.isProven && changes.length > 0)
    expect(changes[0]).toBeUndefined()
  })

  test('a listener that hears nothing, though nothing has told it so, is not believed for a second', async () => {
    proxy.carriage = 'lose-answers'
    await admin.unsafe('UPDATE api_key SET revoked_at = 1')
    expect(await until(isTold)).toBeLessThan(1_000)
    expect(told).toBe('everything')
    expect(listener.isProven).toBe(false)
    proxy.carriage = 'pass'
  })
})
