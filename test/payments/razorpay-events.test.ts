// Every event that Razorpay documents about payments is read for what it means, and for nothing else.

import { expect, test } from 'bun:test'
import { newsText } from '../../src/store/sql/top-ups.ts'
import { newsOf, parseMessage } from '../../src/payments/processors/razorpay.ts'
import { documented } from './razorpay-events.ts'

const bodyOf = (event: string, payload: object) =>
  Buffer.from(
    JSON.stringify({
      entity: 'event',
      account_id: 'acc_QfkaZYXwVuTsRq',
      event,
      contains: Object.keys(payload),
      payload,
      created_at: 1_795_340_002,
    }),
  )

test.each(documented.map((row) => [row.event, row] as const))(
  '%s',
  (event, { payload, news, topUp, reference }) => {
    const raw = bodyOf(event, payload)
    const read = newsOf(parseMessage(raw), 'evt_1', raw)
    expect(read).toEqual({ id: 'evt_1', type: event, topUp, reference, news })
    // Nothing of the instrument or the person is kept.
    for (const personal of ['payer@', '+919', '249727216453'])
      expect(newsText(read.news)).not.toContain(personal)
  },
)

test('a link that was paid, without its payment, proves nothing: the processor is asked', () => {
  const { payload } = documented[0]!
  const raw = bodyOf('payment_link.paid', { payment_link: payload['payment_link']! })
  expect(newsOf(parseMessage(raw), null, raw)).toMatchObject({ news: { kind: 'unproven' } })
})

test('what the gateway does not act on may have any shape', () => {
  const raw = bodyOf('settlement.processed', {
    settlement: { entity: { amount: 'much' } },
    payment: { entity: 5 },
  })
  expect(newsOf(parseMessage(raw), null, raw)).toMatchObject({ news: { kind: 'other' } })
})

test.each([
  ['a refund of nothing', 'refund.processed', {}],
  [
    'a refund without an amount',
    'refund.processed',
    { refund: { entity: { id: 'rfnd_1', payment_id: 'pay_1' } } },
  ],
  [
    'a payment of a fraction',
    'payment.captured',
    { payment: { entity: { id: 'pay_1', amount: 1.5, currency: 'INR' } } },
  ],
  [
    'a negative amount',
    'payment.captured',
    { payment: { entity: { id: 'pay_1', amount: -1, currency: 'INR' } } },
  ],
])('%s is no message', (_, event, payload) => {
  const raw = bodyOf(event, payload)
  expect(() => newsOf(parseMessage(raw), null, raw)).toThrow('not of the documented shape')
})
