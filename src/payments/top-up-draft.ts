// A new top-up, of credit or of a plan: its currency, its processor, its rate, and the limits of its amount.

import { randomBytes } from 'node:crypto'
import { GatewayError } from '../errors/errors.ts'
import { exchange, formatMinor, type Minor, type Pico, type Rate, rateOf } from '../credits/money.ts'
import type { PlanOnSale } from './subscriptions.ts'
import type { ProcessorId, SoldPlan, TopUp } from './top-up.ts'
import type { PaymentProcessor } from './processor.ts'

export interface WantedTopUp {
  readonly account: string
  readonly amount: Minor
  /** ISO 4217. */
  readonly currency: string
  /** The preferred processor if not given. */
  readonly processor: ProcessorId | undefined
  readonly idempotencyKey: string | null
}

/** A period of a plan. */
export interface WantedPlan extends Omit<WantedTopUp, 'amount'> {
  readonly plan: PlanOnSale
}

/** A currency that can be paid in: its rate, and the limits of an amount. */
export interface CurrencyTerms {
  readonly currency: string
  readonly rate: Rate
  readonly asOf: string
  readonly source: string
  readonly least: Minor
  readonly most: Minor
  /** Who takes it, in no order; null for every processor. */
  readonly processors: readonly ProcessorId[] | null
}

export interface TopUpTerms {
  /** The available processors, the preferred one first. */
  readonly processors: readonly PaymentProcessor[]
  /** What can be paid in, the preferred one first. */
  readonly currencies: readonly [CurrencyTerms, ...CurrencyTerms[]]
  /** How many top-ups an account may open in an hour without paying them. */
  readonly unpaidPerHour: number
}

/** How long a top-up can be paid at its rate, milliseconds. */
export const openForMs = 30 * 60_000

/** A top-up that is not opened yet. Throws `invalid_request` for the currency, the amount or the processor. */
export function draftTopUp(wanted: WantedTopUp, terms: TopUpTerms, now: number): TopUp {
  const { amount, currency } = wanted
  const fx = currencyTerms(wanted, terms)
  const { credit } = exchange({ amount, currency, rate: fx.rate })
  return draft(wanted, processorFor(wanted, terms, fx), { ...fx, amount, credit, plan: null }, now)
}

/** The top-up that pays for a period of a plan. Throws `invalid_request` for the currency or the processor. */
export function draftPlan(wanted: WantedPlan, terms: TopUpTerms, now: number): TopUp {
  const { plan, currency } = wanted
  const amount = plan.prices.get(currency)
  if (amount === undefined)
    throw invalid('currency', `It can be paid in ${[...plan.prices.keys()].join(', ')}.`)
  const { id, title, months, models, credit } = plan
  const taking = terms.currencies.find((one) => one.currency === currency) ?? { processors: null }
  const sold = { amount, credit, plan: { id, title, months, models, period: null } }
  // Its price says what a dollar of its credit costs: there is no other rate.
  const fx = { rate: rateOf(amount, currency, credit), asOf: 'unknown', source: 'the price of the plan' }
  return draft(wanted, processorFor(wanted, terms, taking), { ...fx, ...sold }, now)
}

function draft(
  { account, currency }: Pick<WantedTopUp, 'account' | 'currency'>,
  processor: PaymentProcessor,
  fx: Pick<CurrencyTerms, 'rate' | 'asOf' | 'source'> & {
    readonly amount: Minor
    readonly credit: Pico
    readonly plan: SoldPlan | null
  },
  now: number,
): TopUp {
  const { amount, credit, plan } = fx
  return {
    id: `topup_${randomBytes(12).toString('hex')}`,
    account,
    processor: processor.id,
    test: processor.test,
    reference: null,
    url: null,
    amount,
    currency,
    rate: fx.rate,
    rateAsOf: fx.asOf,
    rateSource: fx.source,
    credit,
    plan,
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

function currencyTerms({ amount, currency }: WantedTopUp, { currencies }: TopUpTerms): CurrencyTerms {
  const found = currencies.find((one) => one.currency === currency)
  if (!found) {
    const known = currencies.map((one) => one.currency).join(', ')
    throw invalid('currency', `It can be paid in ${known}.`)
  }
  const { least, most } = found
  if (amount < least)
    throw invalid('amount', `A top-up is at least ${formatMinor(least, currency)} ${currency}.`)
  if (amount > most)
    throw invalid('amount', `A top-up is at most ${formatMinor(most, currency)} ${currency}.`)
  return found
}

/** The processors that take a currency, the preferred one first. */
export function processorsFor(
  { processors }: Pick<TopUpTerms, 'processors'>,
  { processors: taking }: Pick<CurrencyTerms, 'processors'>,
): readonly PaymentProcessor[] {
  return taking === null ? processors : processors.filter(({ id }) => taking.includes(id))
}

function processorFor(
  { processor: id, currency }: Pick<WantedTopUp, 'processor' | 'currency'>,
  terms: TopUpTerms,
  fx: Pick<CurrencyTerms, 'processors'>,
): PaymentProcessor {
  const taking = processorsFor(terms, fx)
  const processor = id === undefined ? taking[0] : taking.find((one) => one.id === id)
  if (processor) return processor
  const known = taking.map((other) => other.id).join(', ')
  throw invalid('processor', `${currency} can be paid by ${known === '' ? 'no processor' : known}.`)
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param })
}
