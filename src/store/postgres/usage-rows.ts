// What calls add to the usage of their days: a row of each table for what comes together in one statement.

import { groupTag, tagsOf } from '../../conversation/tags.ts'
import { startOfDay, startOfMonth } from '../../credits/calendar.ts'
import type { Pico } from '../../credits/money.ts'
import { bitOfDay, costColumnOf, type UsageAdded } from '../ledger-rows.ts'
import type { GroupRows, PartName } from './group.ts'

export const usageParts = [
  'usageDays',
  'usageMonths',
  'usageTotals',
  'usageProviders',
  'usageTags',
  'usageTagTotals',
] as const satisfies readonly PartName[]

interface UsageSums {
  readonly table: (typeof usageParts)[number]
  readonly key: Readonly<Record<string, string | number | bigint>>
  calls: number
  errors: number
  input_tokens: number
  output_tokens: number
  cost: Pico
  charged: Pico
  timed: number
  ms: number
}

export class UsageRows {
  readonly #sums = new Map<string, UsageSums>()
  /** The days of each row of `usage_month` and what they cost, by its name among those. */
  readonly #daysOfMonths = new Map<string, { days: number; readonly costs: Record<string, Pico> }>()

  /** Tables with a row for each chain add it to that of `chain`. */
  add(added: UsageAdded, chain: bigint): void {
    const { account, at, model, tags, group, provider } = added
    const day = startOfDay(at)
    const key = added.key ?? ''
    const channel = added.key === null ? 'app' : 'api'
    this.#sum('usageDays', { account, day, key, model }, added)
    this.#sum('usageTotals', { day, channel, model, chain }, added)
    if (provider !== '') this.#sum('usageProviders', { day, provider, channel, model, chain }, added)
    const ofMonth = this.#sum('usageMonths', { month: startOfMonth(at), account, key, model }, added)
    const month = this.#daysOfMonths.get(ofMonth) ?? { days: 0, costs: {} }
    const cost = costColumnOf(at)
    month.days |= bitOfDay(at)
    month.costs[cost] = (month.costs[cost] ?? 0n) + added.cost
    this.#daysOfMonths.set(ofMonth, month)
    const divided = Object.entries(tagsOf(tags))
    if (group !== null) divided.push([groupTag, group])
    for (const [tag, value] of divided) {
      this.#sum('usageTags', { account, tag, day, value, key, model }, added)
      this.#sum('usageTagTotals', { tag, day, value, channel, model, chain }, added)
    }
  }

  get isEmpty(): boolean {
    return this.#sums.size === 0
  }

  addTo(rows: GroupRows): void {
    for (const [name, { table, key, ...sums }] of this.#sums) {
      const month = this.#daysOfMonths.get(name)
      rows.add(table, { ...key, ...sums, ...(month && { days: month.days, ...month.costs }) })
    }
  }

  /** Gives the name of the row that it was added to. */
  #sum(table: UsageSums['table'], key: UsageSums['key'], added: UsageAdded): string {
    // None of the texts has a NUL.
    const name = `${table}\0${Object.values(key).join('\0')}`
    let sums = this.#sums.get(name)
    if (!sums) {
      const tokens = { input_tokens: 0, output_tokens: 0 }
      sums = { table, key, calls: 0, errors: 0, ...tokens, cost: 0n, charged: 0n, timed: 0, ms: 0 }
      this.#sums.set(name, sums)
    }
    sums.calls += added.calls
    sums.errors += added.errors
    sums.input_tokens += Math.round(added.inputTokens)
    sums.output_tokens += Math.round(added.outputTokens)
    sums.cost += added.cost
    sums.charged += added.charged
    sums.timed += added.timed
    sums.ms += Math.round(added.ms)
    return name
  }
}
