// A new top-up: its processor, its rate, and the limits of its amount.

import { randomBytes } from 'node:crypto'
import { GatewayError } from '../errors/errors.ts'
import { exchangeAt, formatMinor, type Minor, type ProcessorId, type Rate, type TopUp } from './top-up.ts'
import type { PaymentProcessor } from './processor.ts'

export interface WantedTopUp {
  readonly account: string
  readonly amount: Minor
  /** The preferred processor if not given. */
  readonly processor: ProcessorId | undefined
  readonly idempotencyKey: string | null
}

export interface TopUpTerms {
  /** The available processors, the preferred one first. */
  readonly processors: readonly PaymentProcessor[]
  readonly fx: { readonly rate: Rate; readonly asOf: string; readonly source: string }
  readonly least: Minor
  readonly most: Minor
  /** How many top-ups an account may open in an hour without paying them. */
  readonly unpaidPerHour: number
}

/** How long a top-up can be paid at its rate, milliseconds. */
export const openForMs = 30 * 60_000

/** A top-up that is not opened yet. Throws `invalid_request` for the amount or the processor. */
export function draftTopUp(wanted: WantedTopUp, terms: TopUpTerms, now: number): TopUp {
  const { account, amount } = wanted
  const { fx } = terms
  const processor = processorFor(wanted, terms)
  return {
    id: `topup_${randomBytes(12).toString('hex')}`,
    account,
    processor: processor.id,
    test: processor.test,
    reference: null,
    url: null,
    amount,
    currency: 'INR',
    rate: fx.rate,
    rateAsOf: fx.asOf,
    rateSource: fx.source,
    credit: exchangeAt(amount, fx.rate).credit,
    state: 'open',
    paymentId: null,
    method: null,
    lot: null,
    refunded: 0n,
    problem: null,
    receipt: null,
    createdAt: now,
    expiresAt: now + openForMs,
    paidAt: null,
    creditedAt: null,
    checkedAt: null,
  }
}

function processorFor(
  { processor: id, amount }: WantedTopUp,
  { least, most, processors }: TopUpTerms,
): PaymentProcessor {
  const processor = id === undefined ? processors[0] : processors.find((one) => one.id === id)
  if (!processor) {
    const known = processors.map((other) => other.id).join(', ')
    throw invalid('processor', `It can be paid by ${known}.`)
  }
  if (amount < least) throw invalid('amount', `A top-up is at least ${formatMinor(least)} INR.`)
  if (amount > most) throw invalid('amount', `A top-up is at most ${formatMinor(most)} INR.`)
  return processor
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param })
}
