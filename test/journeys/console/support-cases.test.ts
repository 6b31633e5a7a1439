// Support cases of an operator: a piece of text finds what it belongs to, and the calls of everybody are narrowed down
// and taken away as a file.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { OperatorRequestView, SearchView } from '../../../src/http/admin/answers.ts'
import type { Page } from '../../../src/http/docs/operation.ts'
import { accountWith, eventually, post, runJson } from '../../support/call-gateway.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import { FakeRazorpay } from '../../support/fake-razorpay.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { deliver, Payer, settingsFor } from '../payments/top-ups-lab.ts'

setDefaultTimeout(30_000)

let razorpay: FakeRazorpay
let weir: ServedWeir
let management: { id: string; key: string }
let shop: { key: string; keyId: string }
let served: string
let refused: string
let failed: string

async function get(path: string, key = management.key): Promise<Response> {
  return fetch(`${weir.origin}/admin/v1/${path}`, { headers: { authorization: `Bearer ${key}` } })
}

async function read<T>(path: string): Promise<T> {
  const response = await get(path)
  expect(response.status).toBe(200)
  const json = (await response.json()) as T
  expectDocumented('admin', 'GET', path, json)
  return json
}

const found = async (q: string) => (await read<SearchView>(`search?q=${encodeURIComponent(q)}`)).data
const requests = async (query: string) =>
  (await read<Page<OperatorRequestView>>(`requests?${query}`)).data.map(({ id }) => id)

beforeAll(async () => {
  razorpay = new FakeRazorpay()
  weir = await serveWeir({ config: settingsFor(razorpay) })
  const made = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
  management = { id: String(made['id']), key: String(made['key']) }
  shop = await accountWith(weir, 'shop@example.org', { purchased: '5' }, '--name', 'till')
  const poor = await accountWith(weir, 'poor@example.org', {})
  const messages = [{ role: 'user', content: 'Hello, river.' }]
  const headers = { 'x-weir-tags': 'feature=till' }
  served = (await post(weir, { model: 'sim/echo', messages }, { key: shop.key, headers })).requestId
  failed = (await post(weir, { model: 'sim/error-500', messages }, { key: shop.key })).requestId
  refused = (await post(weir, { model: 'sim/echo', messages, user: 'ada' }, { key: poor.key })).requestId
  await eventually(
    () => requests(''),
    (ids) => ids.length === 3,
  )
}, 30_000)
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
})

describe('a search', () => {
  test('finds an account by the beginning of its address or by its id', async () => {
    const [account, ...more] = await found('Shop@')
    expect(more).toEqual([])
    expect(account).toMatchObject({ kind: 'account', title: 'shop@example.org', state: 'active' })
    expect(account!.href).toBe(`/console/operator/accounts/${account!.id}`)
    expect(await found(account!.id)).toEqual([account!])
  })

  test('finds a key by its id, its text without the secret, and its last letters', async () => {
    const expected = {
      kind: 'key' as const,
      id: shop.keyId,
      title: `till …${shop.key.slice(-4)}`,
      account: { id: expect.any(String) as string, email: 'shop@example.org' },
      state: 'active',
    }
    for (const q of [shop.keyId, shop.key.slice(-4), `…${shop.key.slice(-4)}`])
      expect(await found(q)).toMatchObject([expected])
    expect(await found(management.key.slice(-4))).toMatchObject([
      { kind: 'management_key', id: management.id },
    ])
  })

  test('finds a call by its request id, the id of its response, and says how it ended', async () => {
    expect(await found(served)).toMatchObject([
      {
        kind: 'request',
        id: served,
        title: 'sim/echo',
        state: 'served',
        href: `/console/operator/requests/${served}`,
      },
    ])
    expect(await found(served.replace('req_', 'resp_'))).toMatchObject([{ id: served }])
    expect(await found(refused)).toMatchObject([
      { id: refused, state: 'purchased_credits_required', account: { email: 'poor@example.org' } },
    ])
  })

  test('finds a payment by its own id and by the processor’s', async () => {
    const payer = await Payer.of(weir, 'payer')
    const { id } = await payer.open('500')
    const link = [...razorpay.links.values()].find(({ reference }) => reference === id)!
    const payment = razorpay.pay(link.id)
    await deliver(weir, razorpay.paid(payment))
    for (const q of [String(id), payment.id, link.id])
      expect(await found(q)).toMatchObject([
        { kind: 'payment', id, title: '500 INR', account: { email: 'payer@example.org' }, state: 'credited' },
      ])
  })

  test('finds a voucher by its id and by its code, however that is typed', async () => {
    const made = await runJson<{ id: string; code: string }[]>(weir, 'vouchers', 'create', '--usd', '5')
    const { id, code } = made[0]!
    for (const q of [id, code, code.toLowerCase().replaceAll('-', ' ')])
      expect(await found(q)).toMatchObject([
        { kind: 'voucher', id, title: '5 USD', account: null, state: 'open' },
      ])
  })

  test('a group, by a part of its name or by its id', async () => {
    const made = await runJson(weir, 'groups', 'create', '--name', 'River works')
    const hit = { kind: 'group', id: String(made['id']), title: 'River works', account: null }
    for (const text of ['river w', String(made['id'])]) expect(await found(text)).toMatchObject([hit])
    expect((await found('river w'))[0]!.href).toBe(`/console/operator/groups/${hit.id}`)
  })

  test('finds nothing of what is not there, and takes no empty text', async () => {
    expect(await found('nobody-knows-this')).toEqual([])
    expect((await get('search?q=%20')).status).toBe(400)
    expect((await get('search?q=a', shop.key)).status).toBe(401)
  })
})

describe('requests of everybody', () => {
  test.each<[string, () => string, () => string[]]>([
    ['outcome', () => 'outcome=served', () => [served]],
    ['outcome', () => 'outcome=failed', () => [failed]],
    ['outcome', () => 'outcome=refused', () => [refused]],
    ['a tag', () => 'tag=feature=till', () => [served]],
    ['a person', () => 'tag=user=ada', () => [refused]],
    ['a part of a model', () => 'model=*ERROR*', () => [failed]],
    ['a provider', () => 'provider=sim', () => [failed, served]],
    ['a code', () => 'code=purchased_credits_required', () => [refused]],
    ['a key', () => `key=${shop.keyId}&outcome=served`, () => [served]],
    ['an id', () => `id=${served.replace('req_', 'resp_')}`, () => [served]],
    [
      'a day, included',
      () => `to=${new Date().toISOString().slice(0, 10)}&provider=sim`,
      () => [failed, served],
    ],
    ['a day before', () => 'to=2020-01-01', () => []],
  ])('by %s', async (_, query, ids) => {
    expect(await requests(query())).toEqual(ids())
  })

  test('name their account, page by cursor, and are a file', async () => {
    const first = await read<Page<OperatorRequestView>>('requests?limit=2')
    expect(first.data.map(({ account_email }) => account_email)).toEqual([
      'poor@example.org',
      'shop@example.org',
    ])
    const second = await read<Page<OperatorRequestView>>(`requests?limit=2&cursor=${first.next_cursor}`)
    expect(second.data.map(({ id }) => id)).toEqual([served])
    const file = await get('requests.csv?outcome=served')
    expect(file.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    const [heading = '', ...lines] = (await file.text()).trimEnd().split('\r\n')
    expect(heading.split(',').slice(0, 4)).toEqual(['ended_at', 'id', 'account', 'account_email'])
    expect(lines.map((line) => [line.split(',')[1], line.split(',').at(-1)])).toEqual([
      [served, 'feature=till'],
    ])
    const shown = await read<{ data: OperatorRequestView }>(`requests/${refused}`)
    expect(shown.data).toMatchObject({ account_email: 'poor@example.org', tags: { user: 'ada' } })
  })

  test.each([
    ['outcome=lost', 'outcome'],
    ['tag=feature', 'tag'],
    ['to=tomorrow', 'to'],
    ['cursor=x', 'cursor'],
  ])('%s is refused by name', async (query, param) => {
    const response = await get(`requests?${query}`)
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param } }])
  })
})
