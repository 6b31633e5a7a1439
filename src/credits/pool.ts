// The four pools and who may spend them, in which order.

export const pools = ['purchased', 'welcome', 'daily', 'subscription'] as const
export type Pool = (typeof pools)[number]

/** How a call came in: with an API key, or from the app of a signed-in account. */
export type Channel = 'api' | 'app'

/**
 * The pools that may pay for a call, in spending order. An API call spends purchased credit only; an app call spends
 * daily (flash-class chat models only), subscription, welcome, purchased.
 */
export function fundingOf(channel: Channel, flashClass: boolean): readonly Pool[] {
  if (channel === 'api') return purchasedOnly
  return flashClass ? everyPool : withoutDaily
}

const purchasedOnly: readonly Pool[] = ['purchased']
const withoutDaily: readonly Pool[] = ['subscription', 'welcome', 'purchased']
const everyPool: readonly Pool[] = ['daily', ...withoutDaily]
