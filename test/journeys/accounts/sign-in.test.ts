// Accounts as people use them: opened, signed in to, proven, given up; and what strangers cannot do with them.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { getAs, runJson } from '../../support/call-gateway.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

const password = 'a river runs through it'
let weir: RunningWeir
beforeAll(async () => {
  // One machine plays everybody here: what it may do in an hour is not the subject.
  weir = await startWeir({
    config: 'accounts: { sign_ups_per_network: 1000, sign_in_failures_per_network: 1000 }',
  })
})
afterAll(() => weir.stop())

const cli = (...args: string[]) => runJson(weir, ...args)

/** Opens an account and signs in to it. */
async function member(name: string): Promise<ConsoleClient> {
  const client = new ConsoleClient(weir)
  const email = `${name}@example.org`
  expect((await client.post('sign-up', { email, password })).status).toBe(202)
  expect((await client.post('sign-in', { email, password })).status).toBe(200)
  return client
}

describe('a fresh installation', () => {
  test('prints where the console is and a link that signs the owner in, once', async () => {
    const printed = weir.output()
    expect(printed).toContain(`http://localhost:${weir.port}/console\n`)
    const link = /http:\/\/localhost:\d+\/console\/link#\S+/.exec(printed)![0]
    const owner = new ConsoleClient(weir)
    const answer = await owner.follow(link)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.json).toMatchObject({
      role: 'operator',
      account: { email: 'owner@localhost', has_password: false },
    })
    expect(await new ConsoleClient(weir).follow(link)).toMatchObject({ status: 400, code: 'invalid_ticket' })
    expect(await owner.session()).toMatchObject({ role: 'operator' })
  })

  test('shows nobody to who is not signed in, and how one may sign in', async () => {
    const stranger = new ConsoleClient(weir)
    const { status, json, headers } = await stranger.get('session')
    expect({ status, json }).toEqual({
      status: 200,
      json: {
        account: null,
        role: null,
        elevated_until: null,
        methods: ['password', 'passkey'],
        sign_up: 'open',
        mail: false,
        brand: expect.objectContaining({ name: 'Weir' }),
      },
    })
    expect(headers.get('set-cookie')).toBeNull()
    for (const path of ['keys', 'sessions', 'passkeys'])
      expect((await stranger.get(path)).status).toBeOneOf([401, 404])
    expect(await stranger.get('keys')).toMatchObject({ status: 401, code: 'not_signed_in' })
  })

  test('leads from / to the console', async () => {
    const { status, headers } = await fetch(`${weir.origin}/`, { redirect: 'manual' })
    expect([status, headers.get('location')]).toEqual([302, '/console'])
  })
})

describe('an account', () => {
  test('is opened, signed in to, spends its welcome in the app, and is signed out of', async () => {
    const client = await member('anna')
    expect(client.cookie).toMatch(/^weir_session_\d+=ws-weir-/)
    expect(await client.session()).toMatchObject({
      role: 'user',
      account: { email: 'anna@example.org', email_verified: false, has_password: true, passkeys: 0 },
    })
    const credits = await fetch(`${weir.origin}/app/v1/credits`, { headers: { cookie: client.cookie } })
    const { data } = (await credits.json()) as { data: { pools: { type: string; remaining: string }[] } }
    expect(data.pools).toMatchObject([
      { type: 'purchased', remaining: '0' },
      { type: 'welcome', remaining: '0.5' },
      { type: 'daily', remaining: '0.2' },
      { type: 'subscription', remaining: '0' },
    ])
    const { cookie } = client
    expect(await client.post('sign-out')).toMatchObject({ status: 200, json: { account: null } })
    expect(client.cookie).toBe('')
    client.cookie = cookie
    expect(await client.get('keys')).toMatchObject({ status: 401, code: 'not_signed_in' })
  })

  test.each([
    [{ email: 'nobody', password }, 'email'],
    [{ email: 'a b@example.org', password }, 'email'],
    [{ email: 'short@example.org', password: 'a8_ü.Xq-1' }, 'password'],
    [{ email: 'long@example.org', password: 'ab1-'.repeat(33) }, 'password'],
    [{ email: 'common@example.org', password: 'Password123' }, 'password'],
    [{ email: 'same-as-me@example.org', password: 'same-as-me@example.org' }, 'password'],
    [{ email: 'dull@example.org', password: 'aaaaaaaaaaaaaa' }, 'password'],
    [{ email: 'role@example.org', password, role: 'operator' }, 'role'],
    [{ password }, 'email'],
  ])('is not opened with %p', async (body, param) => {
    const answer = await new ConsoleClient(weir).post('sign-up', body)
    expect(answer).toMatchObject({ status: 400, json: { error: { code: 'invalid_request', param } } })
  })

  test('changes its password with the one it has, and every other session ends', async () => {
    const [here, there] = [await member('berta'), new ConsoleClient(weir)]
    const email = 'berta@example.org'
    await there.post('sign-in', { email, password })
    const before = here.cookie
    expect(await here.post('password', { password: 'another river' })).toMatchObject({ status: 400 })
    expect(await here.post('password', { password: 'another river', current: 'wrong river' })).toMatchObject({
      status: 401,
      code: 'wrong_credentials',
    })
    expect(await there.get('keys')).toMatchObject({ status: 200 })
    expect(await here.post('password', { password: 'another river', current: password })).toMatchObject({
      status: 200,
      json: { account: { email } },
    })
    expect(here.cookie).not.toBe(before)
    expect(await there.get('keys')).toMatchObject({ status: 401 })
    expect(await here.get('keys')).toMatchObject({ status: 200 })
    expect(await there.post('sign-in', { email, password })).toMatchObject({ status: 401 })
    expect(await there.post('sign-in', { email, password: 'another river' })).toMatchObject({ status: 200 })
  })

  test('lists its sessions and ends them', async () => {
    const [here, there] = [await member('carla'), new ConsoleClient(weir)]
    await there.post(
      'sign-in',
      { email: 'carla@example.org', password },
      { headers: { 'user-agent': 'a phone' } },
    )
    const { data } = (await here.get('sessions')).json as {
      data: { id: string; current: boolean; user_agent: string }[]
    }
    expect(data).toHaveLength(2)
    const other = data.find(({ current }) => !current)!
    expect(other.user_agent).toBe('a phone')
    expect(await here.send('DELETE', `sessions/${other.id}`)).toMatchObject({
      status: 200,
      json: { ended: true },
    })
    expect(await there.get('keys')).toMatchObject({ status: 401 })
    expect(await here.send('DELETE', `sessions/${other.id}`)).toMatchObject({
      status: 404,
      code: 'not_found',
    })
    const dora = await member('dora')
    const mine = data.find(({ current }) => current)!
    expect(await dora.send('DELETE', `sessions/${mine.id}`)).toMatchObject({ status: 404, code: 'not_found' })
  })

  test('that is deleted is gone from every open tab, and its address is free', async () => {
    const [here, there] = [await member('emma'), new ConsoleClient(weir)]
    const email = 'emma@example.org'
    await there.post('sign-in', { email, password })
    const made = await here.post('keys', { name: 'laptop' })
    const key = String(made.json['key'])
    expect(await here.send('DELETE', 'account', { confirm: 'emm@example.org' })).toMatchObject({
      status: 400,
    })
    expect(await here.send('DELETE', 'account', { confirm: email })).toMatchObject({
      status: 200,
      json: { account: null },
    })
    for (const [method, path] of [
      ['GET', 'keys'],
      ['GET', 'sessions'],
      ['POST', 'keys'],
    ] as const) {
      const body = method === 'POST' ? { name: 'more' } : undefined
      expect(await there.send(method, path, body)).toMatchObject({ status: 401, code: 'not_signed_in' })
    }
    const app = await fetch(`${weir.origin}/app/v1/credits`, { headers: { cookie: there.cookie } })
    expect(app.status).toBe(401)
    const call = await getAs(`${weir.origin}/v1/credits`, key)
    expect(call.status).toBe(401)
    expect(await there.post('sign-in', { email, password })).toMatchObject({ status: 401 })
    await member('emma')
    // The person has had the welcome, whatever account asks for it.
    const again = new ConsoleClient(weir)
    await again.post('sign-in', { email, password })
    const credits = await fetch(`${weir.origin}/app/v1/credits`, { headers: { cookie: again.cookie } })
    const { data } = (await credits.json()) as { data: { pools: { type: string; remaining: string }[] } }
    expect(data.pools.find(({ type }) => type === 'welcome')?.remaining).toBe('0')
  })

  test('that is suspended cannot be signed in to, and is told so only with its password', async () => {
    const client = await member('frida')
    const email = 'frida@example.org'
    await cli('accounts', 'suspend', email)
    await Bun.sleep(300)
    expect(await client.get('keys')).toMatchObject({ status: 401 })
    expect(await client.post('sign-in', { email, password })).toMatchObject({
      status: 403,
      code: 'account_suspended',
    })
    expect(await client.post('sign-in', { email, password: 'a wrong one' })).toMatchObject({
      code: 'wrong_credentials',
    })
  })
})

describe('links', () => {
  test('of the operator’s command sign in, once; a newer one voids the older', async () => {
    await member('gerda')
    const [first, second] = [
      await cli('accounts', 'link', '--account', 'gerda@example.org'),
      await cli('accounts', 'link', '--account', 'gerda@example.org'),
    ]
    expect(first!['url']).toMatch(new RegExp(`^http://localhost:${weir.port}/console/link#wt-weir-`))
    expect(Date.parse(String(first!['expires_at']))).toBeGreaterThan(Date.now() + 14 * 60_000)
    const client = new ConsoleClient(weir)
    expect(await client.follow(String(first!['url']))).toMatchObject({ status: 400, code: 'invalid_ticket' })
    const tries = await Promise.all(
      [1, 2, 3].map(() => new ConsoleClient(weir).follow(String(second!['url']))),
    )
    expect(tries.map(({ status }) => status).toSorted()).toEqual([200, 400, 400])
  })

  test('to an account that nobody has proven shut out whoever opened it', async () => {
    const squatter = await member('victim')
    const made = await squatter.post('keys', { name: 'squatter' })
    const { url } = await cli('accounts', 'link', '--account', 'victim@example.org')
    const victim = new ConsoleClient(weir)
    expect(await victim.follow(String(url))).toMatchObject({
      status: 200,
      json: { account: { email_verified: true, has_password: false } },
    })
    expect(await squatter.get('keys')).toMatchObject({ status: 401 })
    expect(await squatter.post('sign-in', { email: 'victim@example.org', password })).toMatchObject({
      status: 401,
    })
    const key = { authorization: `Bearer ${String(made.json['key'])}` }
    expect((await fetch(`${weir.origin}/v1/credits`, { headers: key })).status).toBe(401)
  })

  test('of an invitation open the account with its role, and let it set a password', async () => {
    const { url } = await cli('accounts', 'invite', '--email', 'Helga@example.org', '--role', 'operator')
    const client = new ConsoleClient(weir)
    // Nobody else can take the address in the meantime.
    expect(
      (await client.post('sign-up', { email: 'helga@example.org', password: 'a squatter was here' })).status,
    ).toBe(202)
    expect(
      (await client.post('sign-in', { email: 'helga@example.org', password: 'a squatter was here' })).status,
    ).toBe(401)
    expect(await client.follow(String(url))).toMatchObject({
      status: 200,
      json: {
        role: 'operator',
        account: { email: 'helga@example.org', email_verified: true, has_password: false },
      },
    })
    expect(await client.post('password', { password })).toMatchObject({
      status: 200,
      json: { account: { has_password: true } },
    })
    expect(
      await new ConsoleClient(weir).post('sign-in', { email: 'helga@example.org', password }),
    ).toMatchObject({ status: 200 })
    const again = await weir.command('accounts', 'invite', '--email', 'helga@example.org', '--json')
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('has an account') })
  })

  test.each(['', 'wt-weir-abc', `wt-weir-${'a'.repeat(12)}-${'b'.repeat(39)}`, "' OR 1=1--", '__proto__'])(
    'that are %p lead nowhere',
    async (token) => {
      for (const [path, more] of [
        ['link', {}],
        ['verify', {}],
        ['reset/confirm', { password }],
      ] as const)
        expect(await new ConsoleClient(weir).post(path, { token, ...more })).toMatchObject({
          status: 400,
          code: 'invalid_ticket',
        })
    },
  )
})

test('S8 pages of other origins, and of none, change nothing', async () => {
  const client = await member('irma')
  for (const origin of [
    'null',
    'http://evil.example',
    `http://localhost:${weir.port + 1}`,
    'http://localhost',
  ]) {
    expect(await client.post('keys', { name: 'theirs' }, { origin })).toMatchObject({
      status: 403,
      code: 'origin_not_allowed',
    })
    const anonymous = new ConsoleClient(weir)
    const credentials = { email: 'irma@example.org', password }
    expect(await anonymous.post('sign-in', credentials, { origin })).toMatchObject({ status: 403 })
  }
  const crooked = await fetch(`${weir.origin}/console/api/session`, { headers: { host: 'x/public?' } })
  expect(crooked.status).toBe(400)
  expect((await crooked.text()).length).toBeLessThan(600)
})

test('S18 a cookie alone is no consent: without our origin a request is refused, and no page may read the answer', async () => {
  const client = await member('julia')
  const body = { name: 'theirs' }
  expect(await client.post('keys', body, { origin: null })).toMatchObject({
    status: 403,
    code: 'origin_not_allowed',
  })
  for (const site of ['cross-site', 'same-site', 'none'])
    expect(await client.post('keys', body, { headers: { 'sec-fetch-site': site } })).toMatchObject({
      status: 403,
    })
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])
    expect(await client.post('keys', body, { headers: { 'content-type': type } })).toMatchObject({
      status: 415,
    })
  expect(await client.send('DELETE', 'sessions/x', undefined, { origin: null })).toMatchObject({
    status: 403,
  })
  const app = await fetch(`${weir.origin}/app/v1/chat/completions`, {
    method: 'POST',
    headers: { cookie: client.cookie, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }] }),
  })
  expect(app.status).toBe(403)
  expect(((await client.get('keys')).json['data'] as unknown[]).length).toBe(0)
  const preflight = await fetch(`${weir.origin}/console/api/keys`, {
    method: 'OPTIONS',
    headers: { origin: 'http://evil.example', 'access-control-request-method': 'POST' },
  })
  expect(preflight.headers.get('access-control-allow-origin')).toBeNull()
  const ok = await client.post('keys', body, { headers: { 'sec-fetch-site': 'same-origin' } })
  expect(ok.status).toBe(201)
  expect(ok.headers.get('access-control-allow-origin')).toBeNull()
})

test('the cookie calls the app, too; where a bearer token comes along, that counts', async () => {
  const client = await member('klara')
  const headers = {
    cookie: client.cookie,
    origin: `http://localhost:${weir.port}`,
    'content-type': 'application/json',
  }
  const body = JSON.stringify({ model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
  const call = await fetch(`${weir.origin}/app/v1/chat/completions`, { method: 'POST', headers, body })
  expect(call.status).toBe(200)
  const token = client.cookie.slice(client.cookie.indexOf('=') + 1)
  const authorization = `Bearer ${token}x`
  const both = await fetch(`${weir.origin}/app/v1/credits`, { headers: { ...headers, authorization } })
  expect(both.status).toBe(401)
})

test('S9 no body takes a field that is not its own', async () => {
  const client = await member('laura')
  const stranger = {
    role: 'operator',
    is_admin: true,
    balance: '100',
    pool: 'purchased',
    account_id: 'x',
    email_verified: true,
  }
  const bodies: readonly [string, object][] = [
    ['sign-up', { email: 'x@example.org', password }],
    ['sign-in', { email: 'laura@example.org', password }],
    ['sign-out', {}],
    ['password', { password, current: password }],
    ['reset', { email: 'x@example.org' }],
    ['reset/confirm', { token: 'x', password }],
    ['verify', { token: 'x' }],
    ['link', { token: 'x' }],
    ['elevate', { password }],
    ['keys', { name: 'k' }],
  ]
  for (const [path, body] of bodies) {
    for (const [field, value] of Object.entries(stranger))
      expect(await client.post(path, { ...body, [field]: value })).toMatchObject({
        status: 400,
        code: 'invalid_request',
      })
  }
  expect(await client.session()).toMatchObject({ role: 'user' })
})

test('S19 a body that names the prototype is refused, and nothing is polluted', async () => {
  const client = await member('maria')
  for (const text of [
    '{"__proto__":{"isAdmin":true},"name":"k"}',
    '{"constructor":{"prototype":{"isAdmin":true}},"name":"k"}',
    '{"name":"k","models":{"__proto__":[]}}',
  ])
    expect(await client.post('keys', text)).toMatchObject({ status: 400 })
  client.cookie = `${client.cookie}; __proto__=x; constructor=y`
  expect(await client.get('keys')).toMatchObject({ status: 200 })
  expect('isAdmin' in {}).toBe(false)
})

test('S17 signing in gives a new session id, and the one from before is dead', async () => {
  const client = await member('nora')
  const before = client.cookie
  expect((await client.post('sign-in', { email: 'nora@example.org', password })).status).toBe(200)
  expect(client.cookie).not.toBe(before)
  const old = new ConsoleClient(weir)
  old.cookie = before
  expect(await old.get('keys')).toMatchObject({ status: 401 })
  // A session that somebody plants in a browser is not the one that is signed in to.
  const planted = new ConsoleClient(weir)
  planted.cookie = 'weir_session=ws-weir-aaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
  await planted.post('sign-in', { email: 'nora@example.org', password })
  expect(planted.cookie).toMatch(/^weir_session_\d+=ws-weir-/)
  expect(planted.cookie).not.toContain('aaaaaaaaaaaa')
})

test('S24 passwords cannot be tried out, by one after another or all at once', async () => {
  await member('olga')
  const email = 'olga@example.org'
  const wrong = () => new ConsoleClient(weir).post('sign-in', { email, password: 'a wrong password' })
  const answers = await Promise.all(Array.from({ length: 200 }, wrong))
  const codes = answers.map(({ status }) => status)
  expect(codes.filter((status) => status === 401)).toHaveLength(5)
  expect(codes.filter((status) => status === 429)).toHaveLength(195)
  const refused = answers.find(({ status }) => status === 429)!
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  // The right password has to wait as well, or it would be told apart from the wrong ones.
  expect((await new ConsoleClient(weir).post('sign-in', { email, password })).status).toBe(429)
  // Another address is not locked out by it.
  await member('paula')
})

test('S25 whether an address has an account is told by no answer', async () => {
  await member('rosa')
  const sent = ['rosa@example.org', 'unknown@example.org']
  const bodies = async (path: string, more: object) =>
    Promise.all(
      sent.map(async (email) => {
        const { status, json } = await new ConsoleClient(weir).post(path, { email, ...more })
        const error = json['error'] as { metadata?: { request_id?: string } } | undefined
        if (error?.metadata) delete error.metadata.request_id
        return { status, json }
      }),
    )
  for (const [path, more, status] of [
    ['sign-in', { password: 'not the right one' }, 401],
    ['sign-up', { password: 'not the right one' }, 202],
    ['reset', {}, 202],
  ] as const) {
    const [known, unknown] = await bodies(path, more)
    expect(known).toEqual(unknown!)
    expect(known!.status).toBe(status)
  }
  // The password of the known account is still its own.
  expect(
    (await new ConsoleClient(weir).post('sign-in', { email: 'rosa@example.org', password })).status,
  ).toBe(200)
})
