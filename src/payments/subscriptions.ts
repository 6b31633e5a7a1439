// Periods of subscriptions: sold elsewhere, in an app store, or as plans (plans.ts). The gateway knows account, product,
// period, and whether it was refunded; each period is a lot of the pool `subscription`.

import { z } from 'zod'
import type { Awaitable } from '../async/async.ts'
import { monthsAfter } from '../credits/calendar.ts'
import type { LedgerCommands, LedgerReader, LedgerUpkeep } from '../credits/ledger/ledger.ts'
import type { Pico } from '../credits/money.ts'
import { GatewayError } from '../errors/errors.ts'

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
