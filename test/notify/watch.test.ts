// What the watch reports of keys whose limit refused a call, although a round of it fails.

import { describe, expect, test } from 'bun:test'
import type { Account, ApiKey } from '../../src/accounts/account.ts'
import type { Group, GroupRole } from '../../src/accounts/group.ts'
import { usd } from '../../src/credits/money.ts'
import { AccountWatch, type RecentCalls } from '../../src/notify/watch.ts'
import { day, minute, noon } from '../credits/support.ts'

const key: ApiKey = {
  id: 'aaaaaaaaaaaa',
  account: 'anna',
  name: 'a key',
  mode: 'live',
  group: null,
  hash: '',
  lastFour: '0000',
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
  paused: null,
  spendLimit: usd(10),
  limitWindow: 'day',
  allowedModels: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  networks: null,
  cacheTtl: null,
  sees: 'own',
  lineage: null,
  replacedBy: null,
}

interface State {
  now: number
  works: boolean
  spent: string
  held: string
  limit: string
  left: string
  bought: string
  /** Of the messages, in order. */
  readonly emitted: string[]
  role: GroupRole
  budget: string
  /** What is left of purchased credit when the month's has been granted. */
  monthly?: string
  recent?: Pick<RecentCalls, 'spenders' | 'refusedKeys'>
}

const lab: Group = {
  id: 'grp_lab',
  name: 'lab',
  parent: null,
  budget: null,
  window: 'day',
  timezone: 'Asia/Kolkata',
  memberBudget: null,
  allowedModels: null,
  tags: null,
  warnAt: [0.5, 0.8],
  createdAt: 0,
}

/** A watch over one account with one key; `restart` gives another over the same. */
function watching(more: Partial<State> = {}) {
  const state: State = {
    now: noon,
    works: true,
    spent: '9',
    held: '0',
    limit: '10',
    left: '100',
    bought: '100',
    emitted: [],
    role: 'admin',
    budget: '100',
    ...more,
  }
  const restart = () =>
    new AccountWatch({
      store: {
        accountsWanting: () => ['anna'],
        emit: ({ source }) => void (state.emitted.includes(source) || state.emitted.push(source)),
        lastSource: (_, subject) => state.emitted.findLast((source) => source.startsWith(`${subject}:`)),
      },
      accounts: {
        pageKeys: () =>
          Promise.resolve({ keys: [{ ...key, spendLimit: usd(state.limit) }], next: null, hidden: 0 }),
        findAccount: () => ({ id: 'anna', suspended: false }) as Account,
      },
      grantMonthly: () => {
        if (state.monthly !== undefined) state.left = state.monthly
        return Promise.resolve()
      },
      groups: {
        membershipsOf: () => [
          { group: 'grp_lab', account: 'anna', role: state.role, budget: null, joinedAt: 0, name: 'lab' },
        ],
        findGroup: () => ({ ...lab, budget: usd(state.budget) }),
      },
      ledger: {
        budgetSpend: (budgets) => budgets.map(() => ({ spent: usd(state.spent), held: usd(state.held) })),
        totals: () => ({ purchased: usd(state.bought), used: 0n }),
        keySpend: () => ({ spent: usd(state.spent), held: usd(state.held) }),
        balance: () => {
          if (!state.works) throw new Error('the database is away')
          const lot = {
            id: 'lot',
            pool: 'purchased',
            granted: usd(100),
            grantedAt: 0,
            expiresAt: null,
          } as const
          const lots = [{ ...lot, remaining: usd(state.left), pinned: usd(state.held) }]
          return { account: 'anna', lots, debt: 0n, creditLine: 0n }
        },
      },
      thresholds: { lowBalance: usd(5), expiringMs: 0 },
      recent: state.recent,
      now: () => state.now,
    })
  return { watch: restart(), restart, state }
}

const refused = { account: key.account, key: key.id, code: 'key_limit_exceeded', cost: 0n }
const limitReached = (emitted: readonly string[]) =>
  emitted.filter((source) => source.startsWith('key.limit_reached')).length

test('a round that fails leaves the refusals to the next one', async () => {
  const { watch, state } = watching()
  watch.callEnded(refused)
  state.works = false
  await expect(watch.look()).rejects.toThrow('the database is away')
  state.works = true
  await watch.look()
  expect(limitReached(state.emitted)).toBe(1)
})

test('with other gateways, refusals and spenders are those of all, and none is left out', async () => {
  const asked: number[] = []
  const { watch, state } = watching({
    recent: {
      refusedKeys: (since) => {
        asked.push(noon - since)
        return Promise.resolve(new Map(state.works ? [[key.id, state.now]] : []))
      },
      spenders: () => Promise.resolve(new Set(['bert'])),
    },
  })
  watch.callEnded({ ...refused, cost: 1n })
  state.works = false
  await expect(watch.look()).rejects.toThrow('the database is away')
  expect(limitReached(state.emitted)).toBe(0)
  state.works = true
  state.now += minute
  await watch.look()
  await watch.look()
  expect(limitReached(state.emitted)).toBe(1)
  // Ten minutes and a little at first, then since the last look that was whole.
  expect(asked).toEqual([610_000, 550_000, -50_000])
  expect(await watch.takeSpenders()).toEqual(new Set(['bert']))
})

test('a refusal in the window before says nothing about this one', async () => {
  const { watch, state } = watching()
  watch.callEnded(refused)
  state.now += day - minute
  await watch.look()
  expect(limitReached(state.emitted)).toBe(0)
})

describe('what is spent', () => {
  test.each([
    // spent and held of a limit of 10, left of the credit → the events
    ['0.3', '9.7', '100', []],
    ['10', '0', '100', ['key.limit_reached']],
    // What calls in flight hold is still there.
    ['1', '4', '5', []],
    ['1', '0', '4.99', ['balance.low']],
  ])('with %p spent, %p held and %p left: %p', async (spent, held, left, events) => {
    const { watch, state } = watching({ spent, held, left })
    await watch.look()
    expect(state.emitted.map((source) => source.split(':')[0]!)).toEqual([...events])
  })

  test('nobody is low whose credit of the month has not been asked for yet', async () => {
    const { watch, state } = watching({ left: '0', monthly: '20' })
    await watch.look()
    expect(state.emitted).toEqual([])
  })

  test('a low balance is told of once, whatever restarts, and again after it was above', async () => {
    const { restart, state } = watching({ left: '4' })
    let watch = restart()
    const look = async (more: Partial<State>, restarted = false) => {
      state.now += minute
      Object.assign(state, more)
      if (restarted) watch = restart()
      await watch.look()
      return state.emitted.length
    }
    expect(await look({})).toBe(1)
    expect(await look({ left: '3' })).toBe(1)
    expect(await look({ left: '2' }, true)).toBe(1)
    // Not enough to be above.
    expect(await look({ left: '4', bought: '102' })).toBe(1)
    // An operator's correction adds credit that was not bought.
    expect(await look({ left: '50' })).toBe(1)
    expect(await look({ left: '1' })).toBe(2)
    expect(await look({ left: '1' }, true)).toBe(2)
    // Bought and spent between two looks.
    expect(await look({ left: '1', bought: '150' }, true)).toBe(3)
  })

  test('a limit is told of once when it is reached, and again when it was raised or much was served after all', async () => {
    const { restart, state } = watching({ spent: '0.3' })
    let watch = restart()
    const look = async (more: Partial<State>, isRefused: 'refused' | 'served' = 'served') => {
      state.now += minute
      Object.assign(state, more)
      if (isRefused === 'refused') watch.callEnded(refused)
      await watch.look()
      return limitReached(state.emitted)
    }
    expect(await look({})).toBe(0)
    // A call that costs more than the key has left; smaller ones are served for long.
    expect(await look({}, 'refused')).toBe(1)
    expect(await look({ spent: '0.6' }, 'refused')).toBe(1)
    watch = restart()
    expect(await look({ spent: '9.95' }, 'refused')).toBe(2)
    expect(await look({ spent: '9.96' })).toBe(2)
    expect(await look({ spent: '10' })).toBe(2)
    expect(await look({ limit: '12' })).toBe(2)
    // The old limit again, and what was spent is the same.
    expect(await look({ limit: '10' })).toBe(3)
    expect(await look({ limit: '11', spent: '11' })).toBe(4)
    watch = restart()
    expect(await look({}, 'refused')).toBe(4)
  })
})

describe('a budget of a group', () => {
  const told = ({ emitted }: State) =>
    emitted.filter((source) => source.startsWith('group.')).map((source) => source.split(':').at(-1))

  test('is told of to its admins at each share, once in a window', async () => {
    const { watch, state } = watching({ spent: '49.999999999999' })
    await watch.look()
    expect(told(state)).toEqual([])
    for (const spent of ['50', '79', '80', '95', '100']) {
      state.spent = spent
      await watch.look()
    }
    expect(told(state)).toEqual(['0.5', '0.8'])
    state.now += day
    await watch.look()
    expect(told(state)).toEqual(['0.5', '0.8', '0.8'])
    // Another budget has other shares.
    state.budget = '200'
    await watch.look()
    expect(told(state)).toEqual(['0.5', '0.8', '0.8', '0.5'])
  })

  test('is told of to nobody else', async () => {
    const { watch, state } = watching({ spent: '99', role: 'member' })
    await watch.look()
    expect(told(state)).toEqual([])
  })
})
