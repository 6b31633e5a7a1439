// `weir accounts link|invite|role`: sign-in links, and the operator role.

import type { Account, Role } from '../../../accounts/account.ts'
import { type Access, accessKinds } from '../../../accounts/identity/access.ts'
import { invitedAccount } from '../../../accounts/identity/identities.ts'
import { type LinkKind, newLink } from '../../../accounts/identity/secret-link.ts'
import { consoleOrigin } from '../../../serve/banner.ts'
import { runningServer } from '../../../serve/running-server.ts'
import { recordAct } from '../../acts.ts'
import { type Context, type Invocation, isoTime, print } from '../../context.ts'
import { oneOf } from '../../values.ts'
import { accountOf, type CommandStore, withStore } from '../../with-store.ts'

const roles: readonly Role[] = ['user', 'operator']

/** Prints a short-lived, single-use sign-in link. Older links of the account become invalid. */
export async function signInLink(context: Context, invocation: Invocation): Promise<void> {
  const { account, link } = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
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
export function accessText(access: Access): string {
  const some = accessKinds.filter((kind) => access[kind] > 0)
  const named = some.map((kind) => `${access[kind]} ${kind.replaceAll('_', ' ')}`)
  return named.join(', ') || 'nothing'
}

interface Link {
  readonly url: string
  readonly expires_at: string | null
}

async function linkFor(
  context: Context,
  { identities }: CommandStore,
  account: Account,
  kind: LinkKind,
): Promise<Link> {
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
