// The request log on PostgreSQL: many rows in a statement of their own, and what becomes of those that it refuses.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { tagsText } from '../../../src/conversation/request.ts'
import type { RequestLogRow } from '../../../src/observe/call-log.ts'
import { migrate } from '../../../src/store/postgres/server.ts'
import { PostgresRecentCalls } from '../../../src/store/postgres/open.ts'
import { PostgresRequestLog } from '../../../src/store/postgres/request-log.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { noon } from '../../credits/support.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'
import { logRowOf } from '../calls/support.ts'

describeOnPostgres('the request log on PostgreSQL', () => {
  let url: string
  let admin: SQL
  let tables: PostgresTables
  let log: PostgresRequestLog
  beforeAll(async () => {
    url = await freshDatabase('request_log')
    await migrate(url, noon)
    admin = new SQL({ url, max: 1, bigint: true })
  })
  beforeEach(async () => {
    await emptyTables(admin)
    tables = new PostgresTables({ server: url, connections: 2 })
    await tables.open()
    log = new PostgresRequestLog(tables)
  })
  afterEach(() => tables.close())
  afterAll(() => admin.close())

  const idsIn = async () => {
    const rows: { request_id: string }[] = await admin.unsafe(
      'SELECT request_id FROM request_log ORDER BY seq',
    )
    return rows.map(({ request_id }) => request_id)
  }
  const waiting = (n: number) => admin.unsafe(`SELECT pg_advisory_lock(${n})`)

  test('rows are written in order, with their tags and the last use of their keys', async () => {
    await admin.unsafe(
      `INSERT INTO account (id, email, created_at, suspended) VALUES ('anna','a@example.org',0,0)`,
    )
    await admin.unsafe(
      `INSERT INTO api_key (limit_window, id, account, name, hash, last_four, mode, created_at, used_at)
       VALUES ('never','k','anna','','h','1234','live',0,NULL), ('never','other','anna','','i','1234','live',0,NULL)`,
    )
    for (let n = 0; n < 300; n++)
      log.append(
        logRowOf(`r${n}`, { at: noon + n, tags: n === 7 ? tagsText({ team: 'ü"\\', user: 'u' }) : null }),
      )
    log.append(logRowOf('odd', { key: null, model: 'a\0\ud800b', detail: '{"a":"\\u0000"}', totalMs: 1.6 }))
    await log.close()
    expect(await idsIn()).toEqual([...Array.from({ length: 300 }, (_, n) => `r${n}`), 'odd'])
    expect([
      ...(await admin.unsafe("SELECT model, detail, total_ms FROM request_log WHERE request_id = 'odd'")),
    ]).toMatchObject([{ model: 'a\uFFFD\uFFFDb', detail: '{"a":"\\u0000"}', total_ms: 2n }])
    const tagged = await admin.unsafe('SELECT tag, value, at, seq, account FROM request_tag ORDER BY tag')
    const place = { at: BigInt(noon + 7), seq: 8n, account: 'anna' }
    expect([...tagged]).toEqual([
      { tag: 'team', value: 'ü"\\', ...place },
      { tag: 'user', value: 'u', ...place },
    ])
    const used = await admin.unsafe('SELECT id, used_at FROM api_key ORDER BY id')
    // Once a second, however many calls there were.
    expect([...used]).toEqual([
      { id: 'k', used_at: BigInt(noon) },
      { id: 'other', used_at: null },
    ])
    await admin.unsafe("DELETE FROM request_log WHERE request_id = 'r7'")
    expect([...(await admin.unsafe('SELECT * FROM request_tag'))]).toEqual([])
  })

  test('what calls of all gateways have cost is told, who has spent it, and what was refused', async () => {
    log.append(logRowOf('before', { at: noon - 1, account: 'bert', cost: 1n }))
    log.append(logRowOf('paid', { at: noon, account: 'anna', cost: 500_000_000_000n }))
    log.append(logRowOf('free', { at: noon, account: 'carl', cost: 0n }))
    log.append(
      logRowOf('fault', { at: noon, account: 'carl', cost: 0n, code: 'upstream_error', status: 502 }),
    )
    const refusal = { account: 'dora', cost: 0n, code: 'key_limit_exceeded', status: 402, provider: null }
    for (const at of [noon + 1, noon + 5, noon + 9])
      log.append(logRowOf(`r${at}`, { ...refusal, at, key: 'key_d' }))
    await log.close()
    const recent = new PostgresRecentCalls(tables)
    expect(await recent.totals(noon, noon + 9)).toEqual({
      costUsd: 0.5,
      refusals: new Map([['key_limit_exceeded', 2]]),
    })
    expect(await recent.spenders(noon)).toEqual(new Set(['anna']))
    expect(await recent.refusedKeys(noon)).toEqual(new Map([['key_d', noon + 9]]))
  })

  test('refusals are added to their day in the same statement, each once', async () => {
    const refused: Partial<RequestLogRow> = { code: 'insufficient_credits', tags: tagsText({ team: 'a' }) }
    for (let n = 0; n < 3; n++) log.appendRefused(logRowOf(`r${n}`, { ...refused, group: 'g' }), 'sim/echo')
    log.append(logRowOf('served'))
    await log.close()
    log.appendRefused(logRowOf('r3', { key: null, at: noon + 86_400_000 }), '')
    await log.close()
    const sumsIn = async (table: string, columns: string) =>
      [
        ...(await admin.unsafe(`SELECT ${columns}, calls, errors FROM ${table} ORDER BY calls DESC, 1`)),
      ] as object[]
    const day = BigInt(Date.UTC(2026, 10, 21))
    const [three, one] = [
      { calls: 3n, errors: 3n },
      { calls: 1n, errors: 1n },
    ]
    expect(await sumsIn('usage_day', 'day, key, model')).toEqual([
      { day, key: 'k', model: 'sim/echo', ...three },
      { day: day + 86_400_000n, key: '', model: '', ...one },
    ])
    expect(await sumsIn('usage_total', 'channel, model')).toEqual([
      { channel: 'api', model: 'sim/echo', ...three },
      { channel: 'app', model: '', ...one },
    ])
    expect(await sumsIn('usage_month', 'key, days, cost_20, cost_21, cost_22')).toEqual([
      { key: 'k', days: 1n << 20n, cost_20: null, cost_21: 0n, cost_22: null, ...three },
      { key: '', days: 1n << 21n, cost_20: null, cost_21: null, cost_22: 0n, ...one },
    ])
    expect(await sumsIn('usage_tag', 'tag, value')).toEqual([
      { tag: ':group', value: 'g', ...three },
      { tag: 'team', value: 'a', ...three },
    ])
    expect(await sumsIn('usage_tag_total', 'tag, value')).toHaveLength(2)
    expect(await sumsIn('usage_provider', 'provider')).toEqual([])
  })

  test('a row that the database refuses is left out alone, and counted', async () => {
    for (let n = 0; n < 40; n++)
      log.append(logRowOf(`r${n}`, n === 17 ? { cost: 2n ** 64n } : n === 39 ? { model: null as never } : {}))
    await log.close()
    expect(log.dropped).toBe(2)
    const left = Array.from({ length: 40 }, (_, n) => `r${n}`).filter((id) => id !== 'r17' && id !== 'r39')
    expect(await idsIn()).toEqual(left)
  })

  test('rows wait while there is no database, and those whose answer is lost are not written twice', async () => {
    const others = 'FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
    const ended = async () => {
      await admin.unsafe(`SELECT pg_terminate_backend(pid) ${others}`)
      for (;;) {
        const [row] = await admin.unsafe(`SELECT count(*)::int AS n ${others}`)
        if (row.n === 0) break
      }
      // What the server has said to them on their way out has arrived before this.
      await admin.unsafe('SELECT 1')
    }
    // Held up before it has written anything, and cut.
    await waiting(0x57656c6f)
    log.append(logRowOf('cut'))
    const closing = log.close()
    for (;;) {
      const [row] = await admin.unsafe(
        "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
      )
      if (row.n === 1) break
    }
    await ended()
    await closing
    await admin.unsafe(`SELECT pg_advisory_unlock_all()`)
    expect(log.dropped).toBe(1)
    log.append(logRowOf('next'))
    await log.close()
    expect(await idsIn()).toEqual(['next'])
    expect(log.dropped).toBe(1)
  })

  test('a buffer that is full takes no more', async () => {
    const nowhere = new PostgresTables({ server: 'postgres://weir@127.0.0.1:1/none', connections: 1 })
    const lost = new PostgresRequestLog(nowhere)
    for (let n = 0; n < 10_005; n++) lost.append(logRowOf(`r${n}`))
    expect(lost.dropped).toBe(5)
    await lost.close()
    expect({ size: lost.size, dropped: lost.dropped }).toEqual({ size: 10_000, dropped: 5 })
    await nowhere.close()
  })
})
