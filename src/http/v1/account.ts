// GET /v1/key, /v1/credits, /v1/generation and /v1/usage: what a key may know of itself, its account and its calls.

import {
  type ApiKey,
  type Caller,
  hasMonthly,
  payerOf,
  sees,
  viewerOf,
  windowEnd,
  windowStart,
} from '../../accounts/account.ts'
import { budgetsOf, type GroupStanding } from '../../accounts/group.ts'
import { formatCreditLine, freeIn } from '../../credits/wallet.ts'
import type { Balance, LedgerStore } from '../../credits/ledger/ledger.ts'
import { receiptOf } from '../../credits/ledger/receipt.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import { fundingOf, type Pool, pools, rulesOf } from '../../credits/pool.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { RequestQuery, RequestReader } from '../../observe/call-log.ts'
import { requestIdOf } from '../../protocols/openai-responses/inbound/inbound.ts'
import { asCaller, type Route } from '../route.ts'
import { requireKnown } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { placeOf, requestList, requestWhole } from './usage.ts'

export const getKey: Route = {
  method: 'GET',
  path: '/v1/key',
  handle: asCaller(({ ledger, now }, caller) => describeKey(caller, ledger, now())),
  operation: async () => (await import('./account-documentation.ts')).key,
}

export const reportLeakedKey: Route = {
  method: 'POST',
  path: '/v1/keys/leaked',
  handle: async (parts, { request }) => (await import('./leaked-keys.ts')).reportLeak(parts, request),
  operation: async () => (await import('./account-documentation.ts')).leakedKey,
}

export const getCredits: Route = {
  method: 'GET',
  path: '/v1/credits',
  handle: asCaller(async ({ ledger, monthlyCredit, now }, caller) => {
    if (hasMonthly(caller)) await monthlyCredit.ensure(caller.account)
    return describeCredits(caller, ledger, now())
  }),
  operation: async () => (await import('./account-documentation.ts')).credits,
}

export const getGeneration: Route = {
  method: 'GET',
  path: '/v1/generation',
  handle: asCaller((parts, caller, { request }) =>
    describeGeneration(caller, parts, new URL(request.url).searchParams.get('id')),
  ),
  operation: async () => (await import('./account-documentation.ts')).generation,
}

export const getUsage: Route = {
  method: 'GET',
  path: '/v1/usage',
  handle: asCaller(async (parts, caller, { request }) =>
    (await import('./usage.ts')).accountUsage(parts, viewerOf(caller), request),
  ),
  operation: async () => (await import('./account-documentation.ts')).usage,
}

export const getUsageCsv: Route = {
  method: 'GET',
  path: '/v1/usage.csv',
  handle: async (parts, call) => {
    const viewer = viewerOf(await call.caller())
    return (await import('./usage.ts')).accountUsageCsv(parts, viewer, call.request)
  },
  operation: async () => (await import('./account-documentation.ts')).usageCsv,
}

/** The calling key: its label and limits, and what it spent in the current day, week and month. */
async function describeKey(caller: Caller, ledger: LedgerStore, now: number) {
  const { key } = caller
  if (!key) throw new GatewayError('not_found')
  const spend = async (window: ApiKey['limitWindow']) => ledger.keySpend(key.id, windowStart(window, now))
  const usage = async (window: ApiKey['limitWindow']) => formatUsd((await spend(window)).spent)
  const { spent, held } = await spend(key.limitWindow)
  const end = windowEnd(key.limitWindow, now)
  return {
    data: {
      id: key.id,
      label: key.name,
      mode: key.mode,
      account: caller.account.id,
      created_at: iso(key.createdAt),
      expires_at: iso(key.expiresAt),
      limit: amountOrNull(key.spendLimit),
      limit_window: key.spendLimit === null ? null : key.limitWindow,
      limit_remaining: key.spendLimit === null ? null : formatUsd(atLeastZero(key.spendLimit - spent - held)),
      limit_resets_at: key.spendLimit === null ? null : iso(end),
      allowed_models: key.allowedModels,
      requests_per_minute: key.requestsPerMinute,
      tokens_per_minute: key.tokensPerMinute,
      networks: key.networks,
      cache_ttl: key.cacheTtl,
      sees: key.sees,
      usage: await usage('total'),
      usage_daily: await usage('day'),
      usage_weekly: await usage('week'),
      usage_monthly: await usage('month'),
      group: caller.standing && (await describeGroup(caller.standing, ledger, now)),
    },
  }
}

/** The group of a key, and every budget on the way up with what is spent and reserved of it now. */
async function describeGroup(standing: GroupStanding, ledger: LedgerStore, now: number) {
  const budgets = budgetsOf(standing, now)
  const spends = await ledger.budgetSpend(budgets)
  return {
    id: standing.group,
    name: standing.levels[0]!.name,
    paid_by: standing.payer ?? standing.person,
    budgets: budgets.flatMap(({ scope, limit, windowEnd: end }, at) => {
      const [id, person] = scope.split('/')
      const level = standing.levels.find((each) => each.id === id)!
      const { spent, held } = spends[at]!
      if (limit === null) return []
      return {
        group: level.id,
        name: level.name,
        of: person === undefined ? ('group' as const) : ('member' as const),
        window: level.window,
        limit: formatUsd(limit),
        spent: formatUsd(spent),
        reserved: formatUsd(held),
        resets_at: iso(end),
      }
    }),
  }
}

/**
 * The credit that pays for the caller, by pool and lot: the account's, or that of its key's group. `available` is what a call of this kind, API or app, could hold now. A test key
 * spends nothing and sees nothing of the credit that pays for live calls.
 */
async function describeCredits(caller: Caller, ledger: LedgerStore, now: number) {
  if (caller.mode === 'test') return noCredit()
  const payer = payerOf(caller)
  const balance = await ledger.balance(payer)
  const totals = await ledger.totals(payer)
  const living = balance.lots.filter((lot) => lot.expiresAt === null || lot.expiresAt > now)
  return {
    data: {
      currency: 'USD',
      available: formatUsd(freeIn(balance, fundingOf(caller.channel, true), now)),
      held: formatUsd(sum(balance.lots.map((lot) => lot.pinned))),
      debt: formatUsd(balance.debt),
      credit_line: formatCreditLine(balance.creditLine),
      pools: pools.map((pool) => describePool(pool, living)),
      total_purchased: formatUsd(totals.purchased),
      total_used: formatUsd(totals.used),
    },
  }
}

function noCredit() {
  const none = formatUsd(0n)
  const debts = { held: none, debt: none, credit_line: null }
  const sums = { total_purchased: none, total_used: none }
  const data = {
    currency: 'USD',
    available: none,
    ...debts,
    pools: pools.map((pool) => describePool(pool, [])),
    ...sums,
  }
  return { data }
}

function describePool(pool: Pool, living: Balance['lots']) {
  const lots = living.filter((lot) => lot.pool === pool)
  return {
    type: pool,
    remaining: formatUsd(sum(lots.map((lot) => lot.remaining))),
    api_spendable: rulesOf(pool).api,
    lots: lots.map((lot) => ({
      remaining: formatUsd(lot.remaining),
      held: formatUsd(lot.pinned),
      granted_at: iso(lot.grantedAt),
      expires_at: iso(lot.expiresAt),
    })),
  }
}

/**
 * The receipt of a call that the caller may see, by our request id or the answer's. Throws `not_found`, for the calls of
 * other keys too.
 */
async function describeGeneration(caller: Caller, { ledger, accounts }: HttpParts, id: string | null) {
  if (id === null || id === '') {
    throw new GatewayError('invalid_request', { message: 'Name the call: ?id=<request id>.', param: 'id' })
  }
  const { account } = caller
  const call = (await ledger.call(account.id, requestIdOf(id) ?? id)) ?? (await ledger.call(account.id, id))
  if (!call || !(await mayRead(accounts, caller, call.key)))
    throw new GatewayError('not_found', {
      message: 'There is no call with this id whose receipt this key may see.',
    })
  return { data: receiptOf(call) }
}

/** Whether the caller may see a call that was made with the key of this id; null for one of the app. */
async function mayRead(
  accounts: HttpParts['accounts'],
  caller: Caller,
  key: string | null,
): Promise<boolean> {
  const madeWith = key === null ? null : ((await accounts.findKey(key)) ?? null)
  return sees(viewerOf(caller), madeWith)
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}

function sum(amounts: readonly Pico[]): Pico {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

function atLeastZero(amount: Pico): Pico {
  return amount < 0n ? 0n : amount
}

function amountOrNull(amount: Pico | null): string | null {
  return amount === null ? null : formatUsd(amount)
}

// GET /v1/requests and GET /v1/requests/{id}: an account's calls, served or refused.

const defaultPage = 50
const largestPage = 200
/** No id, name or time is longer. */
const maxFilterCharacters = 200

const filters = ['key', 'model', 'code', 'tag', 'from', 'until', 'cursor', 'limit']

export const listRequests: Route = {
  method: 'GET',
  path: '/v1/requests',
  handle: asCaller(({ requests }, caller, { request }) => requestsOf(caller, requests, request)),
  operation: async () => (await import('./account-documentation.ts')).listRequests,
}

export const getRequest: Route = {
  method: 'GET',
  path: '/v1/requests/:id',
  handle: asCaller((parts, caller, { params }) => oneRequest(parts, caller, params['id']!)),
  operation: async () => (await import('./account-documentation.ts')).getRequest,
}

/** The calls that the caller may see, newest first, filtered by the query. Throws `invalid_request`. */
async function requestsOf(caller: Caller, requests: RequestReader, request: Request) {
  const query = new URL(request.url).searchParams
  requireKnown(query, filters)
  const asked = { ...filterOf(query), ...viewerOf(caller), limit: limitOf(query) }
  return requestList(await requests.page(asked, request.signal))
}

/** Throws `not_found` for a call that is not in the log, or that the caller may not see. */
async function oneRequest({ requests, ledger, accounts }: HttpParts, caller: Caller, id: string) {
  const row = await requests.find(id, caller.account.id)
  if (row && (await mayRead(accounts, caller, row.key))) return { data: await requestWhole(row, ledger) }
  const message =
    'The request log holds no call with this id that this key may see. Receipts are kept for ever: GET /v1/generation?id=.'
  throw new GatewayError('not_found', { message })
}

function filterOf(query: URLSearchParams): Omit<RequestQuery, 'limit' | 'account'> {
  const [key, model, code] = [text(query, 'key'), text(query, 'model'), text(query, 'code')]
  const [from, until] = [timeOf(query, 'from'), timeOf(query, 'until')]
  const tag = tagIn(query)
  const cursor = text(query, 'cursor')
  const after = cursor === undefined ? undefined : placeOf(cursor)
  if (cursor !== undefined && after === undefined) throw wrong('cursor', 'the next_cursor of the page before')
  return {
    ...(key === undefined ? {} : { key }),
    ...(model === undefined ? {} : { model }),
    ...(code === undefined ? {} : { code }),
    ...(tag === undefined ? {} : { tag }),
    ...(from === undefined ? {} : { from }),
    ...(until === undefined ? {} : { until }),
    ...(after === undefined ? {} : { after }),
  }
}

function text(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name)
  if (value === null || value === '') return undefined
  if (value.length <= maxFilterCharacters) return value
  throw wrong(name, `at most ${maxFilterCharacters} characters`)
}

function tagIn(query: URLSearchParams): RequestQuery['tag'] {
  const value = query.get('tag')
  if (value === null || value === '') return undefined
  const [, name, rest] = /^([^=]{1,64})=(.{1,512})$/s.exec(value) ?? []
  if (name === undefined || rest === undefined) throw wrong('tag', 'a tag such as feature=chat')
  return { name, value: rest }
}

function timeOf(query: URLSearchParams, name: string): number | undefined {
  const value = text(query, name)
  if (value === undefined) return undefined
  const at = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(value) ? Date.parse(value) : Number.NaN
  if (Number.isNaN(at)) throw wrong(name, 'a time such as 2027-01-31 or 2027-01-31T08:00:00Z')
  return at
}

function limitOf(query: URLSearchParams): number {
  const value = text(query, 'limit')
  if (value === undefined) return defaultPage
  const limit = /^\d{1,4}$/.test(value) ? Number(value) : 0
  if (limit >= 1 && limit <= largestPage) return limit
  throw wrong('limit', `a whole number from 1 to ${largestPage}`)
}

function wrong(param: string, right: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param} must be ${right}.`, param })
}
