// The first run on an empty data directory: the owner account, its credit and its key.

import { type Account, issueKey, type KeyRights, ownerEmail, unlimited } from '../accounts/account.ts'
import { personOf } from '../accounts/identity/mail.ts'
import { newLink } from '../accounts/identity/identity-store.ts'
import { formatUsd, usd } from '../credits/money.ts'
import { Welcomes } from '../credits/calendar.ts'
import type { Store } from '../store/store.ts'
import type { OwnerKey } from './banner.ts'

interface FirstRunSettings {
  /** Purchased credit of the owner, US dollars. */
  readonly creditUsd: string
  /** The limit of welcome credit per day, US dollars. */
  readonly welcomeCapUsd: string
  /** Where a browser finds the console. */
  readonly consoleUrl: string
}

/**
 * Creates the owner account if there is no account, and returns its key; undefined on later runs. The grant has a
 * fixed id, so a process that dies halfway does not grant twice.
 */
export async function firstRun(
  store: OpeningStore,
  { creditUsd, welcomeCapUsd, consoleUrl }: FirstRunSettings,
  now: number,
): Promise<OwnerKey | undefined> {
  const accounts = await store.accounts.listAccounts()
  const [only] = accounts
  // An owner without a key is a first run that was interrupted before the key was shown.
  const unfinished =
    accounts.length === 1 &&
    only?.email === ownerEmail &&
    (await store.accounts.listKeys(only.id)).length === 0
  if (accounts.length > 0 && !unfinished) return undefined
  const account = only ?? (await store.accounts.createAccount(ownerEmail, { role: 'operator' }))
  await welcome(store, account, welcomeCapUsd)
  const amount = usd(creditUsd)
  // An interrupted first run granted what was configured then.
  if (amount > 0n && (await store.ledger.totals(account.id)).purchased === 0n) {
    const source = `bootstrap:${account.id}`
    await store.ledger.grant({
      source,
      account: account.id,
      pool: 'purchased',
      amount,
      // The operator pays the providers: this is a budget, not a purchase that expires after twelve months.
      expiresAt: 'never',
      from: 'grant',
    })
  }
  const rights: KeyRights = {
    ...unlimited,
    account: account.id,
    name: 'owner',
    mode: 'live',
    group: null,
    sees: 'own',
  }
  const { text } = await issueKey(store.accounts, rights, now)
  const link = await newLink(store.identities, { kind: 'link', account: account.id, consoleUrl, now })
  return {
    account: account.id,
    email: account.email,
    key: text,
    creditUsd: formatUsd((await store.ledger.totals(account.id)).purchased),
    signIn: link.url,
  }
}

type OpeningStore = Pick<Store, 'accounts' | 'identities' | 'ledger'>

/**
 * Grants the welcome credit; a second time it grants nothing. `welcomeCapUsd` limits what a day may give away: beyond it
 * the account gets its welcome when it is first used on another day.
 */
export async function welcome(
  { identities, ledger }: Pick<OpeningStore, 'identities' | 'ledger'>,
  account: Account,
  welcomeCapUsd: string,
): Promise<void> {
  const welcomes = new Welcomes(identities, ledger, usd(welcomeCapUsd), () => ledger.now())
  await welcomes.ensure(account.id, personOf(account.email))
}
