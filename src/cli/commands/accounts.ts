// `weir accounts create|list|show|suspend|resume`

import {
  type Account,
  type AccountStore,
  keyState,
  mintSession,
  type Role,
  type Session,
} from '../../accounts/account.ts'
import { type Access, accessKinds } from '../../accounts/identity/access.ts'
import { isAddress } from '../../accounts/identity/address.ts'
import { invitedAccount } from '../../accounts/identity/identities.ts'
import { type LinkKind, newLink } from '../../accounts/identity/secret-link.ts'
import type { Awaitable } from '../../async/async.ts'
import { formatCreditLine, parseCreditLine } from '../../credits/balance.ts'
import { formatUsd } from '../../credits/money.ts'
import { accountView as accountForOperators } from '../../http/admin/accounts.ts'
import { appAccountToken } from '../../payments/apple.ts'
import { consoleOrigin } from '../../serve/banner.ts'
import { openAccount } from '../../serve/first-run.ts'
import { runningServer } from '../../serve/running-server.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../context.ts'
import { duration, oneOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { accountOf, recordAct, withAccount, withNewStore, withStore } from '../with-store.ts'
import { balanceView, renderBalance } from './credits.ts'
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
  const { email_verified: verified, ...view } = accountForOperators(account)
  return { ...view, verified }
}

// `weir accounts link|invite|role`: sign-in links, and the operator role.

const roles: readonly Role[] = ['user', 'operator']

/** Prints a short-lived, single-use sign-in link. Older links of the account become invalid. */
export async function signInLink(context: Context, invocation: Invocation): Promise<void> {
  const { account, link } = await withAccount(context, invocation, async (store, account) => {
    await recordAct(context, store, 'account.link', account.id, null, null)
    return { account, link: await linkFor(context, store, account, 'link') }
  })
  const note = `Signs in to ${account.email}, once, until ${link.expires_at}.\n`
  if (!context.json) context.io.err(note)
  print(context, { json: link, text: link.url })
}

/** Opens an account for an address and prints its first sign-in link. */
export async function invite(context: Context, invocation: Invocation): Promise<void> {
  const role = oneOf('--role', invocation.option('role') ?? 'user', roles)
  const link = await withStore(context, async (store) => {
    const account = await invitedAccount(store.accounts, invocation.option('email') ?? '', role)
    await recordAct(context, store, 'account.invite', account.id, null, { email: account.email, role })
    return linkFor(context, store, account, 'invitation')
  })
  if (!context.json) context.io.err(`Works once, until ${link.expires_at}.\n`)
  print(context, { json: link, text: link.url })
}

/** Makes an account an operator, and prints the link that a new one signs in with, or makes it a user again. */
export async function setRole(context: Context, invocation: Invocation): Promise<void> {
  const role = oneOf('ROLE', invocation.args[1] ?? '', roles)
  const { account, link, access } = await withStore(context, async (store) => {
    const before = await accountOf(store, invocation.args[0] ?? '')
    const now = context.io.clock()
    const changed = await store.identities.setRole(before.id, role, now)
    await recordAct(context, store, 'account.role', before.id, { role: before.role }, { role })
    const access = await store.identities.accessOf(before.id, now)
    const promoted = changed && role === 'operator'
    const link = promoted ? await linkFor(context, store, before, 'link') : null
    return { account: before, link, access }
  })
  const said = `${account.email} is ${role === 'operator' ? 'an operator' : 'a user'}`
  const note = `Its password, passkeys, linked identities and sessions have ended: somebody else may have made them.
Give its owner this link, which signs in once, until ${link?.expires_at}. \`weir accounts link\` makes another.\n`
  if (link && !context.json) context.io.err(note)
  if (!context.json) context.io.err(`What acts for it now: ${accessText(access)}.\n`)
  const text = link ? `${said}\n${link.url}` : said
  print(context, { json: { id: account.id, email: account.email, role, link, access }, text })
}

/** What lets somebody into an account or acts for it, in words. */
function accessText(access: Access): string {
  const some = accessKinds.filter((kind) => access[kind] > 0)
  const named = some.map((kind) => `${access[kind]} ${kind.replaceAll('_', ' ')}`)
  return named.join(', ') || 'nothing'
}

async function linkFor(context: Context, { identities }: Store, account: Account, kind: LinkKind) {
  const wanted = { kind, account: account.id, consoleUrl: consoleUrl(context), now: context.io.clock() }
  const { url, expiresAt } = await newLink(identities, wanted)
  return { url, expires_at: isoTime(expiresAt) }
}

/** The console's address: configured, otherwise of the running server, otherwise of a server started now. */
function consoleUrl({ config }: Context): string {
  const { host, port, public_url: publicUrl } = config.server
  if (publicUrl !== undefined) return `${publicUrl}/console`
  const running = runningServer(config.data_dir)
  return `${consoleOrigin(host, running === undefined ? port : Number(new URL(running).port))}/console`
}

// `weir accounts session|sessions|end-session`: tokens for the app of a signed-in account.

/** Creates a session and prints its token, which cannot be shown again. */
export async function createSession(context: Context, invocation: Invocation): Promise<void> {
  const ttlMs = duration('--ttl', invocation.option('ttl') ?? '30d')
  if (ttlMs === 0) throw usageFault('--ttl must be longer than nothing')
  const now = context.io.clock()
  const { id, hash, lastFour, text } = mintSession()
  const session = await withAccount(context, invocation, async (store, { id: account }) => {
    const made: Session = {
      id,
      account,
      hash,
      lastFour,
      createdAt: now,
      expiresAt: now + ttlMs,
      revokedAt: null,
      userAgent: null,
      seenAt: null,
      idleMs: null,
      elevatedUntil: null,
    }
    await store.accounts.insertSession(made)
    const opened = { session: id, expires_at: isoTime(made.expiresAt) }
    await recordAct(context, store, 'session.create', account, null, opened)
    return made
  })
  if (!context.json) {
    const ends = `weir accounts end-session ${id} ends it`
    context.io.err(`The token of the session ${id} is shown once; only its hash is kept. ${ends}.\n`)
  }
  print(context, { json: { ...sessionView(session, now), token: text }, text })
}

export async function listSessions(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const sessions = await withAccount(context, invocation, (store, { id }) => store.accounts.listSessions(id))
  const views = sessions.map((session) => sessionView(session, now))
  const rows = views.map((view) => [view.id, view.state, `…${view.last_four}`, view.expires_at ?? ''])
  const text = rows.length === 0 ? 'no sessions' : table(['SESSION', 'STATE', 'ENDS IN', 'EXPIRES'], rows)
  print(context, { json: views, text })
}

/** Ends a session at once. Repeating it succeeds and changes nothing. */
export async function endSession(context: Context, invocation: Invocation): Promise<void> {
  const id = invocation.args[0] ?? ''
  const now = context.io.clock()
  const session = await withStore(context, async (store) => {
    const found = await store.accounts.findSession(id)
    if (!found) throw new CommandFailure(`there is no session with the id ${JSON.stringify(id)}`)
    if (found.revokedAt !== null) return found
    await store.accounts.revokeSession(id, now)
    await recordAct(context, store, 'session.end', found.account, { session: id }, null)
    return (await store.accounts.findSession(id))!
  })
  print(context, { json: sessionView(session, now), text: `ended ${session.id} (…${session.lastFour})` })
}

function sessionView(session: Session, now: number) {
  return {
    id: session.id,
    account: session.account,
    state: keyState(session, now),
    last_four: session.lastFour,
    created_at: isoTime(session.createdAt),
    expires_at: isoTime(session.expiresAt),
    revoked_at: isoTime(session.revokedAt),
  }
}
