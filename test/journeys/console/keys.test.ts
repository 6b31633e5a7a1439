// Keys as their account handles them in the console: shown once, limited, replaced, revoked.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openStore } from '../../../src/store/open.ts'
import { accountWith, eventually, postAs, getAs } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: ConsoleClient
beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
  await accountWith(weir, 'anna@example.org', { purchased: '5' })
  client = await signedIn(weir, 'anna@example.org')
})
afterAll(() => weir.stop())

interface Key {
  readonly id: string
  readonly key: string
  readonly last4: string
}

async function newKey(body: object): Promise<Key> {
  const { status, json, headers } = await client.post('keys', body)
  expect({ status, cache: headers.get('cache-control') }).toEqual({ status: 201, cache: 'no-store' })
  return json as unknown as Key
}

const call = (key: string) =>
  postAs(`${weir.baseUrl}/chat/completions`, key, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
  })

const listed = async (id: string) => {
  const { data } = (await client.get('keys')).json as { data: { id: string }[] }
  return data.find((key) => key.id === id) as Record<string, unknown>
}

test('a key is made with its limits, shown once, works at once, and is seen to be used', async () => {
  const made = await newKey({
    name: ' laptop ',
    limit_usd: '2.50',
    limit_window: 'day',
    models: ['sim/*'],
    requests_per_minute: 60,
    tokens_per_minute: 10_000,
    cache_ttl: 600,
    expires_at: '2100-01-01T00:00:00Z',
  })
  expect(made.key).toMatch(/^sk-weir-live-/)
  expect(made.key.endsWith(made.last4)).toBe(true)
  const text = JSON.stringify((await client.get('keys')).json)
  expect(text).not.toContain(made.key.slice(-30))
  expect(await listed(made.id)).toMatchObject({
    name: 'laptop',
    mode: 'live',
    state: 'active',
    limit_usd: '2.5',
    limit_window: 'day',
    spent_usd: '0',
    spendable_usd: '2.5',
    models: ['sim/*'],
    requests_per_minute: 60,
    tokens_per_minute: 10_000,
    cache_ttl: 600,
    networks: null,
    expires_at: '2100-01-01T00:00:00.000Z',
    last_used_at: null,
  })
  expect((await call(made.key)).status).toBe(200)
  const used = await eventually(
    () => listed(made.id),
    (key) => key['last_used_at'] !== null,
  )
  expect(Date.parse(String(used['last_used_at']))).toBeGreaterThan(Date.now() - 60_000)
  expect(used['spent_usd']).not.toBe('0')
})

test('a request with an id makes one key, however often it is sent; another account may have the same id', async () => {
  const keys = async () => ((await client.get('keys')).json as { data: object[] }).data.length
  const before = await keys()
  const wanted = { name: 'pressed twice', id: 'form-1' }
  const answers = await Promise.all([wanted, wanted].map((body) => client.post('keys', body)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
  const made = answers.find(({ status }) => status === 201)!.json as unknown as Key
  for (const body of [wanted, { ...wanted, name: 'renamed', mode: 'test' }])
    expect(await client.post('keys', body)).toMatchObject({
      status: 409,
      code: 'idempotency_conflict',
      json: { error: { message: expect.stringContaining('"pressed twice"'), metadata: { key: made.id } } },
    })
  expect(await keys()).toBe(before + 1)
  expect((await call(made.key)).status).toBe(200)
  await weir.command('accounts', 'create', '--email', 'carl@example.org', '--json')
  const carl = await signedIn(weir, 'carl@example.org')
  expect(await carl.post('keys', wanted)).toMatchObject({ status: 201 })
  // What was refused for another reason has made nothing: the same request can be corrected.
  const corrected = { name: 'corrected', id: 'form-2' }
  expect(await client.post('keys', { ...corrected, limit_usd: '0' })).toMatchObject({ status: 400 })
  expect(await client.post('keys', { ...corrected, limit_usd: '1' })).toMatchObject({ status: 201 })
})

test('a key works from its networks alone, until they are lifted', async () => {
  const { id, key } = await newKey({ name: 'office', networks: ['10.0.0.0/8', '192.0.2.7'] })
  const refused = await call(key)
  expect(refused.status).toBe(403)
  expect(await refused.json()).toMatchObject({ error: { code: 'network_not_allowed' } })
  // Nobody on the way is trusted, so what a header says of the address counts for nothing.
  const spoofed = await getAs(`${weir.baseUrl}/key`, key, { headers: { 'x-forwarded-for': '10.0.0.1' } })
  expect(spoofed.status).toBe(403)
  expect(await client.send('PATCH', `keys/${id}`, { networks: ['127.0.0.0/8', '::1'] })).toMatchObject({
    status: 200,
  })
  expect((await call(key)).status).toBe(200)
  expect(await client.send('PATCH', `keys/${id}`, { networks: null, name: 'home' })).toMatchObject({
    status: 200,
    json: { networks: null, name: 'home' },
  })
})

test('a key of the test mode says so, and spends nothing', async () => {
  const made = await newKey({ name: 'try', mode: 'test' })
  expect(made).toMatchObject({
    mode: 'test',
    spendable_usd: null,
    key: expect.stringMatching(/^sk-weir-test-/),
  })
})

test('two tabs that replace one key make one successor, and both keys work until the overlap ends', async () => {
  const old = await newKey({ name: 'server', limit_usd: '1' })
  const answers = await Promise.all(
    [1, 2].map(() => client.post(`keys/${old.id}/rotate`, { overlap: '24h' })),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
  const made = answers.find(({ status }) => status === 201)!.json
  expect(made).toMatchObject({ replaces: old.id, name: 'server', limit_usd: '1' })
  expect((await call(old.key)).status).toBe(200)
  expect((await call(String(made['key']))).status).toBe(200)
  expect(await client.post(`keys/${old.id}/rotate`, {})).toMatchObject({ status: 409, code: 'key_replaced' })
  expect(await listed(old.id)).toMatchObject({ state: 'active', replaced_by: made['id'] })
  expect(await listed(String(made['id']))).toMatchObject({ replaced_by: null })
  const next = await client.post(`keys/${String(made['id'])}/rotate`, {})
  expect(next.status).toBe(201)
  expect((await call(String(made['key']))).status).toBe(401)
})

test('a revoked key is refused at once, and stays revoked since then', async () => {
  const { id, key } = await newKey({ name: 'gone' })
  const { status, json } = await client.send('DELETE', `keys/${id}`)
  expect({ status, state: json['state'] }).toEqual({ status: 200, state: 'revoked' })
  expect((await call(key)).status).toBe(401)
  const again = await client.send('DELETE', `keys/${id}`)
  expect(again.json['revoked_at']).toBe(json['revoked_at'])
  expect(await client.send('PATCH', `keys/${id}`, { name: 'back' })).toMatchObject({ status: 400 })
})

test('a paused key is refused until it is resumed, and keeps its limit and what was spent of it', async () => {
  const { id, key } = await newKey({ name: 'at rest', limit_usd: '1' })
  expect((await call(key)).status).toBe(200)
  const { spent_usd: spent } = await listed(id)
  expect(await client.post(`keys/${id}/pause`, {})).toMatchObject({
    status: 200,
    json: { state: 'paused', paused_by: 'owner', paused_at: expect.any(String) },
  })
  const refused = await call(key)
  expect({ status: refused.status, body: await refused.json() }).toMatchObject({
    status: 401,
    body: { error: { code: 'api_key_paused' } },
  })
  // Its successor would work at once.
  expect(await client.post(`keys/${id}/rotate`, {})).toMatchObject({ status: 400 })
  expect(await client.send('PATCH', `keys/${id}`, { limit_usd: '2' })).toMatchObject({ status: 200 })
  expect(await client.post(`keys/${id}/resume`, {})).toMatchObject({
    status: 200,
    json: { state: 'active', paused_by: null, limit_usd: '2', spent_usd: spent },
  })
  expect((await call(key)).status).toBe(200)
})

test('a key that an operator has paused is not resumed by its owner', async () => {
  const { id, key } = await newKey({ name: 'stopped' })
  await client.post(`keys/${id}/pause`, {})
  expect(await weir.command('keys', 'pause', id)).toMatchObject({ code: 0 })
  expect(await listed(id)).toMatchObject({ state: 'paused', paused_by: 'operator' })
  expect(await client.post(`keys/${id}/resume`, {})).toMatchObject({ status: 400 })
  expect((await call(key)).status).toBe(401)
  expect(await weir.command('keys', 'resume', id)).toMatchObject({ code: 0 })
  expect((await call(key)).status).toBe(200)
  await client.send('DELETE', `keys/${id}`)
  expect(await client.post(`keys/${id}/pause`, {})).toMatchObject({ status: 400 })
})

test('keys of another account are not there', async () => {
  await accountWith(weir, 'berta@example.org', {})
  const berta = await signedIn(weir, 'berta@example.org')
  const { id } = await newKey({ name: 'mine' })
  const unknown = 'aaaaaaaaaaaa'
  for (const [method, path, body] of [
    ['PATCH', '', { name: 'theirs' }],
    ['DELETE', '', undefined],
    ['POST', '/rotate', {}],
  ] as const) {
    const [theirs, nobodys] = [
      await berta.send(method, `keys/${id}${path}`, body),
      await berta.send(method, `keys/${unknown}${path}`, body),
    ]
    expect(theirs).toMatchObject({ status: 404, code: 'not_found' })
    expect(nobodys).toMatchObject({ status: 404, code: 'not_found' })
  }
  expect(await listed(id)).toMatchObject({ state: 'active', name: 'mine' })
})

test.each([
  [{}, 'name'],
  [{ name: '' }, 'name'],
  [{ name: 'a\u0000b' }, 'name'],
  [{ name: 'k', limit_usd: '-1' }, 'limit_usd'],
  [{ name: 'k', limit_usd: 5 }, 'limit_usd'],
  [{ name: 'k', limit_usd: '0' }, 'limit_usd'],
  [{ name: 'k', limit_window: 'day' }, 'limit_window'],
  [{ name: 'k', limit_usd: '1', limit_window: 'year' }, 'limit_window'],
  [{ name: 'k', models: [] }, 'models'],
  [{ name: 'k', models: ['gpt'] }, 'models.0'],
  [{ name: 'k', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
  [{ name: 'k', expires_at: 'tomorrow' }, 'expires_at'],
  [{ name: 'k', requests_per_minute: 0 }, 'requests_per_minute'],
  [{ name: 'k', cache_ttl: 2_592_001 }, 'cache_ttl'],
  [{ name: 'k', tokens_per_minute: 1.5 }, 'tokens_per_minute'],
  [{ name: 'k', networks: ['10.0.0.0/33'] }, 'networks.0'],
  [{ name: 'k', mode: 'admin' }, 'mode'],
  [{ name: 'k', account: 'acct_other' }, 'account'],
])('no key is made of %p', async (body, param) => {
  expect(await client.post('keys', body)).toMatchObject({ status: 400, json: { error: { param } } })
})

test('what an operator does for others is kept, with who and what', async () => {
  const owner = await signedIn(weir, 'owner@localhost')
  const made = await owner.post('admin/invitations', { email: 'clara@example.org', role: 'operator' })
  expect(made.status).toBe(201)
  expect(String(made.json['url'])).toContain('/console/link#wt-weir-')
  const clara = new ConsoleClient(weir)
  expect(await clara.follow(String(made.json['url']))).toMatchObject({ json: { role: 'operator' } })
  expect(await client.post('admin/invitations', { email: 'dora@example.org' })).toMatchObject({
    status: 403,
    code: 'operator_required',
  })
  const store = await openStore(weir.dataDir, { clock: Date.now })
  try {
    const id = (email: string) => store.accounts.findAccount(email)
    const [operator, invited] = [await id('owner@localhost'), await id('clara@example.org')]
    expect((await store.acts.page(1))[0]).toMatchObject({
      operator: operator!.id,
      what: 'account.invite',
      subject: invited!.id,
      before: null,
      after: { email: 'clara@example.org', role: 'operator' },
    })
  } finally {
    await store.close()
  }
})
