// Plans: a price that grants subscription credit, and models, for a period. A period is paid as a top-up is, and kept and
// granted as those of subscriptions that are sold elsewhere. Nothing renews itself: another payment is another period.

import type { Act } from '../accounts/identity/identity-store.ts'
import type { Awaitable } from '../async/async.ts'
import { monthsAfter } from '../credits/calendar.ts'
import type { Minor, Pico } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'
import type { Period, Subscriptions } from './subscriptions.ts'
import type { TopUp } from './top-up.ts'

/** The source of the periods of plans. A seller outside cannot have it: theirs have no dot. */
export const planSource = 'weir.plan'

export interface PlanOnSale {
  readonly id: string
  readonly title: string
  readonly about: string | null
  readonly credit: Pico
  /** How long a period is. */
  readonly months: number
  /** Patterns of the models that it opens; null for all, while there is credit of it. */
  readonly models: readonly string[] | null
  /** What a period costs, by currency. */
  readonly prices: ReadonlyMap<string, Minor>
}

/** Milliseconds since 1970. */
type Span = Pick<Period, 'startsAt' | 'endsAt'>

export interface PlanQuery {
  readonly account?: string | undefined
  readonly plan?: string | undefined
  readonly after?: Pick<Period, 'startsAt' | 'period'> | undefined
  readonly now: number
  readonly limit: number
}

/** A period of a plan that has no place in time yet. */
export type UnplacedPeriod = Omit<Period, 'period' | 'startsAt' | 'endsAt'>

export interface PlanStore {
  /**
   * Adds a period where `place` puts it among the account's other periods of plans that have not ended at `now`, in one
   * transaction, with what `actOf` says an operator has done; the one that is there if it was added before.
   */
  placePeriod(
    unplaced: UnplacedPeriod,
    now: number,
    place: (others: readonly Period[]) => Span,
    actOf?: (period: Period) => Act,
  ): Awaitable<Period>
  /**
   * Moves the account's active periods of plans without a lot, also none that they have no note of, to where `place` puts
   * each among those that begin before it, in one transaction, with what their payments say of them. undefined leaves one
   * where it is. Gives those that were moved.
   */
  movePeriods(
    account: string,
    now: number,
    place: (period: Period, before: readonly Period[]) => Span | undefined,
  ): Awaitable<readonly Period[]>
  /** The periods of plans of an account that have not ended at `now`, the first one first. */
  plansOf(account: string, now: number, limit: number): Awaitable<readonly Period[]>
  /**
   * Those of all accounts, or of one, and of one plan if it is given, but for those that were taken back: the last to begin
   * first, after the last of the page before.
   */
  pagePlans(query: PlanQuery): Awaitable<readonly Period[]>
  /** Periods without a lot that have not ended at `now` and begin until `until`. */
  duePlans(now: number, until: number, limit: number): Awaitable<readonly Period[]>
  /** Periods that end after `now` and until `until`, whose holder was not reminded and has not cancelled. */
  endingPlans(now: number, until: number, limit: number): Awaitable<readonly Period[]>
  /** Whether the caller may remind of its end: only one may. */
  claimReminder(period: string, at: number): Awaitable<boolean>
  /** Notes that the plans of an account shall not go on after the periods that are paid. */
  cancelPlans(account: string, at: number): Awaitable<void>
}

/** What the plans of an account open to its chats. */
interface OpenedModels {
  /** Patterns of models. */
  readonly models: readonly string[]
  /** The lots of plans that open these alone. */
  readonly lots: ReadonlySet<string>
}

interface PlanParts {
  readonly plans: ReadonlyMap<string, PlanOnSale>
  readonly store: PlanStore
  readonly subscriptions: Pick<Subscriptions, 'settlePeriod' | 'end'>
  readonly now: () => number
  /** Reports something that an operator must look at. */
  readonly alarm: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

/** The credit of a period that follows another is granted so much before it begins: so there is no gap. Milliseconds. */
const aheadMs = 60_000
/** What begins so soon is not moved: another gateway, whose clock may be ahead, may be granting it. Milliseconds. */
const soonMs = 10 * 60_000
const perSweep = 200
/** An account has a few periods; more are not looked at. */
const mostOfAccount = 100

/**
 * Where a period of this credit begins: after those of as much credit or more, which it renews or follows; beside
 * smaller ones at once.
 */
export function planStart(
  others: readonly Pick<Period, 'amount' | 'endsAt' | 'state'>[],
  credit: Pico,
  now: number,
): number {
  const before = others.filter(({ amount, state }) => amount >= credit && state !== 'refunded')
  return Math.max(now, ...before.map(({ endsAt }) => endsAt))
}

/** When a period of the same length ends that begins at `from`: so many months later, or as long where it is no number of them. */
function endFrom(from: number, { startsAt, endsAt }: Span): number {
  let months = 1
  while (monthsAfter(startsAt, months) < endsAt) months++
  return monthsAfter(startsAt, months) === endsAt ? monthsAfter(from, months) : from + endsAt - startsAt
}

/** The ledger does not take the credit: the account would have too much, or the period was granted something else. */
const refusals: ReadonlySet<string> = new Set(['invalid_request', 'idempotency_conflict'])

export class Plans {
  readonly #parts: PlanParts
  /** Periods that this process has raised an alarm for. */
  readonly #refused = new Set<string>()

  constructor(parts: PlanParts) {
    this.#parts = parts
  }

  /** What is sold, in the order of the configuration. */
  get sold(): readonly PlanOnSale[] {
    return [...this.#parts.plans.values()]
  }

  /** Throws `not_found`. */
  plan(id: string): PlanOnSale {
    const plan = this.#parts.plans.get(id)
    if (!plan) throw new GatewayError('not_found', { message: 'There is no such plan.' })
    return plan
  }

  /**
   * Begins the period that a top-up has paid for, once, however often this runs. Resolves with the period; its credit is
   * there when it begins.
   */
  async begin({ id, account, plan, credit }: TopUp): Promise<Period> {
    if (plan === null) throw new Error(`${id} pays for no plan`)
    return this.#place({ subscription: id, account, credit, ...plan, product: plan.id })
  }

  async #place(
    wanted: {
      readonly subscription: string
      readonly account: string
      readonly product: string
      readonly credit: Pico
      readonly months: number
      readonly models: readonly string[] | null
    },
    actOf?: (period: Period) => Act,
  ): Promise<Period> {
    const { store, now } = this.#parts
    const at = now()
    const { subscription, account, product, credit: amount, months, models } = wanted
    const unplaced: UnplacedPeriod = {
      source: planSource,
      subscription,
      account,
      product,
      state: 'active',
      amount,
      lot: null,
      takenBack: null,
      models,
      cancelledAt: null,
      createdAt: at,
      updatedAt: at,
    }
    const place = (others: readonly Period[]) => {
      const startsAt = planStart(others, amount, at)
      return { startsAt, endsAt: monthsAfter(startsAt, months) }
    }
    const period = await store.placePeriod(unplaced, at, place, actOf)
    return this.#settle(period)
  }

  /** Grants the credit of a period that has begun, or begins in a moment. */
  async #settle(period: Period): Promise<Period> {
    if (period.startsAt > this.#parts.now() + aheadMs) return period
    return this.#parts.subscriptions.settlePeriod(period)
  }

  /**
   * Ends the period that a top-up has paid for, and takes what is left of its credit: its money went back. Periods that
   * were to follow it begin sooner.
   */
  async takeBack({ id, account }: Pick<TopUp, 'id' | 'account'>): Promise<void> {
    await this.#parts.subscriptions.end(planSource, id, 'refunded')
    await this.advance(account)
  }

  /**
   * Lets periods that are paid, and have not begun, begin as soon as those that are left before them allow: who has had
   * one taken back is not to wait for the next. One whose credit is granted, or about to be, stays where it is.
   */
  async advance(account: string): Promise<void> {
    const { store, now } = this.#parts
    const at = now()
    const moved = await store.movePeriods(account, at, (period, before) => {
      if (period.startsAt <= at + soonMs) return undefined
      const startsAt = planStart(before, period.amount, at)
      return startsAt < period.startsAt ? { startsAt, endsAt: endFrom(startsAt, period) } : undefined
    })
    for (const period of moved) await this.#sweepOne(period)
  }

  /** A period by hand, once for `id`, with the act of its operator. Rejects with `not_found` and `idempotency_conflict`. */
  async grant(account: string, planId: string, id: string, operator: string): Promise<Period> {
    const { credit, months, models } = this.plan(planId)
    const subscription = `by-hand-${id}`
    const wanted = { subscription, account, product: planId, credit, months, models }
    const period = await this.#place(wanted, ({ startsAt, endsAt, createdAt: at }) => {
      const [from, to] = [startsAt, endsAt].map((time) => new Date(time).toISOString())
      const after = { plan: planId, id, source: planSource, subscription, from, to }
      return { at, operator, what: 'plan.grant', subject: account, before: null, after }
    })
    if (period.account === account && period.product === planId) return period
    throw new GatewayError('idempotency_conflict', {
      message: 'The id was used for another account or plan.',
      param: 'id',
    })
  }

  /** The periods of an account that run or will, the first one first. */
  async periodsOf(account: string): Promise<readonly Period[]> {
    const { store, now } = this.#parts
    const periods = await store.plansOf(account, now(), mostOfAccount)
    return periods.filter(({ state }) => state !== 'refunded')
  }

  /** Its periods go on to their end, and nobody is reminded to renew them. */
  async cancel(account: string): Promise<void> {
    await this.#parts.store.cancelPlans(account, this.#parts.now())
  }

  /** The models that the running plans of an account open, beside what its credit does. */
  async modelsOf(account: string): Promise<OpenedModels> {
    const at = this.#parts.now()
    const periods = await this.periodsOf(account)
    const limited = periods.filter(({ models }) => models !== null)
    const running = limited.filter(({ startsAt }) => startsAt <= at)
    return {
      models: running.flatMap(({ models }) => models ?? []),
      lots: new Set(limited.flatMap(({ lot }) => lot ?? [])),
    }
  }

  /** Grants what begins now. Resolves with the number looked at. */
  async sweep(now: number): Promise<number> {
    const due = await this.#parts.store.duePlans(now, now + aheadMs, perSweep)
    for (const period of due) await this.#sweepOne(period)
    return due.length
  }

  /** One that the ledger refuses holds up no other, and is told of once. */
  async #sweepOne(period: Period): Promise<void> {
    try {
      await this.#settle(period)
    } catch (error) {
      if (!(error instanceof GatewayError) || !refusals.has(error.code)) throw error
      if (this.#refused.has(period.period)) return
      this.#refused.add(period.period)
      const { account, period: named } = period
      this.#parts.alarm('a plan needs an operator', {
        problem: 'not_creditable',
        period: named,
        account,
        error,
      })
    }
  }
}

// Reminders: one mail before the last paid period of an account ends.

interface ReminderParts {
  readonly store: Pick<PlanStore, 'plansOf' | 'endingPlans' | 'claimReminder'>
  /** How long before the end, milliseconds; zero for no reminders. */
  readonly aheadMs: number
  /** The address of an account that can be written to; undefined where there is none. */
  readonly addressOf: (account: string) => Awaitable<string | undefined>
  /** Rejects if it was not sent. */
  readonly send: (mail: { to: string; subject: string; text: string }) => Promise<void>
  readonly titleOf: (plan: string) => string
  /** The page of the plans. */
  readonly page: () => string
  readonly onFailure: (error: unknown) => void
}

/** Reminds of what ends soon, each once, over all processes. A mail that could not be sent is not sent again. */
export async function remindOfEnds(parts: ReminderParts, now: number): Promise<void> {
  const { store, aheadMs: ahead } = parts
  if (ahead === 0) return
  for (const period of await store.endingPlans(now, now + ahead, perSweep)) {
    const { account, product, endsAt } = period
    const others = await store.plansOf(account, now, mostOfAccount)
    if (!(await store.claimReminder(period.period, now))) continue
    // What follows it was paid already.
    if (others.some((other) => other.state !== 'refunded' && other.endsAt > endsAt)) continue
    const to = await parts.addressOf(account)
    if (to === undefined) continue
    const title = parts.titleOf(product)
    const day = new Date(endsAt).toISOString().slice(0, 10)
    const text =
      `Your plan ${title} ends on ${day} (UTC). It does not renew itself, and nothing is charged.\n\n` +
      `To go on, pay for another period; it begins when this one ends:\n${parts.page()}\n`
    try {
      await parts.send({ to, subject: `Your plan ${title} ends on ${day}`, text })
    } catch (error) {
      parts.onFailure(error)
    }
  }
}
