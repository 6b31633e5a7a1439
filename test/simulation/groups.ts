// The groups of a history: who stands where, and what operators change of it while calls are in flight. Their windows are
// written a second time here, from what the clocks of a place show.

import type { BudgetWindow, Level, GroupStanding } from '../../src/accounts/group.ts'
import type { Budget } from '../../src/credits/ledger/ledger.ts'
import type { Random } from './random.ts'

/** Some change their clocks in the months of a history, one of them at midnight. */
const zones = ['UTC', 'Asia/Kolkata', 'America/New_York', 'Pacific/Auckland', 'Africa/Cairo'] as const
const windows = ['day', 'week', 'month', 'none'] as const
const ids = ['grp_a', 'grp_b', 'grp_c'] as const

type GroupId = (typeof ids)[number]

/** Who is moved about, and the amounts below which budgets are drawn. */
interface Cast {
  readonly people: readonly string[]
  readonly mostOfGroup: number
  readonly mostOfPerson: number
}

export class SimulatedGroups {
  readonly #random: Random
  readonly #cast: Cast
  readonly #levels = new Map<GroupId, Level>()
  /** A group stands only in one before it, so that there are no loops. */
  readonly #parents = new Map<GroupId, GroupId | null>()
  readonly #members = new Map<string, GroupId>()

  constructor(random: Random, cast: Cast) {
    this.#random = random
    this.#cast = cast
    for (const id of ids) {
      this.#change(id)
      this.#move(id)
    }
    for (const person of cast.people) this.#members.set(person, random.pick(ids))
  }

  /** An operator moves a person or a group, or changes budgets and their windows. */
  act(): void {
    const id = this.#random.pick(ids)
    const person = this.#random.pick(this.#cast.people)
    const act = this.#random.below(4)
    if (act < 2) this.#members.set(person, id)
    else if (act === 2) this.#move(id)
    else this.#change(id)
  }

  #change(id: GroupId): void {
    const random = this.#random
    const limit = (most: number) => (random.oneIn(4) ? null : BigInt(random.below(most)))
    this.#levels.set(id, {
      id,
      name: id,
      budget: limit(this.#cast.mostOfGroup),
      personBudget: limit(this.#cast.mostOfPerson),
      window: random.pick(windows),
      timezone: random.pick(zones),
      allowedModels: null,
      tags: null,
    })
  }

  #move(id: GroupId): void {
    const before = ids.slice(0, ids.indexOf(id))
    this.#parents.set(id, before.length === 0 || this.#random.oneIn(3) ? null : this.#random.pick(before))
  }

  /** How a person stands now; undefined for somebody in no group. */
  standingOf(person: string): GroupStanding | undefined {
    const group = this.#members.get(person)
    if (group === undefined) return undefined
    const levels: Level[] = []
    for (let id: GroupId | null = group; id !== null; id = this.#parents.get(id)!)
      levels.push(this.#levels.get(id)!)
    return { group, person, payer: null, levels }
  }
}

/** Every budget on the way up, from the rules alone. */
export function expectedBudgets({ person, levels }: GroupStanding, now: number): Budget[] {
  return levels.flatMap(({ id, budget, personBudget, window, timezone }) => {
    const [windowStart, windowEnd] = windowOf(window, timezone, now)
    const own = { scope: `${id}/${person}`, limit: personBudget, windowStart, windowEnd }
    const all = { scope: id, limit: budget, windowStart, windowEnd }
    return [own, all]
  })
}

const hour = 3_600_000
const day = 24 * hour
const seen = new Map<string, readonly [number, number | null]>()

/** By the names that the days of a place have: a window is as long as its name does not change. */
function windowOf(window: BudgetWindow, timezone: string, now: number): readonly [number, number | null] {
  if (window === 'none') return [0, null]
  const name = nameOf(window, timezone, now)
  const known = seen.get(`${timezone} ${window} ${name}`)
  if (known) return known
  const isOther = (at: number) => nameOf(window, timezone, at) !== name
  const bounds = [
    border(now - 33 * day, now, (at) => !isOther(at)),
    border(now, now + 33 * day, isOther),
  ] as const
  seen.set(`${timezone} ${window} ${name}`, bounds)
  return bounds
}

/** The first moment from which it holds. */
function border(before: number, from: number, holds: (at: number) => boolean): number {
  let [low, high] = [before, from]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (holds(middle)) high = middle
    else low = middle
  }
  return high
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** `2026-11-21`, the Monday of its week, or `2026-11`. */
function nameOf(window: BudgetWindow, timeZone: string, at: number): string {
  let format = formats.get(timeZone)
  // Swedish dates are written in the order of the standard.
  if (!format)
    formats.set(timeZone, (format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short' })))
  const date = format.format(at)
  if (window === 'month') return date.slice(0, 7)
  if (window === 'day') return date
  const noon = Date.parse(`${date}T12:00:00Z`)
  return new Date(noon - ((new Date(noon).getUTCDay() + 6) % 7) * day).toISOString().slice(0, 10)
}
