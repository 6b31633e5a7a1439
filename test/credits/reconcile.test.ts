// A provider's bill against the books: every line and every call is counted once, on one side or on both.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ProviderCall } from '../../src/credits/ledger/monthly.ts'
import { reconcile } from '../../src/credits/ledger/reconcile.ts'
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
