// Every refusal can be found by the id in its answer: under its account where that is known, by operators where not.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { getAs } from '../../support/call-gateway.ts'
import { until } from '../../chat/lab.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

interface Row {
  readonly id: string
  readonly code: string
  readonly status: number
  readonly key: string | null
  readonly detail: Readonly<Record<string, unknown>>
}

const [alice, bob] = ['alice@example.org', 'bob@example.org']

let weir: ServedWeir
let management: string
/** Keys of accounts, by what is the matter with them. */
const keys: Record<string, string> = {}

beforeAll(async () => {
  weir = await serveWeir({ config: JSON.stringify({ server: { max_body_bytes: 100_000 } }) })
  for (const email of [alice, bob]) {
    await command('accounts', 'create', '--email', email)
    await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '1')
  }
  const make = async (email: string, ...more: string[]) =>
    String((await command('keys', 'create', '--account', email, ...more))['key'])
  keys['plain'] = await make(alice)
  keys['viewer'] = await make(alice, '--sees', 'all')
  keys['revoked'] = await make(alice)
  keys['elsewhere'] = await make(alice, '--networks', '203.0.113.0/24')
  keys['slow'] = await make(alice, '--requests-per-minute', '1')
  keys['suspended'] = await make(bob)
  management = String(
    (await command('keys', 'create', '--management', '--account', 'owner@localhost'))['key'],
  )
  await command('keys', 'revoke', idOf(keys['revoked']))
  await command('accounts', 'suspend', bob)
}, 60_000)

afterAll(() => weir?.stop())

async function command(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await weir.command(...args, '--json')
  expect([code, stderr]).toEqual([0, ''])
  return (stdout.trim() === '' ? {} : JSON.parse(stdout)) as Record<string, unknown>
}

const idOf = (key: string) => key.split('-')[3]!

interface Asked {
  readonly path: string
  readonly key?: string | undefined
  readonly body?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly method?: string
}

async function ask({ path, key, body = chat, headers = {}, method = 'POST' }: Asked) {
  const response = await fetch(weir.origin + path, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(method === 'GET' ? {} : { body }),
  })
  return { status: response.status, id: response.headers.get('x-request-id')!, text: await response.text() }
}

async function get(path: string, key: string): Promise<{ status: number; data: Row }> {
  const response = await getAs(weir.origin + path, key)
  return { status: response.status, data: ((await response.json()) as { data: Row }).data }
}

/** The row as operators see it; rows are written a moment after the answer. */
async function rowOf(id: string): Promise<Row> {
  const found = await until(
    () => get(`/admin/v1/requests/${id}`, management),
    ({ status }) => status === 200,
    5_000,
  )
  return found.data
}

const messages = [{ role: 'user', content: 'hi' }]
const chat = JSON.stringify({ model: 'sim/echo', messages })
const doors: Record<string, Asked> = {
  chat: { path: '/v1/chat/completions' },
  completions: { path: '/v1/completions', body: JSON.stringify({ model: 'sim/echo', prompt: 'hi' }) },
  messages: { path: '/v1/messages', body: JSON.stringify({ model: 'sim/echo', max_tokens: 9, messages }) },
  count: { path: '/v1/messages/count_tokens', body: JSON.stringify({ model: 'sim/echo', messages }) },
  responses: { path: '/v1/responses', body: JSON.stringify({ model: 'sim/echo', input: 'hi' }) },
  'responses count': {
    path: '/v1/responses/input_tokens',
    body: JSON.stringify({ model: 'sim/echo', input: 'hi' }),
  },
  gemini: {
    path: '/v1beta/models/sim/echo:generateContent',
    body: JSON.stringify({ contents: [{ parts: [{ text: 'hi' }] }] }),
  },
  'gemini count': {
    path: '/v1beta/models/sim/echo:countTokens',
    body: JSON.stringify({ contents: [{ parts: [{ text: 'hi' }] }] }),
  },
  embeddings: { path: '/v1/embeddings', body: JSON.stringify({ model: 'sim/embed', input: 'hi' }) },
  estimate: { path: '/v1/estimate' },
}

// All at the same time: each waits for its rows, which are written four times a second, and works little.
describe.concurrent.each(Object.entries(doors))('a refusal of %s has a row', (_, door) => {
  test.each(['revoked', 'elsewhere', 'suspended'])('with its account and key (%s)', async (matter) => {
    const key = keys[matter]!
    const refused = await ask({ ...door, key })
    const code = {
      revoked: 'api_key_revoked',
      elsewhere: 'network_not_allowed',
      suspended: 'account_suspended',
    }[matter]!
    // An estimate tells of a suspended account what would happen to the call.
    if (refused.status === 200) return expect(refused.text).toContain(code)
    expect(refused.text).toContain(code)
    const row = await rowOf(refused.id)
    expect(row).toMatchObject({ id: refused.id, code, status: refused.status, key: idOf(key) })
    expect(JSON.stringify(row)).not.toContain('127.0.0.1')
    // The owner's other keys find it too.
    if (matter !== 'suspended')
      expect((await get(`/v1/requests/${refused.id}`, keys['viewer']!)).data).toMatchObject({ code })
  })

  test('of a body that is wrong, too large or of another type', async () => {
    const key = keys['plain']!
    for (const [body, headers, code] of [
      ['{', {}, 'invalid_request'],
      ['{}', {}, 'invalid_request'],
      [`{"a":"${'x'.repeat(100_000)}"}`, {}, 'payload_too_large'],
      ['{}', { 'content-encoding': 'br' }, 'unsupported_media_type'],
    ] as const) {
      const refused = await ask({ ...door, key, body, headers })
      if (code !== 'invalid_request') expect(refused.text).toContain(code)
      const row = await rowOf(refused.id)
      expect(row).toMatchObject({ status: refused.status, key: idOf(key) })
      expect(refused.text).toContain(row.code)
    }
  })

  test('with the key’s public id and the client’s address where the secret is wrong, for operators', async () => {
    const right = keys['plain']!
    const wrong = `${right.slice(0, -1)}${right.endsWith('A') ? 'B' : 'A'}`
    const refused = await ask({ ...door, key: wrong })
    expect(refused.status).toBe(401)
    const row = await rowOf(refused.id)
    expect(row).toMatchObject({ code: 'invalid_api_key', key: null })
    expect(row.detail).toMatchObject({ key_id: idOf(right), address: '127.0.0.1', method: 'POST' })
    expect(JSON.stringify(row)).not.toContain(wrong.slice(-39))
    // Nobody may write into another's log by knowing the id of a key.
    expect((await get(`/v1/requests/${refused.id}`, keys['viewer']!)).status).toBe(404)
  })
})

describe.concurrent('so has a refusal', () => {
  test.each<[string, () => Asked, string]>([
    ['for an idempotency key that is taken', () => conflict('/v1/chat/completions'), 'idempotency_conflict'],
    ['for a limit', () => ({ path: '/v1/chat/completions', key: keys['slow'] }), 'rate_limit_exceeded'],
    ['for a limit of counting', () => ({ ...doors['count']!, key: keys['slow'] }), 'rate_limit_exceeded'],
    ['without a key', () => ({ path: '/v1/chat/completions' }), 'missing_api_key'],
    ['of an address that there is not', () => ({ path: '/v1/nothing', key: keys['plain'] }), 'not_found'],
    ['of the app', () => ({ path: '/app/v1/chat/completions', key: 'ws-weir-nothing' }), 'invalid_api_key'],
    ['of MCP', () => ({ path: '/mcp', key: keys['revoked'], body: '{}' }), 'api_key_revoked'],
    ['of the admin API', () => ({ path: '/admin/v1/accounts', key: keys['plain'] }), 'invalid_api_key'],
    [
      'of the console',
      () => ({
        path: '/console/api/sign-in',
        body: JSON.stringify({ email: alice, password: 'wrong password' }),
      }),
      '',
    ],
    ['of reading', () => ({ path: '/v1/requests', key: keys['revoked'], method: 'GET' }), 'api_key_revoked'],
  ])('%s', async (_, asked, code) => {
    const first = asked()
    if (code === 'rate_limit_exceeded' || code === 'idempotency_conflict')
      await ask({ ...first, ...firstOf(first) })
    const refused = await ask(first)
    expect(refused.status).toBeWithin(400, 500)
    const row = await rowOf(refused.id)
    expect(row.status).toBe(refused.status)
    if (code !== '') expect(row.code).toBe(code)
  })

  test('that the command line finds by the id of the error', async () => {
    const refused = await ask({ path: '/v1/chat/completions', key: keys['revoked'] })
    await rowOf(refused.id)
    const shown = await command('requests', 'show', refused.id)
    expect(shown).toMatchObject({ id: refused.id, code: 'api_key_revoked', key: idOf(keys['revoked']!) })
    expect(shown['account']).toStartWith('acct_')
  })
})

function conflict(path: string): Asked {
  return {
    path,
    key: keys['plain'],
    headers: { 'idempotency-key': 'one' },
    body: JSON.stringify({ model: 'sim/echo', messages, seed: 1 }),
  }
}

/** What is to come before it, so that it is refused. */
function firstOf(asked: Asked): Partial<Asked> {
  return asked.headers === undefined ? {} : { body: chat }
}
