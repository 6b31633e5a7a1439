// What an account sees of itself in the console: its credit, its calls, why one was refused, what runs; and nobody else's.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { admissionRules } from '../../../src/http/console/requests.ts'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { accountWith, keyFor, post } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'

// Most tests run commands of their own, each a start of the program.
setDefaultTimeout(30_000)

let lab: Lab
let owner: ConsoleClient
let anna: ConsoleClient
let annas: { key: string; keyId: string }

type Json = Readonly<Record<string, unknown>>
type Rows = { data: Json[]; has_more: boolean; next_cursor: string | null }

async function rows(client: ConsoleClient, path: string): Promise<Rows> {
  const { status, json } = await client.get(path)
  expect(status).toBe(200)
  return json as unknown as Rows
}

beforeAll(async () => {
  lab = await startLab({ providers: {}, models: {}, settings: { local_servers: { discover: false } } })
  annas = await accountWith(lab.weir, 'anna@example.org', { purchased: '2' })
  owner = await signedIn(lab.weir, 'owner@localhost')
  anna = await signedIn(lab.weir, 'anna@example.org')
  for (let n = 0; n < 3; n++) await post(lab.weir, chat('sim/echo'), { key: annas.key })
  await post(lab.weir, chat('sim/error-500'), { key: annas.key })
  await until(
    () => rows(anna, 'requests'),
    ({ data }) => data.length === 4,
  )
}, 30_000)
afterAll(() => lab?.weir.stop())

const chat = (model: string) => ({ model, messages: [{ role: 'user', content: 'Where does it run?' }] })

describe('credit', () => {
  test('is shown by pool and lot, with what an API call and an app call could spend', async () => {
    const { data } = (await anna.get('credits')).json as { data: Json }
    expect(data).toMatchObject({ currency: 'USD', held: '0', debt: '0', total_purchased: '2' })
    const pools = data['pools'] as { type: string; remaining: string; resets_at: string | null }[]
    expect(pools.map(({ type, resets_at }) => [type, resets_at !== null])).toEqual([
      ['purchased', false],
      ['welcome', false],
      ['daily', true],
      ['subscription', false],
    ])
    const { api, app } = data['spendable'] as { api: string; app: string }
    expect(api).toBe(pools[0]!.remaining)
    expect(Number(app)).toBeCloseTo(Number(api) + 0.7, 9)
    const lots = data['lots'] as { pool: string; amount: string }[]
    expect(lots.map(({ pool, amount }) => [pool, amount])).toContainEqual(['purchased', '2'])
  })

  test('has a history that adds up to what is there, in pages and as a file', async () => {
    const whole = (await rows(anna, 'credits/history')).data
    expect(whole.map(({ kind }) => kind)).toContain('settle')
    const paged: Json[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const page: Rows = await rows(
        anna,
        `credits/history?limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`,
      )
      paged.push(...page.data)
      cursor = page.next_cursor
    }
    expect(paged).toEqual(whole)
    const pico = (text: unknown) => {
      const [, sign, units, rest = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(String(text))!
      return BigInt(`${sign}${units}${rest.padEnd(12, '0')}`)
    }
    const { data } = (await anna.get('credits')).json as { data: { pools: { remaining: string }[] } }
    const there = data.pools.reduce((sum, { remaining }) => sum + pico(remaining), 0n)
    expect(whole.reduce((sum, { amount }) => sum + pico(amount), 0n)).toBe(there)
    const csv = await fetch(`${lab.weir.origin}/console/api/credits/history.csv`, {
      headers: { cookie: anna.cookie },
    })
    expect((await csv.text()).trimEnd().split('\r\n')).toHaveLength(whole.length + 1)
  })
})

describe('requests', () => {
  test('are listed with filters and in pages, and opened with their receipt', async () => {
    const { data } = await rows(anna, 'requests?model=sim/echo')
    expect(data).toHaveLength(3)
    expect(data[0]).toMatchObject({ channel: 'api', mode: 'live', key: annas.keyId })
    const first = await rows(anna, 'requests?limit=2')
    const second = await rows(anna, `requests?limit=2&cursor=${first.next_cursor}`)
    expect([...first.data, ...second.data]).toEqual((await rows(anna, 'requests')).data)
    const { json } = await anna.get(`requests/${String(data[0]!['id'])}`)
    expect(json['data']).toMatchObject({ receipt: { state: 'settled' }, refusal: null })
    expect((await rows(anna, 'requests?channel=app')).data).toEqual([])
    const answer = await fetch(`${lab.weir.origin}/console/api/requests.csv?model=sim/echo`, {
      headers: { cookie: anna.cookie! },
    })
    const file = (await answer.text()).trimEnd().split('\r\n')
    expect(file[0]).toStartWith('ended_at,id,key,')
    expect(file.slice(1).map((line) => line.split(',')[1])).toEqual(data.map(({ id }) => String(id)))
  })

  test.each([
    ['requests?limit=0', 'limit'],
    ['requests?cursor=first', 'cursor'],
    ['requests?since=2026-01-01', 'since'],
    ['credits/history?limit=201', 'limit'],
    ['usage?account=somebody', 'account'],
    ['models?fields=id,secret', 'fields.1'],
  ])('%s is refused by name', async (path, param) => {
    expect(await anna.get(path)).toMatchObject({
      status: 400,
      code: 'invalid_request',
      json: { error: { param } },
    })
  })
})

describe('why it was refused', () => {
  test('the rule that fired, the figures of that moment, and what would change it', async () => {
    const poor = await accountWith(lab.weir, 'poor@example.org', { purchased: '0.000001' })
    const client = await signedIn(lab.weir, 'poor@example.org')
    const { requestId } = await post(lab.weir, chat('sim/echo'), { key: poor.key })
    await until(
      () => rows(client, 'requests'),
      ({ data }) => data.length === 1,
    )
    const granted = ['credits', 'grant', '--account', 'poor@example.org', '--pool', 'purchased', '--usd', '5']
    expect(await lab.weir.command(...granted)).toMatchObject({ code: 0 })
    const { data } = (await client.get(`requests/${requestId}`)).json as { data: { refusal: Json } }
    expect(data.refusal).toMatchObject({
      rule: 'credit',
      figures: { available: '0.000001', held: '0', needed: expect.any(String) },
      act: { kind: 'top_up', amount: expect.stringMatching(/^0\.0000\d+$/) },
    })
    const pools = (data.refusal['figures'] as { pools: Json[] }).pools
    expect(pools).toContainEqual({
      type: 'purchased',
      remaining: '0.000001',
      free: '0.000001',
      counted: true,
    })
    expect(pools).toContainEqual({ type: 'welcome', remaining: '0.5', free: '0.5', counted: false })
    const outcomes = (data.refusal['rules'] as { id: string; outcome: string }[]).map(
      ({ outcome }) => outcome,
    )
    const fired = admissionRules.findIndex(({ id }) => id === 'credit')
    expect(outcomes).toEqual(
      admissionRules.map((_, at) => (at < fired ? 'passed' : at === fired ? 'fired' : 'not_reached')),
    )
  })

  test.each([
    ['model_not_allowed', 'key_models', 'allow_model', ['--models', 'openai/*'], 'sim/echo'],
    ['key_limit_exceeded', 'key_limit', 'raise_key_limit', ['--limit-usd', '0.000000001'], 'sim/echo'],
    ['budget_exceeded', 'budget', 'raise_budget', ['--group', 'lab'], 'sim/echo'],
    ['model_not_found', 'model', 'other_model', [], 'sim/ecko'],
  ])('%s is the rule %s, and the act is to %s', async (code, rule, act, rights, model) => {
    if (rights.includes('lab')) {
      await lab.weir.command('groups', 'create', '--name', 'lab', '--budget-usd', '0')
      await lab.weir.command('groups', 'add', 'lab', '--account', 'anna@example.org')
    }
    const { key } = await keyFor(lab.weir, 'anna@example.org', ...rights)
    const { requestId } = await post(lab.weir, chat(model), { key })
    const found = await until(
      () => anna.get(`requests/${requestId}`),
      ({ status }) => status === 200,
    )
    expect(found.json['data']).toMatchObject({ code, refusal: { rule, code, act: { kind: act } } })
  })
})

test('S11: another account’s ids are as if they were not there', async () => {
  const [{ id }] = (await rows(anna, 'requests')).data as [{ id: string }]
  const random = 'req_00000000000000000000000000000000'
  const answers = await Promise.all([owner.get(`requests/${id}`), owner.get(`requests/${random}`)])
  const [theirs, none] = answers.map(({ status, json }) => {
    const { message, code } = json['error'] as Json
    return { status, message, code }
  })
  expect(theirs).toEqual(none!)
  expect(theirs!.status).toBe(404)
  expect((await rows(owner, `requests?key=${annas.keyId}`)).data).toEqual([])
  expect((await rows(owner, `usage?key=${annas.keyId}`)).data).toEqual([])
})

test('models say whether the account can call them, compressed, with the columns that were asked for', async () => {
  const { data } = await rows(anna, 'models')
  const echo = data.find(({ id }) => id === 'sim/echo')!
  expect(echo).toMatchObject({ provider: 'sim', kind: 'chat', callable: { api: null, app: null } })
  const openai = data.find(({ provider }) => provider === 'openai')!
  expect(openai['callable']).toEqual({ api: 'no_provider', app: 'no_provider' })
  const few = await fetch(`${lab.weir.origin}/console/api/models?fields=id,input`, {
    headers: { cookie: anna.cookie, 'accept-encoding': 'gzip' },
  })
  expect(few.headers.get('content-encoding')).toBe('gzip')
  const again = await fetch(`${lab.weir.origin}/console/api/models?fields=id,input`, {
    headers: { cookie: anna.cookie, 'if-none-match': few.headers.get('etag')! },
  })
  expect(again.status).toBe(304)
  const columns = ((await few.json()) as Rows).data.map((row) => Object.keys(row).join())
  expect(new Set(columns)).toEqual(new Set(['id,input']))
})

test('live shows a call from its hold to its end, to its account alone', async () => {
  const watch = async (client: ConsoleClient, enough: (text: string) => boolean) => {
    const abort = new AbortController()
    const response = await fetch(`${lab.weir.origin}/console/api/live`, {
      headers: { cookie: client.cookie },
      signal: abort.signal,
    })
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) {
      text += decoder.decode(bytes, { stream: true })
      if (enough(text)) break
    }
    abort.abort()
    return text
  }
  const seen = watch(anna, (text) => text.includes('"settled"'))
  const others = watch(owner, (text) => text.includes('event: calls'))
  const answer = post(lab.weir, { ...chat('sim/slow'), stream: true }, { key: annas.key })
  const [text, theirs] = await Promise.all([seen, others])
  await answer
  const phases = [...text.matchAll(/"phase":"(\w+)"/g)].map(([, phase]) => phase)
  expect(phases.at(-1)).toBe('settled')
  expect(phases.length).toBeGreaterThan(1)
  expect(text).toContain('"model":"sim/slow"')
  expect(text).not.toContain('Where does it run?')
  expect(theirs).toContain('{"calls":[]}')
}, 30_000)

test('the headers of live are answered at once', async () => {
  const options = { method: 'HEAD', headers: { cookie: anna.cookie }, signal: AbortSignal.timeout(4_000) }
  const response = await fetch(`${lab.weir.origin}/console/api/live`, options)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
})
