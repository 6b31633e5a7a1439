// The messages of Razorpay's webhooks. Of what they hold only ids, amounts and the word for the method are read.
// razorpay.com/docs/webhooks/payloads/{payments,payment-links,orders,refunds,disputes}.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import type { DisputePhase, PaidFact, PaymentEvent, PaymentNews } from '../news.ts'

const whole = z.int().nonnegative()
/** An empty set of notes is an empty list. */
const notes = z.union([z.record(z.string(), z.unknown()), z.array(z.unknown())]).nullish()

const payment = z.object({
  id: z.string().min(1),
  amount: whole,
  currency: z.string(),
  status: z.string().optional(),
  method: z.string().nullish(),
  notes,
  created_at: whole.nullish(),
})
const link = z.object({
  id: z.string().min(1),
  reference_id: z.string().nullish(),
  status: z.string(),
  notes,
})
const order = z.object({ receipt: z.string().nullish(), notes })
const refund = z.object({
  id: z.string().min(1),
  payment_id: z.string(),
  amount: whole,
  currency: z.string(),
  status: z.string(),
})
const dispute = z.object({
  id: z.string().min(1),
  payment_id: z.string(),
  amount: whole,
  currency: z.string(),
})

const entity = <T>(schema: z.ZodType<T>) => z.object({ entity: schema }).optional()

const message = z.object({
  event: z.string().max(100),
  payload: z.object({
    payment_link: entity(link),
    payment: entity(payment),
    order: entity(order),
    refund: entity(refund),
    dispute: entity(dispute),
  }),
})
type Message = z.output<typeof message>

/** The message in a body whose signature is good. Throws `invalid_request` for one that is none. */
export function parseMessage(raw: Uint8Array): Message {
  try {
    return message.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw)))
  } catch (cause) {
    throw new GatewayError('invalid_request', {
      message: 'The message is not of the documented shape.',
      cause,
    })
  }
}

/** `eventId` is the header of the delivery; where there is none, the body stands for itself. */
export function newsOf(read: Message, eventId: string | null, raw: Uint8Array): PaymentEvent {
  const { payment_link: paid, payment: one, order: of } = read.payload
  const named = [paid?.entity.notes, one?.entity.notes, of?.entity.notes].map(topUpIn).find(Boolean)
  return {
    id: eventId ?? createHash('sha256').update(raw).digest('hex'),
    type: read.event,
    topUp: paid?.entity.reference_id ?? named ?? of?.entity.receipt ?? null,
    reference: paid?.entity.id ?? null,
    news: tidings(read),
  }
}

function topUpIn(given: z.output<typeof notes>): string | undefined {
  const id = given && !Array.isArray(given) ? given['top_up'] : undefined
  return typeof id === 'string' ? id : undefined
}

const phases: Readonly<Record<string, DisputePhase>> = {
  'payment.dispute.created': 'open',
  'payment.dispute.won': 'won',
  'payment.dispute.lost': 'lost',
}

function tidings({ event, payload }: Message): PaymentNews {
  const { payment: paid, refund: back, dispute: doubt } = payload
  switch (event) {
    case 'payment_link.paid':
    case 'payment.captured':
    case 'order.paid':
      if (!paid) return { kind: 'unproven' }
      // Money that is only authorised may go back.
      return (paid.entity.status ?? 'captured') === 'captured' ? paidFact(paid.entity) : { kind: 'other' }
    case 'payment_link.expired':
      return { kind: 'expired' }
    case 'payment_link.cancelled':
      return { kind: 'failed' }
    case 'refund.processed':
      if (!back) return { kind: 'other' }
      return {
        kind: 'refund',
        refundId: back.entity.id,
        paymentId: back.entity.payment_id,
        amount: BigInt(back.entity.amount),
        currency: upper(back.entity.currency),
        of: 'one',
      }
    default: {
      // `payment.failed` is one attempt: the page stays open for the next.
      const phase = phases[event]
      if (phase === undefined || !doubt) return { kind: 'other' }
      const { id, payment_id: paymentId, amount, currency } = doubt.entity
      return {
        kind: 'dispute',
        disputeId: id,
        paymentId,
        amount: BigInt(amount),
        currency: upper(currency),
        phase,
      }
    }
  }
}

function paidFact({ id, amount, currency, created_at: at, method }: z.output<typeof payment>): PaidFact {
  return {
    kind: 'paid',
    paymentId: id,
    amount: BigInt(amount),
    currency: upper(currency),
    paidAt: at == null ? null : at * 1000,
    method: method ?? null,
  }
}

/** Currencies are written in capitals here. */
export function upper(currency: string): string {
  return currency.toUpperCase()
}
