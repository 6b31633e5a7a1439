// Creates an account, and grants the once-per-person welcome credit.

import type { Account, Role } from '../accounts/account.ts'
import { personOf } from '../accounts/identity/address.ts'
import { usd } from '../credits/money.ts'
import { Welcomes } from '../credits/welcome.ts'
import type { Store } from '../store/store.ts'

export type OpeningStore = Pick<Store, 'accounts' | 'identities' | 'ledger'>

/**
 * Opens an account whose address the operator vouches for. `welcomeCapUsd` limits what a day may give away: beyond it
 * the account gets its welcome when it is first used on another day. Throws GatewayError `invalid_request` if the
 * address is taken.
 */
export async function openAccount(
  store: OpeningStore,
  email: string,
  welcomeCapUsd: string,
  role: Role = 'user',
): Promise<Account> {
  const account = await store.accounts.createAccount(email, { role })
  await welcome(store, account, welcomeCapUsd)
  return account
}

/** Grants the welcome credit; a second time it grants nothing. */
export async function welcome(
  { identities, ledger }: OpeningStore,
  account: Account,
  welcomeCapUsd: string,
): Promise<void> {
  const welcomes = new Welcomes(identities, ledger, usd(welcomeCapUsd), () => ledger.now())
  await welcomes.ensure(account.id, personOf(account.email))
}
