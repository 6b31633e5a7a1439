// The admin API: what operators do, with a management key or in the console; what nobody else may; and that it is recorded.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, setSystemTime, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { adminRoutes, consoleRoutes as routes } from '../../../src/http/console/api.ts'
import { until } from '../../chat/lab.ts'
import { accountWith, post, getAs, runJson } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

type Json = Readonly<Record<string, unknown>>

setDefaultTimeout(30_000)

let weir: ServedWeir
let management: string
let anna: { key: string; keyId: string }
let annaId: string
let operator: ConsoleClient
let user: ConsoleClient

const command = (...args: string[]) => runJson(weir, ...args)

async function admin(method: string, path: string, body?: unknown, key = management) {
  const response = await fetch(`${weir.origin}/admin/v1/${path}`, {
    method,
    headers: {
      ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Json
  if (response.ok && text.startsWith('{')) expectDocumented('admin', method, path, json)
  return { status: response.status, json, error: json['error'] as Json | undefined, text }
}

const managementKey = async (...args: string[]) =>
  String((await command('keys', 'create', '--management', '--account', 'owner@localhost', ...args))['key'])
const chat = { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] }

beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
  management = await managementKey()
  anna = await accountWith(weir, 'anna@example.org', { purchased: '1' })
  annaId = String((await command('accounts', 'show', 'anna@example.org'))['id'])
  operator = await signedIn(weir, 'owner@localhost')
  user = await signedIn(weir, 'anna@example.org')
}, 30_000)
afterAll(() => weir?.stop())

describe('an operator', () => {
  test('opens an account, grants it credit once, gives it a key with limits, and all of it is recorded', async () => {
    const opened = await admin('POST', 'accounts', { email: 'Carl@example.org' })
    expect(opened).toMatchObject({ status: 201, json: { email: 'carl@example.org', role: 'user' } })
    const id = String(opened.json['id'])
    const grant = { pool: 'purchased', usd: '3.5', id: 'invoice-1' }
    const first = await admin('POST', `accounts/${id}/grant`, grant)
    expect(first).toMatchObject({ status: 200, json: { granted: true, usd: '3.5' } })
    const { lot } = first.json
    for (const body of [grant, { ...grant, note: 'once more' }])
      expect(await admin('POST', `accounts/${id}/grant`, body)).toMatchObject({
        status: 200,
        json: { granted: false, lot },
      })
    for (const other of [{ usd: '4' }, { expires_at: 'never' }, { expires_at: '2999-01-01T00:00:00Z' }])
      expect(await admin('POST', `accounts/${id}/grant`, { ...grant, ...other })).toMatchObject({
        status: 409,
        error: {
          code: 'idempotency_conflict',
          message: expect.stringMatching(/has granted 3\.5 USD \(purchased\) .* That lot expires at 20/),
          metadata: { lot },
        },
      })
    const { json: shown } = await admin('GET', `accounts/${id}`)
    expect(shown['data']).toMatchObject({ credits: { spendable: { api: '3.5' }, total_purchased: '3.5' } })

    const limits = { name: 'robot', requests_per_minute: 1, tokens_per_minute: 1000, limit_usd: '1' }
    const made = await admin('POST', `accounts/${id}/keys`, limits)
    expect(made).toMatchObject({ status: 201, json: { ...limits, limit_window: 'total' } })
    const key = String(made.json['key'])
    expect((await post(weir, chat, { key })).status).toBe(200)
    expect((await post(weir, chat, { key })).status).toBe(429)
    const path = `accounts/${id}/keys/${String(made.json['id'])}`
    expect(await admin('PATCH', path, { requests_per_minute: null })).toMatchObject({ status: 200 })
    expect((await post(weir, chat, { key })).status).toBe(200)
    expect(await admin('DELETE', path)).toMatchObject({ status: 200, json: { state: 'revoked' } })
    expect((await post(weir, chat, { key })).status).toBe(401)

    const { json } = await admin('GET', 'acts?limit=6')
    const acts = (json['data'] as Json[]).filter(({ subject }) => subject === id)
    expect(acts.map(({ what }) => what)).toEqual([
      'key.revoke',
      'key.change',
      'key.create',
      'credits.grant',
      'account.create',
    ])
    expect(JSON.stringify(json)).not.toContain(key)
  })

  test('deletes an account: its key ends, its address is free, and another operator is no matter for a key', async () => {
    const opened = await admin('POST', 'accounts', { email: 'passing@example.org' })
    const id = String(opened.json['id'])
    await admin('POST', `accounts/${id}/grant`, { pool: 'purchased', usd: '1' })
    const { json: made } = await admin('POST', `accounts/${id}/keys`, { name: 'one' })
    expect((await post(weir, chat, { key: String(made['key']) })).status).toBe(200)
    expect(await admin('DELETE', `accounts/${id}`)).toMatchObject({
      status: 200,
      json: { id, deleted: true },
    })
    expect((await post(weir, chat, { key: String(made['key']) })).status).toBe(401)
    expect(await admin('DELETE', `accounts/${id}`)).toMatchObject({ status: 200 })
    expect(await admin('POST', 'accounts', { email: 'passing@example.org' })).toMatchObject({ status: 201 })
    const owner = await weir.command('accounts', 'show', 'owner@localhost', '--json')
    const ownerId = String((JSON.parse(owner.stdout) as Json)['id'])
    expect(await admin('DELETE', `accounts/${ownerId}`)).toMatchObject({ status: 403 })
    const { json } = await admin('GET', 'acts?limit=4')
    expect((json['data'] as Json[]).map(({ what }) => what)).toContain('account.delete')
  })

  test('suspends and resumes an account, by its calls', async () => {
    expect(await admin('POST', `accounts/${annaId}/suspend`, {})).toMatchObject({ json: { suspended: true } })
    expect((await post(weir, chat, { key: anna.key })).status).toBe(403)
    expect(await admin('POST', `accounts/${annaId}/resume`, {})).toMatchObject({ json: { suspended: false } })
    expect((await post(weir, chat, { key: anna.key })).status).toBe(200)
    user = await signedIn(weir, 'anna@example.org')
  })

  test('sees the calls and the usage of everybody, and proves the ledger', async () => {
    // Rows of the log are written together, a quarter of a second after their calls.
    await until(
      () => admin('GET', `requests?account=${annaId}`),
      ({ json }) => (json['data'] as Json[]).length > 0,
    )
    const byAccount = await admin('GET', 'usage?by=account')
    expect(byAccount.json['data']).toContainEqual(
      expect.objectContaining({ group: annaId, label: 'anna@example.org' }),
    )
    expect((await admin('GET', 'usage.csv?by=account')).text).toContain('anna@example.org')
    expect(await admin('POST', 'audit', {})).toMatchObject({ status: 200, json: { data: { ok: true } } })
    const today = new Date().toISOString().slice(0, 10)
    expect(await admin('POST', 'audit', { day: today })).toMatchObject({ json: { data: { ok: true } } })
    for (const path of ['overview', 'providers', 'catalog', 'settings', 'accounts?q=anna&limit=1'])
      expect({ path, status: (await admin('GET', path)).status }).toEqual({ path, status: 200 })
  })

  test('sees each setting with where it came from, and what was changed of the catalog', async () => {
    const { json } = await admin('GET', 'settings')
    expect(json['file']).toEndWith('weir.yaml')
    expect(json['settings']).toContainEqual({
      path: 'local_servers.discover',
      value: false,
      origin: expect.stringContaining('weir.yaml'),
      env: 'WEIR_LOCAL_SERVERS_DISCOVER',
    })
    expect((await admin('GET', 'catalog')).json).toMatchObject({ changes: null, overrides: [] })
    const exported = join(weir.dataDir, '..', 'prices.json')
    await command('catalog', 'export', exported)
    const file = (await Bun.file(exported).json()) as { models: { id: string; name?: string }[] }
    const [first, second] = file.models
    second!.name = 'Another name'
    await Bun.write(exported, JSON.stringify({ ...file, models: file.models.slice(1) }))
    await command('catalog', 'import', exported)
    expect((await admin('GET', 'catalog')).json['changes']).toEqual({
      added: [],
      removed: [first!.id],
      changed: [{ id: second!.id, fields: { name: { from: expect.anything(), to: 'Another name' } } }],
    })
    rmSync(join(weir.dataDir, 'catalog.json'))
  })

  test('grants as often as it likes: the history of credit is downloaded whole, however long', async () => {
    const email = 'often@example.org'
    const { json } = await admin('POST', 'accounts', { email })
    for (let nth = 0; nth < 210; nth += 1) {
      const grant = { pool: 'purchased', usd: '0.01', note: `grant ${nth}` }
      expect((await admin('POST', `accounts/${String(json['id'])}/grant`, grant)).status).toBe(200)
    }
    const { cookie } = await signedIn(weir, email)
    const response = await fetch(`${weir.origin}/console/api/credits/history.csv`, { headers: { cookie } })
    expect(response.headers.get('content-disposition')).toContain('credits.csv')
    const [heading, ...lines] = (await response.text()).trimEnd().split('\r\n')
    expect(heading).toBe('at,kind,pool,amount,lot,call,model,note')
    expect(lines.filter((line) => line.includes(',purchased,0.01,'))).toHaveLength(210)
    expect(new Set(lines).size).toBe(lines.length)
  }, 60_000)

  test('pages through the accounts', async () => {
    const whole = (await admin('GET', 'accounts')).json['data'] as Json[]
    const paged: unknown[] = []
    let cursor: unknown = ''
    while (cursor !== null) {
      const more = cursor === '' ? '' : `&cursor=${String(cursor)}`
      const { json } = await admin('GET', `accounts?limit=1${more}`)
      paged.push(...(json['data'] as Json[]))
      cursor = json['next_cursor']
    }
    expect(paged).toEqual(whole)
  })

  test.each([
    // pool, expires_at, status, the parameter at fault
    ['purchased', 'never', 200, undefined],
    ['welcome', 'never', 200, undefined],
    ['daily', undefined, 200, undefined],
    ['daily', 'never', 400, 'expires_at'],
    ['daily', '2999-01-01T00:00:00Z', 400, 'expires_at'],
    ['subscription', 'never', 400, 'expires_at'],
    ['subscription', undefined, 400, 'expires_at'],
    ['subscription', '2999-01-01T00:00:00Z', 200, undefined],
  ])('grants %s credit that ends %p: %p', async (pool, expires_at, status, param) => {
    const { json } = await admin('POST', 'accounts', { email: `${crypto.randomUUID()}@example.org` })
    const grant = { pool, usd: '0.1', expires_at }
    const answer = await admin('POST', `accounts/${String(json['id'])}/grant`, grant)
    expect({ status: answer.status, param: Object(answer.json['error'])['param'] }).toEqual({ status, param })
  })

  test('in the console does the same, with a fresh proof where it is asked for', async () => {
    const granted = await operator.post(`admin/accounts/${annaId}/grant`, { pool: 'welcome', usd: '0.1' })
    expect(granted).toMatchObject({ status: 200, json: { granted: true } })
    const { json } = await operator.get('admin/acts?limit=1')
    expect(json['data']).toMatchObject([{ what: 'credits.grant', subject: annaId }])
  })
})

describe('a management key', () => {
  test('makes no calls, and API keys administer nothing', async () => {
    expect((await post(weir, chat, { key: management })).status).toBe(401)
    expect(await admin('GET', 'accounts', undefined, weir.key)).toMatchObject({ status: 401 })
    expect(await admin('GET', 'accounts', undefined, '')).toMatchObject({ status: 401 })
    expect(await admin('GET', 'nowhere', undefined, '')).toMatchObject({ status: 401 })
    expect(await admin('GET', 'nowhere')).toMatchObject({ status: 404 })
  })

  test('is revoked at once, ends with its operator’s role, and belongs to operators only', async () => {
    const made = await command('keys', 'create', '--management', '--account', 'owner@localhost')
    const key = String(made['key'])
    expect(await admin('GET', 'overview', undefined, key)).toMatchObject({ status: 200 })
    await command('keys', 'revoke', String(made['id']))
    expect(await admin('GET', 'overview', undefined, key)).toMatchObject({
      error: { code: 'api_key_revoked' },
    })
    const refused = await weir.command('keys', 'create', '--management', '--account', 'anna@example.org')
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('no operator') })
    await command('accounts', 'role', 'anna@example.org', 'operator')
    const annas = await command('keys', 'create', '--management', '--account', 'anna@example.org')
    await command('accounts', 'role', 'anna@example.org', 'user')
    const withAnnas = () => admin('GET', 'overview', undefined, String(annas['key']))
    expect(await withAnnas()).toMatchObject({ status: 401, error: { code: 'api_key_revoked' } })
    // Nor does it come back with the role.
    await command('accounts', 'role', 'anna@example.org', 'operator')
    expect(await withAnnas()).toMatchObject({ status: 401, error: { code: 'api_key_revoked' } })
    await command('accounts', 'role', 'anna@example.org', 'user')
  })

  test('is made with a fresh proof in the console, listed and revoked over HTTP, and makes no other', async () => {
    const body = { name: 'deploy', networks: ['127.0.0.1'] }
    expect(await admin('POST', 'management-keys', body)).toMatchObject({ status: 405 })
    const made = await operator.post('admin/management-keys', body)
    expect(made).toMatchObject({ status: 201, json: { name: 'deploy', state: 'active' } })
    expect(made.headers.get('cache-control')).toBe('no-store')
    const { id, key } = made.json as { id: string; key: string }
    const listed = await admin('GET', 'management-keys', undefined, key)
    expect(listed.json['data']).toContainEqual(
      expect.objectContaining({ id, name: 'deploy', last4: key.slice(-4) }),
    )
    expect(listed.text).not.toContain(key)
    expect(await admin('DELETE', `management-keys/${id}`)).toMatchObject({ json: { state: 'revoked' } })
    expect(await admin('GET', 'overview', undefined, key)).toMatchObject({ status: 401 })
    expect(await admin('DELETE', 'management-keys/aaaaaaaaaaaa')).toMatchObject({ status: 404 })
    for (const wrong of [{ name: 'k', role: 'operator' }, { name: '' }, { name: 'k', networks: ['home'] }])
      expect(await operator.post('admin/management-keys', wrong)).toMatchObject({ status: 400 })
    const { json } = await operator.get('admin/acts?limit=2')
    expect(json['data']).toMatchObject([{ what: 'management_key.revoke' }, { what: 'management_key.create' }])
  })

  test('is made once for the id of a request, however often it is sent; each operator has its own ids', async () => {
    const path = 'admin/management-keys'
    const keys = async () => ((await admin('GET', 'management-keys')).json['data'] as Json[]).length
    const before = await keys()
    const wanted = { name: 'pressed twice', id: 'form-1' }
    const answers = await Promise.all([wanted, wanted].map((body) => operator.post(path, body)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
    const made = answers.find(({ status }) => status === 201)!.json
    for (const body of [wanted, { ...wanted, name: 'renamed', networks: ['127.0.0.1'] }])
      expect(await operator.post(path, body)).toMatchObject({
        status: 409,
        code: 'idempotency_conflict',
        json: {
          error: { message: expect.stringContaining('"pressed twice"'), metadata: { key: made['id'] } },
        },
      })
    expect(await keys()).toBe(before + 1)
    expect(await admin('GET', 'overview', undefined, String(made['key']))).toMatchObject({ status: 200 })
    const acts = (await operator.get('admin/acts?limit=20')).json['data'] as Json[]
    const created = acts.filter(
      ({ what, after }) => what === 'management_key.create' && (after as Json)['id'] === made['id'],
    )
    expect(created).toHaveLength(1)
    // An API key of the same request has another id: `weir keys revoke` takes both.
    const apiKey = await operator.post('keys', wanted)
    expect(apiKey.status).toBe(201)
    expect(apiKey.json['id']).not.toBe(made['id'])
    await command('accounts', 'create', '--email', 'olga@example.org')
    await command('accounts', 'role', 'olga@example.org', 'operator')
    const olga = await signedIn(weir, 'olga@example.org')
    expect(await olga.post(path, wanted)).toMatchObject({ status: 201 })
    await command('accounts', 'role', 'olga@example.org', 'user')
    // A revoked key still stands for its request. What was refused has made nothing: it can be corrected.
    await admin('DELETE', `management-keys/${String(made['id'])}`)
    expect(await operator.post(path, wanted)).toMatchObject({ status: 409 })
    const corrected = { name: 'corrected', id: 'form-2' }
    expect(await operator.post(path, { ...corrected, networks: ['home'] })).toMatchObject({ status: 400 })
    expect(await operator.post(path, corrected)).toMatchObject({ status: 201 })
  })

  test('gives nobody the access of an operator, which would outlive it', async () => {
    const email = 'mallory@example.org'
    const { json } = await operator.get('admin/accounts?q=owner@localhost')
    const owner = String((json['data'] as Json[])[0]!['id'])
    const refused = { status: 403, error: { code: 'elevation_required' } }
    expect(await admin('POST', `accounts/${owner}/link`, {})).toMatchObject(refused)
    expect(await admin('POST', 'invitations', { email, role: 'operator' })).toMatchObject(refused)
    expect(await admin('POST', 'accounts', { email, role: 'operator' })).toMatchObject(refused)
    expect(await admin('POST', `accounts/${annaId}/role`, { role: 'operator' })).toMatchObject(refused)
    expect((await admin('GET', `accounts?q=${email}`)).json['data']).toEqual([])
    // It could sign in to the account of whoever is a user again.
    expect(await admin('POST', `accounts/${owner}/role`, { role: 'user' })).toMatchObject(refused)
    expect(await admin('POST', `accounts/${annaId}/link`, {})).toMatchObject({ status: 201 })
    expect(await operator.post(`admin/accounts/${owner}/link`, {})).toMatchObject({ status: 201 })
  })

  test('refuses to make a user of the last operator', async () => {
    const { json } = await operator.get('admin/accounts?q=owner@localhost')
    const owner = String((json['data'] as Json[])[0]!['id'])
    const error = { message: 'This is the last operator of this gateway.' }
    const asPerson = await operator.post(`admin/accounts/${owner}/role`, { role: 'user' })
    expect(asPerson).toMatchObject({ status: 400, json: { error } })
    await command('accounts', 'role', 'anna@example.org', 'operator')
    await command('accounts', 'suspend', 'anna@example.org')
    expect(await operator.post(`admin/accounts/${owner}/role`, { role: 'user' })).toMatchObject({
      status: 400,
      json: { error },
    })
    await command('accounts', 'resume', 'anna@example.org')
    const anna = await signedIn(weir, 'anna@example.org')
    const atOnce = await Promise.all([
      operator.post(`admin/accounts/${annaId}/role`, { role: 'user' }),
      anna.post(`admin/accounts/${owner}/role`, { role: 'user' }),
    ])
    expect(atOnce.map(({ status }) => status).toSorted()[0]).toBe(200)
    expect(atOnce.map(({ status }) => status).toSorted()[1]).not.toBe(200)
    await command('accounts', 'role', owner, 'operator')
    await command('accounts', 'role', 'anna@example.org', 'user')
    operator = await signedIn(weir, 'owner@localhost')
    user = await signedIn(weir, 'anna@example.org')
  })

  test('a session and a link of a user do not become those of an operator', async () => {
    const email = 'promoted@example.org'
    const { id } = await command('accounts', 'create', '--email', email)
    const before = await signedIn(weir, email)
    expect(await before.get('session')).toMatchObject({ json: { role: 'user' } })
    const link = await admin('POST', `accounts/${String(id)}/link`, {})
    const role = (wanted: string) => operator.post(`admin/accounts/${String(id)}/role`, { role: wanted })
    const promoted = await role('operator')
    expect(promoted).toMatchObject({ status: 200, json: { role: 'operator' } })
    expect(await before.get('admin/overview')).toMatchObject({ status: 401 })
    expect(await before.get('session')).toMatchObject({ json: { account: null } })
    const late = await new ConsoleClient(weir).follow(String(link.json['url']))
    expect(late).toMatchObject({ status: 400, json: { error: { code: 'invalid_ticket' } } })
    const after = new ConsoleClient(weir)
    await after.follow((promoted.json['link'] as { url: string }).url)
    expect(await after.get('admin/overview')).toMatchObject({ status: 200 })
    // The same role again ends nothing.
    expect((await role('operator')).json['link']).toBeNull()
    expect(await after.get('session')).toMatchObject({ json: { role: 'operator' } })
    expect((await role('user')).json['link']).toBeNull()
    expect(await after.get('admin/overview')).toMatchObject({ status: 403 })
  })

  test('a password that was set in the account of a user does not sign in to that of an operator', async () => {
    const email = 'planted@example.org'
    const { id } = await command('accounts', 'create', '--email', email)
    const { url } = (await admin('POST', `accounts/${String(id)}/link`, {})).json
    const intruder = new ConsoleClient(weir)
    await intruder.follow(String(url))
    const password = 'nine bright rivers'
    expect(await intruder.post('password', { password })).toMatchObject({ status: 200 })
    const { key } = await command('keys', 'create', '--account', email)
    const { link } = await command('accounts', 'role', email, 'operator')
    expect(await intruder.post('sign-in', { email, password })).toMatchObject({ status: 401 })
    const owner = new ConsoleClient(weir)
    expect(await owner.follow((link as { url: string }).url)).toMatchObject({
      json: { role: 'operator', account: { has_password: false } },
    })
    expect(await owner.post('password', { password: 'ten dark lakes' })).toMatchObject({ status: 200 })
    expect((await post(weir, chat, { key: String(key) })).status).not.toBe(401)
    expect((await command('accounts', 'role', email, 'operator'))['link']).toBeNull()
    await command('accounts', 'role', email, 'user')
  })

  test('S35 what a command changes is an act, as in the console', async () => {
    const email = 'acted@example.org'
    const { id } = await command('accounts', 'create', '--email', email)
    await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '2', '--id', 'n1')
    await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '2', '--id', 'n1')
    await command('credits', 'adjust', '--account', email, '--pool', 'purchased', '--usd', '-1', '--id', 'a1')
    const limits = [
      '--limit-usd',
      '1',
      '--limit-window',
      'day',
      '--models',
      'sim/*',
      '--networks',
      '10.0.0.0/8',
    ]
    const rates = ['--requests-per-minute', '7', '--tokens-per-minute', '900', '--expires', '2099-01-01']
    const key = await command('keys', 'create', '--account', email, ...limits, ...rates)
    expect(key).toMatchObject({
      limit_usd: '1',
      limit_window: 'day',
      models: ['sim/*'],
      networks: ['10.0.0.0/8'],
      requests_per_minute: 7,
      tokens_per_minute: 900,
    })
    await command('keys', 'limit', String(key['id']), '--networks', 'none')
    const next = await command('keys', 'rotate', String(key['id']))
    await command('keys', 'revoke', String(next['id']))
    await command('keys', 'revoke', String(next['id']))
    const acts = (await operator.get('admin/acts?limit=100')).json['data'] as Json[]
    const own = acts.filter(({ subject }) => subject === id)
    expect(own.map(({ what }) => what).toReversed()).toEqual([
      'account.create',
      'credits.grant',
      'credits.adjust',
      'key.create',
      'key.change',
      'key.rotate',
      'key.revoke',
    ])
    expect(own.every(({ operator: who }) => String(who).startsWith('cli:'))).toBe(true)
    expect(own.find(({ what }) => what === 'key.change')).toMatchObject({
      before: { networks: ['10.0.0.0/8'] },
      after: { networks: null },
    })
    expect(JSON.stringify(own)).not.toContain(String(key['key']))
  })

  test('a command and a route are one act: both are logged alike, and say the same', async () => {
    const both = async (email: string, act: (account: string) => Promise<unknown>) => {
      const { id } = await command('accounts', 'create', '--email', email)
      await act(String(id))
      const { data } = (await operator.get('admin/acts?limit=100')).json as { data: Json[] }
      const own = data.filter(({ subject }) => subject === id)
      const text = JSON.stringify(own.map(({ what, before, after }) => ({ what, before, after })))
      const varying = /"(id|key|replaces|last4|\w+_at|\w+_until)":"[^"]*"/g
      return text.replaceAll(email, 'EMAIL').replaceAll(varying, '"$1":""')
    }
    const byCommand = await both('by-command@example.org', async (id) => {
      await command('accounts', 'set', id, '--credit-line', '20')
      await command('accounts', 'suspend', id)
      await command('accounts', 'resume', id)
      await command('accounts', 'link', '--account', id)
      const { id: key } = await command('keys', 'create', '--account', id, '--name', 'robot')
      await command('keys', 'limit', String(key), '--limit-usd', '3')
      const next = await command('keys', 'rotate', String(key), '--overlap', '0')
      await command('keys', 'revoke', String(next['id']))
      await command('mcp', 'add', 'docs', 'https://mcp.example/', '--account', id)
      await command('mcp', 'remove', 'docs', '--account', id)
      await command('accounts', 'role', id, 'operator')
      await command('accounts', 'role', id, 'user')
    })
    const byRoute = await both('by-route@example.org', async (id) => {
      const act = async (method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: Json) => {
        const answer = await operator.send(method, `admin/accounts/${id}/${path}`, body)
        expect({ path, code: answer.code }).toEqual({ path, code: undefined })
        return answer.json
      }
      await act('POST', 'credit-line', { credit_line: '20' })
      await act('POST', 'suspend', {})
      await act('POST', 'resume', {})
      await act('POST', 'link', {})
      const { id: key } = await act('POST', 'keys', { name: 'robot' })
      await act('PATCH', `keys/${String(key)}`, { limit_usd: '3' })
      const next = await act('POST', `keys/${String(key)}/rotate`, { overlap: '0' })
      await act('DELETE', `keys/${String(next['id'])}`)
      await act('POST', 'mcp-servers', { name: 'docs', url: 'https://mcp.example/' })
      await act('DELETE', 'mcp-servers/docs')
      await act('POST', 'role', { role: 'operator' })
      await act('POST', 'role', { role: 'user' })
    })
    expect(byRoute).toBe(byCommand)
    expect(byRoute.match(/"what"/g)).toHaveLength(13)
  })

  test('holds in its networks only', async () => {
    const elsewhere = await managementKey('--networks', '10.0.0.0/8')
    expect(await admin('GET', 'overview', undefined, elsewhere)).toMatchObject({
      status: 403,
      error: { code: 'network_not_allowed' },
    })
    const here = await managementKey('--networks', '10.0.0.0/8,127.0.0.1')
    expect(await admin('GET', 'overview', undefined, here)).toMatchObject({ status: 200 })
  })
})

test('an API key is used from its networks only, for anything; limits are set by command as well', async () => {
  const made = await command('keys', 'create', '--account', 'anna@example.org', '--networks', '10.0.0.0/8')
  const key = String(made['key'])
  const read = (path: string) => getAs(weir.origin + path, key).then(({ status }) => status)
  expect([
    (await post(weir, chat, { key })).status,
    await read('/v1/credits'),
    await read('/v1/key'),
  ]).toEqual([403, 403, 403])
  const limits = ['--networks', 'none', '--requests-per-minute', '2', '--models', 'sim/*']
  expect(await command('keys', 'limit', String(made['id']), ...limits)).toMatchObject({
    networks: null,
    requests_per_minute: 2,
    models: ['sim/*'],
  })
  const statuses = await until(
    async () => (await post(weir, chat, { key })).status,
    (status) => status !== 403,
  )
  expect(statuses).toBe(200)
  const wrong = await weir.command('keys', 'limit', String(made['id']), '--networks', 'here')
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('--networks') })
})

describe('S10: who may enter which route', () => {
  const table = [
    ...routes.map((route) => ({ ...route, prefix: 'console/api/' })),
    ...adminRoutes.map((route) => ({ ...route, access: 'management', elevated: false, prefix: 'admin/v1/' })),
  ]
  const idOf = (path: string) => path.replace(/:\w+/g, 'nobody')

  test.each(table)('$method /$prefix$path: $access', async ({ method, path, access, prefix }) => {
    // An unknown field is refused by every body, after the credential: nothing is changed here.
    const body = method === 'GET' ? undefined : JSON.stringify({ no_such_field: 1 })
    const ask = async (headers: Record<string, string>) => {
      const origin = `http://localhost:${weir.port}`
      const abort = new AbortController()
      const response = await fetch(`${weir.origin}/${prefix}${idOf(path)}`, {
        method,
        headers: {
          origin,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        redirect: 'manual',
        signal: abort.signal,
        ...(body === undefined ? {} : { body }),
      })
      const { status } = response
      // A stream that goes on is none of this test's.
      abort.abort()
      return status === 401 || status === 403 ? status : 'in'
    }
    const seen = {
      nobody: await ask({}),
      api_key: await ask({ authorization: `Bearer ${weir.key}` }),
      user: await ask({ cookie: user.cookie }),
      operator: await ask({ cookie: operator.cookie }),
      management: await ask({ authorization: `Bearer ${management}` }),
    }
    const expected = {
      anyone: { nobody: 'in', api_key: 'in', user: 'in', operator: 'in', management: 'in' },
      session: { nobody: 401, api_key: 401, user: 'in', operator: 'in', management: 401 },
      operator: { nobody: 401, api_key: 401, user: 403, operator: 'in', management: 401 },
      management: { nobody: 401, api_key: 401, user: 401, operator: 401, management: 'in' },
    }[access]!
    expect(seen).toEqual(expected as typeof seen)
  })

  test('the table is as it was committed: a route that enters it is looked at', () => {
    const lines = table.map(
      ({ method, prefix, path, access, elevated }) =>
        `${access} ${method} /${prefix}${path}${elevated === true ? ' (fresh proof)' : ''}`,
    )
    expect(lines.toSorted().join('\n')).toMatchSnapshot()
  })
})

describe('what makes or opens a way in, hands out a secret or gives credit needs a fresh proof of identity', () => {
  const closes = 'it only takes something away'
  /** The routes of operators that change something and need no proof, each with its reason. */
  const withoutProof: Readonly<Record<string, string>> = {
    'POST admin/audit': 'it reads the ledger',
    'POST admin/config/preview': 'it changes nothing, and shows no secret',
    'POST admin/config/reload':
      'it reads what the machine says, and whoever writes that file has the machine',
    'POST admin/accounts/:account/suspend': closes,
    'DELETE admin/accounts/:account/sessions/:session': closes,
    'DELETE admin/accounts/:account/keys/:id': closes,
    'POST admin/accounts/:account/keys/:id/pause': closes,
    'POST admin/groups': 'without members and credit it lets nobody spend',
    'DELETE admin/groups/:group': closes,
    'DELETE admin/groups/:group/members/:account': closes,
    'DELETE admin/management-keys/:key': closes,
    'DELETE admin/accounts/:account/mcp-servers/:name': closes,
    'POST admin/accounts/:account/mcp-servers/:name/test':
      'it connects to the address that the account has registered',
    'DELETE admin/accounts/:account/webhooks/:id': closes,
    'POST admin/accounts/:account/webhooks/:id/test':
      'it sends a test to the address that the account has registered',
    'POST admin/top-ups/:id/reconcile': 'it credits what the processor says was paid, and nothing else',
    'POST admin/vouchers/:id/revoke': closes,
  }
  /** Of the account that is signed in. */
  const ownWithoutProof: Readonly<Record<string, string>> = {
    'POST password': 'it takes the old password, and without one a fresh proof',
    'POST elevate': 'it is the proof',
    'DELETE sessions/:id': closes,
    'PATCH passkeys/:id': 'it changes a name',
    'POST keys': 'a key can do less than the session, and is shown among the keys',
    'PATCH keys/:id': 'as making one',
    'POST keys/:id/rotate': 'as making one',
    'POST keys/:id/pause': closes,
    'POST keys/:id/resume': 'as making one; what an operator has paused it leaves',
    'DELETE keys/:id': closes,
    'DELETE groups/:group/members/:account': closes,
    'POST mcp-servers': 'it is where the own calls go to',
    'POST mcp-servers/:name/test': 'as registering it',
    'POST mcp-servers/:name/authorize': 'as registering it; it ends in the session that began it',
    'DELETE mcp-servers/:name': closes,
    'POST webhooks': 'the secret is made by this request, and signs nothing but its messages',
    'POST webhooks/:id/test': 'as adding one',
    'DELETE webhooks/:id': closes,
    'POST top-ups': 'it opens a payment',
    'POST plans/:plan/payments': 'a page to pay on, as that of a top-up',
    'POST plans/cancel': 'it ends reminders alone',
    'POST vouchers/redeem': 'it takes a code',
    'POST conversations': 'texts of the own chat',
    'PATCH conversations/:id': 'texts of the own chat',
    'DELETE conversations/:id': 'texts of the own chat',
    'POST conversations/:id/share': 'a link to one conversation, which reads nothing else',
    'DELETE conversations/:id/share': 'it revokes',
    'POST imported-conversations': 'texts of the own chat',
    'POST prompts': 'texts of the own chat',
    'PATCH prompts/:id': 'texts of the own chat',
    'DELETE prompts/:id': 'texts of the own chat',
  }
  const named = ({ method, path }: { readonly method: string; readonly path: string }) => `${method} ${path}`
  const unproven = (access: string) =>
    routes.filter((route) => route.access === access && route.elevated !== true)

  // Those that read show no secret: the request that makes one does. Whether they ask for a proof is in the snapshot.
  test('every route of operators that changes something and needs none is listed with its reason', () => {
    const changing = unproven('operator').filter(({ method }) => method !== 'GET')
    expect(changing.map(named).toSorted()).toEqual(Object.keys(withoutProof).toSorted())
  })

  test('so is every route by which a signed-in account changes what is its own', () => {
    const changing = unproven('session').filter(({ method }) => method !== 'GET')
    expect(changing.map(named).toSorted()).toEqual(Object.keys(ownWithoutProof).toSorted())
  })

  test('a session of last week makes no second operator, and is refused wherever a proof is needed', async () => {
    await using own = await serveWeir({ config: 'local_servers: { discover: false }' })
    const run = async (...args: string[]) =>
      JSON.parse((await own.command(...args, '--json')).stdout) as Readonly<Record<string, unknown>>
    const { id } = await run('accounts', 'create', '--email', 'anna@example.org')
    const { url } = await run('accounts', 'link', '--account', 'owner@localhost')
    const session = new ConsoleClient(own)
    expect((await session.follow(String(url))).status).toBe(200)
    try {
      setSystemTime(new Date(Date.now() + 7 * 86_400_000))
      const refused = { status: 403, code: 'elevation_required' }
      const mallory = { email: 'mallory@example.org', role: 'operator' }
      expect(await session.post('admin/accounts', mallory)).toMatchObject(refused)
      expect((await session.get('admin/accounts?q=mallory')).json['data']).toEqual([])
      for (const { method, path } of routes.filter(({ elevated }) => elevated)) {
        const target = path.replace(':account', String(id)).replaceAll(/:\w+/g, 'nobody')
        const { status, code } = await session.send(method, target, method === 'DELETE' ? undefined : {})
        expect({ path, status, code }).toEqual({ path, ...refused })
      }
      expect(await session.get('admin/overview')).toMatchObject({ status: 200 })
    } finally {
      setSystemTime()
    }
  })
})

test('S9: an unknown field is refused by name wherever a body is taken', async () => {
  for (const { method, path, body } of adminRoutes.filter(({ method: verb }) => verb !== 'GET')) {
    const target = path.replace(':account', annaId).replace(/:\w+/g, 'nobody')
    const answer = await admin(method, target, { no_such_field: 1, role: 'operator', account: 'x' })
    expect({ path, status: answer.status }).toEqual({ path, status: 400 })
    expect(answer.error?.['code']).toBe('invalid_request')
    expect(body === undefined || answer.error?.['param'] !== undefined).toBe(true)
  }
  expect((await admin('GET', 'accounts?role=operator')).error).toMatchObject({ param: 'role' })
})

test('S11: ids under another account are as none at all', async () => {
  const owner = (await admin('GET', 'accounts?q=owner')).json['data'] as { id: string }[]
  const other = `accounts/${owner[0]!.id}`
  for (const [method, path, body] of [
    ['PATCH', `${other}/keys/${anna.keyId}`, { name: 'mine' }],
    ['DELETE', `${other}/keys/${anna.keyId}`, undefined],
    ['POST', `${other}/keys/${anna.keyId}/rotate`, {}],
  ] as const) {
    const theirs = await admin(method, path, body)
    const none = await admin(method, path.replace(anna.keyId, '0123456789ab'), body)
    expect({ path, ...theirs.error, metadata: 0 }).toEqual({ path, ...none.error, metadata: 0 })
    expect(theirs.status).toBe(404)
  }
  expect((await post(weir, chat, { key: anna.key })).status).toBe(200)
})
