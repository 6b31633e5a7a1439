// A command and its twin of the admin API are one act with one view: whoever reads the answer of the one can read the JSON of
// the other. Commands say more, and a few things under a second name that they had before.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { runJson } from '../support/call-gateway.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'

type Json = Readonly<Record<string, unknown>>

let weir: ServedWeir
let operator: string
/** The account that commands act on, and the one that the API does. */
const [here, there] = ['here@example.org', 'there@example.org']
let accounts: Readonly<Record<'here' | 'there', string>>

const command = (...args: string[]) => runJson<Json | Json[]>(weir, ...args)

async function api(method: string, path: string, body?: object): Promise<Json | Json[]> {
  const response = await fetch(`${weir.origin}/admin/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  expect([path, response.ok]).toEqual([path, true])
  return (await response.json()) as Json
}

/** One of a list, or the thing itself. */
function oneOf(answer: Json | Json[]): Json {
  const inner = Array.isArray(answer) ? answer : (answer['data'] ?? answer)
  return (Array.isArray(inner) ? inner[0] : inner) as Json
}

const kindsOf = (one: Json) =>
  Object.fromEntries(
    Object.entries(one).map(([name, value]) => [name, value === null ? 'null' : typeof value]),
  )

beforeAll(async () => {
  weir = await serveWeir({})
  const made = ['keys', 'create', '--account', 'owner@localhost', '--management']
  operator = String(oneOf(await command(...made))['key'])
  accounts = {
    here: String(oneOf(await command('accounts', 'create', '--email', here))['id']),
    there: String(oneOf(await api('POST', 'accounts', { email: there }))['id']),
  }
})
afterAll(() => weir?.stop())

test('each answers with what the other does', async () => {
  const key = oneOf(await command('keys', 'create', '--account', here))
  const twin = oneOf(await api('POST', `accounts/${accounts.there}/keys`, { name: 'key' }))
  const keys = `accounts/${accounts.there}/keys`
  await command('groups', 'create', '--name', 'one')
  const group = oneOf(await api('POST', 'groups', { name: 'two' }))
  await fetch(`${weir.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] }),
  }).then((answer) => answer.text())
  const [id, other] = [String(key['id']), String(twin['id'])]
  const pairs: readonly (readonly [string, ...Parameters<typeof api>])[] = [
    ['accounts list', 'GET', 'accounts'],
    [`accounts show ${here}`, 'GET', `accounts/${accounts.there}`],
    [`accounts suspend ${here}`, 'POST', `accounts/${accounts.there}/suspend`, {}],
    [`accounts resume ${here}`, 'POST', `accounts/${accounts.there}/resume`, {}],
    [`keys list --account ${here}`, 'GET', keys],
    [`keys pause ${id}`, 'POST', `${keys}/${other}/pause`, {}],
    [`keys resume ${id}`, 'POST', `${keys}/${other}/resume`, {}],
    [`keys limit ${id} --limit-usd 3`, 'PATCH', `${keys}/${other}`, { limit_usd: '3' }],
    [`keys rotate ${id}`, 'POST', `${keys}/${other}/rotate`, {}],
    [`keys revoke ${id}`, 'DELETE', `${keys}/${other}`],
    ['keys list --management', 'GET', 'management-keys'],
    [
      `credits grant --account ${here} --pool purchased --usd 3`,
      'POST',
      `accounts/${accounts.there}/grant`,
      { pool: 'purchased', usd: '3' },
    ],
    ['groups list', 'GET', 'groups'],
    ['groups show one', 'GET', `groups/${String(group['id'])}`],
    [`groups add one --account ${here}`, 'POST', `groups/${String(group['id'])}/members`, { account: there }],
    ['groups grant one --usd 1', 'POST', `groups/${String(group['id'])}/grants`, { usd: '1' }],
    ['vouchers create --usd 3', 'POST', 'vouchers', { usd: '3' }],
    ['vouchers list', 'GET', 'vouchers'],
    ['requests list', 'GET', 'requests'],
    ['usage', 'GET', 'usage'],
    ['ledger audit', 'POST', 'audit', {}],
  ]
  expect(kindsOf(key)).toMatchObject(kindsOf(twin))
  for (const [line, ...asked] of pairs) {
    const said = oneOf(await command(...line.split(' ')))
    expect([line, kindsOf(said)]).toMatchObject([line, kindsOf(oneOf(await api(...asked)))])
  }
})
