// The pools of credit: who may spend them, in which order, and how long their credit lasts. A new pool is a row here;
// test/credits/pool.test.ts names what else it needs. It imports nothing: the command line reads it at each start.

interface PoolRules {
  /** Whether calls with an API key spend it. Chats of the app spend every pool. */
  readonly api: boolean
  /** Spent by chats with flash-class models alone. */
  readonly flashOnly: boolean
  /** Whether premium models are open to who may spend it while it is positive. */
  readonly opensPremium: boolean
  /** How long a grant lasts that does not say so: until the end of its UTC day, or `named`: each grant must say so. */
  readonly life: '12 months' | 'day' | 'endless' | 'named'
}

const poolRules = {
  purchased: { api: true, flashOnly: false, opensPremium: true, life: '12 months' },
  welcome: { api: false, flashOnly: false, opensPremium: false, life: 'endless' },
  daily: { api: false, flashOnly: true, opensPremium: false, life: 'day' },
  subscription: { api: false, flashOnly: false, opensPremium: true, life: 'named' },
} as const satisfies Readonly<Record<string, PoolRules>>

export type Pool = keyof typeof poolRules
export const pools = Object.keys(poolRules) as [Pool, ...Pool[]]

export function rulesOf(pool: Pool): PoolRules {
  return poolRules[pool]
}

/** The order in which a chat spends them. */
const spendingOrder: readonly Pool[] = ['daily', 'subscription', 'welcome', 'purchased']
const purchasedOnly = spendingOrder.filter((pool) => rulesOf(pool).api)
const withoutDaily = spendingOrder.filter((pool) => !rulesOf(pool).flashOnly)

/** How a call came in: with an API key, or from the app of a signed-in account. */
export type Channel = 'api' | 'app'

/**
 * The pools that may pay for a call, in spending order. An API call spends purchased credit only; an app call spends
 * daily (flash-class chat models only), subscription, welcome, purchased.
 */
export function fundingOf(channel: Channel, flashClass: boolean): readonly Pool[] {
  if (channel === 'api') return purchasedOnly
  return flashClass ? spendingOrder : withoutDaily
}
