// The invariants of the ledger after every step of any history.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { allowanceGrant } from '../../src/credits/calendar.ts'
import { type Command, decide, type PriorGrant } from '../../src/credits/decide.ts'
import { fundingOf, pools } from '../../src/credits/pool.ts'
import { apply, type Change, emptyWallet, freeOf, type Leg, type Lot } from '../../src/credits/wallet.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { day, extensionOf, grantOf, holdOf, noKeySpend, noon } from './support.ts'

const amount = fc.bigInt({ min: 0n, max: 50n })
const call = fc.integer({ min: 0, max: 5 }).map((n) => `c${n}`)
const owner = fc.constantFrom('here', 'here', 'here', 'zombie')
const funding = fc.constantFrom(fundingOf('api', true), fundingOf('app', true), fundingOf('app', false))

const step = fc.oneof(
  fc.record({ do: fc.constant('hold' as const), call, funding, want: amount, least: amount }),
  fc.record({ do: fc.constant('extend' as const), call, owner, more: amount, most: amount }),
  fc.record({ do: fc.constant('settle' as const), call, owner, cost: amount, estimated: fc.boolean() }),
  fc.record({ do: fc.constant('release' as const), call, owner }),
  fc.record({
    do: fc.constant('grant' as const),
    pool: fc.constantFrom(...pools),
    amount,
    life: fc.integer({ min: 1, max: 3 }),
    source: fc.integer({ min: 0, max: 40 }),
  }),
  fc.record({ do: fc.constant('allowance' as const), offset: fc.integer({ min: -2, max: 2 }) }),
  fc.record({ do: fc.constant('expire' as const) }),
  fc.record({ do: fc.constant('refund' as const), lot: fc.integer({ min: 0, max: 10 }), amount }),
  fc.record({
    do: fc.constant('adjust' as const),
    pool: fc.constantFrom(...pools),
    amount: fc.bigInt({ min: -30n, max: 30n }),
  }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: -day, max: day }) }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** A ledger of one account that keeps all lots and the whole journal, to check the wallet against. */
function history() {
  const wallet = emptyWallet('anna')
  const lots = new Map<string, Lot>()
  const journal: { kind: string; leg: Leg }[] = []
  const sources = new Map<string, PriorGrant>()
  const ended = new Set<string>()
  const refunds = new Map<string, bigint>()
  let now = noon

  function carryOut<K extends Command['kind']>(
    command: Extract<Command, { kind: K }>,
    source?: string,
  ): void {
    let change: Change | null
    try {
      change = decide<K>(wallet, command, now).change
    } catch (error) {
      if (error instanceof GatewayError) return
      throw error
    }
    if (!change) return
    const legs = change.transaction?.legs ?? []
    expect(legs.reduce((sum, leg) => sum + leg.amount, 0n)).toBe(0n)
    for (const { lot, pinned } of change.lots) {
      if (pinned > 0n) expect(lots.get(lot)?.expiresAt ?? Infinity).toBeGreaterThan(now)
    }
    if (change.call?.kind === 'opened') expect(ended.has(change.call.open.call)).toBe(false)
    if (change.call?.kind === 'ended') {
      const { open, cost, charged, absorbed } = change.call
      ended.add(open.call)
      expect(charged + absorbed).toBe(cost)
      for (const leg of legs) {
        const lot = leg.lot === null ? undefined : lots.get(leg.lot)
        if (lot) expect(open.funding).toContain(lot.pool)
      }
    }
    for (const leg of legs) journal.push({ kind: change.transaction!.kind, leg })
    const repayment = change.repayment ?? []
    expect(repayment.reduce((sum, leg) => sum + leg.amount, 0n)).toBe(0n)
    for (const leg of repayment) journal.push({ kind: 'repay', leg })
    for (const lot of apply(wallet, change)) lots.set(lot.id, lot)
    if (wallet.debt > 0n && !['hold', 'extend'].includes(command.kind)) {
      const bought = wallet.lots.filter((lot) => lot.pool === 'purchased')
      expect(bought.reduce((sum, lot) => sum + freeOf(lot, now), 0n)).toBe(0n)
    }
    if (change.newLot && source !== undefined) {
      sources.set(source, {
        lot: change.newLot.id,
        account: 'anna',
        pool: change.newLot.pool,
        amount: change.newLot.granted,
        grantedAt: change.newLot.grantedAt,
        expiresAt: change.newLot.expiresAt,
      })
    }
  }

  function run(step: Step): void {
    const lot = `l${lots.size}`
    switch (step.do) {
      case 'wait':
        now += step.ms
        return
      case 'hold':
        if (ended.has(step.call)) return
        return carryOut<'hold'>({
          kind: 'hold',
          hold: { ...holdOf(step.call), ...step },
          keySpend: noKeySpend,
          budgetSpend: [],
        })
      case 'extend':
        return carryOut<'extend'>({
          kind: 'extend',
          extend: extensionOf(step.call, step.more, { owner: step.owner, most: step.most }),
          keySpend: noKeySpend,
          budgetSpend: [],
        })
      case 'settle':
        return carryOut<'settle'>({
          kind: 'settle',
          settle: { ...step, most: null, provider: 'sim' },
          keySpend: noKeySpend,
          budgetSpend: [],
        })
      case 'release':
        return carryOut<'release'>({ kind: 'release', release: step })
      case 'grant': {
        const grant = grantOf(`g${step.source}`, step.amount, {
          pool: step.pool,
          expiresAt: now + step.life * day,
        })
        return carryOut<'grant'>(
          { kind: 'grant', grant, lot, prior: sources.get(grant.source) ?? null },
          grant.source,
        )
      }
      case 'allowance': {
        const grant = allowanceGrant('anna', now + step.offset * day, 20n)
        return carryOut<'grant'>(
          { kind: 'grant', grant, lot, prior: sources.get(grant.source) ?? null },
          grant.source,
        )
      }
      case 'expire':
        return carryOut<'expire'>({ kind: 'expire' })
      case 'refund': {
        const paid = `l${step.lot}`
        const refunded = refunds.get(paid) ?? 0n
        const before = journal.length
        const refund = { id: lot, account: 'anna', lot: paid, amount: step.amount }
        carryOut<'refund'>({ kind: 'refund', refund, refunded })
        if (journal.length > before) refunds.set(paid, refunded + step.amount)
        return
      }
      case 'adjust':
        return carryOut<'adjust'>({
          kind: 'adjust',
          adjust: { id: `${journal.length}`, account: 'anna', ...step },
          lot,
        })
    }
  }

  function check(): void {
    const sum = (legs: typeof journal) => legs.reduce((total, { leg }) => total + leg.amount, 0n)
    const posted = wallet.lots.reduce((total, lot) => total + lot.remaining, 0n)
    const held = wallet.lots.reduce((total, lot) => total + lot.pinned, 0n)
    expect(posted - wallet.debt).toBe(sum(journal.filter(({ leg }) => leg.account.startsWith('wallet:'))))
    expect(wallet.debt >= 0n).toBe(true)
    const open = [...wallet.calls.values()]
    expect(held).toBe(open.reduce((total, { hold }) => total + hold, 0n))
    for (const { hold, pins } of open) expect(hold).toBe(pins.reduce((total, pin) => total + pin.amount, 0n))
    for (const lot of lots.values()) {
      const moved = journal.filter(({ leg }) => leg.lot === lot.id)
      const consumed = -sum(moved.filter(({ kind }) => kind === 'settle'))
      expect(lot.remaining).toBe(sum(moved))
      expect(refunds.get(lot.id) ?? 0n).toBeLessThanOrEqual(lot.granted)
      expect(lot.granted).toBe(lot.remaining + consumed + lot.expired + lot.refunded)
      const pinned = open.flatMap(({ pins }) => pins).filter((pin) => pin.lot === lot.id)
      expect(lot.pinned).toBe(pinned.reduce((total, pin) => total + pin.amount, 0n))
      expect(lot.pinned <= lot.remaining && lot.pinned >= 0n && consumed >= 0n).toBe(true)
    }
    const days = [...sources.keys()].filter((source) => source.startsWith('daily:'))
    expect(new Set(days).size).toBe(days.length)
  }

  return { run, check }
}

test('whatever happens in whatever order, the books balance after every step', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (steps) => {
      const { run, check } = history()
      for (const next of steps) {
        run(next)
        check()
      }
    }),
    { numRuns: 300 },
  )
}, 30_000)
