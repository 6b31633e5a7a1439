// Messages of processors: forged, replayed, out of order, of another processor, with a secret that has just changed.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { expectPrinted } from '../../support/call-gateway.ts'
import { type Delivery, FakeRazorpay } from '../../support/fake-razorpay.ts'
import { FakeStripe } from '../../support/fake-stripe.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { deliver, fx, type Json, Payer, settingsFor, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

let razorpay: FakeRazorpay
let stripe: FakeStripe
let weir: ServedWeir
let names = 0
const payer = () => Payer.of(weir, `payer${++names}`)

beforeAll(async () => {
  razorpay = new FakeRazorpay()
  stripe = new FakeStripe()
  const both = settingsFor(razorpay, `  stripe: ${stripe.settings}`)
  const before = both.replaceAll(
    'webhook_secret:',
    'webhook_secret_before: "the-one-before", webhook_secret:',
  )
  weir = await serveWeir({ config: before })
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
  await stripe?.stop()
})

async function paidTopUp(anna: Payer, amount = '500') {
  const { id } = await anna.open(amount)
  const link = [...razorpay.links.values()].find(({ reference }) => reference === id)!
  return { id, payment: razorpay.pay(link.id) }
}

async function credited(anna: Payer, amount = '500') {
  const made = await paidTopUp(anna, amount)
  expect((await deliver(weir, razorpay.paid(made.payment))).status).toBe(200)
  return made
}

describe('a message', () => {
  const forged: readonly [string, (delivery: Delivery) => Delivery][] = [
    ['without a signature', ({ body }) => ({ body, headers: {} })],
    ['signed with an empty secret', () => razorpay.signed('payment_link.paid', {}, '')],
    ['signed with another secret', ({ body }) => ({ ...razorpay.signed('x', {}, 'guessed'), body })],
    [
      'changed after it was signed',
      ({ body, headers }) => ({ body: body.replace('50000', '5000000'), headers }),
    ],
    [
      'written anew after it was signed',
      ({ body, headers }) => ({ body: JSON.stringify(JSON.parse(body), null, 1), headers }),
    ],
    [
      'signed by the key of the callback',
      ({ body }) => ({ ...razorpay.signed('x', {}, razorpay.keySecret), body }),
    ],
    ['with a signature that is cut short', (given) => cut(given, (text) => text.slice(0, 40))],
    ['with a signature that is no hex', (given) => cut(given, () => 'é'.repeat(32))],
  ]
  const cut = ({ body, headers }: Delivery, by: (text: string) => string): Delivery => ({
    body,
    headers: { ...headers, 'x-razorpay-signature': encodeURI(by(headers['x-razorpay-signature'] ?? '')) },
  })

  test.each(forged)('%s is refused, and credits nothing', async (_, forge) => {
    const anna = await payer()
    const { payment } = await paidTopUp(anna)
    expect(await deliver(weir, forge(razorpay.paid(payment)))).toMatchObject({
      status: 400,
      code: 'bad_signature',
    })
    expect(await anna.purchased()).toBe('0')
  })

  test('of another processor finds no top-up of this one', async () => {
    const anna = await payer()
    const { id } = await paidTopUp(anna)
    const session = { id: 'cs_live_1', client_reference_id: id, metadata: { top_up: id }, status: 'complete' }
    const paid = { payment_status: 'paid', amount_total: 50_000, currency: 'inr', payment_intent: 'pi_1' }
    const message = stripe.signed('checkout.session.completed', { ...session, ...paid })
    expect(await deliver(weir, message, 'stripe')).toMatchObject({
      status: 200,
      json: { outcome: 'unmatched' },
    })
    expect(await deliver(weir, message, 'razorpay')).toMatchObject({ status: 400, code: 'bad_signature' })
    expect(await anna.purchased()).toBe('0')
  })

  test.each([
    ['another amount', { amount: 5_000_000 }, 'amount_differs'],
    ['a smaller amount', { amount: 100 }, 'amount_differs'],
    ['another currency', { currency: 'USD' }, 'currency_differs'],
  ] as const)('that names %s credits nothing, and is an alarm', async (_, paid, problem) => {
    const anna = await payer()
    const { id } = await anna.open('500')
    const link = [...razorpay.links.values()].find(({ reference }) => reference === id)!
    const delivery = razorpay.paid(razorpay.pay(link.id, Date.now(), paid))
    expect(await deliver(weir, delivery)).toMatchObject({ status: 200, json: { outcome: 'refused' } })
    expect(await anna.purchased()).toBe('0')
    await expectPrinted(weir, problem)
  })

  test('signed with the secret before the last change is taken', async () => {
    const anna = await payer()
    const { payment } = await paidTopUp(anna)
    const { body } = razorpay.paid(payment)
    const { payload } = JSON.parse(body) as { payload: object }
    const old = razorpay.signed('payment_link.paid', payload, 'the-one-before')
    expect(await deliver(weir, old)).toMatchObject({ status: 200, json: { outcome: 'applied' } })
    expect(await anna.purchased()).toBe('5.617030837499')
  })

  test('that is known, unknown in kind, or about nothing of ours is answered 200', async () => {
    const anna = await payer()
    const { payment } = await paidTopUp(anna)
    const delivery = razorpay.paid(payment)
    for (let again = 0; again < 3; again++)
      expect(await deliver(weir, delivery)).toMatchObject({ status: 200, json: { outcome: 'applied' } })
    expect(await deliver(weir, razorpay.signed('invoice.paid', {}))).toMatchObject({
      status: 200,
      json: { outcome: 'ignored' },
    })
    const foreign = { payment: { entity: { id: 'pay_x', amount: 1, currency: 'INR', status: 'captured' } } }
    expect(await deliver(weir, razorpay.signed('payment.captured', foreign))).toMatchObject({
      status: 200,
      json: { outcome: 'unmatched' },
    })
    expect(await anna.purchased()).toBe('5.617030837499')
  })

  test('of money that is only authorised, or of a failed attempt, leaves the top-up open', async () => {
    const anna = await payer()
    const { id } = await anna.open('500')
    const payment = { id: 'pay_failed', amount: 50_000, currency: 'INR', notes: { top_up: id } }
    for (const [event, status] of [
      ['payment.authorized', 'authorized'],
      ['payment.captured', 'authorized'],
      ['payment.failed', 'failed'],
    ] as const)
      await deliver(weir, razorpay.signed(event, { payment: { entity: { ...payment, status } } }))
    expect(await anna.topUp(id)).toMatchObject({ state: 'open', problem: null })
  })

  test('under the id of another is a message of its own', async () => {
    const anna = await payer()
    const { payment } = await paidTopUp(anna)
    const delivery = razorpay.paid(payment)
    const replayed = razorpay.signed('invoice.paid', {})
    const eventId = delivery.headers['x-razorpay-event-id'] ?? ''
    await deliver(weir, { ...replayed, headers: { ...replayed.headers, 'x-razorpay-event-id': eventId } })
    expect(await deliver(weir, delivery)).toMatchObject({ status: 200, json: { outcome: 'applied' } })
    expect(await anna.purchased()).toBe('5.617030837499')
  })
})

describe('an address', () => {
  test('whose secret is not set does not exist', async () => {
    await using plain = await serveWeir({ config: 'local_servers: { discover: false }' })
    const config = `local_servers: { discover: false }
payments: { ${fx}, razorpay: { key_id: rzp_live_a, key_secret: b } }`
    await using silent = await serveWeir({ config })
    for (const server of [plain, silent]) {
      for (const hook of ['razorpay', 'stripe'])
        expect(await deliver(server, razorpay.signed('payment_link.paid', {}, ''), hook)).toMatchObject({
          status: 404,
          code: 'not_found',
        })
    }
    expect((await fetch(`${plain.origin}/hooks/razorpay/callback?a=b`)).status).toBe(404)
    expect((await fetch(`${silent.origin}/hooks/razorpay/callback?a=b`)).status).toBe(400)
  })

  test('with an empty secret keeps the gateway from starting', async () => {
    const config = `payments: { ${fx}, razorpay: { key_id: rzp_live_a, key_secret: b, webhook_secret: "" } }`
    await expect(serveWeir({ config })).rejects.toThrow('webhook_secret')
  })

  test('takes no more than a quarter of a megabyte', async () => {
    const { headers } = razorpay.signed('payment_link.paid', {})
    expect((await deliver(weir, { body: 'x'.repeat(2 ** 18 + 1), headers })).status).toBe(413)
  })

  test('of the way back takes nothing that Razorpay has not signed', async () => {
    const { payment } = await paidTopUp(await payer())
    for (const query of [
      razorpay.returned(payment, 'guessed'),
      razorpay.returned(payment, ''),
      razorpay.returned(payment, razorpay.webhookSecret),
      razorpay.returned(payment).replace('paid', 'created'),
      'razorpay_signature=',
    ]) {
      const back = await fetch(`${weir.origin}/hooks/razorpay/callback?${query}`, { redirect: 'manual' })
      expect(back.status).toBe(400)
    }
  })
})

describe('refunds', () => {
  test('take the unspent rest at the rate of the top-up, each once', async () => {
    const anna = await payer()
    const { id, payment } = await credited(anna)
    const first = razorpay.refunded(payment, 20_000)
    for (let again = 0; again < 3; again++) expect((await deliver(weir, first)).status).toBe(200)
    expect(await anna.purchased()).toBe('3.3702185025')
    expect(await anna.topUp(id)).toMatchObject({ state: 'refunded_part', refunded: '200' })
    // Created is not processed: nothing has moved.
    await deliver(weir, razorpay.refunded(payment, 10_000, 'rfnd_later', 'refund.created'))
    expect(await anna.purchased()).toBe('3.3702185025')
    await deliver(weir, razorpay.refunded(payment, 30_000))
    expect(await anna.topUp(id)).toMatchObject({ state: 'refunded', refunded: '500' })
    expect(await anna.purchased()).toBe('0')
    // Nothing is left that a third could take.
    await deliver(weir, razorpay.refunded(payment, 1))
    expect(await anna.purchased()).toBe('0')
    await expectPrinted(weir, 'refund_exceeds')
    await sound(weir)
  })
})

describe('a dispute', () => {
  test('sets the free rest aside, and gives it back when it is won', async () => {
    const anna = await payer()
    const { id, payment } = await credited(anna)
    await deliver(weir, razorpay.disputed(payment, 'created', 'disp_won'))
    expect(await anna.topUp(id)).toMatchObject({ state: 'disputed' })
    expect(await anna.purchased()).toBe('0')
    for (let again = 0; again < 2; again++) await deliver(weir, razorpay.disputed(payment, 'won', 'disp_won'))
    // An old message opens it no more.
    await deliver(weir, razorpay.disputed(payment, 'created', 'disp_won'))
    expect(await anna.topUp(id)).toMatchObject({ state: 'credited' })
    expect(await anna.purchased()).toBe('5.617030837499')
    await sound(weir)
  })
})

describe('Stripe', () => {
  const open = async (anna: Payer): Promise<Json> => {
    const body = { amount: '500', currency: 'INR', processor: 'stripe' }
    const { status, json } = await anna.send('POST', '/app/v1/top-ups', body)
    expect(status).toBe(201)
    return json
  }
  const sessionOf = (topUp: Json) =>
    [...stripe.sessions.values()].find((session) => session.topUp === topUp['id'])!

  test('is asked for a page that names our id, and credited when that is paid', async () => {
    const anna = await payer()
    const opened = await open(anna)
    const session = sessionOf(opened)
    expect(opened).toMatchObject({
      processor: 'stripe',
      test: false,
      url: `https://checkout.stripe.example/${session.id}`,
    })
    const { form, idempotencyKey } = stripe.asked.at(-1)!
    expect(idempotencyKey).toBe(String(opened['id']))
    expect([form.get('client_reference_id'), form.get('metadata[top_up]')]).toEqual([
      String(opened['id']),
      String(opened['id']),
    ])
    expect(form.get('line_items[0][price_data][unit_amount]')).toBe('50000')
    // Complete is not paid: a bank transfer takes its time.
    session.status = 'complete'
    await deliver(weir, stripe.completed(session), 'stripe')
    expect(await anna.purchased()).toBe('0')
    stripe.pay(session.id)
    const message = stripe.completed(session, 'checkout.session.async_payment_succeeded')
    for (let again = 0; again < 2; again++) expect((await deliver(weir, message, 'stripe')).status).toBe(200)
    expect(await anna.purchased()).toBe('5.617030837499')
    expect(await anna.topUp(opened['id'])).toMatchObject({
      state: 'credited',
      payment_id: session.paymentIntent,
    })
  })

  test('may sign with the secret before the last change, and with no other', async () => {
    const anna = await payer()
    const session = stripe.pay(sessionOf(await open(anna)).id)
    const { data } = JSON.parse(stripe.completed(session).body) as { data: { object: object } }
    const signed = (secret: string) => stripe.signed('checkout.session.completed', data.object, { secret })
    for (const secret of ['guessed', razorpay.webhookSecret])
      expect((await deliver(weir, signed(secret), 'stripe')).code).toBe('bad_signature')
    expect((await deliver(weir, signed('the-one-before'), 'stripe')).json).toMatchObject({
      outcome: 'applied',
    })
    expect(await anna.purchased()).toBe('5.617030837499')
  })

  test('is believed in what it is asked, refunds by their sum in any order, and disputes', async () => {
    const anna = await payer()
    const opened = await open(anna)
    const session = stripe.pay(sessionOf(opened).id)
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'credited' })
    await deliver(weir, stripe.refunded(session, 30_000), 'stripe')
    await deliver(weir, stripe.refunded(session, 10_000), 'stripe')
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'refunded_part', refunded: '300' })
    await deliver(weir, stripe.disputed(session, 'needs_response', 'dp_1'), 'stripe')
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'disputed' })
    await deliver(weir, stripe.disputed(session, 'won', 'dp_1'), 'stripe')
    expect(await anna.purchased()).toBe('2.246812335')
    for (const type of ['refund.updated', 'refund.failed', 'charge.refund.updated'])
      await deliver(weir, stripe.refundOf(session, 're_1', 20_000, 'failed', type), 'stripe')
    await deliver(weir, stripe.refundOf(session, 're_2', 10_000, 'succeeded', 'refund.updated'), 'stripe')
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'refunded_part', refunded: '100' })
    expect(await anna.purchased()).toBe('4.49362467')
    await sound(weir)
  })

  test('whose page does not name its payment is paid by the page itself, once', async () => {
    const anna = await payer()
    const opened = await open(anna)
    const session = stripe.pay(sessionOf(opened).id)
    session.paymentIntent = null
    await deliver(weir, stripe.completed(session), 'stripe')
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'credited', payment_id: session.id })
    // Its payment, told of later, is no second one.
    session.paymentIntent = 'pi_late'
    await deliver(weir, stripe.completed(session), 'stripe')
    expect(await anna.purchased()).toBe('5.617030837499')
  })

  test.each([
    ['of another secret', () => stripe.signed('x', {}, { secret: 'whsec_guessed' })],
    ['six minutes old', () => stripe.signed('x', {}, { at: Date.now() - 360_000 })],
    ['without a signature', () => ({ body: '{}', headers: {} })],
  ])('a message %s is refused', async (_, made) => {
    expect(await deliver(weir, made(), 'stripe')).toMatchObject({ status: 400, code: 'bad_signature' })
  })
})
