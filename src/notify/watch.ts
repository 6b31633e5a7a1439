// Watches accounts with webhooks for low balances, expiring lots and used-up keys. Independent of calls; accounts
// without webhooks cost nothing.

import type { AccountStore } from '../accounts/account.ts'
import { type ApiKey, keyState } from '../accounts/api-key.ts'
import { windowStart } from '../accounts/spend-window.ts'
import type { LedgerStore } from '../credits/ledger/ledger.ts'
import { formatUsd } from '../credits/money.ts'
import { noticesOf, type Thresholds } from './notices.ts'
import type { EventType, WebhookStore } from './webhook.ts'

export interface WatchParts {
  readonly store: Pick<WebhookStore, 'accountsWanting' | 'emit'>
  readonly accounts: Pick<AccountStore, 'listKeys'>
  readonly ledger: Pick<LedgerStore, 'balance' | 'totals' | 'keySpend'>
  readonly thresholds: Thresholds
  readonly now: () => number
}

const watched: readonly EventType[] = ['balance.low', 'lot.expiring', 'key.limit_reached']
const perStep = 50
const mostRefused = 10_000

export class AccountWatch {
  readonly #parts: WatchParts
  /** When the limit of a key last refused a call since the last check, by its id, milliseconds since 1970. */
  #refused = new Map<string, number>()

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /** Notes an ended call: a key may reach its limit before it has spent all of it. Never throws. */
  callEnded({ key, code }: { readonly key: string | null; readonly code: string | null }): void {
    if (code === 'key_limit_exceeded' && key !== null) this.#note(key, this.#parts.now())
  }

  #note(key: string, at: number): void {
    if (this.#refused.size < mostRefused || this.#refused.has(key)) this.#refused.set(key, at)
  }

  /** Checks all accounts with webhooks, in short steps. */
  async look(): Promise<void> {
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
    const { purchased } = await ledger.totals(account)
    for (const notice of noticesOf(await ledger.balance(account), purchased, at, thresholds)) {
      if (notice.kind === 'balance_low') {
        const { available, threshold } = notice
        const data = { available_usd: formatUsd(available), threshold_usd: formatUsd(threshold) }
        // Sent once per purchase: the next purchase re-arms it.
        await store.emit({ account, type: 'balance.low', source: `balance.low:${purchased}`, at, data })
      } else {
        const { lot, remaining, expiresAt } = notice
        const data = {
          lot,
          remaining_usd: formatUsd(remaining),
          expires_at: new Date(expiresAt).toISOString(),
        }
        await store.emit({ account, type: 'lot.expiring', source: `lot.expiring:${lot}`, at, data })
      }
    }
    for (const key of await accounts.listKeys(account)) await this.#lookAtKey(key, refused.get(key.id), at)
  }

  async #lookAtKey(key: ApiKey, refusedAt: number | undefined, at: number): Promise<void> {
    const { store, ledger } = this.#parts
    const { id, account, name, spendLimit, limitWindow } = key
    if (spendLimit === null || keyState(key, at) !== 'active') return
    const since = windowStart(limitWindow, at)
    const { spent } = await ledger.keySpend(id, since)
    // A refusal in the window before says nothing about this one.
    if (spent < spendLimit && (refusedAt === undefined || refusedAt < since)) return
    const data = {
      key: id,
      name,
      limit_usd: formatUsd(spendLimit),
      limit_window: limitWindow,
      spent_usd: formatUsd(spent),
    }
    const source = `key.limit_reached:${id}:${since}:${spendLimit}`
    await store.emit({ account, type: 'key.limit_reached', source, at, data })
  }
}
