// Rupees become credit: the page, the message, the way back, and every way in which a processor may fail on it.

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { expectPrinted } from '../../support/call-gateway.ts'
import { twelveMonthsAfter } from '../../../src/credits/calendar.ts'
import { usd } from '../../../src/credits/money.ts'
import { FakeRazorpay } from '../../support/fake-razorpay.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { booked, deliver, Payer, settingsFor, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

let razorpay: FakeRazorpay
let weir: ServedWeir
let names = 0
const payer = () => Payer.of(weir, `payer${++names}`)
const linkOf = (topUp: unknown) => [...razorpay.links.values()].find(({ reference }) => reference === topUp)!

beforeAll(async () => {
  razorpay = new FakeRazorpay()
  weir = await serveWeir({ config: settingsFor(razorpay) })
})
afterEach(() => {
  razorpay.lie = undefined
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
})

describe('a top-up', () => {
  test('says what it costs before it is paid, and is credited when its message comes', async () => {
    const anna = await payer()
    const cashBefore = booked(weir, 'cash:razorpay')
    const opened = await anna.open('500')
    expect(opened).toMatchObject({
      state: 'open',
      amount: '500',
      currency: 'INR',
      rate: '89.015',
      rate_as_of: '2026-11-20',
      credit_usd: '5.617030837499',
      processor: 'razorpay',
      test: false,
      lot: null,
      problem: null,
    })
    const link = linkOf(opened['id'])
    expect(opened['url']).toBe(`${razorpay.baseUrl}/pay/${link.id}`)
    expect(razorpay.bodies.at(-1)).toMatchObject({
      amount: 50_000,
      currency: 'INR',
      accept_partial: false,
      reference_id: opened['id'],
      callback_method: 'get',
      callback_url: `http://localhost:${weir.port}/hooks/razorpay/callback`,
      notify: { sms: false, email: false },
      notes: { top_up: opened['id'] },
    })

    const paidAt = Math.floor(Date.now() / 1000) * 1000
    const payment = razorpay.pay(link.id, paidAt)
    expect(await deliver(weir, razorpay.paid(payment))).toMatchObject({ status: 200 })
    const credited = await anna.topUp(opened['id'])
    expect(credited).toMatchObject({ state: 'credited', payment_id: payment.id, lot: expect.any(String) })
    const { json } = await anna.send('GET', '/app/v1/credits')
    const lots = (json['data'] as { pools: { lots: object[] }[] }).pools.flatMap((pool) => pool.lots)
    // A payment is never earlier than the page that it was made on.
    const at = Math.max(paidAt, Date.parse(String(opened['created_at'])))
    expect(lots).toContainEqual({
      remaining: '5.617030837499',
      held: '0',
      granted_at: expect.any(String),
      expires_at: new Date(twelveMonthsAfter(at)).toISOString(),
    })
    expect(booked(weir, 'cash:razorpay') - cashBefore).toBe(-usd('5.6170308375'))
    await sound(weir)
  })

  test('is credited when its page is looked at, though no message ever comes', async () => {
    const anna = await payer()
    const { id } = await anna.open('100')
    expect(await anna.topUp(id)).toMatchObject({ state: 'open' })
    const asked = razorpay.asked.length
    razorpay.pay(linkOf(id).id)
    // The processor was asked a moment ago: it is not asked again for ten seconds.
    expect(await anna.topUp(id)).toMatchObject({ state: 'open' })
    expect(razorpay.asked.length).toBe(asked)
    const later = await anna.open('100')
    razorpay.pay(linkOf(later['id']).id)
    expect(await anna.topUp(later['id'])).toMatchObject({ state: 'credited', credit_usd: '1.123406167499' })
    expect(await anna.purchased()).toBe('1.123406167499')
  })

  test('is credited on the way back of the browser, once, whatever else arrives', async () => {
    const anna = await payer()
    const { id } = await anna.open('250.50')
    const payment = razorpay.pay(linkOf(id).id)
    const back = await fetch(`${weir.origin}/hooks/razorpay/callback?${razorpay.returned(payment)}`, {
      redirect: 'manual',
    })
    expect([back.status, back.headers.get('location')]).toEqual([
      303,
      `http://localhost:${weir.port}/console/credits/top-ups/${String(id)}`,
    ])
    for (const event of ['payment_link.paid', 'payment.captured', 'order.paid']) {
      const delivery = razorpay.paid(payment, event)
      for (let again = 0; again < 3; again++) expect((await deliver(weir, delivery)).status).toBe(200)
    }
    expect(await anna.topUp(id)).toMatchObject({ state: 'credited' })
    expect(await anna.purchased()).toBe('2.814132449587')
    await sound(weir)
  })

  test('that is opened twice under one Idempotency-Key is one, with one page', async () => {
    const anna = await payer()
    const key = { 'idempotency-key': 'the-same' }
    const [first, second] = [await anna.open('300', key), await anna.open('300', key)]
    expect(second).toEqual(first)
    const other = { amount: '301', currency: 'INR', processor: 'razorpay' }
    expect(await anna.send('POST', '/app/v1/top-ups', other, key)).toMatchObject({
      status: 409,
      code: 'idempotency_conflict',
    })
    // Of another account it is another key.
    expect((await (await payer()).open('300', key))['id']).not.toBe(first['id'])
  })

  test('whose first answer was lost gets the page that was made for it', async () => {
    const anna = await payer()
    const key = { 'idempotency-key': 'lost' }
    const body = { amount: '400', currency: 'INR' }
    razorpay.lie = 'html'
    expect(await anna.send('POST', '/app/v1/top-ups', body, key)).toMatchObject({
      status: 502,
      code: 'payment_processor_error',
    })
    razorpay.lie = undefined
    const { json } = await anna.send('POST', '/app/v1/top-ups', body, key)
    expect(json).toMatchObject({ state: 'open', url: expect.stringContaining('/pay/plink_') })
    expect([...razorpay.links.values()].filter(({ reference }) => reference === json['id'])).toHaveLength(1)
  })

  test('that was paid after its time is credited at its own rate', async () => {
    const anna = await payer()
    const { id } = await anna.open('500')
    const link = linkOf(id)
    link.status = 'expired'
    const { body, headers } = razorpay.signed('payment_link.expired', {
      payment_link: { entity: { id: link.id, reference_id: id, status: 'expired' } },
    })
    await deliver(weir, { body, headers })
    expect(await anna.topUp(id)).toMatchObject({ state: 'expired' })
    await deliver(weir, razorpay.paid(razorpay.pay(link.id)))
    expect(await anna.topUp(id)).toMatchObject({ state: 'credited', rate: '89.015' })
    // It goes forward only: an old message takes nothing back.
    await deliver(weir, { body, headers })
    expect(await anna.topUp(id)).toMatchObject({ state: 'credited' })
  })

  test.each([
    ['an amount that is no string', { amount: 500, currency: 'INR' }],
    ['three decimals', { amount: '500.001', currency: 'INR' }],
    ['less than the minimum', { amount: '99.99', currency: 'INR' }],
    ['nothing', { amount: '0', currency: 'INR' }],
    ['a negative amount', { amount: '-500', currency: 'INR' }],
    ['more than the maximum', { amount: '50000.01', currency: 'INR' }],
    ['another currency', { amount: '500', currency: 'USD' }],
    ['no currency', { amount: '500' }],
    ['an unknown field', { amount: '500', currency: 'INR', credit_usd: '1000' }],
    ['a processor that is not set up', { amount: '500', currency: 'INR', processor: 'stripe' }],
    ['a processor that there is not', { amount: '500', currency: 'INR', processor: 'paypal' }],
    ['a body that is no object', '[]'],
    ['a body that is no JSON', '{'],
  ])('with %s is refused', async (_, body) => {
    const anna = await payer()
    const asked = razorpay.asked.length
    expect(await anna.send('POST', '/app/v1/top-ups', body)).toMatchObject({
      status: 400,
      code: 'invalid_request',
    })
    expect(razorpay.asked.length).toBe(asked)
  })

  test('is nothing for an API key, for nobody, and for another account', async () => {
    const [anna, berta] = [await payer(), await payer()]
    const { id } = await anna.open('500')
    for (const method of ['GET', 'POST']) {
      const path = method === 'GET' ? `/app/v1/top-ups/${String(id)}` : '/app/v1/top-ups'
      const body = method === 'GET' ? {} : { body: '{"amount":"500","currency":"INR"}' }
      const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
      expect((await fetch(`${weir.origin}${path}`, { method, headers, ...body })).status).toBe(401)
      expect((await fetch(`${weir.origin}${path}`, { method, ...body })).status).toBe(401)
    }
    expect(await berta.send('GET', `/app/v1/top-ups/${String(id)}`)).toMatchObject({
      status: 404,
      code: 'not_found',
    })
    expect((await berta.send('GET', '/app/v1/top-ups/topup_unknown')).status).toBe(404)
  })
})

describe('a processor', () => {
  test.each(['html', 'empty', 'refuse'] as const)('that answers with %s opens nothing', async (lie) => {
    const anna = await payer()
    razorpay.lie = lie
    expect(await anna.send('POST', '/app/v1/top-ups', { amount: '500', currency: 'INR' })).toMatchObject({
      status: 502,
      code: 'payment_processor_error',
    })
  })

  test.each(['amount', 'currency'] as const)(
    'that names another %s credits nothing and raises an alarm',
    async (lie) => {
      const anna = await payer()
      const { id } = await anna.open('500')
      razorpay.pay(linkOf(id).id)
      razorpay.lie = lie
      expect(await anna.topUp(id)).toMatchObject({ state: 'open', lot: null, problem: `${lie}_differs` })
      expect(await anna.purchased()).toBe('0')
      await expectPrinted(weir, `${lie}_differs`)
    },
  )

  test('that hangs holds nobody up: its message credits at once, and the page that waits gets what is known', async () => {
    const anna = await payer()
    const { id } = await anna.open('500')
    const payment = razorpay.pay(linkOf(id).id)
    razorpay.lie = 'hang'
    const asked = performance.now()
    const page = anna.topUp(id).then((topUp) => ({ topUp, after: performance.now() - asked }))
    const delivered = performance.now()
    expect((await deliver(weir, razorpay.paid(payment))).status).toBe(200)
    expect(performance.now() - delivered).toBeLessThan(1_000)
    expect(await anna.topUp(id)).toMatchObject({ state: 'credited' })
    // It waits no longer for the processor, and tells what has come in the meantime.
    const { topUp, after } = await page
    expect(topUp).toMatchObject({ id, state: 'credited' })
    expect(after).toBeLessThan(9_000)
  }, 30_000)

  test('that is down while a page waits leaves the top-up as it was', async () => {
    const anna = await payer()
    const { id } = await anna.open('500')
    razorpay.lie = 'html'
    expect(await anna.topUp(id)).toMatchObject({ state: 'open', problem: null })
  })
})

test('the built-in simulator shows the whole flow in test mode, and the ledger never hears of it', async () => {
  await using plain = await serveWeir({ config: 'local_servers: { discover: false }' })
  const anna = await Payer.of(plain, 'anna')
  const { status, json } = await anna.send('POST', '/app/v1/top-ups', { amount: '500', currency: 'INR' })
  expect([status, json['processor'], json['test'], json['state']]).toEqual([201, 'sim', true, 'open'])
  const page = new URL(String(json['url']))
  const shown = await fetch(`${plain.origin}${page.pathname}`)
  expect(await shown.text()).toMatch(/₹\s?500\b/)
  expect(shown.headers.get('content-security-policy')).toContain("default-src 'none'")
  const pressed = await fetch(`${plain.origin}${page.pathname}/paid`, { method: 'POST', redirect: 'manual' })
  expect(pressed.status).toBe(303)
  expect(await anna.topUp(json['id'])).toMatchObject({
    state: 'credited',
    test: true,
    lot: null,
    receipt: null,
  })
  expect(await anna.purchased()).toBe('0')
  expect((await fetch(`${plain.origin}/hooks/sim/page_unknown`)).status).toBe(404)
  await sound(plain)
})

test('keys of a test mode show the flow and credit nothing', async () => {
  const sandbox = new FakeRazorpay({ mode: 'test' })
  try {
    await using testing = await serveWeir({ config: settingsFor(sandbox) })
    const anna = await Payer.of(testing, 'anna')
    const opened = await anna.open('500')
    expect(opened['test']).toBe(true)
    const [link] = [...sandbox.links.values()]
    await deliver(testing, sandbox.paid(sandbox.pay(link!.id)))
    expect(await anna.topUp(opened['id'])).toMatchObject({ state: 'credited', lot: null, test: true })
    expect(await anna.purchased()).toBe('0')
    expect(booked(testing, 'cash:razorpay')).toBe(0n)
  } finally {
    await sandbox.stop()
  }
})
