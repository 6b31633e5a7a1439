// What an operator finds out for a customer: "I was charged twice", "my key does not work", "find this request".

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { DuplicatesView, KeyChecksView, SearchView } from '../../../src/http/admin/answers.ts'
import type { RequestDetailView } from '../../../src/http/console/answers.ts'
import { accountWith, eventually, getAs, post, runJson } from '../../support/call-gateway.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

setDefaultTimeout(30_000)

let weir: ServedWeir
let management: string
let shop: { key: string; keyId: string; account: string }

async function get(path: string): Promise<Response> {
  return getAs(`${weir.origin}/admin/v1/${path}`, management)
}

async function read<T>(path: string): Promise<T> {
  const response = await get(path)
  expect(response.status).toBe(200)
  const json = (await response.json()) as T
  expectDocumented('admin', 'GET', path, json)
  return json
}

/** A call that the request log has. */
async function called(text: string, key = shop.key, headers: Record<string, string> = {}): Promise<string> {
  const body = { model: 'sim/echo', messages: [{ role: 'user', content: text }], max_tokens: 20 }
  const { requestId } = await post(weir, body, { key, headers })
  await eventually(
    () => getAs(`${weir.baseUrl}/requests/${requestId}`, key),
    ({ status }) => status === 200,
  )
  return requestId
}

beforeAll(async () => {
  weir = await serveWeir({ config: '' })
  management = String(
    (await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost'))['key'],
  )
  const made = await accountWith(weir, 'shop@example.org', { purchased: '5' }, '--name', 'till')
  const [found] = (await read<SearchView>('search?q=shop@example.org')).data
  shop = { ...made, account: found!.id }
})
afterAll(() => weir?.stop())

describe('charged twice', () => {
  const duplicates = (query: string) => read<DuplicatesView>(`duplicates?${query}`)

  test('a request that was sent again without an Idempotency-Key is found by one id, by both, and by its account', async () => {
    const [first, again] = [await called('Twice, please.'), await called('Twice, please.')]
    const other = await called('Once, with other words, and more of them than before.')
    const byOne = await duplicates(`ids=${again}`)
    expect(byOne.data.map(({ verdict, calls }) => ({ verdict, ids: calls.map(({ id }) => id) }))).toEqual([
      { verdict: 'look_alike', ids: [first, again] },
    ])
    const [{ charged, drawn, idempotency_key: key, paid_by: payer } = never()] = byOne.data[0]!.calls
    expect({ key, payer }).toEqual({ key: null, payer: shop.account })
    expect(drawn.map(({ pool, amount }) => ({ pool, amount }))).toEqual([
      { pool: 'purchased', amount: charged },
    ])
    // The id of the answer and that of the request are of one call; a wrong one is named.
    const byIds = await duplicates(`ids=${first.replace('req_', 'resp_')},${again},req_none`)
    expect(byIds).toMatchObject({ data: [{ verdict: 'look_alike', count: 2 }], missing: ['req_none'] })
    expect(await duplicates(`ids=${first},${first.replace('req_', 'resp_')}`)).toMatchObject({
      data: [{ verdict: 'one_call', count: 1 }],
    })
    expect(await duplicates(`ids=${first},${other}`)).toMatchObject({
      data: [{ verdict: 'different', differ: ['prompt_tokens'] }],
    })
    expect((await duplicates(`ids=${other}`)).data).toEqual([])
    const account = 'account=shop@example.org'
    expect(await duplicates(account)).toMatchObject({ data: [{ verdict: 'look_alike', count: 2 }] })
    expect((await duplicates(`${account}&at=${new Date().toISOString()}`)).data.length).toBe(1)
    expect(await duplicates(`${account}&at=2026-01-01T12:00:00Z`)).toEqual({
      data: [],
      looked: 0,
      missing: [],
    })
  })

  test('with an Idempotency-Key it is one call; under another the bodies say what it is', async () => {
    const keyed = (text: string, key: string) => called(text, shop.key, { 'idempotency-key': key })
    const first = await keyed('With a key.', 'order-1')
    expect(await keyed('With a key.', 'order-1')).toBe(first)
    const again = await keyed('With a key.', 'order-2')
    const [set] = (await duplicates(`ids=${first},${again}`)).data
    expect(set!.verdict).toBe('sent_again')
    expect(set!.calls.map((call) => call.idempotency_key)).toEqual(['order-1', 'order-2'])
    // As long, and something else.
    const other = await keyed('With a lid.', 'order-3')
    expect(await duplicates(`ids=${first},${other}`)).toMatchObject({
      data: [{ verdict: 'different', differ: ['body'] }],
    })
  })

  test.each([
    ['', 400],
    ['ids=a,b,c,d,e,f', 400],
    ['account=nobody@example.org', 404],
    ['account=shop@example.org&at=noon', 400],
  ])('%p is refused', async (query, status) => {
    expect((await get(`duplicates?${query}`)).status).toBe(status)
  })
})

describe('my key does not work', () => {
  const checksOf = async (account: string, key: string) =>
    (await read<{ data: KeyChecksView }>(`accounts/${account}/keys/${key}/checks`)).data
  const faults = ({ checks }: KeyChecksView) => checks.flatMap(({ code }) => code ?? [])
  const keyOf = async (...given: string[]) => {
    const made = await runJson(weir, 'keys', 'create', '--account', 'shop@example.org', ...given)
    return { id: String(made['id']), key: String(made['key']) }
  }

  test('one that works says so, with its figures and what was refused of late', async () => {
    await post(weir, { model: 'sim/none', messages: [] }, { key: shop.key })
    const checks = await eventually(
      () => checksOf(shop.account, shop.keyId),
      ({ refusals }) => refusals.length > 0,
    )
    expect(faults(checks)).toEqual([])
    expect(checks.checks.map(({ id }) => id)).toEqual(['key', 'account', 'credit'])
    expect(checks.refusals).toMatchObject([{ calls: 1, status: 400 }])
  })

  test.each<[string, () => Promise<{ account: string; key: string }>, object[]]>([
    [
      'revoked by an operator',
      async () => {
        const { id } = await keyOf('--name', 'gone')
        await weir.command('keys', 'revoke', id)
        return { account: shop.account, key: id }
      },
      [{ id: 'key', code: 'api_key_revoked', by: 'operator' }],
    ],
    [
      'paused',
      async () => {
        const { id } = await keyOf('--name', 'asleep')
        await weir.command('keys', 'pause', id)
        return { account: shop.account, key: id }
      },
      [{ id: 'key', code: 'api_key_paused', by: 'operator' }],
    ],
    [
      'of an account without credit, for models alone',
      async () => {
        const { keyId } = await accountWith(weir, 'poor@example.org', {}, '--models', 'sim/echo')
        const [{ id } = never()] = (await read<SearchView>('search?q=poor@example.org')).data
        return { account: id, key: keyId }
      },
      [{ id: 'credit', code: 'purchased_credits_required', limit: '0' }],
    ],
  ])('one that is %s', async (_, make, expected) => {
    const { account, key } = await make()
    const { checks } = await checksOf(account, key)
    expect(checks.filter(({ code }) => code !== null)).toMatchObject(expected)
    for (const { code, remedy } of checks) expect(remedy === null).toBe(code === null)
  })

  test('one of a group whose budget is used up says which, and who pays', async () => {
    const { code } = await weir.command('groups', 'create', '--name', 'River', '--budget-usd', '0.00001')
    expect(code).toBe(0)
    await weir.command('groups', 'add', 'River', '--account', 'shop@example.org')
    const { id, key } = await keyOf('--name', 'of the group', '--group', 'River')
    await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] }, { key })
    const checks = await eventually(
      () => checksOf(shop.account, id),
      ({ refusals }) => refusals.length > 0,
    )
    expect(checks.refusals).toMatchObject([{ code: 'budget_exceeded', model: 'sim/echo' }])
    expect(checks.checks.find((each) => each.id === 'budget')).toMatchObject({
      name: 'River',
      limit: '0.00001',
    })
    await weir.command('accounts', 'suspend', 'shop@example.org')
    expect(faults(await checksOf(shop.account, id))).toEqual(['account_suspended'])
    await weir.command('groups', 'remove', 'River', '--account', 'shop@example.org')
    expect(faults(await checksOf(shop.account, id))).toEqual(['account_suspended', 'api_key_revoked'])
    await weir.command('accounts', 'resume', 'shop@example.org')
    expect((await get(`accounts/acct_none/keys/${id}/checks`)).status).toBe(404)
  })
})

describe('find this request', () => {
  test('several ids are found at once, and one that the log holds no more with its receipt', async () => {
    const [a, b] = [await called('One.'), await called('Two, and more.')]
    const found = (await read<SearchView>(`search?q=${encodeURIComponent(`${a}, ${b}`)}`)).data
    expect(found.map(({ id }) => id)).toEqual([a, b])
    using database = new Database(join(weir.dataDir, 'weir.db'))
    database.run('DELETE FROM request_log WHERE request_id = ?', [a])
    const { data } = await read<{ data: RequestDetailView }>(`requests/${a}`)
    expect(data).toMatchObject({
      id: a,
      model: 'sim/echo',
      status: 200,
      provider: 'sim',
      account: shop.account,
    })
    expect(data.cost).toBe(data.receipt!.total)
    expect(await runJson(weir, 'requests', 'show', a)).toMatchObject({ id: a })
    expect((await get('requests/req_none')).status).toBe(404)
  })
})

function never(): never {
  throw new Error('there is none')
}
