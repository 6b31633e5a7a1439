// `weir keys create|list|revoke|rotate`

import { type ApiKey, keyState, type KeyMode, type LimitWindow } from '../../accounts/api-key.ts'
import { CommandFailure, type Context, type Invocation, isoTime, print, usageFault } from '../context.ts'
import { type IssuedKey, issueKey, issueSuccessor, type KeyRights } from '../../accounts/issue-key.ts'
import { keyView, renderKeys } from './key-view.ts'
import { amountOfUsd, futureDate, lengthOfTime, oneOf } from '../values.ts'
import { accountOf, type CommandStore, withStore } from '../with-store.ts'

const windows: readonly LimitWindow[] = ['day', 'week', 'month', 'total']

/** Creates a key and prints it, this once. */
export async function createKey(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const expires = invocation.option('expires')
  const limit = invocation.option('limitUsd')
  const window = invocation.option('limitWindow')
  const models = invocation.option('models')
  const mode: KeyMode = invocation.flag('test') ? 'test' : 'live'
  if (window !== undefined && limit === undefined) throw usageFault('--limit-window needs --limit-usd')
  const rights: Omit<KeyRights, 'account'> = {
    mode,
    name: invocation.option('name') ?? (mode === 'test' ? 'test key' : 'key'),
    expiresAt: expires === undefined ? null : futureDate('--expires', expires, now),
    spendLimit: limit === undefined ? null : amountOfUsd('--limit-usd', limit),
    limitWindow: window === undefined ? 'total' : oneOf('--limit-window', window, windows),
    allowedModels: models === undefined ? null : modelList(models),
    requestsPerMinute: null,
    tokensPerMinute: null,
    networks: null,
  }
  const minted = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    return issueKey(store.accounts, { account: account.id, ...rights }, now)
  })
  printMinted(context, minted, {})
}

function modelList(text: string): string[] {
  const models = text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
  const wrong = models.find((id) => id !== '*' && !/^[^/\s]+\/\S+$/.test(id))
  if (wrong !== undefined || models.length === 0) {
    throw usageFault(
      `--models takes ids such as openai/gpt-5 or openai/*, not ${JSON.stringify(wrong ?? text)}`,
    )
  }
  return models
}

export async function listKeys(context: Context, invocation: Invocation): Promise<void> {
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

/** Revokes a key at once. Revoking a revoked key changes nothing and succeeds. */
export async function revokeKey(context: Context, invocation: Invocation): Promise<void> {
  const id = invocation.args[0] ?? ''
  const now = context.io.clock()
  const key = await withStore(context, async (store) => {
    const found = await keyOf(store, id)
    if (keyState(found, now) !== 'revoked') await store.accounts.revokeKey(found.id, now)
    return keyOf(store, id)
  })
  print(context, { json: keyView(key, now), text: `revoked ${key.id} (…${key.lastFour})` })
}

/** Mints a successor with the same rights, of which the same is used up; the old key ends after the overlap. */
export async function rotateKey(context: Context, invocation: Invocation): Promise<void> {
  const overlapMs = lengthOfTime('--overlap', invocation.option('overlap') ?? '0')
  const now = context.io.clock()
  const rotated = await withStore(context, async (store) => {
    const old = await keyOf(store, invocation.args[0] ?? '')
    const state = keyState(old, now)
    if (state !== 'active') throw new CommandFailure(`the key ${old.id} is ${state}: create a new one`)
    const made = await issueSuccessor(store.accounts, old, now)
    if (!made) throw new CommandFailure(`the key ${old.id} has been replaced already: rotate its successor`)
    // A key that would have ended sooner by itself keeps its end.
    const ends = Math.min(now + overlapMs, old.expiresAt ?? Number.POSITIVE_INFINITY)
    if (overlapMs === 0) await store.accounts.revokeKey(old.id, now)
    else await store.accounts.expireKey(old.id, ends)
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
    context.io.err('This key is shown once; only its hash is kept.\n')
    if (more.replaces)
      context.io.err(`It replaces ${more.replaces}, which works until ${more.replaced_works_until}.\n`)
  }
  print(context, { json: { ...view, key: text, ...more }, text })
}
