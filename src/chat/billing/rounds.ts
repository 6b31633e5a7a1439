// The charge of a call that asks a provider several times and runs tools in between: the sum of all of them, with each
// round and each tool as lines of their own. Pure.

import { noUsage } from '../../conversation/usage.ts'
import { addedUsage } from '../../conversation/usage-sum.ts'
import type { Pico } from '../../credits/money.ts'
import type { CostLine } from '../../credits/price.ts'
import { noCharge, type Charge } from './charge.ts'

/** A tool that has run. */
export interface ToolFee {
  /** As receipts name it, such as `web_search`. */
  readonly name: string
  readonly cost: Pico
  /** Web searches that it has made. */
  readonly searches: number
}

/** What a call has come to before its last round. */
export class EarlierRounds {
  #sum: Charge = noCharge
  /** Rounds that have ended; the one that runs is the next. */
  #ended = 0

  /** Picodollars. */
  get cost(): Pico {
    return this.#sum.cost.total
  }

  /** A round has ended, and another follows. */
  addRound(charge: Charge): void {
    this.#ended += 1
    this.#sum = added(this.#sum, inRound(charge, this.#ended))
  }

  /** A tool has run after the round that called it. */
  addTool({ name, cost, searches }: ToolFee, round: number): void {
    const line: CostLine = { item: `call:${name}`, quantity: 1, rate: cost, amount: cost, round }
    const toolCalls: Record<string, number> = searches === 0 ? {} : { web_search: searches }
    const usage = { ...noUsage, toolCalls }
    this.#sum = added(this.#sum, {
      usage,
      cost: { lines: [line], total: cost, unpriced: [] },
      estimated: false,
    })
  }

  /** The charge of the call whose last round is charged so. The same object where it had no other. */
  with(last: Charge): Charge {
    return this.#sum === noCharge ? last : added(this.#sum, inRound(last, this.#ended + 1))
  }
}

function inRound(charge: Charge, round: number): Charge {
  const lines = charge.cost.lines.map((line) => ({ ...line, round }))
  return { ...charge, cost: { ...charge.cost, lines } }
}

function added(a: Charge, b: Charge): Charge {
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
