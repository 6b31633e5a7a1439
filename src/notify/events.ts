// What webhooks are told of. Requests, documentation, the command's help and the guide's table follow from this list; who
// sends an event, and its name in the console (console/pages/webhooks.tsx), are all that one more needs. It imports nothing:
// the command line reads it at each start.

export interface WebhookEvent {
  /** As the guide says it. */
  readonly when: string
  /** The members of `data`: whoever sends the event gives these. */
  readonly data: readonly string[]
}

export const events = {
  'balance.low': {
    when: 'purchased credit falls below `credits.low_balance_usd`',
    data: ['available_usd', 'threshold_usd'],
  },
  'lot.expiring': {
    when: 'a top-up ends within `credits.expiring_days`',
    data: ['lot', 'remaining_usd', 'expires_at'],
  },
  'top_up.credited': {
    when: 'a payment has become credit',
    data: ['top_up', 'amount', 'currency', 'credit_usd', 'plan', 'lot', 'receipt'],
  },
  'key.created': { when: 'a key was made', data: ['key', 'name', 'mode', 'last4', 'replaces'] },
  'key.limit_reached': {
    when: 'a key has spent its limit',
    data: ['key', 'name', 'limit_usd', 'limit_window', 'spent_usd'],
  },
  'key.frozen': {
    when: 'a key was [found or seems to have leaked](people.md#a-key-that-has-leaked)',
    data: ['key', 'name', 'mode', 'last4', 'reason'],
  },
  'group.budget_reached': {
    when: "a share of a group's budget is spent",
    data: ['group', 'name', 'share', 'budget_usd', 'spent_usd', 'window', 'resets_at'],
  },
} as const satisfies Readonly<Record<string, WebhookEvent>>

export type EventType = keyof typeof events
/** An event's `data`: it has the members that its row names. */
export type EventData<Type extends EventType> = Type extends EventType
  ? Readonly<Record<(typeof events)[Type]['data'][number], unknown>>
  : never
export const eventTypes = Object.keys(events) as [EventType, ...EventType[]]
