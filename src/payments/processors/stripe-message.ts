// What Stripe says of a page and of its payment. Of what it holds only ids, amounts and states are read.
// docs.stripe.com/api/events/types.

import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import type { PaymentEvent, PaymentFact, PaymentNews, RefundNews } from '../news.ts'

const whole = z.int().nonnegative()
/** The id, or the whole object where it was expanded. */
const id = z.union([z.string(), z.object({ id: z.string() }).transform((object) => object.id)])

export const sessionSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    client_reference_id: z.string().nullish(),
    metadata: z.record(z.string(), z.string()).nullish(),
    status: z.string().nullish(),
    payment_status: z.string().nullish(),
    amount_total: whole.nullish(),
    currency: z.string().nullish(),
    payment_intent: id.nullish(),
  }),
)
type Session = z.output<typeof sessionSchema>

const chargeSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount_refunded: whole,
    currency: z.string(),
    payment_intent: id.nullish(),
    metadata: z.record(z.string(), z.string()).nullish(),
  }),
)

const refundSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string(),
    status: z.string().nullish(),
    payment_intent: id.nullish(),
  }),
)

const disputeSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    amount: whole,
    currency: z.string(),
    status: z.string(),
    payment_intent: id.nullish(),
  }),
)

const eventSchema = z.lazy(() =>
  z.object({
    id: z.string().min(1),
    type: z.string().max(100),
    created: whole.optional(),
    data: z.object({ object: z.record(z.string(), z.unknown()) }),
  }),
)

/** A page is paid when its payment is: a page that is complete may still wait for its money. */
export function factOf(session: Session, paidAt: number | null): PaymentFact {
  const { payment_status: paid, amount_total: amount, currency } = session
  // A page has at most one payment: if that is not named, the page's id is used.
  const paymentId = session.payment_intent ?? session.id
  if (paid === 'paid' && amount != null && currency != null)
    return {
      kind: 'paid',
      paymentId,
      amount: BigInt(amount),
      currency: currency.toUpperCase(),
      paidAt,
      method: null,
    }
  return session.status === 'expired' ? { kind: 'expired' } : { kind: 'open' }
}

/** The news in a message whose signature is good. Throws `invalid_request` for one that is not as documented. */
export function newsOf(verified: unknown): PaymentEvent {
  const read = eventSchema.safeParse(verified)
  if (!read.success) throw undocumentedError(read.error)
  const { id: eventId, type, created, data } = read.data
  const news = objectNews(type, data.object, created === undefined ? null : created * 1000)
  return { id: eventId, type, topUp: null, reference: null, ...news }
}

/** What has been given back of a payment in all, as its charge told it at `at`. Throws `invalid_request`. */
export function refundedOf(charge: unknown, paymentId: string, at: number | null): RefundNews {
  const { amount_refunded: total, currency } = parseObject(chargeSchema, charge)
  return {
    kind: 'refund',
    refundId: `${paymentId}:${total}`,
    paymentId,
    amount: BigInt(total),
    currency: currency.toUpperCase(),
    of: 'total',
    ...(at !== null && { at }),
  }
}

type MessageNews = Pick<PaymentEvent, 'news'> & Partial<Pick<PaymentEvent, 'topUp' | 'reference'>>

function objectNews(type: string, object: unknown, at: number | null): MessageNews {
  switch (type) {
    case 'checkout.session.completed':
    case 'checkout.session.async_payment_succeeded':
    case 'checkout.session.async_payment_failed':
    case 'checkout.session.expired':
      return aboutPage(type, parseObject(sessionSchema, object), at)
    case 'charge.refunded': {
      const charge = parseObject(chargeSchema, object)
      const paymentId = charge.payment_intent
      if (paymentId == null) return { news: { kind: 'other' } }
      const news = refundedOf(charge, paymentId, at)
      return { topUp: charge.metadata?.['top_up'] ?? null, news }
    }
    case 'refund.failed':
    case 'refund.updated':
    case 'charge.refund.updated':
      return { news: aboutRefund(parseObject(refundSchema, object), at) }
    case 'charge.dispute.created':
    case 'charge.dispute.closed':
      return { news: aboutDispute(type, parseObject(disputeSchema, object)) }
    default:
      return { news: { kind: 'other' } }
  }
}

function aboutPage(type: string, session: Session, at: number | null): MessageNews {
  const whose = {
    topUp: session.client_reference_id ?? session.metadata?.['top_up'] ?? null,
    reference: session.id,
  }
  if (type === 'checkout.session.async_payment_failed') return { ...whose, news: { kind: 'failed' } }
  const fact = factOf(session, at)
  if (type === 'checkout.session.expired' && fact.kind === 'open')
    return { ...whose, news: { kind: 'expired' } }
  return { ...whose, news: fact }
}

/** A refund that fails or is cancelled leaves the money here. That it was made is told by its charge. */
function aboutRefund(refund: z.output<typeof refundSchema>, at: number | null): PaymentNews {
  const { id: refundId, payment_intent: paymentId, amount, currency, status } = refund
  if (paymentId == null || (status !== 'failed' && status !== 'canceled')) return { kind: 'other' }
  const sum = { amount: BigInt(amount), currency: currency.toUpperCase() }
  return { kind: 'refund-failed', refundId, paymentId, ...sum, of: 'total', ...(at !== null && { at }) }
}

/** A dispute that closes is won or lost; a warning that was only an inquiry is closed without money. */
function aboutDispute(type: string, dispute: z.output<typeof disputeSchema>): PaymentNews {
  const { id: disputeId, payment_intent: paymentId, amount, currency, status } = dispute
  if (paymentId == null || (type === 'charge.dispute.created' && status.startsWith('warning_')))
    return { kind: 'other' }
  const phase = type === 'charge.dispute.created' ? 'open' : status === 'lost' ? 'lost' : 'won'
  return {
    kind: 'dispute',
    disputeId,
    paymentId,
    amount: BigInt(amount),
    currency: currency.toUpperCase(),
    phase,
  }
}

function parseObject<T>(schema: z.ZodType<T>, object: unknown): T {
  const read = schema.safeParse(object)
  if (read.success) return read.data
  throw undocumentedError(read.error)
}

function undocumentedError(cause: unknown): GatewayError {
  return new GatewayError('invalid_request', {
    message: 'The message is not of the documented shape.',
    cause,
  })
}
