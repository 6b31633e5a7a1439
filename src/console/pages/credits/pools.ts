import type { Pool } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'

export const poolNames: Readonly<Record<Pool, string>> = {
  purchased: 'Purchased',
  subscription: 'Subscription',
  welcome: 'Welcome',
  daily: 'Daily',
}

/** What each pool pays for, in a sentence. */
export const poolRules: Readonly<Record<Pool, string>> = {
  purchased: 'API calls and chats, every model. Each top-up lasts 12 months.',
  subscription: 'Chats, every model, until the period ends.',
  welcome: 'Chats with any model that the account may use.',
  daily: 'Chats with flash-class models. New each day at 00:00 UTC.',
}

/** The order in which a chat spends them. An API call spends purchased credit alone. */
export const appOrder: readonly Pool[] = ['daily', 'subscription', 'welcome', 'purchased']

export const poolBars: Readonly<Record<Pool, string>> = {
  purchased: 'bar-1',
  subscription: 'bar-2',
  welcome: 'bar-3',
  daily: 'bar-4',
}

/** The name of a pool that a receipt has. */
export function poolName(pool: string): string {
  return t(poolNames[pool as Pool] ?? pool)
}
