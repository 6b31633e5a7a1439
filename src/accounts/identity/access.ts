// What lets somebody into an account or acts for it, and what each change of hands ends of it. Whoever was in the account
// before may have left any of these behind.

/** The single list. Everything else with the id of an account is a record of what happened. */
export const accessKinds = [
  'password',
  'passkeys',
  'identities',
  'sessions',
  'links',
  'keys',
  'management_keys',
  'webhooks',
  'mcp_servers',
  'conversations',
] as const

export type AccessKind = (typeof accessKinds)[number]

/** How many there are of each that work now. */
export type Access = Readonly<Record<AccessKind, number>>

/** A change after which somebody who was in the account may be a stranger to it. */
export type ChangeOfHands = 'taken-over' | 'deleted' | 'promoted' | 'demoted' | 'password-set'

/** What of the list ends with each. The rest goes on, and is shown to whoever has made the change. */
export const endedBy: Readonly<Record<ChangeOfHands, readonly AccessKind[]>> = {
  // Its address was proven by somebody who may not have opened it: nothing in it is theirs.
  'taken-over': accessKinds,
  deleted: accessKinds,
  // What signs in would act as an operator. What calls models, or is told of the account, does as before.
  promoted: ['password', 'passkeys', 'identities', 'sessions', 'links', 'management_keys'],
  // They would work again if the account became an operator once more.
  demoted: ['management_keys'],
  // By its owner, who may have lost a device, or somebody's trust: other devices and programs go on.
  'password-set': ['sessions', 'links'],
}
