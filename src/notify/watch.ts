// Watches accounts with webhooks for low balances, expiring lots, used-up keys and budgets. Independent of calls; accounts
// without webhooks cost nothing.

import { type Account, type AccountStore, type ApiKey, keyState, windowStart } from '../accounts/account.ts'
import type { Awaitable } from '../async/async.ts'
import { type GroupStore, scopeOf, windowAt } from '../accounts/group.ts'
import { remainingIn } from '../credits/wallet.ts'
import type { Balance, LedgerStore } from '../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../credits/money.ts'
import type { EventData, EventType } from './events.ts'
import type { AccountEvent, WebhookStore } from './webhook.ts'

/** What has ended at all gateways of a database, a moment ago. Reject with `store_unavailable`. */
export interface RecentCalls {
  /** What calls have cost, US dollars, and how many were refused with each code, of those that ended in a stretch of time. */
  totals(from: number, until: number): Promise<CallTotals>
  /** Accounts whose calls have cost something since. */
  spenders(since: number): Promise<ReadonlySet<string>>
  /** When the limit of each key has refused a call since, the last time, milliseconds since 1970. */
  refusedKeys(since: number): Promise<ReadonlyMap<string, number>>
}

export interface CallTotals {
  readonly costUsd: number
  readonly refusals: ReadonlyMap<string, number>
}

interface WatchParts {
  readonly store: Pick<WebhookStore, 'accountsWanting' | 'lastSource'> & {
    emit<Type extends Watched>(event: AccountEvent<Type>): Awaitable<void>
  }
  readonly accounts: Pick<AccountStore, 'pageKeys' | 'findAccount'>
  readonly groups: Pick<GroupStore, 'membershipsOf' | 'findGroup'>
  readonly ledger: Pick<LedgerStore, 'balance' | 'totals' | 'keySpend' | 'budgetSpend'>
  /** Grants what an account has each month, unless it has got that. */
  readonly grantMonthly: (account: Account) => Promise<void>
  readonly thresholds: Thresholds
  /** Of other gateways too; undefined where this one knows of every call. */
  readonly recent?: Pick<RecentCalls, 'spenders' | 'refusedKeys'> | undefined
  readonly now: () => number
}

const watched = [
  'balance.low',
  'lot.expiring',
  'key.limit_reached',
  'group.budget_reached',
] as const satisfies readonly EventType[]
/** What the watch may send: accounts that have webhooks for none of these are not looked at. */
type Watched = (typeof watched)[number]
const perStep = 50
const mostRefused = 10_000
const mostSpenders = 10_000
/** How long a row of another gateway may take to be read here, and how far back the first look goes, milliseconds. */
const lateMs = 10_000
const firstLookMs = 600_000
/** A key that has spent this part of its limit after it refused a call had not reached it. */
const servedPart = 10n

/** What is noted of a call that has ended. */
interface EndedCall {
  readonly account: string
  readonly key: string | null
  readonly code: string | null
  readonly cost: Pico
}

export class AccountWatch {
  readonly #parts: WatchParts
  /** When the limit of a key last refused a call since the last check, by its id, milliseconds since 1970. */
  #refused = new Map<string, number>()
  #spenders = new Set<string>()
  /** Up to when the calls of all gateways were looked through: for refusals, and for spenders. */
  #refusedUntil: number | undefined
  #spentUntil: number | undefined
  /** Subjects that were within their limit after their last event: beyond it again, they get a new one. */
  readonly #recovered = new Set<string>()

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /**
   * Notes who has spent something, and a call that was refused for what its key has spent, whatever calls in flight hold.
   * Never throws.
   */
  callEnded({ account, key, code, cost }: EndedCall): void {
    if (this.#parts.recent !== undefined) return
    if (cost > 0n && this.#spenders.size < mostSpenders) this.#spenders.add(account)
    if (code === 'key_limit_exceeded' && key !== null) this.#note(key, this.#parts.now())
  }

  /** The accounts that have spent something since the last time that this was called. */
  async takeSpenders(): Promise<ReadonlySet<string>> {
    const here = this.#spenders
    this.#spenders = new Set()
    const { recent, now } = this.#parts
    if (recent === undefined) return here
    const at = now()
    const spenders = await recent.spenders((this.#spentUntil ?? at - firstLookMs) - lateMs)
    this.#spentUntil = at
    return spenders
  }

  #note(key: string, at: number): void {
    if (this.#refused.size < mostRefused || this.#refused.has(key)) this.#refused.set(key, at)
  }

  /** Checks all accounts with webhooks, in short steps. */
  async look(): Promise<void> {
    const { recent, now } = this.#parts
    const at = now()
    if (recent !== undefined) {
      await this.#lookAtAll(await recent.refusedKeys((this.#refusedUntil ?? at - firstLookMs) - lateMs))
      this.#refusedUntil = at
      return
    }
    const refused = this.#refused
    this.#refused = new Map()
    try {
      await this.#lookAtAll(refused)
    } catch (error) {
      // The next round must know them too: nothing is reported twice, since each report has a source of its own.
      for (const [key, at] of refused) if (!this.#refused.has(key)) this.#note(key, at)
      throw error
    }
  }

  async #lookAtAll(refused: ReadonlyMap<string, number>): Promise<void> {
    let after = ''
    for (;;) {
      const accounts = await this.#parts.store.accountsWanting(watched, after, perStep)
      for (const account of accounts) {
        await this.#lookAt(account, refused)
        await Bun.sleep(0)
      }
      if (accounts.length < perStep) return
      after = accounts.at(-1)!
    }
  }

  async #lookAt(account: string, refused: ReadonlyMap<string, number>): Promise<void> {
    const { store, accounts, ledger, thresholds, now } = this.#parts
    const at = now()
    // Before its first call of a month an account has nothing of what that call will spend.
    const found = await accounts.findAccount(account)
    if (found && !found.suspended) await this.#parts.grantMonthly(found)
    const { purchased } = await ledger.totals(account)
    const notices = noticesOf(await ledger.balance(account), purchased, at, thresholds)
    await this.#lookAtBalance(account, notices.find(isLow), purchased, at)
    for (const notice of notices) {
      if (notice.kind !== 'lot_expiring') continue
      const { lot, remaining, expiresAt } = notice
      const data = {
        lot,
        remaining_usd: formatUsd(remaining),
        expires_at: new Date(expiresAt).toISOString(),
      }
      await store.emit({ account, type: 'lot.expiring', source: `lot.expiring:${lot}`, at, data })
    }
    for await (const key of keysOf(accounts, account, at)) await this.#lookAtKey(key, refused.get(key.id), at)
    for (const { group, role } of await this.#parts.groups.membershipsOf(account))
      if (role === 'admin') await this.#lookAtGroup(account, group, at)
  }

  /** Tells an admin of the highest share of the group's budget that is spent, each share once in a window. */
  async #lookAtGroup(account: string, id: string, at: number): Promise<void> {
    const { groups, ledger, store } = this.#parts
    const group = await groups.findGroup(id)
    if (!group || group.budget === null || group.warnAt.length === 0) return
    const { start, end } = windowAt(group.window, group.timezone, at)
    const [spend] = await ledger.budgetSpend([{ scope: scopeOf(id), windowStart: start }])
    const spent = spend?.spent ?? 0n
    const share = group.warnAt.findLast((part) => spent * 1_000_000n >= group.budget! * millionths(part))
    if (share === undefined) return
    const type = 'group.budget_reached'
    const data = {
      group: id,
      name: group.name,
      share,
      budget_usd: formatUsd(group.budget),
      spent_usd: formatUsd(spent),
      window: group.window,
      resets_at: end === null ? null : new Date(end).toISOString(),
    }
    const source = `${type}:${id}:${start}:${group.budget}:${share}`
    await store.emit({ account, type, source, at, data })
  }

  async #lookAtBalance(
    account: string,
    low: LowBalance | undefined,
    purchased: Pico,
    at: number,
  ): Promise<void> {
    const type = 'balance.low'
    const subject = { account, type, name: type } as const
    if (low === undefined) return this.#onWithin(subject)
    const { available, threshold } = low
    const data = { available_usd: formatUsd(available), threshold_usd: formatUsd(threshold) }
    const crossing = `${type}:${purchased}:${at}`
    // What was bought and spent between two looks was above.
    const isSame = (before: string) => purchased - BigInt(before.split(':')[0]!) < threshold
    await this.#onBeyond(subject, crossing, data, at, isSame)
  }

  async #lookAtKey(key: ApiKey, refusedAt: number | undefined, at: number): Promise<void> {
    const { ledger } = this.#parts
    const { id, account, name, spendLimit, limitWindow } = key
    if (spendLimit === null || keyState(key, at) !== 'active') return
    const type = 'key.limit_reached'
    const subject = { account, type, name: `${type}:${id}` } as const
    const since = windowStart(limitWindow, at)
    const line = `${since}:${spendLimit}:`
    const { spent } = await ledger.keySpend(id, since)
    // A key may reach its limit before it has spent all of it. A refusal in the window before says nothing of this one.
    const isReached = spent >= spendLimit || (refusedAt !== undefined && refusedAt >= since)
    if (!isReached) {
      // That no call was refused since the last look does not mean that one would be served.
      const before = await this.#lastOf(subject)
      if (before?.startsWith(line) !== true) this.#onWithin(subject)
      return
    }
    const data = {
      key: id,
      name,
      limit_usd: formatUsd(spendLimit),
      limit_window: limitWindow,
      spent_usd: formatUsd(spent),
    }
    const crossing = `${subject.name}:${line}${spent}:${at}`
    await this.#onBeyond(subject, crossing, data, at, (before) => {
      if (!before.startsWith(line)) return false
      // If much was served after a call was refused, the limit had not been reached.
      const [, , spentThen = ''] = before.split(':')
      return spentThen === '' || spent - BigInt(spentThen) < spendLimit / servedPart
    })
  }

  /**
   * Emits an event for a new crossing, or the last one again for webhooks that were added since. `isSame` says, by what
   * follows the name in the source of the last event, whether this is still the same crossing.
   */
  async #onBeyond<Type extends Watched>(
    { account, type, name }: Subject<Type>,
    crossing: string,
    data: EventData<Type>,
    at: number,
    isSame: (before: string) => boolean,
  ): Promise<void> {
    const subject = name + account
    const before = this.#recovered.has(subject) ? undefined : await this.#lastOf({ account, name })
    const source = before !== undefined && isSame(before) ? `${name}:${before.slice(0, -1)}` : crossing
    await this.#parts.store.emit({ account, type, source, at, data })
    this.#recovered.delete(subject)
  }

  /** What follows the name in the source of its last event, and a colon; older versions wrote less of it. */
  async #lastOf({ account, name }: Pick<Subject, 'account' | 'name'>): Promise<string | undefined> {
    const source = await this.#parts.store.lastSource(account, name)
    return source === undefined ? undefined : `${source.slice(name.length + 1)}:`
  }

  /** The next crossing is a new event. */
  #onWithin({ account, name }: Subject): void {
    this.#recovered.add(name + account)
  }
}

function millionths(share: number): bigint {
  return BigInt(Math.round(share * 1_000_000))
}

/** What has a limit: an account, or one of its keys. */
interface Subject<Type extends Watched = Watched> {
  readonly account: string
  readonly type: Type
  /** How the sources of its events begin. */
  readonly name: string
}

type LowBalance = Extract<Notice, { kind: 'balance_low' }>

function isLow(notice: Notice): notice is LowBalance {
  return notice.kind === 'balance_low'
}

const keysAtOnce = 200

/** All keys of an account, a page at a time: thousands at once would hold calls up. */
async function* keysOf(
  accounts: WatchParts['accounts'],
  account: string,
  now: number,
): AsyncGenerator<ApiKey> {
  for (let after: string | undefined; ;) {
    const asked = { account, limit: keysAtOnce, after, state: 'all', now, endedAfter: now } as const
    const { keys, next } = await accounts.pageKeys(asked)
    yield* keys
    if (next === null) return
    after = next
    await new Promise((resolve) => setImmediate(resolve))
  }
}

// What an account should be told about its credit before it runs out. Pure.

export interface Thresholds {
  /** Purchased credit below this is low, what calls in flight hold included; 0 disables the notice. */
  readonly lowBalance: Pico
  /** A lot that ends within this time is expiring; 0 disables the notice. */
  readonly expiringMs: number
}

export type Notice =
  | { readonly kind: 'balance_low'; readonly available: Pico; readonly threshold: Pico }
  | {
      readonly kind: 'lot_expiring'
      readonly lot: string
      readonly remaining: Pico
      readonly expiresAt: number
    }

/**
 * The notices of an account at `at`. Only for purchased credit, because other pools renew themselves. An account that
 * has never bought any (`purchased`: total bought so far) is not told that it is low.
 */
export function noticesOf(
  balance: Balance,
  purchased: Pico,
  at: number,
  limits: Thresholds,
): readonly Notice[] {
  // What is held is not spent: most of it comes back.
  const available = remainingIn(balance, 'purchased', at)
  const isLow = purchased > 0n && available < limits.lowBalance
  const low: Notice[] = isLow ? [{ kind: 'balance_low', available, threshold: limits.lowBalance }] : []
  const expiring = balance.lots.flatMap(({ id, pool, remaining, expiresAt }): Notice[] => {
    const ends = expiresAt !== null && expiresAt > at && expiresAt - at <= limits.expiringMs
    if (!ends || pool !== 'purchased' || remaining <= 0n) return []
    return [{ kind: 'lot_expiring', lot: id, remaining, expiresAt }]
  })
  return [...low, ...expiring]
}
