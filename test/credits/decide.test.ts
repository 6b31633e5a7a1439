// The rules of the ledger, one wallet at a time, without a database.

import { describe, expect, test } from 'bun:test'
import { twelveMonthsAfter } from '../../src/credits/calendar.ts'
import { decide } from '../../src/credits/decide.ts'
import type { HoldCommand } from '../../src/credits/ledger/ledger.ts'
import { largestLot, usd } from '../../src/credits/money.ts'
import type { Pool } from '../../src/credits/pool.ts'
import { addLot, apply, emptyWallet, type Lot, type Wallet } from '../../src/credits/wallet.ts'
import { day, grantOf, holdOf, minute, noKeySpend, noon } from './support.ts'

const app = ['daily', 'subscription', 'welcome', 'purchased'] as const

interface LotWish {
  readonly pool?: Pool
  readonly left: string
  readonly pinned?: string
  readonly expiresAt?: number
  readonly grantedAt?: number
}

/** A wallet with lots named by their keys. */
function walletWith(wishes: Readonly<Record<string, LotWish>>): Wallet {
  const wallet = emptyWallet('anna')
  for (const [id, wish] of Object.entries(wishes)) {
    const lot: Lot = {
      id,
      pool: wish.pool ?? 'purchased',
      granted: usd(wish.left),
      remaining: usd(wish.left),
      pinned: usd(wish.pinned ?? '0'),
      expired: 0n,
      refunded: 0n,
      grantedAt: wish.grantedAt ?? 0,
      expiresAt: wish.expiresAt ?? null,
    }
    addLot(wallet.lots, lot)
  }
  return wallet
}

function hold(wallet: Wallet, wanted: Partial<HoldCommand>, keySpend = noKeySpend, now = noon) {
  const decision = decide<'hold'>(
    wallet,
    { kind: 'hold', hold: holdOf('c', wanted), keySpend, budgetSpend: [] },
    now,
  )
  if (decision.change) apply(wallet, decision.change)
  return decision.result
}

function settle(
  wallet: Wallet,
  cost: string,
  { estimated = false, most = null as bigint | null, keySpend = noKeySpend, now = noon } = {},
) {
  const command = { call: 'c', owner: 'here', cost: usd(cost), most, estimated, provider: 'sim' }
  const decision = decide<'settle'>(
    wallet,
    { kind: 'settle', settle: command, keySpend, budgetSpend: [] },
    now,
  )
  if (decision.change) apply(wallet, decision.change)
  return decision
}

const pinsOf = (wallet: Wallet) => wallet.calls.get('c')?.pins.map((pin) => [pin.lot, pin.amount])

describe('holding', () => {
  test.each([
    // free, held by others, least, want → answer
    ['10', '0', '1', '4', { kind: 'held', amount: usd(4) }],
    ['10', '8', '1', '4', { kind: 'held', amount: usd(2) }],
    ['10', '8', '2', '2', { kind: 'held', amount: usd(2) }],
    ['10', '8', '3', '4', { kind: 'refused', reason: 'reserved', available: usd(2), held: usd(8) }],
    ['10', '0', '11', '12', { kind: 'refused', reason: 'insufficient', available: usd(10), held: 0n }],
    ['10', '9', '11', '12', { kind: 'refused', reason: 'insufficient', available: usd(1), held: usd(9) }],
    ['10', '10', '0', '0', { kind: 'held', amount: 0n }],
  ] as const)('of %p with %p pinned: at least %p, wanting %p', (left, pinned, least, want, answer) => {
    expect(hold(walletWith({ a: { left, pinned } }), { least: usd(least), want: usd(want) })).toEqual(answer)
  })

  test.each([
    [
      'a spent limit refuses before the credit is looked at',
      '5',
      '1',
      { kind: 'refused', reason: 'key-limit', available: 0n },
    ],
    ['what the limit leaves clamps the hold', '3.5', '1', { kind: 'held', amount: usd('1.5') }],
    [
      'below the least it refuses',
      '4.5',
      '1',
      { kind: 'refused', reason: 'key-limit', available: usd('0.5') },
    ],
    [
      'a key beyond its limit has nothing left, not less',
      '7',
      '1',
      { kind: 'refused', reason: 'key-limit', available: 0n },
    ],
  ] as const)("a key's limit: %s", (_rule, spent, least, answer) => {
    const keyLimit = { limit: usd(5), windowStart: 0 }
    const result = hold(
      walletWith({ a: { left: '10' } }),
      { least: usd(least), want: usd(9), keyLimit },
      { spent: usd(spent), held: 0n },
    )
    expect(result).toMatchObject(answer)
  })

  const hundred = { spent: 0n, held: 0n }
  test.each([
    // free and pinned, spent and held of a key's limit of 8 → the share of a call that may cost 50
    ['a quarter of the credit', '100', '0', null, '25'],
    ['a quarter of what is free beyond all that is held', '100', '20', null, '15'],
    ['what is needed where half of the credit is held', '100', '50', null, '2'],
    ['what is free where that is less', '100', '99', null, '1'],
    ['all that is free where it would leave too little for another', '100', '96.5', null, '3.5'],
    ['what is needed where that leaves enough for another', '100', '96', null, '2'],
    ['no more than the call can cost', '1000', '0', null, '50'],
    ["a quarter of the key's limit", '100', '0', { ...hundred }, '20'],
    ["a quarter of what the key's calls leave", '100', '0', { spent: usd(20), held: usd(10) }, '10'],
    ["what is needed where half of the key's limit is held", '100', '0', { spent: 0n, held: usd(40) }, '2'],
    ["what the key's limit leaves", '100', '0', { spent: usd(79), held: 0n }, '1'],
  ] as const)('a fair share is %s', (_what, left, pinned, ofKey, share) => {
    const keyLimit = ofKey === null ? null : { limit: usd(80), windowStart: 0 }
    const wanted = { least: usd(1), want: usd(2), most: usd(50), keyLimit }
    const result = hold(walletWith({ a: { left, pinned } }), wanted, ofKey ?? noKeySpend)
    expect(result).toEqual({ kind: 'held', amount: usd(share) })
  })

  test.each([
    // spent and held of a key's limit of 5, free credit → why a call of at least 2 is refused
    ['4', '0', '10', 'key-limit'],
    ['3.1', '0', '10', 'key-limit'],
    ['0', '4', '10', 'key-reserved'],
    ['2.9', '0.2', '10', 'key-reserved'],
    ['0', '4', '1', 'insufficient'],
    ['4', '0', '1', 'key-limit'],
  ] as const)(
    'with %p spent and %p held of a limit of 5 and %p of credit, 2 are refused: %s',
    (spent, held, left, reason) => {
      const wanted = { least: usd(2), want: usd(2), keyLimit: { limit: usd(5), windowStart: 0 } }
      const result = hold(walletWith({ a: { left } }), wanted, { spent: usd(spent), held: usd(held) })
      expect(result).toMatchObject({ kind: 'refused', reason })
    },
  )

  const budgetsOf = (...limits: string[]) => ({
    group: 'grp_lab',
    person: 'anna',
    budgets: limits.map((limit, at) => ({
      scope: `grp_${at}`,
      limit: usd(limit),
      windowStart: 0,
      windowEnd: noon,
    })),
  })
  const spends = (...of: readonly (readonly [spent: string, held: string])[]) =>
    of.map(([spent, held]) => ({ spent: usd(spent), held: usd(held) }))

  test.each([
    // limits of the budgets, what is spent and held of each, free credit → why a call of at least 2 is refused, and by which
    [
      'the outer',
      ['5', '3'],
      [
        ['0', '0'],
        ['2', '0'],
      ],
      '10',
      'budget',
      'grp_1',
      '1',
    ],
    [
      'the inner',
      ['3', '9'],
      [
        ['2', '0'],
        ['6', '0'],
      ],
      '10',
      'budget',
      'grp_0',
      '1',
    ],
    [
      'the tightest of two',
      ['3', '9'],
      [
        ['2', '0'],
        ['8.5', '0'],
      ],
      '10',
      'budget',
      'grp_1',
      '0.5',
    ],
    [
      'the first of two alike',
      ['3', '3'],
      [
        ['2', '0'],
        ['2', '0'],
      ],
      '10',
      'budget',
      'grp_0',
      '1',
    ],
    [
      'the one that is spent, not the one that is held',
      ['3', '9'],
      [
        ['0', '3'],
        ['8', '0'],
      ],
      '10',
      'budget',
      'grp_1',
      '1',
    ],
    [
      'what calls in flight hold',
      ['5', '9'],
      [
        ['0', '4'],
        ['0', '4'],
      ],
      '10',
      'budget-reserved',
      'grp_0',
      '1',
    ],
    [
      'what is spent and held together',
      ['5', '9'],
      [
        ['2', '1.5'],
        ['2', '1.5'],
      ],
      '10',
      'budget-reserved',
      'grp_0',
      '1.5',
    ],
    ['the credit', ['5'], [['0', '4']], '1', 'insufficient', undefined, '1'],
    ['a budget of nothing', ['0'], [['0', '0']], '10', 'budget', 'grp_0', '0'],
  ] as const)('a call of a group is refused by %s', (_what, limits, used, left, reason, scope, available) => {
    const inGroup = budgetsOf(...limits)
    const wanted = holdOf('c', { least: usd(2), want: usd(2), inGroup })
    const budgetSpend = spends(...used)
    const command = { kind: 'hold', hold: wanted, keySpend: noKeySpend, budgetSpend } as const
    const { result, change } = decide<'hold'>(walletWith({ a: { left } }), command, noon)
    const budget = inGroup.budgets.find((each) => each.scope === scope)
    expect({ result, change }).toMatchObject({
      result: { kind: 'refused', reason, available: usd(available), ...(budget && { budget }) },
      change: null,
    })
  })

  test("a call gets what the tightest of its key's limit and its budgets leaves, and no more", () => {
    const inGroup = budgetsOf('4', '5')
    const least = { least: usd(1), want: usd(9), keyLimit: { limit: usd(6), windowStart: 0 } }
    const budgetSpend = spends(['1', '0.5'], ['2', '0.75'])
    const ofKey = { spent: usd(1), held: 0n }
    const command = {
      kind: 'hold',
      hold: holdOf('c', { ...least, inGroup }),
      keySpend: ofKey,
      budgetSpend,
    } as const
    const { result } = decide<'hold'>(walletWith({ a: { left: '10' } }), command, noon)
    expect(result).toEqual({ kind: 'held', amount: usd('2.25') })
  })

  test('many calls at once: what is told to be held never exceeds the credit, and half of it is left to small ones', () => {
    const wallet = walletWith({ a: { left: '1' } })
    const amounts: bigint[] = []
    for (let at = 0; at < 100; at++) {
      const wanted = { call: `c${at}`, least: usd('0.001'), want: usd('0.01'), most: usd(2) }
      const { result, change } = decide<'hold'>(
        wallet,
        { kind: 'hold', hold: holdOf('c', wanted), keySpend: noKeySpend, budgetSpend: [] },
        noon,
      )
      if (change) apply(wallet, change)
      if (result.kind === 'held') amounts.push(result.amount)
    }
    expect(amounts.reduce((sum, amount) => sum + amount, 0n)).toBe(usd(1))
    expect(amounts[0]).toBe(usd('0.25'))
    expect(amounts.filter((amount) => amount >= usd('0.01')).length).toBeGreaterThan(50)
  })

  test('takes pools in the order of funding, in each the soonest expiry, then the oldest', () => {
    const wallet = walletWith({
      p: { left: '1' },
      w: { left: '1', pool: 'welcome' },
      later: { left: '1', pool: 'subscription', expiresAt: noon + 2 * day },
      young: { left: '1', pool: 'subscription', expiresAt: noon + day, grantedAt: 2 },
      old: { left: '1', pool: 'subscription', expiresAt: noon + day, grantedAt: 1 },
      d: { left: '1', pool: 'daily', expiresAt: noon + day },
    })
    hold(wallet, { key: null, funding: app, want: usd('6'), least: usd('6') })
    expect(pinsOf(wallet)?.map(([lot]) => lot)).toEqual(['d', 'old', 'young', 'later', 'w', 'p'])
  })

  test('an API call sees purchased credit and nothing else', () => {
    const wallet = walletWith({ w: { left: '9', pool: 'welcome' }, p: { left: '1' } })
    expect(hold(wallet, { least: usd(2), want: usd(2) })).toMatchObject({
      reason: 'insufficient',
      available: usd(1),
    })
  })

  test('expired credit pays for nothing, to the millisecond', () => {
    const wallet = () => walletWith({ a: { left: '1', expiresAt: noon } })
    expect(hold(wallet(), {}, noKeySpend, noon - 1).kind).toBe('held')
    expect(hold(wallet(), {}, noKeySpend, noon)).toMatchObject({ reason: 'insufficient', available: 0n })
    const both = walletWith({ old: { left: '5', expiresAt: noon }, fresh: { left: '5' } })
    hold(both, { want: usd(3), least: usd(3) })
    expect(pinsOf(both)).toEqual([['fresh', usd(3)]])
  })
})

describe('settling', () => {
  test.each([
    // hold, cost, estimated → charged, absorbed, left of 10
    ['4', '3', false, '3', '0', '7'],
    ['4', '4', false, '4', '0', '6'],
    ['4', '0', false, '0', '0', '10'],
    ['4', '6', false, '6', '0', '4'],
    ['4', '12', false, '10', '2', '0'],
    ['4', '6', true, '4', '2', '6'],
  ] as const)(
    'a hold of %p, a cost of %p (estimated: %p) charges %p, absorbs %p, leaves %p',
    (held, cost, estimated, charged, absorbed, left) => {
      const wallet = walletWith({ a: { left: '10' } })
      hold(wallet, { want: usd(held), least: 0n })
      const { result, change } = settle(wallet, cost, { estimated })
      expect(result).toEqual({
        kind: 'settled',
        charged: usd(charged),
        absorbed: usd(absorbed),
        overLimit: false,
      })
      expect(wallet.lots.reduce((sum, lot) => sum + lot.remaining, 0n)).toBe(usd(left))
      expect(wallet.lots.every((lot) => lot.pinned === 0n)).toBe(true)
      expect(change?.transaction?.legs.reduce((sum, leg) => sum + leg.amount, 0n) ?? 0n).toBe(0n)
    },
  )

  test('consumes the lots in the order in which they were pinned, also after they have expired', () => {
    const wallet = walletWith({
      a: { left: '1', expiresAt: noon + minute },
      b: { left: '5', expiresAt: noon + day },
    })
    hold(wallet, { want: usd(3), least: usd(3) })
    expect(settle(wallet, '2', { now: noon + 2 * minute }).change?.transaction?.legs).toEqual([
      { account: 'wallet:anna:purchased', lot: 'a', amount: -usd(1) },
      { account: 'wallet:anna:purchased', lot: 'b', amount: -usd(1) },
      { account: 'provider:sim', lot: null, amount: usd(2) },
    ])
  })

  test('a cost beyond all reason is absorbed without overflowing the books', () => {
    const wallet = walletWith({ a: { left: '1' } })
    hold(wallet, {})
    const { result } = settle(wallet, '9000000')
    expect(result).toMatchObject({ kind: 'settled', charged: usd(1), absorbed: largestLot - usd(1) })
  })

  test.each([
    // hold, cost, the caller's own bound → charged, absorbed
    ['1', '3', '1', '1', '2'],
    ['1', '3', '2', '2', '1'],
    ['1', '0.5', '2', '0.5', '0'],
    ['1', '12', '20', '10', '2'],
  ] as const)(
    'a hold of %p, a cost of %p and a bound of %p charges %p and absorbs %p',
    (held, cost, most, charged, absorbed) => {
      const wallet = walletWith({ a: { left: '10' } })
      hold(wallet, { want: usd(held), least: 0n })
      const { result, change } = settle(wallet, cost, { most: usd(most) })
      expect(result).toMatchObject({ charged: usd(charged), absorbed: usd(absorbed) })
      expect(change?.transaction?.legs.reduce((sum, leg) => sum + leg.amount, 0n) ?? 0n).toBe(0n)
    },
  )

  test.each([
    // spent and held before, cost → beyond the limit of 4
    ['2', '2', false],
    ['2', '2.5', true],
    ['3', '1.5', true],
  ] as const)('with %p of a limit of 4 spent elsewhere, a cost of %p is over it: %p', (spent, cost, over) => {
    const wallet = walletWith({ a: { left: '10' } })
    const keyLimit = { limit: usd(4), windowStart: noon }
    const before = { spent: usd(spent), held: 0n }
    const { amount } = hold(wallet, { want: usd(1), keyLimit }, before) as { amount: bigint }
    const { result } = settle(wallet, cost, { keySpend: { ...before, held: amount } })
    expect(result).toMatchObject({ charged: usd(cost), overLimit: over })
  })
})

describe('granting', () => {
  const grant = (wallet: Wallet, wanted: Parameters<typeof grantOf>[2], amount = usd(5)) =>
    decide<'grant'>(
      wallet,
      { kind: 'grant', grant: grantOf('g', amount, wanted), lot: 'new', prior: null },
      noon,
    )

  test.each([
    ['purchased', Date.UTC(2027, 10, 21, 12)],
    ['daily', Date.UTC(2026, 10, 22)],
    ['welcome', null],
  ] as const)('%s credit lives until %p unless it is told', (pool, expiresAt) => {
    expect(grant(emptyWallet('anna'), { pool }).change?.newLot?.expiresAt).toBe(expiresAt)
    expect(grant(emptyWallet('anna'), { pool, expiresAt: noon + 1 }).change?.newLot?.expiresAt).toBe(noon + 1)
  })

  test('twelve months after the 29th of February is the 28th', () => {
    expect(twelveMonthsAfter(Date.UTC(2028, 1, 29, 5))).toBe(Date.UTC(2029, 1, 28, 5))
  })

  test.each([
    ['nothing', {}, 0n],
    ['a negative amount', {}, -1n],
    ['more than one lot may hold', {}, largestLot + 1n],
    ['an expiry in the past', { expiresAt: noon }, usd(1)],
    ['a subscription without an end', { pool: 'subscription' }, usd(1)],
    ['a subscription that never ends', { pool: 'subscription', expiresAt: 'never' }, usd(1)],
    ['a daily allowance that never ends', { pool: 'daily', expiresAt: 'never' }, usd(1)],
  ] as const)('refuses %s', (_what, wanted, amount) => {
    expect(() => grant(emptyWallet('anna'), wanted, amount)).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })

  test('refuses a balance above four million', () => {
    const wallet = walletWith({
      a: { left: '1000000' },
      b: { left: '1000000' },
      c: { left: '1000000' },
      d: { left: '999999' },
    })
    expect(grant(wallet, {}, usd(1)).result.granted).toBe(true)
    expect(() => grant(wallet, {}, usd(1) + 1n)).toThrow()
  })

  test('a debt is repaid from purchased credit, not from a welcome', () => {
    const wallet: Wallet = { ...emptyWallet('anna'), debt: usd(2) }
    expect(grant(wallet, {}).change).toMatchObject({
      debt: -usd(2),
      newLot: { remaining: usd(3), refunded: usd(2) },
    })
    expect(grant(wallet, { pool: 'welcome' }).change).toMatchObject({
      debt: 0n,
      newLot: { remaining: usd(5) },
    })
  })

  test('credit that a debt stands against is not held; what holds would return is not promised', () => {
    const wallet: Wallet = { ...walletWith({ a: { left: '5' } }), debt: usd(3) }
    expect(hold(wallet, { least: usd(3), want: usd(9) })).toMatchObject({
      reason: 'insufficient',
      available: usd(2),
    })
    expect(hold(wallet, { least: usd(1), want: usd(9) })).toEqual({ kind: 'held', amount: usd(2) })
    const busy: Wallet = { ...walletWith({ a: { left: '5', pinned: '4' } }), debt: usd(3) }
    expect(hold(busy, { least: usd(2) })).toMatchObject({ reason: 'reserved', available: 0n, held: usd(4) })
    expect(hold(busy, { least: usd(3) })).toMatchObject({ reason: 'insufficient', available: 0n })
  })
})
