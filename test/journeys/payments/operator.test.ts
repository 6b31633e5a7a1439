// What operators do about payments, in the console and by the admin API: see every message, reconcile, give back.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { ConsoleClient } from '../../support/console-client.ts'
import { FakeRazorpay } from '../../support/fake-razorpay.ts'
import { FakeStripe } from '../../support/fake-stripe.ts'
import { runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { type Answer, answerOf, deliver, type Json, Payer, settingsFor, sound } from './top-ups-lab.ts'
import { expectDocumented } from '../../support/documented-answers.ts'

setDefaultTimeout(30_000)

let razorpay: FakeRazorpay
let stripe: FakeStripe
let weir: ServedWeir
let management: string
let names = 0
const payer = () => Payer.of(weir, `payer${++names}`)

beforeAll(async () => {
  razorpay = new FakeRazorpay()
  stripe = new FakeStripe()
  const more = `  stripe: ${stripe.settings}
  currencies: { EUR: { per_usd: '0.8', min: '5', max: '500', processors: [razorpay] } }
  plans:
    basic: { title: Basic, credit_usd: '5', prices: { INR: '499', EUR: '5.99' }, models: [sim/premium] }
subscriptions: { products: { premium_month: { credit_usd: "5", months: 1 } } }`
  weir = await serveWeir({ config: settingsFor(razorpay, more) })
  const made = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
  management = String(made['key'])
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
  await stripe?.stop()
})

async function admin(
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer & { readonly data: Json }> {
  const response = await fetch(`${weir.origin}/admin/v1/${path}`, {
    method,
    headers: {
      authorization: `Bearer ${management}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const answer = await answerOf(response)
  if (answer.status < 300) expectDocumented('admin', method, path, answer.json)
  return { ...answer, data: (answer.json['data'] ?? {}) as Json }
}

async function paid(anna: Payer, amount = '500') {
  const { id } = await anna.open(amount)
  const link = [...razorpay.links.values()].find(({ reference }) => reference === id)!
  return { id: String(id), payment: razorpay.pay(link.id) }
}

describe('a top-up', () => {
  test('is shown with every message about it, and found in its list', async () => {
    const anna = await payer()
    const { id, payment } = await paid(anna)
    await deliver(weir, razorpay.paid(payment))
    await deliver(weir, razorpay.refunded(payment, 10_000))
    const { data } = await admin('GET', `top-ups/${id}`)
    expect(data).toMatchObject({
      account: anna.account,
      state: 'refunded_part',
      receipt: expect.stringMatching(/^WR-\d{4}-\d+$/),
    })
    expect((data['events'] as Json[]).map(({ type, outcome }) => [type, outcome]).toSorted()).toEqual([
      ['payment_link.paid', 'applied'],
      ['refund.processed', 'applied'],
    ])
    expect(data['reversals']).toMatchObject([{ kind: 'refund', amount: '100', booked: true }])
    for (let more = 0; more < 3; more++) await anna.open('100')
    const page = await admin('GET', `top-ups?account=${anna.account}&limit=3`)
    expect(page.json).toMatchObject({ has_more: true })
    const rest = await admin(
      'GET',
      `top-ups?account=${anna.account}&limit=3&cursor=${String(page.json['next_cursor'])}`,
    )
    const ids = [page, rest].flatMap(({ json }) => (json['data'] as Json[]).map((row) => row['id']))
    expect(new Set(ids).size).toBe(4)
    expect(ids).toContain(id)
    expect((await admin('GET', 'payment-events')).status).toBe(200)
  })

  test('that was paid and never told of is credited by reconciling it', async () => {
    const anna = await payer()
    const { id } = await paid(anna)
    expect((await admin('POST', `top-ups/${id}/reconcile`)).data).toMatchObject({ state: 'credited' })
    expect(await anna.purchased()).toBe('5.617030837499')
    expect((await admin('POST', 'top-ups/topup_unknown/reconcile')).status).toBe(404)
  })

  test('is given back in parts, each once, and its credit goes with it', async () => {
    const anna = await payer()
    const { id, payment } = await paid(anna)
    await deliver(weir, razorpay.paid(payment))
    const first = { amount: '200', id: 'ticket-1' }
    for (let again = 0; again < 2; again++)
      expect((await admin('POST', `top-ups/${id}/refund`, first)).data).toMatchObject({ refunded: '200' })
    expect(payment.refunded).toBe(20_000)
    // Its own message tells of it as well.
    const { reversals } = (await admin('GET', `top-ups/${id}`)).data as unknown as {
      reversals: { id: string }[]
    }
    await deliver(weir, razorpay.refunded(payment, 20_000, reversals[0]!.id))
    expect(await anna.purchased()).toBe('3.3702185025')
    expect(await admin('POST', `top-ups/${id}/refund`, { amount: '300.01', id: 'ticket-2' })).toMatchObject({
      status: 400,
    })
    expect(
      (await admin('POST', `top-ups/${id}/refund`, { amount: '300', id: 'ticket-2' })).data,
    ).toMatchObject({ state: 'refunded' })
    // Sent again when nothing is left, and by several at once.
    const again = await Promise.all(
      [first, { amount: '300', id: 'ticket-2' }, { amount: '300', id: 'ticket-2' }].map((body) =>
        admin('POST', `top-ups/${id}/refund`, body),
      ),
    )
    expect(again.map(({ status, data }) => [status, data['refunded']])).toEqual(
      Array.from({ length: 3 }, () => [200, '500']),
    )
    expect(payment.refunded).toBe(50_000)
    expect((await admin('POST', `top-ups/${id}/refund`, { amount: '1', id: 'ticket-1' })).code).toBe(
      'idempotency_conflict',
    )
    const acts = (await admin('GET', 'acts')).json['data'] as Json[]
    const refunds = acts.filter((act) => act['what'] === 'top_up.refund' && act['subject'] === id)
    expect(refunds).toHaveLength(2)
    expect(await anna.purchased()).toBe('0')
    await sound(weir)
  })

  test('of Stripe is given back by the sum that Stripe itself tells', async () => {
    const anna = await payer()
    const body = { amount: '500', currency: 'INR', processor: 'stripe' }
    const id = String((await anna.send('POST', '/app/v1/top-ups', body)).json['id'])
    const session = stripe.pay([...stripe.sessions.values()].find(({ topUp }) => topUp === id)!.id)
    await deliver(weir, stripe.completed(session), 'stripe')
    for (let again = 0; again < 2; again++)
      expect(
        (await admin('POST', `top-ups/${id}/refund`, { amount: '200', id: 'ticket-1' })).data,
      ).toMatchObject({ refunded: '200' })
    await deliver(weir, stripe.refunded(session, 20_000), 'stripe')
    expect(session.refunded).toBe(20_000)
    expect(await anna.purchased()).toBe('3.3702185025')
  })

  test('that nobody has paid is not given back', async () => {
    const { id } = await (await payer()).open('500')
    expect(await admin('POST', `top-ups/${String(id)}/refund`, { amount: '1', id: 'a' })).toMatchObject({
      status: 400,
      code: 'invalid_request',
    })
  })
})

test('vouchers are made, listed and revoked; their codes are in one answer alone', async () => {
  const { status, json } = await admin('POST', 'vouchers', { usd: '10', count: 2, note: 'a fair' })
  const [first, second] = json['data'] as { id: string; code: string }[]
  expect([status, first!.code]).toEqual([201, expect.stringMatching(/^WEIR-/)])
  await admin('POST', `vouchers/${first!.id}/revoke`)
  const anna = await payer()
  expect((await anna.send('POST', '/app/v1/vouchers/redeem', { code: first!.code })).status).toBe(400)
  expect((await anna.send('POST', '/app/v1/vouchers/redeem', { code: second!.code })).status).toBe(200)
  expect(await admin('POST', `vouchers/${second!.id}/revoke`)).toMatchObject({ status: 404 })
  const list = await admin('GET', 'vouchers')
  expect(JSON.stringify(list.json)).not.toContain(second!.code)
  expect((list.json['data'] as Json[]).map((row) => row['state']).toSorted()).toEqual(['redeemed', 'revoked'])
  expect((await admin('POST', 'vouchers', { usd: '0' })).status).toBe(400)
})

test('vouchers are made once for an id, however often and with whatever else it is sent', async () => {
  const vouchers = async () => ((await admin('GET', 'vouchers')).json['data'] as Json[]).map(({ id }) => id)
  const before = (await vouchers()).length
  const batch = { usd: '10', count: 2, id: 'fair-1' }
  const answers = await Promise.all([batch, batch, batch].map((body) => admin('POST', 'vouchers', body)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409])
  const [first] = answers.find(({ status }) => status === 201)!.json['data'] as { id: string }[]
  for (const body of [batch, { ...batch, usd: '20' }, { ...batch, count: 1 }, { ...batch, count: 5 }])
    expect(await admin('POST', 'vouchers', body)).toMatchObject({
      status: 409,
      code: 'idempotency_conflict',
      json: { error: { message: expect.stringContaining(first!.id), metadata: { voucher: first!.id } } },
    })
  expect(await vouchers()).toHaveLength(before + 2)
  expect(await admin('POST', 'vouchers', { ...batch, id: 'fair-2' })).toMatchObject({ status: 201 })
  const acts = (await admin('GET', 'acts')).json['data'] as Json[]
  const made = acts.filter(
    ({ what, after }) => what === 'voucher.create' && (after as Json)['id'] === batch.id,
  )
  expect(made.map(({ subject }) => subject)).toEqual([first!.id])
})

test('subscriptions are told of and ended', async () => {
  const anna = await payer()
  const period = { from: new Date().toISOString(), to: new Date(Date.now() + 20 * 86_400_000).toISOString() }
  const told = {
    subscription: 'sub_1',
    source: 'office',
    account: anna.account,
    product: 'premium_month',
    period,
    state: 'active',
  }
  expect((await admin('POST', 'subscriptions', told)).data).toMatchObject({
    state: 'active',
    credit_usd: '5',
  })
  expect((await admin('GET', `subscriptions?account=${anna.account}`)).json['data']).toHaveLength(1)
  const end = { source: 'office', subscription: 'sub_1', state: 'refunded' }
  expect((await admin('POST', 'subscriptions/end', end)).json['data']).toMatchObject([{ state: 'refunded' }])
  expect((await admin('POST', 'subscriptions/end', { ...end, subscription: 'none' })).status).toBe(404)
})

test('a plan opens its models to chats until its payment goes back; keys spend purchased credit alone', async () => {
  const anna = await payer()
  const listed = await anna.send('GET', '/app/v1/plans')
  expectDocumented('console', 'GET', 'plans', listed.json)
  const ask = (model: string) => {
    const messages = [{ role: 'user', content: 'hello' }]
    return anna.send('POST', '/app/v1/chat/completions', { model, messages, max_tokens: 5 })
  }
  expect(await ask('sim/premium')).toMatchObject({ status: 403, code: 'plan_required' })
  const buy = (body: object, key = 'buy') =>
    anna.send('POST', '/app/v1/plans/basic/payments', body, { 'idempotency-key': key })
  for (const body of [
    { currency: 'USD' },
    { currency: 'EUR', processor: 'stripe' },
    { currency: 'EUR', amount: '1' },
  ])
    expect(await buy(body, JSON.stringify(body).length.toString())).toMatchObject({ status: 400 })
  const { status, json } = await buy({ currency: 'EUR' })
  expect([status, json['amount'], json['currency'], json['plan']]).toEqual([
    201,
    '5.99',
    'EUR',
    { id: 'basic', title: 'Basic', from: null, to: null },
  ])
  expect((await buy({ currency: 'EUR' })).json['id']).toBe(json['id'])
  const link = [...razorpay.links.values()].find(({ reference }) => reference === json['id'])!
  const payment = razorpay.pay(link.id)
  expect([payment.amount, payment.currency]).toEqual([599, 'EUR'])
  await Promise.all(
    ['payment_link.paid', 'payment.captured', 'order.paid'].map((event) =>
      deliver(weir, razorpay.paid(payment, event)),
    ),
  )
  expect(await ask('sim/premium')).toMatchObject({ status: 200 })
  expect(await anna.purchased()).toBe('0')
  const subscribers = await admin('GET', `plans/subscribers?account=${anna.account}`)
  expect(subscribers.json['data']).toMatchObject([{ plan: 'basic', state: 'running', account: anna.account }])
  expect((await admin('GET', 'plans')).json['data']).toHaveLength(1)

  const month = new Date().toISOString().slice(0, 7)
  const statement = await admin('GET', `accounts/${anna.account}/statements/${month}`)
  expect(statement.data['receipts']).toMatchObject([{ amount: '5.99', currency: 'EUR', plan: 'Basic' }])
  const id = String(json['id'])
  expect(await admin('POST', `top-ups/${id}/refund`, { amount: '6', id: 'more' })).toMatchObject({
    status: 400,
  })
  expect((await admin('POST', `top-ups/${id}/refund`, { amount: '5.99', id: 'all' })).data).toMatchObject({
    state: 'refunded',
    refunded: '5.99',
  })
  expect(await ask('sim/premium')).toMatchObject({ status: 403, code: 'plan_required' })
  const gift = await admin('POST', 'plans/basic/grants', { account: anna.account, id: 'sorry' })
  expect([gift.status, gift.data['state']]).toEqual([201, 'running'])
  expect(await admin('POST', 'plans/none/grants', { account: anna.account, id: 'x' })).toMatchObject({
    status: 404,
  })
  expect(await ask('sim/premium')).toMatchObject({ status: 200 })
  const byHand = ['plans', 'grant', '--account', anna.account, '--plan', 'basic', '--id', 'again']
  for (let again = 0; again < 2; again++)
    expect(await runJson(weir, ...byHand)).toMatchObject({ plan: 'basic', state: 'coming', credit_usd: '5' })
  const page = await admin('GET', 'plans/subscribers?limit=1')
  expect(page.json).toMatchObject({ has_more: true, data: [{ subscription: 'by-hand-again' }] })
  const rest = await admin('GET', `plans/subscribers?limit=1&cursor=${String(page.json['next_cursor'])}`)
  expect(rest.json).toMatchObject({ has_more: false, data: [{ subscription: 'by-hand-sorry' }] })
  expect(await runJson(weir, 'plans', 'list')).toMatchObject([{ id: 'basic', models: ['sim/premium'] }])
  expect(await anna.send('GET', '/app/v1/plans')).toMatchObject({
    json: { data: { periods: [{ state: 'running' }, { state: 'coming' }] } },
  })
  // Taken back by hand, the next one begins at once.
  const end = ['subscriptions', 'end', 'by-hand-sorry', '--source', 'weir.plan', '--refund']
  expect(await runJson<object[]>(weir, ...end)).toMatchObject([{ state: 'refunded' }])
  expect((await admin('GET', 'plans/subscribers')).json['data']).toMatchObject([
    { subscription: 'by-hand-again', state: 'running' },
  ])
  await sound(weir)
})

test('the console of an account has its own top-ups, and an operator has all', async () => {
  const email = 'visitor@example.org'
  await runJson(weir, 'accounts', 'create', '--email', email)
  const visitor = new ConsoleClient(weir)
  await visitor.follow(String((await runJson(weir, 'accounts', 'link', '--account', email))['url']))
  const terms = await visitor.get('top-up-terms')
  expect(terms.json['data']).toMatchObject({
    currencies: [
      {
        currency: 'INR',
        min: '100',
        max: '50000',
        rate: '89.015',
        processors: ['razorpay', 'stripe', 'sim'],
      },
      { currency: 'EUR', min: '5', max: '500', rate: '0.8', processors: ['razorpay', 'sim'] },
    ],
  })
  const opened = await visitor.post('top-ups', { amount: '500', currency: 'INR' })
  expect(opened).toMatchObject({ status: 201, json: { state: 'open', processor: 'razorpay' } })
  expect(await visitor.get(`top-ups/${String(opened.json['id'])}`)).toMatchObject({ status: 200 })
  expect((await visitor.get('top-ups')).json['data']).toHaveLength(1)
  expect((await visitor.post('vouchers/redeem', { code: 'nonsense' })).code).toBe('voucher_invalid')
  expect((await visitor.get('admin/top-ups')).code).toBe('operator_required')
  expect(
    (await visitor.post('top-ups', { amount: '500', currency: 'INR' }, { origin: 'https://evil.example' }))
      .code,
  ).toBe('origin_not_allowed')
})
