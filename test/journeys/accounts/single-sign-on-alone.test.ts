// The single sign-on as the only way in, whose claims say in which groups people are: with oidc-provider on loopback.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Group } from '../../../src/accounts/group.ts'
import { openStore } from '../../../src/store/open.ts'
import { runJson } from '../../support/call-gateway.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import { saidGroups, startIssuer } from '../../support/oidc-issuer.ts'
import { freePort, type ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { SignOnBrowser } from '../../support/sign-on-browser.ts'

const publicUrl = 'http://localhost:8787'
const [crew, bridge, gone] = ['1', '2', '3'].map((end) => `grp_00000000000000000${end}`) as [
  string,
  string,
  string,
]
let weir: ServedWeir
let listening: { close(): void }

beforeAll(async () => {
  const issuer = `http://127.0.0.1:${await freePort()}`
  listening = startIssuer(issuer, `${publicUrl}/console/api/oidc/callback`)
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      server: { public_url: publicUrl },
      accounts: {
        sign_in: ['oidc'],
        sign_up: 'open',
        unverified: 'allow',
        oidc: {
          issuer,
          client_id: 'weir',
          client_secret: 'secret',
          groups: {
            claim: 'groups',
            map: { sailors: crew, pilots: bridge, captains: { group: bridge, role: 'admin' }, ghosts: gone },
          },
        },
      },
    }),
  })
  const store = await openStore(weir.dataDir, { clock: Date.now })
  const group = { parent: null, budget: null, window: 'month', timezone: 'UTC', memberBudget: null } as const
  const rest: Omit<Group, 'id' | 'name'> = {
    ...group,
    allowedModels: null,
    tags: null,
    warnAt: [],
    createdAt: Date.now(),
  }
  for (const id of [crew, bridge]) await store.groups.insertGroup({ ...rest, id, name: id })
  await store.close()
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  listening?.close()
})

/** Signs in when the issuer says these groups, and gives the memberships of the account then. */
async function groupsOf(login: string, said: readonly string[] | null): Promise<Record<string, string>> {
  saidGroups.set(login, said)
  const browser = new SignOnBrowser(weir, publicUrl)
  expect((await browser.signIn(login)).headers.get('location')).toBe('/console')
  const { data } = (await browser.client.get('groups')).json as { data: { id: string; role: string }[] }
  return Object.fromEntries(data.map(({ id, role }) => [id, role]))
}

test('people are in the groups that their claim names, and leave them when it names them no more', async () => {
  expect(await groupsOf('anna', ['sailors', 'captains', 'ghosts', 'others'])).toEqual({
    [crew]: 'member',
    [bridge]: 'admin',
  })
  const anna = ['--account', 'anna@example.org']
  await runJson(weir, 'groups', 'add', crew, ...anna, '--budget-usd', '5', '--role', 'admin')
  // The map names no role in the crew: the one that was given stays, and so does the budget.
  expect(await groupsOf('anna', ['sailors', 'pilots'])).toEqual({ [crew]: 'admin', [bridge]: 'member' })
  expect((await runJson(weir, 'groups', 'show', crew))['members']).toMatchObject([{ budget_usd: '5' }])
  expect(await groupsOf('anna', ['pilots'])).toEqual({ [bridge]: 'member' })
  // A claim that is not there names nothing.
  expect(await groupsOf('anna', null)).toEqual({})
  const owner = await signedInAsOwner()
  const acts = (await owner.get('admin/acts?limit=20')).json['data'] as Record<string, unknown>[]
  expect(
    acts
      .filter(({ operator }) => String(operator).startsWith('oidc:'))
      .map(({ what, subject }) => [what, subject]),
  ).toEqual([
    ['group.remove_member', bridge],
    ['group.remove_member', crew],
    ['group.change_member', bridge],
    ['group.add_member', bridge],
    ['group.add_member', crew],
  ])
})

test('where UserInfo cannot be read nobody leaves a group', async () => {
  expect(await groupsOf('failing', ['sailors'])).toEqual({ [crew]: 'member' })
  // The claim is not in the ID token then, and UserInfo fails.
  expect(await groupsOf('failing', null)).toEqual({ [crew]: 'member' })
})

async function signedInAsOwner(): Promise<ConsoleClient> {
  const client = new ConsoleClient(weir)
  const { url } = await runJson(weir, 'accounts', 'link', '--account', 'owner@localhost')
  const token = new URL(String(url)).hash.slice(1)
  expect((await client.post('link', { token }, { origin: publicUrl })).status).toBe(200)
  return client
}

test('there is no other way in, but for operators by a link of the command line', async () => {
  const visitor = new ConsoleClient(weir)
  expect(await visitor.session()).toMatchObject({ methods: ['oidc:single sign-on'], sign_up: 'closed' })
  const who = { email: 'berta@example.org', password: 'a river runs through it' }
  const send = (path: string, body: object) => visitor.post(path, body, { origin: publicUrl })
  expect(await send('sign-up', who)).toMatchObject({ status: 403, code: 'sign_up_closed' })
  for (const [path, body] of [
    ['sign-in', who],
    ['reset', { email: who.email }],
    ['reset/confirm', { token: 'any', password: who.password }],
  ] as const)
    expect(await send(path, body)).toMatchObject({ status: 403, code: 'sign_in_closed' })
  await runJson(weir, 'accounts', 'create', '--email', 'carla@example.org')
  expect((await weir.command('accounts', 'link', '--account', 'carla@example.org')).code).toBe(1)
  expect((await weir.command('accounts', 'invite', '--email', 'dora@example.org')).code).toBe(1)
  const owner = await signedInAsOwner()
  expect((await owner.session()).role).toBe('operator')
  expect(await owner.post('password', { password: who.password }, { origin: publicUrl })).toMatchObject({
    code: 'sign_in_closed',
  })
})

test('an account that was opened ahead is that of whom the issuer says has its address', async () => {
  const { id } = await runJson(weir, 'accounts', 'create', '--email', 'edith@example.org')
  const browser = new SignOnBrowser(weir, publicUrl)
  expect((await browser.signIn('edith')).headers.get('location')).toBe('/console')
  expect((await browser.client.session()).account).toMatchObject({ id: String(id) })
  await runJson(weir, 'accounts', 'create', '--email', 'unproven@example.org')
  const other = await new SignOnBrowser(weir, publicUrl).signIn('unproven')
  expect(other.headers.get('location')).toContain('error=sign_up_closed')
})
