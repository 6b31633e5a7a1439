// Receipts as they are stored: without what their row says already, and as earlier versions wrote them.

import { expect, test } from 'bun:test'
import { noUsage } from '../../../src/conversation/usage.ts'
import type { Attempt, Served } from '../../../src/credits/ledger/ledger.ts'
import { endedRecordOf, receiptText } from '../../../src/store/ledger-rows.ts'
import type { Row } from '../../../src/store/schema.ts'
import { noon, servedBySim } from '../../credits/support.ts'

const usage = { ...noUsage, input: 10, output: 5 }
const lines = [{ item: 'output', quantity: 5, rate: 2n ** 60n, amount: 5n * 2n ** 60n }] as const
const failed: Attempt = {
  provider: 'other',
  outcome: 'failed',
  code: 'upstream_error',
  upstreamId: null,
  ms: 4,
  status: 500,
  reason: 'broken',
}
const only = servedBySim.attempts[0]!

function rowWith(receipt: string | null, upstreamId: string | null): Row<'call'> {
  return {
    seq: 1n,
    id: 'c',
    account: 'anna',
    key: null,
    state: 'settled',
    hold: 9n,
    funding: 'purchased',
    model: 'sim/echo',
    price_version: 'sim/echo@1',
    owner: 'here',
    opened_at: BigInt(noon),
    ended_at: BigInt(noon),
    ending: 'finished',
    cost: 9n,
    charged: 9n,
    absorbed: 0n,
    estimated: 0n,
    upstream_id: upstreamId,
    receipt,
    tags: null,
    in_group: null,
    settle_tx: 1n,
  }
}

function kept(served: Served) {
  const facts = { usage, lines, served, overLimit: false }
  return receiptText(facts, served.attempts, { model: 'sim/echo', priceVersion: 'sim/echo@1' })
}

test.each<[string, Partial<Served>]>([
  ['one attempt', {}],
  ['an id of the provider', { upstreamId: 'chatcmpl-1' }],
  ['a status', { attempts: [{ ...only, status: 200 }] }],
  ['an attempt with an id of its own', { upstreamId: 'a', attempts: [{ ...only, upstreamId: 'b' }] }],
  ['a failed attempt before', { attempts: [failed, only] }],
  ['no attempt', { attempts: [] }],
  ['an attempt of another provider', { attempts: [{ ...only, provider: 'other' }] }],
  ['another price than the one held for', { priceVersion: 'sim/other@2' }],
  ['what has no rate of its own', { unpriced: ['service_tier:priority'] }],
])('a receipt with %s comes back whole', (_, wanted) => {
  const served = { ...servedBySim, ...wanted }
  const record = endedRecordOf(rowWith(kept(served), served.upstreamId), [])
  expect(record).toMatchObject({ usage, lines: [...lines], served, attempts: served.attempts })
})

test('it does not repeat what the columns of its row say', () => {
  const text = kept({ ...servedBySim, upstreamId: 'chatcmpl-1' })
  for (const repeated of ['chatcmpl-1', 'sim/echo@1', 'reason', 'toolCalls'])
    expect(text).not.toContain(repeated)
})

test('one of an earlier version has everything in itself, and may lack the status of an attempt', () => {
  const { status: _status, reason: _reason, ...early } = only
  const served = { ...servedBySim, upstreamId: 'gen-1', priceVersion: 'sim/early@1', attempts: [early] }
  const text = JSON.stringify({ usage: { output: 5, toolCalls: {} }, lines: [], served })
  const record = endedRecordOf(rowWith(text, 'gen-1'), [])
  expect(record.served).toMatchObject({ upstreamId: 'gen-1', priceVersion: 'sim/early@1' })
  expect(record.attempts).toEqual([only])
  expect(record.usage).toEqual({ ...noUsage, output: 5 })
})
