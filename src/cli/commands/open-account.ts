// A new account: created, and granted the welcome credit that every account gets once.

import type { Account, Role } from '../../accounts/account.ts'
import { welcomeGrant } from '../../credits/calendar.ts'
import type { CommandStore } from '../with-store.ts'

/** Throws GatewayError `invalid_request` when the address is taken. */
export async function openAccount(store: CommandStore, email: string, role: Role = 'user'): Promise<Account> {
  const account = await store.accounts.createAccount(email, { role })
  await welcome(store, account)
  return account
}

/** Grants the welcome credit; the second time it grants nothing. */
export async function welcome({ ledger }: CommandStore, account: Account): Promise<void> {
  await ledger.grant(welcomeGrant(account.id))
}
