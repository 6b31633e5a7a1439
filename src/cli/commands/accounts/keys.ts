// `weir keys create|list|limit|revoke|rotate`

import {
  type ApiKey,
  type IssuedKey,
  issueKey,
  issueSuccessor,
  type KeyMode,
  type KeyRights,
  keyState,
  unlimited,
} from '../../../accounts/account.ts'
import { formatUsd } from '../../../credits/money.ts'
import { CommandFailure, type Context, type Invocation, isoTime, print, table } from '../../context.ts'
import { limitsOf } from '../../key-limits.ts'
import { duration, oneOf } from '../../values.ts'
import { accountOf, type CommandStore, recordAct, withStore } from '../../with-store.ts'

/** Creates a key and prints it; it cannot be shown again. */
export async function createKey(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('management'))
    return (await import('./management-keys.ts')).createManagementKey(context, invocation)
  const now = context.io.clock()
  const mode: KeyMode = invocation.flag('test') ? 'test' : 'live'
  const rights: Omit<KeyRights, 'account'> = {
    mode,
    sees: oneOf('--sees', invocation.option('sees') ?? 'own', ['own', 'all'] as const),
    name: invocation.option('name') ?? (mode === 'test' ? 'test key' : 'key'),
    ...limitsOf(invocation, unlimited, now),
  }
  const minted = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const issued = await issueKey(store.accounts, { account: account.id, ...rights }, now)
    await recordAct(context, store, 'key.create', account.id, null, keyView(issued.key, now))
    return issued
  })
  printMinted(context, minted, {})
}

/** Changes the name or the limits of a key; without an option they stay. */
export async function limitKey(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const key = await withStore(context, async (store) => {
    const before = await keyOf(store, invocation.args[0] ?? '')
    const state = keyState(before, now)
    if (state !== 'active') throw new CommandFailure(`the key ${before.id} is ${state}: create a new one`)
    const name = invocation.option('name') ?? before.name
    const after = { ...before, name, ...limitsOf(invocation, before, now) }
    await store.accounts.changeKey(after)
    const [was, is] = [keyView(before, now), keyView(after, now)]
    await recordAct(context, store, 'key.change', before.account, was, is)
    return after
  })
  const view = keyView(key, now)
  print(context, { json: view, text: Bun.YAML.stringify(view, null, 2) })
}

export async function listKeys(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('management'))
    return (await import('./management-keys.ts')).listManagementKeys(context, invocation)
  const named = invocation.option('account')
  const now = context.io.clock()
  const keys = await withStore(context, async (store) => {
    const accounts =
      named === undefined ? await store.accounts.listAccounts() : [await accountOf(store, named)]
    const lists = await Promise.all(accounts.map(({ id }) => store.accounts.listKeys(id)))
    return lists.flat().map((key) => keyView(key, now))
  })
  print(context, { json: keys, text: renderKeys(keys) })
}

/** Revokes a key at once. Repeating it succeeds and changes nothing. */
export async function revokeKey(context: Context, invocation: Invocation): Promise<void> {
  const id = invocation.args[0] ?? ''
  const { revokeManagementKey } = await import('./management-keys.ts')
  if (await revokeManagementKey(context, id)) return
  const now = context.io.clock()
  const key = await withStore(context, async (store) => {
    const found = await keyOf(store, id)
    if (keyState(found, now) === 'revoked') return found
    await store.accounts.revokeKey(found.id, now)
    const named = { key: found.id, name: found.name }
    await recordAct(context, store, 'key.revoke', found.account, named, null)
    return keyOf(store, id)
  })
  print(context, { json: keyView(key, now), text: `revoked ${key.id} (…${key.lastFour})` })
}

/** Creates a successor with the same rights and shared limits; the old key ends after the overlap. */
export async function rotateKey(context: Context, invocation: Invocation): Promise<void> {
  const overlapMs = duration('--overlap', invocation.option('overlap') ?? '0')
  const now = context.io.clock()
  const rotated = await withStore(context, async (store) => {
    const old = await keyOf(store, invocation.args[0] ?? '')
    const state = keyState(old, now)
    if (state !== 'active') throw new CommandFailure(`the key ${old.id} is ${state}: create a new one`)
    const made = await issueSuccessor(store.accounts, old, now)
    if (!made) throw new CommandFailure(`the key ${old.id} has been replaced already: rotate its successor`)
    // If the key would expire sooner, it keeps its expiry.
    const ends = Math.min(now + overlapMs, old.expiresAt ?? Number.POSITIVE_INFINITY)
    if (overlapMs === 0) await store.accounts.revokeKey(old.id, now)
    else await store.accounts.expireKey(old.id, ends)
    const [was, is] = [
      { key: old.id, name: old.name },
      { key: made.key.id, replaced_works_until: isoTime(ends) },
    ]
    await recordAct(context, store, 'key.rotate', old.account, was, is)
    return { made, old, ends }
  })
  const { made, old, ends } = rotated
  printMinted(context, made, { replaces: old.id, replaced_works_until: isoTime(ends) })
}

async function keyOf(store: CommandStore, id: string): Promise<ApiKey> {
  const key = await store.accounts.findKey(id)
  if (!key) throw new CommandFailure(`there is no key with the id ${JSON.stringify(id)} (weir keys list)`)
  return key
}

function printMinted(
  context: Context,
  { key, text }: IssuedKey,
  more: { replaces?: string; replaced_works_until?: string | null },
): void {
  const view = keyView(key, context.io.clock())
  if (!context.json) {
    context.io.err(
      `The key ${key.id} is shown once; only its hash is kept. weir keys revoke ${key.id} ends it.\n`,
    )
    if (more.replaces)
      context.io.err(`It replaces ${more.replaces}, which works until ${more.replaced_works_until}.\n`)
  }
  print(context, { json: { ...view, key: text, ...more }, text })
}

// An API key for display: everything but the secret.

type KeyView = ReturnType<typeof keyView>

export function keyView(key: ApiKey, now: number) {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    mode: key.mode,
    state: keyState(key, now),
    last_four: key.lastFour,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    revoked_at: isoTime(key.revokedAt),
    limit_usd: key.spendLimit === null ? null : formatUsd(key.spendLimit),
    limit_window: key.limitWindow,
    models: key.allowedModels,
    requests_per_minute: key.requestsPerMinute,
    tokens_per_minute: key.tokensPerMinute,
    networks: key.networks,
    sees: key.sees,
    replaced_by: key.replacedBy,
  }
}

export function renderKeys(keys: readonly KeyView[]): string {
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
