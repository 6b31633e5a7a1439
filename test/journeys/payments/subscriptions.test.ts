// Subscriptions that are sold elsewhere: each period a lot, told of by a signed hook, in whatever order.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHmac, randomBytes } from 'node:crypto'
import { day } from '../../credits/support.ts'
import { runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { answerOf, Payer, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

const secret = `whsec_${Buffer.from('a secret of thirty-two bytes, so.').toString('base64')}`
const before = `whsec_${Buffer.from('the secret before it').toString('base64')}`
const config = `local_servers: { discover: false }
subscriptions:
  secret: ${secret}
  secret_before: ${before}
  products: { premium_month: { credit_usd: "5", months: 1 }, pro_month: { credit_usd: "20", months: 1 } }
`
let weir: ServedWeir
let names = 0
const payer = () => Payer.of(weir, `payer${++names}`)

beforeAll(async () => {
  weir = await serveWeir({ config })
})
afterAll(() => weir?.stop())

const now = Date.now()
const from = new Date(now - day).toISOString()
const to = new Date(now + 20 * day).toISOString()

function messageFor(anna: Payer, more: object = {}) {
  return {
    subscription: `GPA.${anna.account.slice(-8)}`,
    source: 'play',
    account: anna.account,
    product: 'premium_month',
    period: { from, to },
    state: 'active',
    test: false,
    ...more,
  }
}

interface Signing {
  readonly key?: string
  readonly at?: number
  readonly id?: string
}

function send(
  message: unknown,
  { key = secret, at = Date.now(), id = randomBytes(6).toString('hex') }: Signing = {},
) {
  const body = typeof message === 'string' ? message : JSON.stringify(message)
  const seconds = String(Math.floor(at / 1000))
  const bytes = Buffer.from(key.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', bytes).update(`${id}.${seconds}.${body}`).digest('base64')
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': seconds,
    'webhook-signature': `v1,AAAA v1,${signature}`,
  }
  return post(body, headers)
}

async function post(body: string, headers: Record<string, string>) {
  const response = await fetch(`${weir.origin}/hooks/subscriptions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  return answerOf(response)
}

interface Pool {
  readonly type: string
  readonly remaining: string
  readonly lots: readonly { readonly remaining: string; readonly expires_at: string }[]
}

async function lotsOf(anna: Payer): Promise<Pool['lots']> {
  const { json } = await anna.send('GET', '/app/v1/credits')
  const { pools } = json['data'] as { pools: Pool[] }
  return pools.find(({ type }) => type === 'subscription')?.lots ?? []
}

const applied = { status: 200, json: { outcome: 'applied' } }

describe('a period', () => {
  test('is a lot that ends with it, however often it is told of', async () => {
    const anna = await payer()
    for (let again = 0; again < 3; again++) expect(await send(messageFor(anna))).toMatchObject(applied)
    expect(await lotsOf(anna)).toEqual([expect.objectContaining({ remaining: '5', expires_at: to })])
    await sound(weir)
  })

  test('that is longer than what was paid for is cut', async () => {
    const anna = await payer()
    const begins = new Date(now)
    await send(
      messageFor(anna, {
        period: { from: begins.toISOString(), to: new Date(now + 400 * day).toISOString() },
      }),
    )
    const [lot] = await lotsOf(anna)
    expect(Date.parse(lot!.expires_at)).toBeLessThanOrEqual(now + 31 * day)
  })

  test('that is over grants nothing', async () => {
    const anna = await payer()
    const period = {
      from: new Date(now - 40 * day).toISOString(),
      to: new Date(now - 10 * day).toISOString(),
    }
    expect(await send(messageFor(anna, { period }))).toMatchObject(applied)
    expect(await lotsOf(anna)).toEqual([])
  })

  test('of a test grants nothing', async () => {
    const anna = await payer()
    expect(await send(messageFor(anna, { test: true }))).toMatchObject({
      status: 200,
      json: { outcome: 'ignored' },
    })
    expect(await lotsOf(anna)).toEqual([])
  })

  test('in grace lasts some days more, without new credit', async () => {
    const anna = await payer()
    await send(messageFor(anna))
    for (let again = 0; again < 2; again++) await send(messageFor(anna, { state: 'grace' }))
    await send(messageFor(anna))
    const lots = await lotsOf(anna)
    expect(lots.map(({ remaining, expires_at }) => [remaining, expires_at])).toEqual([
      ['5', new Date(Date.parse(to) + 16 * day).toISOString()],
    ])
    await send(messageFor(anna, { state: 'refunded' }))
    expect(await lotsOf(anna)).toEqual([])
    await sound(weir)
  })

  test('of another product is an upgrade, with a lot of its own', async () => {
    const anna = await payer()
    await send(messageFor(anna))
    for (let again = 0; again < 2; again++) await send(messageFor(anna, { product: 'pro_month' }))
    expect((await lotsOf(anna)).map(({ remaining }) => remaining).toSorted()).toEqual(['20', '5'])
  })

  test('is bought with nothing but the app', async () => {
    const anna = await payer()
    await send(messageFor(anna))
    expect(await anna.purchased()).toBe('0')
  })
})

describe('the hook', () => {
  const bad = { status: 400, code: 'bad_signature' }

  test('takes nothing that is unsigned, old, or signed with another secret', async () => {
    const anna = await payer()
    const message = messageFor(anna)
    expect(await post(JSON.stringify(message), {})).toMatchObject(bad)
    expect(await send(message, { at: Date.now() - 301_000 })).toMatchObject(bad)
    expect(await send(message, { at: Date.now() + 400_000 })).toMatchObject(bad)
    expect(await send(message, { key: 'whsec_' })).toMatchObject(bad)
    expect(await send(message, { key: `whsec_${Buffer.from('guessed').toString('base64')}` })).toMatchObject(
      bad,
    )
    expect(await lotsOf(anna)).toEqual([])
    expect(await send(message, { key: before })).toMatchObject(applied)
  })

  test.each([
    ['an unknown field', { credit_usd: '1000' }],
    ['an unknown account', { account: 'acct_unknown' }],
    ['an unknown product', { product: 'gold' }],
    ['an unknown state', { state: 'paused' }],
    ['a period that ends before it begins', { period: { from: to, to: from } }],
    ['a period without an end', { period: { from } }],
  ])('refuses %s', async (_, more) => {
    const anna = await payer()
    expect(await send(messageFor(anna, more))).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(await lotsOf(anna)).toEqual([])
  })

  test('refuses what is no JSON, and does not exist without a secret', async () => {
    expect(await send('{')).toMatchObject({ status: 400, code: 'invalid_request' })
    await using plain = await serveWeir({ config: 'local_servers: { discover: false }' })
    const response = await fetch(`${plain.origin}/hooks/subscriptions`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(404)
  })
})

test('the commands do what the hook does', async () => {
  const anna = await payer()
  const product = ['--account', anna.account, '--product', 'premium_month']
  const made = await runJson(weir, 'subscriptions', 'grant', ...product)
  expect(made).toMatchObject({ state: 'active', credit_usd: '5', source: 'manual' })
  expect(await lotsOf(anna)).toHaveLength(1)
  const ended = await runJson(weir, 'subscriptions', 'end', String(made['subscription']))
  expect(ended).toMatchObject([{ state: 'ended' }])
  expect(await lotsOf(anna)).toHaveLength(1)
  await runJson(weir, 'subscriptions', 'end', String(made['subscription']), '--refund')
  expect(await lotsOf(anna)).toEqual([])
  expect(await runJson(weir, 'subscriptions', 'list', '--account', anna.account)).toMatchObject([
    { state: 'refunded', taken_back_usd: '5' },
  ])
  expect((await weir.command('subscriptions', 'end', 'unknown')).code).toBe(1)
  expect(
    (await weir.command('subscriptions', 'grant', '--account', anna.account, '--product', 'gold')).code,
  ).toBe(2)
  await sound(weir)
})
