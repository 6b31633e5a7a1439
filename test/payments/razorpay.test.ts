// Refunds as Razorpay takes them: the form of their keys, and answers that decide nothing.

import { expect, test } from 'bun:test'
import { Razorpay } from '../../src/payments/processors/razorpay.ts'
import { noon } from '../credits/support.ts'
import { openTopUp } from './top-up.ts'

const topUp = { ...openTopUp, paymentId: 'pay_1' }
const settings = {
  keyId: 'rzp_live_1',
  keySecret: 'secret',
  webhookSecrets: [],
  baseUrl: 'https://rzp.example',
}

function answering(answer: () => Response, keys: string[] = []): Razorpay {
  const call = async (_url: string, { headers }: { readonly headers: Readonly<Record<string, string>> }) => {
    keys.push(headers['x-refund-idempotency'] ?? '')
    return answer()
  }
  return new Razorpay(settings, call, () => noon)
}

test('each id of a refund is a key that Razorpay takes: letters, digits, hyphens, underscores', async () => {
  const made = { id: 'rfnd_1', payment_id: 'pay_1', amount: 100, currency: 'INR', status: 'pending' }
  const keys: string[] = []
  const razorpay = answering(() => Response.json(made), keys)
  for (const id of ['topup_1-ticket_2', 'topup_1-ticket.2', 'topup_1-ticket-2', 'topup_1-ticket.2'])
    expect(await razorpay.refund(topUp, 100n, id)).toBeUndefined()
  for (const key of keys) expect(key).toMatch(/^[A-Za-z0-9_-]{10,}$/)
  expect(keys[0]).toBe('topup_1-ticket_2')
  expect(keys[3]).toBe(keys[1]!)
  expect(new Set(keys).size).toBe(3)
})

test.each([
  [400, true],
  [409, undefined],
  [503, undefined],
] as const)('%i: whether it is a refusal for good is %p', async (status, lasting) => {
  const razorpay = answering(() => Response.json({}, { status }))
  const refused: unknown = await razorpay.refund(topUp, 100n, 'topup_1-a').catch((error: unknown) => error)
  expect(refused).toMatchObject({ code: 'payment_processor_error' })
  expect((refused as { details: { lasting?: boolean } }).details.lasting).toBe(lasting)
})
