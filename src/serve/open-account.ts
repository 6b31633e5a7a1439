// A new account: created, and granted the welcome credit that every account gets once.

import type { Account, Role } from '../accounts/account.ts'
import { welcomeGrant } from '../credits/calendar.ts'
import type { Store } from '../store/store.ts'

type AccountsAndLedger = Pick<Store, 'accounts' | 'ledger'>

/** Throws GatewayError `invalid_request` when the address is taken. */
export async function openAccount(
  store: AccountsAndLedger,
  email: string,
  role: Role = 'user',
): Promise<Account> {
  const account = await store.accounts.createAccount(email, { role })
  await welcome(store, account)
  return account
}

/** Grants the welcome credit; the second time it grants nothing. */
export async function welcome({ ledger }: Pick<Store, 'ledger'>, account: Account): Promise<void> {
  await ledger.grant(welcomeGrant(account.id))
}
