// `weir accounts create|list|show|suspend|resume`

import * as acts from '../../http/admin/acts.ts'
import {
  type AccountEntry,
  type AccountPage,
  lifeState,
  mintSession,
  type Role,
  type Session,
} from '../../accounts/account.ts'
import { type Access, accessKinds, newLink } from '../../accounts/identity/identity-store.ts'
import { isAddress } from '../../accounts/identity/mail.ts'
import { requireLinks, vouchFor } from '../../accounts/identity/identities.ts'
import { formatCreditLine, parseCreditLine } from '../../credits/wallet.ts'
import { formatUsd } from '../../credits/money.ts'
import { grantMonthly } from '../../credits/calendar.ts'
import { newcomerAllowances, signInWays, signUpPolicy } from '../../config/config.ts'
import { entryView, invitePeople, readList } from '../../http/admin/accounts.ts'
import type { AccountView } from '../../http/admin/answers.ts'
import { recordAct } from '../../http/console/route.ts'
import { appAccountToken } from '../../payments/apple.ts'
import { consoleOrigin } from '../../serve/banner.ts'
import { welcome } from '../../serve/first-run.ts'
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
import { amountOfUsd, duration, oneOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { accountOf, actingOn, withAccount, withNewStore, withStore } from '../with-store.ts'
import { balanceView, renderBalance } from './credits.ts'
import { keyView, renderKeys } from './keys.ts'
import { readFileSync } from 'node:fs'
import { csvLine, plural } from '../../text/text.ts'

/** Creates an account with its welcome credit. Fails if the address is taken. */
export async function createAccount(context: Context, invocation: Invocation): Promise<void> {
  const email = (invocation.option('email') ?? '').trim()
  if (!isAddress(email)) throw usageFault(`--email takes an address, not ${JSON.stringify(email)}`)
  const account = await withNewStore(context, (store) => acts.openAccount(acting(context, store), { email }))
  print(context, { json: accountView(account), text: `created ${account.email} (${account.id})` })
}

/** Of the directory of accounts. */
const asOpened = { sort: 'opened', order: 'asc', limit: 1_000 } as const

export async function listAccounts(context: Context): Promise<void> {
  const now = context.io.clock()
  const json = await withStore(context, async ({ accounts, directory, ledger }) => {
    const active = (await accounts.listAccounts()).filter(({ suspended }) => !suspended)
    for (const account of active) await grantMonthly(ledger, account)
    const entries: AccountEntry[] = []
    let after: string | null | undefined
    do {
      const page: AccountPage = await directory.page({ ...asOpened, now, ...(after ? { after } : {}) })
      entries.push(...page.accounts)
      after = page.next
    } while (after !== null)
    return Promise.all(
      entries.map(async (entry) => {
        const { available } = await balanceView(ledger, entry.id, now)
        const view = entryView(entry)
        return { ...view, verified: view.email_verified, available }
      }),
    )
  })
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
    if (!account.suspended) await grantMonthly(store.ledger, account)
    return {
      account,
      balance: await balanceView(store.ledger, account.id, now),
      used: formatUsd((await store.ledger.totals(account.id)).used),
      access: await store.identities.accessOf(account.id, now),
      keys: await Promise.all(
        (await store.accounts.listKeys(account.id)).map((key) => keyView(context, store, key)),
      ),
    }
  })
  const { account, balance, keys, used, access } = found
  const { monthlyCredit: monthly } = account
  const heading = `${account.email} (${account.id})${account.suspended ? ', suspended' : ''}, used ${used} USD so far${monthly === 0n ? '' : `, has ${formatUsd(monthly)} USD each month`}`
  print(context, {
    json: {
      ...accountView(acts.accountView(account)),
      app_account_token: appAccountToken(account.id) ?? null,
      monthly_credit_usd: monthly === 0n ? null : formatUsd(monthly),
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
  const account = await suspendOrResumeNamed(context, invocation, 'suspend')
  const text = `suspended ${account.email}: its calls are refused, its credit stays`
  print(context, { json: accountView(account), text })
}

/** Serves the calls of a suspended account again. */
export async function resumeAccount(context: Context, invocation: Invocation): Promise<void> {
  const account = await suspendOrResumeNamed(context, invocation, 'resume')
  print(context, { json: accountView(account), text: `resumed ${account.email}` })
}

function suspendOrResumeNamed(context: Context, { args }: Invocation, verb: 'suspend' | 'resume') {
  return withStore(context, async (store) =>
    acts.suspendOrResume(acting(context, store), await accountOf(store, args[0] ?? ''), verb),
  )
}

/** Deletes an account; nothing brings it back. */
export async function deleteAccount(context: Context, invocation: Invocation): Promise<void> {
  const account = await withStore(context, async (store) => {
    const found = await accountOf(store, invocation.args[0] ?? '')
    if (invocation.option('confirm')?.trim().toLowerCase() !== found.email)
      throw usageFault('--confirm takes the address of the account')
    await acts.deleteAccount(acting(context, store), found)
    return found
  })
  print(context, {
    json: { id: account.id, deleted: true },
    text: `deleted ${account.email} (${account.id})`,
  })
}

/** Sets how much an account may owe, and what it has each month. */
export async function setAccount(context: Context, invocation: Invocation): Promise<void> {
  const [text, monthlyText] = [invocation.option('creditLine'), invocation.option('monthlyUsd')]
  if (text === undefined && monthlyText === undefined)
    throw usageFault('name what to set: --credit-line or --monthly-usd')
  const most = text === undefined ? undefined : parseCreditLine(text)
  if (text !== undefined && most === undefined)
    throw usageFault(
      `--credit-line takes US dollars such as 500, unlimited or none, not ${JSON.stringify(text)}`,
    )
  const monthly =
    monthlyText === undefined || monthlyText === 'none' ? 0n : amountOfUsd('--monthly-usd', monthlyText)
  const named = invocation.args[0] ?? invocation.option('account')
  if (named === undefined) throw usageFault('name the account, by its id or e-mail address')
  const { account, line, month } = await withStore(context, async (store) => {
    const account = await accountOf(store, named)
    if (most !== undefined) await acts.setCreditLine(acting(context, store), account, most)
    if (monthlyText !== undefined) await acts.setMonthlyCredit(acting(context, store), account, monthly)
    return {
      account,
      line: formatCreditLine((await store.ledger.balance(account.id)).creditLine),
      month: (await accountOf(store, account.id)).monthlyCredit,
    }
  })
  const owes =
    line === null ? 'may owe nothing' : `may owe ${line === 'unlimited' ? 'any amount' : `${line} USD`}`
  const has = month === 0n ? '' : `, and has ${formatUsd(month)} USD each month`
  print(context, {
    json: {
      ...accountView(acts.accountView(account)),
      credit_line: line,
      monthly_credit_usd: month === 0n ? null : formatUsd(month),
    },
    text: `${account.email} ${owes}${has}`,
  })
}

/** As the admin API shows it, and whether its address is proven under the name that commands have always had for it. */
function accountView(view: AccountView) {
  return { ...view, verified: view.email_verified }
}

// `weir accounts link|invite|role`: sign-in links, and the operator role.

const roles: readonly Role[] = ['user', 'operator']

/** Prints a short-lived, single-use sign-in link. Older links of the account become invalid. */
export async function signInLink(context: Context, invocation: Invocation): Promise<void> {
  const { account, link } = await withAccount(context, invocation, async (store, account) => ({
    account,
    link: await acts.signInLink(acting(context, store), account),
  }))
  const note = `Signs in to ${account.email}, once, until ${link.expires_at}.\n`
  if (!context.json) context.io.err(note)
  print(context, { json: link, text: link.url })
}

/** Opens an account for an address and prints its first sign-in link, or does so for a list of people. */
export async function invite(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.option('file') !== undefined) return inviteList(context, invocation)
  if (invocation.option('email') === undefined) throw usageFault('name whom to invite: --email or --file')
  const role = oneOf('--role', invocation.option('role') ?? 'user', roles)
  const email = invocation.option('email') ?? ''
  const link = await withStore(context, (store) =>
    acts.inviteAccount(acting(context, store), { email, role }),
  )
  if (!context.json) context.io.err(`Works once, until ${link.expires_at}.\n`)
  print(context, { json: link, text: link.url })
}

/** Makes an account an operator, and prints the link that a new one signs in with, or makes it a user again. */
export async function setRole(context: Context, invocation: Invocation): Promise<void> {
  const role = oneOf('ROLE', invocation.args[1] ?? '', roles)
  const view = await withStore(context, async (store) =>
    acts.setRole(acting(context, store), await accountOf(store, invocation.args[0] ?? ''), role),
  )
  const { id, email, link, access } = view
  const said = `${email} is ${role === 'operator' ? 'an operator' : 'a user'}`
  const note = `Its password, passkeys, linked identities and sessions have ended: somebody else may have made them.
Give its owner this link, which signs in once, until ${link?.expires_at}. \`weir accounts link\` makes another.\n`
  if (link && !context.json) context.io.err(note)
  if (!context.json) context.io.err(`What acts for it now: ${accessText(access)}.\n`)
  const text = link ? `${said}\n${link.url}` : said
  print(context, { json: { id, email, role, link, access }, text })
}

/** What lets somebody into an account or acts for it, in words. */
function accessText(access: Access): string {
  const some = accessKinds.filter((kind) => access[kind] > 0)
  const named = some.map((kind) => `${access[kind]} ${kind.replaceAll('_', ' ')}`)
  return named.join(', ') || 'nothing'
}

/** Who runs the command, for an act on accounts. */
export function acting(context: Context, store: Store): acts.AccountActing {
  const { config, io } = context
  const wanted = { consoleUrl: consoleUrl(context), now: io.clock() }
  const { accounts, identities: identityStore, ledger } = store
  const cap = config.credits.welcome_daily_cap_usd
  return actingOn(context, store, {
    accounts,
    identityStore,
    ledger,
    identities: {
      linkFor: (kind, { id }) => newLink(identityStore, { ...wanted, kind, account: id }),
      requireLinks: (account) => requireLinks(signInWays(config), account),
      vouchFor: (account) => vouchFor(provingOf(context, store), account),
    },
    newcomers: newcomerAllowances(config),
    freeCredit: {
      ensure: async (account) => {
        await welcome(store, account, cap)
        await grantMonthly(ledger, account)
      },
    },
  })
}

/** Whether addresses are to be proven here, and by whom they were. */
export function provingOf({ config, io }: Context, { identities }: Pick<Store, 'identities'>) {
  return { identities, unverified: signUpPolicy(config).unverified, now: io.clock }
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
    await recordAct(actingOn(context, store, {}), 'session.create', account, null, opened)
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
    await acts.endSession(actingOn(context, store, store), found)
    return (await store.accounts.findSession(id))!
  })
  print(context, { json: sessionView(session, now), text: `ended ${session.id} (…${session.lastFour})` })
}

function sessionView(session: Session, now: number) {
  return {
    id: session.id,
    account: session.account,
    state: lifeState(session, now),
    last_four: session.lastFour,
    created_at: isoTime(session.createdAt),
    expires_at: isoTime(session.expiresAt),
    revoked_at: isoTime(session.revokedAt),
  }
}

// `weir accounts invite --file`: people of a list, each with an account, a group and an allowance.

/** Opens accounts for the people of a file; see `invitePeople`. */
async function inviteList(context: Context, invocation: Invocation): Promise<void> {
  const file = invocation.option('file') ?? ''
  const rows = readList(textOf(file), file)
  const invited = await withStore(context, async (store) => {
    const { groups, ledger } = store
    return invitePeople(actingOn(context, store, { ...acting(context, store).parts, groups, ledger }), rows)
  })
  const opened = invited.filter(({ state }) => state === 'opened').length
  if (!context.json)
    context.io.err(
      `${plural(invited.length, 'person', 'people')}, ${opened} of them new. A link works once.\n`,
    )
  const lines = invited.map(({ address, name, url, expires_at: ends }) => csvLine([address, name, url, ends]))
  const text = [csvLine(['address', 'name', 'link', 'expires']), ...lines].join('')
  print(context, { json: invited, text: text.trimEnd().replaceAll('\r', '') })
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandFailure(`${file} cannot be read: ${(error as Error).message}`)
  }
}
