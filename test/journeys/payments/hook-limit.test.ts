// A flood of messages that nobody has signed costs little and hinders no payment; a flood of signed ones is taken.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type Delivery, FakeRazorpay } from '../../support/fake-razorpay.ts'
import { rawRequest, sendRaw } from '../../support/raw-http.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { type Answer, answerOf, Payer, settingsFor, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

const most = 5
let razorpay: FakeRazorpay
let weir: ServedWeir
let networks = 0
/** An address of a network that nothing has come from. */
const newAddress = () => `198.51.${++networks}.7`

beforeAll(async () => {
  razorpay = new FakeRazorpay()
  const settings = settingsFor(razorpay, `  refused_hooks_per_network: ${most}`)
  weir = await serveWeir({ config: `server: { trusted_proxies: ["127.0.0.1"] }\n${settings}` })
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
})

async function from(address: string, { body, headers }: Delivery): Promise<Answer & { wait: string | null }> {
  const response = await fetch(`${weir.origin}/hooks/razorpay`, {
    method: 'POST',
    headers: { ...headers, 'x-forwarded-for': address },
    body,
  })
  return { ...(await answerOf(response)), wait: response.headers.get('retry-after') }
}

const forged = (body = '{}'): Delivery => ({ ...razorpay.signed('invoice.paid', {}, 'guessed'), body })

async function flooding(): Promise<string> {
  const address = newAddress()
  for (let nth = 0; nth < most; nth++)
    expect(await from(address, forged())).toMatchObject({ status: 400, code: 'bad_signature' })
  return address
}

test('a network is told to wait when it has sent too many, and no other is', async () => {
  const address = await flooding()
  const refused = await from(address.replace(/7$/, '8'), forged())
  expect(refused).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  expect(Number(refused.wait)).toBeGreaterThan(0)
  expect(await from(newAddress(), forged())).toMatchObject({ status: 400 })
})

test('a payment is taken all the same, whoever has sent the others', async () => {
  const address = await flooding()
  const anna = await Payer.of(weir, 'anna')
  const { id } = await anna.open('500')
  const link = [...razorpay.links.values()].find(({ reference }) => reference === id)!
  expect(await from(address, razorpay.paid(razorpay.pay(link.id)))).toMatchObject({
    status: 200,
    json: { outcome: 'applied' },
  })
  expect(await anna.purchased()).toBe('5.617030837499')
  await sound(weir)
})

test('what is long is not even read then', async () => {
  const address = await flooding()
  // The body never comes.
  const announced = rawRequest('POST /hooks/razorpay HTTP/1.1', [
    ['host', 'localhost'],
    ['content-length', '200000'],
    ['x-forwarded-for', address],
  ])
  const { status } = await sendRaw(weir.port, announced)
  expect(status).toBe(429)
})

test('a thousand signed messages at once are taken, with some forged ones among them', async () => {
  const address = newAddress()
  const signed = Array.from({ length: 1_000 }, () => from(address, razorpay.signed('invoice.paid', {})))
  const others = Array.from({ length: most }, () => from(address, forged()))
  const answers = await Promise.all([...signed, ...others])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([
    ...Array.from({ length: 1_000 }, () => 200),
    ...Array.from({ length: most }, () => 400),
  ])
})
