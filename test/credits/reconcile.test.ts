// A provider's bill against the books: every line and every call is counted once, on one side or on both.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { BookedSum, ProviderCall } from '../../src/credits/ledger/monthly.ts'
import {
  type InvoiceLine,
  type Reason,
  reconcile,
  reconcileDays,
} from '../../src/credits/ledger/reconcile.ts'
import { noon } from './support.ts'

function call(upstreamId: string, charged: bigint, wanted: Partial<ProviderCall> = {}): ProviderCall {
  return {
    call: `call-${upstreamId}`,
    upstreamId,
    model: 'sim/echo',
    at: noon,
    outcome: 'served',
    charged,
    absorbed: 0n,
    estimated: false,
    ...wanted,
  }
}

describe('reconciling', () => {
  test('counts what agrees, what differs and what is on one side only', () => {
    const calls = [
      call('agrees', 100n),
      call('absorbed', 60n, { absorbed: 40n }),
      call('differs', 100n, { estimated: true }),
      call('missing', 7n),
      call('broke', 0n, { outcome: 'failed' }),
    ]
    const lines = [
      { upstreamId: 'agrees', cost: 70n },
      { upstreamId: 'agrees', cost: 30n },
      { upstreamId: 'absorbed', cost: 100n },
      { upstreamId: 'differs', cost: 101n },
      { upstreamId: 'broke', cost: 5n },
      { upstreamId: '', cost: 1000n },
      { upstreamId: 'unknown', cost: 11n },
    ]
    expect(reconcile(calls, lines)).toMatchObject({
      matched: { ids: 3, charged: 260n, absorbed: 40n, billed: 301n },
      failed: { ids: 1, billed: 5n },
      billedOnly: { ids: 2, billed: 1011n },
      bookedOnly: { ids: 1, charged: 7n, absorbed: 0n },
      drifts: [{ upstreamId: 'differs', booked: 100n, billed: 101n, estimated: true }],
      billed: 1317n,
      booked: 307n,
      drift: 1010n,
    })
  })

  test('names the largest drift first, whichever side it favours', () => {
    const calls = [call('a', 10n), call('b', 10n), call('c', 10n)]
    const lines = [
      { upstreamId: 'a', cost: 11n },
      { upstreamId: 'b', cost: 1n },
      { upstreamId: 'c', cost: 15n },
    ]
    expect(reconcile(calls, lines).drifts.map(({ upstreamId }) => upstreamId)).toEqual(['b', 'c', 'a'])
  })

  test('both sides always add up', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd', '')
    const amount = fc.bigInt({ min: 0n, max: 10n ** 15n })
    const calls = fc.array(fc.tuple(id, amount, amount, fc.boolean()))
    const lines = fc.array(fc.record({ upstreamId: id, cost: amount }))
    fc.assert(
      fc.property(calls, lines, (made, bill) => {
        const ours = made.map(([name, charged, absorbed, served]) =>
          served ? call(name, charged, { absorbed }) : call(name, 0n, { outcome: 'failed' }),
        )
        const { matched, failed, billedOnly, bookedOnly, billed, booked, drift, drifts } = reconcile(
          ours,
          bill,
        )
        expect(matched.billed + failed.billed + billedOnly.billed).toBe(billed)
        expect(matched.charged + matched.absorbed + bookedOnly.charged + bookedOnly.absorbed).toBe(booked)
        expect(drift).toBe(billed - booked)
        const drifted = drifts.reduce((sum, one) => sum + one.billed - one.booked, 0n)
        expect(drifted).toBe(matched.billed - matched.charged - matched.absorbed)
      }),
    )
  })
})

const cent = 10n ** 10n
const dollar = 10n ** 12n

function booked(day: string, cost: bigint, more: Partial<BookedSum> = {}): BookedSum {
  const none = { estimated: 0, estimatedCost: 0n, unpriced: 0, failed: 0 }
  return { day, model: 'gpt-5', tier: null, calls: 1, cost, tokens: 1_000, ...none, ...more }
}

function billed(day: string, cost: bigint, more: Partial<InvoiceLine> = {}): InvoiceLine {
  return { day, model: 'gpt-5-2025-08-07', cost, unit: 1n, tokens: null, ...more }
}

describe('an invoice by model and day', () => {
  const day = '2026-11-28'
  const reasonsOf = (books: readonly BookedSum[], bill: readonly InvoiceLine[]) =>
    reconcileDays(books, bill).days.map(({ reasons }) => reasons)

  test.each<[string, readonly BookedSum[], readonly InvoiceLine[], readonly Reason[]]>([
    ['agrees to the picodollar', [booked(day, 7n)], [billed(day, 3n), billed(day, 4n)], []],
    ['in cents', [booked(day, dollar / 3n)], [billed(day, 33n * cent, { unit: cent })], ['rounding']],
    [
      'more than a cent off',
      [booked(day, dollar / 3n)],
      [billed(day, 37n * cent, { unit: cent })],
      ['unknown'],
    ],
    ['without calls', [], [billed(day, 7n)], ['not_booked']],
    [
      'of attempts that failed',
      [booked(day, 0n, { calls: 0, tokens: 0, failed: 2 })],
      [billed(day, 7n)],
      ['failed_attempts'],
    ],
    ['without lines', [booked(day, 7n)], [], ['not_billed']],
    ['at half the price', [booked(day, dollar)], [billed(day, dollar / 2n)], ['tier']],
    [
      'of a tier at the standard price',
      [booked(day, dollar), booked(day, dollar / 4n, { tier: 'flex' })],
      [billed(day, dollar + dollar / 2n)],
      ['tier'],
    ],
    [
      'of what the catalog has no rate for',
      [booked(day, dollar, { unpriced: 1 })],
      [billed(day, dollar + dollar / 7n)],
      ['unpriced'],
    ],
    [
      'of other tokens',
      [booked(day, dollar, { tokens: 1_000 })],
      [billed(day, dollar + dollar / 7n, { tokens: 1_143 })],
      ['tokens'],
    ],
    [
      'of the same tokens at another price',
      [booked(day, dollar, { tokens: 1_000 })],
      [billed(day, dollar + dollar / 7n, { tokens: 1_000 })],
      ['price'],
    ],
    [
      'of calls that were cut off',
      [booked(day, dollar, { estimated: 1, estimatedCost: dollar / 5n })],
      [billed(day, dollar - dollar / 7n)],
      ['estimated'],
    ],
  ])('%s', (_, books, bill, reasons) => {
    expect(reasonsOf(books, bill)).toEqual([reasons])
  })

  test('whose days begin at another hour agrees over the days in a row', () => {
    const books = [
      booked('2026-11-27', 5n),
      booked('2026-11-28', 100n),
      booked('2026-11-29', 100n),
      booked('2026-12-02', 9n),
    ]
    const bill = [
      billed('2026-11-27', 5n),
      billed('2026-11-28', 93n),
      billed('2026-11-29', 107n),
      billed('2026-12-02', 9n),
    ]
    expect(reasonsOf(books, bill)).toEqual([[], ['another_day'], ['another_day'], []])
  })

  test('names models in its own way', () => {
    const found = reconcileDays(
      [booked(day, 1n), booked(day, 2n, { model: 'claude-sonnet-4-5' }), booked(day, 3n, { model: 'o3' })],
      [
        billed(day, 1n, { model: 'openai/GPT-5-2025-08-07' }),
        billed(day, 2n, { model: 'claude-sonnet-4-5-20250929' }),
        billed(day, 3n, { model: 'o3 Reasoning' }),
      ],
      new Map([['o3 Reasoning', 'o3']]),
    )
    expect(found.days.map(({ model, reasons }) => [model, reasons])).toEqual([
      ['claude-sonnet-4-5', []],
      ['gpt-5', []],
      ['o3', []],
    ])
  })

  test('counts every line and every sum once', () => {
    const money = fc.bigInt({ min: 0n, max: 10n ** 14n })
    const days = fc.constantFrom('2026-11-27', '2026-11-28', '2026-11-30')
    const models = fc.constantFrom('a', 'b-2026-01-01', 'c')
    fc.assert(
      fc.property(
        fc.array(fc.tuple(days, models, money)),
        fc.array(fc.tuple(days, models, money)),
        (ours, theirs) => {
          const found = reconcileDays(
            ours.map(([on, model, cost]) => booked(on, cost, { model })),
            theirs.map(([on, model, cost]) => billed(on, cost, { model })),
          )
          const total = (side: 'billed' | 'booked') => found.days.reduce((all, each) => all + each[side], 0n)
          expect([total('billed'), total('booked')]).toEqual([found.billed, found.booked])
          expect(found.drift).toBe(found.billed - found.booked)
          for (const each of found.days) expect(each.reasons.length === 0).toBe(each.billed === each.booked)
        },
      ),
    )
  })
})
