// `weir accounts create|list|show|suspend|resume`

import type { Account, AccountStore } from '../../../accounts/account.ts'
import { isAddress } from '../../../accounts/identity/address.ts'
import type { Awaitable } from '../../../async/async.ts'
import { formatCreditLine, parseCreditLine } from '../../../credits/balance.ts'
import { formatUsd } from '../../../credits/money.ts'
import { appAccountToken } from '../../../payments/apple.ts'
import { openAccount } from '../../../serve/first-run.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../../context.ts'
import { accountOf, recordAct, withNewStore, withStore } from '../../with-store.ts'
import { balanceView, renderBalance } from '../ledger/credits.ts'
import { accessText } from './access.ts'
import { keyView, renderKeys } from './keys.ts'

/** Creates an account with its welcome credit. Fails if the address is taken. */
export async function createAccount(context: Context, invocation: Invocation): Promise<void> {
  const email = (invocation.option('email') ?? '').trim()
  if (!isAddress(email)) throw usageFault(`--email takes an address, not ${JSON.stringify(email)}`)
  const account = await withNewStore(context, async (store) => {
    const opened = await openAccount(store, email, context.config.credits.welcome_daily_cap_usd)
    await recordAct(context, store, 'account.create', opened.id, null, accountView(opened))
    return opened
  })
  print(context, { json: accountView(account), text: `created ${account.email} (${account.id})` })
}

export async function listAccounts(context: Context): Promise<void> {
  const rows = await withStore(context, async ({ accounts, ledger }) =>
    Promise.all(
      (await accounts.listAccounts()).map(async (account) => ({
        account,
        balance: await balanceView(ledger, account.id, context.io.clock()),
      })),
    ),
  )
  const json = rows.map(({ account, balance }) => ({ ...accountView(account), available: balance.available }))
  const cells = json.map((row) => [
    row.id,
    row.email,
    row.available,
    row.created_at ?? '',
    [
      row.role === 'operator' ? 'operator' : '',
      row.suspended ? 'suspended' : '',
      row.verified ? '' : 'unverified',
    ]
      .filter(Boolean)
      .join(', '),
  ])
  print(context, { json, text: table(['ID', 'EMAIL', 'AVAILABLE USD', 'CREATED', ''], cells) })
}

/** One account with its balance and its keys. */
export async function showAccount(context: Context, invocation: Invocation): Promise<void> {
  const found = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.args[0] ?? '')
    const now = context.io.clock()
    return {
      account,
      balance: await balanceView(store.ledger, account.id, now),
      used: formatUsd((await store.ledger.totals(account.id)).used),
      access: await store.identities.accessOf(account.id, now),
      keys: (await store.accounts.listKeys(account.id)).map((key) => keyView(key, now)),
    }
  })
  const { account, balance, keys, used, access } = found
  const heading = `${account.email} (${account.id})${account.suspended ? ', suspended' : ''}, used ${used} USD so far`
  print(context, {
    json: {
      ...accountView(account),
      app_account_token: appAccountToken(account.id) ?? null,
      credits: balance,
      access,
      keys,
    },
    text: [heading, renderBalance(balance), `acts for it: ${accessText(access)}`, renderKeys(keys)].join(
      '\n\n',
    ),
  })
}

/** Refuses the account's calls with `account_suspended` from now on. Repeating it changes nothing. */
export async function suspendAccount(context: Context, invocation: Invocation): Promise<void> {
  const account = await changeAccount(context, invocation, 'account.suspend', (accounts, id) =>
    accounts.suspend(id),
  )
  const text = `suspended ${account.email}: its calls are refused, its credit stays`
  print(context, { json: accountView(account), text })
}

/** Serves the calls of a suspended account again. */
export async function resumeAccount(context: Context, invocation: Invocation): Promise<void> {
  const account = await changeAccount(context, invocation, 'account.resume', (accounts, id) =>
    accounts.resume(id),
  )
  print(context, { json: accountView(account), text: `resumed ${account.email}` })
}

/** Sets how much an account may owe. */
export async function setAccount(context: Context, invocation: Invocation): Promise<void> {
  const text = invocation.option('creditLine') ?? ''
  const most = parseCreditLine(text)
  if (most === undefined)
    throw usageFault(
      `--credit-line takes US dollars such as 500, unlimited or none, not ${JSON.stringify(text)}`,
    )
  const named = invocation.args[0] ?? invocation.option('account')
  if (named === undefined) throw usageFault('name the account, by its id or e-mail address')
  const { account, line } = await withStore(context, async (store) => {
    const account = await accountOf(store, named)
    const before = formatCreditLine((await store.ledger.balance(account.id)).creditLine)
    await store.ledger.setCreditLine(account.id, most)
    const line = formatCreditLine(most)
    await recordAct(
      context,
      store,
      'account.credit_line',
      account.id,
      { credit_line: before },
      { credit_line: line },
    )
    return { account, line }
  })
  const said =
    line === null ? 'may owe nothing' : `may owe ${line === 'unlimited' ? 'any amount' : `${line} USD`}`
  print(context, { json: { ...accountView(account), credit_line: line }, text: `${account.email} ${said}` })
}

function changeAccount(
  context: Context,
  invocation: Invocation,
  what: string,
  change: (accounts: AccountStore, id: string) => Awaitable<boolean>,
): Promise<Account> {
  return withStore(context, async (store) => {
    const before = await accountOf(store, invocation.args[0] ?? '')
    if (!(await change(store.accounts, before.id)))
      throw new CommandFailure(`the account ${before.id} has been deleted`)
    const after = await accountOf(store, before.id)
    const [was, is] = [{ suspended: before.suspended }, { suspended: after.suspended }]
    await recordAct(context, store, what, before.id, was, is)
    return after
  })
}

function accountView(account: Account) {
  return {
    id: account.id,
    email: account.email,
    created_at: isoTime(account.createdAt),
    suspended: account.suspended,
    role: account.role,
    verified: account.verifiedAt !== null,
  }
}
