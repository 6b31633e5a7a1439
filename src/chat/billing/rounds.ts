// The charge of a call with several rounds and tools: their sum, with a line for each round and tool. Pure.

import { noUsage } from '../../conversation/usage.ts'
import { addedUsage } from '../../conversation/usage-sum.ts'
import type { Pico } from '../../credits/money.ts'
import type { CostLine } from '../../credits/price.ts'
import { noCharge, type Charge } from './charge.ts'

export interface ToolFee {
  /** The name on receipts, such as `web_search`. */
  readonly name: string
  readonly cost: Pico
  readonly searches: number
}

/** The cost of a call before its last round. */
export class EarlierRounds {
  #sum: Charge = noCharge
  /** Number of completed rounds; also the index of the current one. */
  #ended = 0

  /** Picodollars. */
  get cost(): Pico {
    return this.#sum.cost.total
  }

  addRound(charge: Charge): void {
    this.#ended += 1
    this.#sum = addCharges(this.#sum, inRound(charge, this.#ended))
  }

  addTool({ name, cost, searches }: ToolFee, round: number): void {
    const line: CostLine = { item: `call:${name}`, quantity: 1, rate: cost, amount: cost, round }
    const toolCalls: Record<string, number> = searches === 0 ? {} : { web_search: searches }
    const usage = { ...noUsage, toolCalls }
    this.#sum = addCharges(this.#sum, {
      usage,
      cost: { lines: [line], total: cost, unpriced: [] },
      estimated: false,
    })
  }

  /** The total charge, given that of the last round. The same object if there was only one round. */
  with(last: Charge): Charge {
    return this.#sum === noCharge ? last : addCharges(this.#sum, inRound(last, this.#ended + 1))
  }
}

function inRound(charge: Charge, round: number): Charge {
  const lines = charge.cost.lines.map((line) => ({ ...line, round }))
  return { ...charge, cost: { ...charge.cost, lines } }
}

function addCharges(a: Charge, b: Charge): Charge {
  return {
    usage: addedUsage(a.usage, b.usage),
    cost: {
      lines: [...a.cost.lines, ...b.cost.lines],
      total: a.cost.total + b.cost.total,
      unpriced: [...new Set([...a.cost.unpriced, ...b.cost.unpriced])],
    },
    estimated: a.estimated || b.estimated,
  }
}
