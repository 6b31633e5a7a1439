// What calls have spent and hold of their budgets and of their keys: counted from the calls alone, by what they were asked
// with, whatever the ledger has written of it.

import type { Budget, KeyLimit } from '../../../src/credits/ledger/ledger.ts'
import { day } from '../../credits/support.ts'
import { type Group, nameOf, type Row, type Rows } from './server.ts'

/** The limits of a call, beside the credit of its account. */
export interface Limited {
  readonly budgets: readonly Budget[]
  readonly key: string | null
  readonly keyLimit: KeyLimit | null
}

interface Used {
  spent: number
  held: number
}

const nothing: Readonly<Used> = { spent: 0, held: 0 }

export class Usage {
  /** By budget and window, as `nameOf`. */
  readonly budgets = new Map<string, Used>()
  readonly #keys = new Map<string, { held: number; readonly days: Map<number, number> }>()

  add({ budgets, key }: Limited, { spent, held }: Readonly<Used>, at: number): void {
    for (const { scope, windowStart: window } of budgets) {
      const name = nameOf({ scope, window })
      const used = this.budgets.get(name) ?? { ...nothing }
      used.spent += spent
      used.held += held
      this.budgets.set(name, used)
    }
    if (key === null) return
    const used = this.#keys.get(key) ?? { held: 0, days: new Map<number, number>() }
    used.held += held
    const date = Math.floor(at / day) * day
    if (spent > 0) used.days.set(date, (used.days.get(date) ?? 0) + spent)
    this.#keys.set(key, used)
  }

  /** What a key has spent by days; undefined where it has spent nothing. */
  daysOf(key: string): ReadonlyMap<number, number> | undefined {
    const days = this.#keys.get(key)?.days
    return days && days.size > 0 ? days : undefined
  }

  /** What is left of each budget of a call, and of the limit of its key, by its name. */
  leftOf({ budgets, key, keyLimit }: Limited): ReadonlyMap<string, number> {
    const left = new Map<string, number>()
    for (const { scope, windowStart: window, limit } of budgets) {
      const { spent, held } = this.budgets.get(nameOf({ scope, window })) ?? nothing
      left.set(nameOf({ scope, window }), limit === null ? Infinity : Number(limit) - spent - held)
    }
    if (key === null) return left
    if (keyLimit === null) return left.set(key, Infinity)
    const { held, days } = this.#keys.get(key) ?? { held: 0, days: new Map<number, number>() }
    let spent = 0
    for (const [date, amount] of days) if (date >= keyLimit.windowStart) spent += amount
    left.set(key, Number(keyLimit.limit) - spent - held)
    return left
  }
}

export class CallLimits {
  readonly #calls = new Map<string, Limited>()

  note(call: string, limited: Limited): void {
    this.#calls.set(call, limited)
  }

  of(call: Row): Limited {
    return this.#calls.get(String(call['id']))!
  }

  /** `after`: with what a group does to the rows; `amid`: with all that it sets aside, and nothing of what it gives back. */
  usageIn({ open, calls }: Rows, when: 'before' | 'amid' | 'after', parts: Group['parts']): Usage {
    const usage = new Usage()
    const held = new Map([...open].map(([id, call]) => [id, call]))
    const ended = [...calls.values()]
    if (when !== 'before') {
      for (const call of parts.get('opening') ?? []) held.set(String(call['id']), call)
      for (const call of grownIn(open, parts)) held.set(String(call['id']), call)
    }
    if (when === 'after') {
      for (const { id } of parts.get('closed') ?? []) held.delete(String(id))
      ended.push(...(parts.get('ended') ?? []))
    }
    for (const call of held.values()) usage.add(this.of(call), { spent: 0, held: Number(call['hold']) }, 0)
    for (const call of ended)
      usage.add(this.of(call), { spent: Number(call['charged']), held: 0 }, Number(call['ended_at']))
    return usage
  }
}

/** The open calls whose holds a group enlarges, as they are then. */
export function grownIn(open: Rows['open'], parts: Group['parts']): readonly Row[] {
  return (parts.get('kept') ?? []).flatMap((call) => {
    const before = open.get(String(call['id']))
    return before && Number(call['hold']) > Number(before['hold']) ? [{ ...before, ...call }] : []
  })
}
