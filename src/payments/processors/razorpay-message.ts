// The messages of Razorpay's webhooks. Of what they hold only ids, amounts and the word for the method are read.
// razorpay.com/docs/webhooks/payloads/{payments,payment-links,orders,refunds,disputes}.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import type { DisputePhase, PaidFact, PaymentEvent, PaymentNews } from '../news.ts'

const whole = z.int().nonnegative()
/** An empty set of notes is an empty list. */
const notes = z.union([z.record(z.string(), z.unknown()), z.array(z.unknown())]).nullish()

const payment = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string().default('INR'),
    status: z.string().optional(),
    method: z.string().nullish(),
    notes,
    created_at: whole.nullish(),
  }),
)
const link = z.lazy(() => z.object({ id: z.string().min(1), reference_id: z.string().nullish(), notes }))
const order = z.lazy(() => z.object({ receipt: z.string().nullish(), notes }))
const part = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    payment_id: z.string(),
    amount: whole,
    currency: z.string().default('INR'),
  }),
)

const message = z.lazy(() =>
  z.object({
    event: z.string().max(100),
    payload: z.record(z.string(), z.object({ entity: z.unknown() })).default({}),
  }),
)
type Message = z.output<typeof message>

/** The message in a body with a valid signature. Throws `invalid_request` if it is not one. */
export function parseMessage(raw: Uint8Array): Message {
  try {
    return message.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw)))
  } catch (cause) {
    throw undocumentedError(cause)
  }
}

/** What of a message is about something, undefined where it does not have it. Throws `invalid_request`. */
function entityOf<T>({ payload }: Message, name: string, schema: z.ZodType<T>): T | undefined {
  const { success, data, error } = schema.optional().safeParse(payload[name]?.entity)
  if (success) return data
  throw undocumentedError(error)
}

function undocumentedError(cause: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: 'The message is not of the documented shape.',
    cause,
  })
}

/** `eventId` is the header of the delivery; without it a hash of the body is used. */
export function newsOf(read: Message, eventId: string | null, raw: Uint8Array): PaymentEvent {
  const id = eventId ?? createHash('sha256').update(raw).digest('hex')
  const type = read.event
  const news = tidings(read)
  // Of what the gateway does not act on nothing more is read: it may have any shape.
  if (news.kind === 'other') return { id, type, topUp: null, reference: null, news }
  const [page, paid, of] = [
    entityOf(read, 'payment_link', link),
    entityOf(read, 'payment', payment),
    entityOf(read, 'order', order),
  ]
  const named = [page?.notes, paid?.notes, of?.notes].map(topUpIn).find(Boolean)
  return {
    id,
    type,
    topUp: page?.reference_id ?? named ?? of?.receipt ?? null,
    reference: page?.id ?? null,
    news,
  }
}

function topUpIn(given: z.output<typeof notes>): string | undefined {
  const id = given && !Array.isArray(given) ? given['top_up'] : undefined
  return typeof id === 'string' ? id : undefined
}

const phases: Readonly<Record<string, DisputePhase>> = {
  'payment.dispute.created': 'open',
  'payment.dispute.won': 'won',
  // A suspicion of fraud that was answered: money is only deducted for lost disputes.
  'payment.dispute.closed': 'won',
  'payment.dispute.lost': 'lost',
}

function tidings(read: Message): PaymentNews {
  switch (read.event) {
    case 'payment_link.paid':
    case 'payment.captured':
    case 'order.paid': {
      const paid = entityOf(read, 'payment', payment)
      if (!paid) return { kind: 'unproven' }
      // Money that is only authorised may go back.
      return (paid.status ?? 'captured') === 'captured' ? paidFact(paid) : { kind: 'other' }
    }
    case 'payment_link.expired':
      return { kind: 'expired' }
    case 'payment_link.cancelled':
      return { kind: 'failed' }
    case 'refund.processed': {
      const { id: refundId, ...rest } = requireEntity(entityOf(read, 'refund', part))
      return { kind: 'refund', refundId, ...partOf(rest), of: 'one' }
    }
    case 'refund.failed': {
      const { id: refundId, ...rest } = requireEntity(entityOf(read, 'refund', part))
      return { kind: 'refund-failed', refundId, ...partOf(rest), of: 'one' }
    }
    default: {
      // `payment.failed` is one attempt: the page stays open for the next.
      const phase = phases[read.event]
      if (phase === undefined) return { kind: 'other' }
      const { id: disputeId, ...rest } = requireEntity(entityOf(read, 'dispute', part))
      return { kind: 'dispute', disputeId, ...partOf(rest), phase }
    }
  }
}

function requireEntity<T>(entity: T | undefined): T {
  if (entity === undefined) throw undocumentedError(undefined)
  return entity
}

function partOf({ payment_id: paymentId, amount, currency }: Omit<z.output<typeof part>, 'id'>) {
  return { paymentId, amount: BigInt(amount), currency: upper(currency) }
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
