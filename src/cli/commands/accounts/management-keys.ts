// `weir keys … --management`: keys of the admin API, which cannot call models.

import { keyState } from '../../../accounts/account.ts'
import { issueManagementKey, type ManagementKey } from '../../../accounts/management-key.ts'
import { accountOf, recordAct, withStore } from '../../with-store.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../../context.ts'
import { networkList } from '../../key-limits.ts'
import { futureDate } from '../../values.ts'

const ofCalls = ['limitUsd', 'limitWindow', 'models', 'requestsPerMinute', 'tokensPerMinute'] as const

/** Creates a key that acts for an operator and prints it; it cannot be shown again. */
export async function createManagementKey(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.flag('test') || ofCalls.some((name) => invocation.option(name) !== undefined))
    throw usageFault('a management key makes no calls: it takes --name, --expires and --networks')
  const now = context.io.clock()
  const [expires, networks] = [invocation.option('expires'), invocation.option('networks')]
  const wanted = {
    name: invocation.option('name') ?? 'management key',
    expiresAt: expires === undefined ? null : futureDate('--expires', expires, now),
    networks: networks === undefined ? null : networkList('--networks', networks),
  }
  const { key, text } = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    if (account.role !== 'operator')
      throw new CommandFailure(
        `${account.email} is no operator (weir accounts role ${account.email} operator)`,
      )
    const issued = await issueManagementKey(store.managementKeys, { account: account.id, ...wanted }, now)
    await recordAct(context, store, 'management_key.create', account.id, null, { key: issued.key.id })
    return issued
  })
  if (!context.json)
    context.io.err(
      `The key ${key.id} is shown once; only its hash is kept. weir keys revoke ${key.id} ends it.\n`,
    )
  print(context, { json: { ...view(key, now), key: text }, text })
}

export async function listManagementKeys(context: Context, invocation: Invocation): Promise<void> {
  const named = invocation.option('account')
  const now = context.io.clock()
  const keys = await withStore(context, async (store) =>
    store.managementKeys.list(named === undefined ? undefined : (await accountOf(store, named)).id),
  )
  const views = keys.map((key) => view(key, now))
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

/** Revokes a management key; false if there is none with this id. */
export async function revokeManagementKey(context: Context, id: string): Promise<boolean> {
  const now = context.io.clock()
  const key = await withStore(context, async (store) => {
    if (!(await store.managementKeys.revoke(id, now))) return undefined
    const revoked = await store.managementKeys.find(id)
    await recordAct(context, store, 'management_key.revoke', revoked!.account, null, { key: id })
    return revoked
  })
  if (key) print(context, { json: view(key, now), text: `revoked ${key.id} (…${key.lastFour})` })
  return key !== undefined
}

function view(key: ManagementKey, now: number) {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    management: true,
    state: keyState(key, now),
    last_four: key.lastFour,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    revoked_at: isoTime(key.revokedAt),
    networks: key.networks,
  }
}
