// Periods of subscriptions: sold elsewhere, in an app store, or as plans (plans.ts). The gateway knows account, product,
// period, and whether it was refunded; each period is a lot of the pool `subscription`.

import { z } from 'zod'
import type { Act } from '../accounts/identity/identity-store.ts'
import type { Awaitable } from '../async/async.ts'
import { monthsAfter } from '../credits/calendar.ts'
import type { LedgerCommands, LedgerReader, LedgerUpkeep } from '../credits/ledger/ledger.ts'
import type { Minor, Pico } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'
import type { TopUp } from './top-up.ts'

/** `refund_reversed`: the seller has taken the money again, so that what a refund took returns. */
export const subscriptionStates = ['active', 'grace', 'ended', 'refunded', 'refund_reversed'] as const
export type SubscriptionState = (typeof subscriptionStates)[number]

const id = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,128}$/, 'must be letters, digits, dots, dashes and underscores')
const time = z.iso.datetime({ offset: true })

/** The body of POST /hooks/subscriptions. */
export const subscriptionMessage = z.lazy(() =>
  z.strictObject({
    subscription: id,
    source: z.string().regex(/^[a-z0-9_-]{1,32}$/, 'must be a short name such as play'),
    account: z.string().min(1).max(128),
    product: id,
    period: z.strictObject({ from: time, to: time }),
    state: z.enum(subscriptionStates),
    test: z.boolean().default(false),
  }),
)
export type SubscriptionMessage = z.output<typeof subscriptionMessage>

export interface Period {
  /** `subscription:<source>:<subscription>:<from>`, the source of its lot. */
  readonly period: string
  readonly source: string
  readonly subscription: string
  readonly account: string
  readonly product: string
  readonly startsAt: number
  readonly endsAt: number
  readonly state: SubscriptionState
  readonly amount: Pico
  /** null if nothing was granted: it was over or revoked before it was reported. */
  readonly lot: string | null
  /** What is taken from its lot by a refund, or when moved to the grace period. Durable before it is taken. */
  readonly takenBack: Pico | null
  /** Of a plan that opens some models alone: their patterns. */
  readonly models: readonly string[] | null
  /** When its holder said that it shall not go on. */
  readonly cancelledAt: number | null
  readonly createdAt: number
  readonly updatedAt: number
}

export interface SubscriptionStore {
  /** Reads and writes a period in one transaction; null changes nothing. */
  changePeriod(
    period: string,
    change: (current: Period | undefined) => Period | null,
  ): Awaitable<Period | undefined>
  findPeriod(period: string): Awaitable<Period | undefined>
  /** The lot that the ledger has granted for a period, whether or not the period has a note of it. */
  lotOf(period: string): Awaitable<string | undefined>
  /** Of a subscription, the latest first. */
  periodsOf(source: string, subscription: string): Awaitable<readonly Period[]>
  /** Of one account or all, latest first. */
  listPeriods(account: string | null, limit: number): Awaitable<readonly Period[]>
}

export interface Product {
  readonly credit: Pico
  readonly months: number
}

interface SubscriptionParts {
  readonly store: SubscriptionStore
  readonly ledger: Pick<LedgerCommands, 'grant' | 'now'> &
    Pick<LedgerUpkeep, 'adjust'> &
    Pick<LedgerReader, 'balance'>
  /** The account with an id, if there is one. */
  readonly accountOf: (account: string) => Awaitable<string | undefined>
  readonly products: ReadonlyMap<string, Product>
  readonly graceMs: number
  readonly now: () => number
}

/** The order of states; a message never leads back. */
const rank: Readonly<Record<SubscriptionState, number>> = {
  active: 0,
  grace: 1,
  ended: 2,
  refunded: 3,
  refund_reversed: 4,
}
/** What says that the period is paid for. */
const entitling: ReadonlySet<SubscriptionState> = new Set(['active', 'grace', 'refund_reversed'])
const mostTries = 5

export class Subscriptions {
  readonly #parts: SubscriptionParts
  /** The last message of each subscription that is being handled. */
  readonly #handled = new Map<string, Promise<unknown>>()

  constructor(parts: SubscriptionParts) {
    this.#parts = parts
  }

  /** What is sold, by product id. */
  get products(): ReadonlyMap<string, Product> {
    return this.#parts.products
  }

  /**
   * Handles a seller's message about a period. Repeated messages and any order have the same result. Resolves with the
   * period, undefined for a test message. Rejects with `invalid_request` for an unknown account or product.
   */
  async take(message: SubscriptionMessage): Promise<Period | undefined> {
    if (message.test) return undefined
    const drafted = await this.#draft(message)
    return this.#inOrder(drafted, () => this.#take(drafted))
  }

  /** Grants the credit of a paid period, or takes it back if its money went back, once. Resolves with the period. */
  settlePeriod(paid: Period): Promise<Period> {
    return this.#inOrder(paid, async () => {
      const row = await this.#parts.store.findPeriod(paid.period)
      return this.#settle(row ?? paid, 'active')
    })
  }

  /** One message of a subscription at a time: each builds on what the one before it did. */
  async #inOrder<T>(of: Pick<Period, 'source' | 'subscription'>, act: () => Promise<T>): Promise<T> {
    const name = `${of.source}:${of.subscription}`
    const handling = (this.#handled.get(name) ?? Promise.resolve()).then(act, act)
    this.#handled.set(name, handling)
    try {
      return await handling
    } finally {
      if (this.#handled.get(name) === handling) this.#handled.delete(name)
    }
  }

  async #take(drafted: Period): Promise<Period> {
    const before = await this.#parts.store.findPeriod(drafted.period)
    // Another product for the same period is an upgrade, with a lot of its own.
    const period =
      before === undefined || before.product === drafted.product
        ? drafted
        : { ...drafted, period: `${drafted.period}:${drafted.product}` }
    const row = await this.#parts.store.changePeriod(period.period, (current) => {
      if (!current) return period
      if (rank[drafted.state] <= rank[current.state]) return null
      return { ...current, state: drafted.state, updatedAt: period.updatedAt }
    })
    return this.#settle(row ?? period, drafted.state)
  }

  async #draft({
    source,
    subscription,
    account,
    product,
    period,
    state,
  }: SubscriptionMessage): Promise<Period> {
    const owner = await this.#parts.accountOf(account)
    if (owner === undefined) throw invalid('account', 'There is no such account.')
    const sold = this.#parts.products.get(product)
    if (!sold) throw invalid('product', 'It is not among subscriptions.products.')
    const [startsAt, to] = [Date.parse(period.from), Date.parse(period.to)]
    if (to <= startsAt) throw invalid('period', 'It ends before it begins.')
    const now = this.#parts.now()
    return {
      period: `subscription:${source}:${subscription}:${new Date(startsAt).toISOString()}`,
      source,
      subscription,
      account: owner,
      product,
      startsAt,
      // A period is no longer than what was paid for.
      endsAt: Math.min(to, monthsAfter(startsAt, sold.months)),
      state,
      amount: sold.credit,
      lot: null,
      takenBack: null,
      models: null,
      cancelledAt: null,
      createdAt: now,
      updatedAt: now,
    }
  }

  /** Brings the ledger up to date with the period. Each step is done once, however often this runs. */
  async #settle(period: Period, reported: SubscriptionState): Promise<Period> {
    const known = await this.#withLot(period)
    // The end of a period does not say whether it was paid for.
    const entitles = entitling.has(reported) && known.state !== 'refunded'
    const row = known.lot === null && entitles ? await this.#grant(known) : known
    switch (row.state) {
      case 'active':
        return row
      case 'grace':
        return this.#moveToGrace(row)
      case 'ended':
        // Killed while its rest was moved to the grace period, which has ended meanwhile.
        return row.takenBack === null ? row : this.#moveToGrace(row)
      case 'refunded':
        return this.#takeBack(row)
      case 'refund_reversed':
        return this.#giveBack(row)
    }
  }

  /** A process may have been killed between a grant and the note of it. */
  async #withLot(row: Period): Promise<Period> {
    if (row.lot !== null) return row
    const lot = await this.#parts.store.lotOf(row.period)
    return lot === undefined ? row : this.#change(row, (current) => ({ ...current, lot }))
  }

  async #grant(row: Period): Promise<Period> {
    const { ledger, store } = this.#parts
    // First reported in its grace period, it has no earlier lot: all of its credit is that period's.
    if (row.state === 'grace' || (await store.findPeriod(graceOf(row)))) {
      const { lot } = await this.#addGracePeriod(row, row.amount)
      if (lot === null) return row
      return this.#change(row, (current) => ({ ...current, lot, takenBack: 0n }))
    }
    const { period: source, account, amount, endsAt: expiresAt } = row
    if (expiresAt <= ledger.now()) return row
    const credit = { source, account, pool: 'subscription', amount, expiresAt, from: 'subscription' } as const
    const { lot } = await ledger.grant(credit)
    return this.#change(row, (current) => ({ ...current, lot: current.lot ?? lot }))
  }

  /**
   * Takes the free rest of a period's lot, once. Credit held by calls in flight stays with them. Rejects with
   * `overloaded` if calls took some of it at each try.
   */
  async #takeRest(row: Period): Promise<Period> {
    if (row.lot === null) return row
    let current = row
    for (let tries = 0; tries < mostTries; tries++) {
      const rest = current.takenBack ?? (await this.#freeOf(current))
      // Recorded first, so that the same amount is taken after a crash in between.
      current = await this.#change(current, (now) => ({ ...now, takenBack: now.takenBack ?? rest }))
      const amount = current.takenBack ?? 0n
      if (amount === 0n || (await this.#tryToAdjust(current, amount))) return current
      // A call has taken some of it in between.
      current = await this.#change(current, (now) => ({ ...now, takenBack: null }))
    }
    throw new GatewayError('overloaded')
  }

  async #moveToGrace(row: Period): Promise<Period> {
    const taken = await this.#takeRest(row)
    if (taken.takenBack) await this.#addGracePeriod(taken, taken.takenBack)
    return taken
  }

  /** In the grace period `amount` lasts some days longer, as a lot and a period of its own, which is returned. */
  async #addGracePeriod(row: Period, amount: Pico): Promise<Period> {
    const endsAt = row.endsAt + this.#parts.graceMs
    const moved: Period = {
      ...row,
      period: graceOf(row),
      state: 'active',
      amount,
      endsAt,
      lot: null,
      takenBack: null,
    }
    const kept = await this.#parts.store.changePeriod(moved.period, (current) => (current ? null : moved))
    return this.#settle(kept ?? moved, 'active')
  }

  /** Takes what is left of a refunded period, and of its grace period if the rest was moved there. */
  async #takeBack(row: Period): Promise<Period> {
    const taken = await this.#takeRest(row)
    const moved = await this.#parts.store.findPeriod(graceOf(row))
    if (moved) await this.#settleAs(moved, 'refunded')
    return taken
  }

  /** Returns what a refund has taken: of the period, or of its grace period if the rest was moved there. */
  async #giveBack(row: Period): Promise<Period> {
    const { store, ledger } = this.#parts
    const moved = await store.findPeriod(graceOf(row))
    if (moved) {
      await this.#settleAs(moved, 'refund_reversed')
      return row
    }
    if (row.takenBack === null || row.takenBack === 0n || row.endsAt <= ledger.now()) return row
    // Killed before it was taken: it must not return more than was there.
    const { takenBack: amount, period, account, endsAt: expiresAt } = await this.#takeRest(row)
    if (amount === null || amount === 0n) return row
    await ledger.adjust({ id: `${period}:returned`, account, pool: 'subscription', amount, expiresAt })
    return row
  }

  async #settleAs(moved: Period, state: SubscriptionState): Promise<void> {
    await this.#settle(await this.#change(moved, (current) => ({ ...current, state })), state)
  }

  async #tryToAdjust({ period, account, lot }: Period, taken: Pico): Promise<boolean> {
    try {
      const adjust = { id: `${period}:taken`, account, pool: 'subscription', amount: -taken } as const
      // Of its own lot: without it, the period that ends first would lose what another one's refund takes.
      await this.#parts.ledger.adjust({ ...adjust, lot: lot! })
      return true
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'invalid_request') return false
      throw error
    }
  }

  async #change(row: Period, change: (current: Period) => Period): Promise<Period> {
    const changed = await this.#parts.store.changePeriod(row.period, (current) => change(current ?? row))
    return changed ?? row
  }

  async #freeOf({ account, lot: id }: Period): Promise<Pico> {
    const balance = await this.#parts.ledger.balance(account)
    const lot = balance.lots.find((other) => other.id === id)
    const over = lot && lot.expiresAt !== null && lot.expiresAt <= this.#parts.ledger.now()
    return lot && !over ? lot.remaining - lot.pinned : 0n
  }

  /** Ends a subscription by hand: `ended`, or refunded. Resolves with its periods. */
  end(source: string, subscription: string, state: 'ended' | 'refunded'): Promise<readonly Period[]> {
    return this.#inOrder({ source, subscription }, () => this.#end(source, subscription, state))
  }

  async #end(source: string, subscription: string, state: 'ended' | 'refunded'): Promise<readonly Period[]> {
    const { store, now } = this.#parts
    for (const { period } of await store.periodsOf(source, subscription)) {
      const row = await store.changePeriod(period, (current) =>
        current && rank[current.state] < rank[state] ? { ...current, state, updatedAt: now() } : null,
      )
      if (row) await this.#settle(row, state)
    }
    return store.periodsOf(source, subscription)
  }
}

function graceOf({ period }: Pick<Period, 'period'>): string {
  return `${period}:grace`
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param}: ${message}`, param })
}

// Plans: a price that grants subscription credit, and models, for a period. A period is paid as a top-up is, and kept and
// granted as those of subscriptions that are sold elsewhere. Nothing renews itself: another payment is another period.

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
