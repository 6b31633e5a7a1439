// Accounts where mail is sent: an address is proven before it gets anything, and a password is reset by its owner.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually, postAs, runJson } from '../../support/call-gateway.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { type SmtpSink, startSmtpSink } from '../../support/smtp-sink.ts'

const password = 'a river runs through it'
let sink: SmtpSink
let weir: ServedWeir
beforeAll(async () => {
  sink = startSmtpSink()
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      accounts: { sign_up: 'open', unverified: 'deny', sign_ups_per_network: 100 },
      mail: { smtp_url: sink.url, from: 'Weir <weir@example.org>' },
      secrets: { master_key: 'master-key-0123456789-abcdefghijklm' },
    }),
  })
})
afterAll(async () => {
  await weir.stop()
  sink.stop()
})

/** The newest mail to an address with this subject, once it is there. */
async function mailTo(address: string, subject: string): Promise<string> {
  const find = () => sink.mails.findLast((mail) => mail.includes(`To: ${address}`) && mail.includes(subject))
  const mail = await eventually(
    async () => find(),
    (found) => found !== undefined,
  )
  expect(mail).toBeDefined()
  return mail!
}

const tokenIn = (mail: string, page: string): string =>
  new RegExp(`http://localhost:\\d+/console/${page}#(wt-weir-\\S+)`).exec(mail)![1]!

async function welcomeOf(client: ConsoleClient): Promise<string> {
  const credits = await fetch(`${weir.origin}/app/v1/credits`, { headers: { cookie: client.cookie } })
  const { data } = (await credits.json()) as { data: { pools: { type: string; remaining: string }[] } }
  return data.pools.find(({ type }) => type === 'welcome')!.remaining
}

test('an account gets its welcome when its address is proven, and a link works once', async () => {
  const email = 'anna@example.org'
  const client = new ConsoleClient(weir)
  expect(await client.post('sign-up', { email, password })).toMatchObject({
    status: 202,
    json: { mail: true },
  })
  await client.post('sign-in', { email, password })
  expect(await welcomeOf(client)).toBe('0')
  const mail = await mailTo(email, 'Confirm your address')
  expect(mail).toContain('From: Weir <weir@example.org>')
  const token = tokenIn(mail, 'verify')
  // It proves the address, and is no way in.
  expect(await new ConsoleClient(weir).post('link', { token })).toMatchObject({
    status: 400,
    code: 'invalid_ticket',
  })
  expect(await client.post('verify', { token })).toMatchObject({
    status: 200,
    json: { email_verified: true },
  })
  expect(await client.post('verify', { token })).toMatchObject({ status: 400, code: 'invalid_ticket' })
  expect(await welcomeOf(client)).toBe('0.5')
})

test('a confirmation that an impostor caused does not confirm the impostor: its owner signs in or takes over', async () => {
  const email = 'gita@example.org'
  const impostor = new ConsoleClient(weir)
  await impostor.post('sign-up', { email, password })
  await impostor.post('sign-in', { email, password })
  const key = String((await impostor.post('keys', { name: 'planted' })).json['key'])
  const token = tokenIn(await mailTo(email, 'Confirm your address'), 'verify')

  // Neither signed out nor signed in to another account.
  const owner = new ConsoleClient(weir)
  const other = new ConsoleClient(weir)
  await other.post('sign-up', { email: 'hari@example.org', password })
  await other.post('sign-in', { email: 'hari@example.org', password })
  for (const stranger of [owner, other])
    expect(await stranger.post('verify', { token })).toMatchObject({
      status: 200,
      json: { email_verified: false },
    })
  expect((await impostor.session()).account).toMatchObject({ email_verified: false })
  expect(await welcomeOf(impostor)).toBe('0')

  // The link is as good as before, also after a password that is refused.
  expect(await owner.post('reset/confirm', { token, password: 'short' })).toMatchObject({ status: 400 })
  expect(await owner.post('reset/confirm', { token, password: 'a new river' })).toMatchObject({
    status: 200,
    json: { account: { email, email_verified: true, access: { keys: 0, sessions: 1 } } },
  })
  expect(await welcomeOf(owner)).toBe('0.5')
  expect((await impostor.post('sign-in', { email, password })).status).toBe(401)
  expect(await impostor.get('keys')).toMatchObject({ status: 401 })
  const headers = { authorization: `Bearer ${key}` }
  expect((await fetch(`${weir.baseUrl}/key`, { headers })).status).toBe(401)
  for (const path of ['verify', 'reset/confirm'])
    expect(
      await owner.post(path, path === 'verify' ? { token } : { token, password: 'a third river' }),
    ).toMatchObject({ status: 400, code: 'invalid_ticket' })
})

test('a confirmation sets no password of an account whose address is proven', async () => {
  const email = 'isha@example.org'
  const client = new ConsoleClient(weir)
  await client.post('sign-up', { email, password })
  const token = tokenIn(await mailTo(email, 'Confirm your address'), 'verify')
  await client.post('reset', { email })
  const reset = tokenIn(await mailTo(email, 'Set a new password'), 'reset')
  expect((await client.post('reset/confirm', { token: reset, password: 'a new river' })).status).toBe(200)
  expect(
    await new ConsoleClient(weir).post('reset/confirm', { token, password: 'a third river' }),
  ).toMatchObject({ status: 400, code: 'invalid_ticket' })
})

test('a known address is told so by mail, and by nothing else', async () => {
  const email = 'berta@example.org'
  await new ConsoleClient(weir).post('sign-up', { email, password })
  const again = await new ConsoleClient(weir).post('sign-up', { email, password: 'another password' })
  expect(again).toMatchObject({ status: 202, json: { status: 'accepted', mail: true } })
  await mailTo(email, 'You have an account already')
  expect((await new ConsoleClient(weir).post('sign-in', { email, password })).status).toBe(200)
})

test('one mailbox does not open accounts by writing its address in other ways', async () => {
  for (const email of ['x,anna@example.org', 'x<anna@example.org>', '"anna"@example.org'])
    expect(await new ConsoleClient(weir).post('sign-up', { email, password })).toMatchObject({
      status: 400,
      code: 'invalid_request',
    })
})

test('a reset link sets a new password once, ends every session, and outlives a password that is refused', async () => {
  const email = 'carla@example.org'
  const client = new ConsoleClient(weir)
  await client.post('sign-up', { email, password })
  await client.post('sign-in', { email, password })
  expect((await new ConsoleClient(weir).post('reset', { email })).status).toBe(202)
  const token = tokenIn(await mailTo(email, 'Set a new password'), 'reset')
  const other = new ConsoleClient(weir)
  expect(await other.post('reset/confirm', { token, password: 'short' })).toMatchObject({
    status: 400,
    code: 'invalid_request',
  })
  const both = await Promise.all(
    [1, 2].map(() => new ConsoleClient(weir).post('reset/confirm', { token, password: 'a new river' })),
  )
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 400])
  expect(await client.get('keys')).toMatchObject({ status: 401 })
  expect((await other.post('sign-in', { email, password })).status).toBe(401)
  expect((await other.post('sign-in', { email, password: 'a new river' })).status).toBe(200)
})

test('the true owner of an address takes over an account in which nothing of an impostor is left', async () => {
  const email = 'emil@example.org'
  const impostor = new ConsoleClient(weir)
  await impostor.post('sign-up', { email, password })
  await impostor.post('sign-in', { email, password })
  const key = String((await impostor.post('keys', { name: 'planted' })).json['key'])
  const hook = { url: 'https://hooks.example.org/planted', events: ['key.created'] }
  expect((await impostor.post('webhooks', hook)).status).toBe(201)
  const server = { name: 'notes', url: 'https://mcp.example.org/mcp' }
  expect((await impostor.post('mcp-servers', server)).status).toBeLessThan(300)
  expect((await impostor.session()).account?.access).toMatchObject({ keys: 1, webhooks: 1, mcp_servers: 1 })

  const owner = new ConsoleClient(weir)
  await owner.post('reset', { email })
  const token = tokenIn(await mailTo(email, 'Set a new password'), 'reset')
  expect((await owner.post('reset/confirm', { token, password: 'a new river' })).status).toBe(200)
  const { password: passwords, sessions, ...others } = (await owner.session()).account!.access
  expect([passwords, sessions]).toEqual([1, 1])
  expect(new Set(Object.values(others))).toEqual(new Set([0]))
  expect((await owner.get('webhooks')).json).toEqual({ data: [] })
  const headers = { authorization: `Bearer ${key}` }
  expect((await fetch(`${weir.baseUrl}/key`, { headers })).status).toBe(401)
})

test('a new password ends sessions, and what goes on is shown', async () => {
  const email = 'frida@example.org'
  const client = new ConsoleClient(weir)
  await client.post('sign-up', { email, password })
  await client.post('sign-in', { email, password })
  await client.post('verify', { token: tokenIn(await mailTo(email, 'Confirm your address'), 'verify') })
  await client.post('keys', { name: 'laptop' })
  await client.post('webhooks', { url: 'https://hooks.example.org/own', events: ['key.created'] })
  const owner = new ConsoleClient(weir)
  await owner.post('reset', { email })
  const token = tokenIn(await mailTo(email, 'Set a new password'), 'reset')
  const { json } = await owner.post('reset/confirm', { token, password: 'a new river' })
  expect(json['account']).toMatchObject({ access: { sessions: 1, links: 0, keys: 1, webhooks: 1 } })
})

test('nobody is flooded with mail, and an unknown address gets none', async () => {
  const email = 'dora@example.org'
  for (let n = 0; n < 8; n++) {
    expect((await new ConsoleClient(weir).post('reset', { email: 'nobody@example.org' })).status).toBe(202)
    expect((await new ConsoleClient(weir).post('reset', { email: 'carla@example.org' })).status).toBe(202)
  }
  const invited = await weir.command('accounts', 'invite', '--email', email, '--json')
  expect(invited.code).toBe(0)
  await Bun.sleep(300)
  expect(sink.mails.some((mail) => mail.includes('nobody@example.org'))).toBe(false)
  const toCarla = sink.mails.filter((mail) => mail.includes('To: carla@example.org'))
  expect(toCarla.length).toBeLessThanOrEqual(3)
})

test('S13 a mail server that refuses, or is not there, is told to the log, and the answer is the same', async () => {
  const refusing = startSmtpSink(true)
  const config = JSON.stringify({
    local_servers: { discover: false },
    mail: { smtp_url: refusing.url, from: 'weir@example.org' },
    accounts: { sign_up: 'open' },
  })
  const here = await serveWeir({ config })
  try {
    const answer = await new ConsoleClient(here).post('sign-up', { email: 'emma@example.org', password })
    expect(answer).toMatchObject({ status: 202, json: { status: 'accepted', mail: true } })
    await eventually(
      async () => here.output(),
      (text) => text.includes('a mail could not be sent'),
    )
    expect(here.output()).toContain('a mail could not be sent')
    expect(here.output()).not.toMatch(/verify#wt-weir/)
  } finally {
    await here.stop()
    refusing.stop()
  }
})

describe('somebody who is in an account without having proven its address gets nothing that is meant for its owner', () => {
  let management: string
  let group: string
  let provisioning: string
  beforeAll(async () => {
    const made = (...more: string[]) =>
      runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost', ...more)
    management = String((await made())['key'])
    provisioning = String((await made('--scope', 'scim'))['key'])
    group = String((await runJson(weir, 'groups', 'create', '--name', 'River'))['id'])
    await weir.command('groups', 'grant', group, '--usd', '50', '--id', 'river')
  })

  async function squatter(email: string) {
    const client = new ConsoleClient(weir)
    await client.post('sign-up', { email, password })
    await client.post('sign-in', { email, password })
    const { id } = (await client.session()).account!
    const key = String((await client.post('keys', { name: 'planted' })).json['key'])
    return { client, id, key }
  }

  const scim = (method: string, path: string, body: object) =>
    fetch(`${weir.origin}/scim/v2/${path}`, {
      method,
      headers: { authorization: `Bearer ${provisioning}`, 'content-type': 'application/scim+json' },
      body: JSON.stringify(body),
    })
  const added = (id: string) => ({ Operations: [{ op: 'add', path: 'members', value: [{ value: id }] }] })

  test.each([
    [
      'a list',
      'otto',
      async (email: string) => {
        const people = [{ email, group: 'River', role: 'admin', monthly_credit_usd: '20' }]
        expect(
          (await postAs(`${weir.origin}/admin/v1/invitations/list`, management, { people })).status,
        ).toBe(200)
      },
    ],
    [
      'an invitation',
      'paul',
      async (email: string) => {
        expect((await weir.command('accounts', 'invite', '--email', email)).code).toBe(0)
        await weir.command('groups', 'add', group, '--account', email)
      },
    ],
    [
      'a directory',
      'quirin',
      async (email: string, id: string) => {
        expect((await scim('PUT', `Users/${id}`, { userName: email })).status).toBe(200)
        expect((await scim('PATCH', `Groups/${group}`, added(id))).status).toBe(200)
      },
    ],
    [
      'a group of a directory',
      'rosa',
      async (_email: string, id: string) => {
        expect((await scim('PATCH', `Groups/${group}`, added(id))).status).toBe(200)
      },
    ],
  ] as const)('by %s', async (_by, name, give) => {
    const email = `${name}@example.org`
    const { client, id, key } = await squatter(email)
    await give(email, id)
    expect(await runJson(weir, 'groups', 'show', group)).toMatchObject({
      members: expect.arrayContaining([expect.objectContaining({ email })]),
    })
    expect(await client.post('keys', { name: 'more', group })).toMatchObject({ status: 401 })
    expect((await client.post('sign-in', { email, password })).status).toBe(401)
    expect((await fetch(`${weir.baseUrl}/key`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(
      401,
    )
  })

  test('by its address alone they are no member, whoever adds it', async () => {
    const { client, id } = await squatter('sara@example.org')
    const admin = new ConsoleClient(weir)
    const { url } = await runJson(weir, 'accounts', 'invite', '--email', 'tina@example.org')
    await admin.follow(String(url))
    await weir.command('groups', 'add', group, '--account', 'tina@example.org', '--role', 'admin')
    const refused = { status: 400, code: 'invalid_request' }
    expect(await admin.post(`groups/${group}/members`, { account: 'sara@example.org' })).toMatchObject(
      refused,
    )
    expect(
      (await postAs(`${weir.origin}/admin/v1/groups/${group}/members`, management, { account: id })).status,
    ).toBe(400)
    const command = await weir.command('groups', 'add', group, '--account', 'sara@example.org')
    expect(command).toMatchObject({ code: 1, stderr: expect.stringContaining('has not proven') })
    // Nobody was locked out of anything, and who proves the address is added.
    const token = tokenIn(await mailTo('sara@example.org', 'Confirm your address'), 'verify')
    await client.post('verify', { token })
    expect((await admin.post(`groups/${group}/members`, { account: 'sara@example.org' })).status).toBe(201)
  })
})
