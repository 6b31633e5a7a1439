// `weir keys create|list|limit|pause|resume|revoke|rotate`

import * as acts from '../../http/console/keys.ts'
import {
  type ApiKey,
  type KeyLimits,
  type KeyMode,
  type KeyRights,
  type LimitWindow,
  unlimited,
} from '../../accounts/account.ts'
import { isNetwork } from '../../accounts/identity/sign-in-limits.ts'
import { createManagementKey, managementKeyView, revokeManagementKey } from '../../http/admin/acts.ts'
import type { ManagementKeyView } from '../../http/admin/answers.ts'
import type { NewKeyView } from '../../http/console/answers.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { amountOfUsd, duration, futureDate, oneOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { accountOf, actingOn, findGroup, withAccount, withStore } from '../with-store.ts'

/** Creates a key and prints it; it cannot be shown again. */
export async function createKey(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('management')) return createKeyOfOperator(context, invocation)
  const now = context.io.clock()
  const mode: KeyMode = invocation.flag('test') ? 'test' : 'live'
  const rights: Omit<KeyRights, 'account'> = {
    mode,
    sees: oneOf('--sees', invocation.option('sees') ?? 'own', ['own', 'all'] as const),
    name: invocation.option('name') ?? (mode === 'test' ? 'test key' : 'key'),
    group: null,
    ...limitsOf(invocation, unlimited, now),
  }
  const minted = await withAccount(context, invocation, async (store, { id: account }) => {
    const named = invocation.option('group')
    const group = named === undefined ? null : (await findGroup(store, named)).id
    if (group !== null) await acts.requireMember(store.accounts, group, account)
    const { key, text } = await acts.createKey(actingOn(context, store, store), { account, ...rights, group })
    return { view: await keyView(context, store, key), text }
  })
  printMinted(context, minted, {})
}

/** Changes the name or the limits of a key; without an option they stay. */
export async function limitKey(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const view = await withStore(context, async (store) => {
    const before = await keyOf(store, invocation.args[0] ?? '')
    const wanted = { name: invocation.option('name') ?? before.name, ...limitsOf(invocation, before, now) }
    const named = Object.entries(wanted).filter(([field, value]) => value !== before[field as keyof ApiKey])
    const changes: Partial<typeof wanted> = Object.fromEntries(named)
    return keyView(context, store, await acts.changeKey(actingOn(context, store, store), before, changes))
  })
  print(context, { json: view, text: Bun.YAML.stringify(view, null, 2) })
}

export async function listKeys(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('management')) return listManagementKeys(context, invocation)
  const named = invocation.option('account')
  const keys = await withStore(context, async (store) => {
    const accounts =
      named === undefined ? await store.accounts.listAccounts() : [await accountOf(store, named)]
    const lists = await Promise.all(accounts.map(({ id }) => store.accounts.listKeys(id)))
    return Promise.all(lists.flat().map((key) => keyView(context, store, key)))
  })
  print(context, { json: keys, text: renderKeys(keys) })
}

/** Revokes a key at once. Repeating it succeeds and changes nothing. */
export async function revokeKey(context: Context, invocation: Invocation): Promise<void> {
  const id = invocation.args[0] ?? ''
  const view = await withStore(context, async (store) => {
    const acting = actingOn(context, store, store)
    const management = await store.managementKeys.find(id)
    if (management) return managementView(await revokeManagementKey(acting, management))
    return keyView(context, store, await acts.revokeKey(acting, await keyOf(store, id)))
  })
  print(context, { json: view, text: `revoked ${view.id} (…${view.last_four})` })
}

/** Refuses a key until it is resumed. Repeating it changes nothing. */
export function pauseKey(context: Context, invocation: Invocation): Promise<void> {
  return pauseOrResume(context, invocation, acts.pauseKey)
}

/** Serves a paused key again, whoever paused it. */
export function resumeKey(context: Context, invocation: Invocation): Promise<void> {
  return pauseOrResume(context, invocation, acts.resumeKey)
}

async function pauseOrResume(
  context: Context,
  invocation: Invocation,
  act: typeof acts.pauseKey,
): Promise<void> {
  const view = await withStore(context, async (store) => {
    const key = await act(actingOn(context, store, store), await keyOf(store, invocation.args[0] ?? ''))
    return keyView(context, store, key)
  })
  print(context, { json: view, text: `${view.id} (…${view.last_four}) is ${view.state}` })
}

/** Creates a successor with the same rights and shared limits; the old key ends after the overlap. */
export async function rotateKey(context: Context, invocation: Invocation): Promise<void> {
  const overlapMs = duration('--overlap', invocation.option('overlap') ?? '0')
  const { minted, replaced } = await withStore(context, async (store) => {
    const old = await keyOf(store, invocation.args[0] ?? '')
    const { issued, replaced } = await acts.rotateKey(actingOn(context, store, store), old, overlapMs)
    return { minted: { view: await keyView(context, store, issued.key), text: issued.text }, replaced }
  })
  printMinted(context, minted, replaced)
}

async function keyOf(store: Store, id: string): Promise<ApiKey> {
  const key = await store.accounts.findKey(id)
  if (!key) throw new CommandFailure(`there is no key with the id ${JSON.stringify(id)} (weir keys list)`)
  return key
}

function printMinted(
  context: Context,
  { view, text }: { readonly view: ShownKey; readonly text: string },
  more: Pick<NewKeyView, 'replaces' | 'replaced_works_until'>,
): void {
  if (!context.json) {
    context.io.err(
      `The key ${view.id} is shown once; only its hash is kept. weir keys revoke ${view.id} ends it.\n`,
    )
    if (more.replaces)
      context.io.err(`It replaces ${more.replaces}, which works until ${more.replaced_works_until}.\n`)
  }
  print(context, { json: { ...view, key: text, ...more }, text })
}

// An API key for display: everything but the secret.

type ShownKey = Awaited<ReturnType<typeof keyView>>

/** A key as the admin API shows it, and its last characters under the name that commands have always had for them. */
export async function keyView(
  { io: { clock: now } }: Context,
  { accounts, ledger }: Pick<Store, 'accounts' | 'ledger'>,
  key: ApiKey,
) {
  const view = await acts.keyView({ accounts, ledger, now }, key)
  return { account: key.account, ...view, last_four: view.last4 }
}

export function renderKeys(keys: readonly ShownKey[]): string {
  if (keys.length === 0) return 'no keys'
  const rows = keys.map((key) => [
    key.id,
    key.name,
    key.mode,
    key.sees,
    key.state,
    `…${key.last_four}`,
    key.expires_at ?? 'never',
  ])
  return table(['KEY', 'NAME', 'MODE', 'SEES', 'STATE', 'ENDS IN', 'EXPIRES'], rows)
}

// The limits of a key as options. `none` removes a limit; without an option it stays.

const windows: readonly LimitWindow[] = ['day', 'week', 'month', 'total']

/** `before` with the changes of the options. Throws CommandFailure for a wrong option. */
function limitsOf(invocation: Invocation, before: KeyLimits, now: number): KeyLimits {
  const option = <T>(name: string, flag: string, read: (flag: string, text: string) => T, kept: T | null) => {
    const text = invocation.option(name)
    if (text === undefined) return kept
    return text === 'none' ? null : read(flag, text)
  }
  const spendLimit = option('limitUsd', '--limit-usd', amountOfUsd, before.spendLimit)
  const window = invocation.option('limitWindow')
  if (window !== undefined && spendLimit === null) throw usageFault('--limit-window needs --limit-usd')
  const kept = spendLimit === null ? 'total' : before.limitWindow
  const date = (flag: string, text: string) => futureDate(flag, text, now)
  return {
    expiresAt: option('expires', '--expires', date, before.expiresAt),
    spendLimit,
    limitWindow: window === undefined ? kept : oneOf('--limit-window', window, windows),
    allowedModels: option('models', '--models', modelList, before.allowedModels),
    requestsPerMinute: option('requestsPerMinute', '--requests-per-minute', rate, before.requestsPerMinute),
    tokensPerMinute: option('tokensPerMinute', '--tokens-per-minute', rate, before.tokensPerMinute),
    networks: option('networks', '--networks', networkList, before.networks),
    cacheTtl: option('cacheTtl', '--cache-ttl', seconds, before.cacheTtl),
  }
}

function rate(flag: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw usageFault(`${flag} takes a whole number from 1 to 999999999, or none, not ${JSON.stringify(text)}`)
}

function seconds(flag: string, text: string): number {
  if (/^[1-9]\d{0,6}$/.test(text) && Number(text) <= 2_592_000) return Number(text)
  throw usageFault(`${flag} takes whole seconds from 1 to 2592000, or none, not ${JSON.stringify(text)}`)
}

export function modelList(flag: string, text: string): readonly string[] {
  const models = listOf(text)
  const wrong = models.find((id) => id !== '*' && !/^\w[\w.-]*(\/\S+)?$/.test(id))
  if (wrong === undefined && models.length > 0) return models
  throw usageFault(
    `${flag} takes ids such as openai/gpt-5 or openai/*, and names of routes, not ${JSON.stringify(wrong ?? text)}`,
  )
}

/** Comma-separated addresses and ranges. Throws CommandFailure for an invalid one. */
function networkList(flag: string, text: string): readonly string[] {
  const networks = listOf(text)
  const wrong = networks.find((network) => !isNetwork(network))
  if (wrong === undefined && networks.length > 0) return networks
  throw usageFault(
    `${flag} takes addresses or ranges such as 10.0.0.0/8, not ${JSON.stringify(wrong ?? text)}`,
  )
}

export function listOf(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
}

// `weir keys … --management`: keys of the admin API, which cannot call models.

const ofCalls = [
  'limitUsd',
  'limitWindow',
  'models',
  'requestsPerMinute',
  'tokensPerMinute',
  'cacheTtl',
] as const

/** Creates a key that acts for an operator and prints it; it cannot be shown again. */
async function createKeyOfOperator(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('test') || ofCalls.some((name) => invocation.option(name) !== undefined))
    throw usageFault('a management key makes no calls: it takes --name, --expires and --networks')
  const now = context.io.clock()
  const [expires, networks] = [invocation.option('expires'), invocation.option('networks')]
  const wanted = {
    name: invocation.option('name') ?? 'management key',
    expiresAt: expires === undefined ? null : futureDate('--expires', expires, now),
    networks: networks === undefined ? null : networkList('--networks', networks),
    scope: oneOf('--scope', invocation.option('scope') ?? 'admin', ['admin', 'scim'] as const),
  }
  const { key: text, ...shown } = await withAccount(context, invocation, async (store, account) => {
    if (account.role !== 'operator')
      throw new CommandFailure(
        `${account.email} is no operator (weir accounts role ${account.email} operator)`,
      )
    return createManagementKey(actingOn(context, store, store), { account: account.id, ...wanted })
  })
  const { id } = shown
  if (!context.json)
    context.io.err(`The key ${id} is shown once; only its hash is kept. weir keys revoke ${id} ends it.\n`)
  print(context, { json: { ...managementView(shown), key: text }, text })
}

async function listManagementKeys(context: Context, invocation: Invocation): Promise<void> {
  const named = invocation.option('account')
  const now = context.io.clock()
  const keys = await withStore(context, async (store) =>
    store.managementKeys.list(named === undefined ? undefined : (await accountOf(store, named)).id),
  )
  const views = keys.map((key) => managementView(managementKeyView(key, now)))
  const rows = views.map((key) => [
    key.id,
    key.name,
    key.state,
    `…${key.last_four}`,
    key.expires_at ?? 'never',
  ])
  const text = rows.length === 0 ? 'no keys' : table(['KEY', 'NAME', 'STATE', 'ENDS IN', 'EXPIRES'], rows)
  print(context, { json: views, text })
}

function managementView(view: ManagementKeyView) {
  return { ...view, last_four: view.last4, management: true }
}
