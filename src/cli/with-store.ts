// The database for one command: opened, also while a server runs, and always closed again.

import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { CatalogFile } from '../catalog/row.ts'
import { type Account, heardWithinMs } from '../accounts/account.ts'
import { storePlace } from '../config/config.ts'
import { findGroupCalled, type Group } from '../accounts/group.ts'
import { issueManagementKey } from '../accounts/key-leaks.ts'
import { GatewayError } from '../errors/errors.ts'
import type { OperatorActing } from '../http/console/route.ts'
import type { Store } from '../store/store.ts'
import { CommandFailure, type Context, type Invocation } from './context.ts'

/**
 * Runs `work` with the store of the configured data directory. Throws CommandFailure if there is none: a mistyped
 * `--data-dir` must not create an empty database, which every audit would find sound.
 */
export async function withStore<Result>(
  context: Context,
  work: (store: Store) => Result | Promise<Result>,
): Promise<Result> {
  const { hasStoreIn } = await import('../store/open.ts')
  const place = storePlace(context.config)
  if (await hasStoreIn(place, context.io.clock)) return withNewStore(context, work)
  throw new CommandFailure(
    place.server === undefined
      ? `there is no database in ${place.dataDir}: weir serve makes one, and so does weir accounts create`
      : `${serverIn(context)} has no tables of weir yet: weir serve makes them, and so does weir accounts create`,
  )
}

/** The PostgreSQL that everything is kept on, without its password; undefined where it is SQLite. */
export function serverIn({ config }: Pick<Context, 'config'>): string | undefined {
  if (config.store.url === undefined) return undefined
  const { protocol, username, host, pathname } = new URL(config.store.url)
  return `${protocol}//${username}@${host}${pathname}`
}

/** The catalog file that gateways use: of the database that they share, else of the data directory. Rejects if an imported one is damaged. */
export async function catalogFileIn(context: Context): Promise<CatalogFile> {
  const { catalogFileInUse, catalogFileShared } = await import('../serve/gateway/catalog.ts')
  const { hasStoreIn } = await import('../store/open.ts')
  const place = storePlace(context.config)
  if (place.server === undefined) return catalogFileInUse(place.dataDir)
  if (!(await hasStoreIn(place, context.io.clock))) return catalogFileShared({ revision: 0, file: null })
  return withStore(context, async ({ catalogs }) => catalogFileShared(await catalogs!.latest()))
}

/** The same, also with the account of `--account`. */
export function withAccount<Result>(
  context: Context,
  invocation: Invocation,
  work: (store: Store, account: Account) => Result | Promise<Result>,
): Promise<Result> {
  return withStore(context, async (store) =>
    work(store, await accountOf(store, invocation.option('account') ?? '')),
  )
}

/** The same, also with the group that is the first argument. */
export function withGroup<Result>(
  context: Context,
  invocation: Invocation,
  work: (store: Store, group: Group) => Result | Promise<Result>,
): Promise<Result> {
  return withStore(context, async (store) => work(store, await findGroup(store, invocation.args[0] ?? '')))
}

/** Like `withStore`, for a command that may be the first one run: creates the store if necessary. */
export async function withNewStore<Result>(
  context: Context,
  work: (store: Store) => Result | Promise<Result>,
): Promise<Result> {
  const { openStoreIn } = await import('../store/open.ts')
  const { data_dir, ledger } = context.config
  let changed = false
  const store = await openStoreIn(storePlace(context.config), {
    clock: context.io.clock,
    clockBackMs: ledger.clock_back_ms,
    notice: (message, facts) => context.io.err(`${noticeText(message, facts)}\n`),
  })
  store.whenAccountsChange(() => {
    changed = true
  })
  try {
    return await work(store)
  } finally {
    await store.close()
    // Gateways on other machines are not known here.
    if (changed && serverIn(context) !== undefined) await Bun.sleep(heardWithinMs)
    else if (changed) await heardBy(data_dir)
  }
}

/**
 * Resolves when the server of a data directory, if there is one, refuses what has been revoked. Its process may be one of
 * another container, so nobody is asked: the time is what the server promises.
 */
async function heardBy(dataDir: string): Promise<void> {
  const { servingProcess } = await import('../store/sqlite/database/serve-lock.ts')
  if (servingProcess(dataDir) !== null) await Bun.sleep(heardWithinMs)
}

/** How long the key of a command may be used. */
const keyMs = 60_000

/**
 * Runs `work` with a management key of an operator's account, which works for a minute and is deleted afterwards: a
 * command that runs every minute must not fill the list of keys.
 */
export function withOperatorKey<Result>(
  context: Context,
  name: string,
  work: (key: string) => Promise<Result>,
): Promise<Result> {
  return withStore(context, async (store) => {
    const operator = (await store.accounts.listAccounts()).find(
      ({ role, suspended }) => role === 'operator' && !suspended,
    )
    if (operator === undefined)
      throw new CommandFailure('no account is an operator (weir accounts role ACCOUNT operator makes one)')
    const now = context.io.clock()
    const wanted = {
      account: operator.id,
      name,
      expiresAt: now + keyMs,
      networks: null,
      scope: 'admin' as const,
    }
    const { key, text } = await issueManagementKey(store.managementKeys, wanted, now)
    try {
      return await work(text)
    } finally {
      await store.managementKeys.remove(key.id)
    }
  })
}

function noticeText(message: string, facts: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(facts).map(([name, value]) => `${name}: ${String(value)}`)
  return shown.length === 0 ? message : `${message} (${shown.join(', ')})`
}

/** The account with an id or e-mail address. Throws CommandFailure if there is none. */
export async function accountOf(store: Store, idOrEmail: string): Promise<Account> {
  const account = await store.accounts.findAccount(idOrEmail)
  if (!account)
    throw new CommandFailure(`there is no account ${JSON.stringify(idOrEmail)} (weir accounts list)`)
  return account
}

/** The group with an id, or the only one with a name. Throws CommandFailure if there is none, or more than one. */
export async function findGroup({ groups }: Pick<Store, 'groups'>, idOrName: string): Promise<Group> {
  const found = await findGroupCalled(groups, idOrName)
  if (typeof found === 'string') throw new CommandFailure(found)
  return found
}

/** The result. Throws CommandFailure if the id was used before for another command. */
export async function unlessConflict<Result>(failure: string, answer: Promise<Result>): Promise<Result> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'idempotency_conflict')
      throw new CommandFailure(`${failure}: ${error.message}`)
    throw error
  }
}

// Whoever can run a command on the data directory is an operator, identified by the system's user name.

/** Who runs the command, for an act on these parts of the store. */
export function actingOn<Parts>(
  { io }: Pick<Context, 'io'>,
  { acts }: Pick<Store, 'acts'>,
  parts: Parts,
): OperatorActing<Parts> {
  const operator = { id: commandLineOperator() }
  return { parts: { ...parts, acts, now: io.clock }, operator, by: 'command' }
}

/** Whoever runs the command, as the log of acts names them. */
export function commandLineOperator(): string {
  return `cli:${systemUser()}`
}

/**
 * Bun's `userInfo` gives what the variable USER says, which anybody sets, and cron, services and containers leave out. A
 * container may run as a user id without a name.
 */
function systemUser(): string {
  const id = process.getuid?.()
  const name = (id === undefined ? undefined : nameOf(id)) ?? userInfo().username
  return name === '' || name === 'unknown' ? String(id ?? 'unknown') : name
}

/** The name of a user in this machine's own list; users of a directory service are not in it. */
function nameOf(id: number): string | undefined {
  try {
    const users = readFileSync('/etc/passwd', 'utf8').split('\n')
    return users.map((line) => line.split(':')).find(([, , userId]) => userId === String(id))?.[0]
  } catch {
    return undefined
  }
}
