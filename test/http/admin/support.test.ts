// Which calls may be one request, and what is said of calls that stand beside each other.

import { describe, expect, test } from 'bun:test'
import type { CallRecord } from '../../../src/credits/ledger/ledger.ts'
import { alikeSets, verdictOf } from '../../../src/http/admin/support.ts'
import type { LoggedRequest } from '../../../src/observe/call-log.ts'

const minute = 60_000
const noon = Date.parse('2026-11-28T12:00:00Z')

/** A call that began so many minutes after noon, and took a second. */
const callOf = (id: string, minutes: number, more: Partial<LoggedRequest> = {}): LoggedRequest => ({
  requestId: id,
  at: noon + minutes * minute + 1_000,
  seq: minutes,
  account: 'acct_anna',
  key: 'k1',
  model: 'sim/echo',
  provider: 'sim',
  stream: false,
  status: 200,
  code: null,
  ending: 'finished',
  promptTokens: 12,
  completionTokens: 3,
  cost: 5n,
  attempts: 1,
  firstByteMs: 10,
  totalMs: 1_000,
  detail: null,
  contents: null,
  tags: null,
  ...more,
})

describe('calls that may be one request', () => {
  test.each<[string, LoggedRequest[], string[][]]>([
    ['within ten minutes of each other', [callOf('b', 9), callOf('a', 0)], [['a', 'b']]],
    [
      'each within ten of the one before',
      [callOf('a', 0), callOf('b', 10), callOf('c', 20)],
      [['a', 'b', 'c']],
    ],
    ['not later', [callOf('a', 0), callOf('b', 11)], []],
    [
      'the newest first',
      [callOf('a', 0), callOf('b', 1), callOf('c', 60), callOf('d', 61)],
      [
        ['c', 'd'],
        ['a', 'b'],
      ],
    ],
    ['of one key', [callOf('a', 0), callOf('b', 1, { key: 'k2' })], []],
    ['of one model', [callOf('a', 0), callOf('b', 1, { model: 'sim/other' })], []],
    ['of one length', [callOf('a', 0), callOf('b', 1, { promptTokens: 13 })], []],
    [
      'others between them',
      [callOf('a', 0), callOf('x', 1, { promptTokens: 9 }), callOf('b', 2)],
      [['a', 'b']],
    ],
    [
      'one that failed',
      [callOf('a', 0, { code: 'upstream_timeout', status: 504, cost: 0n }), callOf('b', 1)],
      [['a', 'b']],
    ],
  ])('%s', (_, rows, sets) => {
    expect(alikeSets(rows).map((set) => set.map(({ requestId }) => requestId))).toEqual(sets)
  })
})

describe('what is said of them', () => {
  const of = (row: LoggedRequest, charged: bigint, body?: string) => ({
    row,
    record: { charged } as CallRecord,
    keyed: body === undefined ? undefined : { key: 'i', call: row.requestId, bodyHash: Buffer.from(body) },
  })
  const [a, b] = [callOf('a', 0), callOf('b', 1)]

  test.each([
    ['the same body was charged twice', [of(a, 5n, 'x'), of(b, 5n, 'x')], 'sent_again', []],
    ['without Idempotency-Keys nobody knows the bodies', [of(a, 5n), of(b, 5n)], 'look_alike', []],
    ['nor with one of one of them', [of(a, 5n, 'x'), of(b, 5n)], 'look_alike', []],
    ['other bodies are other requests', [of(a, 5n, 'x'), of(b, 5n, 'y')], 'different', ['body']],
    ['other models too', [of(a, 5n), of(callOf('b', 1, { model: 'sim/x' }), 5n)], 'different', ['model']],
    ['one of them was free', [of(a, 0n), of(b, 5n)], 'charged_once', []],
    ['all were', [of(a, 0n), of(b, 0n)], 'not_charged', []],
    ['one alone', [of(a, 5n)], 'one_call', []],
  ])('%s', (_, calls, verdict, differ) => {
    expect(verdictOf(calls)).toEqual({ verdict, differ } as never)
  })
})
