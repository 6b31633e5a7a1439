// A gateway that starts makes calls of its own, of which nothing is left.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { usd } from '../../src/credits/money.ts'
import type { LogFields } from '../../src/observe/log.ts'
import { type Rehearsal, warmUp } from '../../src/serve/warm-up.ts'
import { openInMemory } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { serveWeir } from '../support/serve-weir.ts'

/** Longer than any test: what ends sooner does so for another reason. */
const everMs = 600_000

/** What is done with a warm-up, and what it logs. */
function lab(fetch: Rehearsal['fetch'] = () => Response.json({})) {
  const seen = { calls: 0, closed: 0, logged: [] as (LogFields | undefined)[] }
  return {
    seen,
    log: { debug: (_: string, fields?: LogFields) => void seen.logged.push(fields) },
    async prepare(): Promise<Rehearsal> {
      return {
        key: 'a-key',
        fetch(request) {
          seen.calls++
          return fetch(request)
        },
        close: async () => void seen.closed++,
      }
    },
  }
}

test('calls go through a whole gateway, which touches no file', async () => {
  const before = readdirSync('.')
  const { log, seen } = lab()
  let looks = 0
  const answered = await warmUp({ forMs: everMs, isInterrupted: () => ++looks > 20, log })
  expect(answered).toBe(20)
  expect(seen.logged).toEqual([])
  expect(readdirSync('.')).toEqual(before)
}, 30_000)

test('a store in memory keeps books that no other one sees', async () => {
  const [one, other] = [openInMemory({ clock: () => noon }), openInMemory({ clock: () => noon })]
  const account = await one.accounts.createAccount('a@example.org', { role: 'user' })
  await one.ledger.grant({
    source: 'a',
    account: account.id,
    pool: 'purchased',
    amount: usd('1'),
    expiresAt: 'never',
    from: 'grant',
  })
  expect(await one.ledger.totals(account.id)).toMatchObject({ purchased: usd('1') })
  expect(await other.accounts.listAccounts()).toEqual([])
  await one.close()
  await other.close()
})

test('a client that waits ends it', async () => {
  const { log, seen, prepare } = lab()
  expect(await warmUp({ forMs: everMs, isInterrupted: () => true, log, prepare })).toBe(0)
  expect(seen).toEqual({ calls: 0, closed: 1, logged: [] })
})

test('its time ends it, though a call has no answer', async () => {
  const { log, seen, prepare } = lab(() => new Promise<never>(() => undefined))
  expect(await warmUp({ forMs: 5, isInterrupted: () => false, log, prepare })).toBe(0)
  expect(seen.logged).toEqual([])
})

test.each([
  ['call is refused', lab(() => new Response('no', { status: 500 })), 1],
  ['gateway cannot be made', { ...lab(), prepare: () => Promise.reject(new Error('no')) }, 0],
])(
  'where a %s, a line of the log says so, and the start goes on',
  async (_, { log, seen, prepare }, closed) => {
    expect(await warmUp({ forMs: everMs, isInterrupted: () => false, log, prepare })).toBe(0)
    expect(seen.logged).toEqual([{ error: expect.objectContaining({ message: 'no' }) }])
    expect(seen.closed).toBe(closed)
  },
)

/** How many rows a table has. */
function rowsIn(dataDir: string, table: string): number {
  using database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  return database.query<{ n: number }, []>(`SELECT count(*) AS n FROM "${table}"`).get()!.n
}

const ofCalls = ['call', 'open_call', 'request_log', 'usage_day', 'usage_total', 'webhook_delivery']

test.each([true, false])('server.warm_up: %p: nothing is charged, logged or counted', async (isOn) => {
  const env = { WEIR_SERVER_WARM_UP: String(isOn) }
  await using weir = await serveWeir({ config: 'log: { level: debug }', env })
  expect(weir.output().includes('"warmed up"')).toBe(isOn)
  const ready = await fetch(`${weir.origin}/readyz`)
  expect(await ready.json()).toMatchObject({ status: 'ready', warming: false })
  for (const table of ofCalls) expect([table, rowsIn(weir.dataDir, table)]).toEqual([table, 0])
  expect(rowsIn(weir.dataDir, 'account')).toBe(1)
  // The owner's credit, and a welcome.
  expect(rowsIn(weir.dataDir, 'lot')).toBe(2)
  expect(weir.output()).not.toContain('sim/echo')
  const made = await weir.command('keys', 'create', '--account', 'owner@localhost', '--management')
  const headers = { authorization: `Bearer ${made.stdout.trim()}` }
  const metrics = await (await fetch(`${weir.origin}/metrics`, { headers })).text()
  expect(metrics).toContain('weir_ready 1\n')
  expect(metrics).not.toMatch(/^weir_(calls|attempts|refusals)_total\{/m)
})
