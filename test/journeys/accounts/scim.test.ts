// Provisioning by SCIM 2.0, with requests in the forms that Okta and Entra ID send.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { postAs, runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

/** What is read of answers, each of which has some of it. */
interface Json {
  readonly id: string
  readonly value: string
  readonly what: string
  readonly email: string
  readonly totalResults: number
  readonly meta: { readonly location: string }
  readonly members: readonly Json[]
  readonly Resources: readonly Json[]
  readonly data: readonly Json[]
}

const core = 'urn:ietf:params:scim:schemas:core:2.0:User'
const enterprise = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
const groupSchema = 'urn:ietf:params:scim:schemas:core:2.0:Group'
const patchOp = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

let weir: ServedWeir
let key: string
let admin: string

beforeAll(async () => {
  weir = await serveWeir({
    config: 'accounts: { monthly_credit_usd: "3" }\nlocal_servers: { discover: false }',
  })
  const made = async (...more: string[]) =>
    String(
      (await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost', ...more))['key'],
    )
  key = await made('--scope', 'scim')
  admin = await made()
})
afterAll(() => weir.stop())

interface Answer {
  readonly status: number
  readonly type: string | null
  readonly json: Json
  readonly location: string | null
}

async function scim(method: string, path: string, body?: object, secret = key): Promise<Answer> {
  const response = await fetch(`${weir.origin}/scim/v2/${path}`, {
    method,
    headers: {
      authorization: `Bearer ${secret}`,
      accept: 'application/scim+json, application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/scim+json; charset=utf-8' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    json: JSON.parse(text === '' ? '{}' : text) as Json,
    location: response.headers.get('location'),
  }
}

const patch = (path: string, ...operations: object[]) =>
  scim('PATCH', path, { schemas: [patchOp], Operations: operations })

async function oktaUser(name: string): Promise<Json> {
  const { status, json } = await scim('POST', 'Users', {
    schemas: [core],
    userName: `${name}@example.org`,
    name: { givenName: name, familyName: 'River' },
    emails: [{ primary: true, value: `${name}@example.org`, type: 'work' }],
    displayName: `${name} River`,
    locale: 'en-US',
    externalId: `00u-${name}`,
    groups: [],
    password: '1mz050nq',
    active: true,
  })
  expect(status).toBe(201)
  return json
}

const call = (secret: string) =>
  postAs(`${weir.origin}/v1/chat/completions`, secret, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
  })

async function keyOf(account: string): Promise<string> {
  const response = await postAs(`${weir.origin}/admin/v1/accounts/${account}/keys`, admin, { name: 'one' })
  return ((await response.json()) as { key: string }).key
}

describe('the service', () => {
  test('says what it can, with a key of its own scope alone', async () => {
    expect(await scim('GET', 'ServiceProviderConfig')).toMatchObject({
      status: 200,
      type: 'application/scim+json',
      json: { patch: { supported: true }, bulk: { supported: true }, etag: { supported: true } },
    })
    expect((await scim('GET', 'ResourceTypes')).json).toMatchObject({ totalResults: 2 })
    expect((await scim('GET', `Schemas/${groupSchema}`)).json).toMatchObject({ id: groupSchema })
    expect((await scim('GET', 'Schemas')).json.Resources.map(({ id }) => id)).toEqual([
      core,
      groupSchema,
      enterprise,
    ])
    for (const [secret, status] of [
      [admin, 403],
      ['mk-weir-none', 401],
    ] as const)
      expect(await scim('GET', 'Users', undefined, secret)).toMatchObject({
        status,
        json: { schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'], status: String(status) },
      })
    const elsewhere = await fetch(`${weir.origin}/admin/v1/accounts`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(elsewhere.status).toBe(403)
    expect(await scim('GET', 'Bulk')).toMatchObject({ status: 405 })
    expect(await scim('GET', 'Me')).toMatchObject({ status: 404 })
    expect(await scim('DELETE', 'Users')).toMatchObject({ status: 405 })
  })
})

describe('users', () => {
  test('whom an operator has suspended stay so, unless the directory says that they are active', async () => {
    const { id } = await oktaUser('hilde')
    await postAs(`${weir.origin}/admin/v1/accounts/${id}/suspend`, admin, {})
    const userName = 'hilde@example.org'
    const put = async (more: object) =>
      (await scim('PUT', `Users/${id}`, { schemas: [core], userName, ...more })).json
    expect(await put({ displayName: 'Hilde' })).toMatchObject({ active: false, displayName: 'Hilde' })
    expect((await patch(`Users/${id}`, { op: 'replace', path: 'title', value: 'Dr.' })).json).toMatchObject({
      active: false,
    })
    expect(await put({ active: true })).toMatchObject({ active: true })
  })

  test('as Okta provisions them: found by name, made, suspended and let in again', async () => {
    const missing = await scim(
      'GET',
      `Users?filter=${encodeURIComponent('userName eq "anna@example.org"')}&startIndex=1&count=100`,
    )
    expect(missing.json).toMatchObject({ totalResults: 0, Resources: [], startIndex: 1 })
    const made = await oktaUser('anna')
    expect(made).toMatchObject({
      userName: 'anna@example.org',
      externalId: '00u-anna',
      active: true,
      name: { familyName: 'River' },
      meta: { resourceType: 'User', location: expect.stringContaining(`/scim/v2/Users/${made.id}`) },
    })
    expect(JSON.stringify(made)).not.toContain('1mz050nq')
    expect(await scim('POST', 'Users', { schemas: [core], userName: 'ANNA@example.org' })).toMatchObject({
      status: 409,
      json: { scimType: 'uniqueness' },
    })
    for (const filter of [
      'userName eq "Anna@Example.org"',
      'externalId eq "00u-anna"',
      'emails.value eq "anna@example.org" and active eq true',
    ])
      expect((await scim('GET', `Users?filter=${encodeURIComponent(filter)}`)).json).toMatchObject({
        totalResults: 1,
        Resources: [{ id: made.id }],
      })
    const secret = await keyOf(made.id)
    expect((await call(secret)).status).toBe(200)
    expect(await patch(`Users/${made.id}`, { op: 'replace', value: { active: false } })).toMatchObject({
      status: 200,
      json: { active: false, displayName: 'anna River' },
    })
    expect((await call(secret)).status).toBe(403)
    // Okta sends the whole user to change it.
    const whole = await scim('PUT', `Users/${made.id}`, { ...made, active: true, nickName: 'An' })
    expect(whole).toMatchObject({
      status: 200,
      json: { active: true, nickName: 'An', externalId: '00u-anna' },
    })
    expect((await call(secret)).status).toBe(200)
    // What the settings give to new accounts was given once.
    expect(await runJson(weir, 'accounts', 'show', made.id)).toMatchObject({
      monthly_credit_usd: '3',
      credits: { total_purchased: '3' },
    })
  })

  test('as Entra provisions them: a name beside the address, operations with capitals, and words for truth', async () => {
    const { status, json, location } = await scim('POST', 'Users', {
      schemas: [core, enterprise],
      externalId: 'entra-berta',
      userName: 'berta',
      active: true,
      displayName: 'Berta',
      emails: [{ primary: true, type: 'work', value: 'berta@example.org' }],
      meta: { resourceType: 'User' },
      name: { formatted: 'Berta', familyName: 'B', givenName: 'erta' },
      [enterprise]: { department: 'Locks' },
    })
    expect({ status, location }).toEqual({ status: 201, location: json.meta.location })
    expect(json).toMatchObject({ userName: 'berta', [enterprise]: { department: 'Locks' } })
    const user = `Users/${json.id}`
    const found = await scim('GET', `Users?filter=${encodeURIComponent('userName eq "BERTA"')}`)
    expect(found.json).toMatchObject({ totalResults: 1 })
    const changed = await patch(
      user,
      { op: 'Replace', path: 'emails[type eq "work"].value', value: 'berta.new@example.org' },
      { op: 'Add', path: `${enterprise}:costCenter`, value: '42' },
      { op: 'Replace', path: 'name.familyName', value: 'Bridge' },
    )
    expect(changed).toMatchObject({
      status: 200,
      json: {
        emails: [{ value: 'berta.new@example.org', type: 'work' }],
        name: { familyName: 'Bridge', givenName: 'erta' },
        [enterprise]: { department: 'Locks', costCenter: '42' },
      },
    })
    expect(await runJson(weir, 'accounts', 'show', 'berta.new@example.org')).toMatchObject({ id: json.id })
    expect(await patch(user, { op: 'Replace', path: 'active', value: 'False' })).toMatchObject({
      json: { active: false },
    })
    expect(await scim('DELETE', user)).toMatchObject({ status: 204 })
    expect(await scim('GET', user)).toMatchObject({ status: 404, json: { status: '404' } })
    expect(
      (await scim('GET', `Users?filter=${encodeURIComponent('externalId eq "entra-berta"')}`)).json,
    ).toMatchObject({ totalResults: 0 })
  })

  test('operators keep their address and their account, whoever directs the directory', async () => {
    const { id } = await runJson(weir, 'accounts', 'create', '--email', 'olga@example.org')
    await runJson(weir, 'accounts', 'role', 'olga@example.org', 'operator')
    expect(
      await patch(`Users/${id}`, { op: 'replace', path: 'userName', value: 'thief@example.org' }),
    ).toMatchObject({ status: 403 })
    expect(await scim('DELETE', `Users/${id}`)).toMatchObject({ status: 403 })
    const owner = await runJson(weir, 'accounts', 'show', 'owner@localhost')
    expect(await patch(`Users/${owner.id}`, { op: 'replace', value: { active: false } })).toMatchObject({
      status: 400,
    })
    await oktaUser('taken')
    const other = await oktaUser('other')
    expect(
      await patch(`Users/${other.id}`, {
        op: 'replace',
        value: { userName: 'taken@example.org', emails: [{ value: 'taken@example.org', primary: true }] },
      }),
    ).toMatchObject({ status: 409, json: { scimType: 'uniqueness' } })
    expect(await scim('POST', 'Users', { schemas: [core], userName: 'nobody' })).toMatchObject({
      status: 400,
      json: { scimType: 'invalidValue' },
    })
  })

  test('are listed by pages, and in parts', async () => {
    const all = (await scim('GET', 'Users?count=200')).json
    expect(all.totalResults).toBe(all.Resources.length)
    const paged: string[] = []
    for (let startIndex = 1; startIndex <= all.totalResults; startIndex += 2) {
      const { json } = await scim('GET', `Users?startIndex=${startIndex}&count=2&attributes=userName`)
      expect(json).toMatchObject({ totalResults: all.totalResults, startIndex })
      paged.push(...json.Resources.map(({ id }) => id))
      expect(Object.keys(json.Resources[0]!).toSorted()).toEqual(['id', 'schemas', 'userName'])
    }
    expect(paged).toEqual(all.Resources.map(({ id }) => id))
    expect((await scim('GET', 'Users?count=0')).json).toMatchObject({
      Resources: [],
      totalResults: paged.length,
    })
    expect(await scim('GET', `Users?filter=${encodeURIComponent('userName sw "a"')}`)).toMatchObject({
      status: 400,
      json: { scimType: 'invalidFilter' },
    })
  })
})

describe('groups', () => {
  const members = ({ json }: Answer) => json.members.map(({ value }) => value).toSorted()

  test('are made with their members, who are added and removed as Okta and Entra write it', async () => {
    const [one, two, three] = [await oktaUser('g1'), await oktaUser('g2'), await oktaUser('g3')]
    const made = await scim('POST', 'Groups', {
      schemas: [groupSchema],
      displayName: 'Lock keepers',
      externalId: 'entra-keepers',
      members: [{ value: one.id, display: 'g1' }],
    })
    expect(made).toMatchObject({ status: 201, json: { displayName: 'Lock keepers' } })
    const group = `Groups/${made.json.id}`
    await patch(group, { op: 'add', path: 'members', value: [{ value: two.id, display: 'g2' }] })
    await patch(group, { op: 'Add', path: 'members', value: [{ $ref: null, value: three.id }] })
    // Budgets and roles are set in Weir, and stay.
    await runJson(
      weir,
      'groups',
      'add',
      made.json.id,
      '--account',
      'g2@example.org',
      '--role',
      'admin',
      '--budget-usd',
      '5',
    )
    expect(members(await scim('GET', group))).toEqual([one.id, two.id, three.id].toSorted())
    await patch(group, { op: 'remove', path: `members[value eq "${one.id}"]` })
    await patch(group, { op: 'Remove', path: 'members', value: [{ $ref: null, value: three.id }] })
    expect(members(await scim('GET', group))).toEqual([two.id])
    expect(
      await patch(group, { op: 'replace', value: { id: made.json.id, displayName: 'Keepers' } }),
    ).toMatchObject({
      json: { displayName: 'Keepers' },
    })
    const whole = {
      schemas: [groupSchema],
      displayName: 'Keepers',
      externalId: 'entra-keepers',
      members: [{ value: two.id }, { value: one.id }],
    }
    expect(members(await scim('PUT', group, whole))).toEqual([one.id, two.id].toSorted())
    const shown = (await runJson(weir, 'groups', 'show', 'Keepers')).members as Json[]
    expect(shown.find(({ email }) => email === 'g2@example.org')).toMatchObject({
      role: 'admin',
      budget_usd: '5',
    })
    for (const filter of [
      'displayName eq "keepers"',
      'externalId eq "entra-keepers"',
      `id eq "${made.json.id}" and members eq "${one.id}"`,
    ]) {
      const { json } = await scim(
        'GET',
        `Groups?excludedAttributes=members&filter=${encodeURIComponent(filter)}`,
      )
      expect(json).toMatchObject({ totalResults: 1, Resources: [{ id: made.json.id }] })
      expect(json.Resources[0]).not.toHaveProperty('members')
    }
    expect((await scim('GET', `Users/${two.id}`)).json).toMatchObject({
      groups: [{ value: made.json.id, display: 'Keepers' }],
    })
    const wrong = await scim('POST', 'Groups', {
      schemas: [groupSchema],
      displayName: 'Half',
      members: [{ value: 'acct_none' }],
    })
    expect(wrong).toMatchObject({ status: 400, json: { scimType: 'invalidValue' } })
    expect(
      (await scim('GET', `Groups?filter=${encodeURIComponent('displayName eq "Half"')}`)).json,
    ).toMatchObject({ totalResults: 0 })
  })

  test('whoever leaves a group has no key in it any more; a group that others stand in stays', async () => {
    const user = await oktaUser('leaver')
    const { json: group } = await scim('POST', 'Groups', {
      schemas: [groupSchema],
      displayName: 'Outer',
      members: [{ value: user.id }],
    })
    const made = await postAs(`${weir.origin}/admin/v1/accounts/${user.id}/keys`, admin, {
      name: 'in',
      group: group.id,
    })
    const { key: secret } = (await made.json()) as { key: string }
    expect((await call(secret)).status).toBe(200)
    await patch(`Groups/${group.id}`, { op: 'replace', path: 'members', value: [] })
    expect((await call(secret)).status).toBe(401)
    await runJson(weir, 'groups', 'create', '--name', 'inner', '--parent', group.id)
    expect(await scim('DELETE', `Groups/${group.id}`)).toMatchObject({ status: 409 })
    await runJson(weir, 'groups', 'delete', 'inner')
    expect(await scim('DELETE', `Groups/${group.id}`)).toMatchObject({ status: 204 })
    const acts = (await (
      await fetch(`${weir.origin}/admin/v1/acts?limit=50`, { headers: { authorization: `Bearer ${admin}` } })
    ).json()) as Json
    expect(acts.data.map(({ what }) => what)).toEqual(
      expect.arrayContaining([
        'account.create',
        'group.create',
        'group.add_member',
        'group.remove_member',
        'group.delete',
      ]),
    )
    expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
  })
})

describe('versions', () => {
  const conditional = (method: string, path: string, headers: Record<string, string>, body?: object) =>
    fetch(`${weir.origin}/scim/v2/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/scim+json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const operation = (path: string, value: unknown) => ({
    schemas: [patchOp],
    Operations: [{ op: 'replace', path, value }],
  })

  test('a change is made to the version that is named, and to no other', async () => {
    const { id, meta } = (await oktaUser('vera')) as Json & { meta: { version: string } }
    const read = await conditional('GET', `Users/${id}`, {})
    expect(read.headers.get('etag')).toBe(meta.version)
    expect((await conditional('GET', `Users/${id}`, { 'if-none-match': meta.version })).status).toBe(304)
    const stale = { 'if-match': meta.version }
    const change = operation('title', 'Engineer')
    expect((await conditional('PATCH', `Users/${id}`, { 'if-match': 'W/"other"' }, change)).status).toBe(412)
    const [one, two] = await Promise.all([
      conditional('PATCH', `Users/${id}`, stale, change),
      conditional('PATCH', `Users/${id}`, stale, operation('title', 'Miller')),
    ])
    // Of two that read the same version one is told that there is another.
    expect([one.status, two.status].toSorted()).toEqual([200, 412])
    expect((await conditional('GET', `Users/${id}`, { 'if-none-match': meta.version })).status).toBe(200)
    expect((await conditional('DELETE', `Users/${id}`, stale)).status).toBe(412)
    expect((await conditional('DELETE', `Users/${id}`, { 'if-match': '*' })).status).toBe(204)
  })

  test('of a group is another when somebody joins it, wherever that was done', async () => {
    const { id: member } = await oktaUser('wanda')
    const { json } = await scim('POST', 'Groups', { schemas: [groupSchema], displayName: 'Versions' })
    const { version } = json.meta as unknown as { version: string }
    const joined = await postAs(`${weir.origin}/admin/v1/groups/${json.id}/members`, admin, {
      account: member,
    })
    expect(joined.status).toBe(201)
    const stale = await conditional(
      'PATCH',
      `Groups/${json.id}`,
      { 'if-match': version },
      operation('displayName', 'Later'),
    )
    expect(stale.status).toBe(412)
    const short = await scim('GET', `Groups/${json.id}?excludedAttributes=members`)
    expect(short.json.meta).not.toHaveProperty('version')
  })
})

test('a search by POST finds what a query does, of one kind or of all', async () => {
  const { id } = await oktaUser('xenia')
  const search = (path: string, more: object) =>
    scim('POST', path, { schemas: ['urn:ietf:params:scim:api:messages:2.0:SearchRequest'], ...more })
  const filter = 'userName eq "xenia@example.org"'
  const found = await search('Users/.search', { filter, attributes: ['userName'], count: 5 })
  expect(found).toMatchObject({ status: 200, json: { totalResults: 1 } })
  expect(Object.keys(found.json.Resources[0]!).toSorted()).toEqual(['id', 'schemas', 'userName'])
  expect((await search('.search', { filter })).json.Resources.map((each) => each.id)).toEqual([id])
  const { json: all } = await search('.search', { count: 200, attributes: ['id'] })
  const { json: users } = await search('Users/.search', { count: 200 })
  expect(all.totalResults).toBe(all.Resources.length)
  expect(all.totalResults).toBeGreaterThan(users.totalResults)
  const { json: last } = await search('.search', { startIndex: all.totalResults, count: 5 })
  expect(last.Resources.map((each) => each.id)).toEqual([all.Resources.at(-1)!.id])
  expect((await search('Users/.search', { startIndex: 1, count: 1 })).json.Resources).toHaveLength(1)
  expect((await scim('GET', 'Users/.search')).status).toBe(405)
})

test('a bulk request is carried out in order, and what it makes is named before it is there', async () => {
  const user = (name: string) => ({ schemas: [core], userName: `${name}@example.org`, active: true })
  const bulk = (Operations: object[], more: object = {}) =>
    scim('POST', 'Bulk', {
      schemas: ['urn:ietf:params:scim:api:messages:2.0:BulkRequest'],
      Operations,
      ...more,
    })
  const { status, json } = await bulk([
    { method: 'POST', path: '/Users', bulkId: 'u1', data: user('yara') },
    {
      method: 'POST',
      path: '/Groups',
      bulkId: 'g1',
      data: { displayName: 'Bulk', members: [{ value: 'bulkId:u1' }] },
    },
    { method: 'POST', path: '/Users', bulkId: 'u2', data: user('yara') },
    {
      method: 'PATCH',
      path: '/Users/bulkId:u1',
      data: { schemas: [patchOp], Operations: [{ op: 'replace', value: { active: false } }] },
    },
    { method: 'DELETE', path: '/Groups/bulkId:none' },
  ])
  expect(status).toBe(200)
  const done = (json as unknown as { Operations: { status: string; location?: string }[] }).Operations
  expect(done.map((each) => each.status)).toEqual(['201', '201', '409', '200', '409'])
  const made = await scim('GET', done[1]!.location!.slice(done[1]!.location!.indexOf('Groups/')))
  expect(made.json.members).toHaveLength(1)
  expect(await scim('GET', `Users/${made.json.members[0]!.value}`)).toMatchObject({ json: { active: false } })
  const stopped = await bulk(
    [
      { method: 'DELETE', path: '/Users/none' },
      { method: 'POST', path: '/Users', bulkId: 'u3', data: user('zoe') },
    ],
    { failOnErrors: 1 },
  )
  expect((stopped.json as unknown as { Operations: object[] }).Operations).toHaveLength(1)
  expect((await bulk([{ method: 'GET', path: '/Users' }])).status).toBe(400)
  expect(
    (await bulk(Array.from({ length: 1_001 }, () => ({ method: 'DELETE', path: '/Users/none' })))).status,
  ).toBe(413)
})
