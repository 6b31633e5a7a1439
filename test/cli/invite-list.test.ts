// `weir accounts invite --file`: whoever is on a list gets an account, a group and an allowance; a list with a fault, nobody.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { parseCsv } from '../../src/text/text.ts'
import { postAs, runJson } from '../support/call-gateway.ts'
import { ConsoleClient } from '../support/console-client.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

let weir: ServedWeir
let dir: TempDir

beforeAll(async () => {
  dir = tempDir('weir-list-')
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
  await runJson(weir, 'groups', 'create', '--name', 'River, upper')
})
afterAll(async () => {
  await weir.stop()
  dir.remove()
})

async function invite(text: string) {
  const path = dir.join('people.csv')
  writeFileSync(path, text)
  return weir.command('accounts', 'invite', '--file', path, '--json')
}

interface Invited {
  readonly address: string
  readonly name: string
  readonly state: string
  readonly url: string | null
}

async function invited(lines: readonly string[]): Promise<Invited[]> {
  const { stdout } = await invite(lines.join('\r\n'))
  return JSON.parse(stdout) as Invited[]
}

test('everything that is wrong is said at once with its line, and nobody is invited', async () => {
  const { code, stderr: text } = await invite(
    [
      'Address,name,group,role,allowance',
      'anna@example.org,Anna,"River, upper",boss,',
      'not an address,,,,',
      'berta@example.org,,Nowhere,,twenty',
      '',
      'ANNA@example.org,,,admin,',
    ].join('\n'),
  )
  expect(code).toBe(1)
  for (const fault of [
    'line 2: the role in a group is admin or member, not "boss"',
    'line 3: "not an address" is no e-mail address',
    'line 4: there is no group "Nowhere"',
    'line 4: the allowance is US dollars of each month, such as 20, not "twenty"',
    'line 6: anna@example.org stands in line 2 already',
    'line 6: a role needs a group',
  ])
    expect(text).toContain(fault)
  const accounts = await runJson<{ email: string }[]>(weir, 'accounts', 'list')
  expect(accounts.map(({ email }) => email)).toEqual(['owner@localhost'])
  expect((await invite('address,salary\na@example.org,1')).stderr).toContain('not "salary"')
  expect((await invite('name\nAnna')).code).toBe(1)
  expect((await invite('address\n')).stderr).toContain('it names nobody')
  // Without a heading, as a table is pasted: the columns stand in their order.
  expect((await invite('\nanna@example.org\tAnna\nb@example.org\tB\tNowhere\tmember\t5')).stderr).toContain(
    'line 3: there is no group "Nowhere"',
  )
})

test('people get accounts, groups and allowances, and a link; a second time only what is new', async () => {
  const people = [
    '\uFEFFaddress;name;group;role;allowance',
    'anna@example.org;"Anna ""A""";River, upper;admin;20',
    'berta@example.org;;River, upper;;',
    'carla@example.org;;;;0',
  ]
  const first = await invited(people)
  expect(first.map(({ address, name, state }) => [address, name, state])).toEqual([
    ['anna@example.org', 'Anna "A"', 'opened'],
    ['berta@example.org', '', 'opened'],
    ['carla@example.org', '', 'opened'],
  ])
  const { members } = await runJson<{ members: { email: string; role: string }[] }>(
    weir,
    'groups',
    'show',
    'River, upper',
  )
  expect(members.map(({ email, role }) => [email, role]).toSorted()).toEqual([
    ['anna@example.org', 'admin'],
    ['berta@example.org', 'member'],
  ])
  const client = new ConsoleClient(weir)
  expect((await client.follow(first[0]!.url!)).status).toBe(200)
  // The credit of the month is there, once.
  expect((await client.get('credits')).json).toMatchObject({ data: { total_purchased: '20' } })

  const again = await invited([...people, 'dora@example.org;;;;5'])
  expect(again.map(({ address, state, url }) => [address, state, url !== null])).toEqual([
    ['anna@example.org', 'there', false],
    // Its link still works.
    ['berta@example.org', 'there', false],
    ['carla@example.org', 'there', false],
    ['dora@example.org', 'opened', true],
  ])
  expect((await new ConsoleClient(weir).follow(first[1]!.url!)).status).toBe(200)
  await invited(['address,group,role,allowance', 'berta@example.org,"River, upper",admin,7'])
  expect(await runJson(weir, 'accounts', 'show', 'berta@example.org')).toMatchObject({
    monthly_credit_usd: '7',
    credits: { total_purchased: '7' },
  })
  expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
})

test('the API takes the same list, as a file or as its people, and says the same of it', async () => {
  const { key } = await runJson<{ key: string }>(
    weir,
    'keys',
    'create',
    '--management',
    '--account',
    'owner@localhost',
  )
  const ask = async (body: object) => {
    const answer = await postAs(`${weir.origin}/admin/v1/invitations/list`, key, body)
    return {
      status: answer.status,
      ...((await answer.json()) as { data?: Invited[]; error?: { message: string } }),
    }
  }
  const people = [
    { email: 'emil@example.org', group: 'River, upper', role: 'admin', monthly_credit_usd: '4' },
    { email: 'fritz@example.org' },
  ]
  const wrong = await ask({ people: [...people, { email: 'FRITZ@example.org', group: 'Nowhere' }] })
  expect(wrong.status).toBe(400)
  expect(wrong.error!.message).toContain('line 3: fritz@example.org stands in line 2 already')
  expect(wrong.error!.message).toContain('line 3: there is no group "Nowhere"')
  expect((await ask({})).status).toBe(400)
  expect((await ask({ csv: 'address\na@example.org', people })).status).toBe(400)
  expect((await ask({ csv: 'salary\n1' })).error!.message).toContain('not "salary"')
  const { status, data } = await ask({ people })
  expect(status).toBe(200)
  expect(data!.map((row) => [row.address, row.state])).toEqual([
    ['emil@example.org', 'opened'],
    ['fritz@example.org', 'opened'],
  ])
  const again = await ask({
    csv: 'email;team;role\nemil@example.org;River, upper;member\ngina@example.org;;',
  })
  expect(again.data!.map((row) => [row.address, row.state, row.url !== null])).toEqual([
    ['emil@example.org', 'there', false],
    ['gina@example.org', 'opened', true],
  ])
  expect((await new ConsoleClient(weir).follow(data![0]!.url!)).status).toBe(200)
  const shown = await runJson<{ members: { email: string; role: string }[] }>(
    weir,
    'groups',
    'show',
    'River, upper',
  )
  expect(shown.members.find(({ email }) => email === 'emil@example.org')?.role).toBe('member')
})

test('cells are read as spreadsheets write them', () => {
  expect(parseCsv('a,b\r\n"x ""y"", z", 1 \r\n\r\n"two\nlines",\nlast')).toEqual([
    { line: 1, cells: ['a', 'b'] },
    { line: 2, cells: ['x "y", z', '1'] },
    { line: 4, cells: ['two\nlines', ''] },
    { line: 6, cells: ['last'] },
  ])
  expect(() => parseCsv('a\n"b')).toThrow('line 2')
})
