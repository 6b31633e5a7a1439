// What a call is charged when it ends: by the provider's count if there is one, otherwise by our own count of what was
// delivered.

import { noUsage, type Usage } from '../../conversation/usage.ts'
import { type CostLine, type Cost, type Price, costOf } from '../../credits/price.ts'
import { parseUsd, smaller, type Pico } from '../../credits/money.ts'
import type { Provider } from '../../providers/provider.ts'
import type { Candidate } from '../routing/candidates.ts'
import { type Answered, type OwnCount, uncountedSides } from '../counting/own-count.ts'

export interface Charge {
  readonly usage: Usage
  readonly cost: Cost
  /** Counted by us, not by the provider. */
  readonly estimated: boolean
}

/**
 * The charge of a call that served something. A count of zero is taken as zero. If the answer was cut, every count
 * that arrived is used, and only the rest is estimated: the prompt if nobody counted it, and the output after the last
 * count.
 */
export function chargeOf(
  answered: Pick<Answered, 'usage' | 'complete' | 'doubted'>,
  own: OwnCount,
  price: Price,
  costFrom: Provider['costFrom'],
): Charge {
  const { usage, complete, doubted = false } = answered
  const sides = uncountedSides(answered)
  const reported =
    complete && usage !== undefined && costFrom === 'reported' && reportedCostOf(usage) !== undefined
  if (usage !== undefined && !sides.prompt && !sides.output)
    return { usage, cost: costAtRates(usage, price, costFrom), estimated: doubted && !reported }
  const { billed, uncounted: _uncounted, ...counted } = usage ?? noUsage
  // Nothing was delivered, so there is nothing to count or to estimate.
  const made = own.output.output + own.output.reasoning > 0
  const estimated = !reported && (doubted || sides.prompt || (sides.output && (made || !complete)))
  const charged: Usage = {
    ...counted,
    ...(billed === undefined || sides.prompt || sides.output ? {} : { billed }),
    ...(sides.prompt ? { input: own.prompt } : {}),
    ...(sides.output ? own.output : {}),
  }
  return {
    usage: charged,
    cost: estimated ? costOf(charged, price) : costAtRates(charged, price, costFrom),
    estimated,
  }
}

/**
 * The count of an answer whose client has disconnected, including searches that its provider had begun: it bills them
 * although nobody reads the results.
 */
export function withOpenSearches(usage: Usage | undefined, searches: number): Usage | undefined {
  if (searches === 0) return usage
  const counted = usage ?? { ...noUsage, uncounted: ['prompt', 'completion'] as const }
  const before = counted.toolCalls['web_search'] ?? 0
  return { ...counted, toolCalls: { ...counted.toolCalls, web_search: before + searches } }
}

export const noCharge: Charge = {
  usage: noUsage,
  cost: { lines: [], total: 0n, unpriced: [] },
  estimated: false,
}

/**
 * The charge for what a candidate served, given the picodollars held for it. With searches that had begun and not ended
 * it is an estimate.
 */
export function chargeFor(
  { offer, provider }: Candidate,
  answered: Answered,
  own: OwnCount,
  held: Pico,
  openSearches = 0,
): Charge {
  const charge = chargeOf(answered, own, offer.price, provider.costFrom)
  const limited = charge.estimated ? atMost(charge, held) : charge
  return openSearches === 0 ? limited : { ...limited, estimated: true }
}

/** The same charge, limited to `limit` picodollars: an estimate never exceeds the hold. */
export function atMost(charge: Charge, limit: Pico): Charge {
  if (charge.cost.total <= limit) return charge
  let left = limit
  const lines: CostLine[] = []
  for (const line of charge.cost.lines) {
    const quantity =
      line.rate === 0n ? BigInt(line.quantity) : smaller(BigInt(line.quantity), left / line.rate)
    if (quantity === 0n) continue
    lines.push({ ...line, quantity: Number(quantity), amount: quantity * line.rate })
    left -= quantity * line.rate
  }
  const total = lines.reduce((sum, line) => sum + line.amount, 0n)
  return { ...charge, cost: { ...charge.cost, lines, total } }
}

function costAtRates(usage: Usage, price: Price, costFrom: Provider['costFrom']): Cost {
  const amount = costFrom === 'reported' ? reportedCostOf(usage) : undefined
  if (amount === undefined) return costOf(usage, price)
  return { lines: [{ item: 'reported', quantity: 1, rate: amount, amount }], total: amount, unpriced: [] }
}

function reportedCostOf({ reportedCost }: Usage): Pico | undefined {
  const amount = reportedCost === undefined ? undefined : parseUsd(reportedCost)
  return amount === undefined || amount < 0n ? undefined : amount
}
