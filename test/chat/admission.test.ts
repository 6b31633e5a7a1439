// Who may use which model, out of what: row by row, in order of precedence.

import { describe, expect, test } from 'bun:test'
import type { Account, Caller } from '../../src/accounts/account.ts'
import { admit, costsOf, refusal, refusalError, wrongEndpoint } from '../../src/chat/admission.ts'
import { admissionRules } from '../../src/http/console/requests.ts'
import { ownerHint } from '../../src/chat/call.ts'
import { buildPrice, freePrice } from '../../src/catalog/row.ts'
import { freeIn, remainingIn } from '../../src/credits/wallet.ts'
import type { Balance } from '../../src/credits/ledger/ledger.ts'
import { usd } from '../../src/credits/money.ts'
import type { Pool } from '../../src/credits/pool.ts'
import { catalogOf, row } from '../catalog/support.ts'
import { callOf } from './parts.ts'
import { modelOf } from './support.ts'

const now = 1_000

function balanceOf(pools: Partial<Record<Pool, number>>, expiresAt: number | null = null): Balance {
  const lots = Object.entries(pools).map(([pool, amount]) => ({
    id: pool,
    pool: pool as Pool,
    granted: usd(amount),
    remaining: usd(amount),
    pinned: 0n,
    grantedAt: 0,
    expiresAt,
  }))
  return { account: 'acc', lots, debt: 0n, creditLine: 0n }
}

interface Who {
  readonly channel?: 'api' | 'app'
  readonly mode?: 'live' | 'test'
  readonly suspended?: boolean
  readonly allowedModels?: readonly string[] | null
}

function callerOf({ channel = 'api', mode = 'live', suspended = false, allowedModels = null }: Who): Caller {
  const account = {
    id: 'acc',
    email: 'a@example.com',
    createdAt: 0,
    suspended,
    role: 'user',
    verifiedAt: 0,
    monthlyCredit: 0n,
  } as const
  const key = {
    id: 'key',
    account: 'acc',
    name: '',
    mode,
    group: null,
    hash: '',
    lastFour: '',
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    paused: null,
    spendLimit: null,
    limitWindow: 'total' as const,
    allowedModels,
    requestsPerMinute: null,
    tokensPerMinute: null,
    networks: null,
    cacheTtl: null,
    sees: 'own' as const,
    lineage: null,
    replacedBy: null,
  }
  return { account, key: channel === 'app' ? null : key, standing: null, session: null, channel, mode }
}

const nothing = balanceOf({})
const bought = balanceOf({ purchased: 1 })
const gifts = balanceOf({ welcome: 1, daily: 1 })
const subscribed = balanceOf({ subscription: 1 })
const only = { allowedModels: ['other/m'] }

test.each<[string, Who, 'open' | 'premium', Balance, string | undefined]>([
  // who, model, balance, answer
  [
    'premium without credit comes before everything',
    { suspended: true, ...only },
    'premium',
    nothing,
    'plan_required',
  ],
  ['gifts do not open premium models', {}, 'premium', gifts, 'plan_required'],
  ['nor does a subscription, by key', {}, 'premium', subscribed, 'plan_required'],
  ['in the app a subscription does', { channel: 'app' }, 'premium', subscribed, undefined],
  ['in the app gifts do not', { channel: 'app' }, 'premium', gifts, 'plan_required'],
  ['S36: a key spends purchased credit alone', {}, 'open', gifts, 'purchased_credits_required'],
  ['that comes before the suspension', { suspended: true }, 'open', nothing, 'purchased_credits_required'],
  ['and before the list of models', only, 'open', nothing, 'purchased_credits_required'],
  ['the app may do without purchased credit', { channel: 'app' }, 'open', gifts, undefined],
  ['the suspension comes before the list', { suspended: true, ...only }, 'open', bought, 'account_suspended'],
  ['the list of the key', only, 'open', bought, 'model_not_allowed'],
  ['a list may name the provider', { allowedModels: ['a/*'] }, 'open', bought, undefined],
  ['purchased credit opens all', {}, 'premium', bought, undefined],
  [
    'expired credit opens nothing',
    {},
    'open',
    balanceOf({ purchased: 1 }, now),
    'purchased_credits_required',
  ],
  ['a test key needs no credit', { mode: 'test' }, 'premium', nothing, undefined],
  ['but obeys its list', { mode: 'test', ...only }, 'open', nothing, 'model_not_allowed'],
])('%s', (_, who, kind, balance, answer) => {
  expect(refusal(callerOf(who), modelOf('a/m', { premium: kind === 'premium' }), balance, now)).toBe(
    answer as never,
  )
})

test('the order that the console explains is the order in which calls are refused', () => {
  /** Who is refused for every reason at once, and then for one less at a time. */
  const fired = [
    wrongEndpoint(modelOf('a/m'), 'embeddings'),
    refusal(callerOf({ suspended: true, ...only }), modelOf('a/m', { premium: true }), nothing, now),
    refusal(callerOf({ suspended: true, ...only }), modelOf('a/m'), nothing, now),
    refusal(callerOf({ suspended: true, ...only }), modelOf('a/m'), bought, now),
    refusal(callerOf(only), modelOf('a/m'), bought, now),
  ]
  expect(fired).toEqual([
    'wrong_endpoint',
    'plan_required',
    'purchased_credits_required',
    'account_suspended',
    'model_not_allowed',
  ])
  const places = fired.map((code) => admissionRules.findIndex(({ codes }) => codes.includes(code!)))
  expect(places).not.toContain(-1)
  expect(places).toEqual(places.toSorted((a, b) => a - b))
})

test("with the owner's key a refusal for want of credit names the command that adds some", () => {
  const owner = { ...callerOf({}).account, email: 'owner@localhost' }
  const told = (account: Account) =>
    refusalError('purchased_credits_required', modelOf('a/m'), 'chat', { account, standing: null }).message
  expect(told(owner)).toContain('weir credits grant --account owner@localhost --pool purchased --usd 100')
  expect(told(callerOf({}).account)).not.toContain('weir')
  expect(ownerHint('insufficient_credits', { account: owner, standing: null }).message).toContain(
    'weir credits grant',
  )
})

describe('a model that is free', () => {
  const offer = { provider: 'a', upstream: 'm', price: buildPrice(freePrice) }
  const free = modelOf('a/m', { offers: [offer] })
  const reportsNothing = () => false

  test('needs no purchased credit', () => {
    const costs = costsOf(free, reportsNothing)
    expect(costs).toBe('nothing')
    expect(refusal(callerOf({}), free, nothing, now, costs)).toBeUndefined()
    expect(refusal(callerOf({ suspended: true }), free, nothing, now, costs)).toBe('account_suspended')
    expect(refusal(callerOf(only), free, nothing, now, costs)).toBe('model_not_allowed')
    expect(refusal(callerOf({}), { ...free, premium: true }, nothing, now, costs)).toBe('plan_required')
  })

  test.each([
    ['a fee for each request', { ...freePrice, per_request: '0.01' }],
    ['a fee for searches', { ...freePrice, per_call: { web_search: '0.01' } }],
    ['a price for reasoning', { ...freePrice, reasoning: '1' }],
    [
      'a price for long prompts',
      { ...freePrice, tiers: [{ above_prompt_tokens: 10, input: '1', output: '1' }] },
    ],
  ])('is not one with %s', (_, price) => {
    expect(costsOf({ ...free, offers: [{ ...offer, price: buildPrice(price) }] }, reportsNothing)).toBe(
      'something',
    )
  })

  test('is not one that another provider sells, nor one whose provider reports costs of its own', () => {
    const paid = { ...offer, provider: 'b', price: buildPrice({ input: '1', output: '1' }) }
    expect(costsOf({ ...free, offers: [offer, paid] }, reportsNothing)).toBe('something')
    expect(costsOf(free, (provider) => provider === 'a')).toBe('something')
  })
})

describe('what is there', () => {
  test('counts holds for opening models, not for paying', () => {
    const [lot] = bought.lots
    const held: Balance = { ...bought, lots: [{ ...lot!, pinned: usd(1) }] }
    expect(remainingIn(held, 'purchased', now)).toBe(usd(1))
    expect(freeIn(held, ['purchased'], now)).toBe(0n)
    expect(refusal(callerOf({}), modelOf('a/m'), held, now)).toBeUndefined()
  })

  test('counts what a debt stands against for neither, and gifts are no part of it', () => {
    const owing: Balance = { ...balanceOf({ purchased: 3, welcome: 1 }), debt: usd(2) }
    expect(freeIn(owing, ['welcome', 'purchased'], now)).toBe(usd(2))
    expect(remainingIn(owing, 'purchased', now)).toBe(usd(1))
    const owingAll: Balance = { ...owing, debt: usd(3) }
    expect(freeIn(owingAll, ['purchased'], now)).toBe(0n)
    expect(refusal(callerOf({}), modelOf('a/m'), owingAll, now)).toBe('purchased_credits_required')
  })
})

describe('a fallback', () => {
  const catalog = catalogOf([row('a/m'), row('a/old', { retires_on: '2026-01-01' }), row('b/m')])
  const admittedTo = async (models: string[]) => {
    const call = { ...callOf({ model: 'a/m', models }), caller: callerOf({}) }
    const ledger = { balance: () => balanceOf({ purchased: 1 }) }
    return admit({ catalog, ledger, now: () => now, providers: new Map() } as never, call, 'chat')
  }

  test('that has retired is left out, and named', async () => {
    const { models, warnings } = await admittedTo(['a/old', 'b/m'])
    expect(models.map(({ id }) => id)).toEqual(['a/m', 'b/m'])
    expect(warnings).toEqual([{ param: 'models[0]', message: 'a/old is left out: model_retired' }])
  })

  test('that was never there is an error', async () => {
    expect(await admittedTo(['a/ol']).catch((error: unknown) => error)).toMatchObject({
      code: 'model_not_found',
    })
  })
})

describe('a plan that names its models', () => {
  const lots = new Set(['subscription'])
  const opened = { models: ['test/*'], lots }
  const elsewhere = { models: ['other/m'], lots }
  const refused = (who: Who, balance: Balance, plans: typeof opened) =>
    refusal(callerOf(who), modelOf('test/m', { premium: true }), balance, now, 'something', plans)

  test.each([
    ['opens them to chats', { channel: 'app' }, subscribed, opened, undefined],
    ['also when its credit is spent', { channel: 'app' }, nothing, opened, undefined],
    ['opens no others by its credit', { channel: 'app' }, subscribed, elsewhere, 'plan_required'],
    ['takes nothing from purchased credit', { channel: 'app' }, bought, elsewhere, undefined],
    ['opens nothing to keys', {}, subscribed, opened, 'plan_required'],
  ] as const)('%s', (_, who, balance, plans, answer) => {
    expect(refused(who, balance, plans)).toBe(answer)
  })

  test('leaves what other subscription credit opens', () => {
    const both = {
      ...subscribed,
      lots: [...subscribed.lots, { ...subscribed.lots[0]!, id: 'of an app store' }],
    }
    expect(refused({ channel: 'app' }, both, elsewhere)).toBeUndefined()
  })
})
