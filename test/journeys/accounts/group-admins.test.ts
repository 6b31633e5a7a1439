// Admins of a group manage its members and their budgets in the console: in their own group and those below it, in no
// other, and each act stands in the audit log.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { runJson } from '../../support/call-gateway.ts'
import { type ConsoleClient, signedIn } from '../../support/console-client.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let admin: ConsoleClient
const accounts: Record<string, string> = {}
const groups: Record<string, string> = {}

beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
  for (const name of ['anna', 'berta', 'carla']) {
    const { id } = await runJson(weir, 'accounts', 'create', '--email', `${name}@example.org`)
    accounts[name] = String(id)
  }
  for (const [name, parent] of [['firm'], ['lab', 'firm'], ['bench', 'lab'], ['elsewhere']] as const) {
    const inside = parent === undefined ? [] : ['--parent', parent]
    const { id } = await runJson(weir, 'groups', 'create', '--name', name, ...inside)
    groups[name] = String(id)
  }
  await runJson(weir, 'groups', 'add', 'lab', '--account', 'anna@example.org', '--role', 'admin')
  await runJson(weir, 'groups', 'add', 'elsewhere', '--account', 'anna@example.org')
  admin = await signedIn(weir, 'anna@example.org')
})
afterAll(() => weir.stop())

const members = (group: string) => `groups/${groups[group]}/members`

test('an admin adds, changes and removes members of the group and of those in it; the audit log has each act', async () => {
  const berta = { account: 'berta@example.org', budget_usd: '2' }
  expect(await admin.post(members('lab'), berta)).toMatchObject({
    status: 201,
    json: { account: accounts['berta'], role: 'member', budget_usd: '2' },
  })
  expect(await admin.post(members('bench'), berta)).toMatchObject({ status: 201 })
  const path = `${members('lab')}/${accounts['berta']}`
  expect(await admin.send('PATCH', path, { budget_usd: '3', role: 'admin' })).toMatchObject({
    status: 200,
    json: { role: 'admin', limit_usd: '3' },
  })
  const { json } = await admin.get(members('lab'))
  expect((json['data'] as { email: string }[]).map(({ email }) => email).toSorted()).toEqual([
    'anna@example.org',
    'berta@example.org',
  ])
  expect(await admin.get(`groups/${groups['bench']}`)).toMatchObject({
    // What the group stands in further up is not the admin's.
    json: { data: { above: [{ name: 'lab' }], below: [] } },
  })
  expect(await admin.get(`groups/${groups['lab']}`)).toMatchObject({
    json: { data: { above: [], below: [{ name: 'bench' }] } },
  })
  expect(await admin.send('DELETE', path)).toMatchObject({ status: 200, json: { removed: true } })
  const owner = await signedIn(weir, 'owner@localhost')
  const acts = (await owner.get('admin/acts?limit=5')).json['data'] as Record<string, unknown>[]
  expect(acts.slice(1).map(({ what, operator, subject }) => [what, operator, subject])).toEqual([
    ['group.remove_member', accounts['anna'], groups['lab']],
    ['group.change_member', accounts['anna'], groups['lab']],
    ['group.add_member', accounts['anna'], groups['bench']],
    ['group.add_member', accounts['anna'], groups['lab']],
  ])
})

test('not beyond the group: neither what it stands in, nor a group of which the account is only a member', async () => {
  for (const group of ['firm', 'elsewhere']) {
    const member = `${members(group)}/${accounts['anna']}`
    for (const answer of [
      await admin.get(`groups/${groups[group]}`),
      await admin.get(members(group)),
      await admin.post(members(group), { account: 'carla@example.org' }),
      await admin.send('PATCH', member, { role: 'admin' }),
      await admin.send('DELETE', member),
    ])
      expect({ group, status: answer.status, code: answer.code }).toEqual({
        group,
        status: 404,
        code: 'not_found',
      })
  }
})

test('an admin does not change its own membership, and is none any more as soon as another says so', async () => {
  const own = `${members('lab')}/${accounts['anna']}`
  expect(await admin.send('PATCH', own, { budget_usd: '1000' })).toMatchObject({ status: 400 })
  expect(await admin.post(members('lab'), { account: 'anna@example.org', budget_usd: '9' })).toMatchObject({
    status: 400,
  })
  expect(await admin.send('DELETE', own)).toMatchObject({ status: 400 })
  const carla = await signedIn(weir, 'carla@example.org')
  await admin.post(members('lab'), { account: accounts['carla'], role: 'admin' })
  expect((await carla.session()).account).toMatchObject({ groups: 1 })
  expect(await carla.send('PATCH', own, { role: 'member' })).toMatchObject({ status: 200 })
  expect(await admin.get(members('lab'))).toMatchObject({ status: 404 })
  await carla.send('PATCH', own, { role: 'admin' })
})

test('addresses are not tried out: after twenty without an account it waits', async () => {
  const known = { account: 'berta@example.org' }
  for (let n = 0; n < 20; n++)
    expect(await admin.post(members('lab'), { account: `nobody-${n}@example.org` })).toMatchObject({
      status: 400,
    })
  expect(await admin.post(members('lab'), { account: 'nobody@example.org' })).toMatchObject({
    status: 429,
    code: 'rate_limit_exceeded',
  })
  expect(await admin.post(members('lab'), known)).toMatchObject({ status: 201 })
})

test('the credit of a group is corrected by a command, once for its id', async () => {
  const adjust = (usd: string, id: string) =>
    runJson(weir, 'groups', 'adjust', 'firm', '--usd', usd, '--id', id)
  expect((await weir.command('groups', 'adjust', 'firm', '--usd', '1', '--id', 'a')).code).toBe(1)
  await runJson(weir, 'groups', 'grant', 'firm', '--usd', '5', '--id', 'b')
  expect(await adjust('-1.5', 'c')).toMatchObject({ adjusted: true, credits: { available: '3.5' } })
  expect(await adjust('-1.5', 'c')).toMatchObject({ adjusted: false, credits: { available: '3.5' } })
  expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
})
