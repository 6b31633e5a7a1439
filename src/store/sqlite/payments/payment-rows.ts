// Rows of payments as the rest of the gateway knows them.

import type { PaymentNews, ProcessorId } from '../../../payments/news.ts'
import type { AskedRefund, EventOutcome, EventRecord, Reversal } from '../../../payments/payment-store.ts'
import type { TopUp, TopUpProblem, TopUpState } from '../../../payments/top-up.ts'
import { numberOrNull } from '../accounts/rows.ts'

export interface TopUpRow {
  readonly id: string
  readonly account: string
  readonly processor: string
  readonly test: bigint
  readonly reference: string | null
  readonly url: string | null
  readonly amount: bigint
  readonly currency: string
  readonly rate: bigint
  readonly rate_as_of: string
  readonly rate_source: string
  readonly credit: bigint
  readonly state: string
  readonly payment_id: string | null
  readonly method: string | null
  readonly lot: string | null
  readonly refunded: bigint
  readonly problem: string | null
  readonly receipt_year: bigint | null
  readonly receipt_number: bigint | null
  readonly created_at: bigint
  readonly expires_at: bigint
  readonly paid_at: bigint | null
  readonly credited_at: bigint | null
  readonly checked_at: bigint | null
  readonly idempotency_hash: string | null
}

export interface EventRow {
  readonly processor: string
  readonly id: string
  readonly type: string
  readonly at: bigint
  readonly hash: string
  readonly outcome: string
  readonly top_up: string | null
  readonly reference: string | null
  readonly payment_id: string | null
  readonly news: string
}

export interface ReversalRow {
  readonly processor: string
  readonly id: string
  readonly top_up: string
  readonly kind: string
  readonly amount: bigint
  readonly credit: bigint
  readonly held: bigint
  readonly booked: bigint
  readonly at: bigint
}

export interface AskedRefundRow {
  readonly top_up: string
  readonly id: string
  readonly amount: bigint
  readonly asked_at: bigint
  readonly made_at: bigint | null
}

export function topUpOf(row: TopUpRow): TopUp {
  const { receipt_year: year, receipt_number: number } = row
  return {
    id: row.id,
    account: row.account,
    processor: row.processor as ProcessorId,
    test: row.test === 1n,
    reference: row.reference,
    url: row.url,
    amount: row.amount,
    currency: row.currency,
    rate: row.rate,
    rateAsOf: row.rate_as_of,
    rateSource: row.rate_source,
    credit: row.credit,
    state: row.state as TopUpState,
    paymentId: row.payment_id,
    method: row.method,
    lot: row.lot,
    refunded: row.refunded,
    problem: row.problem as TopUpProblem | null,
    receipt: year === null || number === null ? null : { year: Number(year), number: Number(number) },
    createdAt: Number(row.created_at),
    expiresAt: Number(row.expires_at),
    paidAt: numberOrNull(row.paid_at),
    creditedAt: numberOrNull(row.credited_at),
    checkedAt: numberOrNull(row.checked_at),
  }
}

export function eventOf(row: EventRow): EventRecord {
  return {
    processor: row.processor as ProcessorId,
    id: row.id,
    type: row.type,
    at: Number(row.at),
    hash: row.hash,
    outcome: row.outcome as EventOutcome,
    topUp: row.top_up,
    reference: row.reference,
    paymentId: row.payment_id,
    news: newsOf(row.news),
  }
}

export function reversalOf(row: ReversalRow): Reversal {
  return {
    processor: row.processor as ProcessorId,
    id: row.id,
    topUp: row.top_up,
    kind: row.kind as Reversal['kind'],
    amount: row.amount,
    credit: row.credit,
    held: row.held,
    booked: row.booked === 1n,
    at: Number(row.at),
  }
}

export function askedRefundOf(row: AskedRefundRow): AskedRefund {
  const { top_up: topUp, id, amount, asked_at: askedAt, made_at: madeAt } = row
  return { topUp, id, amount, askedAt: Number(askedAt), madeAt: numberOrNull(madeAt) }
}

/** JSON has no integers of this size: amounts are text. */
export function newsText(news: PaymentNews): string {
  return JSON.stringify(news, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
}

function newsOf(text: string): PaymentNews {
  return JSON.parse(text, (key, value: unknown) =>
    key === 'amount' && typeof value === 'string' ? BigInt(value) : value,
  ) as PaymentNews
}
