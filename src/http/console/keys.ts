// The keys of an account in the console: create, change, rotate, revoke.

import { z } from 'zod'
import {
  type Account,
  type ApiKey,
  type IssuedKey,
  issueKey,
  issueKeyOnce,
  keyIdOf,
  type KeyLimits,
  type KeyRights,
  type KeyPause,
  keyState,
  lifeState,
  replaceKey,
  unlimited,
  windowStart,
} from '../../accounts/account.ts'
import { isFrozen } from '../../accounts/key-leaks.ts'
import { budgetRoom } from '../../chat/billing/need.ts'
import { freeIn } from '../../credits/wallet.ts'
import { formatUsd, larger, type Pico, smaller } from '../../credits/money.ts'
import { fundingOf } from '../../credits/pool.ts'
import { GatewayError } from '../../errors/errors.ts'
import { pageLimit, queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import {
  type AccountAsked,
  type AccountRoute,
  accountRoute,
  type Acting,
  type ConsoleRoute,
  iso,
  isoOrNull,
  ofOwner,
  recordAct,
} from './route.ts'
import {
  amountOf,
  changeKeyBody,
  createKeyBody,
  futureTime,
  invalid,
  requireNetworks,
  rotateKeyBody,
} from './bodies.ts'
import type { KeyListView, KeyView, NewKeyView } from './answers.ts'

/** How long a key that was revoked stays in the list of current ones. */
const recentMs = 86_400_000

const listParameters = z.strictObject({
  q: z.string().max(200).optional().describe('Only keys whose name, id or last characters hold this text.'),
  state: z
    .enum(['current', 'all'], 'It takes current or all.')
    .default('all')
    .describe('`current`: those that work, and those revoked within a day.'),
  cursor: z.string().max(200).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})

export const keyActs: readonly AccountRoute[] = [
  accountRoute(
    'GET keys',
    {
      operators: { id: 'listAccountKeys' },
      summary: 'The keys of the account, the newest first',
      query: listParameters,
    },
    async ({ parts, account, request }): Promise<KeyListView> => {
      const { q, cursor, limit, state } = queryOf(listParameters, request)
      const now = parts.now()
      const { keys, next, hidden } = await parts.accounts.pageKeys({
        account: account.id,
        limit,
        after: cursor,
        q: q?.toLowerCase(),
        state,
        now,
        endedAfter: now - recentMs,
      })
      if (!account.suspended) await parts.monthlyCredit.ensure(account)
      const free = await freeCredit(parts, account.id)
      const data = await Promise.all(keys.map((key) => keyView(parts, key, free)))
      return { data, has_more: next !== null, next_cursor: next, hidden }
    },
  ),
  accountRoute(
    'POST keys',
    {
      // Its answer holds a secret of an account that is another's.
      operators: { id: 'createAccountKey', elevated: true },
      summary: 'Make a key; it is shown this once',
      status: 201,
      errors: ['idempotency_conflict'],
      body: createKeyBody,
    },
    async (asked) => {
      const { parts, account, body } = asked
      const { name, mode = 'live', sees = 'own', group = null, id } = body
      const limits: KeyLimits = { ...unlimited, ...limitsOf(body, parts.now()) }
      if (body.limit_window !== undefined && limits.spendLimit === null) throw windowWithoutLimit()
      if (id !== undefined) await refuseSecond(parts, account, id)
      if (group !== null) await requireMember(parts.accounts, group, account.id)
      if ((await parts.accounts.countActiveKeys(account.id, parts.now(), mostKeys)) >= mostKeys)
        throw invalid(`An account has at most ${mostKeys} keys that work: revoke some first.`)
      return shownOnce(
        parts,
        await createKey(asked, { account: account.id, name, mode, group, sees, ...limits }, id),
        {},
      )
    },
  ),
  accountRoute(
    'PATCH keys/:id',
    {
      // It makes a key of another account work longer, or from elsewhere.
      operators: { id: 'changeAccountKey', elevated: true },
      summary: 'Change the name or the limits of a key',
      body: changeKeyBody,
    },
    async (asked) => {
      const { parts, body } = asked
      const key = await ownKey(asked)
      const changes = {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...limitsOf(body, parts.now()),
      }
      const { spendLimit } = { ...key, ...changes }
      if (body.limit_window !== undefined && spendLimit === null) throw windowWithoutLimit()
      return keyView(parts, await changeKey(asked, key, changes))
    },
  ),
  accountRoute(
    'DELETE keys/:id',
    { operators: { id: 'revokeAccountKey' }, summary: 'Revoke a key, at once' },
    async (asked) => keyView(asked.parts, await revokeKey(asked, await ownKey(asked))),
  ),
  accountRoute(
    'POST keys/:id/pause',
    {
      operators: { id: 'pauseAccountKey' },
      summary: 'Pause a key: it is refused, at once, until it is resumed',
      body: z.strictObject({}),
    },
    async (asked) => keyView(asked.parts, await pauseKey(asked, await ownKey(asked))),
  ),
  accountRoute(
    'POST keys/:id/resume',
    {
      // It lets the holder of a key of another account in again.
      operators: { id: 'resumeAccountKey', elevated: true },
      summary: 'Resume a paused key, with the limits and the history that it had',
      body: z.strictObject({}),
    },
    async (asked) => keyView(asked.parts, await resumeKey(asked, await ownKey(asked))),
  ),
  accountRoute(
    'POST keys/:id/rotate',
    {
      // As for a new key.
      operators: { id: 'rotateAccountKey', elevated: true },
      summary: 'Replace a key; the old one works on for the overlap',
      status: 201,
      errors: ['key_replaced'],
      body: rotateKeyBody,
    },
    async (asked) => {
      const old = await ownKey(asked)
      const { issued, replaced } = await rotateKey(asked, old, lengthOf(asked.body.overlap ?? '0'))
      return shownOnce(asked.parts, issued, replaced)
    },
  ),
]

export const keyRoutes: readonly ConsoleRoute[] = keyActs.map(ofOwner)

// What changes a key: for the routes, and for the commands.

type KeyActing = Acting<Pick<HttpParts, 'accounts'>>

/** Stores a new key, for `request` once. Throws `idempotency_conflict`. */
export async function createKey(acting: KeyActing, rights: KeyRights, request?: string): Promise<IssuedKey> {
  const { accounts, now } = acting.parts
  const issued =
    request === undefined
      ? await issueKey(accounts, rights, now())
      : await issueKeyOnce(accounts, rights, now(), request)
  // The same request has arrived twice at once.
  if (!issued) throw madeBefore(rights.name, keyIdOf(rights.account, request!))
  await recordAct(acting, 'key.create', rights.account, null, keyRow(issued.key, now()))
  return issued
}

/** Changes the name or the limits of a key that works or is paused. Throws `invalid_request`. */
export async function changeKey(
  acting: KeyActing,
  key: ApiKey,
  changes: Partial<KeyLimits & Pick<ApiKey, 'name'>>,
): Promise<ApiKey> {
  const { accounts, now } = acting.parts
  requireAlive(key, now())
  const changed = await accounts.changeKey(key.id, changes)
  if (!changed) throw new GatewayError('not_found')
  const { before, after } = changed
  await recordAct(acting, 'key.change', key.account, keyRow(before, now()), keyRow(after, now()))
  return after
}

/** Revokes a key at once. Repeating it succeeds and changes nothing. */
export async function revokeKey(acting: KeyActing, key: ApiKey): Promise<ApiKey> {
  const { accounts, now } = acting.parts
  if (keyState(key, now()) === 'revoked') return key
  await accounts.revokeKey(key.id, now())
  await recordAct(acting, 'key.revoke', key.account, { key: key.id, name: key.name }, null)
  return (await accounts.findKey(key.id))!
}

/**
 * Pauses a key at once. Repeating it changes nothing, but what its owner has paused an operator pauses as well. Throws
 * `invalid_request` for a key that has ended.
 */
export async function pauseKey(acting: KeyActing, key: ApiKey): Promise<ApiKey> {
  const by = acting.operator === null ? 'owner' : 'operator'
  if (key.paused !== null && (key.paused.by === by || by === 'owner')) return key
  return setPause(acting, key, { at: key.paused?.at ?? acting.parts.now(), by })
}

/** Resumes a paused key at once. Throws `invalid_request` to an owner whose key an operator has paused. */
export async function resumeKey(acting: KeyActing, key: ApiKey): Promise<ApiKey> {
  if (key.paused === null) return key
  if (acting.operator === null && key.paused.by === 'operator') throw pausedByOperator()
  return setPause(acting, key, null)
}

function pausedByOperator(): GatewayError {
  return invalid('An operator has paused this key: ask for it to be resumed.')
}

async function setPause(acting: KeyActing, key: ApiKey, pause: KeyPause | null): Promise<ApiKey> {
  const { accounts, now } = acting.parts
  requireAlive(key, now())
  if (acting.operator !== null) await accounts.pauseKey(key.id, pause)
  else if (!(await accounts.pauseOwnKey(key.id, pause))) throw pausedByOperator()
  const named = { key: key.id, name: key.name }
  const rowOf = ({ paused }: Pick<ApiKey, 'paused'>) => ({ ...named, paused_by: paused?.by ?? null })
  const what = pause === null ? 'key.resume' : 'key.pause'
  await recordAct(acting, what, key.account, rowOf(key), rowOf({ paused: pause }))
  return (await accounts.findKey(key.id))!
}

/** Replaces a key that works, which ends after the overlap, or one that is frozen, which ends at once. Throws `invalid_request` and `key_replaced`. */
export async function rotateKey(acting: KeyActing, old: ApiKey, overlapMs: number) {
  const { accounts, now } = acting.parts
  requireReplaceable(old, now())
  const rotated = await replaceKey(accounts, old, isFrozen(old) ? 0 : overlapMs, now())
  if (!rotated) {
    requireReplaceable((await accounts.findKey(old.id)) ?? old, now())
    throw new GatewayError('key_replaced')
  }
  const { issued, ends } = rotated
  const replaced = { replaces: old.id, replaced_works_until: iso(ends) }
  const after = { key: issued.key.id, ...replaced }
  await recordAct(acting, 'key.rotate', old.account, { key: old.id, name: old.name }, after)
  return { issued, replaced }
}

/** Throws `invalid_request` for a key that has ended, or is paused: its successor would work at once. */
function requireReplaceable(key: ApiKey, now: number): void {
  requireAlive(key, now)
  if (key.paused !== null && !isFrozen(key))
    throw invalid('The key is paused: resume it before you replace it.')
}

/** Throws `invalid_request` for a key that has ended. */
function requireAlive(key: ApiKey, now: number): void {
  const state = lifeState(key, now)
  if (state !== 'active') throw invalid(`The key is ${state}: make a new one.`)
}

/** Throws `invalid_request` unless the account is a member of the group, in which alone its keys can be made. */
export async function requireMember(
  accounts: Pick<HttpParts['accounts'], 'findStanding'>,
  group: string,
  account: string,
): Promise<void> {
  if (await accounts.findStanding(group, account)) return
  throw invalid(
    'A key is made in a group by a member of it: this account is none, or there is no such group.',
    'group',
  )
}

/** Throws `idempotency_conflict` if a request with this id has made a key. */
async function refuseSecond({ accounts }: HttpParts, account: Account, id: string): Promise<void> {
  const made = await accounts.findKey(keyIdOf(account.id, id))
  if (made) throw madeBefore(made.name, made.id)
}

function madeBefore(name: string, key: string): GatewayError {
  return new GatewayError('idempotency_conflict', {
    message: `This request has made the key ${JSON.stringify(name)} before. It was shown in that answer alone: if that was lost, revoke the key and make another.`,
    param: 'id',
    metadata: { key },
  })
}

/** Limit of active keys; revoked and expired ones do not count. */
const mostKeys = 500

type WantedLimits = Omit<typeof changeKeyBody._output, 'name'>

/** The limits named in a body, and no others. Throws `invalid_request`. */
function limitsOf(body: WantedLimits, now: number): Partial<KeyLimits> {
  const { expires_at, limit_usd, limit_window, models, requests_per_minute, tokens_per_minute } = body
  const { networks, cache_ttl } = body
  return {
    ...(expires_at === undefined
      ? {}
      : { expiresAt: expires_at === null ? null : futureTime('expires_at', expires_at, now) }),
    ...(limit_usd === undefined
      ? {}
      : { spendLimit: limit_usd === null ? null : amountOf('limit_usd', limit_usd) }),
    ...(limit_usd === null ? { limitWindow: 'total' as const } : {}),
    ...(limit_window === undefined ? {} : { limitWindow: limit_window }),
    ...(models === undefined ? {} : { allowedModels: models }),
    ...(requests_per_minute === undefined ? {} : { requestsPerMinute: requests_per_minute }),
    ...(tokens_per_minute === undefined ? {} : { tokensPerMinute: tokens_per_minute }),
    ...(cache_ttl === undefined ? {} : { cacheTtl: cache_ttl }),
    ...(networks === undefined ? {} : { networks: networks === null ? null : requireNetworks(networks) }),
  }
}

function windowWithoutLimit(): GatewayError {
  return invalid('limit_window needs limit_usd.', 'limit_window')
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const longestOverlapMs = 365 * 86_400_000

function lengthOf(text: string): number {
  const ms = text === '0' ? 0 : Number(text.slice(0, -1)) * (unitMs[text.slice(-1)] ?? 0)
  if (ms > longestOverlapMs) throw invalid('overlap is at most 365d.', 'overlap')
  return ms
}

async function ownKey({ parts, account, params }: AccountAsked<unknown>): Promise<ApiKey> {
  const key = await parts.accounts.findKey(params['id']!)
  if (key?.account !== account.id) throw new GatewayError('not_found')
  return key
}

async function shownOnce(
  parts: HttpParts,
  { key, text }: IssuedKey,
  more: Pick<NewKeyView, 'replaces' | 'replaced_works_until'>,
): Promise<NewKeyView> {
  return { ...(await keyView(parts, key)), key: text, ...more }
}

type KeyParts = Pick<HttpParts, 'accounts' | 'ledger' | 'now'>

/** What API calls that this account, or group, pays for could spend now, picodollars. */
async function freeCredit({ ledger, now }: KeyParts, payer: string): Promise<Pico> {
  return freeIn(await ledger.balance(payer), fundingOf('api', true), now())
}

/** The same of a key of a group, within the budgets of that; nothing for who is no member any more. */
async function freeInGroup(parts: KeyParts, group: string, person: string): Promise<Pico> {
  const standing = await parts.accounts.findStanding(group, person)
  if (standing === undefined) return 0n
  const free = await freeCredit(parts, standing.payer ?? person)
  const room = await budgetRoom(parts.ledger, standing, parts.now())
  return room === undefined ? free : smaller(free, room.free)
}

/** A key and its use. `known` is what its account could spend now, where that has been looked up. */
export async function keyView(parts: KeyParts, key: ApiKey, known?: Pico): Promise<KeyView> {
  const { ledger, accounts, now } = parts
  const free =
    key.group === null
      ? (known ?? (await freeCredit(parts, key.account)))
      : await freeInGroup(parts, key.group, key.account)
  const { spent, held } = await ledger.keySpend(key.id, windowStart(key.limitWindow, now()))
  const rest = key.spendLimit === null ? free : smaller(free, larger(0n, key.spendLimit - spent - held))
  return {
    ...keyRow(key, now()),
    last_used_at: isoOrNull(await accounts.keyUsedAt(key.id)),
    spent_usd: formatUsd(spent),
    spendable_usd: key.mode === 'test' ? null : formatUsd(rest),
  }
}

/** What is known of a key without its use. */
function keyRow(key: ApiKey, now: number) {
  return {
    id: key.id,
    name: key.name,
    mode: key.mode,
    group: key.group,
    state: keyState(key, now),
    last4: key.lastFour,
    created_at: iso(key.createdAt),
    expires_at: isoOrNull(key.expiresAt),
    revoked_at: isoOrNull(key.revokedAt),
    paused_at: isoOrNull(key.paused?.at ?? null),
    paused_by: key.paused?.by ?? null,
    limit_usd: key.spendLimit === null ? null : formatUsd(key.spendLimit),
    limit_window: key.limitWindow,
    models: key.allowedModels,
    requests_per_minute: key.requestsPerMinute,
    tokens_per_minute: key.tokensPerMinute,
    networks: key.networks,
    cache_ttl: key.cacheTtl,
    sees: key.sees,
    replaced_by: key.replacedBy,
  }
}
