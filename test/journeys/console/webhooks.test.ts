// Webhooks of accounts: told of what happens, by signed messages, only where the operator's network rules allow.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { requireSigned } from '../../../src/payments/processor.ts'
import { postAs, runJson } from '../../support/call-gateway.ts'
import { until } from '../../chat/lab.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import { FakeRazorpay } from '../../support/fake-razorpay.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { deliver, Payer, settingsFor } from '../payments/top-ups-lab.ts'

setDefaultTimeout(20_000)

const masterKey = 'master-key-0123456789-abcdefghijklm'
const got: { path: string; headers: Headers; body: string }[] = []
let receiver: ReturnType<typeof Bun.serve>
let razorpay: FakeRazorpay
let weir: ServedWeir
let names = 0

beforeAll(async () => {
  receiver = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      got.push({ path: pathname, headers: new Headers(request.headers), body: await request.text() })
      if (pathname === '/moved') return Response.redirect('/elsewhere', 307)
      return new Response(null, { status: pathname === '/broken' ? 500 : 204 })
    },
  })
  razorpay = new FakeRazorpay()
  weir = await serveWeir({
    config: settingsFor(
      razorpay,
      `secrets: { master_key: ${masterKey} }
egress: { allow_hosts: ['127.0.0.1:${receiver.port}'] }
webhooks: { every_ms: 50, watch_ms: 100 }
`,
    ),
  })
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
  await receiver?.stop(true)
})

async function someone() {
  const name = `somebody${++names}`
  const payer = await Payer.of(weir, name)
  const client = new ConsoleClient(weir)
  const email = `${name}@example.org`
  await client.follow(String((await runJson(weir, 'accounts', 'link', '--account', email))['url']))
  return { payer, client, email }
}

const at = (path: string) => `http://127.0.0.1:${receiver.port}${path}`
const of = (path: string) =>
  got
    .filter((message) => message.path === path)
    .map(({ body }) => JSON.parse(body) as { type: string; data: object })
const arrived = (path: string, type: string) =>
  until(
    () => of(path).map((message) => message.type),
    (types) => types.includes(type),
  )

test('a credited top-up and a created key are told of, signed with the secret that was shown once', async () => {
  const { payer, client } = await someone()
  const added = await client.post('webhooks', {
    url: at('/anna'),
    events: ['top_up.credited', 'key.created'],
  })
  expectDocumented('console', 'POST', 'webhooks', added.json)
  const secret = String(added.json['secret'])
  expect([added.status, secret]).toEqual([201, expect.stringMatching(/^whsec_/)])
  const { id } = await payer.open('500')
  const link = [...razorpay.links.values()].at(-1)!
  for (let time = 0; time < 2; time++) await deliver(weir, razorpay.paid(razorpay.pay(link.id)))
  await client.post('keys', { name: 'laptop' })
  await arrived('/anna', 'top_up.credited')
  await arrived('/anna', 'key.created')
  expect(of('/anna').filter(({ type }) => type === 'top_up.credited')).toMatchObject([
    {
      data: {
        top_up: id,
        amount: '500',
        credit_usd: '5.617030837499',
        receipt: expect.stringMatching(/^WR-/),
      },
    },
  ])
  expect(of('/anna').find(({ type }) => type === 'key.created')).toMatchObject({ data: { name: 'laptop' } })
  const { headers, body } = got.find(({ path }) => path === '/anna')!
  requireSigned(new TextEncoder().encode(body), headers, [secret], Date.now())
  const listed = await client.get('webhooks')
  expect(JSON.stringify(listed.json)).not.toContain(secret)
  const hook = String(added.json['id'])
  const deliveries = await client.get(`webhooks/${hook}/deliveries`)
  expectDocumented('console', 'GET', `webhooks/${hook}/deliveries`, deliveries.json)
  expect(JSON.stringify(deliveries.json)).not.toContain(secret)
  // Of another account it is as one that there is not.
  const other = (await someone()).client
  for (const path of ['', '/test', '/deliveries'].map((end) => `webhooks/${hook}${end}`))
    expect([
      path,
      (await other.send(path.endsWith('test') ? 'POST' : 'GET', path, path.endsWith('test') ? {} : undefined))
        .status >= 404,
    ]).toEqual([path, true])
  expect((await other.send('DELETE', `webhooks/${hook}`)).status).toBe(404)
})

test('a low balance and an expiring lot are told of once, and shown in the console', async () => {
  const { payer, client, email } = await someone()
  await client.post('webhooks', { url: at('/bert'), events: ['balance.low', 'lot.expiring'] })
  const soon = new Date(Date.now() + 3 * 86_400_000).toISOString().slice(0, 10)
  await runJson(
    weir,
    'credits',
    'grant',
    '--account',
    email,
    '--pool',
    'purchased',
    '--usd',
    '0.5',
    '--expires',
    soon,
  )
  await arrived('/bert', 'balance.low')
  await arrived('/bert', 'lot.expiring')
  const { json } = await client.get('credits')
  expect((json['data'] as { notices: object[] }).notices).toMatchObject([
    { kind: 'balance_low', available: '0.5', threshold: '1' },
    { kind: 'lot_expiring', remaining: '0.5' },
  ])
  // Several looks later it is still told of once.
  await Bun.sleep(400)
  expect(
    of('/bert')
      .map(({ type }) => type)
      .toSorted(),
  ).toEqual(['balance.low', 'lot.expiring'])
  expect(payer.account).toStartWith('acct_')
})

test('a key whose limit refuses a call is told of', async () => {
  const { client, email } = await someone()
  await client.post('webhooks', { url: at('/carl'), events: ['key.limit_reached'] })
  await runJson(weir, 'credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '5')
  const { json } = await client.post('keys', {
    name: 'tight',
    limit_usd: '0.000000000001',
    limit_window: 'day',
  })
  const refused = await postAs(`${weir.baseUrl}/chat/completions`, String(json['key']), {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
  })
  expect(await refused.json()).toMatchObject({ error: { code: 'key_limit_exceeded' } })
  await arrived('/carl', 'key.limit_reached')
  expect(of('/carl')).toMatchObject([{ data: { name: 'tight', limit_window: 'day' } }])
})

test('a test is sent now; redirects are not followed, and private addresses are not reached', async () => {
  const { client } = await someone()
  const tried = async (url: string) => {
    const { json } = await client.post('webhooks', { url, events: ['key.created'] })
    const { json: said } = await client.post(`webhooks/${String(json['id'])}/test`)
    return said
  }
  expect(await tried(at('/dora'))).toMatchObject({ ok: true, status: 204, error: null })
  expect(of('/dora')).toMatchObject([{ type: 'webhook.test' }])
  expect(await tried(at('/broken'))).toMatchObject({ ok: false, status: 500 })
  expect(await tried(at('/moved'))).toMatchObject({ ok: false, status: 307 })
  expect(of('/elsewhere')).toEqual([])
  for (const url of [
    `http://127.0.0.1:${weir.port}/console`,
    'http://169.254.169.254/latest',
    'http://localhost/',
  ])
    expect([url, await tried(url)]).toMatchObject([
      url,
      { ok: false, status: null, error: expect.stringContaining('may not be reached') },
    ])
})

test('a request with an id adds one webhook, however often it is sent, until that one is removed', async () => {
  const { client } = await someone()
  const hooks = async () => ((await client.get('webhooks')).json as { data: object[] }).data.length
  const wanted = { url: at('/finn'), events: ['key.created'], id: 'form-1' }
  const answers = await Promise.all([wanted, wanted].map((body) => client.post('webhooks', body)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
  const made = answers.find(({ status }) => status === 201)!.json
  for (const body of [wanted, { ...wanted, url: at('/other') }])
    expect(await client.post('webhooks', body)).toMatchObject({
      status: 409,
      code: 'idempotency_conflict',
      json: { error: { message: expect.stringContaining(at('/finn')), metadata: { webhook: made['id'] } } },
    })
  expect(await hooks()).toBe(1)
  expect(await (await someone()).client.post('webhooks', wanted)).toMatchObject({ status: 201 })
  // What was refused for another reason has added nothing: the same request can be corrected.
  const corrected = { ...wanted, id: 'form-2' }
  expect(await client.post('webhooks', { ...corrected, url: 'nowhere' })).toMatchObject({ status: 400 })
  expect(await client.post('webhooks', corrected)).toMatchObject({ status: 201 })
  // The last of twenty is named, not refused as one too many.
  const last = { ...wanted, id: 'form-20' }
  for (let nth = 3; nth < 20; nth++) await client.post('webhooks', { ...wanted, id: `form-${nth}` })
  expect(await client.post('webhooks', last)).toMatchObject({ status: 201 })
  expect(await client.post('webhooks', last)).toMatchObject({ status: 409 })
  expect(await client.post('webhooks', { ...wanted, id: 'form-21' })).toMatchObject({ status: 400 })
  expect(await client.send('DELETE', `webhooks/${String(made['id'])}`)).toMatchObject({ status: 200 })
  const again = await client.post('webhooks', wanted)
  expect(again.status).toBe(201)
  expect(again.json['secret']).not.toBe(made['secret'])
})

test('the command line adds, lists, tests and removes', async () => {
  const { email } = await someone()
  const added = await runJson(
    weir,
    'webhooks',
    'add',
    at('/emma'),
    '--account',
    email,
    '--event',
    'key.created',
  )
  const id = String(added['id'])
  expect(added).toMatchObject({ events: ['key.created'], secret: expect.stringMatching(/^whsec_/) })
  expect(await runJson(weir, 'webhooks', 'test', id, '--account', email)).toMatchObject({
    ok: true,
    status: 204,
  })
  expect(await runJson(weir, 'webhooks', 'list', '--account', email)).toMatchObject([
    { id, url: at('/emma') },
  ])
  await runJson(weir, 'webhooks', 'remove', id, '--account', email)
  expect((await runJson(weir, 'webhooks', 'list', '--account', email)) as unknown).toEqual([])
  const wrong = await weir.command('webhooks', 'add', at('/emma'), '--account', email, '--event', 'nothing')
  expect(wrong.code).not.toBe(0)
})
