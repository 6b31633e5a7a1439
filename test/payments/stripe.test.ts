// Requests to Stripe that are repeated because their answer was lost.

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { StripeCheckout } from '../../src/payments/processors/stripe.ts'
import { minute, noon } from '../credits/support.ts'
import { FakeStripe } from '../support/fake-stripe.ts'
import { openTopUp } from './top-up.ts'

let fake: FakeStripe
let now: number
let stripe: StripeCheckout

beforeEach(() => {
  fake = new FakeStripe()
  now = noon
  const settings = { secretKey: fake.secretKey, webhookSecrets: [], baseUrl: fake.baseUrl }
  stripe = new StripeCheckout(
    settings,
    (url, init) => fetch(url, init),
    () => now,
  )
})
afterEach(() => fake.stop())

const open = () => stripe.open(openTopUp, { origin: 'http://localhost', page: 'http://localhost/' })
const endsInMinutes = () => (Number(fake.asked.at(-1)!.form.get('expires_at')) * 1000 - now) / minute

test('a page whose answer was lost is opened by the same request again', async () => {
  const lost = await open()
  now += 5_000
  expect(await open()).toEqual(lost)
  expect(fake.sessions.size).toBe(1)
  expect(endsInMinutes()).toBeGreaterThan(30)
})

test('a request that is repeated later opens a page of its own, as long as Stripe demands', async () => {
  const lost = await open()
  for (const later of [5 * minute, 20 * minute]) {
    now += later
    expect(await open()).not.toEqual(lost)
    expect(endsInMinutes()).toBeGreaterThan(30)
  }
})
